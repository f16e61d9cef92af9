// Ranks through the C interface: how they are made, and pipelines of all of them that one thread of
// the host serves.
#include <fstream>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

rl_error* err = nullptr;  // of the last call that made one

rl_options* options_of(const char* ranks) {
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  set(options, "model.path", RL_FIXTURES "/models/llama");
  set(options, "model.dtype", "fp32");
  set(options, "runtime.threads", "1");
  set(options, "parallel.data", ranks);
  return options;
}

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
  rl_options* const options = options_of("3");
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
  rl_options* const plain = options_of("1");
  rl_runtime* const alone = make(plain);
  EXPECT_EQ(info_of(alone).num_ranks, 1u);
  EXPECT_EQ(make_rank(alone, 1, &none), RL_FAILED_PRECONDITION);
  EXPECT_STREQ(rl_error_text(err, RL_ERROR_KEY, nullptr), "parallel.data");
  rl_error_release(err);
  err = nullptr;
  rl_runtime_destroy(alone);
  rl_options_destroy(plain);
}

struct Rank {
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_pipeline* pipeline = nullptr;
  bool ended = false;
  int steps = 0, scored = 0, metrics = 0;
};

void take(Rank& rank, const rl_event* event) {
  rl_event_view view;
  rl_event_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_event_get_view(event, &view, &err));
  if (view.kind == RL_EVENT_STEP) {
    ++rank.steps;
    rank.metrics += static_cast<int>(view.num_metrics);
  }
  if (view.kind != RL_EVENT_SCORE) return;
  rl_sample_view sample;
  rl_sample_view_init(&sample, sizeof sample);
  EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
  EXPECT_RL_OK(score(rank.pipeline, sample.sample_id, sample.slot, &err));
  ++rank.scored;
}

// Each rank's pipeline has a thread of its own, so that a host needs none for each.
void serve(std::vector<Rank>& ranks) {
  for (size_t left = ranks.size(), i = 0; left > 0; i = (i + 1) % ranks.size()) {
    if (ranks[i].ended) continue;
    rl_event* event = nullptr;
    const rl_status status = rl_pipeline_next(ranks[i].pipeline, 1000000, &event, &err);
    if (status == RL_OK) take(ranks[i], event);
    rl_event_release(event);
    if (status == RL_OK || status == RL_TIMEOUT) continue;
    EXPECT_EQ(status, RL_DONE);
    ranks[i].ended = true;
    --left;
  }
}

TEST(RanksAbi, PipelinesOfAllEndWithTheSameWeights) {
  const std::string data = RL_TEST_OUTPUT "/ranks.jsonl";
  std::ofstream(data) << "{\"ids\": [1, 2]}\n{\"ids\": [3, 4]}\n{\"ids\": [5, 6]}\n";
  rl_options* const options = options_of("2");
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"data.path", data.c_str()},
           {"pipeline.prompts_per_step", "3"},
           {"pipeline.samples_per_prompt", "2"},
           {"pipeline.total_steps", "2"},
           {"sampling.max_new_tokens", "4"},
           {"sampling.ignore_eos", "true"},
           {"engine.max_model_len", "32"}}) {
    set(options, key, value);
  }
  std::vector<Rank> ranks(2);
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i == 0) {
      ranks[0].runtime = make(options);
    } else {
      EXPECT_EQ(make_rank(ranks[0].runtime, 1, &ranks[1].runtime), RL_OK);
    }
    EXPECT_RL_OK(rl_model_open(ranks[i].runtime, options, RL_USE_PIPELINE, &ranks[i].model, &err));
    EXPECT_RL_OK(rl_pipeline_create(ranks[i].model, options, &ranks[i].pipeline, &err));
  }
  for (const Rank& rank : ranks) EXPECT_RL_OK(rl_pipeline_start(rank.pipeline, &err));
  serve(ranks);
  uint64_t digests[2] = {};
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(ranks[i].steps, 2);
    EXPECT_RL_OK(rl_model_digest(ranks[i].model, &digests[i], &err));
    rl_pipeline_destroy(ranks[i].pipeline);
    rl_model_destroy(ranks[i].model);
    rl_runtime_destroy(ranks[i].runtime);
  }
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(ranks[0].scored + ranks[1].scored, 12);
  EXPECT_GT(ranks[1].scored, 0);
  EXPECT_GT(ranks[0].metrics, 40);
  EXPECT_EQ(ranks[1].metrics, 0);
  rl_options_destroy(options);
}

}  // namespace
}  // namespace abi_test
