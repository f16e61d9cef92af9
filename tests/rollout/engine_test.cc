// What the engine does with requests: how samples end, how groups share work, and what it leaves.
#include "rollout/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/trace.h"
#include "rollout/engine_fixture.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/small_tokenizer.h"
#include "text/tokenizer.h"

namespace rl::testing {
namespace {

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() : tiny_(TinyModel::fixture("llama"), Dtype::kF32, 2) {}

  // A sampled continuation of 30 tokens that nothing stops.
  Sample free_run(uint64_t ordinal = 0) {
    TestEngine test(tiny_, {});
    return *test.run({make_request({10, 20, 30}, 30, 1.0f, ordinal)}).at({ordinal, 0});
  }

  TinyModel tiny_;
};

TEST_F(EngineTest, StopsAfterMaxNewTokensWithEveryFieldFilledIn) {
  TestEngine test(tiny_, {});
  Request r = make_request({10, 20, 30}, 5, 0.7f, 17);
  r.num_samples = 2;
  r.first_slot = 3;
  r.first_sample_id = 100;
  r.attempt = 2;
  r.purpose = Purpose::kEval;
  const SampleMap samples = test.run({r});
  ASSERT_EQ(samples.size(), 2u);
  const Sample& s = *samples.at({17, 4});
  EXPECT_EQ(s.id, 101u);
  EXPECT_EQ(s.attempt, 2u);
  EXPECT_EQ(s.purpose, Purpose::kEval);
  EXPECT_EQ(s.prompt_tokens, 3);
  EXPECT_EQ(s.generated(), 5);
  EXPECT_EQ(s.logprobs.size(), 5u);
  EXPECT_EQ(s.logprobs_sampled.size(), 5u);
  EXPECT_EQ(s.versions, std::vector<uint64_t>(5, 0));
  EXPECT_EQ(s.loss_mask, std::vector<uint8_t>(5, 1));
  EXPECT_EQ(s.temperature, 0.7f);
  EXPECT_EQ(s.finish, FinishReason::kLength);
  EXPECT_GT(s.submitted_ns, 0);
  EXPECT_GE(s.first_token_ns, s.submitted_ns);
  EXPECT_GE(s.finished_ns, s.first_token_ns);
  expect_idle(test.engine);
}

TEST_F(EngineTest, StopTokenEndsTheSampleAndStaysInIt) {
  const Sample whole = free_run();
  const int32_t stop = whole.ids[10];
  const auto first = std::find(whole.ids.begin() + 3, whole.ids.end(), stop);
  TestEngine test(tiny_, {});
  Request r = make_request({10, 20, 30}, 30, 1.0f);
  r.stop_token_ids = {stop};
  const Sample s = *test.run({r}).at({0, 0});
  EXPECT_EQ(s.finish, FinishReason::kStopToken);
  EXPECT_EQ(s.ids, std::vector<int32_t>(whole.ids.begin(), first + 1));
  EXPECT_EQ(s.logprobs.size(), static_cast<size_t>(s.generated()));
}

TEST_F(EngineTest, AStopTokenThatIsTheLastPermittedOneIsAStop) {
  const Sample whole = free_run();
  const int32_t stop = whole.ids[10];
  const auto first = std::find(whole.ids.begin() + 3, whole.ids.end(), stop);
  TestEngine test(tiny_, {});
  Request r = make_request({10, 20, 30}, first + 1 - (whole.ids.begin() + 3), 1.0f);
  r.stop_token_ids = {stop};
  const Sample s = *test.run({r}).at({0, 0});
  EXPECT_EQ(s.generated(), r.max_new_tokens);
  EXPECT_EQ(s.finish, FinishReason::kStopToken);
}

TEST_F(EngineTest, EosOfTheModelStopsUnlessIgnored) {
  const int32_t eos = tiny_.model->config().eos_ids.at(0);
  // Seeds are tried until a free run contains the eos id after its first token.
  uint64_t ordinal = 0;
  Sample whole = free_run();
  while (std::count(whole.ids.begin() + 4, whole.ids.end(), eos) == 0) {
    ASSERT_LT(++ordinal, 200u);
    whole = free_run(ordinal);
  }
  EXPECT_EQ(whole.finish, FinishReason::kLength);
  const auto first = std::find(whole.ids.begin() + 3, whole.ids.end(), eos);
  TestEngine test(tiny_, {});
  Request r = make_request({10, 20, 30}, 30, 1.0f, ordinal);
  r.ignore_eos = false;
  const Sample s = *test.run({r}).at({ordinal, 0});
  EXPECT_EQ(s.finish, FinishReason::kStopToken);
  EXPECT_EQ(s.ids, std::vector<int32_t>(whole.ids.begin(), first + 1));
}

TEST_F(EngineTest, StopStringAcrossTokensEndsTheSample) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      real_fs(), std::string(RL_FIXTURES) + "/tokenizers/tiny_gpt2.tokenizer.json");
  ASSERT_GE(tokenizer.vocab_size(), tiny_.model->config().vocab);
  const auto is_ascii = [&](int32_t id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    return bytes.size() == 1 && bytes[0] > 32 && bytes[0] < 127;
  };
  // A free run with two printable tokens side by side, after its first token.
  uint64_t ordinal = 0;
  Sample whole;
  size_t at = 0;
  for (; at == 0; ++ordinal) {
    ASSERT_LT(ordinal, 200u);
    whole = free_run(ordinal);
    for (size_t i = 5; i < whole.ids.size() && at == 0; ++i) {
      if (is_ascii(whole.ids[i - 1]) && is_ascii(whole.ids[i])) at = i;
    }
  }
  --ordinal;
  Request r = make_request({10, 20, 30}, 30, 1.0f, ordinal);
  const std::string stop = std::string(tokenizer.token_bytes(whole.ids[at - 1])) +
                           std::string(tokenizer.token_bytes(whole.ids[at]));
  r.stop_strings = {"never in it", stop};
  TestEngine test(tiny_, {}, 1024, &tokenizer);
  const Sample s = *test.run({r}).at({ordinal, 0});
  EXPECT_EQ(s.finish, FinishReason::kStopString);
  EXPECT_EQ(s.ids, std::vector<int32_t>(whole.ids.begin(),
                                        whole.ids.begin() + static_cast<int64_t>(at) + 1));
  expect_idle(test.engine);
}

TEST_F(EngineTest, GroupPrefillsItsPromptOnce) {
  TestEngine test(tiny_, {});
  Request r = make_request(std::vector<int32_t>(37, 5), 6, 1.0f);
  r.num_samples = 8;
  EXPECT_EQ(test.run({r}).size(), 8u);
  const EngineStats stats = test.engine.stats();
  EXPECT_EQ(stats.prefill_tokens, 37);
  EXPECT_EQ(stats.decode_tokens, 8 * 5);
  EXPECT_EQ(stats.forwards, 6);
  EXPECT_GT(stats.prefill_ns, 0);
  EXPECT_GT(stats.decode_ns, 0);
  EXPECT_EQ(stats.preemptions, 0);
}

TEST_F(EngineTest, SamplesOfAGroupDifferAndSeedsRepeat) {
  TestEngine test(tiny_, {});
  Request r = make_request({1, 2, 3}, 12, 1.0f);
  r.num_samples = 3;
  const SampleMap a = test.run({r});
  expect_same_samples(a, test.run({r}));
  EXPECT_NE(a.at({0, 0})->ids, a.at({0, 1})->ids);
  EXPECT_NE(a.at({0, 1})->ids, a.at({0, 2})->ids);
  const auto ids_of = [&](const Request& request) { return test.run({request}).at({0, 0})->ids; };
  Request other = r;
  other.seed += 1;
  EXPECT_NE(ids_of(other), a.at({0, 0})->ids);
  other = r;
  other.purpose = Purpose::kEval;
  EXPECT_NE(ids_of(other), a.at({0, 0})->ids);
  other = r;
  other.bare = true;
  EXPECT_NE(ids_of(other), a.at({0, 0})->ids);
}

TEST_F(EngineTest, AbortEndsRunningAndWaitingRequests) {
  TestEngine test(tiny_, {.max_num_seqs = 4, .max_num_batched_tokens = 16});
  const auto requests = mixed_requests(10, 256, 3);
  int64_t total = 0;
  for (const Request& r : requests) {
    test.engine.submit(r);
    total += r.num_samples;
  }
  for (int i = 0; i < 6; ++i) test.engine.step();
  const auto before = static_cast<int64_t>(test.take().size());
  const EngineStats stats = test.engine.stats();
  EXPECT_GT(stats.running, 0);
  EXPECT_GT(stats.waiting, 0);
  EXPECT_GT(stats.blocks_in_use, 0);
  test.engine.abort_all();
  expect_idle(test.engine);
  EXPECT_FALSE(test.engine.step());
  int64_t with_tokens = 0;
  const SampleMap aborted = test.take();
  EXPECT_EQ(static_cast<int64_t>(aborted.size()) + before, total);
  for (const auto& [key, s] : aborted) {
    EXPECT_EQ(s->finish, FinishReason::kAborted);
    EXPECT_EQ(s->logprobs.size(), static_cast<size_t>(s->generated()));
    with_tokens += s->generated() > 0 ? 1 : 0;
  }
  EXPECT_GT(with_tokens, 0);
  EXPECT_EQ(test.run({make_request({1}, 3)}).size(), 1u);
}

// A request that goes on from a sample, which then has room for `tokens` more.
Request resumed(const Request& origin, const SamplePtr& sample, int64_t tokens) {
  Request r = origin;
  r.prompt.clear();
  r.num_samples = 1;
  r.resume = sample;
  r.first_sample_id = sample->id;
  r.max_new_tokens = tokens;
  return r;
}

TEST_F(EngineTest, ASampleThatHasEndedIsFoundNoMoreThoughItsGroupGoesOn) {
  Request r = make_request({10, 20, 30}, 30, 1.0f);
  r.num_samples = 2;
  r.first_sample_id = 7;
  const SampleMap whole = TestEngine(tiny_, {}).run({r});
  const std::vector<int32_t>&a = whole.at({0, 0})->ids, &b = whole.at({0, 1})->ids;
  size_t end = 3;  // where the first sample has an id that the second has not
  while (std::ranges::find(b, a[end]) != b.end()) ++end;
  r.stop_token_ids = {a[end]};
  TestEngine test(tiny_, {});
  const uint64_t number = test.engine.submit(r);
  SampleMap ended;
  while (ended.empty()) {
    ASSERT_TRUE(test.engine.step());
    ended = test.take();
  }
  EXPECT_EQ(ended.begin()->first, (SampleKey{0, 0}));
  EXPECT_FALSE(test.engine.find(7));
  EXPECT_EQ(test.engine.find(8), number);
}

TEST_F(EngineTest, AbortsAreCountedInASampleThatGoesOn) {
  TestEngine test(tiny_, {});
  Request r = make_request({10, 20, 30}, 30, 1.0f);
  r.first_sample_id = 7;
  test.engine.submit(r);
  SamplePtr s;
  for (uint32_t aborts = 1; aborts <= 3; ++aborts) {
    for (int i = 0; i < 5; ++i) test.engine.step();
    ASSERT_TRUE(test.engine.find(7));
    EXPECT_FALSE(test.engine.find(8));
    ASSERT_TRUE(test.engine.abort(*test.engine.find(7)));
    EXPECT_FALSE(test.engine.find(7));
    s = test.take().at({0, 0});
    EXPECT_EQ(s->num_aborts, aborts);
    EXPECT_EQ(s->generated(), 5 * aborts);
    test.engine.submit(resumed(r, s, 30 - s->generated()));
  }
  const Sample done = *test.run().at({0, 0});
  EXPECT_EQ(done.num_aborts, 3u);
  EXPECT_EQ(s->finish, FinishReason::kAborted) << "what is gone on from is not changed";
  expect_same_sample(done, free_run());
}

TEST_F(EngineTest, ASampleThatGoesOnHasNoScoreYet) {
  TestEngine test(tiny_, {});
  const Request r = make_request({10, 20, 30}, 4, 1.0f);
  const SamplePtr scored = test.run({r}).at({0, 0});
  scored->scored = true;
  scored->reward = 2.5;
  const Sample more = *test.run({resumed(r, scored, 4)}).at({0, 0});
  EXPECT_EQ(more.generated(), 8);
  EXPECT_FALSE(more.scored);
  EXPECT_EQ(more.reward, 0);
  EXPECT_TRUE(scored->scored) << "what is gone on from is not changed";
}

// Two samples that end in "a", one of them with an id behind it that the tokenizer has no text for,
// go on with "b".
TEST_F(EngineTest, ATokenWithoutTextInterruptsAStopString) {
  const TempDir dir;
  write_file_atomically(real_fs(), dir.file("tokenizer.json"), test::small_tokenizer().dump());
  const Tokenizer tokenizer = Tokenizer::from_json(real_fs(), dir.file("tokenizer.json"));
  constexpr int32_t kA = 0, kB = 1, kNone = 100;
  ASSERT_EQ(tokenizer.token_bytes(kB), "b");
  ASSERT_FALSE(tokenizer.has_token(kNone));
  for (const bool between : {false, true}) {
    TestEngine test(tiny_, {}, 1024, &tokenizer);
    auto begun = std::make_shared<Sample>();
    begun->prompt_tokens = 1;
    begun->ids = {10, kA};
    if (between) begun->ids.push_back(kNone);
    const size_t generated = begun->ids.size() - 1;
    begun->logprobs.assign(generated, -1.0f);
    begun->logprobs_sampled = begun->logprobs;
    begun->versions.assign(generated, 0);
    begun->loss_mask.assign(generated, 1);
    Request r = resumed(make_request({10}, 3, 1.0f), begun, 3);
    r.sampling.allowed_token_ids = {kB};
    r.stop_strings = {"ab"};
    const Sample s = *test.run({r}).at({0, 0});
    EXPECT_EQ(s.finish, between ? FinishReason::kLength : FinishReason::kStopString);
    EXPECT_EQ(s.ids.size(), begun->ids.size() + (between ? 3 : 1));
  }
}

TEST_F(EngineTest, AnInterruptSparesWhatWasAbortedTooOften) {
  for (const int64_t limit : {0, 2}) {
    TestEngine test(tiny_, {.max_aborts = limit});
    Request old = make_request({10, 20, 30}, 30, 1.0f, 1), young = make_request({4}, 30, 1.0f, 2);
    young.num_samples = 2;
    const auto often = std::make_shared<Sample>();
    often->ids = old.prompt;
    often->prompt_tokens = 3;
    often->ordinal = 1;
    often->num_aborts = 2;
    test.engine.submit(resumed(old, often, 30));
    test.engine.submit(young);
    for (int i = 0; i < 4; ++i) test.engine.step();
    EXPECT_EQ(test.engine.abort_unspared(), limit == 0 ? 0 : 1);
    const SampleMap aborted = test.take();
    EXPECT_EQ(aborted.size(), limit == 0 ? 3u : 2u);
    for (const auto& [key, s] : aborted) EXPECT_EQ(s->generated(), 4);
    const SampleMap rest = test.run();
    EXPECT_EQ(rest.size(), limit == 0 ? 0u : 1u);
    if (limit != 0) {
      EXPECT_EQ(rest.at({1, 0})->num_aborts, 2u);
    }
    expect_idle(test.engine);
  }
}

TEST_F(EngineTest, NonFiniteLogitsTakeNothingFromAnEarlierTurn) {
  const auto before = std::make_shared<Sample>(free_run());
  float* embedding = tiny_.model->master() + tiny_.model->layout().embedding();
  for (int64_t id = 0; id < tiny_.model->config().vocab; ++id) {
    embedding[id * tiny_.model->config().hidden] = std::numeric_limits<float>::quiet_NaN();
  }
  TestEngine test(tiny_, {});
  const Request r = make_request({10, 20, 30}, 30, 1.0f);
  const Sample after = *test.run({resumed(r, before, 4)}).at({0, 0});
  EXPECT_EQ(after.finish, FinishReason::kAborted);
  EXPECT_EQ(after.ids, before->ids);
  EXPECT_TRUE(same_bits(after.logprobs, before->logprobs));
  EXPECT_EQ(after.loss_mask, before->loss_mask);
}

TEST_F(EngineTest, RefusedRequestLeavesTheEngineAsItWas) {
  TestEngine test(tiny_, {.max_model_len = 40}, 2);
  expect_error(Code::kResourceExhausted, [&] { test.engine.submit(make_request({1, 2}, 32)); });
  expect_error(Code::kOutOfRange, [&] { test.engine.submit(make_request({1, 2}, 39)); });
  expect_error(Code::kOutOfRange, [&] { test.engine.submit(make_request({256}, 2)); });
  expect_idle(test.engine);
  EXPECT_EQ(test.run({make_request({1, 2}, 18)}).at({0, 0})->generated(), 18);
}

TEST_F(EngineTest, TheLongestSequenceOfTheModelFits) {
  TestEngine test(tiny_, {}, 8);  // 128 positions of 16 per block
  EXPECT_EQ(test.run({make_request({1}, 127)}).at({0, 0})->generated(), 127);
  expect_error(Code::kOutOfRange, [&] { test.engine.submit(make_request({1}, 128)); });
}

TEST_F(EngineTest, OptionsBeyondModelOrPoolAreRefused) {
  const Error e =
      expect_error(Code::kOutOfRange, [&] { TestEngine(tiny_, {.max_model_len = 129}); });
  EXPECT_EQ(e.key, "engine.max_model_len");
  expect_error(Code::kOutOfRange, [&] { TestEngine(tiny_, {.num_blocks = 9}, 8); });
}

TEST_F(EngineTest, WorkspaceIsKnownBeforeTheModel) {
  const EngineOptions options = {.max_num_seqs = 8, .max_num_batched_tokens = 96};
  const Model& model = *tiny_.model;
  EXPECT_EQ(engine_workspace_bytes(model, options),
            engine_workspace_bytes(model.config(), model.kv_shape(), 2, options));
}

// Token 200 has a NaN embedding: only requests that contain it are hurt, also when later requests
// get the blocks it wrote to.
TEST_F(EngineTest, NonFiniteLogitsEndTheirSampleAlone) {
  const std::vector<Request> healthy = {make_request({10, 20, 30}, 6, 0.0f, 1),
                                        make_request({40, 50}, 6, 0.0f, 2)};
  SampleMap reference;
  {
    TestEngine test(tiny_, {});
    reference = test.run(healthy);
  }
  for (const auto& [key, s] : reference)
    ASSERT_EQ(std::count(s->ids.begin(), s->ids.end(), 200), 0);
  float* embedding = tiny_.model->master() + tiny_.model->layout().embedding();
  embedding[200 * tiny_.model->config().hidden + 3] = std::numeric_limits<float>::quiet_NaN();

  TestEngine test(tiny_, {}, 16);
  Request poisoned = make_request({10, 200, 30}, 6, 1.0f, 7);
  poisoned.num_samples = 2;
  SampleMap samples = test.run({healthy[0], poisoned, healthy[1]});
  for (const uint32_t slot : {0u, 1u}) {
    const Sample& s = *samples.at({7, slot});
    EXPECT_EQ(s.finish, FinishReason::kAborted);
    EXPECT_EQ(s.generated(), 0);
    EXPECT_TRUE(s.logprobs.empty() && s.versions.empty() && s.loss_mask.empty());
    samples.erase({7, slot});
  }
  expect_same_samples(reference, samples);
  EXPECT_EQ(test.engine.stats().nonfinite, 2);
  const std::vector<Error> errors = test.engine.take_errors();
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[1].code, Code::kNonFinite);
  EXPECT_TRUE(contains(errors[1].message, "ordinal 7 slot 1"));
  EXPECT_TRUE(test.engine.take_errors().empty());
  expect_idle(test.engine);
  for (int round = 0; round < 3; ++round) expect_same_samples(reference, test.run(healthy));
}

class SpanSink final : public TraceSink {
 public:
  void span(const TraceSpan& span) noexcept override {
    if (span.lane < kFirstSampleLane) spans.push_back(span);
  }
  void counter(const char*, uint32_t, int64_t, double) noexcept override {}
  void lane_name(uint32_t, std::string_view) noexcept override {}
  std::vector<TraceSpan> spans;
};

TEST_F(EngineTest, StepsAreTracedWithTheirRows) {
  const auto sink = std::make_shared<SpanSink>();
  Tracer tracer;
  tracer.set_sink(sink);
  TestEngine test(tiny_, {.trace_lane = 4}, 1024, nullptr, &tracer);
  test.run({make_request({1, 2, 3}, 3)});
  ASSERT_EQ(sink->spans.size(), 3u);
  EXPECT_STREQ(sink->spans[0].name, "engine.prefill");
  EXPECT_EQ(sink->spans[0].arg_value, 3);
  EXPECT_EQ(sink->spans[0].lane, 4u);
  EXPECT_STREQ(sink->spans[2].name, "engine.decode");
  EXPECT_EQ(sink->spans[2].arg_value, 1);
}

}  // namespace
}  // namespace rl::testing
