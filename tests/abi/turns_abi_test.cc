// Turns, group events and token rewards through the C interface.
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

// A pipeline of its own on the host's model, fed with one prompt. Samples have four tokens a turn.
struct TurnRun {
  explicit TurnRun(const std::map<const char*, const char*>& more = {}) {
    rl_pipeline_destroy(host.pipeline);
    host.pipeline = nullptr;
    set(host.options, "pipeline.turns", "always");
    for (const auto& [key, value] : more) set(host.options, key, value);
    EXPECT_RL_OK(rl_pipeline_create(host.model, host.options, &host.pipeline, &err));
    const int32_t ids[] = {1, 2};
    EXPECT_RL_OK(feed(host.pipeline, ids, 2, &err));
    EXPECT_RL_OK(rl_pipeline_finish_feed(host.pipeline, &err));
    EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
  }
  // Hands out every event until the end.
  rl_status serve(const std::function<void(const rl_event*, const rl_event_view&)>& on) {
    rl_event* event = nullptr;
    rl_status status;
    while ((status = rl_pipeline_next(host.pipeline, 60'000'000'000, &event, nullptr)) == RL_OK) {
      rl_event_view view;
      rl_event_view_init(&view, sizeof view);
      EXPECT_RL_OK(rl_event_get_view(event, &view, &err));
      on(event, view);
      rl_event_release(event);
    }
    return status;
  }

  Host host;
};

rl_sample_view sample_of(const rl_event* event, size_t index = 0) {
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_event_sample(event, index, &view, &err));
  return view;
}

rl_reply reply_of(uint64_t sample_id, const int32_t* ids, size_t num_ids) {
  rl_reply reply;
  rl_reply_init(&reply, sizeof reply);
  reply.sample_id = sample_id;
  reply.ids = ids;
  reply.num_ids = num_ids;
  return reply;
}

rl_reply finish_of(uint64_t sample_id) {
  rl_reply reply = reply_of(sample_id, nullptr, 0);
  reply.finish = 1;
  return reply;
}

rl_status reply(const Host& host, const rl_reply& one, rl_error** err) {
  return rl_pipeline_reply(host.pipeline, &one, 1, nullptr, err);
}

constexpr int32_t kIds[] = {7, 9};

TEST(Turns, AreAnsweredAndTrain) {
  TurnRun run;
  std::set<uint64_t> steps;
  const auto on_turn = [&](const rl_event* event, const rl_event_view& view) {
    const rl_sample_view sample = sample_of(event);
    EXPECT_EQ(view.ordinal, sample.ordinal);
    EXPECT_EQ(view.text_len, 0u) << "the model has no tokenizer";
    EXPECT_EQ(sample.num_ids, view.count == 1 ? 6u : 12u);
    rl_sample_view none;
    rl_sample_view_init(&none, sizeof none);
    EXPECT_EQ(rl_event_sample(event, 1, &none, nullptr), RL_OUT_OF_RANGE);
    const bool last = view.count == 2;
    EXPECT_RL_OK(reply(
        run.host, last ? finish_of(sample.sample_id) : reply_of(sample.sample_id, kIds, 2), &err));
  };
  const rl_status end = run.serve([&](const rl_event* event, const rl_event_view& view) {
    if (view.kind == RL_EVENT_TURN) on_turn(event, view);
    if (view.kind == RL_EVENT_STEP) steps.insert(view.step);
    if (view.kind != RL_EVENT_SCORE) return;
    const rl_sample_view sample = sample_of(event);
    ASSERT_EQ(sample.num_ids, 12u);
    EXPECT_EQ(sample.ids[6], 7);
    EXPECT_EQ(sample.ids[7], 9);
    const std::vector<uint8_t> mask(sample.loss_mask, sample.loss_mask + 10);
    EXPECT_EQ(mask, (std::vector<uint8_t>{1, 1, 1, 1, 0, 0, 1, 1, 1, 1}));
    EXPECT_EQ(sample.versions[4], UINT64_MAX);
    EXPECT_RL_OK(score(run.host.pipeline, sample.sample_id, sample.slot, &err));
  });
  EXPECT_EQ(end, RL_DONE);
  EXPECT_EQ(steps.size(), 1u);
}

TEST(Turns, RepliesThatAreWrongAreRefusedByName) {
  TurnRun run;
  uint64_t first = 0;
  const auto refused = [&](const rl_reply& wrong, rl_status status, const char* key) {
    rl_error* err = nullptr;
    EXPECT_EQ(reply(run.host, wrong, &err), status) << text_of(err, RL_ERROR_SUMMARY);
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key) << text_of(err, RL_ERROR_SUMMARY);
    rl_error_release(err);
  };
  const auto refuse_all = [&](uint64_t id) {
    const int32_t outside[] = {256};
    rl_reply wrong = reply_of(id, nullptr, 0);
    refused(wrong, RL_INVALID_ARGUMENT, "replies[0]");
    wrong.finish = 2;
    refused(wrong, RL_INVALID_ARGUMENT, "replies[0].finish");
    wrong = reply_of(id, nullptr, 1);
    refused(wrong, RL_INVALID_ARGUMENT, "replies[0].ids");
    wrong = reply_of(id, kIds, 2);
    wrong.finish = 1;
    refused(wrong, RL_INVALID_ARGUMENT, "replies[0]");
    wrong = reply_of(id, kIds, 2);
    wrong.flags = RL_TEXT_ADD_SPECIAL;
    refused(wrong, RL_INVALID_ARGUMENT, "replies[0].flags");
    wrong.flags = RL_TEXT_SKIP_SPECIAL;
    refused(wrong, RL_INVALID_ARGUMENT, "replies[0].flags");
    wrong = reply_of(id, kIds, 2);
    wrong.text = "a";
    wrong.text_len = 1;
    refused(wrong, RL_INVALID_ARGUMENT, "replies[0].ids");
    wrong.num_ids = 0;
    refused(wrong, RL_FAILED_PRECONDITION, "replies[0]");  // no tokenizer
    wrong.text = nullptr;
    refused(wrong, RL_INVALID_ARGUMENT, "replies[0].text");
    wrong = reply_of(id, kIds, 2);
    wrong.turn = 9;
    refused(wrong, RL_NOT_FOUND, "replies[0]");
    refused(reply_of(id, outside, 1), RL_OUT_OF_RANGE, "replies[0]");
    refused(reply_of(999, kIds, 2), RL_NOT_FOUND, "replies[0]");
  };
  const rl_status end = run.serve([&](const rl_event* event, const rl_event_view& view) {
    if (view.kind == RL_EVENT_SCORE) {
      const rl_sample_view sample = sample_of(event);
      EXPECT_RL_OK(score(run.host.pipeline, sample.sample_id, 1, &err));
    }
    if (view.kind != RL_EVENT_TURN) return;
    const uint64_t id = sample_of(event).sample_id;
    if (first == 0) refuse_all(first = id);
    const rl_reply both[] = {finish_of(id), finish_of(999)};
    rl_status results[2] = {-1, -1};
    EXPECT_EQ(rl_pipeline_reply(run.host.pipeline, both, 2, results, nullptr), RL_NOT_FOUND);
    EXPECT_EQ(results[0], RL_OK);
    EXPECT_EQ(results[1], RL_NOT_FOUND);
    rl_reply again = finish_of(id);
    again.turn = view.count;
    refused(again, RL_DUPLICATE, "replies[0]");
  });
  EXPECT_EQ(end, RL_DONE);
  EXPECT_NE(first, 0u);
}

TEST(Turns, AReplyToADroppedGroupIsLate) {
  TurnRun run;
  std::vector<uint64_t> asked;
  int32_t dropped = RL_DROP_NONE;
  const rl_status end = run.serve([&](const rl_event* event, const rl_event_view& view) {
    if (view.kind == RL_EVENT_GROUP_DROPPED) dropped = view.reason;
    if (view.kind != RL_EVENT_TURN) return;
    asked.push_back(sample_of(event).sample_id);
    if (asked.size() < 2) return;
    rl_score none = score_of(asked[0], 0);
    none.failure = "the tool is away";
    none.failure_len = RL_NUL_TERMINATED;
    EXPECT_RL_OK(rl_pipeline_score(run.host.pipeline, &none, 1, nullptr, &err));
    for (const uint64_t id : asked) {
      EXPECT_EQ(reply(run.host, finish_of(id), nullptr), RL_LATE);
    }
  });
  EXPECT_EQ(end, RL_DONE);
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_EQ(dropped, RL_DROP_REWARD_ERROR);
}

TEST(Turns, StatisticsCountWhatWaitsForAReply) {
  TurnRun run;
  uint64_t asked = 0;
  std::vector<uint64_t> ids;
  run.serve([&](const rl_event* event, const rl_event_view& view) {
    const rl_sample_view sample = view.kind == RL_EVENT_TURN || view.kind == RL_EVENT_SCORE
                                      ? sample_of(event)
                                      : rl_sample_view{};
    if (view.kind == RL_EVENT_SCORE) {
      EXPECT_RL_OK(score(run.host.pipeline, sample.sample_id, 1, &err));
    }
    if (view.kind != RL_EVENT_TURN) return;
    ids.push_back(sample.sample_id);
    if (ids.size() < 2) return;
    rl_pipeline_stats stats;
    rl_pipeline_stats_init(&stats, sizeof stats);
    EXPECT_RL_OK(rl_pipeline_get_stats(run.host.pipeline, &stats, &err));
    asked = stats.unreplied;
    for (const uint64_t id : ids) EXPECT_RL_OK(reply(run.host, finish_of(id), &err));
  });
  EXPECT_EQ(asked, 2u);
}

TEST(Groups, AnEventHasAllSamplesOfAGroup) {
  TurnRun run({{"pipeline.turns", "none"}, {"pipeline.score_events", "group"}});
  int groups = 0;
  const rl_status end = run.serve([&](const rl_event* event, const rl_event_view& view) {
    EXPECT_NE(view.kind, RL_EVENT_SCORE);
    if (view.kind != RL_EVENT_GROUP) return;
    ++groups;
    ASSERT_EQ(view.count, 2u);
    std::vector<rl_score> scores;
    for (uint32_t slot = 0; slot < 2; ++slot) {
      const rl_sample_view sample = sample_of(event, slot);
      EXPECT_EQ(sample.slot, slot);
      rl_tensor* ids = nullptr;
      EXPECT_RL_OK(rl_event_tensor(event, slot, RL_SAMPLE_IDS, nullptr, &ids, &err));
      rl_tensor_info info;
      rl_tensor_info_init(&info, sizeof info);
      EXPECT_RL_OK(rl_tensor_get_info(ids, &info, &err));
      EXPECT_EQ(info.data, sample.ids);
      rl_tensor_release(ids);
      scores.push_back(score_of(sample.sample_id, slot));
    }
    rl_tensor* none = nullptr;
    EXPECT_EQ(rl_event_tensor(event, 2, RL_SAMPLE_IDS, nullptr, &none, nullptr), RL_OUT_OF_RANGE);
    EXPECT_RL_OK(rl_pipeline_score(run.host.pipeline, scores.data(), 2, nullptr, &err));
  });
  EXPECT_EQ(end, RL_DONE);
  EXPECT_EQ(groups, 1);
}

TEST(TokenRewards, AreOnePerTokenOrNone) {
  TurnRun run({{"pipeline.turns", "none"}, {"algo.advantage", "reinforce_pp"}});
  const double rewards[] = {1, 0, 0.5, 2, INFINITY};
  const auto refused = [&](const rl_score& wrong, rl_status status) {
    EXPECT_EQ(rl_pipeline_score(run.host.pipeline, &wrong, 1, nullptr, nullptr), status);
  };
  const rl_status end = run.serve([&](const rl_event* event, const rl_event_view& view) {
    if (view.kind != RL_EVENT_SCORE) return;
    const rl_sample_view sample = sample_of(event);
    EXPECT_EQ(sample.token_rewards, nullptr);
    rl_score one = score_of(sample.sample_id, 1);
    one.num_token_rewards = 4;
    refused(one, RL_INVALID_ARGUMENT);
    one.token_rewards = rewards;
    one.num_token_rewards = 3;
    refused(one, RL_INVALID_ARGUMENT);
    one.token_rewards = rewards + 1;
    one.num_token_rewards = 4;
    refused(one, RL_NON_FINITE);
    one.token_rewards = rewards;
    EXPECT_RL_OK(rl_pipeline_score(run.host.pipeline, &one, 1, nullptr, &err));
  });
  EXPECT_EQ(end, RL_DONE);
}

// Of the host's batch, which the buffer stores and a view shows.
TEST(TokenRewards, GoThroughBatchAndBuffer) {
  const Host host;
  rl_request request;
  rl_request_init(&request, sizeof request);
  const int32_t prompt[] = {1, 2};
  request.prompt = prompt;
  request.num_prompt = 2;
  request.num_samples = 2;
  uint64_t id = 0;
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(rl_engine_submit(host.engine, &request, &id, &err));
  EXPECT_RL_OK(rl_engine_run(host.engine, &err));
  EXPECT_RL_OK(rl_engine_take(host.engine, &batch, &err));
  const double rewards[] = {1, 0, 0.5, 2};
  for (size_t i = 0; i < 2; ++i) {
    rl_score one = score_of(0, 1);
    one.token_rewards = rewards;
    one.num_token_rewards = 3;
    EXPECT_EQ(rl_batch_score(batch, i, &one, 1, nullptr), RL_INVALID_ARGUMENT);
    one.num_token_rewards = 4;
    EXPECT_RL_OK(rl_batch_score(batch, i, &one, 1, &err));
  }
  rl_buffer* buffer = nullptr;
  rl_batch* taken = nullptr;
  EXPECT_RL_OK(rl_buffer_create(host.options, 2, &buffer, &err));
  EXPECT_RL_OK(rl_buffer_put_batch(buffer, batch, &err));
  EXPECT_RL_OK(take_groups(buffer, 1, &taken, &err));
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_batch_sample(taken, 0, &view, &err));
  ASSERT_NE(view.token_rewards, nullptr);
  EXPECT_EQ(view.token_rewards[3], 2);
  rl_event* step = nullptr;
  rl_error* err = nullptr;
  EXPECT_EQ(train(host.trainer, taken, &step, &err), RL_INVALID_ARGUMENT);  // grpo reads none
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "step.batch[0].token_rewards");
  rl_error_release(err);
  rl_batch_release(taken);
  rl_batch_release(batch);
  rl_buffer_destroy(buffer);
}

}  // namespace
}  // namespace abi_test
