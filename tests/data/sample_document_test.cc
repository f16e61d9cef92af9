// Groups as documents: all bits come back, and what is not a group is refused by name.
#include "data/sample_document.h"

#include <gtest/gtest.h>
#include <schemas/samples_generated.h>

#include <cmath>

#include "core/error.h"
#include "support/expect_error.h"
#include "support/sample_groups.h"

namespace rl::testing {
namespace {

TEST(SampleDocument, EveryBitOfEveryFieldComesBack) {
  for (const uint32_t size : {1u, 2u, 7u}) {
    const Group group = random_group(1u << 20, size, size);
    const std::vector<std::byte> document = encode_group(group);
    const Group back = decode_group(document, "here");
    EXPECT_TRUE(same_group(back, group));
    EXPECT_TRUE(std::signbit(back.samples[0]->reward));
    EXPECT_EQ(encode_group(back), document);
  }
}

TEST(SampleDocument, ASampleMayHaveNoGeneratedTokenAndNoTag) {
  auto s = std::make_shared<Sample>();
  s->ids = {5};
  s->prompt_tokens = 1;
  s->purpose = Purpose::kEval;
  const Group group{0, {s}};
  EXPECT_TRUE(same_group(decode_group(encode_group(group), "here"), group));
}

// Every rule, as a change that breaks it and the field that the error names.
struct Spoiler {
  const char* field;
  void (*spoil)(Sample&);
};
const Spoiler kSpoilers[] = {
    {"prompt_tokens", [](Sample& s) { s.prompt_tokens = 0; }},
    {"prompt_tokens", [](Sample& s) { s.prompt_tokens = static_cast<int32_t>(s.ids.size()) + 1; }},
    {"ids", [](Sample& s) { s.ids[1] = -1; }},
    {"logprobs", [](Sample& s) { s.logprobs.pop_back(); }},
    {"logprobs_sampled", [](Sample& s) { s.logprobs_sampled.push_back(0); }},
    {"versions", [](Sample& s) { s.versions.clear(); }},
    {"loss_mask", [](Sample& s) { s.loss_mask.push_back(1); }},
    {"logprobs", [](Sample& s) { s.logprobs[0] = NAN; }},
    {"logprobs", [](Sample& s) { s.logprobs.back() = INFINITY; }},
    {"logprobs_sampled", [](Sample& s) { s.logprobs_sampled[0] = -INFINITY; }},
    {"logprobs_sampled", [](Sample& s) { s.logprobs_sampled.back() = INFINITY; }},
    {"loss_mask", [](Sample& s) { s.loss_mask[0] = 2; }},
    {"mixed_kv", [](Sample& s) { s.mixed_kv.assign(s.versions.size() + 1, 0); }},
    {"mixed_kv", [](Sample& s) { s.mixed_kv.assign(s.versions.size(), 2); }},
    {"reward_parts",
     [](Sample& s) {
       s.reward_parts = {1, std::nan("")};
     }},
    {"token_rewards", [](Sample& s) { s.token_rewards.assign(s.versions.size() + 1, 0); }},
    {"token_rewards", [](Sample& s) { s.token_rewards.assign(s.versions.size(), INFINITY); }},
    {"top_ids", [](Sample& s) { s.top_ids.push_back(1); }},
    {"top_ids", [](Sample& s) { s.top_ids[0] = -2; }},
    {"top_ids", [](Sample& s) { s.num_top = 2; }},
    {"top_logprobs", [](Sample& s) { s.top_logprobs.pop_back(); }},
    {"top_logprobs", [](Sample& s) { s.top_logprobs[0] = -INFINITY; }},
    {"top_logprobs", [](Sample& s) { s.top_logprobs.back() = INFINITY; }},
    {"purpose", [](Sample& s) { s.purpose = static_cast<Purpose>(2); }},
    {"finish", [](Sample& s) { s.finish = static_cast<FinishReason>(5); }},
    {"temperature", [](Sample& s) { s.temperature = 0; }},
    {"temperature", [](Sample& s) { s.temperature = -1; }},
    {"temperature", [](Sample& s) { s.temperature = NAN; }},
    {"temperature", [](Sample& s) { s.temperature = INFINITY; }},
    {"reward", [](Sample& s) { s.reward = INFINITY; }},
    {"reward", [](Sample& s) { s.reward = -INFINITY; }},
    {"reward", [](Sample& s) { s.scored = false; }},
    {"reward",
     [](Sample& s) {
       s.scored = false;
       s.reward = -0.5;
     }},
    {"data_row", [](Sample& s) { s.data_row = -2; }},
    {"submitted_ns", [](Sample& s) { s.submitted_ns = -1; }},
    {"admitted_ns", [](Sample& s) { s.admitted_ns = -1; }},
    {"first_token_ns", [](Sample& s) { s.first_token_ns = -1; }},
    {"finished_ns", [](Sample& s) { s.finished_ns = INT64_MIN; }},
    {"slot", [](Sample& s) { s.slot = 0; }},
    {"ordinal", [](Sample& s) { s.ordinal = 4; }},
};

TEST(SampleDocument, WritingRefusesWhatReadingWould) {
  for (const Spoiler& bad : kSpoilers) {
    Group group = random_group(3, 3);
    group.samples[1]->reward = 0.5;
    bad.spoil(*group.samples[1]);
    const Error e = expect_error(Code::kInvalidArgument, [&] { encode_group(group); });
    EXPECT_EQ(e.key, bad.field);
    EXPECT_TRUE(contains(e.message, str("sample ", group.samples[1]->id)));
    if (e.key == "slot" || e.key == "ordinal") continue;  // rules of the group
    const auto alone = [&] { require_storable(*group.samples[1]); };
    EXPECT_EQ(expect_error(Code::kInvalidArgument, alone).key, bad.field);
  }
  expect_error(Code::kInvalidArgument, [] { encode_group(Group{1, {}}); });
  expect_error(Code::kInvalidArgument, [] { encode_group(Group{1, {nullptr}}); });
}

// A document of one sample with fields that encode_group would not write.
struct RawSample {
  uint32_t prompt_tokens = 1, generated = 2, logprobs = 2, slot = 0;
  uint8_t purpose = 0, finish = 0, mask = 1;
  float logprob = -1, temperature = 1;
  double reward = 0;
  bool scored = true;
  int64_t data_row = 0;
  int32_t id = 1;
  uint32_t num_top = 1, tops = 2;  // tops: entries of both vectors
  int32_t top_id = -1;
  float top_logprob = -1;

  std::vector<std::byte> document(size_t copies = 1) const {
    flatbuffers::FlatBufferBuilder b;
    const auto ids = b.CreateVector(std::vector<int32_t>(1 + generated, id));
    const auto lp = b.CreateVector(std::vector<float>(logprobs, logprob));
    const auto sampled = b.CreateVector(std::vector<float>(generated, -1.0f));
    const auto versions = b.CreateVector(std::vector<uint64_t>(generated, 0));
    const auto masks = b.CreateVector(std::vector<uint8_t>(generated, mask));
    const auto top_ids = b.CreateVector(std::vector<int32_t>(tops, top_id));
    const auto top_logprobs = b.CreateVector(std::vector<float>(tops, top_logprob));
    std::vector<flatbuffers::Offset<fb::Sample>> samples;
    for (size_t i = 0; i < copies; ++i) {
      samples.push_back(fb::CreateSample(
          b, 9, slot + static_cast<uint32_t>(i), 0, data_row, static_cast<fb::Purpose>(purpose),
          static_cast<fb::FinishReason>(finish), scored, prompt_tokens, temperature, reward, 0, 0,
          0, 0, ids, lp, sampled, versions, masks, num_top, top_ids, top_logprobs));
    }
    fb::FinishGroupBuffer(b, fb::CreateGroup(b, 3, b.CreateVector(samples)));
    const auto* data = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
    return {data, data + b.GetSize()};
  }
};

TEST(SampleDocument, ReadingChecksEveryRule) {
  EXPECT_EQ(decode_group(RawSample{}.document(), "here").samples.size(), 1u);
  const auto refused = [](const char* field, const RawSample& raw) {
    const Error e =
        expect_error(Code::kDataLoss, [&] { decode_group(raw.document(), "file offset 40"); });
    EXPECT_EQ(e.key, field);
    EXPECT_EQ(e.location, "file offset 40");
    EXPECT_TRUE(e.message.starts_with("file offset 40: sample 9")) << e.message;
  };
  refused("prompt_tokens", {.prompt_tokens = 0});
  refused("prompt_tokens", {.prompt_tokens = 4});
  refused("prompt_tokens", {.prompt_tokens = UINT32_MAX});
  refused("logprobs", {.prompt_tokens = 2});
  refused("logprobs", {.logprobs = 3});
  refused("logprobs", {.logprob = NAN});
  refused("purpose", {.purpose = 2});
  refused("purpose", {.purpose = 255});
  refused("finish", {.finish = 5});
  refused("loss_mask", {.mask = 2});
  refused("temperature", {.temperature = -1});
  refused("reward", {.reward = NAN});
  refused("reward", {.reward = -INFINITY});
  refused("reward", {.reward = 0.5, .scored = false});
  refused("reward", {.reward = -0.5, .scored = false});
  refused("data_row", {.data_row = INT64_MIN});
  refused("ids", {.id = -1});
  refused("top_ids", {.tops = 3});
  refused("top_ids", {.num_top = UINT32_MAX});
  refused("top_ids", {.num_top = 0});
  refused("top_ids", {.top_id = -2});
  refused("top_logprobs", {.top_logprob = NAN});
}

TEST(SampleDocument, VectorsSharedBySamplesAreRefused) {
  const RawSample big{.generated = 5000, .logprobs = 5000, .tops = 5000};
  EXPECT_EQ(decode_group(big.document(1), "here").samples.size(), 1u);
  const Error e = expect_error(Code::kDataLoss, [&] { decode_group(big.document(1000), "here"); });
  EXPECT_TRUE(contains(e.message, "overlap"));
}

TEST(SampleDocument, AGroupOfNoSamplesIsRefused) {
  flatbuffers::FlatBufferBuilder b;
  fb::FinishGroupBuffer(
      b, fb::CreateGroup(b, 3, b.CreateVector(std::vector<flatbuffers::Offset<fb::Sample>>{})));
  const auto* data = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  const std::vector<std::byte> document(data, data + b.GetSize());
  EXPECT_TRUE(contains(
      expect_error(Code::kDataLoss, [&] { decode_group(document, "here"); }).message, "0 samples"));
}

TEST(SampleDocument, ACutOrForeignDocumentIsRefused) {
  const std::vector<std::byte> whole = encode_group(random_group(3, 2));
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n));
    expect_error(Code::kDataLoss, [&] { decode_group(cut, "here"); });
  }
  expect_error(Code::kDataLoss, [&] { decode_buffer_info(whole, "here"); });
  expect_error(Code::kDataLoss, [] { decode_group(encode_buffer_info({}), "here"); });
}

TEST(BufferInfo, ComesBackWithAndWithoutAModel) {
  BufferInfo info{7, 4, UINT64_MAX, "a=b\n", 512, {}};
  EXPECT_EQ(decode_buffer_info(encode_buffer_info(info), "here"), info);
  info.model = ModelIdentity{.family = "llama",
                             .compute_dtype = "bf16",
                             .vocab = 49152,
                             .hidden = 576,
                             .layers = 30,
                             .weight_version = 3,
                             .weight_digest = 0x0123456789abcdef};
  EXPECT_EQ(decode_buffer_info(encode_buffer_info(info), "here"), info);
  info.group_size = -1;
  expect_error(Code::kInvalidArgument, [&] { encode_buffer_info(info); });
}

TEST(BufferInfo, EveryNumberHasItsLimits) {
  const std::pair<const char*, void (*)(BufferInfo&, int64_t)> numbers[] = {
      {"group_size", [](BufferInfo& info, int64_t n) { info.group_size = n; }},
      {"max_tokens", [](BufferInfo& info, int64_t n) { info.max_tokens = n; }},
      {"model.vocab", [](BufferInfo& info, int64_t n) { info.model->vocab = n; }},
      {"model.hidden", [](BufferInfo& info, int64_t n) { info.model->hidden = n; }},
      {"model.layers", [](BufferInfo& info, int64_t n) { info.model->layers = n; }}};
  for (const auto& [field, set] : numbers) {
    for (const int64_t bad : {int64_t{-1}, INT64_MIN, INT64_MAX}) {
      BufferInfo info;
      info.model.emplace();
      encode_buffer_info(info);
      set(info, bad);
      const Error e = expect_error(Code::kInvalidArgument, [&] { encode_buffer_info(info); });
      EXPECT_TRUE(contains(e.message, str(field, " is ", bad)));
    }
  }
}

}  // namespace
}  // namespace rl::testing
