// Buffers at rest: what was saved is loaded, a save that fails anywhere leaves the old file, a load
// that fails anywhere leaves the buffer as it was, and a file of the first format stays readable.
#include "buffer/buffer_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "buffer/experience_buffer.h"
#include "core/error.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/sample_groups.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

ModelIdentity identity() {
  return {.family = "llama",
          .compute_dtype = "fp32",
          .vocab = kSampleVocab,
          .hidden = 64,
          .layers = 2,
          .weight_version = 5,
          .weight_digest = 0x00c0ffee00c0ffee};
}

BufferInfo sample_info() { return {3, 2, 42, "optimizer.lr=1e-3\n", 512, identity()}; }

std::unique_ptr<ExperienceBuffer> filled(uint64_t groups, unsigned seed = 1) {
  auto buffer = std::make_unique<ExperienceBuffer>(2, 100);
  for (uint64_t ordinal = 0; ordinal < groups; ++ordinal) {
    for (const SamplePtr& s : random_group(ordinal, 2, seed).samples) buffer->put(s);
  }
  return buffer;
}

std::vector<Group> groups_of(const ExperienceBuffer& buffer) {
  std::vector<Group> out;
  buffer.visit([&](const Group& group) { out.push_back(group); });
  return out;
}

bool same_content(const ExperienceBuffer& a, const ExperienceBuffer& b) {
  const std::vector<Group> x = groups_of(a), y = groups_of(b);
  return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), same_group);
}

std::string content(const std::string& path) { return read_text_file(real_fs(), path, 1 << 24); }

class BufferFile : public ::testing::Test {
 protected:
  void save(const ExperienceBuffer& buffer, FileSystem& fs = real_fs(), bool replace = false) {
    save_buffer(fs, path_, buffer, sample_info(), {.replace_existing = replace});
  }
  int64_t load(ExperienceBuffer& buffer, FileSystem& fs = real_fs()) {
    return load_buffer(fs, path_, buffer, nullptr);
  }
  std::vector<std::string> names() { return real_fs().list(dir_.path()); }

  TempDir dir_;
  const std::string path_ = dir_.file("samples.rlbuf");
};

TEST_F(BufferFile, WhatIsSavedIsLoadedWithIncompleteGroups) {
  auto buffer = filled(5);
  buffer->put(random_sample(9, 1, 4));
  save(*buffer);
  EXPECT_EQ(buffer->num_samples(), 11) << "saving takes nothing out";
  ExperienceBuffer back(2, 11);
  EXPECT_EQ(load(back), 11);
  EXPECT_TRUE(same_content(back, *buffer));
  EXPECT_EQ(back.num_whole_groups(), 5);
  EXPECT_EQ(names(), std::vector<std::string>{"samples.rlbuf"});
}

TEST_F(BufferFile, ReadersWalkGroupByGroup) {
  save(*filled(3));
  BufferFileReader file(real_fs(), path_);
  EXPECT_EQ(file.info(), sample_info());
  for (uint64_t ordinal = 0; ordinal < 3; ++ordinal) {
    const auto group = file.next();
    ASSERT_TRUE(group.has_value());
    EXPECT_TRUE(same_group(*group, random_group(ordinal, 2)));
  }
  EXPECT_FALSE(file.next().has_value());
}

TEST_F(BufferFile, AFileThatDoesNotSayItsGroupSizeFitsAnyBuffer) {
  BufferInfo info = sample_info();
  info.group_size = 0;
  BufferFileWriter writer(real_fs(), path_, info, {});
  writer.append(random_group(0, 3));
  writer.commit();
  ExperienceBuffer buffer(3, 100);
  EXPECT_EQ(load(buffer), 3);
}

TEST_F(BufferFile, LoadingAppends) {
  save(*filled(2));
  ExperienceBuffer buffer(2, 100);
  for (const SamplePtr& s : random_group(7, 2).samples) buffer.put(s);
  EXPECT_EQ(load(buffer), 4);
  EXPECT_EQ(buffer.num_whole_groups(), 3);
  const Error e = expect_error(Code::kDuplicate, [&] { load(buffer); });
  EXPECT_TRUE(contains(e.message, path_));
  EXPECT_EQ(buffer.num_samples(), 6);
}

TEST_F(BufferFile, AFileThatAppearsWhileOneIsWrittenStays) {
  BufferFileWriter writer(real_fs(), path_, sample_info(), {});
  writer.append(random_group(0, 2));
  std::ofstream(path_) << "of another writer";
  expect_error(Code::kAlreadyExists, [&] { writer.commit(); });
  EXPECT_EQ(content(path_), "of another writer");
}

TEST_F(BufferFile, ALoadThatDoesNotFitChangesNothing) {
  save(*filled(3));
  ExperienceBuffer small(2, 4);
  small.put(random_sample(50, 0, 1));
  const Error e = expect_error(Code::kResourceExhausted, [&] { load(small); });
  EXPECT_TRUE(contains(e.message, "than the 3 that the buffer has room for")) << e.message;
  EXPECT_EQ(small.num_samples(), 1);
  ExperienceBuffer other(3, 100);
  EXPECT_EQ(expect_error(Code::kIncompatible, [&] { load(other); }).key,
            "pipeline.samples_per_prompt");
  // The last sample is a duplicate: those put before it leave again.
  ExperienceBuffer late(2, 100);
  late.put(random_sample(2, 1, 1));
  expect_error(Code::kDuplicate, [&] { load(late); });
  EXPECT_EQ(late.num_samples(), 1);
  EXPECT_EQ(groups_of(late).size(), 1u);
}

TEST_F(BufferFile, OnlyScoredTrainingSamplesAreLoaded) {
  for (const bool eval : {true, false}) {
    Group group = random_group(0, 2);
    group.samples[1]->purpose = eval ? Purpose::kEval : Purpose::kTrain;
    group.samples[1]->scored = eval;
    group.samples[1]->reward = 0;
    BufferFileWriter writer(real_fs(), path_, sample_info(), {.replace_existing = true});
    writer.append(group);
    writer.commit();
    ExperienceBuffer buffer(2, 100);
    expect_error(eval ? Code::kInvalidArgument : Code::kFailedPrecondition, [&] { load(buffer); });
    EXPECT_EQ(buffer.num_samples(), 0);
  }
}

TEST_F(BufferFile, AnExistingFileIsReplacedOnlyWhenAsked) {
  save(*filled(1));
  const std::string old = content(path_);
  expect_error(Code::kAlreadyExists, [&] { save(*filled(2)); });
  EXPECT_EQ(content(path_), old);
  save(*filled(2), real_fs(), true);
  EXPECT_NE(content(path_), old);
  EXPECT_EQ(names().size(), 1u);
}

TEST_F(BufferFile, OtherWeightsAreRefusedWithBothDigests) {
  save(*filled(1));
  ExperienceBuffer buffer(2, 100);
  ModelIdentity model = identity();
  model.weight_digest = 0x1111;
  const auto refused = [&] {
    return expect_error(Code::kIncompatible,
                        [&] { load_buffer(real_fs(), path_, buffer, &model); });
  };
  Error e = refused();
  EXPECT_TRUE(contains(e.message, "00c0ffee00c0ffee"));
  EXPECT_TRUE(contains(e.message, "0000000000001111"));
  model = identity();
  model.compute_dtype = "bf16";
  e = refused();
  EXPECT_TRUE(contains(e.message, "fp32"));
  EXPECT_TRUE(contains(e.message, "bf16"));
  EXPECT_EQ(buffer.num_samples(), 0);
  model = identity();
  model.weight_version = 0;
  EXPECT_EQ(load_buffer(real_fs(), path_, buffer, &model), 2) << "versions are names only";
  BufferInfo unknown = sample_info();
  unknown.model.reset();
  save_buffer(real_fs(), path_, *filled(1), unknown, {.replace_existing = true});
  EXPECT_TRUE(contains(refused().message, "does not say which weights"));
}

// Such a file is not written either: nobody could read it.
TEST_F(BufferFile, IdsAndSlotsBeyondTheFilesOwnLimitsAreRefused) {
  const auto refused = [&](const Group& group, const char* field, const char* why) {
    FrameText file;
    file.add(kBufferInfoKind, encode_buffer_info(sample_info()));
    file.add(kGroupKind, encode_group(group));
    std::ofstream(path_, std::ios::binary) << file.close();
    ExperienceBuffer buffer(2, 100);
    Error e = expect_error(Code::kDataLoss, [&] { load(buffer); });
    EXPECT_TRUE(contains(e.message, why));
    EXPECT_TRUE(contains(e.location, path_));
    std::filesystem::remove(path_);
    e = expect_error(Code::kInvalidArgument,
                     [&] { BufferFileWriter(real_fs(), path_, sample_info(), {}).append(group); });
    EXPECT_TRUE(contains(e.message, why));
    EXPECT_EQ(e.key, field);
    EXPECT_TRUE(names().empty());
  };
  Group group = random_group(0, 2);
  group.samples[1]->ids.back() = kSampleVocab;
  refused(group, "ids", "id 256 is outside the vocabulary of 256");
  group = random_group(0, 2);
  group.samples[1]->top_ids.at(0) = kSampleVocab;
  refused(group, "top_ids", "id 256 is outside the vocabulary of 256");
  refused(random_group(0, 3), "slot", "slot 2 is outside groups of 2");
}

// One that could not be saved would keep all others from being saved.
TEST_F(BufferFile, WhatTheBufferTakesCanBeSaved) {
  ExperienceBuffer buffer(2, 100);
  const auto refused = [&](const char* field, auto&& spoil) {
    const SamplePtr s = random_sample(0, 0, 1);
    spoil(*s);
    const Error e = expect_error(Code::kInvalidArgument, [&] { buffer.put(s); });
    EXPECT_EQ(e.key, field);
    expect_error(Code::kInvalidArgument, [&] { buffer.put_all({random_sample(0, 1, 1), s}); });
    EXPECT_EQ(buffer.num_samples(), 0);
  };
  refused("ids", [](Sample& s) { s.ids[0] = -1; });
  refused("data_row", [](Sample& s) { s.data_row = -2; });
  refused("finished_ns", [](Sample& s) { s.finished_ns = -1; });
  refused("logprobs", [](Sample& s) { s.logprobs.clear(); });
  expect_error(Code::kInvalidArgument, [&] { buffer.put(nullptr); });
}

TEST_F(BufferFile, FramesOfAnotherKindAreDataLoss) {
  const auto refused = [&](const std::string& file, const char* why) {
    std::ofstream(path_, std::ios::binary) << file;
    ExperienceBuffer buffer(2, 100);
    const Error e = expect_error(Code::kDataLoss, [&] { load(buffer); });
    EXPECT_TRUE(contains(e.message, why));
    EXPECT_TRUE(contains(e.location, path_));
  };
  const std::vector<std::byte> info = encode_buffer_info(sample_info());
  const std::vector<std::byte> group = encode_group(random_group(0, 2));
  refused(FrameText().close(), "first frame");
  refused(FrameText().add(kGroupKind, group).close(), "first frame");
  refused(FrameText().add(kBufferInfoKind, group).close(), "FlatBuffer");
  refused(FrameText().add(kBufferInfoKind, info).add(kBufferInfoKind, info).close(),
          "the frame is not");
  refused(FrameText().add(kBufferInfoKind, info).add(kGroupKind, info).close(), "FlatBuffer");
}

// Fails every operation of a save in turn; a full disk also writes a part.
TEST_F(BufferFile, ASaveThatFailsAnywhereLeavesTheOldFileOrTheWholeNewOne) {
  const auto old_buffer = filled(1), new_buffer = filled(3, 8);
  save(*old_buffer);
  const std::string before = content(path_);
  FaultFs fs;
  fs.arm({});
  save(*new_buffer, fs, true);
  const int64_t operations = fs.operations();
  const std::string after = content(path_);
  EXPECT_GT(operations, 8);
  for (const uint64_t partial : {0, 5}) {
    for (int64_t at = 1; at <= operations; ++at) {
      std::ofstream(path_, std::ios::binary) << before;
      fs.arm({.at = at, .system_code = ENOSPC, .partial_bytes = partial});
      const Error e = expect_error(Code::kIo, [&] { save(*new_buffer, fs, true); });
      EXPECT_EQ(e.system_code, ENOSPC);
      // Only the sync of the directory, the last operation, comes after the rename.
      EXPECT_EQ(content(path_), at == operations ? after : before) << at;
      EXPECT_EQ(names(), std::vector<std::string>{"samples.rlbuf"}) << at;
    }
  }
}

// The process ends at any operation: nothing after it happens, clean-up included.
TEST_F(BufferFile, ACrashAnywhereLeavesTheOldFileOrTheWholeNewOne) {
  const auto old_buffer = filled(1), new_buffer = filled(3, 8);
  save(*old_buffer);
  const std::string before = content(path_);
  FaultFs fs;
  fs.arm({});
  save(*new_buffer, fs, true);
  const int64_t operations = fs.operations();
  const std::string after = content(path_);
  for (int64_t at = 1; at <= operations; ++at) {
    std::ofstream(path_, std::ios::binary) << before;
    fs.arm({.at = at, .for_ever = true, .partial_bytes = 3});
    expect_error(Code::kIo, [&] { save(*new_buffer, fs, true); });
    EXPECT_EQ(content(path_), at == operations ? after : before) << at;
    save(*new_buffer, real_fs(), true);
    EXPECT_EQ(content(path_), after) << "a leftover does not hinder the next save";
    EXPECT_EQ(names().size(), 1u);
  }
}

TEST_F(BufferFile, ALoadThatFailsAnywhereLeavesTheBuffer) {
  save(*filled(3));
  FaultFs fs;
  fs.arm({});
  ExperienceBuffer whole(2, 100);
  load(whole, fs);
  const int64_t operations = fs.operations();
  EXPECT_GT(operations, 8);
  for (int64_t at = 1; at <= operations; ++at) {
    fs.arm({.at = at});
    ExperienceBuffer buffer(2, 100);
    buffer.put(random_sample(30, 0, 1));
    EXPECT_TRUE(contains(expect_error(Code::kIo, [&] { load(buffer, fs); }).message, path_));
    EXPECT_EQ(buffer.num_samples(), 1);
  }
}

TEST_F(BufferFile, AMissingFileOrDirectoryIsNamed) {
  ExperienceBuffer buffer(2, 100);
  EXPECT_EQ(expect_error(Code::kNotFound, [&] { load(buffer); }).location, path_);
  const std::string nowhere = dir_.file("no/samples.rlbuf");
  expect_error(Code::kNotFound,
               [&] { save_buffer(real_fs(), nowhere, buffer, sample_info(), {}); });
}

// Written by version 1 of the format; it must stay readable. Its content is what filled(2) gives,
// but for what samples did not have then.
TEST_F(BufferFile, TheGoldenFileOfVersionOneIsReadable) {
  const std::string golden = std::string(RL_FIXTURES) + "/buffer/version_1.rlbuf";
  ExperienceBuffer buffer(2, 100);
  const ModelIdentity model = identity();
  EXPECT_EQ(load_buffer(real_fs(), golden, buffer, &model), 4);
  ExperienceBuffer expected(2, 100);
  for (uint64_t ordinal = 0; ordinal < 2; ++ordinal) {
    for (const SamplePtr& s : random_group(ordinal, 2).samples) {
      s->num_top = 0;
      s->top_ids.clear();
      s->top_logprobs.clear();
      s->mixed_kv.clear();
      s->reward_parts.clear();
      s->admitted_ns = 0;
      s->num_aborts = s->preemptions = 0;
      expected.put(s);
    }
  }
  EXPECT_TRUE(same_content(buffer, expected));
  EXPECT_EQ(BufferFileReader(real_fs(), golden).info(), sample_info());
}

}  // namespace
}  // namespace rl::testing
