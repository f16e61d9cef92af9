// Figures of an engine through rl.h: since it was made, over intervals, of one replica, and those
// that a sample carries.
#include "abi/host.h"

namespace abi_test {
namespace {

rl_engine_stats figures(const rl_engine* engine, int64_t replica, int32_t period) {
  rl_engine_stats stats;
  rl_engine_stats_init(&stats, sizeof stats);
  EXPECT_RL_OK(rl_engine_get_stats(engine, replica, period, &stats, &err));
  return stats;
}

rl_status status_of(const rl_engine* engine, int64_t replica, int32_t period) {
  rl_engine_stats stats;
  rl_engine_stats_init(&stats, sizeof stats);
  return rl_engine_get_stats(engine, replica, period, &stats, nullptr);
}

void submit(rl_engine* engine, uint64_t num_samples) {
  const int32_t prompt[] = {1, 2, 3};
  rl_request request;
  rl_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.num_prompt = 3;
  request.num_samples = num_samples;
  uint64_t id = 0;
  EXPECT_RL_OK(rl_engine_submit(engine, &request, &id, &err));
}

TEST(AbiEngineStats, ReplicasAddUpAndIntervalsAreOfOne) {
  Host host;
  set(host.options, "engine.num_engines", "2");
  set(host.options, "engine.stats_interval_ns", "1");
  set(host.options, "sampling.ignore_eos", "true");
  rl_engine* engine = nullptr;
  EXPECT_RL_OK(rl_engine_create(host.model, host.options, &engine, &err));
  EXPECT_EQ(status_of(engine, 1, RL_PERIOD_INTERVAL), RL_WOULD_BLOCK);
  EXPECT_EQ(status_of(engine, 2, RL_PERIOD_INTERVAL), RL_OUT_OF_RANGE);
  EXPECT_EQ(status_of(engine, -1, RL_PERIOD_INTERVAL), RL_OUT_OF_RANGE);
  EXPECT_EQ(status_of(engine, 2, RL_PERIOD_TOTAL), RL_OUT_OF_RANGE);
  EXPECT_EQ(status_of(engine, -2, RL_PERIOD_TOTAL), RL_OUT_OF_RANGE);
  EXPECT_EQ(status_of(engine, 0, 3), RL_INVALID_ARGUMENT);
  submit(engine, 3);
  submit(engine, 1);
  submit(engine, 1);
  EXPECT_RL_OK(rl_engine_run(engine, &err));
  const rl_engine_stats all = figures(engine, -1, RL_PERIOD_TOTAL);
  const rl_engine_stats first = figures(engine, 0, RL_PERIOD_TOTAL);
  const rl_engine_stats second = figures(engine, 1, RL_PERIOD_TOTAL);
  EXPECT_EQ(first.finished, 3u);
  EXPECT_EQ(second.finished, 2u);
  EXPECT_EQ(all.finished, 5u);
  EXPECT_EQ(all.admitted, 5u);
  EXPECT_EQ(all.aborted, 0u);
  EXPECT_EQ(all.generated_tokens, 5u * 4);
  EXPECT_EQ(all.first_tokens, 5u);
  EXPECT_EQ(all.blocks_total, first.blocks_total + second.blocks_total);
  EXPECT_EQ(all.busy_ns, first.busy_ns + second.busy_ns);
  EXPECT_EQ(all.looked_up_tokens, 3u * 3);  // one of the group looks up for all
  EXPECT_EQ(all.preemptions, 0u);
  EXPECT_GT(all.first_token_ns, all.queue_ns);
  EXPECT_GE(all.first_token_ns, all.longest_first_token_ns);
  EXPECT_GT(all.blocks_peak, 0u);
  const rl_engine_stats interval = figures(engine, 1, RL_PERIOD_INTERVAL);
  EXPECT_EQ(interval.forwards, 1u);
  EXPECT_GT(interval.busy_ns, 0);
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(rl_engine_take(engine, &batch, &err));
  for (size_t i = 0; i < rl_batch_count(batch); ++i) {
    rl_sample_view view;
    rl_sample_view_init(&view, sizeof view);
    EXPECT_RL_OK(rl_batch_sample(batch, i, &view, &err));
    EXPECT_LE(view.submitted_ns, view.admitted_ns);
    EXPECT_LT(view.admitted_ns, view.first_token_ns);
    EXPECT_LT(view.first_token_ns, view.finished_ns);
    EXPECT_EQ(view.preemptions, 0u);
  }
  rl_batch_release(batch);
  rl_engine_destroy(engine);
}

}  // namespace
}  // namespace abi_test
