// Checkpoints: a resumed run equals the uninterrupted one bit for bit, every damage is found and
// named, and a save that stops anywhere leaves a checkpoint that loads.
#include "train/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/hash.h"
#include "support/compute_dtypes.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "train/checkpoint/array_file.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

constexpr const char* kConfig = "0123456789abcdef";

TrainerOptions kl_options() {
  TrainerOptions o;
  o.max_tokens = 160;
  o.schedule = {ScheduleKind::kCosine, 1e-3, 1, 6, 0.0};
  o.adamw.weight_decay = 0.01;
  o.kl_in_loss = true;
  o.kl_coef = 0.1;
  o.batch.num_minibatches = 2;
  return o;
}

// Samples of step n with the log-probs of the present weights.
std::vector<Sample> samples_of(TrainRig& rig, unsigned step) {
  std::vector<Sample> samples = random_samples(12, rig.model().config().vocab, 50 + step);
  store_logprobs(rig, samples);
  return samples;
}

void run_step(TrainRig& rig, unsigned step) {
  const std::vector<Sample> samples = samples_of(rig, step);
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(m.logprob_max_abs_diff, 0.0);
  EXPECT_EQ(m.optimizer_steps, 2);
}

class ResumedRun : public ::testing::TestWithParam<Dtype> {};

TEST_P(ResumedRun, EqualsTheUninterruptedOne) {
  if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
    GTEST_SKIP() << "this CPU has no bf16 dot product";
  const RigOptions rig_options{
      .model = "qwen2", .compute = GetParam(), .threads = 2, .with_reference = true};
  const TempDir dir;
  TrainRig whole(rig_options, kl_options());
  for (unsigned step = 0; step < 2; ++step) run_step(whole, step);
  const std::string path = whole.trainer->save(
      real_fs(), dir.path(), {.step = 2, .config_digest = kConfig, .pipeline = R"({"cursor":24})"});
  run_step(whole, 2);

  TrainRig resumed(rig_options, kl_options());
  EXPECT_EQ(latest_checkpoint(real_fs(), dir.path()), path);
  const CheckpointMeta meta = resumed.trainer->load(real_fs(), path, kConfig);
  EXPECT_EQ(meta.step, 2);
  EXPECT_EQ(meta.pipeline, R"({"cursor":24})");
  EXPECT_EQ(resumed.model().version(), 2u);
  EXPECT_EQ(resumed.trainer->counters().optimizer_steps, 4);
  run_step(resumed, 2);
  EXPECT_TRUE(same_bits(resumed.masters(), whole.masters()));
  EXPECT_EQ(resumed.model().weight_digest(), whole.model().weight_digest());
  EXPECT_EQ(resumed.model().version(), whole.model().version());
}
INSTANTIATE_TEST_SUITE_P(Dtypes, ResumedRun, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

// A rig after one step, with that step saved in a directory.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : rig_({.model = "smollm2", .with_reference = true}, kl_options()) {
    run_step(rig_, 0);
    path_ = save(1);
  }
  std::string save(int64_t step, FileSystem& fs = real_fs(), int64_t keep_last = 0) {
    return rig_.trainer->save(fs, dir_.path(),
                              {.step = step, .config_digest = kConfig, .pipeline = "{}"},
                              {.keep_last = keep_last});
  }
  // Loading must fail, name the file, and change nothing.
  void expect_refused(const std::string& file, Code code = Code::kDataLoss) {
    const std::vector<float> masters = rig_.masters();
    const Error e = expect_error(code, [&] { rig_.trainer->load(real_fs(), path_, kConfig); });
    EXPECT_TRUE(contains(e.message, file));
    EXPECT_TRUE(contains(e.location, file));
    EXPECT_TRUE(same_bits(rig_.masters(), masters));
  }
  // As if it had been saved so: with its digest.
  void write_manifest_text(const std::string& text) {
    write_file_atomically(real_fs(), path_ + "/manifest.json", text);
    write_file_atomically(real_fs(), path_ + "/manifest.xxh64", hex64(digest64(text)));
  }

  TempDir dir_;
  TrainRig rig_;
  std::string path_;
};

void flip_bit(const std::string& file, uint64_t at) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(f.get() ^ 0x10);
  f.seekp(static_cast<std::streamoff>(at));
  f.put(byte);
}

TEST_F(CheckpointTest, AFlippedBitInAnyBlockIsFound) {
  for (const char* name : {"masters.safetensors", "first_moments.safetensors",
                           "second_moments.safetensors", "manifest.json", "manifest.xxh64"}) {
    const std::string file = path_ + "/" + name;
    const uint64_t bytes = std::filesystem::file_size(file);
    const std::string named = std::string(name).starts_with("manifest") ? "manifest" : name;
    const uint64_t step = std::max<uint64_t>(bytes / 8, 1);
    for (uint64_t at = 0; at < bytes; at += step) {
      flip_bit(file, at);
      expect_refused(named);
      flip_bit(file, at);
    }
    flip_bit(file, bytes - 1);
    expect_refused(named);
    flip_bit(file, bytes - 1);
  }
  rig_.trainer->load(real_fs(), path_, kConfig);
}

TEST_F(CheckpointTest, TruncatedLongerAndMissingFilesAreNamed) {
  const std::string file = path_ + "/first_moments.safetensors";
  const uint64_t bytes = std::filesystem::file_size(file);
  for (const uint64_t size : {uint64_t{0}, bytes / 2, bytes - 1, bytes + 1}) {
    std::filesystem::resize_file(file, size);
    expect_refused("first_moments.safetensors");
  }
  std::filesystem::remove(file);
  expect_refused("first_moments.safetensors");
  std::filesystem::rename(path_ + "/manifest.json", path_ + "/aside");
  expect_refused("manifest.json");
  std::filesystem::rename(path_ + "/aside", path_ + "/manifest.json");
  std::filesystem::remove(path_ + "/manifest.xxh64");
  expect_refused("manifest.xxh64");
  std::filesystem::remove(path_ + "/manifest.json");
  expect_refused("step_000001", Code::kNotFound);
  std::filesystem::remove_all(path_);
  expect_refused("step_000001", Code::kNotFound);
}

TEST_F(CheckpointTest, WhatIsNoDirectoryIsNoCheckpoint) {
  for (const std::string& path : {path_ + "/manifest.json", path_ + "/nothing"}) {
    const Error e =
        expect_error(Code::kNotFound, [&] { rig_.trainer->load(real_fs(), path, kConfig); });
    EXPECT_EQ(e.location, path);
    EXPECT_TRUE(contains(e.message, "is not a checkpoint directory"));
  }
}

TEST_F(CheckpointTest, AnotherConfigurationIsRefusedWithBothDigests) {
  const Error e = expect_error(Code::kIncompatible,
                               [&] { rig_.trainer->load(real_fs(), path_, "fedcba9876543210"); });
  EXPECT_TRUE(contains(e.message, kConfig));
  EXPECT_TRUE(contains(e.message, "fedcba9876543210"));
}

TEST_F(CheckpointTest, AnotherModelIsRefusedByTensor) {
  TrainRig other({.model = "llama", .with_reference = true}, kl_options());
  const std::vector<float> masters = other.masters();
  const Error e =
      expect_error(Code::kIncompatible, [&] { other.trainer->load(real_fs(), path_, kConfig); });
  EXPECT_TRUE(contains(e.message, "masters.safetensors"));
  EXPECT_FALSE(e.key.empty());
  EXPECT_TRUE(same_bits(other.masters(), masters));
}

TEST_F(CheckpointTest, ASaveThatFailsAnywhereLeavesTheOldOne) {
  run_step(rig_, 1);
  FaultFs counting;
  counting.arm({});
  save(2, counting);
  const int64_t operations = counting.operations();
  std::filesystem::remove_all(checkpoint_path(dir_.path(), 2));
  EXPECT_GT(operations, 20);

  int64_t kept_old = 0, new_in_place = 0;
  for (const bool for_ever : {false, true}) {
    for (int64_t at = 1; at <= operations; ++at) {
      FaultFs faulty;
      faulty.arm({.at = at, .for_ever = for_ever, .partial_bytes = 100});
      const Error e = expect_error(Code::kIo, [&] { save(2, faulty); });
      EXPECT_FALSE(e.location.empty());
      const auto latest = latest_checkpoint(real_fs(), dir_.path());
      ASSERT_TRUE(latest.has_value());
      TrainRig fresh({.model = "smollm2", .with_reference = true}, kl_options());
      const int64_t step = fresh.trainer->load(real_fs(), *latest, kConfig).step;
      (step == 1 ? kept_old : new_in_place) += 1;
      EXPECT_TRUE(step == 1 || step == 2);
      std::filesystem::remove_all(checkpoint_path(dir_.path(), 2));
    }
  }
  EXPECT_GT(kept_old, 0);
  EXPECT_GT(new_in_place, 0);  // the sync of the directory fails after the rename
  save(2);                     // leftovers are no obstacle, and are removed
  EXPECT_EQ(real_fs().list(dir_.path()), (std::vector<std::string>{"step_000001", "step_000002"}));
}

TEST_F(CheckpointTest, AStepIsSavedOnce) {
  const Error e = expect_error(Code::kAlreadyExists, [&] { save(1); });
  EXPECT_EQ(e.location, path_);
  rig_.trainer->load(real_fs(), path_, kConfig);
}

std::string bytes_of(const std::string& path) {
  return read_text_file(real_fs(), path + "/masters.safetensors", 1 << 26);
}

TEST_F(CheckpointTest, AReplacementKeepsTheOldOneUntilItIsWhole) {
  const CheckpointMeta meta{.step = 1, .config_digest = kConfig, .pipeline = "{}"};
  const std::string first = bytes_of(path_);
  run_step(rig_, 1);
  FaultFs counting;
  counting.arm({});
  rig_.trainer->save(counting, dir_.path(), meta, {.replace_existing = true});
  const std::string second = bytes_of(path_);
  EXPECT_NE(second, first);
  EXPECT_EQ(real_fs().list(dir_.path()), std::vector<std::string>{"step_000001"});
  const int64_t operations = counting.operations();
  for (int64_t at = 1; at <= operations; ++at) {
    SCOPED_TRACE(at);
    FaultFs faulty;
    faulty.arm({.at = at});
    expect_error(Code::kIo, [&] {
      rig_.trainer->save(faulty, dir_.path(), meta, {.replace_existing = true});
    });
    ASSERT_EQ(latest_checkpoint(real_fs(), dir_.path()), path_);
    EXPECT_EQ(bytes_of(path_), second);
  }
  rig_.trainer->save(real_fs(), dir_.path(), meta, {.replace_existing = true});
  EXPECT_EQ(real_fs().list(dir_.path()), std::vector<std::string>{"step_000001"});
  rig_.trainer->load(real_fs(), path_, kConfig);
}

// The process ends at any operation, between the two renames too: nothing after it happens.
TEST_F(CheckpointTest, AReplacementThatCrashesAnywhereLeavesOneThatLoads) {
  const CheckpointMeta meta{.step = 1, .config_digest = kConfig, .pipeline = "{}"};
  const auto replace = [&](FileSystem& fs) {
    rig_.trainer->save(fs, dir_.path(), meta, {.replace_existing = true});
  };
  FaultFs counting;
  counting.arm({});
  replace(counting);
  const int64_t operations = counting.operations();
  int64_t without_name = 0;
  for (int64_t at = 1; at <= operations; ++at) {
    SCOPED_TRACE(at);
    FaultFs faulty;
    faulty.arm({.at = at, .for_ever = true, .partial_bytes = 100});
    const Error e = expect_error(Code::kIo, [&] { replace(faulty); });
    if (!real_fs().exists(path_)) {
      ++without_name;
      EXPECT_TRUE(contains(e.message, path_ + ".partial")) << "what failed first: " << e.message;
    }
    ASSERT_EQ(latest_checkpoint(real_fs(), dir_.path()), path_);
    EXPECT_EQ(rig_.trainer->load(real_fs(), path_, kConfig).step, 1);
  }
  EXPECT_EQ(without_name, 1);
  replace(real_fs());
  real_fs().rename(path_, path_ + ".replaced");
  EXPECT_EQ(rig_.trainer->load(real_fs(), path_, kConfig).step, 1) << "also when it is named";
  replace(real_fs());
  EXPECT_EQ(real_fs().list(dir_.path()), std::vector<std::string>{"step_000001"});
}

// Reads are counted over all files: first those that verify, then those that fill the arrays.
TEST_F(CheckpointTest, ALoadThatFailsAnywhereLeavesTheWeights) {
  TrainRig other({.model = "smollm2", .with_reference = true}, kl_options());
  const std::vector<float> masters = other.masters();
  const uint64_t digest = other.model().weight_digest();
  FaultFs fs;
  fs.arm({});
  {
    TrainRig({.model = "smollm2", .with_reference = true}, kl_options())
        .trainer->load(fs, path_, kConfig);
  }
  const int64_t operations = fs.operations();
  int64_t lost = 0;
  for (int64_t at = 1; at <= operations; ++at) {
    SCOPED_TRACE(at);
    fs.arm({.at = at});
    expect_error(Code::kIo, [&] { other.trainer->load(fs, path_, kConfig); });
    ASSERT_TRUE(same_bits(other.masters(), masters));
    EXPECT_TRUE(std::ranges::all_of(other.trainer->gradients(), [](float g) { return g == 0; }));
    EXPECT_EQ(other.model().weight_digest(), digest);
    EXPECT_EQ(other.model().version(), 0u);
    try {
      other.trainer->publish();
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kFailedPrecondition);
      EXPECT_EQ(e.location, path_);
      ++lost;
    }
  }
  EXPECT_GT(lost, 2);
  EXPECT_LT(lost, operations) << "what fails before the arrays change loses nothing";
  const std::vector<Sample> samples = random_samples(4, other.model().config().vocab, 1);
  expect_error(Code::kFailedPrecondition, [&] { other.trainer->step(with_advantages(samples)); });
  expect_error(Code::kFailedPrecondition, [&] {
    other.trainer->save(real_fs(), dir_.path(),
                        {.step = 9, .config_digest = kConfig, .pipeline = "{}"});
  });
  other.trainer->load(real_fs(), path_, kConfig);
  run_step(rig_, 1);
  run_step(other, 1);
  EXPECT_TRUE(same_bits(other.masters(), rig_.masters()));
}

// A directory whose file gives another byte once it has been opened so many times.
class ChangingFs : public FaultFs {
 public:
  ChangingFs(std::string name, int after) : name_(std::move(name)), after_(after) {}
  int opened() const { return opened_; }
  std::unique_ptr<InputFile> open(const std::string& path) override {
    if (path.ends_with(name_) && ++opened_ > after_)
      return std::make_unique<Changed>(real_fs().open(path));
    return FaultFs::open(path);
  }

 private:
  class Changed : public InputFile {
   public:
    explicit Changed(std::unique_ptr<InputFile> file) : file_(std::move(file)) {}
    uint64_t size() const override { return file_->size(); }
    const std::string& path() const override { return file_->path(); }
    void read_at(uint64_t offset, std::span<std::byte> out) const override {
      file_->read_at(offset, out);
      const uint64_t last = size() - 1;
      if (last >= offset && last - offset < out.size()) out[last - offset] ^= std::byte{0x10};
    }

   private:
    std::unique_ptr<InputFile> file_;
  };

  std::string name_;
  int after_, opened_ = 0;
};

// The last time it is opened is when it is read into the arrays, after all of it was verified.
TEST_F(CheckpointTest, AFileThatChangesAfterItWasVerifiedIsFound) {
  for (const char* name : {"/masters.safetensors", "/first_moments.safetensors"}) {
    SCOPED_TRACE(name);
    TrainRig other({.model = "smollm2", .with_reference = true}, kl_options());
    ChangingFs counting(name, 1000);
    other.trainer->load(counting, path_, kConfig);
    const std::vector<float> masters = other.masters();
    ASSERT_GT(counting.opened(), 1);
    ChangingFs changing(name, counting.opened() - 1);
    const Error e =
        expect_error(Code::kDataLoss, [&] { other.trainer->load(changing, path_, kConfig); });
    EXPECT_TRUE(contains(e.message, "it changed while it was read"));
    EXPECT_TRUE(contains(e.location, name));
    EXPECT_TRUE(same_bits(other.masters(), masters));
  }
}

// Weights that were trained after the save, counters and what awaits publication: nothing stays.
TEST_F(CheckpointTest, ALoadReplacesWhatTheLearnerHas) {
  TrainRig other({.model = "smollm2", .with_reference = true}, kl_options());
  std::vector<Sample> samples = samples_of(other, 1);
  std::vector<TrainSample> bad = with_advantages(samples);
  for (TrainSample& s : bad) s.advantage = NAN;
  for (int i = 0; i < 2; ++i) other.trainer->step(bad);
  ASSERT_EQ(other.trainer->counters().skipped_steps, 4);
  run_step(other, 1);
  const std::string path = other.trainer->save(
      real_fs(), dir_.path(), {.step = 7, .config_digest = kConfig, .pipeline = "{}"});

  rig_.trainer->train(with_advantages(samples));  // moves masters that nobody publishes
  rig_.trainer->load(real_fs(), path, kConfig);
  EXPECT_EQ(rig_.trainer->counters().skipped_steps, 4);
  EXPECT_EQ(rig_.trainer->counters().optimizer_steps, 2);
  EXPECT_TRUE(std::ranges::all_of(rig_.trainer->gradients(), [](float g) { return g == 0; }));
  EXPECT_EQ(rig_.trainer->trained_version(), 1u);
  EXPECT_EQ(rig_.trainer->publish(), 1u);
  EXPECT_EQ(rig_.model().weight_digest(), other.model().weight_digest());
  run_step(rig_, 2);
  run_step(other, 2);
  EXPECT_TRUE(same_bits(rig_.masters(), other.masters()));
}

TEST_F(CheckpointTest, LaterStepsAreSetAsideAndNeverTheLatest) {
  for (int round = 0; round < 2; ++round) {
    save(2);
    save(3);
    abandon_later_checkpoints(real_fs(), dir_.path(), 1);
    EXPECT_EQ(latest_checkpoint(real_fs(), dir_.path()), path_);
  }
  save(4);
  EXPECT_EQ(real_fs().list(dir_.path()),
            (std::vector<std::string>{"step_000001", "step_000002.abandoned",
                                      "step_000003.abandoned", "step_000004"}));
  EXPECT_EQ(read_checkpoint_meta(real_fs(), path_, kConfig).step, 1);
  expect_error(Code::kIncompatible, [&] { read_checkpoint_meta(real_fs(), path_, "other"); });
}

// A crash after the last rename of a replacement leaves the old one behind. Its name must not come
// back to life when its successor is set aside.
TEST_F(CheckpointTest, AReplacedOneDoesNotReturnWhenItsSuccessorIsAbandoned) {
  save(3);
  std::filesystem::copy(dir_.file("step_000003"), dir_.file("step_000003.replaced"));
  abandon_later_checkpoints(real_fs(), dir_.path(), 1);
  EXPECT_EQ(latest_checkpoint(real_fs(), dir_.path()), path_);
  EXPECT_EQ(real_fs().list(dir_.path()),
            (std::vector<std::string>{"step_000001", "step_000003.abandoned"}));
}

TEST_F(CheckpointTest, KeepLastRemovesTheOldest) {
  save(2);
  save(10);
  save(11, real_fs(), 2);
  EXPECT_EQ(real_fs().list(dir_.path()), (std::vector<std::string>{"step_000010", "step_000011"}));
}

TEST_F(CheckpointTest, LeftoversGoWithTheNextSave) {
  for (const char* name : {"step_000009.partial", "step_000009.removed"}) {
    real_fs().make_directories(dir_.file(name));
  }
  save(2);
  EXPECT_EQ(real_fs().list(dir_.path()), (std::vector<std::string>{"step_000001", "step_000002"}));
}

// Digests have one spelling.
TEST_F(CheckpointTest, ADigestInCapitalsIsNamed) {
  std::string text = read_text_file(real_fs(), path_ + "/manifest.json", 1 << 20);
  const std::string key = "\"xxh64\": \"";
  bool changed = false;
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    for (size_t i = at + key.size(); text[i] != '"'; ++i) {
      if (text[i] < 'a') continue;
      text[i] = static_cast<char>(text[i] - 'a' + 'A');
      changed = true;
    }
  }
  ASSERT_TRUE(changed);
  write_manifest_text(text);
  EXPECT_EQ(
      expect_error(Code::kDataLoss, [&] { rig_.trainer->load(real_fs(), path_, kConfig); }).key,
      "xxh64");
}

TEST_F(CheckpointTest, ACountThatNoCounterHoldsIsNamed) {
  std::string text = read_text_file(real_fs(), path_ + "/manifest.json", 1 << 20);
  const std::string key = "\"skipped_steps\": ";
  const size_t at = text.find(key);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, key.size() + 1, key + "9223372036854775808");
  write_manifest_text(text);
  const Error e =
      expect_error(Code::kDataLoss, [&] { rig_.trainer->load(real_fs(), path_, kConfig); });
  EXPECT_EQ(e.key, "skipped_steps");
  EXPECT_EQ(e.location, path_ + "/manifest.json");
}

TEST_F(CheckpointTest, ATensorThatTheModelHasNotIsRefused) {
  ModelConfig smaller = rig_.model().config();
  --smaller.layers;
  const std::string file = path_ + "/masters.safetensors";
  check_array_file(real_fs(), file, rig_.model().layout());
  const Error e = expect_error(Code::kIncompatible,
                               [&] { check_array_file(real_fs(), file, WeightLayout(smaller)); });
  EXPECT_EQ(e.location, file);
}

TEST_F(CheckpointTest, LatestPassesOverForeignNames) {
  for (const char* name : {"step_000009.partial", "step_000009.removed", "step_000009.abandoned",
                           "step_9", "step_00000a", "step_-00001", "notes", "step_"}) {
    real_fs().make_directories(dir_.file(name));
  }
  EXPECT_EQ(latest_checkpoint(real_fs(), dir_.path()), path_);
  save(1234567);
  EXPECT_EQ(latest_checkpoint(real_fs(), dir_.path()), dir_.file("step_1234567"));
  EXPECT_EQ(latest_checkpoint(real_fs(), dir_.file("nothing here")), std::nullopt);
  EXPECT_TRUE(real_fs().exists(dir_.file("notes")));
}

TEST_F(CheckpointTest, BadArgumentsAreNamed) {
  expect_error(Code::kOutOfRange, [&] { save(-1); });
  expect_error(Code::kOutOfRange, [&] { save(5, real_fs(), -1); });
  expect_error(Code::kInvalidArgument, [&] {
    rig_.trainer->save(real_fs(), dir_.path(),
                       {.step = 5, .config_digest = kConfig, .pipeline = "\xff"});
  });
  EXPECT_EQ(latest_checkpoint(real_fs(), dir_.path()), path_);
}

}  // namespace
}  // namespace rl::testing
