// Hostile checkpoints: one whose files were cut, mutated, exchanged or removed is refused by name
// and leaves the trainer's weights, or its bytes are the original's and it loads exactly that.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "core/hash.h"
#include "formats/memory_fs.h"
#include "support/mutate.h"
#include "support/temp_dir.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

constexpr const char* kConfig = "0123456789abcdef";
constexpr const char* kDir = "step_000001";
using Files = std::map<std::string, std::string>;

TrainerOptions options() {
  TrainerOptions o;
  o.max_tokens = 64;
  return o;
}

class CheckpointFuzz : public ::testing::Test {
 protected:
  CheckpointFuzz() : rig_({.model = "smollm2"}, options()) {
    TrainRig saved({.model = "smollm2"}, options());
    const std::vector<Sample> samples = random_samples(2, saved.model().config().vocab, 7);
    std::vector<Sample> with = samples;
    store_logprobs(saved, with);
    saved.trainer->step(with_advantages(with));
    original_ = save(saved);
    masters_ = saved.masters();
    before_ = rig_.masters();
  }

  // The files of a checkpoint of the rig's state.
  static Files save(TrainRig& rig) {
    const TempDir dir;
    const std::string path = rig.trainer->save(
        real_fs(), dir.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"}, {});
    Files files;
    for (const std::string& name : real_fs().list(path)) {
      files[str(kDir, "/", name)] = read_text_file(real_fs(), str(path, "/", name), 1 << 26);
    }
    return files;
  }

  // True if it loads. A forged one has digests that fit what was changed, so that its numbers may
  // be others, but never its arrays.
  bool loads(const Files& files, bool forged = false) {
    test::MemoryFs fs;
    fs.files = files;
    try {
      rig_.trainer->load(fs, kDir, kConfig);
    } catch (const Error& e) {
      EXPECT_TRUE(e.location.starts_with(kDir)) << e.message;
      EXPECT_TRUE(e.code == Code::kDataLoss || e.code == Code::kIncompatible ||
                  e.code == Code::kResourceExhausted)
          << code_name(e.code) << ": " << e.message;
      EXPECT_TRUE(same_bits(rig_.masters(), before_)) << e.message;
      ++refused_;
      return false;
    }
    EXPECT_TRUE(same_bits(rig_.masters(), masters_));
    if (!forged) {
      EXPECT_EQ(files, original_) << "something else was loaded";
      EXPECT_EQ(save(rig_), original_);
    }
    std::ranges::copy(before_, rig_.model().master());
    ++loaded_;
    return true;
  }

  std::string& file(Files& files, size_t index) {
    return std::next(files.begin(), static_cast<std::ptrdiff_t>(index % files.size()))->second;
  }

  TrainRig rig_;
  Files original_;
  std::vector<float> masters_, before_;
  int loaded_ = 0, refused_ = 0;
};

TEST_F(CheckpointFuzz, TheOriginalLoads) {
  EXPECT_EQ(original_.size(), 5u);
  EXPECT_FALSE(same_bits(masters_, before_));
  EXPECT_TRUE(loads(original_));
}

TEST_F(CheckpointFuzz, FilesThatAreMissingOrExchangedAreRefused) {
  for (const auto& [name, text] : original_) {
    SCOPED_TRACE(name);
    Files files = original_;
    files.erase(name);
    EXPECT_FALSE(loads(files));
    for (const auto& [other, content] : original_) {
      files[name] = content;
      EXPECT_EQ(loads(files), name == other);
    }
  }
}

TEST_F(CheckpointFuzz, FilesOfAnyLengthAreRefused) {
  for (size_t i = 0; i < original_.size(); ++i) {
    Files files = original_;
    std::string& changed = file(files, i);
    const std::string whole = changed;
    for (size_t part = 0; part < 64; ++part) {
      changed = whole.substr(0, whole.size() * part / 64);
      EXPECT_FALSE(loads(files));
    }
    changed = whole + '\0';
    EXPECT_FALSE(loads(files));
  }
}

TEST_F(CheckpointFuzz, MutatedFilesAreRefusedOrAreTheOriginal) {
  const int rounds = test::fuzz_rounds(600);
  for (int seed = 0; seed < rounds && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Files files = original_;
    std::string& changed = file(files, static_cast<size_t>(seed));
    changed = test::mutate(changed, static_cast<uint64_t>(seed));
    loads(files);
  }
  std::cout << loaded_ << " loaded, " << refused_ << " refused\n";
  EXPECT_GT(refused_, rounds * 9 / 10);
}

// The manifest's text comes with its digest, so that its reader is what has to refuse it.
TEST_F(CheckpointFuzz, ForgedManifestsAreRefusedOrHaveTheSameArrays) {
  const int rounds = test::fuzz_rounds(600);
  const std::string name = str(kDir, "/manifest.json");
  for (int seed = 0; seed < rounds && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Files files = original_;
    files[name] = test::mutate(original_[name], static_cast<uint64_t>(seed));
    files[str(kDir, "/manifest.xxh64")] = hex64(digest64(files[name]));
    loads(files, true);
  }
  std::cout << loaded_ << " loaded, " << refused_ << " refused\n";
  EXPECT_GT(refused_, rounds / 2);
}

}  // namespace
}  // namespace rl::testing
