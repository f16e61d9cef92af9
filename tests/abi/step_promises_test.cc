// What rl.h promises of a training step beside its numbers: log-probs of the present weights are
// compared, steps are counted as steps; and of calls with many entries: which failed, as data.
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

rl_sample_view sample_of(const rl_batch* batch, size_t index) {
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_batch_sample(batch, index, &view, &err));
  return view;
}

// Samples drawn by the weights of now, of which one has another bit in a log-prob.
class LogprobCheck : public ::testing::Test {
 protected:
  static constexpr size_t kSpoiled = 1, kToken = 0;

  LogprobCheck() {
    rl_batch_release(std::exchange(host_.batch, nullptr));
    host_.draw();
  }
  ~LogprobCheck() override {
    rl_batch_release(batch_);
    rl_event_release(event_);
  }

  // change(view, log-probs) may change the copy of the sample.
  template <typename Change>
  void put(Change&& change) {
    for (size_t i = 0; i < rl_batch_count(host_.batch); ++i) {
      rl_sample_view view = sample_of(host_.batch, i);
      std::vector<float> logprobs(view.logprobs, view.logprobs + (view.num_ids - view.num_prompt));
      view.logprobs = logprobs.data();
      ASSERT_GT(logprobs.size(), kToken);
      if (i == kSpoiled) {
        logprobs[kToken] = std::bit_cast<float>(std::bit_cast<uint32_t>(logprobs[kToken]) ^ 1u);
        spoiled_ = view;
        change(view);
      }
      EXPECT_RL_OK(rl_buffer_put(host_.buffer, &view, &err));
    }
    EXPECT_RL_OK(rl_buffer_take(host_.buffer, 1, &batch_, &err));
  }
  rl_status step(rl_trainer* trainer, rl_error** err) {
    return rl_trainer_step(trainer, batch_, nullptr, 0, &event_, err);
  }
  double metric(const char* name) const {
    double value = -1;
    EXPECT_RL_OK(rl_event_metric_named(event_, name, RL_NUL_TERMINATED, &value, &err));
    return value;
  }
  uint64_t digest() const {
    uint64_t value = 0;
    EXPECT_RL_OK(rl_model_digest(host_.model, &value, &err));
    return value;
  }

  Host host_;
  rl_sample_view spoiled_ = {};
  rl_batch* batch_ = nullptr;
  rl_event* event_ = nullptr;
};

TEST_F(LogprobCheck, AnotherBitIsAnErrorThatNamesTheToken) {
  put([](rl_sample_view&) {});
  const uint64_t before = digest();
  rl_error* err = nullptr;
  EXPECT_EQ(step(host_.trainer, &err), RL_FAILED_PRECONDITION);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "trainer.check_logprobs");
  const std::string position = std::to_string(spoiled_.num_prompt + kToken);
  EXPECT_EQ(text_of(err, RL_ERROR_LOCATION), "position " + position);
  const std::string message = text_of(err, RL_ERROR_MESSAGE);
  for (const std::string& part :
       {"sample " + std::to_string(spoiled_.sample_id), "slot " + std::to_string(spoiled_.slot),
        "position " + position, "version " + std::to_string(spoiled_.versions[kToken]),
        std::string("trainer.check_logprobs = false")}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
  rl_error_release(err);
  EXPECT_EQ(digest(), before) << "nothing has moved";
  uint64_t id = 0;
  rl_request request;
  rl_request_init(&request, sizeof request);
  static const int32_t prompt[] = {1, 2};
  request.prompt = prompt;
  request.num_prompt = 2;
  EXPECT_RL_OK(rl_engine_submit(host_.engine, &request, &id, &err));
}

TEST_F(LogprobCheck, IsAMetricWithoutTheOption) {
  put([](rl_sample_view&) {});
  set(host_.options, "trainer.check_logprobs", "false");
  rl_trainer* trainer = nullptr;
  EXPECT_RL_OK(rl_trainer_create(host_.model, host_.options, &trainer, &err));
  EXPECT_RL_OK(step(trainer, &err));
  EXPECT_GT(metric("training/logprob_max_abs_diff"), 0);
  rl_trainer_destroy(trainer);
}

TEST_F(LogprobCheck, LeavesOtherVersionsAndOlderKeysAlone) {
  put([](rl_sample_view& view) { view.versions = nullptr; });
  EXPECT_RL_OK(step(host_.trainer, &err));
  EXPECT_EQ(metric("training/logprob_max_abs_diff"), 0) << "of the other sample";
  rl_event_release(std::exchange(event_, nullptr));
  rl_batch_release(std::exchange(batch_, nullptr));
  rl_batch_release(std::exchange(host_.batch, nullptr));
  host_.draw();
  static const uint8_t mixed[] = {1, 0, 0, 0};
  put([](rl_sample_view& view) { view.mixed_kv = mixed; });
  EXPECT_RL_OK(step(host_.trainer, &err));
  EXPECT_EQ(metric("training/logprob_max_abs_diff"), 0);
  EXPECT_GT(metric("training/logprob_compared_tokens"), 0);
}

uint64_t step_of(const rl_event* event) {
  rl_event_view view;
  rl_event_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_event_get_view(event, &view, &err));
  return view.step;
}

TEST(AbiTrainerSteps, AreCountedAndNotTheirOptimizerSteps) {
  Host host;
  for (const auto& [key, text] : {std::pair("trainer.epochs", "2"),
                                  {"trainer.num_minibatches", "2"},
                                  {"algo.policy_loss", "custom"}}) {
    set(host.options, key, text);
  }
  rl_trainer* trainer = nullptr;
  EXPECT_RL_OK(rl_trainer_create(host.model, host.options, &trainer, &err));
  // 0: a loss; else the optimizer step is skipped.
  const auto loss = [](void* user_data, const rl_algo_tokens* tokens, const double*, double* value,
                       double* gradient) {
    *value = 1;
    for (size_t t = 0; t < tokens->num_tokens; ++t) gradient[t] = 1;
    return *static_cast<int32_t*>(user_data);
  };
  int32_t answer = 0;
  EXPECT_RL_OK(rl_trainer_set_loss(trainer, loss, &answer, nullptr, &err));
  for (uint64_t step = 1; step <= 3; ++step) {
    answer = step == 2;
    rl_event* event = nullptr;
    EXPECT_RL_OK(rl_trainer_step(trainer, host.batch, nullptr, 0, &event, &err));
    double skipped = 0;
    EXPECT_RL_OK(
        rl_event_metric_named(event, "training/skipped_steps", RL_NUL_TERMINATED, &skipped, &err));
    EXPECT_EQ(skipped, step == 2 ? 4 : 0);
    EXPECT_EQ(step_of(event), step);
    rl_event_release(event);
  }
  rl_trainer_destroy(trainer);
}

TEST(AbiBulkCalls, ABatchGoesIntoABufferWholeOrNotAtAll) {
  Host host;
  rl_sample_view second = sample_of(host.batch, 1);
  EXPECT_RL_OK(rl_buffer_put(host.buffer, &second, &err));
  rl_error* err = nullptr;
  EXPECT_EQ(rl_buffer_put_batch(host.buffer, host.batch, &err), RL_DUPLICATE);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "batch[1]");
  rl_error_release(err);
  uint64_t samples = 0, groups = 0;
  EXPECT_RL_OK(rl_buffer_count(host.buffer, &samples, &groups, &err));
  EXPECT_EQ(samples, 1u);
  EXPECT_EQ(groups, 0u);
}

TEST(AbiBulkCalls, ManyScoresTellWhichWereRefused) {
  Host host;
  EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
  static const int32_t prompt[] = {1, 2, 3};
  EXPECT_RL_OK(rl_pipeline_feed_ids(host.pipeline, prompt, 3, "", 0, &err));
  std::vector<uint64_t> ids = {999};
  while (ids.size() < 3) {
    rl_event* event = nullptr;
    EXPECT_RL_OK(rl_pipeline_next(host.pipeline, -1, &event, &err));
    rl_sample_view view;
    rl_sample_view_init(&view, sizeof view);
    EXPECT_RL_OK(rl_event_sample(event, &view, &err));
    ids.push_back(view.sample_id);
    rl_event_release(event);
  }
  ids.insert(ids.begin() + 2, ids[1]);  // 999, a, a, b
  const std::vector<double> rewards(ids.size(), 1.0);
  rl_error* err = nullptr;
  EXPECT_EQ(rl_pipeline_score_many(host.pipeline, ids.data(), rewards.data(), ids.size(), &err),
            RL_NOT_FOUND);
  const std::pair<rl_status, const char*> refused[] = {{RL_NOT_FOUND, "sample_ids[0]"},
                                                       {RL_DUPLICATE, "sample_ids[2]"}};
  for (size_t i = 0; i < 2; ++i) {
    rl_error* const part = rl_error_part(err, i);
    EXPECT_EQ(rl_error_code(part), refused[i].first);
    EXPECT_EQ(text_of(part, RL_ERROR_KEY), refused[i].second);
    rl_error_release(part);
  }
  EXPECT_EQ(rl_error_part(err, 2), nullptr);
  rl_error_release(err);
}

}  // namespace
}  // namespace abi_test
