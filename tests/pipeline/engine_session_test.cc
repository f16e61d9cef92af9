// The engine as a host drives it: aborts, going on, pause and drain, and what training may do
// meanwhile with one compute copy and with two.
#include "pipeline/session/engine_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "pipeline/config/run_options.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::low_id_reward;
using testing::tiny_options;

class Parts {
 public:
  explicit Parts(const std::vector<const char*>& changes = {}) : options(tiny_options(dir_)) {
    for (const char* text : changes) options.set_assignment(text);
    model = LoadedModel::open(std::make_shared<Runtime>(options), options, PlanUse::kTrain);
    engine = std::make_unique<EngineSession>(model, testing::for_session(options));
    trainer = std::make_unique<TrainerSession>(model, testing::for_session(options));
  }

  Request request(int64_t samples = 1, int64_t tokens = 20) const {
    Request r = request_from(options);
    r.prompt = {1, 2, 3};
    r.num_samples = samples;
    r.max_new_tokens = tokens;
    return r;
  }
  Request resume(const SamplePtr& s, int64_t tokens = 20) const {
    Request r = request(1, tokens - s->generated());
    r.prompt.clear();
    r.resume = s;
    return r;
  }
  std::vector<SamplePtr> draw(const Request& r) {
    engine->submit(r);
    engine->run();
    return engine->take_finished();
  }
  std::vector<SamplePtr> scored() {
    std::vector<SamplePtr> batch = draw(request(4));
    for (const SamplePtr& s : batch) {
      s->scored = true;
      s->reward = low_id_reward(*s) + s->slot;
    }
    return batch;
  }
  std::vector<float> logprobs(const Sample& s) {
    return trainer->logprobs(s.ids, s.prompt_tokens, s.temperature);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) EXPECT_EQ(engine->step(), EngineStep::kComputed);
  }

 private:
  const TempDir dir_;

 public:
  OptionSet options;
  std::shared_ptr<LoadedModel> model;
  std::unique_ptr<EngineSession> engine;
  std::unique_ptr<TrainerSession> trainer;
};

TEST(EngineSession, AnAbortedSampleGoesOnAsIfNothingHadHappened) {
  Parts whole, parts;
  const Sample expected = *whole.draw(whole.request()).at(0);
  const uint64_t id = parts.engine->submit(parts.request());
  EXPECT_EQ(id, expected.id);
  parts.steps(7);
  parts.engine->abort_request(id);
  EXPECT_TRUE(parts.engine->idle());
  const SamplePtr part = parts.engine->take_finished().at(0);
  EXPECT_EQ(part->generated(), 7);
  EXPECT_EQ(part->versions.size(), 7u);
  EXPECT_EQ(parts.engine->submit(parts.resume(part)), id);
  const Error again =
      expect_error(Code::kFailedPrecondition, [&] { parts.engine->submit(parts.resume(part)); });
  EXPECT_EQ(again.key, "request.resume");
  parts.engine->run();
  const Sample got = *parts.engine->take_finished().at(0);
  EXPECT_EQ(got.ids, expected.ids);
  EXPECT_EQ(got.logprobs, expected.logprobs);
  EXPECT_EQ(got.id, id);
  EXPECT_EQ(got.num_aborts, 1u);
  EXPECT_EQ(got.ordinal, expected.ordinal);
  EXPECT_EQ(parts.engine->submit(parts.request()), id + 1) << "going on takes no number";
}

TEST(EngineSession, AbortOfARequestLeavesTheOthers) {
  Parts parts;
  const uint64_t first = parts.engine->submit(parts.request(3));
  const uint64_t second = parts.engine->submit(parts.request(2));
  EXPECT_EQ(second, first + 3);
  parts.steps(2);
  parts.engine->abort_request(first + 2);
  EXPECT_EQ(parts.engine->take_finished().size(), 3u);
  EXPECT_EQ(expect_error(Code::kNotFound, [&] { parts.engine->abort_request(first); }).key,
            "sample_id");
  parts.engine->run();
  EXPECT_EQ(parts.engine->take_finished().size(), 2u);
  expect_error(Code::kNotFound, [&] { parts.engine->abort_request(second); });
}

class LogLines final : public LogSink {
 public:
  void write(const LogRecord& record) override { lines.emplace_back(record.level, record.message); }
  std::vector<std::pair<LogLevel, std::string>> lines;
};

TEST(EngineSession, LogitsThatAreNotFiniteAreLogged) {
  Parts parts;
  const auto log = std::make_shared<LogLines>();
  parts.model->runtime().logger().set_sink(log);
  Model& model = parts.model->model();
  model.master()[model.layout().embedding() + 2 * model.config().hidden] = NAN;
  model.publish();
  const auto ended = parts.draw(parts.request(2));
  EXPECT_EQ(ended.at(0)->finish, FinishReason::kAborted);
  EXPECT_EQ(parts.engine->stats().nonfinite, 2);
  ASSERT_EQ(log->lines.size(), 2u);
  EXPECT_EQ(log->lines[1].first, LogLevel::kWarn);
  EXPECT_TRUE(contains(log->lines[1].second, "position 3 of ordinal 0 slot 1 are not finite"));
}

TEST(EngineSession, TheAbortLimitIsAnOption) {
  for (const bool limited : {false, true}) {
    Parts parts({limited ? "pipeline.partial_rollout_max_aborts=1"
                         : "pipeline.partial_rollout_max_aborts=0"});
    parts.engine->submit(parts.request());
    parts.steps(3);
    EXPECT_EQ(parts.engine->abort_unspared(), 0);
    parts.engine->submit(parts.resume(parts.engine->take_finished().at(0)));
    parts.steps(3);
    EXPECT_EQ(parts.engine->abort_unspared(), limited ? 1 : 0);
    EXPECT_EQ(parts.engine->take_finished().size(), limited ? 0u : 1u);
    parts.engine->abort_all();
    EXPECT_EQ(parts.engine->take_finished().size(), limited ? 1u : 0u) << "abort spares nobody";
  }
}

TEST(EngineSession, APauseBeforeTheFirstRequestHolds) {
  Parts parts;
  parts.engine->pause();
  parts.engine->submit(parts.request());
  EXPECT_EQ(parts.engine->run(), EngineStep::kPaused);
  EXPECT_EQ(parts.engine->stats().forwards, 0);
  parts.engine->unpause();
  EXPECT_EQ(parts.engine->run(), EngineStep::kIdle);
}

TEST(EngineSession, APauseComputesNothingAndHoldsTheWeights) {
  Parts parts;
  const auto batch = parts.scored();
  const uint64_t id = parts.engine->submit(parts.request());
  parts.steps(2);
  parts.engine->pause();
  parts.engine->pause();
  const int64_t forwards = parts.engine->stats().forwards;
  EXPECT_EQ(parts.engine->step(), EngineStep::kPaused);
  EXPECT_EQ(parts.engine->run(), EngineStep::kPaused);
  EXPECT_EQ(parts.engine->drain(-1), EngineStep::kPaused);
  EXPECT_EQ(parts.engine->stats().forwards, forwards);
  expect_error(Code::kBusy, [&] { parts.trainer->step(batch); });
  parts.engine->submit(parts.request());
  parts.engine->abort_request(id);
  EXPECT_EQ(parts.engine->take_finished().size(), 1u);
  parts.engine->unpause();
  EXPECT_EQ(parts.engine->run(), EngineStep::kIdle);
  EXPECT_EQ(parts.engine->take_finished().size(), 1u);
}

TEST(EngineSession, APauseEndsTheRunOfAnotherThread) {
  Parts parts;
  for (int i = 0; i < 50; ++i) parts.engine->submit(parts.request(4));
  EngineStep end = EngineStep::kComputed;
  std::thread runner([&] { end = parts.engine->run(); });
  while (parts.engine->stats().forwards == 0) std::this_thread::yield();
  parts.engine->pause();
  runner.join();
  EXPECT_EQ(end, EngineStep::kPaused);
  EXPECT_FALSE(parts.engine->idle());
}

TEST(EngineSession, ADrainFinishesWhatHasBegunAndLetsTheWeightsChange) {
  Parts parts({"engine.max_num_seqs=4"});
  const auto batch = parts.scored();
  for (int i = 0; i < 3; ++i) parts.engine->submit(parts.request(2));
  parts.steps(2);
  EXPECT_EQ(parts.engine->drain(0), EngineStep::kTimedOut);
  EXPECT_EQ(parts.engine->stats().started, 4);
  EXPECT_EQ(parts.engine->stats().forwards, 20 + 2) << "0 only asks";
  parts.engine->submit(parts.request());
  expect_error(Code::kBusy, [&] { parts.trainer->step(batch); });
  EXPECT_EQ(parts.engine->drain(-1), EngineStep::kIdle);
  EXPECT_EQ(parts.engine->take_finished().size(), 4u);
  EXPECT_EQ(parts.engine->stats().started, 0);
  EXPECT_EQ(parts.engine->stats().waiting, 3);
  EXPECT_EQ(parts.engine->step(), EngineStep::kIdle);
  EXPECT_EQ(parts.engine->run(), EngineStep::kIdle);
  parts.trainer->step(batch);
  parts.engine->unpause();
  EXPECT_EQ(parts.engine->run(), EngineStep::kIdle);
  const auto after = parts.engine->take_finished();
  EXPECT_EQ(after.size(), 3u);
  for (const SamplePtr& s : after) {
    EXPECT_EQ(s->versions, std::vector<uint64_t>(20, 1));
    EXPECT_EQ(parts.logprobs(*s), s->logprobs);
  }
}

TEST(EngineSession, RequestsBehindADrainAreWaitedForAgain) {
  Parts parts;
  const auto batch = parts.scored();
  EXPECT_EQ(parts.engine->drain(-1), EngineStep::kIdle);
  parts.engine->unpause();
  parts.engine->submit(parts.request());
  expect_error(Code::kBusy, [&] { parts.trainer->step(batch); });
}

TEST(TrainerSession, APromptWithoutAResponseHasNoLogProbs) {
  Parts parts;
  const std::vector<int32_t> ids = {1, 2, 3};
  EXPECT_TRUE(parts.trainer->logprobs(ids, 3, 1).empty());
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { parts.trainer->logprobs(ids, 4, 1); }).key,
            "prompt_tokens");
}

TEST(EngineSession, ADrainKeepsToItsDeadline) {
  Parts parts;
  for (int i = 0; i < 40; ++i) parts.engine->submit(parts.request(4, 28));
  parts.steps(1);
  EXPECT_EQ(parts.engine->drain(1), EngineStep::kTimedOut);
  EXPECT_GT(parts.engine->stats().started, 0);
  EXPECT_LE(parts.engine->stats().forwards, 3);
}

TEST(ComputeCopies, OneMakesATrainingStepWaitForTheRequests) {
  Parts parts;
  const auto batch = parts.scored();
  parts.engine->submit(parts.request());
  const Error e = expect_error(Code::kBusy, [&] { parts.trainer->step(batch); });
  EXPECT_EQ(e.key, "model.compute_copies");
  EXPECT_TRUE(contains(e.message, "model.compute_copies is 1"));
  parts.engine->abort_all();
  parts.trainer->step(batch);
  EXPECT_EQ(parts.model->version(), 1u);
  EXPECT_EQ(parts.trainer->publish(), 1u);
}

// Tokens by version are those of an engine under that version alone: the log-probs are compared
// with the trainer's, which has each version at its time.
TEST(ComputeCopies, APublicationMayKeepKeysAndValues) {
  std::vector<SamplePtr> drawn[2];
  for (const bool keep : {false, true}) {
    Parts parts({"model.compute_copies=2", "engine.preemption=swap", "engine.swap_space_bytes=1MiB",
                 keep ? "engine.keep_kv_on_publish=true" : "engine.keep_kv_on_publish=false"});
    const auto batch = parts.scored();
    parts.engine->submit(parts.request(3));
    parts.steps(10);
    parts.trainer->step(batch);
    parts.trainer->publish();
    const int64_t prompts = parts.engine->stats().prefill_tokens;
    parts.engine->run();
    EXPECT_EQ(parts.engine->stats().prefill_tokens > prompts, !keep);
    EXPECT_EQ(parts.engine->stats().mixed_kv_tokens, keep ? 30 : 0);
    drawn[keep] = parts.engine->take_finished();
  }
  ASSERT_EQ(drawn[0].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Sample &anew = *drawn[0][i], &kept = *drawn[1][i];
    EXPECT_EQ(kept.versions, anew.versions);
    EXPECT_TRUE(anew.mixed_kv.empty());
    std::vector<uint8_t> mixed(20, 1);
    std::fill_n(mixed.begin(), 10, uint8_t{0});
    EXPECT_EQ(kept.mixed_kv, mixed);
    EXPECT_TRUE(
        std::equal(kept.logprobs.begin(), kept.logprobs.begin() + 10, anew.logprobs.begin()));
    EXPECT_NE(kept.logprobs[10], anew.logprobs[10]);
  }
}

TEST(ComputeCopies, TwoLetTrainingAndPublicationComeWhileRequestsRun) {
  Parts parts({"model.compute_copies=2"});
  const auto batch = parts.scored();
  parts.engine->submit(parts.request(3));
  parts.steps(5);
  const MetricList metrics = parts.trainer->step(batch);
  EXPECT_EQ(metrics.get("training/logprob_max_abs_diff"), 0.0);
  EXPECT_EQ(parts.model->version(), 0u);
  EXPECT_EQ(parts.trainer->trained_version(), 1u);
  parts.steps(5);
  EXPECT_EQ(parts.trainer->publish(), 1u);
  EXPECT_EQ(parts.trainer->publish(), 1u) << "nothing new";
  EXPECT_EQ(parts.engine->run(), EngineStep::kIdle);
  const auto mixed = parts.engine->take_finished();
  ASSERT_EQ(mixed.size(), 3u);
  Parts untouched;
  untouched.scored();
  const auto old = untouched.draw(untouched.request(3));
  for (size_t i = 0; i < 3; ++i) {
    const Sample& s = *mixed[i];
    std::vector<uint64_t> versions(10, 0);
    versions.resize(20, 1);
    EXPECT_EQ(s.versions, versions);
    const std::vector<float> now = parts.logprobs(s), before = untouched.logprobs(s);
    for (size_t t = 0; t < 20; ++t) {
      EXPECT_EQ(s.logprobs[t], t < 10 ? before[t] : now[t]) << t;
      if (t < 10) {
        EXPECT_EQ(s.ids[3 + t], old[i]->ids[3 + t]) << t;
      }
    }
  }
}

// What a trainer left unpublished is anyone's to publish, also when it is gone.
TEST(ComputeCopies, ATrainerPublishesWhatAnotherOneTrained) {
  Parts parts({"model.compute_copies=2"});
  parts.trainer->step(parts.scored());
  const uint64_t trained = parts.model->weight_digest();
  parts.trainer =
      std::make_unique<TrainerSession>(parts.model, testing::for_session(parts.options));
  EXPECT_EQ(parts.trainer->publish(), 1u);
  EXPECT_EQ(parts.model->version(), 1u);
  EXPECT_EQ(parts.model->weight_digest(), trained);
  EXPECT_EQ(parts.trainer->publish(), 1u) << "nothing new";
  const MetricList metrics = parts.trainer->step(parts.scored());
  EXPECT_EQ(metrics.get("training/logprob_max_abs_diff"), 0.0);
}

TEST(ComputeCopies, TwoStepsPublishedTogetherAreThoseOfOneCopy) {
  Parts one, two({"model.compute_copies=2"});
  std::vector<SamplePtr> batches[] = {one.scored(), two.scored()};
  for (int i = 0; i < 2; ++i) {
    one.trainer->step(batches[0]);
    two.trainer->step(batches[1]);
  }
  EXPECT_EQ(two.model->version(), 0u);
  EXPECT_EQ(two.trainer->publish(), 1u);
  EXPECT_EQ(one.model->version(), 2u);
  EXPECT_EQ(two.model->weight_digest(), one.model->weight_digest());
  const Sample a = *one.draw(one.request()).at(0), b = *two.draw(two.request()).at(0);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.logprobs, b.logprobs);
}

// Asleep, the engine gives back the copy that follows from the masters, and never a published one
// that does not.
TEST(ComputeCopies, ASleepBetweenTrainingAndPublicationChangesNoSample) {
  std::vector<SamplePtr> samples[2];
  for (const bool sleeps : {false, true}) {
    Parts parts({"model.compute_copies=2"});
    const auto rest = [&] {
      if (!sleeps) return;
      parts.engine->sleep(2);
      parts.engine->wake();
    };
    const auto batch = parts.scored();
    parts.engine->submit(parts.request(3));
    parts.steps(5);
    rest();
    parts.steps(1);
    parts.trainer->step(batch);
    rest();
    parts.steps(5);
    if (sleeps) parts.engine->sleep(2);
    EXPECT_EQ(parts.trainer->publish(), 1u);
    if (sleeps) parts.engine->wake();
    parts.engine->run();
    samples[sleeps ? 1 : 0] = parts.engine->take_finished();
  }
  ASSERT_EQ(samples[1].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(samples[1][i]->ids, samples[0][i]->ids);
    EXPECT_EQ(samples[1][i]->logprobs, samples[0][i]->logprobs);
    EXPECT_EQ(samples[1][i]->versions, samples[0][i]->versions);
  }
}

// A publication may meet an engine step of another thread; each step has one version.
// The host's loss fails in the second of two minibatches.
void fail_half_way(Parts& parts, const std::vector<SamplePtr>& batch) {
  int calls = 0;
  parts.trainer->set_custom_loss(
      [&](const AlgoArrays&, std::span<const double> weights, std::span<double> gradient) {
        if (++calls == 2) throw Error(Code::kIo, "the host's loss");
        std::ranges::copy(weights, gradient.begin());
        return 1.0;
      });
  expect_error(Code::kIo, [&] { parts.trainer->step(batch); });
}

TEST(ComputeCopies, WeightsOfHalfAStepComputeNothingUntilTheyArePublished) {
  for (const char* copies : {"model.compute_copies=1", "model.compute_copies=2"}) {
    SCOPED_TRACE(copies);
    Parts parts({copies, "algo.policy_loss=custom", "trainer.num_minibatches=2"});
    const auto batch = parts.scored();
    const std::vector<float> before = parts.logprobs(*batch[0]);
    fail_half_way(parts, batch);
    ASSERT_TRUE(parts.model->half_trained());
    const auto refused = [](auto&& call) {
      const Error e = expect_error(Code::kFailedPrecondition, call);
      EXPECT_TRUE(contains(e.message, "half-trained: a training step failed after 1 of 2"));
    };
    refused([&] { parts.logprobs(*batch[0]); });
    refused([&] { parts.trainer->hidden(batch[0]->ids); });
    refused([&] { parts.trainer->step(batch); });
    if (parts.model->published_apart()) {
      EXPECT_EQ(parts.draw(parts.request()).size(), 1u) << "engines read the copy of before";
    } else {
      refused([&] { parts.draw(parts.request()); });
      parts.engine->abort_all();
    }
    EXPECT_EQ(parts.trainer->publish(), 1u);
    EXPECT_NE(parts.logprobs(*batch[0]), before);
    EXPECT_EQ(parts.draw(parts.request()).at(0)->versions.at(0), 1u);
  }
}

TEST(ComputeCopies, PublicationNeedsNoPauseOfTheEngine) {
  Parts parts({"model.compute_copies=2"});
  const auto batch = parts.scored();
  std::map<uint64_t, std::vector<SamplePtr>> by_version;
  for (int i = 0; i < 60; ++i) parts.engine->submit(parts.request(4, 28));
  parts.trainer->step(batch);
  std::thread runner([&] { parts.engine->run(); });
  while (parts.engine->stats().forwards < 30) std::this_thread::yield();
  EXPECT_EQ(parts.trainer->publish(), 1u);
  runner.join();
  const auto samples = parts.engine->take_finished();
  EXPECT_EQ(samples.size(), 240u);
  int64_t drawn[2] = {};
  for (const SamplePtr& s : samples) {
    const std::vector<float> now = parts.logprobs(*s);
    for (size_t t = 0; t < s->versions.size(); ++t) {
      ++drawn[s->versions[t]];
      if (s->versions[t] == 1) {
        ASSERT_EQ(s->logprobs[t], now[t]);
      }
    }
  }
  EXPECT_GT(drawn[0], 0);
  EXPECT_GT(drawn[1], 0);
}

TEST(ComputeCopies, AModelKeepsItsNumberAndAPipelineHasOne) {
  Parts parts;
  OptionSet other = parts.options;
  other.set_i64("model.compute_copies", 2);
  const Error e = expect_error(
      Code::kConflict, [&] { EngineSession engine(parts.model, testing::for_session(other)); });
  EXPECT_EQ(e.key, "model.compute_copies");
  const Error run = expect_error(
      Code::kConflict, [&] { plan_memory(other, parts.model->config(), PlanUse::kPipeline); });
  EXPECT_EQ(run.key, "model.compute_copies");
  EXPECT_EQ(run.other_key, "pipeline.mode");
}

TEST(SamplingSeed, MakesARequestRepeatable) {
  Parts parts;
  const auto ids = [&](int64_t seed, size_t slot) {
    parts.options.set_i64("sampling.seed", seed);
    return parts.draw(parts.request(2)).at(slot)->ids;
  };
  EXPECT_EQ(ids(7, 0), ids(7, 0));
  EXPECT_EQ(ids(7, 1), ids(7, 1));
  EXPECT_NE(ids(7, 0), ids(7, 1)) << "slots draw apart";
  EXPECT_NE(ids(7, 0), ids(8, 0));
  EXPECT_NE(ids(-1, 0), ids(-1, 0)) << "without a seed of its own the number of the request counts";
}

TEST(SamplingSeed, IsNoKeyOfAPipeline) {
  Parts parts({"sampling.seed=7"});
  const Error e = expect_error(Code::kConflict, [&] {
    plan_memory(parts.options, parts.model->config(), PlanUse::kPipeline);
  });
  EXPECT_EQ(e.key, "sampling.seed");
  EXPECT_EQ(e.other_key, "runtime.seed");
}

}  // namespace
}  // namespace rl
