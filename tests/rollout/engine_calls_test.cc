// The owner's calls between two steps: who is found, spared and ended, what waits while admissions
// are off, what the prefix cache would give, and how requests are told apart by their keys.
#include <gtest/gtest.h>

#include <limits>

#include "core/fs.h"
#include "core/trace.h"
#include "rollout/engine_fixture.h"
#include "support/fake_clock.h"
#include "support/temp_dir.h"
#include "text/small_tokenizer.h"
#include "text/tokenizer.h"

namespace rl::testing {
namespace {

using Ids = std::vector<int32_t>;

class EngineCalls : public ::testing::Test {
 protected:
  TestEngine make(const EngineOptions& options, int64_t num_blocks = 64) {
    return TestEngine(tiny_, options, num_blocks, nullptr, &tracer_);
  }
  // A step, after which 10 ns pass.
  void step(TestEngine& test) {
    ASSERT_TRUE(test.engine.step());
    clock_.advance(10);
  }

  FakeClock clock_;
  Tracer tracer_{clock_};
  TinyModel tiny_{TinyModel::fixture("llama"), Dtype::kF32, 1};
};

Request request(uint64_t ordinal, int64_t tokens = 20) {
  return make_request({static_cast<int32_t>(ordinal), 20, 30}, tokens, 1.0f, ordinal);
}

// Goes on from a sample that was aborted so often before anything was sampled.
Request aborted_before(uint64_t ordinal, uint32_t num_aborts) {
  Request r = request(ordinal);
  auto sample = std::make_shared<Sample>();
  sample->ids = std::move(r.prompt);
  sample->prompt_tokens = 3;
  sample->ordinal = ordinal;
  sample->num_aborts = num_aborts;
  r.prompt.clear();
  r.resume = sample;
  return r;
}

TEST_F(EngineCalls, AnInterruptSparesFromTheLimitOnAlsoWhatWaits) {
  TestEngine test = make({.max_num_seqs = 1, .max_aborts = 2});
  test.engine.submit(request(0));
  for (const uint32_t aborts : {1, 2, 3}) test.engine.submit(aborted_before(aborts, aborts));
  step(test);
  EXPECT_EQ(test.engine.abort_unspared(), 2);
  const SampleMap ended = test.take();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended.at({0, 0})->num_aborts, 1u);
  EXPECT_EQ(ended.at({0, 0})->generated(), 1);
  EXPECT_EQ(ended.at({1, 0})->num_aborts, 2u);
  EXPECT_EQ(ended.at({1, 0})->finish, FinishReason::kAborted);
  EXPECT_EQ(test.engine.stats().running, 0);
  EXPECT_EQ(test.engine.stats().waiting, 2);
  EXPECT_EQ(test.engine.stats().aborted, 2);
  const SampleMap rest = test.run();
  EXPECT_EQ(rest.at({2, 0})->finish, FinishReason::kLength);
  EXPECT_EQ(rest.at({3, 0})->num_aborts, 3u);
  EXPECT_EQ(test.engine.stats().finished, 4);
  expect_idle(test.engine);
}

// Each way to end the last request ends the time that counts as busy.
TEST_F(EngineCalls, TimeAfterTheLastEndIsIdle) {
  TestEngine test = make({});
  const uint64_t first = test.engine.submit(request(0));
  step(test);
  EXPECT_TRUE(test.engine.abort(first));
  EXPECT_EQ(test.engine.stats().busy_ns, 10);
  clock_.advance(1000);
  test.engine.submit(request(1));
  step(test);
  EXPECT_EQ(test.engine.abort_unspared(), 0);
  EXPECT_EQ(test.engine.stats().busy_ns, 20);
  clock_.advance(1000);
  test.engine.submit(request(2));
  step(test);
  test.engine.abort_all();
  clock_.advance(1000);
  test.engine.submit(request(3, 1));
  test.engine.step();
  EXPECT_EQ(test.engine.stats().busy_ns, 30);
  clock_.advance(1000);
  EXPECT_FALSE(test.engine.step());
  EXPECT_EQ(test.engine.stats().busy_ns, 30);
}

TEST_F(EngineCalls, WithoutAdmissionsANewRequestIsNoWork) {
  TestEngine test = make({});
  EXPECT_TRUE(test.engine.nothing_runnable());
  test.engine.set_admitting(false);
  test.engine.submit(request(0, 2));
  clock_.advance(100);
  EXPECT_TRUE(test.engine.nothing_runnable());
  EXPECT_FALSE(test.engine.idle());
  EXPECT_FALSE(test.engine.step());
  EXPECT_EQ(test.engine.num_unfinished(), 1);
  EXPECT_EQ(test.engine.stats().started, 0);
  EXPECT_EQ(test.engine.stats().busy_ns, 0);
  test.engine.set_admitting(true);
  EXPECT_FALSE(test.engine.nothing_runnable());
  clock_.advance(50);
  step(test);
  EXPECT_EQ(test.engine.stats().started, 1);
  test.engine.set_admitting(false);
  EXPECT_FALSE(test.engine.nothing_runnable()) << "what has begun runs to its end";
  step(test);
  EXPECT_TRUE(test.engine.idle());
  EXPECT_EQ(test.engine.stats().busy_ns, 10);
  EXPECT_EQ(test.engine.stats().queue_ns, 150);
}

TEST_F(EngineCalls, ASampleIsFoundByItsIdAmongAllRequests) {
  TestEngine test = make({.max_num_seqs = 1});
  Request pair = request(0), one = request(1);
  pair.num_samples = 2;
  pair.first_sample_id = 10;
  one.first_sample_id = 20;
  const uint64_t a = test.engine.submit(pair), b = test.engine.submit(one);
  EXPECT_NE(a, b);
  EXPECT_EQ(test.engine.find(10), a);
  EXPECT_EQ(test.engine.find(11), a);
  EXPECT_EQ(test.engine.find(20), b);
  for (const uint64_t id : {0, 9, 12, 19, 21}) EXPECT_FALSE(test.engine.find(id)) << id;
  EXPECT_TRUE(test.engine.abort(a));
  EXPECT_FALSE(test.engine.find(10));
  EXPECT_EQ(test.engine.find(20), b);
}

TEST_F(EngineCalls, UnfinishedSamplesRunOrWait) {
  TestEngine test = make({.max_num_seqs = 2});
  Request r = request(0);
  r.num_samples = 3;
  test.engine.submit(r);
  EXPECT_EQ(test.engine.num_unfinished(), 3);
  step(test);
  EXPECT_EQ(test.engine.stats().running, 2);
  EXPECT_EQ(test.engine.stats().waiting, 1);
  EXPECT_EQ(test.engine.num_unfinished(), 3);
}

TEST_F(EngineCalls, ThePrefixCacheAnswersInWholeBlocks) {
  Ids ids(40);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 3);
  const auto first = [&](size_t count) {
    return make_request(Ids(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count)), 2, 1.0f);
  };
  TestEngine test = make({});
  EXPECT_EQ(test.engine.cached_prefix(first(40)), 0);
  const SamplePtr sample = test.run({first(40)}).at({0, 0});
  const std::pair<size_t, int64_t> cached[] = {{15, 0}, {16, 16}, {31, 16}, {32, 32}, {40, 32}};
  for (const auto& [count, tokens] : cached) {
    EXPECT_EQ(test.engine.cached_prefix(first(count)), tokens);
  }
  Request more = first(0);
  EXPECT_EQ(test.engine.cached_prefix(more), 0);
  more.resume = sample;
  EXPECT_EQ(test.engine.cached_prefix(more), 32);
  test.engine.forget_kv();
  EXPECT_EQ(test.engine.cached_prefix(first(40)), 0);
  TestEngine without = make({.prefix_caching = false});
  without.run({first(40)});
  EXPECT_EQ(without.engine.cached_prefix(first(40)), 0);
  EXPECT_EQ(without.engine.stats().cached_tokens, 0);
}

TEST_F(EngineCalls, APeakRestartsFromWhatIsInUse) {
  TestEngine test = make({});
  test.engine.submit(make_request(Ids(40, 5), 1, 1.0f, 0));  // three blocks, for one step
  test.engine.submit(request(1));                            // one block
  step(test);
  EXPECT_EQ(test.engine.stats().blocks_peak, 4);
  EXPECT_EQ(test.engine.stats().blocks_in_use, 1);
  EXPECT_EQ(test.engine.stats().blocks_total, 64);
  test.engine.restart_peak();
  EXPECT_EQ(test.engine.stats().blocks_peak, 1);
  step(test);
  EXPECT_EQ(test.engine.stats().blocks_peak, 1);
}

TEST_F(EngineCalls, FinishedSamplesAreAppendedAndLeaveTheEngineOnce) {
  TestEngine test = make({});
  test.engine.submit(request(4, 1));
  test.engine.submit(request(5, 1));
  step(test);
  const auto before = std::make_shared<Sample>();
  std::vector<SamplePtr> all = {before};
  test.engine.take_finished(all);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], before);
  EXPECT_EQ(all[1]->ordinal, 4u);
  EXPECT_EQ(all[2]->ordinal, 5u);
  test.engine.take_finished(all);
  EXPECT_EQ(all.size(), 3u);
  EXPECT_TRUE(test.engine.take_finished().empty());
}

// Random numbers are keyed by the request's own seed alone, or by run, ordinal, slot and purpose.
TEST_F(EngineCalls, AnOwnSeedReplacesSeedAndOrdinal) {
  TestEngine test = make({});
  const auto ids_of = [&](int64_t own_seed, uint64_t seed, uint64_t ordinal, bool bare = false,
                          uint32_t slot = 0) {
    Request r = make_request({10, 20, 30}, 12, 1.0f, ordinal);
    r.own_seed = own_seed;
    r.seed = seed;
    r.bare = bare;
    r.first_slot = slot;
    return test.run({r}).begin()->second->ids;
  };
  for (const int64_t own : {0, 5}) {
    const Ids ids = ids_of(own, 1, 3);
    EXPECT_EQ(ids_of(own, 2, 4), ids);
    EXPECT_EQ(ids_of(own, 2, 4, true), ids);
    EXPECT_EQ(ids_of(-1, static_cast<uint64_t>(own), 0, true), ids)
        << "a bare request of ordinal 0 has the same key";
    EXPECT_NE(ids_of(own + 1, 1, 3), ids);
    EXPECT_NE(ids_of(own, 1, 3, false, 1), ids) << "slots differ";
  }
  const Ids of_run = ids_of(-1, 1, 3);
  EXPECT_NE(ids_of(-1, 2, 3), of_run);
  EXPECT_NE(ids_of(-1, 1, 4), of_run);
  EXPECT_NE(ids_of(-1, 1, 3, false, 1), of_run);
  EXPECT_NE(ids_of(-1, 1, 3, true), of_run);
}

TEST_F(EngineCalls, LogitsThatTurnNonFiniteTakeTheTokensOfTheRequestBack) {
  TestEngine test = make({});
  Request r = make_request({10, 20, 30}, 30, 1.0f, 17);
  r.first_slot = 3;
  test.engine.submit(r);
  for (int i = 0; i < 3; ++i) step(test);
  float* embedding = tiny_.model->master() + tiny_.model->layout().embedding();
  for (int64_t id = 0; id < tiny_.model->config().vocab; ++id) {
    embedding[id * tiny_.model->config().hidden] = std::numeric_limits<float>::quiet_NaN();
  }
  step(test);
  const SamplePtr s = test.take().at({17, 3});
  EXPECT_EQ(s->ids, r.prompt);
  EXPECT_EQ(s->logprobs.size() + s->versions.size() + s->loss_mask.size(), 0u);
  EXPECT_EQ(s->finish, FinishReason::kAborted);
  EXPECT_EQ(s->num_aborts, 0u) << "nobody aborted it";
  const std::vector<Error> errors = test.engine.take_errors();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message, "the logits for position 6 of ordinal 17 slot 3 are not finite");
  EXPECT_EQ(errors[0].location, "position 6");
  const EngineStats stats = test.engine.stats();
  EXPECT_EQ(stats.generated_tokens, 3);
  EXPECT_EQ(stats.first_tokens, 1);
  EXPECT_EQ(stats.finished, 1);
  EXPECT_EQ(stats.aborted, 1);
  EXPECT_EQ(stats.nonfinite, 1);
  expect_idle(test.engine);
}

// Id 0 is "a", id 1 is "b".
class StopStrings : public EngineCalls {
 protected:
  StopStrings() {
    write_file_atomically(real_fs(), dir_.file("tokenizer.json"), test::small_tokenizer().dump());
    tokenizer_ =
        std::make_unique<Tokenizer>(Tokenizer::from_json(real_fs(), dir_.file("tokenizer.json")));
  }
  // A sample that can only go on with `next`.
  Sample run(Request r, int32_t next, const char* stop) {
    r.sampling.allowed_token_ids = {next};
    r.stop_strings = {stop};
    TestEngine test(tiny_, {}, 64, tokenizer_.get());
    return *test.run({r}).begin()->second;
  }
  // Goes on from a prompt of one token and ids with this loss mask.
  static Request resumed(const Ids& ids, const std::vector<uint8_t>& mask) {
    auto s = std::make_shared<Sample>();
    s->ids = ids;
    s->prompt_tokens = 1;
    s->logprobs.assign(mask.size(), -1.0f);
    s->logprobs_sampled = s->logprobs;
    s->versions.assign(mask.size(), 0);
    s->loss_mask = mask;
    Request r = make_request({}, 3, 1.0f);
    r.resume = s;
    return r;
  }

  const TempDir dir_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(StopStrings, OneThatIsCompleteWithTheLastPermittedTokenIsAStop) {
  const Sample whole = run(make_request({10}, 2, 1.0f), 0, "aa");
  EXPECT_EQ(whole.generated(), 2);
  EXPECT_EQ(whole.finish, FinishReason::kStopString);
  EXPECT_EQ(run(make_request({10}, 2, 1.0f), 0, "aaa").finish, FinishReason::kLength);
}

TEST_F(StopStrings, AStopIdGoesBeforeAString) {
  Request r = make_request({10}, 2, 1.0f);
  r.stop_token_ids = {0};
  const Sample s = run(r, 0, "a");
  EXPECT_EQ(s.generated(), 1);
  EXPECT_EQ(s.finish, FinishReason::kStopToken);
}

TEST_F(StopStrings, NoneBeginsInThePrompt) {
  EXPECT_EQ(run(make_request({0}, 5, 1.0f), 0, "aa").generated(), 2);
  EXPECT_EQ(run(resumed({0}, {}), 1, "ab").finish, FinishReason::kLength);
}

TEST_F(StopStrings, NoneBeginsInTokensOfAnEnvironment) {
  const Sample given = run(resumed({10, 0}, {0}), 1, "ab");
  EXPECT_EQ(given.finish, FinishReason::kLength);
  EXPECT_EQ(given.generated(), 1 + 3);
  const Sample sampled = run(resumed({10, 0, 0}, {0, 1}), 1, "ab");
  EXPECT_EQ(sampled.finish, FinishReason::kStopString);
  EXPECT_EQ(sampled.generated(), 2 + 1);
}

}  // namespace
}  // namespace rl::testing
