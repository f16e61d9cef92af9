// 100 times, 1,000 with RL_LONG: runtime, model, engine, trainer, buffer, pipeline and profiler
// come and go on a tiny model, some pipelines in the middle of a step. Memory, threads and
// descriptors stay what they were after the warm-up.
//
// usage: gate_cycles MODEL
#include <cstdlib>
#include <string>

#include "gates/linked_api.h"
#include "gates/meter.h"
#include "gates/plays.h"

namespace {

constexpr int kWarmUp = 20;

void check(rl_status status, rl_error* err) {
  if (status == RL_OK) return;
  const gates::Failure failure{status, "a cycle", rl_error_text(err, RL_ERROR_SUMMARY, nullptr)};
  rl_error_release(err);
  throw failure;
}
#define CHECK(call)                  \
  do {                               \
    rl_error* err = nullptr;         \
    const rl_status status = (call); \
    check(status, err);              \
  } while (0)

void set(rl_options* options, const char* key, const std::string& text) {
  CHECK(rl_options_set_text(options, key, RL_NUL_TERMINATED, text.c_str(), text.size(), &err));
}

rl_options* make_options(const char* model) {
  rl_options* options = nullptr;
  CHECK(rl_options_create(&options, &err));
  set(options, "model.path", model);
  set(options, "runtime.threads", "2");
  set(options, "engine.max_num_seqs", "2");
  set(options, "engine.max_model_len", "32");
  set(options, "sampling.max_new_tokens", "2");
  set(options, "pipeline.samples_per_prompt", "2");
  set(options, "pipeline.prompts_per_step", "1");
  return options;
}

// Until the first sample waits for its score.
void begin_a_step(rl_pipeline* pipeline) {
  static const int32_t prompt[] = {1, 2, 3};
  rl_event* event = nullptr;
  CHECK(rl_pipeline_start(pipeline, &err));
  CHECK(rl_pipeline_feed_ids(pipeline, prompt, 3, nullptr, 0, &err));
  CHECK(rl_pipeline_next(pipeline, -1, &event, &err));
  rl_event_release(event);
}

void cycle(const char* path, int number) {
  rl_options* const options = make_options(path);
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_engine* engine = nullptr;
  rl_trainer* trainer = nullptr;
  rl_buffer* buffer = nullptr;
  rl_profiler* profiler = nullptr;
  rl_pipeline* pipeline = nullptr;
  CHECK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  CHECK(rl_profiler_create(runtime, &profiler, &err));
  CHECK(rl_model_open(runtime, options, RL_USE_PIPELINE, &model, &err));
  CHECK(rl_engine_create(model, options, &engine, &err));
  CHECK(rl_trainer_create(model, options, &trainer, &err));
  CHECK(rl_buffer_create(options, 4, &buffer, &err));
  CHECK(rl_pipeline_create(model, options, &pipeline, &err));
  if (number % 4 == 0) begin_a_step(pipeline);
  rl_pipeline_destroy(pipeline);
  rl_profiler_destroy(profiler);
  rl_buffer_destroy(buffer);
  rl_trainer_destroy(trainer);
  rl_engine_destroy(engine);
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
}

int run(const char* model) {
  const int cycles = std::getenv("RL_LONG") != nullptr ? 1000 : 100;
  gates::Meter warm;
  for (int i = 0; i < cycles; ++i) {
    if (i == kWarmUp) warm = gates::measure();
    cycle(model, i);
  }
  const gates::Meter end = gates::measure();
  const std::string grown = growth(warm, end);
  std::printf("after %d cycles: %s\nafter %d cycles: %s\n%s", kWarmUp, text_of(warm).c_str(),
              cycles, text_of(end).c_str(), grown.c_str());
  return grown.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return gates::reported([&] { return run(argv[1]); });
}
