// Ranks through the C interface: how they are made, and pipelines of all of them that one thread of
// the host serves.
#include <vector>

#include "abi/host.h"
#include "abi/rank_runs.h"

namespace abi_test {
namespace {

rl_error* err = nullptr;  // of the last call that made one

rl_runtime* make(const rl_options* options) {
  rl_runtime* runtime = nullptr;
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  return runtime;
}

rl_status make_rank(const rl_runtime* of, uint32_t rank, rl_runtime** out) {
  rl_error_release(err);
  return rl_runtime_create_rank(of, rank, out, &err);
}

TEST(RanksAbi, AreMadeOnceEach) {
  rl_options* const options = rank_options("3");
  rl_runtime *const first = make(options), *last = nullptr, *middle = nullptr, *none = nullptr;
  EXPECT_EQ(make_rank(first, 2, &last), RL_OK);
  EXPECT_EQ(make_rank(last, 1, &middle), RL_OK);
  uint32_t rank = 0;
  for (const rl_runtime* runtime : {first, middle, last}) {
    EXPECT_EQ(info_of(runtime).rank, rank++);
    EXPECT_EQ(info_of(runtime).num_ranks, 3u);
  }
  EXPECT_EQ(make_rank(first, 1, &none), RL_FAILED_PRECONDITION);
  EXPECT_STREQ(rl_error_text(err, RL_ERROR_KEY, nullptr), "rank");
  EXPECT_EQ(make_rank(first, 3, &none), RL_OUT_OF_RANGE);
  EXPECT_STREQ(rl_error_text(err, RL_ERROR_EXPECTED, nullptr), "0..2");
  EXPECT_EQ(none, nullptr);
  for (rl_runtime* runtime : {first, middle, last}) rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  rl_options* const plain = rank_options("1");
  rl_runtime* const alone = make(plain);
  EXPECT_EQ(info_of(alone).num_ranks, 1u);
  EXPECT_EQ(make_rank(alone, 1, &none), RL_FAILED_PRECONDITION);
  EXPECT_STREQ(rl_error_text(err, RL_ERROR_KEY, nullptr), "parallel.data");
  rl_error_release(err);
  err = nullptr;
  rl_runtime_destroy(alone);
  rl_options_destroy(plain);
}

TEST(RanksAbi, PipelinesOfAllEndWithTheSameWeights) {
  rl_options* const options = rank_options("2");
  set_two_steps(options);
  std::vector<Rank> ranks(2);
  ranks[0].runtime = make(options);
  EXPECT_EQ(make_rank(ranks[0].runtime, 1, &ranks[1].runtime), RL_OK);
  run_pipelines(ranks, options);
  for (const Rank& rank : ranks) EXPECT_EQ(rank.steps, 2);
  EXPECT_EQ(ranks[0].digest, ranks[1].digest);
  EXPECT_EQ(ranks[0].scored + ranks[1].scored, 12);
  EXPECT_GT(ranks[1].scored, 0);
  EXPECT_GT(ranks[0].metrics, 40);
  EXPECT_EQ(ranks[1].metrics, 0);
  rl_options_destroy(options);
}

// A checkpoint of states that ranks have in parts is made by their loops alone.
TEST(RanksAbi, AHostAsksForNoCheckpointOfStatesInParts) {
  rl_options* const options = rank_options("2");
  set_two_steps(options);
  set(options, "parallel.zero_stage", "1");
  set(options, "checkpoint.dir", RL_TEST_OUTPUT "/parts");
  std::vector<Rank> ranks(2);
  ranks[0].runtime = make(options);
  EXPECT_EQ(make_rank(ranks[0].runtime, 1, &ranks[1].runtime), RL_OK);
  Rank& first = ranks[0];
  EXPECT_RL_OK(rl_model_open(first.runtime, options, RL_USE_PIPELINE, &first.model, &err));
  EXPECT_RL_OK(rl_pipeline_create(first.model, options, &first.pipeline, &err));
  rl_error_release(err);
  rl_bytes* path = nullptr;
  EXPECT_EQ(rl_pipeline_checkpoint(first.pipeline, 0, &path, &err), RL_UNSUPPORTED);
  EXPECT_STREQ(rl_error_text(err, RL_ERROR_KEY, nullptr), "parallel.zero_stage");
  EXPECT_EQ(path, nullptr);
  rl_error_release(err);
  err = nullptr;
  rl_pipeline_destroy(first.pipeline);
  rl_model_destroy(first.model);
  for (const Rank& rank : ranks) rl_runtime_destroy(rank.runtime);
  rl_options_destroy(options);
}

// A rank with a part of the masters cannot pack all weights again.
TEST(RanksAbi, DividedWeightsStayPacked) {
  rl_options* const options = rank_options("2");
  set(options, "parallel.zero_stage", "3");
  set(options, "sampling.max_new_tokens", "8");
  std::vector<Rank> ranks(2);
  ranks[0].runtime = make(options);
  EXPECT_EQ(make_rank(ranks[0].runtime, 1, &ranks[1].runtime), RL_OK);
  rl_model* model = nullptr;
  rl_engine* engine = nullptr;
  EXPECT_RL_OK(rl_model_open(ranks[0].runtime, options, RL_USE_GENERATE, &model, &err));
  EXPECT_RL_OK(rl_engine_create(model, options, &engine, &err));
  rl_error_release(err);
  EXPECT_EQ(rl_engine_sleep(engine, 2, &err), RL_UNSUPPORTED);
  EXPECT_STREQ(rl_error_text(err, RL_ERROR_KEY, nullptr), "parallel.zero_stage");
  rl_error_release(err);
  err = nullptr;
  EXPECT_RL_OK(rl_engine_sleep(engine, 1, &err));
  EXPECT_RL_OK(rl_engine_wake(engine, &err));
  rl_engine_destroy(engine);
  rl_model_destroy(model);
  for (const Rank& rank : ranks) rl_runtime_destroy(rank.runtime);
  rl_options_destroy(options);
}

}  // namespace
}  // namespace abi_test
