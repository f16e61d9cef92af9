// Complete groups in files: the buffer is the same one to its callers, its counts are exact after a
// restart, and a file operation that fails changes nothing.
#include "buffer/group_spill.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "buffer/experience_buffer.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/sample_groups.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

constexpr int64_t kSize = 2;

class Spill : public ::testing::Test {
 protected:
  // A buffer whose complete groups are in files.
  struct Spilled {
    Spilled(FileSystem& fs, const std::string& dir, int64_t units = 1)
        : spill(fs, dir, {.num_units = units}), buffer(kSize, 100) {
      buffer.spill_to(spill);
    }
    GroupSpill spill;
    ExperienceBuffer buffer;
  };
  std::unique_ptr<Spilled> open(int64_t units = 1) {
    return std::make_unique<Spilled>(fs_, dir_.file("spill"), units);
  }
  static void put(ExperienceBuffer& buffer, uint64_t ordinal) {
    buffer.put_all(random_group(ordinal, kSize).samples);
  }
  static bool has(const std::vector<SamplePtr>& batch, size_t at, uint64_t ordinal) {
    return batch.size() >= at + kSize &&
           same_group({ordinal, {batch[at], batch[at + 1]}}, random_group(ordinal, kSize));
  }
  int64_t num_files() const {
    int64_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.file("spill"))) {
      count += entry.path().extension() == ".rlbuf";
    }
    return count;
  }

  TempDir dir_;
  FaultFs fs_;
};

TEST_F(Spill, GroupsComeBackAsTheyWere) {
  const auto s = open(3);
  for (const uint64_t ordinal : {4, 1, 7}) put(s->buffer, ordinal);
  s->buffer.put(random_sample(9, 0, 1));
  EXPECT_EQ(num_files(), 3);
  EXPECT_EQ(s->buffer.num_spilled(), 3);
  expect_error(Code::kDuplicate, [&] { put(s->buffer, 4); });
  const BufferCounts counts = s->buffer.counts();
  EXPECT_EQ(counts.held, 7);
  EXPECT_EQ(counts.whole_groups, 3);
  const std::vector<SamplePtr> batch = s->buffer.take(2);
  EXPECT_TRUE(has(batch, 0, 1));
  EXPECT_TRUE(has(batch, 2, 4));
  EXPECT_EQ(num_files(), 1);
  int64_t visited = 0;
  s->buffer.visit(
      [&](const Group& group) { visited += static_cast<int64_t>(group.samples.size()); });
  EXPECT_EQ(visited, 3);
  EXPECT_EQ(s->buffer.drop({}), 3);
  EXPECT_EQ(num_files(), 0);
}

TEST_F(Spill, ABufferThatIsMadeLaterBeginsWithTheGroups) {
  {
    const auto before = open(3);
    for (uint64_t ordinal = 0; ordinal < 4; ++ordinal) put(before->buffer, ordinal);
    before->buffer.put(random_sample(9, 0, 1));
    before->buffer.take(1);
  }
  const auto s = open(1);
  const BufferCounts counts = s->buffer.counts();
  EXPECT_EQ(counts.held, 6) << "a sample of an incomplete group is in memory alone";
  EXPECT_EQ(counts.put, 6);
  EXPECT_EQ(counts.whole_groups, 3);
  EXPECT_EQ(s->buffer.drop({.below_version = ~uint64_t{0}}), 6) << "versions are known";
  put(s->buffer, 3);
  EXPECT_TRUE(has(s->buffer.take(1), 0, 3));
}

TEST_F(Spill, GroupsOfAnotherSizeAndTooManyAreRefused) {
  {
    const auto before = open();
    for (uint64_t ordinal = 0; ordinal < 3; ++ordinal) put(before->buffer, ordinal);
  }
  GroupSpill spill(fs_, dir_.file("spill"), {});
  ExperienceBuffer larger(3, 100), small(kSize, 4);
  EXPECT_EQ(expect_error(Code::kIncompatible, [&] { larger.spill_to(spill); }).key,
            "pipeline.samples_per_prompt");
  EXPECT_EQ(expect_error(Code::kResourceExhausted, [&] { small.spill_to(spill); }).key,
            "buffer.spill_path");
}

TEST_F(Spill, ADamagedFileIsSetAsideAndItsGroupDropped) {
  const auto s = open();
  put(s->buffer, 0);
  put(s->buffer, 1);
  const std::string path = dir_.file("spill/unit_0000/00000000000000000000.rlbuf");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const Error error = expect_error(Code::kDataLoss, [&] { s->buffer.take(1); });
  EXPECT_TRUE(contains(error.location, path + " offset "));
  EXPECT_TRUE(std::filesystem::exists(path + ".damaged"));
  EXPECT_EQ(s->buffer.counts().dropped, kSize);
  EXPECT_EQ(s->buffer.counts().whole_groups, 1);
  EXPECT_TRUE(has(s->buffer.take(1), 0, 1));
}

// Every operation of a put and a take fails once: the counts add up, and what a call did not do can
// be done again.
TEST_F(Spill, AFailureLosesNothing) {
  for (int64_t at = 1; at < 200; ++at) {
    SCOPED_TRACE(at);
    std::filesystem::remove_all(dir_.file("spill"));
    const auto s = open(2);
    put(s->buffer, 0);
    std::vector<SamplePtr> both = random_group(1, kSize).samples;
    for (const SamplePtr& sample : random_group(2, kSize).samples) both.push_back(sample);
    fs_.arm({.at = at});
    bool failed = false;
    std::vector<SamplePtr> batch;
    try {
      s->buffer.put_all(both);
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kIo);
      EXPECT_EQ(s->buffer.num_samples(), kSize);
      failed = true;
      s->buffer.put_all(both);
    }
    try {
      batch = s->buffer.take(3);
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kIo);
      EXPECT_EQ(s->buffer.num_whole_groups(), 3);
      failed = true;
      batch = s->buffer.take(3);
    }
    fs_.arm({});
    for (uint64_t ordinal = 0; ordinal < 3; ++ordinal) {
      EXPECT_TRUE(has(batch, 2 * ordinal, ordinal));
    }
    EXPECT_EQ(num_files(), 0);
    const BufferCounts counts = s->buffer.counts();
    EXPECT_EQ(counts.put, counts.taken);
    if (!failed) return;
  }
  FAIL() << "200 operations are too many";
}

}  // namespace
}  // namespace rl::testing
