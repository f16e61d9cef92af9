// Batches of a host's own through rl.h: made of samples, selected, joined, as bytes; and buffers
// that drop groups, let them age and wait for them.
#include <cmath>
#include <limits>
#include <thread>

#include "abi/host.h"

namespace abi_test {
namespace {

class Batch {
 public:
  Batch() = default;
  ~Batch() { rl_batch_release(handle_); }
  Batch(const Batch&) = delete;
  rl_batch** out() { return &handle_; }
  operator rl_batch*() const { return handle_; }
  size_t count() const { return rl_batch_count(handle_); }
  rl_sample_view at(size_t i) const {
    rl_sample_view view;
    rl_sample_view_init(&view, sizeof view);
    EXPECT_RL_OK(rl_batch_sample(handle_, i, &view, &err));
    return view;
  }
  std::vector<uint64_t> ids() const {
    std::vector<uint64_t> out;
    for (size_t i = 0; i < count(); ++i) out.push_back(at(i).sample_id);
    return out;
  }

 private:
  rl_batch* handle_ = nullptr;
};

using Ids = std::vector<uint64_t>;

const int32_t kIds[] = {1, 2, 3, 4, 5};
const float kLogprobs[] = {-1, -2};
const float kTops[] = {-1, -2, -3, -4};
const int32_t kTopIds[] = {4, 5, 6, -1};
const uint64_t kVersions[] = {3, 4};
const uint8_t kMask[] = {1, 0};
const double kParts[] = {0.5, 0.25};

// Every field set that a host may set.
rl_sample_view sample_of(uint64_t id, uint64_t ordinal, uint32_t slot) {
  rl_sample_view s;
  rl_sample_view_init(&s, sizeof s);
  s.sample_id = id;
  s.ordinal = ordinal;
  s.slot = slot;
  s.attempt = 2;
  s.data_row = 8;
  s.finish = RL_FINISH_LENGTH;
  s.ids = kIds;
  s.num_ids = 5;
  s.num_prompt = 3;
  s.logprobs = kLogprobs;
  s.logprobs_sampled = kTops;
  s.versions = kVersions;
  s.loss_mask = s.mixed_kv = kMask;
  s.scored = 1;
  s.reward = static_cast<double>(id);
  s.temperature = 0.5f;
  s.tag = "here";
  s.tag_len = 4;
  s.submitted_ns = 1;
  s.num_top = 2;
  s.top_ids = kTopIds;
  s.top_logprobs = kTops;
  s.num_reward_parts = 2;
  s.reward_parts = kParts;
  return s;
}

void expect_sample(const rl_sample_view& s, uint64_t id, double reward) {
  SCOPED_TRACE(id);
  EXPECT_EQ(s.sample_id, id);
  EXPECT_EQ(s.reward, reward);
  EXPECT_EQ(s.scored, 1u);
  EXPECT_EQ(s.attempt, 2u);
  EXPECT_EQ(s.data_row, 8);
  EXPECT_EQ(s.finish, RL_FINISH_LENGTH);
  ASSERT_EQ(s.num_ids, 5u);
  EXPECT_EQ(s.num_prompt, 3u);
  EXPECT_EQ(std::memcmp(s.ids, kIds, sizeof kIds), 0);
  EXPECT_EQ(std::memcmp(s.logprobs, kLogprobs, sizeof kLogprobs), 0);
  EXPECT_EQ(std::memcmp(s.logprobs_sampled, kTops, sizeof kLogprobs), 0);
  EXPECT_EQ(std::memcmp(s.versions, kVersions, sizeof kVersions), 0);
  EXPECT_EQ(std::memcmp(s.loss_mask, kMask, sizeof kMask), 0);
  EXPECT_EQ(std::memcmp(s.mixed_kv, kMask, sizeof kMask), 0);
  EXPECT_EQ(s.temperature, 0.5f);
  EXPECT_EQ(std::string(s.tag, s.tag_len), "here");
  EXPECT_EQ(s.submitted_ns, 1);
  ASSERT_EQ(s.num_top, 2u);
  EXPECT_EQ(std::memcmp(s.top_ids, kTopIds, sizeof kTopIds), 0);
  EXPECT_EQ(std::memcmp(s.top_logprobs, kTops, sizeof kTops), 0);
}

std::vector<rl_sample_view> three() {
  return {sample_of(11, 1, 0), sample_of(12, 1, 1), sample_of(13, 2, 0)};
}

rl_batch_part part_of(const rl_batch* batch) {
  rl_batch_part part;
  rl_batch_part_init(&part, sizeof part);
  part.batch = batch;
  return part;
}
rl_batch_part part_of(const rl_batch* batch, const std::vector<size_t>& indices) {
  static const size_t none = 0;
  rl_batch_part part = part_of(batch);
  part.indices = indices.empty() ? &none : indices.data();
  part.num_indices = indices.size();
  return part;
}

// Expects a failure that names the key and leaves no batch.
template <typename Call>
void expect_refused(rl_status expected, const std::string& key, Call&& call) {
  SCOPED_TRACE(key);
  rl_error* err = nullptr;
  rl_batch* out = reinterpret_cast<rl_batch*>(1);
  EXPECT_EQ(call(&out, &err), expected) << text_of(err, RL_ERROR_SUMMARY);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), key);
  EXPECT_EQ(out, nullptr);
  rl_error_release(err);
}

TEST(AbiBatch, SamplesOfAHostAreCopiedWhole) {
  Batch batch, none;
  {
    std::vector<rl_sample_view> given = three();
    std::vector<int32_t> ids(kIds, kIds + 5);
    for (rl_sample_view& s : given) s.ids = ids.data();
    EXPECT_RL_OK(rl_batch_create(given.data(), given.size(), batch.out(), &err));
    ids.assign(5, 0);
  }
  ASSERT_EQ(batch.count(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    expect_sample(batch.at(i), 11 + i, static_cast<double>(11 + i));
    ASSERT_EQ(batch.at(i).num_reward_parts, 2u);
    EXPECT_EQ(batch.at(i).reward_parts[1], 0.25);
  }
  EXPECT_EQ(batch.at(2).ordinal, 2u);
  EXPECT_RL_OK(rl_batch_create(nullptr, 0, none.out(), &err));
  EXPECT_EQ(none.count(), 0u);
}

TEST(AbiBatch, WhatIsWrongWithASampleIsNamedByItsPlace) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const float infinite[] = {-1, -INFINITY};
  const int32_t negative[] = {1, 2, 3, 4, -5};
  const uint8_t two[] = {1, 2};
  const double parts[] = {0, nan};
  const auto refused = [](rl_status status, const char* field, auto&& spoil) {
    for (const size_t place : {size_t{0}, size_t{2}}) {
      std::vector<rl_sample_view> samples = three();
      spoil(samples[place]);
      expect_refused(status, "samples[" + std::to_string(place) + "]." + field,
                     [&](rl_batch** out, rl_error** err) {
                       return rl_batch_create(samples.data(), samples.size(), out, err);
                     });
    }
  };
  refused(RL_INVALID_ARGUMENT, "ids", [](auto& s) { s.ids = nullptr; });
  refused(RL_INVALID_ARGUMENT, "ids", [&](auto& s) { s.ids = negative; });
  refused(RL_OUT_OF_RANGE, "num_prompt", [](auto& s) { s.num_prompt = 0; });
  refused(RL_OUT_OF_RANGE, "num_prompt", [](auto& s) { s.num_prompt = 5; });
  refused(RL_NON_FINITE, "logprobs", [&](auto& s) { s.logprobs = infinite; });
  refused(RL_NON_FINITE, "logprobs_sampled", [&](auto& s) { s.logprobs_sampled = infinite; });
  refused(RL_INVALID_ARGUMENT, "logprobs", [](auto& s) { s.logprobs = nullptr; });
  refused(RL_INVALID_ARGUMENT, "loss_mask", [&](auto& s) { s.loss_mask = two; });
  refused(RL_INVALID_ARGUMENT, "mixed_kv", [&](auto& s) { s.mixed_kv = two; });
  refused(RL_INVALID_ARGUMENT, "top_ids", [](auto& s) { s.top_ids = nullptr; });
  refused(RL_OUT_OF_RANGE, "top_ids", [&](auto& s) { s.top_ids = negative + 1; });
  refused(RL_NON_FINITE, "reward", [&](auto& s) { s.reward = nan; });
  refused(RL_NON_FINITE, "reward_parts", [&](auto& s) { s.reward_parts = parts; });
  refused(RL_INVALID_ARGUMENT, "reward", [](auto& s) { s.scored = 0; });
  refused(RL_INVALID_ARGUMENT, "scored", [](auto& s) { s.scored = 2; });
  refused(RL_OUT_OF_RANGE, "temperature", [](auto& s) { s.temperature = 0; });
  refused(RL_INVALID_ARGUMENT, "purpose", [](auto& s) { s.purpose = RL_PURPOSE_EVAL; });
  refused(RL_INVALID_ARGUMENT, "finish", [](auto& s) { s.finish = 9; });
  refused(RL_INVALID_ARGUMENT, "data_row", [](auto& s) { s.data_row = -2; });
  refused(RL_INVALID_ARGUMENT, "finished_ns", [](auto& s) { s.finished_ns = -1; });
  refused(RL_INVALID_ARGUMENT, "tag", [](auto& s) { s.tag = "\xff\xff\xff\xff"; });
}

TEST(AbiBatch, PartsAreSelectedRepeatedAndJoinedWithTheirPresentRewards) {
  const std::vector<rl_sample_view> given = three();
  Batch batch, some, all;
  EXPECT_RL_OK(rl_batch_create(given.data(), given.size(), batch.out(), &err));
  EXPECT_RL_OK(set_reward(batch, 2, 0.5, &err));
  const std::vector<size_t> indices = {2, 0, 2};
  const rl_batch_part first = part_of(batch, indices);
  EXPECT_RL_OK(rl_batch_select(&first, 1, some.out(), &err));
  EXPECT_EQ(some.ids(), (Ids{13, 11, 13}));
  EXPECT_EQ(some.at(2).reward, 0.5);
  EXPECT_EQ(some.at(2).num_reward_parts, 0u);
  EXPECT_RL_OK(set_reward(batch, 0, 7, &err));
  EXPECT_EQ(some.at(1).reward, 11) << "each batch has its own rewards";
  const rl_batch_part parts[] = {part_of(some), part_of(batch, {}), part_of(batch)};
  EXPECT_RL_OK(rl_batch_select(parts, 3, all.out(), &err));
  EXPECT_EQ(all.ids(), (Ids{13, 11, 13, 11, 12, 13}));
  EXPECT_EQ(all.at(3).reward, 7);
  Batch none;
  EXPECT_RL_OK(rl_batch_select(nullptr, 0, none.out(), &err));
  EXPECT_EQ(none.count(), 0u);
}

TEST(AbiBatch, AnIndexBeyondItsBatchIsNamed) {
  const std::vector<rl_sample_view> given = three();
  Batch batch;
  EXPECT_RL_OK(rl_batch_create(given.data(), given.size(), batch.out(), &err));
  const std::vector<size_t> indices = {0, 3};
  const auto select = [](const std::vector<rl_batch_part>& parts) {
    return [parts](rl_batch** out, rl_error** err) {
      return rl_batch_select(parts.data(), parts.size(), out, err);
    };
  };
  expect_refused(RL_OUT_OF_RANGE, "parts[1].indices",
                 select({part_of(batch), part_of(batch, indices)}));
  expect_refused(RL_INVALID_ARGUMENT, "parts[1].batch", select({part_of(batch), part_of(nullptr)}));
  rl_batch_part empty = part_of(batch);
  empty.num_indices = 1;
  expect_refused(RL_INVALID_ARGUMENT, "parts[0].indices", select({empty}));
}

TEST(AbiBatch, BytesCarryABatchWithItsPresentRewards) {
  const std::vector<rl_sample_view> given = three();
  Batch batch, got;
  rl_bytes* bytes = nullptr;
  EXPECT_RL_OK(rl_batch_create(given.data(), given.size(), batch.out(), &err));
  EXPECT_RL_OK(set_parts(batch, 1, kParts, 1, &err));
  EXPECT_RL_OK(set_reward(batch, 2, 0.5, &err));
  EXPECT_RL_OK(rl_batch_export(batch, &bytes, &err));
  std::string data(static_cast<const char*>(rl_bytes_data(bytes)), rl_bytes_size(bytes));
  rl_bytes_release(bytes);
  EXPECT_TRUE(data.starts_with("RLFRAMES"));
  EXPECT_RL_OK(rl_batch_import(data.data(), data.size(), got.out(), &err));
  ASSERT_EQ(got.count(), 3u);
  expect_sample(got.at(0), 11, 11);
  expect_sample(got.at(2), 13, 0.5);
  EXPECT_EQ(got.at(0).num_reward_parts, 2u);
  EXPECT_EQ(got.at(1).num_reward_parts, 1u);
  EXPECT_EQ(got.at(2).num_reward_parts, 0u);

  const auto import = [&](size_t size) {
    return [&, size](rl_batch** out, rl_error** err) {
      return rl_batch_import(data.data(), size, out, err);
    };
  };
  for (size_t size = 0; size < data.size(); size += 7) {
    rl_error* err = nullptr;
    rl_batch* out = nullptr;
    EXPECT_EQ(import(size)(&out, &err), RL_DATA_LOSS) << size;
    EXPECT_TRUE(text_of(err, RL_ERROR_LOCATION).starts_with("data offset ")) << size;
    rl_error_release(err);
  }
  data[8] = 2;
  expect_refused(RL_INCOMPATIBLE, "", import(data.size()));
}

// A group as bytes trains as the group itself, bit for bit.
TEST(AbiBatch, AGroupAsBytesTrainsAsTheGroup) {
  std::vector<uint64_t> digests;
  for (const bool as_bytes : {false, true}) {
    Host host;
    Batch copy;
    if (as_bytes) {
      rl_bytes* bytes = nullptr;
      EXPECT_RL_OK(rl_batch_export(host.batch, &bytes, &err));
      EXPECT_RL_OK(rl_batch_import(rl_bytes_data(bytes), rl_bytes_size(bytes), copy.out(), &err));
      rl_bytes_release(bytes);
    }
    rl_event* event = nullptr;
    EXPECT_RL_OK(train(host.trainer, as_bytes ? copy : host.batch, &event, &err));
    rl_event_release(event);
    EXPECT_RL_OK(rl_model_digest(host.model, &digests.emplace_back(), &err));
  }
  EXPECT_EQ(digests[0], digests[1]);
}

class AbiBufferRules : public ::testing::Test {
 protected:
  AbiBufferRules() {
    EXPECT_RL_OK(rl_options_create(&options_, &err));
    set(options_, "pipeline.samples_per_prompt", "2");
  }
  ~AbiBufferRules() override {
    rl_buffer_destroy(buffer_);
    rl_options_destroy(options_);
  }
  void create(uint64_t max_samples = 16) {
    EXPECT_RL_OK(rl_buffer_create(options_, max_samples, &buffer_, &err));
  }
  // Whole groups, each of the version of its ordinal.
  void put(uint64_t first, uint64_t end) {
    for (uint64_t g = first; g < end; ++g) {
      for (uint32_t slot = 0; slot < 2; ++slot) put_one(g, slot);
    }
  }
  void put_one(uint64_t ordinal, uint32_t slot) {
    rl_sample_view s = sample_of(100 * ordinal + slot, ordinal, slot);
    const uint64_t versions[] = {ordinal, 0};  // the second token is not trained on
    s.versions = versions;
    EXPECT_RL_OK(rl_buffer_put(buffer_, &s, &err));
  }
  // The ordinals that are taken.
  Ids take(uint64_t min_groups, uint64_t max_groups, uint64_t version = 0) {
    rl_take take;
    rl_take_init(&take, sizeof take);
    take.min_groups = min_groups;
    take.max_groups = max_groups;
    take.version = version;
    Batch batch;
    const rl_status status = rl_buffer_take(buffer_, &take, 0, batch.out(), nullptr);
    EXPECT_TRUE(status == RL_OK || status == RL_TIMEOUT) << status;
    Ids out;
    for (size_t i = 0; i < batch.count(); i += 2) out.push_back(batch.at(i).ordinal);
    return out;
  }
  uint64_t drop(const rl_drop& rule) {
    uint64_t count = 99;
    EXPECT_RL_OK(rl_buffer_drop(buffer_, &rule, &count, &err));
    return count;
  }
  static rl_drop rule() {
    rl_drop rule;
    rl_drop_init(&rule, sizeof rule);
    return rule;
  }

  rl_options* options_ = nullptr;
  rl_buffer* buffer_ = nullptr;
};

TEST_F(AbiBufferRules, TheOptionSaysWhichGroupsGoFirst) {
  create();
  put(0, 4);
  EXPECT_EQ(take(1, 2), (Ids{0, 1}));
  rl_buffer_destroy(buffer_);
  set(options_, "buffer.policy", "newest");
  create();
  put(0, 4);
  EXPECT_EQ(take(1, 2), (Ids{2, 3}));
  EXPECT_EQ(take(3, 8), Ids{}) << "two are left";
  EXPECT_EQ(take(2, 8), (Ids{0, 1}));
}

TEST_F(AbiBufferRules, GroupsTooFarBehindAreRemovedAndCounted) {
  set(options_, "buffer.max_staleness", "2");
  create();
  put(0, 5);
  put_one(7, 0);
  EXPECT_EQ(take(1, 1, 2), (Ids{0})) << "two behind";
  EXPECT_EQ(take(1, 8, 5), (Ids{3, 4}));
  const rl_buffer_stats stats = stats_of(buffer_);
  EXPECT_EQ(stats.stale, 4u);
  EXPECT_EQ(stats.taken, 6u);
  EXPECT_EQ(stats.put, 11u);
  EXPECT_EQ(stats.samples, 1u);
  EXPECT_EQ(stats.groups, 1u);
  EXPECT_EQ(stats.whole_groups, 0u);
  EXPECT_EQ(stats.put, stats.taken + stats.dropped + stats.stale + stats.samples);
}

TEST_F(AbiBufferRules, WithoutTheOptionNothingAges) {
  create();
  put(0, 3);
  EXPECT_EQ(take(1, 8, UINT64_MAX), (Ids{0, 1, 2}));
}

TEST_F(AbiBufferRules, AnIncompleteGroupCanBeDroppedAndMakesRoom) {
  create(4);
  put_one(3, 0);
  put(4, 5);
  put_one(5, 0);
  rl_sample_view more = sample_of(1, 9, 0);
  EXPECT_EQ(rl_buffer_put(buffer_, &more, nullptr), RL_RESOURCE_EXHAUSTED);
  rl_drop wanted = rule();
  wanted.incomplete_only = 1;
  wanted.below_version = 5;
  EXPECT_EQ(drop(wanted), 1u) << "that of ordinal 3";
  EXPECT_RL_OK(rl_buffer_put(buffer_, &more, &err));
  const uint64_t ordinals[] = {9, 4, 77};
  wanted = rule();
  wanted.ordinals = ordinals;
  wanted.num_ordinals = 0;
  EXPECT_EQ(drop(wanted), 0u) << "of no ordinal";
  wanted.num_ordinals = 3;
  EXPECT_EQ(drop(wanted), 3u);
  EXPECT_RL_OK(rl_buffer_drop(buffer_, nullptr, nullptr, &err));
  EXPECT_EQ(stats_of(buffer_).samples, 0u);
  EXPECT_EQ(stats_of(buffer_).dropped, 5u);
}

TEST_F(AbiBufferRules, RulesThatCannotBeAreNamed) {
  create(6);
  const auto take_refused = [&](const char* key, auto&& spoil) {
    rl_take take;
    rl_take_init(&take, sizeof take);
    spoil(take);
    expect_refused(RL_OUT_OF_RANGE, key, [&](rl_batch** out, rl_error** err) {
      return rl_buffer_take(buffer_, &take, -1, out, err);
    });
  };
  take_refused("take.min_groups", [](rl_take& t) { t.min_groups = 0; });
  take_refused("take.min_groups", [](rl_take& t) { t.min_groups = 4; });  // no room for them
  take_refused("take.max_groups", [](rl_take& t) { t.max_groups = 0; });
  take_refused("take.max_groups", [](rl_take& t) { t.min_groups = 3, t.max_groups = 2; });
  const auto drop_refused = [&](const char* key, auto&& spoil) {
    rl_drop wanted = rule();
    spoil(wanted);
    rl_error* err = nullptr;
    uint64_t count = 5;
    EXPECT_EQ(rl_buffer_drop(buffer_, &wanted, &count, &err), RL_INVALID_ARGUMENT) << key;
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key);
    EXPECT_EQ(count, 0u);
    rl_error_release(err);
  };
  drop_refused("drop.ordinals", [](rl_drop& d) { d.num_ordinals = 1; });
  drop_refused("drop.incomplete_only", [](rl_drop& d) { d.incomplete_only = 2; });
  drop_refused("drop.reserved", [](rl_drop& d) { d.reserved = 1; });
}

TEST_F(AbiBufferRules, AWaitEndsWithItsGroups) {
  create();
  put(0, 1);
  rl_take take;
  rl_take_init(&take, sizeof take);
  take.min_groups = 3;
  Batch none, batch;
  EXPECT_EQ(rl_buffer_take(buffer_, &take, 1'000'000, none.out(), nullptr), RL_TIMEOUT);
  std::jthread other([&] { put(1, 3); });
  EXPECT_RL_OK(rl_buffer_take(buffer_, &take, -1, batch.out(), &err));
  EXPECT_EQ(batch.count(), 6u);
}

TEST_F(AbiBufferRules, DestroyingTheBufferEndsEveryWait) {
  create();
  put(0, 1);
  rl_take take;
  rl_take_init(&take, sizeof take);
  take.min_groups = 2;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      rl_batch* batch = nullptr;
      const rl_status status = rl_buffer_take(buffer_, &take, -1, &batch, nullptr);
      EXPECT_TRUE(status == RL_DONE || status == RL_STALE_HANDLE) << status;
      EXPECT_EQ(batch, nullptr);
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most of them wait by now
  rl_buffer_destroy(buffer_);
  threads.clear();
}

}  // namespace
}  // namespace abi_test
