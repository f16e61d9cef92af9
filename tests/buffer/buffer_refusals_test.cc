// What buffers and their files refuse: every error with its place, the numbers seen and the limits.
#include <gtest/gtest.h>

#include <fstream>

#include "buffer/buffer_file.h"
#include "buffer/experience_buffer.h"
#include "core/error.h"
#include "support/expect_error.h"
#include "support/sample_groups.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

SamplePtr sample_of(uint64_t ordinal, uint32_t slot) { return random_sample(ordinal, slot, 1); }

std::vector<std::pair<uint64_t, uint32_t>> places_in(const ExperienceBuffer& buffer) {
  std::vector<std::pair<uint64_t, uint32_t>> out;
  buffer.visit([&](const Group& group) {
    for (const SamplePtr& s : group.samples) out.emplace_back(group.ordinal, s->slot);
  });
  return out;
}

using Places = std::vector<std::pair<uint64_t, uint32_t>>;

TEST(BufferSizes, AGroupHasOneTo65536Samples) {
  for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{65537}}) {
    const Error e = expect_error(Code::kOutOfRange, [&] { ExperienceBuffer b(size, 100'000); });
    EXPECT_EQ(e.key, "group_size");
    EXPECT_EQ(e.message, str("group size ", size, " is outside 1..65536"));
  }
  EXPECT_EQ(ExperienceBuffer(1, 1).group_size(), 1);
  EXPECT_EQ(ExperienceBuffer(65536, 65536).group_size(), 65536);
}

TEST(BufferSizes, ABufferHoldsAtLeastOneGroup) {
  const Error e = expect_error(Code::kOutOfRange, [] { ExperienceBuffer b(3, 2); });
  EXPECT_EQ(e.key, "max_samples") << "the parameter of rl_buffer_create";
  EXPECT_EQ(e.message, "max_samples is 2, too small for one group of 3");
  const ExperienceBuffer b(3, 5);
  EXPECT_EQ(b.capacity(), 5);
  EXPECT_EQ(b.group_size(), 3);
}

TEST(BufferRefusals, ASampleIsNamedWithWhatIsWrong) {
  ExperienceBuffer buffer(2, 3);
  const auto refused = [&](Code code, const SamplePtr& s) {
    return expect_error(code, [&] { buffer.put(s); });
  };
  EXPECT_EQ(refused(Code::kInvalidArgument, nullptr).message, "the sample is null");
  SamplePtr s = sample_of(5, 1);
  s->purpose = Purpose::kEval;
  EXPECT_EQ(refused(Code::kInvalidArgument, s).message,
            "sample 5002 (ordinal 5, slot 1) is an evaluation sample");
  s = sample_of(5, 1);
  s->scored = false;
  s->reward = 0;
  EXPECT_EQ(refused(Code::kFailedPrecondition, s).message,
            "sample 5002 (ordinal 5, slot 1) is not scored");
  s = sample_of(5, 1);
  s->reward = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refused(Code::kNonFinite, s).message,
            "the reward of sample 5002 (ordinal 5, slot 1) is inf");
  const Error slot = refused(Code::kOutOfRange, sample_of(5, 2));
  EXPECT_EQ(slot.message, "sample 5003 (ordinal 5, slot 2) does not fit into groups of 2");
  EXPECT_EQ(slot.expected, "slot 0..1");
  EXPECT_EQ(buffer.num_samples(), 0);
  buffer.put_all({sample_of(5, 1), sample_of(6, 0)});
  EXPECT_EQ(refused(Code::kDuplicate, sample_of(5, 1)).message,
            "ordinal 5, slot 1 is already in the buffer");
  buffer.put(sample_of(5, 0));
  EXPECT_EQ(refused(Code::kResourceExhausted, sample_of(7, 0)).message,
            "the buffer is full: it holds 3 samples");
  EXPECT_EQ(places_in(buffer), (Places{{5, 0}, {5, 1}, {6, 0}}));
}

TEST(BufferRefusals, GivenResponsesNeedNoScores) {
  ExperienceBuffer buffer(2, 4, false);
  const SamplePtr s = sample_of(5, 1);
  s->scored = false;
  s->reward = 0;
  buffer.put(s);
  EXPECT_EQ(buffer.num_samples(), 1);
}

// The error's key is that of the sample's own rule as long as the samples have no name.
TEST(BufferRefusals, OneOfManySamplesIsNamedByItsIndex) {
  ExperienceBuffer buffer(2, 10);
  buffer.put(sample_of(5, 1));
  const auto put = [&](std::string_view name, const SamplePtr& last) {
    return expect_error(Code::kInvalidArgument, [&] {
      buffer.put_all({sample_of(5, 0), sample_of(6, 1), last}, name);
    });
  };
  const SamplePtr bad = sample_of(7, 0);
  bad->data_row = -2;
  const char* const what = "sample 7001 (ordinal 7, slot 0): data_row is -2";
  Error e = put("batch", bad);
  EXPECT_EQ(e.key, "batch[2]");
  EXPECT_EQ(e.message, str("batch[2]: ", what));
  e = put("", bad);
  EXPECT_EQ(e.key, "data_row");
  EXPECT_EQ(e.message, what);
  EXPECT_EQ(put("batch", nullptr).message, "batch[2]: the sample is null");
  EXPECT_EQ(places_in(buffer), (Places{{5, 1}})) << "a group that was there before keeps its own";
  EXPECT_EQ(buffer.num_samples(), 1);
}

TEST(BufferTakes, WholeGroupsAreTakenInOrderAndOthersStay) {
  ExperienceBuffer buffer(2, 10);
  buffer.put_all(
      {sample_of(9, 0), sample_of(9, 1), sample_of(3, 1), sample_of(7, 1), sample_of(7, 0)});
  EXPECT_TRUE(buffer.take(0).empty());
  const std::vector<SamplePtr> batch = buffer.take(5);
  Places taken;
  for (const SamplePtr& s : batch) taken.emplace_back(s->ordinal, s->slot);
  EXPECT_EQ(taken, (Places{{7, 0}, {7, 1}, {9, 0}, {9, 1}}));
  EXPECT_EQ(places_in(buffer), (Places{{3, 1}}));
  EXPECT_EQ(buffer.num_samples(), 1);
  EXPECT_EQ(buffer.num_whole_groups(), 0);
  buffer.erase(3);
  EXPECT_EQ(buffer.num_samples(), 0);
  EXPECT_TRUE(places_in(buffer).empty());
}

class BufferFileRefusals : public ::testing::Test {
 protected:
  static ModelIdentity identity() {
    ModelIdentity m;
    m.family = "llama";
    m.compute_dtype = "fp32";
    m.vocab = kSampleVocab;
    m.weight_digest = 0x00c0ffee00c0ffee;
    return m;
  }
  static BufferInfo info_of(int64_t group_size) {
    BufferInfo info;
    info.group_size = group_size;
    info.model = identity();
    return info;
  }
  void write(const BufferInfo& info, const std::vector<Group>& groups) {
    BufferFileWriter writer(real_fs(), path_, info, {.replace_existing = true});
    for (const Group& group : groups) writer.append(group);
    writer.commit();
  }
  Error load_refused(Code code, ExperienceBuffer& buffer, const ModelIdentity* model = nullptr) {
    return expect_error(code, [&] { load_buffer(real_fs(), path_, buffer, model); });
  }

  TempDir dir_;
  const std::string path_ = dir_.file("a.rlbuf");
};

TEST_F(BufferFileRefusals, AnExistingFileIsNamed) {
  write(info_of(2), {});
  const Error e = expect_error(Code::kAlreadyExists,
                               [&] { BufferFileWriter writer(real_fs(), path_, info_of(2), {}); });
  EXPECT_EQ(e.location, path_);
  EXPECT_EQ(e.message, path_ + " already exists");
}

TEST_F(BufferFileRefusals, OtherWeightsAreNamedWithThoseOfTheFileFirst) {
  write(info_of(2), {random_group(0, 2)});
  ExperienceBuffer buffer(2, 10);
  ModelIdentity model = identity();
  model.weight_digest = 0x1111;
  Error e = load_refused(Code::kIncompatible, buffer, &model);
  EXPECT_EQ(e.location, path_);
  EXPECT_EQ(e.message, path_ +
                           " starts from weights with digest 00c0ffee00c0ffee, but the model's "
                           "digest is 0000000000001111");
  model = identity();
  model.compute_dtype = "bf16";
  e = load_refused(Code::kIncompatible, buffer, &model);
  EXPECT_EQ(e.location, path_);
  EXPECT_EQ(e.message, path_ +
                           " was recorded by a model that computes in fp32, but this one "
                           "computes in bf16");
  BufferInfo unknown = info_of(2);
  unknown.model.reset();
  write(unknown, {});
  e = load_refused(Code::kIncompatible, buffer, &model);
  EXPECT_EQ(e.location, path_);
  EXPECT_EQ(e.message, path_ + " does not say which weights training starts from");
}

TEST_F(BufferFileRefusals, AnotherGroupSizeIsNamedWithThatOfTheFileFirst) {
  write(info_of(2), {random_group(0, 2)});
  ExperienceBuffer buffer(3, 10);
  const Error e = load_refused(Code::kIncompatible, buffer);
  EXPECT_EQ(e.key, "pipeline.samples_per_prompt");
  EXPECT_EQ(e.expected, "2");
  EXPECT_EQ(e.location, path_);
  EXPECT_EQ(e.message, path_ + " has groups of 2 samples, but the buffer's groups have 3");
}

TEST_F(BufferFileRefusals, MoreSamplesThanThereIsRoomForAreRefused) {
  write(info_of(2), {random_group(0, 2), random_group(1, 2)});
  ExperienceBuffer buffer(2, 4);
  buffer.put(sample_of(9, 0));
  const Error e = load_refused(Code::kResourceExhausted, buffer);
  EXPECT_EQ(e.location, path_);
  EXPECT_EQ(e.message, path_ + " has more samples than the 3 that the buffer has room for");
  ExperienceBuffer exact(2, 4);
  EXPECT_EQ(load_buffer(real_fs(), path_, exact, nullptr), 4);
}

TEST_F(BufferFileRefusals, ASampleThatTheBufferRefusesIsNamedWithTheFile) {
  write(info_of(2), {random_group(0, 2)});
  ExperienceBuffer buffer(2, 10);
  buffer.put(sample_of(0, 1));
  const Error e = load_refused(Code::kDuplicate, buffer);
  EXPECT_EQ(e.location, path_);
  EXPECT_EQ(e.message, path_ + ": ordinal 0, slot 1 is already in the buffer");
}

// The place is that of the group's frame.
TEST_F(BufferFileRefusals, IdsAndSlotsBeyondTheInfoAreNamedWithTheirFrame) {
  const auto refused = [&](const Group& group) {
    FrameText file;
    file.add(kBufferInfoKind, encode_buffer_info(info_of(2)));
    const size_t at = file.text().size();
    file.add(kGroupKind, encode_group(group));
    std::ofstream(path_, std::ios::binary) << file.close();
    BufferFileReader reader(real_fs(), path_);
    const Error e = expect_error(Code::kDataLoss, [&] { reader.next(); });
    EXPECT_EQ(e.location, str(path_, " offset ", at));
    EXPECT_TRUE(e.message.starts_with(e.location + ": sample ")) << e.message;
    return e;
  };
  Group group = random_group(0, 2);
  group.samples[0]->ids.front() = kSampleVocab + 3;
  Error e = refused(group);
  EXPECT_EQ(e.key, "ids");
  EXPECT_TRUE(contains(e.message,
                       "sample 1 (ordinal 0, slot 0): id 259 is outside the vocabulary "
                       "of 256"));
  group = random_group(0, 2);
  group.samples[1]->top_ids.back() = kSampleVocab;
  e = refused(group);
  EXPECT_EQ(e.key, "top_ids");
  EXPECT_TRUE(contains(e.message, "sample 2 (ordinal 0, slot 1): id 256"));
  e = refused(random_group(0, 3));
  EXPECT_EQ(e.key, "slot");
  EXPECT_TRUE(contains(e.message, "sample 3 (ordinal 0, slot 2): slot 2 is outside groups of 2"));
}

TEST_F(BufferFileRefusals, AWriterNamesTheSampleAndNoFile) {
  Group group = random_group(0, 2);
  group.samples[0]->ids.front() = kSampleVocab;
  BufferFileWriter writer(real_fs(), path_, info_of(2), {});
  const Error e = expect_error(Code::kInvalidArgument, [&] { writer.append(group); });
  EXPECT_EQ(e.location, "");
  EXPECT_EQ(e.message, "sample 1 (ordinal 0, slot 0): id 256 is outside the vocabulary of 256");
}

TEST_F(BufferFileRefusals, FramesOfAnotherKindAreNamedWithTheirOffset) {
  const auto refused = [&](const std::string& file) {
    std::ofstream(path_, std::ios::binary) << file;
    return expect_error(Code::kDataLoss, [&] {
      BufferFileReader reader(real_fs(), path_);
      while (reader.next()) {
      }
    });
  };
  const std::vector<std::byte> info = encode_buffer_info(info_of(2));
  const std::vector<std::byte> group = encode_group(random_group(0, 2));
  Error e = refused(FrameText().close());
  EXPECT_EQ(e.location, path_ + " offset 0");
  e = refused(FrameText().add(kGroupKind, group).close());
  EXPECT_EQ(e.location, path_ + " offset 16");
  EXPECT_EQ(e.message, e.location + ": the first frame is not a RLBI");
  FrameText file;
  file.add(kBufferInfoKind, info).add(kGroupKind, group);
  const size_t at = file.text().size();
  e = refused(file.add(kBufferInfoKind, info).close());
  EXPECT_EQ(e.location, str(path_, " offset ", at));
  EXPECT_EQ(e.message, e.location + ": the frame is not a RLSG");
  FrameText broken;
  broken.add(kBufferInfoKind, info);
  const size_t second = broken.text().size();
  e = refused(broken.add(kGroupKind, info).close());
  EXPECT_EQ(e.location, str(path_, " offset ", second));
}

TEST_F(BufferFileRefusals, ASavedBufferTellsItsOwnGroupSize) {
  ExperienceBuffer buffer(2, 4);
  buffer.put(sample_of(0, 0));
  save_buffer(real_fs(), path_, buffer, info_of(9), {});
  EXPECT_EQ(BufferFileReader(real_fs(), path_).info(), info_of(2));
}

TEST_F(BufferFileRefusals, AnEndedWriterTakesNothingMore) {
  BufferFileWriter writer(real_fs(), path_, info_of(2), {});
  writer.append(random_group(0, 2));
  writer.commit();
  expect_error(Code::kInternal, [&] { writer.append(random_group(1, 2)); });
  expect_error(Code::kInternal, [&] { writer.commit(); });
}

}  // namespace
}  // namespace rl::testing
