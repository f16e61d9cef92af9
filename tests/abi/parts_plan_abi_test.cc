// A host that makes an engine and a trainer of its own: their common plan is what its runtime
// holds, whatever other runtimes hold.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host.h"

namespace abi_test {
namespace {

uint64_t reserved(const rl_runtime* runtime) {
  rl_runtime_info info;
  rl_runtime_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_runtime_get_info(runtime, &info, &err));
  return info.reserved_bytes;
}

rl_options* options_with(const std::vector<std::pair<const char*, const char*>>& texts) {
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  set(options, "model.path", RL_FIXTURES "/models/llama");
  set(options, "runtime.threads", "1");
  set(options, "engine.max_model_len", "64");
  set(options, "sampling.max_new_tokens", "4");
  for (const auto& [key, text] : texts) set(options, key, text);
  return options;
}

// Sums of items by kind; the info is that of the plan.
std::vector<uint64_t> sums_of(const rl_plan* plan, rl_plan_info& info) {
  rl_plan_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_plan_get_info(plan, &info, &err));
  std::vector<uint64_t> sums(5);
  for (size_t i = 0; i < rl_plan_count(plan); ++i) {
    rl_plan_item item;
    rl_plan_item_init(&item, sizeof item);
    EXPECT_RL_OK(rl_plan_at(plan, i, &item, &err));
    sums.at(static_cast<size_t>(item.kind)) += item.bytes;
  }
  return sums;
}

TEST(AbiPlan, EngineAndTrainerOfAHostHoldWhatTheirPlanSays) {
  const std::vector<std::vector<std::pair<const char*, const char*>>> cases = {
      {},
      {{"model.compute_copies", "2"}},
      {{"algo.kl.where", "loss"}, {"engine.num_engines", "2"}},
      {{"algo.advantage", "gae"}}};
  for (const auto& texts : cases) {
    SCOPED_TRACE(texts.empty() ? "defaults" : texts.front().first);
    rl_options* const options = options_with(texts);
    rl_plan* plan = nullptr;
    rl_plan_info info;
    EXPECT_RL_OK(rl_plan_create(options, RL_USE_PARTS, &plan, &err));
    const std::vector<uint64_t> sums = sums_of(plan, info);
    EXPECT_EQ(sums[RL_PLAN_ARENA], info.arena_bytes);
    EXPECT_EQ(sums[RL_PLAN_OUTSIDE], info.baseline_bytes);
    EXPECT_GT(info.max_tokens, 0);
    EXPECT_GT(info.kv_blocks, 0);
    rl_runtime *runtime = nullptr, *other = nullptr;
    rl_model* model = nullptr;
    rl_engine* engine = nullptr;
    rl_trainer* trainer = nullptr;
    EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
    EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &other, &err));
    const uint64_t idle = reserved(other);
    EXPECT_EQ(reserved(runtime), idle);
    EXPECT_RL_OK(rl_model_open(runtime, options, RL_USE_PARTS, &model, &err));
    EXPECT_RL_OK(rl_engine_create(model, options, &engine, &err));
    EXPECT_RL_OK(rl_trainer_create(model, options, &trainer, &err));
    EXPECT_EQ(reserved(runtime), info.arena_bytes);
    EXPECT_EQ(reserved(other), idle);
    rl_trainer_destroy(trainer);
    rl_engine_destroy(engine);
    rl_model_destroy(model);
    rl_runtime_destroy(other);
    rl_runtime_destroy(runtime);
    rl_plan_release(plan);
    rl_options_destroy(options);
  }
}

}  // namespace
}  // namespace abi_test
