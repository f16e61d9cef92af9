// Hostile buffer files: mutations of the file, and mutations of the documents inside frames that
// are sealed again, so that zstd's checksum does not stop them. Each either loads, and then only
// values within the rules, or is an Error with a location.
#include <gtest/gtest.h>

#include "buffer/buffer_file.h"
#include "buffer/experience_buffer.h"
#include "core/error.h"
#include "formats/memory_fs.h"
#include "support/mutate.h"
#include "support/sample_groups.h"

namespace rl::testing {
namespace {

struct Outcome {
  int loaded = 0, refused = 0;
};

// Whatever was loaded obeys the rules: it can be written again.
void try_load(test::MemoryFs& fs, Outcome& outcome, uint64_t seed) {
  try {
    BufferFileReader file(fs, "f");
    while (const auto group = file.next()) EXPECT_FALSE(encode_group(*group).empty()) << seed;
    ++outcome.loaded;
  } catch (const Error& e) {
    ++outcome.refused;
    EXPECT_TRUE(e.code == Code::kDataLoss || e.code == Code::kIncompatible)
        << seed << ": " << code_name(e.code) << " " << e.message;
    EXPECT_FALSE(e.location.empty()) << seed << ": " << e.message;
  }
}

std::string golden() {
  return read_text_file(real_fs(), std::string(RL_FIXTURES) + "/buffer/version_1.rlbuf", 1 << 20);
}

TEST(BufferFuzz, MutatedFilesLoadOrAreNamedErrors) {
  test::MemoryFs fs;
  Outcome outcome;
  const int rounds = test::fuzz_rounds(1000);
  for (int seed = 0; seed < rounds; ++seed) {
    fs.files["f"] = test::mutate(golden(), static_cast<uint64_t>(seed));
    try_load(fs, outcome, static_cast<uint64_t>(seed));
  }
  EXPECT_GT(outcome.refused, rounds / 2);
}

struct Document {
  std::string kind, bytes;
};

std::vector<Document> documents_of(const std::string& file) {
  test::MemoryFs fs;
  fs.files["f"] = file;
  const auto input = fs.open("f");
  FrameReader reader(*input);
  std::vector<Document> out;
  while (const auto frame = reader.next()) {
    out.push_back({std::string(frame->kind_text()), text_of(frame->document)});
  }
  return out;
}

TEST(BufferFuzz, MutatedDocumentsInGoodFramesLoadOrAreNamedErrors) {
  const std::vector<Document> good = documents_of(golden());
  ASSERT_EQ(good.size(), 3u);
  test::MemoryFs fs;
  Outcome outcome;
  const int rounds = test::fuzz_rounds(1000);
  for (int seed = 0; seed < rounds; ++seed) {
    FrameText file(1);
    for (size_t i = 0; i < good.size(); ++i) {
      const bool mutated = i == static_cast<size_t>(seed) % good.size();
      const auto round = static_cast<uint64_t>(seed);
      file.add(good[i].kind, mutated ? test::mutate(good[i].bytes, round) : good[i].bytes);
    }
    fs.files["f"] = file.close();
    try_load(fs, outcome, static_cast<uint64_t>(seed));
  }
  // Both happen: a changed token is still a token, a changed offset is not an offset.
  EXPECT_GT(outcome.refused, rounds / 10);
  EXPECT_GT(outcome.loaded, rounds / 50);
}

}  // namespace
}  // namespace rl::testing
