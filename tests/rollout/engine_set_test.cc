// Several engines over one model: samples are those of one engine, work is spread, prefixes and
// groups stay where their KV is.
#include "rollout/engine_set.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "rollout/engine_fixture.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

class TestSet {
 public:
  TestSet(const TinyModel& tiny, EngineOptions options, int64_t num_engines, int64_t blocks = 256)
      : kv_bytes_(static_cast<uint64_t>(blocks) * tiny.model->kv_shape().block_bytes()),
        workspace_bytes_(engine_workspace_bytes(*tiny.model, options)),
        arena_("test engines",
               static_cast<uint64_t>(num_engines) * (kv_bytes_ + workspace_bytes_)) {
    options.num_blocks = blocks;
    const auto all_kv = static_cast<uint64_t>(num_engines) * kv_bytes_;
    const EngineSetMemory memory{num_engines, arena_.data(), kv_bytes_, arena_.data() + all_kv,
                                 workspace_bytes_};
    set = std::make_unique<EngineSet>(*tiny.model, options, memory, nullptr, nullptr);
  }
  SampleMap run() {
    while (set->step()) {
    }
    return take();
  }
  SampleMap take() {
    SampleMap samples;
    for (const SamplePtr& s : set->take_finished()) {
      EXPECT_TRUE(samples.emplace(SampleKey{s->ordinal, s->slot}, s).second) << "a sample twice";
    }
    return samples;
  }
  std::vector<int64_t> loads() const {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < set->num_engines(); ++i) {
      const EngineStats s = set->stats(i);
      out.push_back(s.running + s.waiting);
    }
    return out;
  }

 private:
  uint64_t kv_bytes_, workspace_bytes_;
  Arena arena_;

 public:
  std::unique_ptr<EngineSet> set;
};

class EngineSetTest : public ::testing::Test {
 protected:
  TinyModel tiny_{TinyModel::fixture("llama"), Dtype::kF32, 2};
};

TEST_F(EngineSetTest, SamplesDoNotDependOnTheNumberOfEngines) {
  const auto requests = mixed_requests(30, 256, 11);
  SampleMap one;
  for (const int64_t engines : {1, 2, 3}) {
    TestSet test(tiny_, {.max_num_seqs = 6, .max_num_batched_tokens = 32}, engines, 24);
    for (const Request& r : requests) test.set->submit(r);
    const SampleMap samples = test.run();
    if (engines == 1) one = samples;
    expect_same_samples(one, samples);
    EXPECT_TRUE(test.set->idle());
    for (int64_t i = 0; i < engines; ++i) {
      EXPECT_GT(test.set->stats(i).finished, 0) << "engine " << i << " had nothing to do";
      EXPECT_EQ(test.set->stats(i).blocks_in_use, 0);
    }
  }
}

TEST_F(EngineSetTest, GroupsGoWholeToTheLeastLoadedEngine) {
  TestSet test(tiny_, {}, 3);
  for (const int64_t samples : {4, 2, 1, 1, 1}) {
    Request r = make_request({1, 2, 3}, 4);
    r.num_samples = samples;
    test.set->submit(r);
  }
  EXPECT_EQ(test.loads(), (std::vector<int64_t>{4, 3, 2}));
  test.set->abort_all();
  EXPECT_EQ(test.loads(), (std::vector<int64_t>{0, 0, 0}));
}

TEST_F(EngineSetTest, APrefixIsSoughtWhereItWasComputed) {
  TestSet test(tiny_, {.max_num_seqs = 8}, 2);
  const std::vector<int32_t> prompt(40, 7);
  test.set->submit(make_request({1, 2}, 2, 0, 0));  // engine 0
  test.set->submit(make_request(prompt, 2, 0, 1));  // engine 1
  test.run();
  // Both are idle; the prefix decides, until engine 1 has two samples more than the other.
  for (uint64_t i = 2; i < 6; ++i) test.set->submit(make_request(prompt, 2, 0, i));
  EXPECT_EQ(test.loads(), (std::vector<int64_t>{1, 3}));
  test.run();
  EXPECT_EQ(test.set->stats(1).cached_tokens, 3 * 32);
  EXPECT_EQ(test.set->stats(0).cached_tokens, 0);
}

TEST_F(EngineSetTest, EnginesStepInTurn) {
  TestSet test(tiny_, {}, 3);
  for (uint64_t i = 0; i < 2; ++i) test.set->submit(make_request({1, 2}, 4, 0, i));
  for (const int64_t forwards : {1, 2, 3, 4}) {
    ASSERT_TRUE(test.set->step());
    EXPECT_EQ(test.set->stats().forwards, forwards);
  }
  EXPECT_EQ(test.set->stats(0).forwards, 2);
  EXPECT_EQ(test.set->stats(1).forwards, 2);
  EXPECT_EQ(test.set->stats(2).forwards, 0);
}

TEST_F(EngineSetTest, SamplesComeInTheOrderOfTheirEnds) {
  TestSet test(tiny_, {}, 2);
  uint64_t ordinal = 0;
  for (const int64_t tokens : {6, 2, 3, 5, 1, 4}) {
    test.set->submit(make_request({1, 2}, tokens, 0, ordinal++));
  }
  while (test.set->step()) {
  }
  std::vector<int64_t> lengths;
  for (const SamplePtr& s : test.set->take_finished()) lengths.push_back(s->generated());
  EXPECT_EQ(lengths, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(test.set->take_finished().empty());
}

TEST_F(EngineSetTest, ARequestIsAbortedByItsNumber) {
  TestSet test(tiny_, {}, 2);
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < 4; ++i) {
    numbers.push_back(test.set->submit(make_request({1, 2}, 9, 0, i)));
  }
  EXPECT_EQ(std::set<uint64_t>(numbers.begin(), numbers.end()).size(), 4u);
  EXPECT_TRUE(test.set->abort(numbers[2]));
  EXPECT_FALSE(test.set->abort(numbers[2]));
  const SampleMap samples = test.run();
  for (const auto& [key, s] : samples) {
    EXPECT_EQ(s->finish == FinishReason::kAborted, key.first == 2) << key.first;
  }
  EXPECT_EQ(samples.size(), 4u);
}

TEST_F(EngineSetTest, StatsAddUpAndIntervalsNameTheirEngine) {
  TestSet test(tiny_, {.stats_interval_ns = 1}, 2);
  for (uint64_t i = 0; i < 4; ++i) test.set->submit(make_request({1, 2}, 5, 0, i));
  EngineStats sum;
  std::vector<int64_t> forwards(2);
  while (test.set->step()) {
    while (const auto interval = test.set->take_interval()) {
      forwards.at(static_cast<size_t>(interval->first)) += interval->second.forwards;
    }
  }
  EXPECT_EQ(forwards, (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(test.set->stats().finished, 4);
  EXPECT_EQ(test.set->stats().generated_tokens, 20);
  EXPECT_EQ(test.set->stats().blocks_total, 512);
  EXPECT_EQ(test.set->last_interval(1)->forwards, 1);
}

TEST_F(EngineSetTest, ErrorsAndPeaksAreThoseOfAllEngines) {
  tiny_.model->master()[5 * tiny_.model->config().hidden] = NAN;  // the embedding of id 5
  tiny_.model->publish();
  TestSet test(tiny_, {}, 3);
  for (uint64_t i = 0; i < 3; ++i) test.set->submit(make_request({1, 5}, 4, 0, i));
  test.run();
  const std::vector<Error> errors = test.set->take_errors();
  ASSERT_EQ(errors.size(), 3u);
  for (const Error& e : errors) EXPECT_EQ(e.code, Code::kNonFinite);
  EXPECT_TRUE(test.set->take_errors().empty());
  EXPECT_EQ(test.set->stats().blocks_peak, 3);
  test.set->restart_peak();
  EXPECT_EQ(test.set->stats().blocks_peak, 0);
}

TEST_F(EngineSetTest, ASampleIsFoundUnderTheNumberOfItsRequest) {
  TestSet test(tiny_, {}, 3);
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < 7; ++i) {
    Request r = make_request({1, 2}, 9, 0, i);
    r.first_sample_id = 100 + i;
    numbers.push_back(test.set->submit(r));
  }
  for (uint64_t i = 0; i < 7; ++i) EXPECT_EQ(test.set->find(100 + i), numbers[i]) << i;
  EXPECT_FALSE(test.set->find(99));
  EXPECT_FALSE(test.set->find(107));
  EXPECT_TRUE(test.set->abort(*test.set->find(104)));
  EXPECT_FALSE(test.set->find(104));
  EXPECT_EQ(test.take().begin()->first, (SampleKey{4, 0}));
}

TEST_F(EngineSetTest, AnInterruptCountsTheSparedOfAllEngines) {
  TestSet test(tiny_, {.max_aborts = 1}, 2);
  for (uint64_t i = 0; i < 5; ++i) {
    Request r = make_request({1, 2}, 9, 1.0f, i);
    if (i != 2) {
      auto sample = std::make_shared<Sample>();
      sample->ids = std::move(r.prompt);
      sample->prompt_tokens = 2;
      sample->ordinal = i;
      sample->num_aborts = 1;
      r.prompt.clear();
      r.resume = sample;
    }
    test.set->submit(r);
  }
  EXPECT_EQ(test.loads(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(test.set->abort_unspared(), 4);
  EXPECT_EQ(test.loads(), (std::vector<int64_t>{2, 2})) << "the first engine had the fresh one";
  const SampleMap aborted = test.take();
  ASSERT_EQ(aborted.size(), 1u);
  EXPECT_EQ(aborted.begin()->first, (SampleKey{2, 0}));
}

TEST_F(EngineSetTest, WithoutAdmissionsNoEngineBegins) {
  TestSet test(tiny_, {}, 2);
  EXPECT_TRUE(test.set->nothing_runnable());
  test.set->set_admitting(false);
  for (uint64_t i = 0; i < 2; ++i) test.set->submit(make_request({1, 2}, 3, 0, i));
  EXPECT_TRUE(test.set->nothing_runnable());
  EXPECT_FALSE(test.set->idle());
  EXPECT_FALSE(test.set->step());
  EXPECT_EQ(test.loads(), (std::vector<int64_t>{1, 1}));
  test.set->set_admitting(true);
  EXPECT_FALSE(test.set->nothing_runnable());
  EXPECT_EQ(test.run().size(), 2u);
  EXPECT_TRUE(test.set->idle());
}

TEST_F(EngineSetTest, OneEngineWithWorkIsEnough) {
  TestSet test(tiny_, {}, 3);
  test.set->submit(make_request({1, 2}, 2, 0, 0));  // engine 0
  EXPECT_FALSE(test.set->nothing_runnable());
  EXPECT_FALSE(test.set->idle());
  EXPECT_TRUE(test.set->step());
  EXPECT_TRUE(test.set->step()) << "engines without work are passed over";
  EXPECT_FALSE(test.set->step());
  EXPECT_TRUE(test.set->nothing_runnable());
  EXPECT_TRUE(test.set->idle());
}

TEST_F(EngineSetTest, EveryEngineForgetsItsKeysAndValues) {
  TestSet test(tiny_, {}, 2);
  const auto submit = [&] {
    for (int32_t i = 0; i < 2; ++i) {
      test.set->submit(make_request(std::vector<int32_t>(40, i), 2, 0, static_cast<uint64_t>(i)));
    }
  };
  submit();
  test.run();
  test.set->forget_kv();
  submit();
  test.run();
  EXPECT_EQ(test.set->stats().cached_tokens, 0);
  submit();
  test.run();
  EXPECT_EQ(test.set->stats(0).cached_tokens, 32);
  EXPECT_EQ(test.set->stats(1).cached_tokens, 32);
}

TEST_F(EngineSetTest, WhatIsThereBeforeTheFinishedSamplesStaysInPlace) {
  TestSet test(tiny_, {}, 2);
  for (const int64_t tokens : {3, 1}) {
    test.set->submit(make_request({1, 2}, tokens, 0, static_cast<uint64_t>(tokens)));
  }
  while (test.set->step()) {
  }
  const auto late = std::make_shared<Sample>();
  late->finished_ns = std::numeric_limits<int64_t>::max();
  std::vector<SamplePtr> all = {late};
  test.set->take_finished(all);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], late);
  EXPECT_EQ(all[1]->ordinal, 1u);
  EXPECT_EQ(all[2]->ordinal, 3u);
}

TEST_F(EngineSetTest, LanesOfEnginesAreSixteenApart) {
  EXPECT_EQ(engine_lane(4, 0), 4u);
  EXPECT_EQ(engine_lane(4, 1), 20u);
  EXPECT_EQ(engine_lane(4, 3), 52u);
}

TEST_F(EngineSetTest, ARefusedRequestLeavesTheEnginesAsTheyWere) {
  TestSet test(tiny_, {.max_model_len = 20}, 2);
  expect_error(Code::kOutOfRange, [&] { test.set->submit(make_request({1, 2}, 19)); });
  EXPECT_EQ(test.loads(), (std::vector<int64_t>{0, 0}));
  EXPECT_FALSE(test.set->step());
}

}  // namespace
}  // namespace rl::testing
