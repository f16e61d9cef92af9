// The options of objects: what each returns, which of them must be its parent's, and what a model
// that was opened for a use may have.
#include <map>
#include <set>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

// All options of an object as lines "key=value"; get is a function such as rl_engine_options.
template <typename Handle>
std::string options_of(rl_status (*get)(const Handle*, rl_options**, rl_error**), Handle* object) {
  rl_options* options = nullptr;
  EXPECT_RL_OK(get(object, &options, &err));
  std::string text = changed(options);
  rl_options_destroy(options);
  return text;
}

bool has(const std::string& lines, const std::string& line) {
  return ("\n" + lines).find("\n" + line + "\n") != std::string::npos;
}

TEST(ObjectOptions, EveryObjectReturnsThoseItWasCreatedWith) {
  const Host host;
  const std::string given = changed(host.options);
  EXPECT_TRUE(has(given, "sampling.max_new_tokens=4"));
  EXPECT_EQ(options_of(rl_runtime_options, host.runtime), given);
  EXPECT_EQ(options_of(rl_plan_options, host.plan), given);
  EXPECT_EQ(options_of(rl_model_options, host.model), given);
  EXPECT_EQ(options_of(rl_pipeline_options, host.pipeline), given);
  EXPECT_EQ(options_of(rl_engine_options, host.engine), given);
  EXPECT_EQ(options_of(rl_buffer_options, host.buffer), given);
  EXPECT_EQ(options_of(rl_trainer_options, host.trainer), given);
  rl_plan* planned = nullptr;
  EXPECT_RL_OK(rl_pipeline_plan(host.pipeline, &planned, &err));
  EXPECT_EQ(options_of(rl_plan_options, planned), given);
  rl_plan_release(planned);
  rl_buffer* plain = nullptr;
  EXPECT_RL_OK(rl_buffer_create(nullptr, 16, &plain, &err));
  EXPECT_EQ(options_of(rl_buffer_options, plain), "") << "all have their defaults";
  rl_buffer_destroy(plain);
}

TEST(ObjectOptions, WhatIsReturnedIsASetOfItsOwn) {
  const Host host;
  rl_options* mine = nullptr;
  EXPECT_RL_OK(rl_engine_options(host.engine, &mine, &err));
  set(mine, "sampling.max_new_tokens", "3");
  EXPECT_EQ(options_of(rl_engine_options, host.engine), changed(host.options));
  rl_engine* other = nullptr;
  EXPECT_RL_OK(rl_engine_create(host.model, mine, &other, &err));
  EXPECT_TRUE(has(options_of(rl_engine_options, other), "sampling.max_new_tokens=3"));
  rl_engine_destroy(other);
  EXPECT_EQ(get(mine, "sampling.max_new_tokens").u64, 3u) << "it outlives the object";
  rl_options_destroy(mine);
}

TEST(ObjectOptions, ThoseOfTheParentHoldWhereNoneAreGiven) {
  const Host host;
  set(host.options, "sampling.max_new_tokens", "5");
  rl_model* model = nullptr;
  EXPECT_RL_OK(rl_model_open(host.runtime, host.options, RL_USE_PARTS, &model, &err));
  rl_engine* engine = nullptr;
  rl_trainer* trainer = nullptr;
  EXPECT_RL_OK(rl_engine_create(model, nullptr, &engine, &err));
  EXPECT_RL_OK(rl_trainer_create(model, nullptr, &trainer, &err));
  EXPECT_EQ(options_of(rl_engine_options, engine), changed(host.options));
  EXPECT_EQ(options_of(rl_trainer_options, trainer), changed(host.options));
  rl_trainer_destroy(trainer);
  rl_engine_destroy(engine);
  rl_model_destroy(model);
}

TEST(ObjectOptions, TheyHaveTheValuesThatWereSetSince) {
  const Host host;
  const std::string before = changed(host.options);
  for (const char* const rate : {"0.25", "0.5"}) {
    set(host.options, "optimizer.lr", rate);
    EXPECT_RL_OK(rl_trainer_set_options(host.trainer, host.options, &err));
    EXPECT_RL_OK(rl_pipeline_set_options(host.pipeline, host.options, &err));
    EXPECT_EQ(options_of(rl_trainer_options, host.trainer), changed(host.options));
    EXPECT_EQ(options_of(rl_pipeline_options, host.pipeline), changed(host.options));
  }
  set(host.options, "engine.max_num_seqs", "3");
  EXPECT_EQ(rl_trainer_set_options(host.trainer, host.options, nullptr), RL_NOT_CHANGEABLE);
  EXPECT_EQ(rl_pipeline_set_options(host.pipeline, host.options, nullptr), RL_NOT_CHANGEABLE);
  EXPECT_TRUE(has(options_of(rl_trainer_options, host.trainer), "engine.max_num_seqs=4"));
  EXPECT_TRUE(has(options_of(rl_pipeline_options, host.pipeline), "engine.max_num_seqs=4"));
  EXPECT_EQ(options_of(rl_model_options, host.model), before);
}

// Whether the error, or a part of it, is about the key and expects the value of the parent.
bool names(rl_error* error, const std::string& key, const std::string& expected) {
  if (text_of(error, RL_ERROR_KEY) == key && text_of(error, RL_ERROR_EXPECTED) == expected) {
    return true;
  }
  bool found = false;
  for (size_t i = 0;; ++i) {
    rl_error* const part = rl_error_part(error, i);
    if (part == nullptr) return found;
    found = found || names(part, key, expected);
    rl_error_release(part);
  }
}

using Values = std::map<std::string, std::string>;

// Creates with each of the values, and expects to hear that it must be that of the host's options.
template <typename Create>
void expect_conflicts(const Host& host, const Values& values, Create&& create) {
  for (const auto& [key, value] : values) {
    SCOPED_TRACE(key);
    rl_options* other = nullptr;
    EXPECT_RL_OK(rl_options_clone(host.options, &other, &err));
    set(other, key.c_str(), value);
    rl_error* err = nullptr;
    EXPECT_EQ(create(other, &err), RL_CONFLICT);
    const std::string wanted = get_text(host.options, key.c_str());
    EXPECT_TRUE(names(err, key, wanted)) << text_of(err, RL_ERROR_SUMMARY);
    rl_error_release(err);
    rl_options_destroy(other);
  }
}

// runtime.device is one too, but has one value in a build without a GPU.
const Values kOfRuntime = {{"model.dtype", "fp32"},
                           {"comm.backend", "nccl"},
                           {"comm.memory_check", "true"},
                           {"comm.memory_check_threshold_bytes", "3"},
                           {"comm.rank", "1"},
                           {"comm.reduction_order", "backend"},
                           {"comm.rendezvous", "file:there"},
                           {"comm.timeout_ns", "3"},
                           {"engine.tensor_parallel_size", "1"},
                           {"parallel.context", "2"},
                           {"parallel.context_kind", "ulysses"},
                           {"parallel.context_zigzag", "true"},
                           {"parallel.data", "2"},
                           {"parallel.reduction_parts", "2"},
                           {"parallel.sequence_parallel", "true"},
                           {"parallel.pipeline", "2"},
                           {"parallel.pipeline_first_layers", "2"},
                           {"parallel.pipeline_last_layers", "2"},
                           {"parallel.tensor", "2"},
                           {"sync.bucket_bytes", "65536"},
                           {"runtime.busy_timeout_ns", "3"},
                           {"runtime.cpus", "0"},
                           {"runtime.host_memory_budget_bytes", "8GiB"},
                           {"runtime.instance", "3"},
                           {"runtime.memory_budget_bytes", "8GiB"},
                           {"runtime.memory_margin_bytes", "1"},
                           {"runtime.seed", "99"},
                           {"runtime.threads", "2"}};
const Values kOfModel = {{"algo.objective", "reward_model"}, {"engine.block_size", "64"},
                         {"engine.kv_dtype", "fp32"},        {"engine.max_model_len", "63"},
                         {"model.chat_template_path", "t"},  {"model.compute_copies", "2"},
                         {"model.path", "elsewhere"}};

TEST(ObjectOptions, ThoseThatShapedTheParentAreItsOwn) {
  const Host host;
  rl_model* model = nullptr;
  rl_engine* engine = nullptr;
  rl_trainer* trainer = nullptr;
  rl_pipeline* pipeline = nullptr;
  expect_conflicts(host, kOfRuntime, [&](rl_options* options, rl_error** err) {
    return rl_model_open(host.runtime, options, RL_USE_PIPELINE, &model, err);
  });
  Values both = kOfRuntime;
  both.insert(kOfModel.begin(), kOfModel.end());
  expect_conflicts(host, both, [&](rl_options* options, rl_error** err) {
    return rl_engine_create(host.model, options, &engine, err);
  });
  expect_conflicts(host, both, [&](rl_options* options, rl_error** err) {
    return rl_trainer_create(host.model, options, &trainer, err);
  });
  // Several ranks take no feed or have no pipelines, which are errors of another status.
  both.erase("parallel.data");
  both.erase("parallel.context");
  both.erase("parallel.tensor");
  both.erase("parallel.pipeline");
  expect_conflicts(host, both, [&](rl_options* options, rl_error** err) {
    return rl_pipeline_create(host.model, options, &pipeline, err);
  });
}

// What a model may have, by the use it was opened for.
TEST(ObjectOptions, AModelHasWhatItWasOpenedForAndNothingElse) {
  const Host host;
  const std::map<int32_t, std::set<std::string>> allowed = {
      {RL_USE_MODEL, {}},
      {RL_USE_GENERATE, {"engine"}},
      {RL_USE_TRAIN, {"trainer"}},
      {RL_USE_PIPELINE, {"engine", "trainer", "pipeline"}},
      {RL_USE_PARTS, {"engine", "trainer"}},
      {RL_USE_FORWARD, {"forward"}}};
  const std::map<std::string, std::string> uses = {
      {"engine", "RL_USE_GENERATE, RL_USE_PARTS or RL_USE_PIPELINE"},
      {"trainer", "RL_USE_TRAIN, RL_USE_PARTS or RL_USE_PIPELINE"},
      {"pipeline", "RL_USE_PIPELINE"},
      {"forward", "RL_USE_FORWARD"}};
  for (const auto& [use, parts] : allowed) {
    rl_model* model = nullptr;
    EXPECT_RL_OK(rl_model_open(host.runtime, host.options, use, &model, &err));
    const auto expect = [&, use = use, &parts = parts](const std::string& part, auto&& create) {
      SCOPED_TRACE(part + " of a model for " + std::to_string(use));
      rl_error* err = nullptr;
      const rl_status status = create(&err);
      EXPECT_EQ(status, parts.contains(part) ? RL_OK : RL_FAILED_PRECONDITION)
          << text_of(err, RL_ERROR_SUMMARY);
      if (status != RL_OK) {
        EXPECT_EQ(text_of(err, RL_ERROR_KEY), "use");
        EXPECT_EQ(text_of(err, RL_ERROR_EXPECTED), uses.at(part));
      }
      rl_error_release(err);
    };
    rl_engine* engine = nullptr;
    rl_trainer* trainer = nullptr;
    rl_pipeline* pipeline = nullptr;
    rl_tensor* tensor = nullptr;
    expect("engine",
           [&](rl_error** err) { return rl_engine_create(model, nullptr, &engine, err); });
    expect("trainer",
           [&](rl_error** err) { return rl_trainer_create(model, nullptr, &trainer, err); });
    expect("pipeline",
           [&](rl_error** err) { return rl_pipeline_create(model, nullptr, &pipeline, err); });
    expect("forward", [&](rl_error** err) {
      rl_forward input;
      rl_forward_init(&input, sizeof input);
      input.batch = host.batch;
      return rl_model_forward(model, &input, &tensor, err);
    });
    rl_tensor_release(tensor);
    rl_pipeline_destroy(pipeline);
    rl_trainer_destroy(trainer);
    rl_engine_destroy(engine);
    rl_model_destroy(model);
  }
}

}  // namespace
}  // namespace abi_test
