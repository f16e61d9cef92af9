// Knobs of plans and errors as data, the probe of the machine, and the fit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host.h"

namespace abi_test {
namespace {

struct Knob {
  std::string key, proposed;
  uint64_t saved;
  int32_t effect;
};

std::vector<Knob> knobs_of(const rl_plan* plan) {
  std::vector<Knob> knobs;
  for (size_t i = 0; i < rl_plan_knob_count(plan); ++i) {
    rl_knob k;
    rl_knob_init(&k, sizeof k);
    EXPECT_RL_OK(rl_plan_knob_at(plan, i, &k, &err));
    knobs.push_back({k.key, k.proposed, k.saved_bytes, k.effect});
  }
  return knobs;
}

std::vector<Knob> knobs_of(const rl_error* error) {
  std::vector<Knob> knobs;
  for (size_t i = 0; i < rl_error_knob_count(error); ++i) {
    rl_knob k;
    rl_knob_init(&k, sizeof k);
    EXPECT_RL_OK(rl_error_knob_at(error, i, &k, &err));
    EXPECT_STRNE(k.value, k.proposed);
    EXPECT_GT(k.time_ratio, 0);
    knobs.push_back({k.key, k.proposed, k.saved_bytes, k.effect});
  }
  return knobs;
}

rl_options* small_options() {
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  set(options, "model.path", RL_FIXTURES "/models/llama");
  set(options, "runtime.threads", "1");
  set(options, "engine.max_model_len", "64");
  set(options, "sampling.max_new_tokens", "4");
  return options;
}

rl_plan_info info_of(const rl_plan* plan) {
  rl_plan_info info;
  rl_plan_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_plan_get_info(plan, &info, &err));
  return info;
}

TEST(AbiKnobs, OfARefusalMakeItFit) {
  rl_options* const options = small_options();
  rl_plan* plan = nullptr;
  EXPECT_RL_OK(rl_plan_create(options, RL_USE_PIPELINE, &plan, &err));
  const std::vector<Knob> all = knobs_of(plan);
  ASSERT_FALSE(all.empty());
  const uint64_t least = info_of(plan).least_bytes;
  EXPECT_LE(least, info_of(plan).total_bytes);
  rl_plan_release(plan);
  set(options, "runtime.memory_budget_bytes", std::to_string(least - all[0].saved / 2 - 1));
  rl_error* error = nullptr;
  EXPECT_EQ(rl_plan_create(options, RL_USE_PIPELINE, &plan, &error), RL_RESOURCE_EXHAUSTED);
  const std::vector<Knob> knobs = knobs_of(error);
  rl_error_release(error);
  ASSERT_FALSE(knobs.empty());
  for (const Knob& k : knobs) {
    set(options, k.key.c_str(), k.proposed);
    EXPECT_LE(k.effect, RL_KNOB_RUN);
  }
  EXPECT_RL_OK(rl_plan_create(options, RL_USE_PIPELINE, &plan, &err));
  rl_plan_release(plan);
  rl_options_destroy(options);
}

// The plan of the engine fits, but the memory is in use.
TEST(AbiKnobs, OfAnObjectThatFindsNoRoom) {
  rl_options* const options = small_options();
  rl_plan* plan = nullptr;
  EXPECT_RL_OK(rl_plan_create(options, RL_USE_GENERATE, &plan, &err));
  set(options, "runtime.memory_budget_bytes", std::to_string(info_of(plan).total_bytes));
  rl_plan_release(plan);
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_engine *engine = nullptr, *second = nullptr;
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  EXPECT_RL_OK(rl_model_open(runtime, options, RL_USE_GENERATE, &model, &err));
  EXPECT_RL_OK(rl_engine_create(model, nullptr, &engine, &err));
  rl_error* error = nullptr;
  EXPECT_EQ(rl_engine_create(model, nullptr, &second, &error), RL_RESOURCE_EXHAUSTED);
  const std::vector<Knob> knobs = knobs_of(error);
  rl_error_release(error);
  ASSERT_FALSE(knobs.empty());
  EXPECT_EQ(knobs[0].key, "runtime.memory_budget_bytes");
  rl_engine_destroy(engine);
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
}

TEST(AbiFit, ProposesOptionsWhosePlanFits) {
  rl_options* const options = small_options();
  rl_runtime* runtime = nullptr;
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  rl_machine machine;
  rl_machine_init(&machine, sizeof machine);
  EXPECT_RL_OK(rl_runtime_probe(runtime, &machine, &err));
  for (const double rate : {machine.f32_flops, machine.bf16_flops, machine.read_bytes_per_s,
                            machine.copy_bytes_per_s}) {
    EXPECT_GT(rate, 1e6);
    EXPECT_LT(rate, 1e18);
  }
  EXPECT_EQ(machine.threads, 1);
  rl_plan* plan = nullptr;
  EXPECT_RL_OK(rl_plan_create(options, RL_USE_PIPELINE, &plan, &err));
  const uint64_t budget = info_of(plan).least_bytes;
  rl_plan_release(plan);
  set(options, "runtime.memory_budget_bytes", std::to_string(budget));
  rl_step_time time;
  rl_step_time_init(&time, sizeof time);
  EXPECT_RL_OK(
      rl_plan_fit(runtime, options, RL_USE_PIPELINE, &machine, RL_KNOB_SPEED, &time, &plan, &err));
  EXPECT_LE(info_of(plan).total_bytes, budget);
  EXPECT_GT(time.rollout_s, 0);
  EXPECT_GT(time.train_s, 0);
  EXPECT_NEAR(time.total_s,
              time.rollout_s + time.logprob_s + time.train_s + time.update_s + time.publish_s,
              1e-9 * time.total_s);
  rl_options* proposed = nullptr;
  EXPECT_RL_OK(rl_plan_options(plan, &proposed, &err));
  rl_plan* again = nullptr;
  EXPECT_RL_OK(rl_plan_create(proposed, RL_USE_PIPELINE, &again, &err));
  EXPECT_EQ(info_of(again).total_bytes, info_of(plan).total_bytes);
  rl_options_destroy(proposed);
  rl_plan_release(plan);
  rl_plan_release(again);
  // With a probe of its own and the runtime's options, without the time.
  EXPECT_EQ(rl_plan_fit(runtime, nullptr, RL_USE_MODEL, nullptr, RL_KNOB_ROUNDING, nullptr, &plan,
                        nullptr),
            RL_OK);
  rl_plan_release(plan);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
}

TEST(AbiFit, RefusesWhatIsNoRateAndNoEffect) {
  rl_options* const options = small_options();
  rl_runtime* runtime = nullptr;
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  rl_plan* plan = nullptr;
  const auto key_of = [&](const rl_machine* machine, int32_t effect) {
    rl_error* error = nullptr;
    EXPECT_EQ(rl_plan_fit(runtime, options, RL_USE_TRAIN, machine, effect, nullptr, &plan, &error),
              RL_INVALID_ARGUMENT);
    std::string key = text_of(error, RL_ERROR_KEY);
    rl_error_release(error);
    return key;
  };
  rl_machine good;
  rl_machine_init(&good, sizeof good);
  good.f32_flops = good.bf16_flops = good.read_bytes_per_s = good.copy_bytes_per_s = 1e9;
  good.threads = 1;
  EXPECT_EQ(key_of(&good, 0), "effect");
  EXPECT_EQ(key_of(&good, RL_KNOB_RUN + 1), "effect");
  for (double rl_machine::*rate : {&rl_machine::f32_flops, &rl_machine::bf16_flops,
                                   &rl_machine::read_bytes_per_s, &rl_machine::copy_bytes_per_s}) {
    for (const double wrong : {0.0, -1.0, 2e18, 0.0 / 0.0}) {
      rl_machine machine = good;
      machine.*rate = wrong;
      EXPECT_EQ(key_of(&machine, RL_KNOB_SPEED), "machine");
    }
  }
  for (const int64_t threads : {0, 65537}) {
    rl_machine machine = good;
    machine.threads = threads;
    EXPECT_EQ(key_of(&machine, RL_KNOB_SPEED), "machine");
  }
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
}

TEST(AbiFit, FailsAsAPlanDoes) {
  rl_options* const options = small_options();
  rl_runtime* runtime = nullptr;
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  rl_plan* plan = nullptr;
  const auto fit = [&] {
    rl_error* error = nullptr;
    const rl_status status =
        rl_plan_fit(runtime, options, RL_USE_TRAIN, nullptr, RL_KNOB_SPEED, nullptr, &plan, &error);
    rl_error_release(error);
    return status;
  };
  set(options, "runtime.memory_budget_bytes", "1");
  EXPECT_EQ(fit(), RL_RESOURCE_EXHAUSTED);
  EXPECT_EQ(plan, nullptr);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
}

}  // namespace
}  // namespace abi_test
