// Each scenario is its example program without printing; see gate_scenarios.h.
#include "gates/gate_scenarios.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "gates/scenario_host.h"

namespace gates {
namespace {

uint64_t mix(uint64_t digest, const void* data, size_t size) {
  const auto* const bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) digest = (digest ^ bytes[i]) * 0x100000001b3u;
  return digest;
}

struct Model {
  explicit Model(const Api& rl) : runtime(rl.rl_runtime_destroy), model(rl.rl_model_destroy) {}
  void open(const Api& rl, const Host& host, int32_t use) {
    CALL(rl_runtime_create, RL_ABI_VERSION, host.options, runtime.out());
    CALL(rl_model_open, runtime, host.options, use, model.out());
  }
  Handle<rl_runtime> runtime;
  Handle<rl_model> model;
};

uint64_t digest_of(const Api& rl, const Host& host, const rl_batch* batch) {
  uint64_t digest = 1;
  for (size_t i = 0; i < rl.rl_batch_count(batch); ++i) {
    rl_sample_view view;
    rl.rl_sample_view_init(&view, sizeof view);
    CALL(rl_batch_sample, batch, i, &view);
    digest = mix(digest, view.ids, view.num_ids * sizeof(int32_t));
    digest = mix(digest, view.logprobs, (view.num_ids - view.num_prompt) * sizeof(float));
  }
  return digest;
}

// A failed loop refuses rewards; rl_pipeline_next then reports what failed.
void score(const Api& rl, const Host& host, rl_pipeline* pipeline, const rl_event* event) {
  rl_sample_view sample;
  rl.rl_sample_view_init(&sample, sizeof sample);
  CALL(rl_event_sample, event, 0, &sample);
  try {
    const rl_score score = gates::score_of(rl, sample.sample_id, double(sample.slot));
    CALL(rl_pipeline_score, pipeline, &score, size_t{1}, static_cast<rl_status*>(nullptr));
  } catch (const Failure& failure) {
    if (failure.status != RL_LATE && failure.status != RL_FAILED_PRECONDITION) throw;
  }
}

void serve(const Api& rl, const Host& host, rl_pipeline* pipeline) {
  for (;;) {
    Handle<rl_event> event(rl.rl_event_release);
    const rl_status status = CALL(rl_pipeline_next, pipeline, int64_t{-1}, event.out());
    if (status == RL_DONE) return;
    if (rl.rl_event_kind(event) == RL_EVENT_SCORE) score(rl, host, pipeline, event);
  }
}

}  // namespace

void small_options(const Api& rl, Host& host, const Place& place) {
  CALL(rl_options_create, host.options.out());
  host.set("model.path", place.model);
  host.set("runtime.threads", "2");
  host.set("runtime.seed", "7");
  host.set("engine.max_num_seqs", "4");
  host.set("engine.max_model_len", "64");
  host.set("sampling.max_new_tokens", "4");
  host.set("pipeline.samples_per_prompt", "2");
  host.set("pipeline.prompts_per_step", "1");
  host.set("optimizer.lr", "1e-3");
}

void generate(const Api& rl, const Host& host, rl_engine* engine, Handle<rl_batch>& batch,
              std::span<const int32_t> prompt) {
  rl_request request;
  uint64_t first_id = 0;
  rl.rl_request_init(&request, sizeof request);
  request.prompt = prompt.data();
  request.num_prompt = prompt.size();
  request.num_samples = 2;
  CALL(rl_engine_submit, engine, &request, &first_id);
  CALL(rl_engine_run, engine);
  CALL(rl_engine_take, engine, batch.out());
}

void grpo_options(const Api& rl, Host& host, const Place& place) {
  small_options(rl, host, place);
  host.set("data.path", place.dir + "/train.jsonl");
  host.set("eval.path", place.dir + "/eval.jsonl");
  host.set("eval.max_new_tokens", "2");
  host.set("pipeline.total_steps", "2");
  host.set("checkpoint.dir", place.dir + "/checkpoints");
  host.set("checkpoint.every_steps", "1");
  host.set("checkpoint.resume", "auto");
  host.set("metrics.jsonl", place.dir + "/metrics.jsonl");
  host.set("metrics.samples", place.dir + "/samples.jsonl");
  host.set("metrics.tensorboard", "true");
  host.set("runtime.output_dir", place.dir);
  host.set("profiler.timeline.enable", "true");
  host.set("profiler.timeline.dir", place.dir + "/trace");
}

uint64_t run_hello(const Api& rl, const Place& place) {
  Host host(rl);
  Handle<rl_bytes> bytes(rl.rl_bytes_release);
  CALL(rl_build_info, bytes.out());
  for (size_t i = 0; rl.rl_feature_name(i) != nullptr; ++i) {
    uint32_t available = 0;
    const char* reason = nullptr;
    CALL(rl_feature, rl.rl_feature_name(i), RL_NUL_TERMINATED, &available, &reason);
  }
  small_options(rl, host, place);
  rl_error* err = nullptr;
  rl_status status = rl.rl_options_set_text(host.options, "engine.blok_size", RL_NUL_TERMINATED,
                                            "64", RL_NUL_TERMINATED, &err);
  Failure failure{status, "rl_options_set_text", ""};
  if (rl.rl_error_code(err) != status) failure.status = RL_INTERNAL;
  rl.rl_error_release(err);
  if (failure.status != RL_UNKNOWN_OPTION) throw failure;
  CALL(rl_options_validate, host.options);
  for (const int32_t format : {RL_FORMAT_JSON, RL_FORMAT_FLATBUFFER}) {
    CALL(rl_options_export, host.options, format, 0u, bytes.out());
    CALL(rl_options_import, host.options, format, rl.rl_bytes_data(bytes), rl.rl_bytes_size(bytes));
  }
  uint64_t digest = 0;
  CALL(rl_options_identity, host.options, &digest);
  return digest;
}

uint64_t run_generate(const Api& rl, const Place& place) {
  Host host(rl);
  Model m(rl);
  Handle<rl_engine> engine(rl.rl_engine_destroy);
  Handle<rl_batch> batch(rl.rl_batch_release);
  Handle<rl_bytes> ids(rl.rl_bytes_release), text(rl.rl_bytes_release);
  small_options(rl, host, place);
  m.open(rl, host, RL_USE_GENERATE);
  CALL(rl_engine_create, m.model, host.options, engine.out());
  CALL(rl_model_encode, m.model, "2 + 3?", RL_NUL_TERMINATED, uint64_t{0}, ids.out());
  const auto* const prompt = static_cast<const int32_t*>(rl.rl_bytes_data(ids));
  generate(rl, host, engine, batch, {prompt, rl.rl_bytes_size(ids) / sizeof(int32_t)});
  CALL(rl_model_decode, m.model, prompt, rl.rl_bytes_size(ids) / sizeof(int32_t),
       RL_TEXT_SKIP_SPECIAL, text.out());
  return mix(digest_of(rl, host, batch), rl.rl_bytes_data(text), rl.rl_bytes_size(text));
}

uint64_t run_train_step(const Api& rl, const Place& place) {
  static const int32_t prompt[] = {1, 2, 3, 4};
  Host host(rl);
  Model m(rl);
  Handle<rl_engine> engine(rl.rl_engine_destroy);
  Handle<rl_trainer> trainer(rl.rl_trainer_destroy);
  Handle<rl_buffer> buffer(rl.rl_buffer_destroy);
  Handle<rl_batch> generated(rl.rl_batch_release), batch(rl.rl_batch_release);
  Handle<rl_event> step(rl.rl_event_release);
  small_options(rl, host, place);
  m.open(rl, host, RL_USE_PARTS);
  CALL(rl_engine_create, m.model, host.options, engine.out());
  CALL(rl_trainer_create, m.model, host.options, trainer.out());
  CALL(rl_buffer_create, host.options, uint64_t{4}, buffer.out());
  generate(rl, host, engine, generated, prompt);
  for (size_t i = 0; i < 2; ++i) {
    const rl_score score = gates::score_of(rl, 0, double(i));
    CALL(rl_batch_score, generated, i, &score, size_t{1});
  }
  CALL(rl_buffer_put_batch, buffer, generated);
  const std::string file = place.dir + "/samples.rlbuf";
  CALL(rl_buffer_save, buffer, file.c_str(), file.size(), m.model, RL_SAVE_REPLACE);
  CALL(rl_buffer_take, buffer, nullptr, int64_t{0}, batch.out());
  uint64_t count = 0;
  CALL(rl_buffer_load, buffer, file.c_str(), file.size(), m.model, &count);
  CALL(rl_buffer_take, buffer, nullptr, int64_t{0}, batch.out());
  const rl_step all = gates::step_of(rl, batch);
  CALL(rl_trainer_step, trainer, &all, step.out());
  uint64_t version = 0, digest = 0;
  CALL(rl_trainer_publish, trainer, &version);
  const std::string saved = place.dir + "/saved";
  CALL(rl_model_save, m.model, saved.c_str(), saved.size(), RL_DTYPE_BF16, RL_SAVE_REPLACE);
  CALL(rl_model_digest, m.model, &digest);
  return digest;
}

uint64_t run_loop(const Api& rl, const Host& host, const Place& place) {
  Model m(rl);
  Handle<rl_pipeline> pipeline(rl.rl_pipeline_destroy);
  m.open(rl, host, RL_USE_PIPELINE);
  CALL(rl_pipeline_create, m.model, host.options, pipeline.out());
  CALL(rl_pipeline_evaluate, pipeline);
  CALL(rl_pipeline_start, pipeline);
  serve(rl, host, pipeline);
  CALL(rl_pipeline_close_result, pipeline);
  const std::string report = place.dir + "/report.html";
  CALL(rl_pipeline_write_report, pipeline, nullptr, report.c_str(), report.size());
  uint64_t digest = 0;
  CALL(rl_model_digest, m.model, &digest);
  return digest;
}

uint64_t run_grpo(const Api& rl, const Place& place) {
  Host host(rl);
  grpo_options(rl, host, place);
  return run_loop(rl, host, place);
}

uint64_t run_grpo_async(const Api& rl, const Place& place) {
  Host host(rl);
  grpo_options(rl, host, place);
  host.set("checkpoint.async", "true");
  return run_loop(rl, host, place);
}

std::span<const Scenario> scenarios() {
  static constexpr Scenario all[] = {{"hello", run_hello},
                                     {"generate", run_generate},
                                     {"train_step", run_train_step},
                                     {"grpo", run_grpo}};
  return all;
}

void prepare(const Place& place) {
  // Checkpoints of an earlier build do not belong to this run.
  std::filesystem::remove_all(place.dir);
  std::filesystem::create_directories(place.dir);
  for (const char* name : {"/train.jsonl", "/eval.jsonl"}) {
    std::ofstream file(place.dir + name);
    for (int row = 0; row < 4; ++row) {
      file << "{\"prompt\": \"" << row << " + 1?\", \"tag\": \"" << row + 1 << "\"}\n";
    }
  }
}

}  // namespace gates
