// Pipelines of several ranks through rl.h, which one thread of the host serves.
#pragma once
#include <fstream>
#include <string>
#include <vector>

#include "abi/host.h"

namespace abi_test {

inline rl_options* rank_options(const char* ranks) {
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  set(options, "model.path", RL_FIXTURES "/models/llama");
  set(options, "model.dtype", "fp32");
  set(options, "runtime.threads", "1");
  set(options, "parallel.data", ranks);
  return options;
}

struct Rank {
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_pipeline* pipeline = nullptr;
  bool ended = false;
  int steps = 0, scored = 0, metrics = 0;
  uint64_t digest = 0;
};

inline void take(Rank& rank, const rl_event* event) {
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
inline void serve(std::vector<Rank>& ranks) {
  for (size_t left = ranks.size(), i = 0; left > 0; i = (i + 1) % ranks.size()) {
    if (ranks[i].ended) continue;
    rl_event* event = nullptr;
    const rl_status status = rl_pipeline_next(ranks[i].pipeline, 1000000, &event, nullptr);
    if (status == RL_OK) take(ranks[i], event);
    rl_event_release(event);
    if (status == RL_OK || status == RL_TIMEOUT) continue;
    EXPECT_EQ(status, RL_DONE);
    ranks[i].ended = true;
    --left;
  }
}

// Of two ranks: three prompts, two steps.
inline void set_two_steps(rl_options* options) {
  const std::string data = RL_TEST_OUTPUT "/ranks.jsonl";
  std::ofstream(data) << "{\"ids\": [1, 2]}\n{\"ids\": [3, 4]}\n{\"ids\": [5, 6]}\n";
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
}

// Runs the pipelines of ranks that have their runtimes, and destroys everything.
inline void run_pipelines(std::vector<Rank>& ranks, const rl_options* options) {
  for (Rank& rank : ranks) {
    EXPECT_RL_OK(rl_model_open(rank.runtime, options, RL_USE_PIPELINE, &rank.model, &err));
    EXPECT_RL_OK(rl_pipeline_create(rank.model, options, &rank.pipeline, &err));
  }
  for (const Rank& rank : ranks) EXPECT_RL_OK(rl_pipeline_start(rank.pipeline, &err));
  serve(ranks);
  for (Rank& rank : ranks) {
    EXPECT_RL_OK(rl_model_digest(rank.model, &rank.digest, &err));
    rl_pipeline_destroy(rank.pipeline);
    rl_model_destroy(rank.model);
    rl_runtime_destroy(rank.runtime);
  }
}

}  // namespace abi_test
