// Requests through rl.h: aborted, gone on from, put in order, paused and drained; conversations.
#include <cstring>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

const int32_t kPrompt[] = {1, 2, 3};

rl_request request_of(rl_options* sampling, uint64_t samples = 1) {
  rl_request request;
  rl_request_init(&request, sizeof request);
  request.prompt = kPrompt;
  request.num_prompt = 3;
  request.num_samples = samples;
  request.sampling = sampling;
  return request;
}

rl_request resume_of(rl_options* sampling, const rl_sample_view& sample) {
  rl_request request;
  rl_request_init(&request, sizeof request);
  request.sampling = sampling;
  request.resume = &sample;
  return request;
}

class AbiEngine : public ::testing::Test {
 protected:
  AbiEngine() { EXPECT_RL_OK(rl_options_clone(host_.options, &sampling_, &err)); }
  ~AbiEngine() override {
    rl_options_destroy(sampling_);
    for (rl_batch* batch : taken_) rl_batch_release(batch);
  }

  rl_options* tokens(int64_t count) {
    set(sampling_, "sampling.max_new_tokens", std::to_string(count));
    set(sampling_, "sampling.ignore_eos", "true");
    return sampling_;
  }
  uint64_t submit(const rl_request& request) {
    uint64_t id = 0;
    EXPECT_RL_OK(rl_engine_submit(host_.engine, &request, &id, &err));
    return id;
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) EXPECT_RL_OK(rl_engine_step(host_.engine, &err));
  }
  // Views live as long as the test.
  std::vector<rl_sample_view> take() {
    rl_batch* batch = nullptr;
    EXPECT_RL_OK(rl_engine_take(host_.engine, &batch, &err));
    taken_.push_back(batch);
    std::vector<rl_sample_view> samples(rl_batch_count(batch));
    for (size_t i = 0; i < samples.size(); ++i) {
      rl_sample_view_init(&samples[i], sizeof samples[i]);
      EXPECT_RL_OK(rl_batch_sample(batch, i, &samples[i], &err));
    }
    return samples;
  }
  rl_engine_stats stats() {
    rl_engine_stats now;
    rl_engine_stats_init(&now, sizeof now);
    EXPECT_RL_OK(rl_engine_get_stats(host_.engine, -1, RL_PERIOD_TOTAL, &now, &err));
    return now;
  }
  void expect_refused(const rl_request& request, rl_status status, const char* key) {
    uint64_t id = 7;
    rl_error* err = nullptr;
    EXPECT_EQ(rl_engine_submit(host_.engine, &request, &id, &err), status);
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key) << text_of(err, RL_ERROR_MESSAGE);
    EXPECT_EQ(id, 0u);
    rl_error_release(err);
  }

  Host host_;
  rl_options* sampling_ = nullptr;
  std::vector<rl_batch*> taken_;
};

TEST_F(AbiEngine, AnAbortedSampleComesBackWholeAndGoesOn) {
  const uint64_t id = submit(request_of(tokens(12)));
  steps(5);
  EXPECT_RL_OK(rl_engine_abort_request(host_.engine, id, &err));
  const rl_sample_view part = take().at(0);
  EXPECT_EQ(part.finish, RL_FINISH_ABORTED);
  EXPECT_EQ(part.num_ids - part.num_prompt, 5u);
  EXPECT_EQ(part.num_aborts, 1u);
  EXPECT_EQ(submit(resume_of(tokens(7), part)), id);
  expect_refused(resume_of(tokens(7), part), RL_FAILED_PRECONDITION, "request.resume");
  EXPECT_RL_OK(rl_engine_run(host_.engine, &err));
  const rl_sample_view whole = take().at(0);
  EXPECT_EQ(whole.sample_id, id);
  EXPECT_EQ(whole.num_ids - whole.num_prompt, 12u);
  EXPECT_EQ(std::memcmp(whole.ids, part.ids, part.num_ids * sizeof *part.ids), 0);
  std::vector<float> again(12);
  EXPECT_RL_OK(logprobs_of(host_.trainer, whole.ids, whole.num_ids, 3, whole.temperature,
                           again.data(), 12, &err));
  EXPECT_EQ(std::memcmp(again.data(), whole.logprobs, 12 * sizeof(float)), 0);
}

TEST_F(AbiEngine, ASampleThatNeverRanGoesOnToo) {
  const uint64_t id = submit(request_of(tokens(4)));
  EXPECT_RL_OK(rl_engine_abort(host_.engine, 0, nullptr, &err));
  const rl_sample_view none = take().at(0);
  EXPECT_EQ(none.num_ids, none.num_prompt);
  submit(resume_of(tokens(4), none));
  EXPECT_RL_OK(rl_engine_run(host_.engine, &err));
  const rl_sample_view whole = take().at(0);
  EXPECT_EQ(whole.sample_id, id);
  EXPECT_EQ(whole.num_ids, 7u);
}

TEST_F(AbiEngine, WhatIsWrongWithASampleToGoOnFromIsNamed) {
  submit(request_of(tokens(4)));
  steps(2);
  EXPECT_RL_OK(rl_engine_abort(host_.engine, 0, nullptr, &err));
  const rl_sample_view good = take().at(0);
  const auto refuse = [&](const char* key, rl_status status, auto&& spoil) {
    rl_sample_view bad = good;
    spoil(bad);
    expect_refused(resume_of(tokens(4), bad), status, key);
  };
  refuse("request.resume.ids", RL_INVALID_ARGUMENT, [](auto& s) { s.ids = nullptr; });
  refuse("request.resume.num_prompt", RL_OUT_OF_RANGE,
         [](auto& s) { s.num_prompt = s.num_ids + 1; });
  refuse("request.resume.num_prompt", RL_OUT_OF_RANGE, [](auto& s) { s.num_prompt = 0; });
  refuse("request.resume.logprobs", RL_INVALID_ARGUMENT, [](auto& s) { s.logprobs = nullptr; });
  refuse("sampling.temperature", RL_INVALID_ARGUMENT, [](auto& s) { s.temperature = 0.5f; });
  refuse("request.resume", RL_INVALID_ARGUMENT, [](auto& s) { s.struct_size = 8; });
  const int32_t wild[] = {1, 2, 3, 1 << 20};
  refuse("request.resume.ids", RL_OUT_OF_RANGE, [&](auto& s) {
    s.ids = wild;
    s.num_ids = 4;
  });
  rl_request both = resume_of(tokens(4), good);
  both.prompt = kPrompt;
  both.num_prompt = 3;
  expect_refused(both, RL_INVALID_ARGUMENT, "request.resume");
  rl_request two = resume_of(tokens(4), good);
  two.num_samples = 2;
  expect_refused(two, RL_INVALID_ARGUMENT, "request.resume");
  expect_refused(resume_of(tokens(63), good), RL_OUT_OF_RANGE, "sampling.max_new_tokens");
}

TEST_F(AbiEngine, PriorityPutsALaterRequestFirst) {
  rl_request high = request_of(tokens(2), 4);
  high.priority = 1;
  expect_refused(high, RL_CONFLICT, "request.priority");
  set(sampling_, "engine.scheduling_policy", "priority");
  rl_engine_destroy(host_.engine);
  EXPECT_RL_OK(rl_engine_create(host_.model, sampling_, &host_.engine, &err));
  submit(request_of(tokens(2), 4));
  const uint64_t id = submit(high);
  EXPECT_RL_OK(rl_engine_run(host_.engine, &err));
  EXPECT_GE(take().at(0).sample_id, id);
  high.priority = (1 << 20) + 1;
  expect_refused(high, RL_OUT_OF_RANGE, "request.priority");
}

TEST_F(AbiEngine, AHostNamesTheSamplesOfARequest) {
  rl_request request = request_of(tokens(2), 2);
  request.tag = "row 5";
  request.tag_len = RL_NUL_TERMINATED;
  request.ordinal = 77;
  request.sample_id = 900;
  request.slot = 4;
  EXPECT_EQ(submit(request), 900u);
  expect_refused(request, RL_FAILED_PRECONDITION, "request.sample_id");
  request.sample_id = 901;
  expect_refused(request, RL_FAILED_PRECONDITION, "request.sample_id");
  EXPECT_GT(submit(request_of(tokens(2))), 901u) << "the library counts on from there";
  EXPECT_RL_OK(rl_engine_run(host_.engine, &err));
  std::map<uint64_t, rl_sample_view> found;
  for (const rl_sample_view& s : take()) found[s.sample_id] = s;
  ASSERT_EQ(found.size(), 3u);
  for (const uint64_t id : {900u, 901u}) {
    EXPECT_EQ(found[id].ordinal, 77u);
    EXPECT_EQ(found[id].slot, id - 896);
    EXPECT_EQ(std::string(found[id].tag, found[id].tag_len), "row 5");
  }
  EXPECT_EQ(found.rbegin()->second.tag_len, 0u);
  EXPECT_EQ(submit(request), 901u) << "its samples have ended";
}

TEST_F(AbiEngine, TheIdsOfAnInstanceEnd) {
  rl_request request = request_of(tokens(2));
  request.sample_id = (uint64_t{1} << 48) - 1;
  submit(request);
  expect_refused(request_of(tokens(2)), RL_RESOURCE_EXHAUSTED, "");
  const rl_content prompt = content_of(kPrompt, 3);
  rl_conversation* none = nullptr;
  EXPECT_EQ(rl_conversation_create(host_.engine, &prompt, &none, nullptr), RL_RESOURCE_EXHAUSTED);
  EXPECT_EQ(rl_conversation_fork(host_.conversation, &none, nullptr), RL_RESOURCE_EXHAUSTED);
  EXPECT_EQ(none, nullptr);
  request.sample_id = 900;
  EXPECT_EQ(submit(request), 900u) << "a host can still choose";
}

// Random numbers follow from ordinal and slot, so a group may come from several engines.
TEST_F(AbiEngine, AGroupInTwoRequestsIsTheGroupInOne) {
  std::map<uint32_t, std::vector<int32_t>> whole, parts;
  const auto run = [&](auto& out) {
    EXPECT_RL_OK(rl_engine_run(host_.engine, &err));
    for (const rl_sample_view& s : take()) out[s.slot] = {s.ids, s.ids + s.num_ids};
  };
  rl_request request = request_of(tokens(6), 3);
  request.ordinal = 12;
  submit(request);
  run(whole);
  rl_engine_destroy(host_.engine);
  EXPECT_RL_OK(rl_engine_create(host_.model, host_.options, &host_.engine, &err));
  request.slot = 1;
  request.num_samples = 2;
  submit(request);
  request.slot = 0;
  request.num_samples = 1;
  submit(request);
  run(parts);
  EXPECT_EQ(whole, parts);
  EXPECT_NE(whole[0], whole[1]);
}

TEST_F(AbiEngine, NamesThatCannotBeAreRefused) {
  const auto refused = [&](rl_status status, const char* key, auto&& spoil) {
    rl_request request = request_of(nullptr, 2);
    spoil(request);
    expect_refused(request, status, key);
  };
  refused(RL_OUT_OF_RANGE, "request.slot", [](auto& r) { r.slot = 65535; });
  refused(RL_OUT_OF_RANGE, "request.slot", [](auto& r) { r.slot = UINT32_MAX; });
  refused(RL_OUT_OF_RANGE, "request.sample_id", [](auto& r) { r.sample_id = INT64_MAX; });
  refused(RL_OUT_OF_RANGE, "request.sample_id", [](auto& r) { r.sample_id = UINT64_MAX; });
  refused(RL_INVALID_ARGUMENT, "request.reserved", [](auto& r) { r.reserved = 1; });
  refused(RL_INVALID_ARGUMENT, "request.tag", [](auto& r) { r.tag = "\xff", r.tag_len = 1; });
  submit(request_of(tokens(4)));
  EXPECT_RL_OK(rl_engine_abort(host_.engine, 0, nullptr, &err));
  const rl_sample_view sample = take().at(0);
  const auto resumed = [&](const char* key, auto&& spoil) {
    rl_request request = resume_of(nullptr, sample);
    spoil(request);
    expect_refused(request, RL_INVALID_ARGUMENT, key);
  };
  resumed("request.tag", [](auto& r) { r.tag = "x", r.tag_len = 1; });
  resumed("request.ordinal", [](auto& r) { r.ordinal = 1; });
  resumed("request.sample_id", [](auto& r) { r.sample_id = 1; });
  resumed("request.slot", [](auto& r) { r.slot = 1; });
}

TEST_F(AbiEngine, AHostNamesTheSampleOfAConversation) {
  rl_content prompt = content_of(kPrompt, 3);
  prompt.tag = "talk";
  prompt.tag_len = 4;
  prompt.ordinal = 31;
  prompt.sample_id = 500;
  rl_conversation *first = nullptr, *fork = nullptr, *twin = nullptr;
  EXPECT_RL_OK(rl_conversation_create(host_.engine, &prompt, &first, &err));
  EXPECT_RL_OK(rl_conversation_fork(first, &fork, &err));
  rl_batch* batch = nullptr;
  for (rl_conversation* const c : {first, fork}) {
    EXPECT_RL_OK(rl_conversation_sample(c, &batch, &err));
    taken_.push_back(batch);
    rl_sample_view view;
    rl_sample_view_init(&view, sizeof view);
    EXPECT_RL_OK(rl_batch_sample(batch, 0, &view, &err));
    EXPECT_EQ(std::string(view.tag, view.tag_len), "talk");
    EXPECT_EQ(view.ordinal, 31u);
    EXPECT_EQ(view.sample_id == 500, c == first);
  }
  // Two with one id: the second turn is refused, and the first is what it was.
  EXPECT_RL_OK(rl_conversation_create(host_.engine, &prompt, &twin, &err));
  EXPECT_RL_OK(rl_conversation_generate(first, nullptr, &err));
  EXPECT_EQ(rl_conversation_generate(twin, nullptr, nullptr), RL_FAILED_PRECONDITION);
  rl_request request = request_of(nullptr, 2);
  request.sample_id = 499;
  expect_refused(request, RL_FAILED_PRECONDITION, "request.sample_id");
  EXPECT_RL_OK(rl_engine_run(host_.engine, &err));
  expect_refused(request, RL_FAILED_PRECONDITION, "request.sample_id");  // the turn is not taken
  rl_conversation_info info;
  rl_conversation_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_conversation_get_info(first, &info, &err));
  EXPECT_EQ(info.num_turns, 1u);
  submit(request);

  const auto refused = [&](const char* key, auto&& spoil) {
    rl_content content = content_of(kPrompt, 1);
    spoil(content);
    rl_error* err = nullptr;
    EXPECT_EQ(rl_conversation_append(first, &content, &err), RL_INVALID_ARGUMENT) << key;
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key);
    rl_error_release(err);
  };
  refused("content.tag", [](auto& c) { c.tag = "x", c.tag_len = 1; });
  refused("content.ordinal", [](auto& c) { c.ordinal = 31; });
  refused("content.sample_id", [](auto& c) { c.sample_id = 500; });
  for (rl_conversation* const c : {first, fork, twin}) rl_conversation_destroy(c);
}

// Two engines of one runtime, and runtimes of two instances, never give one id.
TEST(AbiIds, AreUniqueAcrossEnginesAndInstances) {
  std::vector<uint64_t> ids;
  for (const char* const instance : {"0", "5"}) {
    rl_options* options = nullptr;
    rl_runtime* runtime = nullptr;
    rl_model* model = nullptr;
    EXPECT_RL_OK(rl_options_create(&options, &err));
    set(options, "model.path", RL_FIXTURES "/models/llama");
    set(options, "runtime.threads", "1");
    set(options, "runtime.instance", instance);
    set(options, "engine.max_model_len", "64");
    set(options, "sampling.max_new_tokens", "8");
    EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
    EXPECT_RL_OK(rl_model_open(runtime, options, RL_USE_GENERATE, &model, &err));
    for (int i = 0; i < 2; ++i) {
      rl_engine* engine = nullptr;
      EXPECT_RL_OK(rl_engine_create(model, options, &engine, &err));
      const rl_request request = request_of(nullptr, 2);
      EXPECT_RL_OK(rl_engine_submit(engine, &request, &ids.emplace_back(), &err));
      rl_engine_destroy(engine);
    }
    rl_model_destroy(model);
    rl_runtime_destroy(runtime);
    rl_options_destroy(options);
  }
  const uint64_t other = uint64_t{5} << 48;
  EXPECT_EQ(ids, (std::vector<uint64_t>{1, 3, other + 1, other + 3}));
}

TEST_F(AbiEngine, InterruptSparesNoneWithoutALimit) {
  submit(request_of(tokens(8), 2));
  steps(1);
  uint64_t spared = 7;
  EXPECT_RL_OK(rl_engine_abort(host_.engine, RL_ABORT_SPARE, &spared, &err));
  EXPECT_EQ(spared, 0u);
  EXPECT_EQ(take().size(), 2u);
}

TEST_F(AbiEngine, PauseAndDrainSayWhatTheyDid) {
  submit(request_of(tokens(4), 4));
  submit(request_of(tokens(4), 2));
  steps(1);
  EXPECT_RL_OK(rl_engine_pause(host_.engine, &err));
  EXPECT_EQ(rl_engine_step(host_.engine, nullptr), RL_PAUSED);
  EXPECT_EQ(rl_engine_run(host_.engine, nullptr), RL_PAUSED);
  EXPECT_EQ(rl_engine_drain(host_.engine, -1, nullptr), RL_PAUSED);
  EXPECT_RL_OK(rl_engine_unpause(host_.engine, &err));
  rl_error* err = nullptr;
  EXPECT_EQ(rl_engine_drain(host_.engine, 0, &err), RL_TIMEOUT);
  EXPECT_EQ(err, nullptr);
  EXPECT_EQ(stats().started, 4u);
  EXPECT_EQ(stats().waiting, 2u);
  EXPECT_RL_OK(rl_engine_drain(host_.engine, -1, &err));
  EXPECT_EQ(stats().started, 0u);
  EXPECT_EQ(rl_engine_step(host_.engine, nullptr), RL_IDLE);
  EXPECT_EQ(take().size(), 4u);
  rl_event_release(host_.event);
  host_.train();
  EXPECT_RL_OK(rl_engine_unpause(host_.engine, &err));
  EXPECT_RL_OK(rl_engine_run(host_.engine, &err));
  EXPECT_EQ(take().size(), 2u);
}

TEST_F(AbiEngine, AConversationIsOneSampleOfSeveralTurns) {
  rl_conversation* const c = host_.conversation;
  const int32_t answer[] = {9, 8};
  const rl_content content = content_of(answer, 2);
  rl_turn how;
  rl_turn_init(&how, sizeof how);
  how.sampling = tokens(4);
  rl_conversation_info info;
  rl_conversation_info_init(&info, sizeof info);
  for (uint64_t turn = 1; turn <= 2; ++turn) {
    EXPECT_RL_OK(rl_conversation_generate(c, &how, &err));
    rl_error* err = nullptr;
    EXPECT_EQ(rl_conversation_append(c, &content, &err), RL_FAILED_PRECONDITION);
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), "conversation");
    rl_error_release(err);
    EXPECT_RL_OK(rl_conversation_get_info(c, &info, &err));
    EXPECT_EQ(info.generating, 1u);
    EXPECT_RL_OK(rl_engine_run(host_.engine, &err));
    EXPECT_RL_OK(rl_conversation_append(c, &content, &err));
    EXPECT_RL_OK(rl_conversation_get_info(c, &info, &err));
    EXPECT_EQ(info.generating, 0u);
    EXPECT_EQ(info.num_turns, turn);
  }
  rl_conversation* other = nullptr;
  EXPECT_RL_OK(rl_conversation_fork(c, &other, &err));
  rl_batch* batch = nullptr;
  EXPECT_EQ(rl_engine_take(host_.engine, &batch, nullptr), RL_IDLE) << "turns are not taken";
  EXPECT_RL_OK(rl_conversation_sample(other, &batch, &err));
  taken_.push_back(batch);
  rl_conversation_destroy(other);
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_batch_sample(batch, 0, &view, &err));
  EXPECT_EQ(view.slot, 1u);
  EXPECT_EQ(view.ordinal, info.ordinal);
  EXPECT_EQ(view.num_ids, info.num_ids);
  EXPECT_EQ(view.loss_mask[view.num_ids - view.num_prompt - 1], 0);
  std::vector<float> again(view.num_ids - view.num_prompt);
  EXPECT_RL_OK(logprobs_of(host_.trainer, view.ids, view.num_ids, view.num_prompt, view.temperature,
                           again.data(), again.size(), &err));
  for (size_t i = 0; i < again.size(); ++i) {
    if (view.loss_mask[i] == 1) {
      EXPECT_EQ(again[i], view.logprobs[i]) << i;
    }
  }
}

}  // namespace
}  // namespace abi_test
