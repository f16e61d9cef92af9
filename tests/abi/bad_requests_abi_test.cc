// Bad requests through rl.h: each is told by the name of what is wrong, and the requests that run
// beside it do not notice.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

// Ids and log-probs of all samples that an engine gives back.
struct Samples {
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<float>> logprobs;
  std::vector<int32_t> finish;
};

Samples take_all(rl_engine* engine) {
  Samples all;
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(rl_engine_take(engine, &batch, &err));
  for (size_t i = 0; i < rl_batch_count(batch); ++i) {
    rl_sample_view view;
    rl_sample_view_init(&view, sizeof view);
    EXPECT_RL_OK(rl_batch_sample(batch, i, &view, &err));
    all.ids.emplace_back(view.ids, view.ids + view.num_ids);
    all.logprobs.emplace_back(view.logprobs, view.logprobs + (view.num_ids - view.num_prompt));
    all.finish.push_back(view.finish);
  }
  rl_batch_release(batch);
  return all;
}

class AbiBadRequests : public ::testing::Test {
 protected:
  AbiBadRequests() {
    EXPECT_RL_OK(rl_engine_create(host_.model, host_.options, &engine_, &err));
    EXPECT_RL_OK(rl_options_clone(host_.options, &sampling_, &err));
    set(sampling_, "sampling.max_new_tokens", "40");
    set(sampling_, "sampling.ignore_eos", "true");
  }
  ~AbiBadRequests() override {
    rl_options_destroy(sampling_);
    rl_engine_destroy(engine_);
  }
  rl_request request() const {
    static const int32_t prompt[] = {1, 2, 3};
    rl_request r;
    rl_request_init(&r, sizeof r);
    r.prompt = prompt;
    r.num_prompt = 3;
    r.sampling = sampling_;
    return r;
  }
  // Six samples of three requests, two of which wait.
  void submit_canaries(rl_engine* engine) const {
    rl_request r = request();
    r.num_samples = 2;
    uint64_t id = 0;
    for (int i = 0; i < 3; ++i) EXPECT_RL_OK(rl_engine_submit(engine, &r, &id, &err));
  }
  // What the error names: its key, and words of its text.
  void expect_refused(const rl_request& r, rl_status status, const char* key,
                      const std::vector<const char*>& words) {
    uint64_t id = 77;
    rl_error* err = nullptr;
    EXPECT_EQ(rl_engine_submit(engine_, &r, &id, &err), status) << key;
    EXPECT_EQ(id, 0u);
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key);
    const std::string text =
        text_of(err, RL_ERROR_SUMMARY) + " | " + text_of(err, RL_ERROR_EXPECTED);
    for (const char* word : words) {
      EXPECT_NE(text.find(word), std::string::npos) << text << " does not hold " << word;
    }
    rl_error_release(err);
  }
  void expect_refused_structs();
  void expect_refused_options();
  void refuse_option(const char* key, const char* text, rl_status status,
                     const std::vector<const char*>& words) {
    rl_options* options = nullptr;
    EXPECT_RL_OK(rl_options_clone(sampling_, &options, &err));
    set(options, key, text);
    rl_request r = request();
    r.sampling = options;
    expect_refused(r, status, key, words);
    rl_options_destroy(options);
  }

  Host host_;
  rl_engine* engine_ = nullptr;
  rl_options* sampling_ = nullptr;
  rl_event* event_ = nullptr;
};

void AbiBadRequests::expect_refused_structs() {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const auto refuse = [&](rl_status status, const char* key, const std::vector<const char*>& words,
                          const std::function<void(rl_request&)>& spoil) {
    rl_request r = request();
    spoil(r);
    expect_refused(r, status, key, words);
  };
  static const int32_t beyond[] = {1, 256}, negative[] = {-1};
  static const std::vector<int32_t> long_prompt(100000, 5);
  refuse(RL_INVALID_ARGUMENT, "request.prompt", {"no tokens"}, [](auto& r) { r.num_prompt = 0; });
  refuse(RL_INVALID_ARGUMENT, "request.prompt", {"no tokens"}, [](auto& r) {
    r.prompt = nullptr;
    r.num_prompt = 0;
  });
  refuse(RL_INVALID_ARGUMENT, "request.prompt", {"NULL", "3 entries"},
         [](auto& r) { r.prompt = nullptr; });
  refuse(RL_INVALID_ARGUMENT, "request.prompt", {"impossible count 18446744073709551615"},
         [](auto& r) { r.num_prompt = kMost; });
  refuse(RL_OUT_OF_RANGE, "request.prompt", {"prompt[1]", "256", "0..255"}, [](auto& r) {
    r.prompt = beyond;
    r.num_prompt = 2;
  });
  refuse(RL_OUT_OF_RANGE, "request.prompt", {"prompt[0]", "-1", "0..255"}, [](auto& r) {
    r.prompt = negative;
    r.num_prompt = 1;
  });
  refuse(RL_OUT_OF_RANGE, "sampling.max_new_tokens", {"100000 tokens", "max_model_len 64"},
         [](auto& r) {
           r.prompt = long_prompt.data();
           r.num_prompt = long_prompt.size();
         });
  refuse(RL_OUT_OF_RANGE, "request.num_samples", {"is 0", "1..65536"},
         [](auto& r) { r.num_samples = 0; });
  refuse(RL_OUT_OF_RANGE, "request.num_samples", {"65537", "1..65536"},
         [](auto& r) { r.num_samples = 65537; });
  refuse(RL_OUT_OF_RANGE, "request.num_samples", {"18446744073709551615", "65536"},
         [](auto& r) { r.num_samples = kMost; });
}

void AbiBadRequests::expect_refused_options() {
  refuse_option("sampling.max_new_tokens", "62", RL_OUT_OF_RANGE, {"62", "max_model_len 64"});
  refuse_option("sampling.max_new_tokens", "16777216", RL_OUT_OF_RANGE,
                {"16777216", "max_model_len 64"});
  refuse_option("sampling.min_new_tokens", "41", RL_CONFLICT, {"41", "max_new_tokens 40"});
  refuse_option("sampling.stop_token_ids", "256", RL_OUT_OF_RANGE, {"256", "0..255"});
  refuse_option("sampling.logit_bias", "5", RL_INVALID_ARGUMENT, {"no colon"});
  refuse_option("sampling.logit_bias", "256:1", RL_OUT_OF_RANGE, {"256", "0..255"});
  refuse_option("sampling.allowed_token_ids", "3,256", RL_OUT_OF_RANGE, {"256", "0..255"});
  refuse_option("sampling.stop", "x", RL_FAILED_PRECONDITION, {"tokenizer"});
}

TEST_F(AbiBadRequests, EachIsNamedAndHurtsNobody) {
  submit_canaries(engine_);
  EXPECT_RL_OK(rl_engine_step(engine_, &err));
  expect_refused_structs();
  EXPECT_RL_OK(rl_engine_step(engine_, &err));
  expect_refused_options();
  rl_engine_stats stats;
  rl_engine_stats_init(&stats, sizeof stats);
  EXPECT_RL_OK(rl_engine_get_stats(engine_, -1, RL_PERIOD_TOTAL, &stats, &err));
  EXPECT_EQ(stats.running + stats.waiting, 6u) << "they ran beside all of it";
  EXPECT_RL_OK(rl_engine_run(engine_, &err));
  const Samples beside = take_all(engine_);

  rl_engine* alone = nullptr;
  EXPECT_RL_OK(rl_engine_create(host_.model, host_.options, &alone, &err));
  submit_canaries(alone);
  EXPECT_RL_OK(rl_engine_run(alone, &err));
  const Samples expected = take_all(alone);
  EXPECT_EQ(expected.ids.size(), 6u);
  EXPECT_EQ(beside.ids, expected.ids);
  EXPECT_EQ(beside.logprobs, expected.logprobs);
  EXPECT_EQ(beside.finish, expected.finish);
  rl_engine_destroy(alone);
}

// What no option may be is refused where it is set, and the option keeps its value.
TEST_F(AbiBadRequests, ValuesOfSamplingAreRefusedWhereTheyAreSet) {
  const std::pair<const char*, const char*> bad[] = {
      {"sampling.temperature", "-1"},     {"sampling.temperature", "nan"},
      {"sampling.temperature", "inf"},    {"sampling.top_p", "0"},
      {"sampling.top_k", "-1"},           {"sampling.min_p", "1.01"},
      {"sampling.max_new_tokens", "0"},   {"sampling.max_new_tokens", "16777217"},
      {"sampling.min_new_tokens", "-1"},  {"sampling.repetition_penalty", "0"},
      {"sampling.presence_penalty", "3"}, {"sampling.frequency_penalty", "nan"},
      {"sampling.logprobs", "21"},        {"sampling.stop_token_ids", "-1"}};
  const std::string before = changed(sampling_);
  for (const auto& [key, text] : bad) {
    rl_error* err = nullptr;
    EXPECT_NE(rl_options_set_text(sampling_, key, RL_NUL_TERMINATED, text, RL_NUL_TERMINATED, &err),
              RL_OK)
        << key << " = " << text;
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key) << text;
    EXPECT_FALSE(text_of(err, RL_ERROR_EXPECTED).empty()) << key << " = " << text;
    rl_error_release(err);
  }
  EXPECT_EQ(changed(sampling_), before);
}

TEST_F(AbiBadRequests, AnAbortIsAllowedAtAnyTime) {
  EXPECT_RL_OK(rl_engine_abort(engine_, 0, nullptr, &err));
  rl_batch* none = nullptr;
  EXPECT_EQ(rl_engine_take(engine_, &none, nullptr), RL_IDLE);
  for (const int steps : {0, 1, 7}) {
    submit_canaries(engine_);
    for (int i = 0; i < steps; ++i) EXPECT_RL_OK(rl_engine_step(engine_, &err));
    EXPECT_RL_OK(rl_engine_abort(engine_, 0, nullptr, &err));
    EXPECT_EQ(rl_engine_step(engine_, nullptr), RL_IDLE);
    const Samples ended = take_all(engine_);
    EXPECT_EQ(ended.finish, std::vector<int32_t>(6, RL_FINISH_ABORTED));
  }
  EXPECT_RL_OK(rl_engine_abort(engine_, 0, nullptr, &err));
  EXPECT_RL_OK(train(host_.trainer, host_.batch, &event_, &err));
  rl_event_release(event_);
}

}  // namespace
}  // namespace abi_test
