// A host of the library for the tests: objects on a tiny model, made through rl.h alone.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "rl.h"

namespace abi_test {

inline std::string text_of(rl_error* error, int32_t field) {
  size_t len = 0;
  const char* const text = rl_error_text(error, field, &len);
  return {text, len};
}

// Expects RL_OK; releases the error.
inline void expect_ok(rl_status status, rl_error* error) {
  EXPECT_EQ(status, RL_OK) << text_of(error, RL_ERROR_SUMMARY);
  rl_error_release(error);
}
#define EXPECT_RL_OK(call)               \
  do {                                   \
    rl_error* err = nullptr;             \
    const rl_status status_ = (call);    \
    ::abi_test::expect_ok(status_, err); \
  } while (0)

inline void set(rl_options* options, const char* key, const std::string& text) {
  EXPECT_RL_OK(
      rl_options_set_text(options, key, RL_NUL_TERMINATED, text.c_str(), text.size(), &err));
}

// The value of an option, as text and as a number.
inline std::string get_text(const rl_options* options, const char* key) {
  rl_option_value value;
  rl_option_value_init(&value, sizeof value);
  rl_bytes* bytes = nullptr;
  EXPECT_RL_OK(rl_options_get(options, key, RL_NUL_TERMINATED, &value, &bytes, &err));
  std::string text(static_cast<const char*>(rl_bytes_data(bytes)), rl_bytes_size(bytes));
  rl_bytes_release(bytes);
  return text;
}
inline rl_option_value get(const rl_options* options, const char* key) {
  rl_option_value value;
  rl_option_value_init(&value, sizeof value);
  EXPECT_RL_OK(rl_options_get(options, key, RL_NUL_TERMINATED, &value, nullptr, &err));
  return value;
}
// Lines "key=value" of what differs from the defaults.
inline std::string changed(const rl_options* options) {
  rl_bytes* bytes = nullptr;
  EXPECT_RL_OK(rl_options_export(options, RL_FORMAT_TEXT, 1, &bytes, &err));
  std::string text(static_cast<const char*>(rl_bytes_data(bytes)), rl_bytes_size(bytes));
  rl_bytes_release(bytes);
  return text;
}

// One score, for a pipeline or a batch.
inline rl_score score_of(uint64_t sample_id, double reward, const double* parts = nullptr,
                         size_t num_parts = 0) {
  rl_score score;
  rl_score_init(&score, sizeof score);
  score.sample_id = sample_id;
  score.reward = reward;
  score.parts = parts;
  score.num_parts = num_parts;
  return score;
}
inline rl_status score(rl_pipeline* pipeline, uint64_t sample_id, double reward, rl_error** err) {
  const rl_score one = score_of(sample_id, reward);
  return rl_pipeline_score(pipeline, &one, 1, nullptr, err);
}
inline rl_runtime_info info_of(const rl_runtime* runtime) {
  rl_runtime_info info;
  rl_runtime_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_runtime_get_info(runtime, &info, &err));
  return info;
}
inline rl_status set_reward(rl_batch* batch, size_t index, double reward, rl_error** err) {
  const rl_score one = score_of(0, reward);
  return rl_batch_score(batch, index, &one, 1, err);
}
// With the reward that the sample has.
inline rl_status set_parts(rl_batch* batch, size_t index, const double* parts, size_t num_parts,
                           rl_error** err) {
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  rl_batch_sample(batch, index, &view, nullptr);
  const rl_score one = score_of(0, view.reward, parts, num_parts);
  return rl_batch_score(batch, index, &one, 1, err);
}
// A prompt of token ids for the feed.
inline rl_status feed(rl_pipeline* pipeline, const int32_t* ids, size_t num_ids, rl_error** err) {
  rl_feed_row row;
  rl_feed_row_init(&row, sizeof row);
  row.ids = ids;
  row.num_ids = num_ids;
  return rl_pipeline_feed(pipeline, &row, 0, err);
}

// A training step, with advantages of the host or without.
inline rl_status train(rl_trainer* trainer, const rl_batch* batch, const double* advantages,
                       size_t num_advantages, rl_event** out, rl_error** err) {
  rl_step step;
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  step.advantages = advantages;
  step.num_advantages = num_advantages;
  return rl_trainer_step(trainer, &step, out, err);
}
inline rl_status train(rl_trainer* trainer, const rl_batch* batch, rl_event** out, rl_error** err) {
  return train(trainer, batch, nullptr, 0, out, err);
}
// A forward over a sequence of ids.
inline rl_status forward(rl_trainer* trainer, int32_t output, const int32_t* ids, size_t num_ids,
                         size_t num_prompt, float temperature, rl_tensor** out, rl_error** err) {
  rl_forward input;
  rl_forward_init(&input, sizeof input);
  input.output = output;
  input.ids = ids;
  input.num_ids = num_ids;
  input.num_prompt = num_prompt;
  input.temperature = temperature;
  return rl_trainer_forward(trainer, &input, out, err);
}
// Copies a tensor of fp32 with so many elements to out, and releases it.
inline void take_floats(rl_tensor* tensor, float* out, size_t count) {
  rl_tensor_info info;
  rl_tensor_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_tensor_get_info(tensor, &info, &err));
  EXPECT_EQ(info.num_elements, count);
  EXPECT_EQ(info.dtype, RL_DTYPE_F32);
  if (info.num_elements == count) std::memcpy(out, info.data, count * sizeof(float));
  rl_tensor_release(tensor);
}
// The log-probs of ids[num_prompt ..].
inline rl_status logprobs_of(rl_trainer* trainer, const int32_t* ids, size_t num_ids,
                             size_t num_prompt, float temperature, float* out, size_t num_out,
                             rl_error** err) {
  rl_tensor* tensor = nullptr;
  const rl_status status =
      forward(trainer, RL_OUTPUT_LOGPROBS, ids, num_ids, num_prompt, temperature, &tensor, err);
  if (status == RL_OK) take_floats(tensor, out, num_out);
  return status;
}
inline rl_content content_of(const int32_t* ids, size_t num_ids) {
  rl_content content;
  rl_content_init(&content, sizeof content);
  content.ids = ids;
  content.num_ids = num_ids;
  return content;
}

// Takes up to so many complete groups out of a buffer, without waiting.
inline rl_status take_groups(rl_buffer* buffer, uint64_t max_groups, rl_batch** out,
                             rl_error** err) {
  rl_take take;
  rl_take_init(&take, sizeof take);
  take.max_groups = max_groups;
  return rl_buffer_take(buffer, &take, 0, out, err);
}
inline rl_buffer_stats stats_of(const rl_buffer* buffer) {
  rl_buffer_stats stats;
  rl_buffer_stats_init(&stats, sizeof stats);
  EXPECT_RL_OK(rl_buffer_get_stats(buffer, &stats, &err));
  return stats;
}

// A weight of a model, as itself or as a copy.
inline rl_status weight_of(const rl_model* model, const char* name, uint64_t flags, rl_tensor** out,
                           rl_error** err) {
  rl_tensor_request request;
  rl_tensor_request_init(&request, sizeof request);
  request.flags = flags;
  return rl_model_weight(model, name, RL_NUL_TERMINATED, &request, out, err);
}
inline rl_status set_weights(rl_model* model, const std::vector<const char*>& names,
                             const std::vector<rl_tensor*>& tensors, uint64_t* version,
                             rl_error** err, uint64_t as_version = 0) {
  std::vector<rl_weight> weights(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    rl_weight_init(&weights[i], sizeof weights[i]);
    weights[i].name = names[i];
    weights[i].tensor = tensors[i];
  }
  return rl_model_set_weights(model, weights.data(), weights.size(), nullptr, as_version, version,
                              err);
}

// Options of a run on a tiny model: a step of two samples of one prompt.
inline rl_options* tiny_options() {
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  set(options, "model.path", RL_FIXTURES "/models/llama");
  set(options, "runtime.threads", "1");
  set(options, "engine.max_num_seqs", "4");
  set(options, "engine.max_model_len", "64");
  set(options, "pipeline.samples_per_prompt", "2");
  set(options, "pipeline.prompts_per_step", "1");
  set(options, "sampling.max_new_tokens", "4");
  return options;
}

// One live object of every kind, by the name of its handle type.
class Host {
 public:
  Host() {
    options = tiny_options();
    EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
    EXPECT_RL_OK(rl_plan_create(options, RL_USE_PIPELINE, &plan, &err));
    EXPECT_RL_OK(rl_model_open(runtime, options, RL_USE_PIPELINE, &model, &err));
    EXPECT_RL_OK(rl_engine_create(model, options, &engine, &err));
    renew_trainer();
    renew_buffer();
    EXPECT_RL_OK(rl_profiler_create(runtime, &profiler, &err));
    EXPECT_RL_OK(rl_options_export(options, RL_FORMAT_TEXT, 1, &bytes, &err));
    EXPECT_EQ(rl_options_unset(options, "no", RL_NUL_TERMINATED, &error), RL_UNKNOWN_OPTION);
    generate();
    train();
    renew_conversation();
    EXPECT_RL_OK(weight_of(model, "model.norm.weight", RL_TENSOR_COPY, &tensor, &err));
    renew_pipeline();
    EXPECT_RL_OK(rl_pipeline_queue(pipeline, &queue, &err));
  }
  ~Host() { end(); }
  Host(const Host&) = delete;

  // Another object in place of one in which earlier calls left something.
  void renew_pipeline() {
    rl_pipeline_destroy(pipeline);
    EXPECT_RL_OK(rl_pipeline_create(model, options, &pipeline, &err));
  }
  void renew_trainer() {
    rl_trainer_destroy(trainer);
    EXPECT_RL_OK(rl_trainer_create(model, options, &trainer, &err));
  }
  void renew_buffer() {
    rl_buffer_destroy(buffer);
    EXPECT_RL_OK(rl_buffer_create(options, 16, &buffer, &err));
  }
  void renew_conversation() {
    rl_conversation_destroy(conversation);
    static const int32_t prompt[] = {1, 2, 3};
    const rl_content content = content_of(prompt, 3);
    EXPECT_RL_OK(rl_conversation_create(engine, &content, &conversation, &err));
  }

  // Ends every handle; their values stay.
  void end() {
    rl_pipeline_destroy(pipeline);
    rl_event_queue_release(queue);
    rl_event_release(event);
    rl_batch_release(batch);
    rl_tensor_release(tensor);
    rl_profiler_destroy(profiler);
    rl_buffer_destroy(buffer);
    rl_trainer_destroy(trainer);
    rl_conversation_destroy(conversation);
    rl_engine_destroy(engine);
    rl_model_destroy(model);
    rl_plan_release(plan);
    rl_runtime_destroy(runtime);
    rl_options_destroy(options);
    rl_bytes_release(bytes);
    rl_error_release(error);
  }

  void* handle(const std::string& kind) const {
    const std::map<std::string, void*> all = {
        {"rl_error", error},       {"rl_bytes", bytes},       {"rl_options", options},
        {"rl_runtime", runtime},   {"rl_plan", plan},         {"rl_model", model},
        {"rl_pipeline", pipeline}, {"rl_event", event},       {"rl_event_queue", queue},
        {"rl_batch", batch},       {"rl_engine", engine},     {"rl_buffer", buffer},
        {"rl_trainer", trainer},   {"rl_profiler", profiler}, {"rl_conversation", conversation},
        {"rl_tensor", tensor}};
    return all.at(kind);
  }

  // Two scored samples of one prompt, in batch.
  void generate() {
    static const int32_t prompt[] = {1, 2, 3};
    rl_request request;
    rl_request_init(&request, sizeof request);
    request.prompt = prompt;
    request.num_prompt = 3;
    request.num_samples = 2;
    uint64_t first_id = 0;
    EXPECT_RL_OK(rl_engine_submit(engine, &request, &first_id, &err));
    EXPECT_RL_OK(rl_engine_run(engine, &err));
    EXPECT_RL_OK(rl_engine_take(engine, &batch, &err));
    EXPECT_RL_OK(set_reward(batch, 0, 1, &err));
    EXPECT_RL_OK(set_reward(batch, 1, 0, &err));
  }
  void train() { EXPECT_RL_OK(abi_test::train(trainer, batch, &event, &err)); }

  rl_error* error = nullptr;
  rl_bytes* bytes = nullptr;
  rl_options* options = nullptr;
  rl_runtime* runtime = nullptr;
  rl_plan* plan = nullptr;
  rl_model* model = nullptr;
  rl_pipeline* pipeline = nullptr;
  rl_event* event = nullptr;
  rl_event_queue* queue = nullptr;
  rl_batch* batch = nullptr;
  rl_engine* engine = nullptr;
  rl_buffer* buffer = nullptr;
  rl_trainer* trainer = nullptr;
  rl_profiler* profiler = nullptr;
  rl_conversation* conversation = nullptr;
  rl_tensor* tensor = nullptr;  // a copy of model.norm.weight
};

}  // namespace abi_test
