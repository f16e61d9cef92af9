// The rules of samples and buffer infos at their edges: the first and the last entry of an array,
// the largest number allowed and the first one that is not; and what a refusal says.
#include <gtest/gtest.h>
#include <schemas/buffer_generated.h>

#include <cmath>

#include "core/error.h"
#include "data/frame.h"
#include "data/sample_document.h"
#include "support/expect_error.h"
#include "support/sample_groups.h"

namespace rl::testing {
namespace {

// Two prompt tokens and three generated ones, with every optional array.
SamplePtr full_sample() {
  auto s = std::make_shared<Sample>();
  s->id = 9;
  s->ordinal = 4;
  s->slot = 2;
  s->ids = {10, 11, 12, 13, 14};
  s->prompt_tokens = 2;
  s->logprobs = {-1, -2, -3};
  s->logprobs_sampled = {-1, -2, -3};
  s->versions = {0, 0, 0};
  s->loss_mask = {1, 0, 1};
  s->mixed_kv = {0, 1, 0};
  s->num_top = 1;
  s->top_ids = {5, 6, 7};
  s->top_logprobs = {-1, -1, -1};
  s->scored = true;
  s->reward_parts = {1, 2, 3};
  return s;
}

struct Refusal {
  void (*spoil)(Sample&);
  const char* field;
  const char* what;  // the message after the names of sample and field
};

const Refusal kRefusals[] = {
    {[](Sample& s) { s.prompt_tokens = 0; }, "prompt_tokens", "is 0 of 5 ids"},
    {[](Sample& s) { s.prompt_tokens = 6; }, "prompt_tokens", "is 6 of 5 ids"},
    {[](Sample& s) { s.ids.front() = -1; }, "ids", "holds -1 at index 0"},
    {[](Sample& s) { s.ids.back() = -3; }, "ids", "holds -3 at index 4"},
    {[](Sample& s) { s.logprobs.pop_back(); }, "logprobs", "has 2 entries for 3 generated tokens"},
    {[](Sample& s) { s.logprobs.clear(); }, "logprobs", "has 0 entries for 3 generated tokens"},
    {[](Sample& s) { s.logprobs_sampled.clear(); }, "logprobs_sampled",
     "has 0 entries for 3 generated tokens"},
    {[](Sample& s) { s.versions.push_back(0); }, "versions",
     "has 4 entries for 3 generated tokens"},
    {[](Sample& s) { s.loss_mask.pop_back(); }, "loss_mask",
     "has 2 entries for 3 generated tokens"},
    {[](Sample& s) { s.mixed_kv.pop_back(); }, "mixed_kv", "has 2 entries for 3 generated tokens"},
    {[](Sample& s) { s.logprobs.front() = INFINITY; }, "logprobs", "holds inf at index 0"},
    {[](Sample& s) { s.logprobs.back() = -INFINITY; }, "logprobs", "holds -inf at index 2"},
    {[](Sample& s) { s.logprobs_sampled.front() = INFINITY; }, "logprobs_sampled",
     "holds inf at index 0"},
    {[](Sample& s) { s.logprobs_sampled.back() = INFINITY; }, "logprobs_sampled",
     "holds inf at index 2"},
    {[](Sample& s) { s.loss_mask.front() = 2; }, "loss_mask", "holds 2 at index 0"},
    {[](Sample& s) { s.loss_mask.back() = 255; }, "loss_mask", "holds 255 at index 2"},
    {[](Sample& s) { s.mixed_kv.front() = 2; }, "mixed_kv", "holds 2 at index 0"},
    {[](Sample& s) { s.mixed_kv.back() = 3; }, "mixed_kv", "holds 3 at index 2"},
    {[](Sample& s) { s.top_ids.pop_back(); }, "top_ids",
     "has 2 entries for 3 generated tokens of 1"},
    {[](Sample& s) { s.top_logprobs.push_back(0); }, "top_logprobs",
     "has 4 entries for 3 generated tokens of 1"},
    {[](Sample& s) { s.num_top = 2; }, "top_ids", "has 3 entries for 3 generated tokens of 2"},
    {[](Sample& s) { s.top_ids.front() = -2; }, "top_ids", "holds -2 at index 0"},
    {[](Sample& s) { s.top_ids.back() = -2; }, "top_ids", "holds -2 at index 2"},
    {[](Sample& s) { s.top_logprobs.front() = INFINITY; }, "top_logprobs", "holds inf at index 0"},
    {[](Sample& s) { s.top_logprobs.back() = INFINITY; }, "top_logprobs", "holds inf at index 2"},
    {[](Sample& s) { s.reward_parts.front() = INFINITY; }, "reward_parts", "holds inf at index 0"},
    {[](Sample& s) { s.reward_parts.back() = INFINITY; }, "reward_parts", "holds inf at index 2"},
    {[](Sample& s) {
       s.token_rewards = {1, 2};
     },
     "token_rewards", "has 2 entries for 3 generated tokens"},
    {[](Sample& s) {
       s.token_rewards = {1, 2, INFINITY};
     },
     "token_rewards", "holds inf at index 2"},
    {[](Sample& s) { s.purpose = static_cast<Purpose>(2); }, "purpose",
     "is 2, which is not a purpose"},
    {[](Sample& s) { s.finish = static_cast<FinishReason>(5); }, "finish",
     "is 5, which is not a finish reason"},
    {[](Sample& s) { s.temperature = 0; }, "temperature", "is 0, expected a finite value above 0"},
    {[](Sample& s) { s.reward = INFINITY; }, "reward", "is inf"},
    {[](Sample& s) {
       s.reward = 0.5;
       s.scored = false;
     },
     "reward", "is 0.5, but the sample is not scored"},
    {[](Sample& s) { s.data_row = -2; }, "data_row", "is -2"},
    {[](Sample& s) { s.submitted_ns = -1; }, "submitted_ns", "is -1"},
    {[](Sample& s) { s.admitted_ns = -2; }, "admitted_ns", "is -2"},
    {[](Sample& s) { s.first_token_ns = -3; }, "first_token_ns", "is -3"},
    {[](Sample& s) { s.finished_ns = -4; }, "finished_ns", "is -4"},
};

TEST(SampleRules, ARefusalNamesSampleFieldIndexAndValue) {
  require_storable(*full_sample());
  for (const Refusal& bad : kRefusals) {
    SCOPED_TRACE(bad.what);
    const SamplePtr s = full_sample();
    bad.spoil(*s);
    const Error e = expect_error(Code::kInvalidArgument, [&] { require_storable(*s); });
    EXPECT_EQ(e.message, str("sample 9 (ordinal 4, slot 2): ", bad.field, " ", bad.what));
    EXPECT_EQ(e.key, bad.field);
    EXPECT_EQ(e.location, "");
  }
}

TEST(SampleRules, TheEdgesOfARangeAreAllowed) {
  void (*const edges[])(Sample&) = {
      [](Sample& s) { s.ids.assign(5, 0); },
      [](Sample& s) { s.top_ids.assign(3, -1); },
      [](Sample& s) { s.data_row = -1; },
      [](Sample& s) { s.data_row = 0; },
      [](Sample& s) { s.purpose = Purpose::kEval; },
      [](Sample& s) { s.finish = FinishReason::kAborted; },
      [](Sample& s) { s.scored = false; },
      [](Sample& s) { s.temperature = std::numeric_limits<float>::denorm_min(); },
      [](Sample& s) { s.logprobs.assign(3, 0.5f); },
      [](Sample& s) { s.mixed_kv.clear(); },
      [](Sample& s) {
        s.logprobs.clear();
        s.logprobs_sampled.clear();
      },
      [](Sample& s) {
        s.num_top = 0;
        s.top_ids.clear();
        s.top_logprobs.clear();
      },
      [](Sample& s) { s.versions.assign(3, kUnknownVersion); }};
  int edge = 0;
  for (const auto change : edges) {
    SCOPED_TRACE(edge++);
    const SamplePtr s = full_sample();
    change(*s);
    EXPECT_NO_THROW(require_storable(*s));
    const Group group{4, {s}};
    EXPECT_TRUE(same_group(decode_group(encode_group(group), "here"), group));
  }
}

TEST(SampleRules, AGroupIsNamedByItsOrdinal) {
  const auto refused = [](const Group& group) {
    return expect_error(Code::kInvalidArgument, [&] { encode_group(group); });
  };
  EXPECT_EQ(refused({8, {}}).message, "the group of ordinal 8 has 0 samples, expected 1..65536");
  EXPECT_EQ(refused({8, std::vector<SamplePtr>(kMaxGroupSamples + 1)}).message,
            "the group of ordinal 8 has 65537 samples, expected 1..65536");
  EXPECT_EQ(refused({8, std::vector<SamplePtr>(kMaxGroupSamples)}).message,
            "sample 0 of the group of ordinal 8 is null");
  Group group = random_group(8, 3);
  group.samples[2] = nullptr;
  EXPECT_EQ(refused(group).message, "sample 2 of the group of ordinal 8 is null");
  group = random_group(8, 3);
  group.samples[2]->slot = 1;
  Error e = refused(group);
  EXPECT_EQ(e.key, "slot");
  EXPECT_EQ(e.message, "sample 8003 (ordinal 8, slot 1): slot comes after slot 1");
  group = random_group(8, 3);
  group.samples[0]->ordinal = 7;
  e = refused(group);
  EXPECT_EQ(e.key, "ordinal");
  EXPECT_EQ(e.message,
            "sample 8001 (ordinal 7, slot 0): ordinal differs from that of the group, 8");
}

// Slots may have gaps, and the first one need not be 0.
TEST(SampleRules, SlotsOnlyAscend) {
  Group group = random_group(8, 5);
  group.samples.erase(group.samples.begin());
  group.samples.erase(group.samples.begin() + 1);
  EXPECT_TRUE(same_group(decode_group(encode_group(group), "here"), group));
}

TEST(SampleRules, WhatIsNoDocumentIsNamedWithItsPlaceAndSize) {
  const std::vector<std::byte> whole = encode_group(random_group(3, 2));
  const std::vector<std::byte> cut(whole.begin(), whole.begin() + 40);
  Error e = expect_error(Code::kDataLoss, [&] { decode_group(cut, "f offset 99"); });
  EXPECT_EQ(e.location, "f offset 99");
  EXPECT_EQ(e.message, "f offset 99: the document of 40 bytes is not a valid RLSG FlatBuffer");
  e = expect_error(Code::kDataLoss, [&] { decode_buffer_info(whole, "f offset 16"); });
  EXPECT_EQ(e.location, "f offset 16");
  EXPECT_EQ(e.message, str("f offset 16: the document of ", whole.size(),
                           " bytes is not a valid RLBI FlatBuffer"));
}

TEST(SampleRules, ADocumentBeyondTheLimitIsRefusedUnread) {
  const std::vector<std::byte> whole = encode_group(random_group(3, 1));
  // Only its size is looked at.
  const std::span<const std::byte> huge(whole.data(), kMaxDocumentBytes + 1);
  const Error e = expect_error(Code::kDataLoss, [&] { decode_group(huge, "f offset 99"); });
  EXPECT_EQ(e.location, "f offset 99");
  EXPECT_EQ(e.message, str("f offset 99: a document of ", kMaxDocumentBytes + 1,
                           " bytes exceeds the limit of ", kMaxDocumentBytes));
}

using Number = int64_t& (*)(BufferInfo&);
struct Limit {
  const char* field;
  Number number;
  int64_t most;
};
const Limit kLimits[] = {
    {"group_size", [](BufferInfo& i) -> int64_t& { return i.group_size; }, kMaxGroupSamples},
    {"max_tokens", [](BufferInfo& i) -> int64_t& { return i.max_tokens; }, int64_t{1} << 40},
    {"model.vocab", [](BufferInfo& i) -> int64_t& { return i.model->vocab; }, int64_t{1} << 40},
    {"model.hidden", [](BufferInfo& i) -> int64_t& { return i.model->hidden; }, int64_t{1} << 40},
    {"model.layers", [](BufferInfo& i) -> int64_t& { return i.model->layers; }, int64_t{1} << 40},
};

TEST(BufferInfoRules, NumbersReachTheirLimits) {
  for (const Limit& limit : kLimits) {
    BufferInfo info;
    info.model.emplace();
    for (const int64_t good : {int64_t{0}, int64_t{1}, limit.most}) {
      limit.number(info) = good;
      EXPECT_EQ(decode_buffer_info(encode_buffer_info(info), "here"), info) << limit.field;
    }
    for (const int64_t bad : {int64_t{-1}, limit.most + 1}) {
      limit.number(info) = bad;
      const Error e = expect_error(Code::kInvalidArgument, [&] { encode_buffer_info(info); });
      EXPECT_EQ(e.message, str(limit.field, " is ", bad, ", expected 0..", limit.most));
    }
  }
}

// As encode_buffer_info would not write it.
std::vector<std::byte> raw_info(const BufferInfo& info) {
  flatbuffers::FlatBufferBuilder b;
  const ModelIdentity& m = *info.model;
  const auto model =
      fb::CreateModelIdentity(b, b.CreateString(m.family), b.CreateString(m.compute_dtype), m.vocab,
                              m.hidden, m.layers, m.weight_version, m.weight_digest);
  fb::FinishBufferInfoBuffer(
      b, fb::CreateBufferInfo(b, info.step, info.group_size, 0, 0, info.max_tokens, model));
  const auto* data = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  return {data, data + b.GetSize()};
}

TEST(BufferInfoRules, ReadingChecksThemToo) {
  for (const Limit& limit : kLimits) {
    BufferInfo info;
    info.model.emplace();
    EXPECT_EQ(decode_buffer_info(raw_info(info), "here"), info) << "without options";
    limit.number(info) = limit.most + 1;
    const Error e =
        expect_error(Code::kDataLoss, [&] { decode_buffer_info(raw_info(info), "f offset 16"); });
    EXPECT_EQ(e.location, "f offset 16");
    EXPECT_EQ(e.message, str("f offset 16: ", limit.field, " is ", limit.most + 1, ", expected 0..",
                             limit.most));
  }
}

}  // namespace
}  // namespace rl::testing
