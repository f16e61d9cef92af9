// Log-probs of prompts from an engine (sampling.prompt_logprobs): those of the trainer's forward,
// bit for bit, however the prompt was computed, and no other token changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "pipeline/config/run_options.h"
#include "pipeline/session/conversation.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"

namespace rl {
namespace {

using testing::for_session;
using testing::tiny_options;

class PromptLogprobs : public ::testing::Test {
 protected:
  void open(const std::vector<std::string>& more = {}) {
    options_ = for_session(tiny_options(dir_));
    options_.set_text("engine.max_model_len", "64");
    for (const std::string& text : more) options_.set_assignment(text);
    model_ = LoadedModel::open(std::make_shared<Runtime>(options_), options_, PlanUse::kTrain);
    engine_ = std::make_shared<EngineSession>(model_, options_);
    trainer_ = std::make_unique<TrainerSession>(model_, options_);
  }
  Request request(int32_t length, int64_t samples, bool measures = true) const {
    Request r = request_from(options_);
    r.prompt.resize(static_cast<size_t>(length));
    std::iota(r.prompt.begin(), r.prompt.end(), 5);
    r.num_samples = samples;
    r.prompt_logprobs = measures;
    return r;
  }
  std::vector<SamplePtr> draw(const Request& r) {
    engine_->submit(r);
    engine_->run();
    return engine_->take_finished();
  }
  void expect_measured(const Sample& s) {
    ASSERT_NE(s.prompt_logprobs, nullptr);
    const std::vector<float>& measured = *s.prompt_logprobs;
    ASSERT_EQ(measured.size(), static_cast<size_t>(s.prompt_tokens));
    EXPECT_EQ(measured[0], 0);
    const std::span<const int32_t> prompt(s.ids.data(), measured.size());
    if (measured.size() == 1) return;
    const std::vector<float> expected = trainer_->logprobs(prompt, 1, s.temperature);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), measured.begin() + 1));
  }

  const TempDir dir_;
  OptionSet options_;
  std::shared_ptr<LoadedModel> model_;
  std::shared_ptr<EngineSession> engine_;
  std::unique_ptr<TrainerSession> trainer_;
};

TEST_F(PromptLogprobs, AreThoseOfTheTrainerHoweverThePromptIsComputed) {
  const std::vector<std::vector<std::string>> ways = {
      {},
      {"engine.prefill_chunk=3"},
      {"engine.prefix_caching=false"},
      {"engine.max_num_seqs=2", "engine.num_engines=2"},
      {"sampling.temperature=0.5"},
      {"sampling.temperature=0"}};
  for (const auto& way : ways) {
    SCOPED_TRACE(way.empty() ? "defaults" : way.front());
    open(way);
    for (const int32_t length : {1, 2, 15, 16, 17, 40}) {
      SCOPED_TRACE(length);
      const auto samples = draw(request(length, 3));
      ASSERT_EQ(samples.size(), 3u);
      for (const SamplePtr& s : samples) expect_measured(*s);
    }
  }
}

TEST_F(PromptLogprobs, ThePrefixCacheHidesNothing) {
  open();
  draw(request(40, 1, false));
  const auto cached = engine_->stats().cached_tokens;
  expect_measured(*draw(request(40, 1)).front());
  EXPECT_EQ(engine_->stats().cached_tokens, cached);
  draw(request(40, 1, false));
  EXPECT_GT(engine_->stats().cached_tokens, cached) << "others still read it";
}

TEST_F(PromptLogprobs, TheSamplesAreThoseOfARequestWithout) {
  open();
  const auto with = draw(request(20, 2));
  open();
  const auto without = draw(request(20, 2, false));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(with[i]->ids, without[i]->ids);
    EXPECT_EQ(with[i]->logprobs, without[i]->logprobs);
    EXPECT_EQ(without[i]->prompt_logprobs, nullptr);
  }
}

TEST_F(PromptLogprobs, ASampleThatGoesOnKeepsThem) {
  open({"sampling.prompt_logprobs=true"});
  Conversation talk(engine_, request(20, 1).prompt);
  talk.generate(request_from(options_));
  engine_->run();
  const SamplePtr first = talk.sample();
  expect_measured(*first);
  talk.append(std::vector<int32_t>{9, 9});
  talk.generate(request_from(options_));
  engine_->run();
  EXPECT_EQ(talk.sample()->prompt_logprobs, first->prompt_logprobs);
}

// Few blocks: samples give theirs up and are computed again.
TEST_F(PromptLogprobs, PreemptionsChangeNothing) {
  const auto draw_all = [&](EngineSession& engine) {
    for (int i = 0; i < 4; ++i) {
      Request r = request(30, 1);
      r.prompt[0] = 20 + i;
      r.max_new_tokens = 20;
      engine.submit(r);
    }
    engine.run();
    std::map<uint64_t, std::vector<float>> measured;
    for (const SamplePtr& s : engine.take_finished()) {
      if (s->prompt_logprobs != nullptr) measured[s->id] = *s->prompt_logprobs;
    }
    EXPECT_EQ(measured.size(), 4u);
    return measured;
  };
  open();
  const auto expected = draw_all(*engine_);
  OptionSet few = options_;
  for (const std::string& text : testing::with_blocks(few, 6)) few.set_assignment(text);
  few.set_text("engine.prefill_chunk", "8");
  EngineSession small(LoadedModel::open(std::make_shared<Runtime>(few), few, PlanUse::kGenerate),
                      few);
  EXPECT_EQ(draw_all(small), expected);
  EXPECT_GT(small.stats().preemptions, 0);
}

TEST_F(PromptLogprobs, AnAbortBeforeThePromptIsComputedLeavesNone) {
  open({"engine.prefill_chunk=4"});
  engine_->submit(request(40, 1));
  engine_->step();
  engine_->abort_all();
  EXPECT_EQ(engine_->take_finished().front()->prompt_logprobs, nullptr);
}

}  // namespace
}  // namespace rl
