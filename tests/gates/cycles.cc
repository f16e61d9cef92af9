// 100 times, or 1,000 with RL_LONG: runtime, model, engine, trainer, buffer, pipeline and profiler
// are created and destroyed on a tiny model, some pipelines in the middle of a step. Memory,
// threads and descriptors do not grow after the warm-up.
//
// usage: gate_cycles MODEL
#include <cstdlib>

#include "gates/linked_api.h"
#include "gates/meter.h"
#include "gates/scenario_host.h"

namespace {

using gates::Handle;

constexpr int kWarmUp = 20;

void set_options(const gates::Api& rl, gates::Host& host, const char* model) {
  CALL(rl_options_create, host.options.out());
  host.set("model.path", model);
  host.set("runtime.threads", "2");
  host.set("engine.max_num_seqs", "2");
  host.set("engine.max_model_len", "32");
  host.set("sampling.max_new_tokens", "2");
  host.set("pipeline.samples_per_prompt", "2");
  host.set("pipeline.prompts_per_step", "1");
}

// Runs until the first sample waits for its reward.
void begin_a_step(const gates::Api& rl, const gates::Host& host, rl_pipeline* pipeline) {
  static const int32_t prompt[] = {1, 2, 3};
  Handle<rl_event> event(rl.rl_event_release);
  CALL(rl_pipeline_start, pipeline);
  const rl_feed_row row = gates::row_of(rl, prompt, 3);
  CALL(rl_pipeline_feed, pipeline, &row, int64_t{0});
  CALL(rl_pipeline_next, pipeline, int64_t{-1}, event.out());
}

void cycle(const gates::Api& rl, const char* path, int number) {
  gates::Host host(rl);
  Handle<rl_runtime> runtime(rl.rl_runtime_destroy);
  Handle<rl_profiler> profiler(rl.rl_profiler_destroy);
  Handle<rl_model> model(rl.rl_model_destroy);
  Handle<rl_engine> engine(rl.rl_engine_destroy);
  Handle<rl_trainer> trainer(rl.rl_trainer_destroy);
  Handle<rl_buffer> buffer(rl.rl_buffer_destroy);
  Handle<rl_pipeline> pipeline(rl.rl_pipeline_destroy);
  set_options(rl, host, path);
  CALL(rl_runtime_create, RL_ABI_VERSION, host.options, runtime.out());
  CALL(rl_profiler_create, runtime, profiler.out());
  CALL(rl_model_open, runtime, host.options, RL_USE_PIPELINE, model.out());
  CALL(rl_engine_create, model, host.options, engine.out());
  CALL(rl_trainer_create, model, host.options, trainer.out());
  CALL(rl_buffer_create, host.options, uint64_t{4}, buffer.out());
  CALL(rl_pipeline_create, model, host.options, pipeline.out());
  if (number % 4 == 0) begin_a_step(rl, host, pipeline);
}

int run(const char* model) {
  const gates::Api rl = gates::linked_api();
  const int cycles = std::getenv("RL_LONG") != nullptr ? 1000 : 100;
  gates::Meter warm;
  for (int i = 0; i < cycles; ++i) {
    if (i == kWarmUp) warm = gates::measure();
    cycle(rl, model, i);
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
