/* A program of this interface, frozen with it in abi/released: there it is compiled against that
 * header for ever, and run with every later library of its soname. It draws a group, scores, trains
 * and checks what it is told, through structs as large as they were then.
 *
 *   host MODEL        MODEL is a Hugging Face directory or a GGUF file */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rl.h"

enum { GROUP = 4, GUARD = 64 };

static rl_error* err; /* of the last call */

static void check(rl_status st) {
  if (st == RL_OK) return;
  fprintf(stderr, "%s\n", err ? rl_error_text(err, RL_ERROR_SUMMARY, NULL) : rl_status_name(st));
  exit(1);
}

static void expect(int condition, const char* text) {
  if (condition) return;
  fprintf(stderr, "%s\n", text);
  exit(1);
}

/* A struct of this header with bytes behind it that no library may touch. */
#define GUARDED(type, name)    \
  struct {                     \
    type value;                \
    unsigned char tail[GUARD]; \
  } name;                      \
  memset(&name, 0x5a, sizeof name)
static int untouched(const unsigned char* tail) {
  int i;
  for (i = 0; i < GUARD; ++i) {
    if (tail[i] != 0x5a) return 0;
  }
  return 1;
}

static void set(rl_options* options, const char* key, const char* text) {
  check(rl_options_set_text(options, key, RL_NUL_TERMINATED, text, RL_NUL_TERMINATED, &err));
}

static rl_options* make_options(const char* model) {
  rl_options* options = NULL;
  check(rl_options_create(&options, &err));
  set(options, "model.path", model);
  set(options, "engine.max_num_seqs", "4");
  set(options, "engine.max_model_len", "64");
  set(options, "pipeline.samples_per_prompt", "4");
  set(options, "sampling.max_new_tokens", "8");
  return options;
}

/* A library is refused that is older than the program, or of another major version. */
static void try_other_headers(void) {
  const uint32_t headers[] = {RL_ABI_VERSION + 0x10000, 0xffffffffu};
  rl_runtime* runtime = NULL;
  size_t i;
  for (i = 0; i < 2; ++i) {
    expect(rl_runtime_create(headers[i], NULL, &runtime, &err) == RL_INCOMPATIBLE && !runtime,
           "a header that the library cannot serve is taken");
    expect(strstr(rl_error_text(err, RL_ERROR_MESSAGE, NULL), "old librl.so") != NULL,
           "the refusal does not say what to look for");
    rl_error_release(err);
  }
}

static void look_at_model(const rl_model* model) {
  GUARDED(rl_model_info, info);
  rl_model_info_init(&info.value, sizeof info.value);
  check(rl_model_get_info(model, &info.value, &err));
  expect(info.value.struct_size == sizeof info.value && info.value.vocab > 0, "rl_model_info");
  expect(untouched(info.tail), "bytes behind rl_model_info were written");
}

static rl_batch* draw(rl_engine* engine) {
  static const int32_t prompt[] = {1, 2, 3, 4};
  rl_batch* batch = NULL;
  uint64_t first_id = 0;
  size_t i;
  GUARDED(rl_request, request);
  rl_request_init(&request.value, sizeof request.value);
  request.value.prompt = prompt;
  request.value.num_prompt = 4;
  request.value.num_samples = GROUP;
  check(rl_engine_submit(engine, &request.value, &first_id, &err));
  check(rl_engine_run(engine, &err));
  check(rl_engine_take(engine, &batch, &err));
  expect(rl_batch_count(batch) == GROUP && untouched(request.tail), "rl_request");
  for (i = 0; i < GROUP; ++i) {
    GUARDED(rl_score, score);
    rl_score_init(&score.value, sizeof score.value);
    score.value.reward = (double)i;
    check(rl_batch_score(batch, i, &score.value, 1, &err));
    expect(untouched(score.tail), "rl_score");
  }
  return batch;
}

/* Every sample of the batch into the buffer, as a copy in a struct of this header. */
static void put(rl_buffer* buffer, const rl_batch* batch) {
  size_t i;
  for (i = 0; i < GROUP; ++i) {
    GUARDED(rl_sample_view, view);
    rl_sample_view_init(&view.value, sizeof view.value);
    check(rl_batch_sample(batch, i, &view.value, &err));
    expect(view.value.num_ids > view.value.num_prompt && untouched(view.tail), "rl_sample_view");
    check(rl_buffer_put(buffer, &view.value, &err));
  }
}

static void look_at_step(const rl_event* step) {
  double difference = -1;
  GUARDED(rl_event_view, view);
  rl_event_view_init(&view.value, sizeof view.value);
  check(rl_event_get_view(step, &view.value, &err));
  expect(view.value.kind == RL_EVENT_STEP && view.value.num_metrics > 0 && untouched(view.tail),
         "rl_event_view");
  check(rl_event_metric_named(step, "training/logprob_max_abs_diff", RL_NUL_TERMINATED, &difference,
                              &err));
  expect(difference == 0, "log-probs differ");
}

int main(int argc, char** argv) {
  rl_options* options;
  rl_runtime* runtime = NULL;
  rl_model* model = NULL;
  rl_engine* engine = NULL;
  rl_trainer* trainer = NULL;
  rl_buffer* buffer = NULL;
  rl_batch *drawn, *batch = NULL;
  rl_event* trained = NULL;
  GUARDED(rl_step, step);
  if (argc != 2) return 2;
  try_other_headers();
  options = make_options(argv[1]);
  check(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  check(rl_model_open(runtime, options, RL_USE_PARTS, &model, &err));
  look_at_model(model);
  check(rl_engine_create(model, options, &engine, &err));
  check(rl_trainer_create(model, options, &trainer, &err));
  check(rl_buffer_create(options, GROUP, &buffer, &err));
  drawn = draw(engine);
  put(buffer, drawn);
  check(rl_buffer_take(buffer, NULL, 0, &batch, &err));
  rl_step_init(&step.value, sizeof step.value);
  step.value.batch = batch;
  check(rl_trainer_step(trainer, &step.value, &trained, &err));
  expect(untouched(step.tail), "rl_step");
  look_at_step(trained);
  rl_event_release(trained);
  rl_batch_release(batch);
  rl_batch_release(drawn);
  rl_buffer_destroy(buffer);
  rl_trainer_destroy(trainer);
  rl_engine_destroy(engine);
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  return 0;
}
