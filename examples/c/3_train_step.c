/* 3_train_step: one step of reinforcement learning by hand: draw a group, score it, train on it,
 * publish.
 *
 *   3_train_step MODEL        MODEL is a Hugging Face directory or a GGUF file; no tokenizer is
 * needed
 *
 * The toy reward is the share of even token ids. The log-probs stored while sampling must equal the
 * trainer's bit for bit. New here: rl_batch_score, rl_buffer_put_batch, rl_buffer_take,
 * rl_trainer_forward, rl_trainer_step, rl_trainer_publish, rl_event_metric. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rl.h"

enum { GROUP = 8 };

/* ---- errors ---- */

static rl_error* err; /* of the last call */

static void check(rl_status st) {
  if (st == RL_OK) return;
  fprintf(stderr, "%s\n", err ? rl_error_text(err, RL_ERROR_SUMMARY, NULL) : rl_status_name(st));
  exit(1);
}

/* ---- pieces ---- */

static void set(rl_options* options, const char* key, const char* text) {
  check(rl_options_set_text(options, key, RL_NUL_TERMINATED, text, RL_NUL_TERMINATED, &err));
}

/* Draws GROUP samples after a short prompt. */
static rl_batch* draw_group(rl_engine* engine) {
  static const int32_t prompt[] = {1, 2, 3, 4};
  rl_batch* batch = NULL;
  rl_request request;
  uint64_t first_id = 0;
  rl_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.num_prompt = sizeof prompt / sizeof *prompt;
  request.num_samples = GROUP;
  check(rl_engine_submit(engine, &request, &first_id, &err));
  check(rl_engine_run(engine, &err));
  check(rl_engine_take(engine, &batch, &err));
  return batch;
}

/* Returns 1 when the trainer's log-probs equal the stored ones. */
static int has_equal_logprobs(rl_trainer* trainer, const rl_sample_view* view) {
  rl_forward forward;
  rl_tensor_info info;
  rl_tensor* logprobs = NULL;
  int equal;
  rl_forward_init(&forward, sizeof forward);
  forward.ids = view->ids;
  forward.num_ids = view->num_ids;
  forward.num_prompt = view->num_prompt;
  forward.temperature = view->temperature;
  check(rl_trainer_forward(trainer, &forward, &logprobs, &err));
  rl_tensor_info_init(&info, sizeof info);
  check(rl_tensor_get_info(logprobs, &info, &err));
  equal = memcmp(info.data, view->logprobs, info.num_elements * sizeof(float)) == 0;
  rl_tensor_release(logprobs);
  return equal;
}

/* Rewards sample `index`. Returns 1 when the trainer's log-probs equal the stored ones. */
static int reward(rl_trainer* trainer, rl_batch* batch, size_t index) {
  rl_sample_view view;
  rl_score score;
  size_t i, even = 0, count;
  rl_sample_view_init(&view, sizeof view);
  check(rl_batch_sample(batch, index, &view, &err));
  const int equal = has_equal_logprobs(trainer, &view);
  count = view.num_ids - view.num_prompt;
  for (i = view.num_prompt; i < view.num_ids; ++i) even += view.ids[i] % 2 == 0;
  rl_score_init(&score, sizeof score);
  score.reward = (double)even / (double)count;
  printf("slot %" PRIu32 ": %zu tokens, reward %.3f\n", view.slot, count, score.reward);
  check(rl_batch_score(batch, index, &score, 1, &err));
  return equal;
}

/* Prints the step's metrics. Returns 1 when the trainer saw no log-prob differ. */
static int print_step(const rl_event* step) {
  rl_event_view view;
  double difference = -1;
  size_t i;
  rl_event_view_init(&view, sizeof view);
  check(rl_event_get_view(step, &view, &err));
  for (i = 0; i < view.num_metrics; ++i) {
    const char* name = NULL;
    double value = 0;
    check(rl_event_metric(step, i, &name, &value, &err));
    printf("  %-36s %.6g\n", name, value);
  }
  check(rl_event_metric_named(step, "training/logprob_max_abs_diff", RL_NUL_TERMINATED, &difference,
                              &err));
  return difference == 0;
}

/* ---- main ---- */

int main(int argc, char** argv) {
  rl_options* options = NULL;
  rl_runtime* runtime = NULL;
  rl_model* model = NULL;
  rl_engine* engine = NULL;
  rl_trainer* trainer = NULL;
  rl_buffer* buffer = NULL;
  rl_batch *drawn = NULL, *batch = NULL;
  rl_step step;
  rl_event* trained = NULL;
  uint64_t version = 0;
  size_t i, equal = 0;
  int good;
  if (argc < 2) {
    fprintf(stderr, "usage: 3_train_step MODEL\n");
    return 2;
  }

  /* Options and objects. */
  check(rl_options_create(&options, &err));
  set(options, "model.path", argv[1]);
  set(options, "engine.max_num_seqs", "8");
  set(options, "engine.max_model_len", "64");
  set(options, "pipeline.samples_per_prompt", "8");
  set(options, "sampling.max_new_tokens", "16");
  set(options, "optimizer.lr", "1e-4");
  check(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  check(rl_model_open(runtime, options, RL_USE_PARTS, &model, &err));
  check(rl_engine_create(model, options, &engine, &err));
  check(rl_trainer_create(model, options, &trainer, &err));
  check(rl_buffer_create(options, GROUP, &buffer, &err));

  /* Work. */
  drawn = draw_group(engine);
  for (i = 0; i < rl_batch_count(drawn); ++i) equal += (size_t)reward(trainer, drawn, i);
  check(rl_buffer_put_batch(buffer, drawn, &err));
  check(rl_buffer_take(buffer, NULL, 0, &batch, &err));
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  check(rl_trainer_step(trainer, &step, &trained, &err));
  check(rl_trainer_publish(trainer, &version, &err));

  /* Check. */
  good = print_step(trained) && equal == GROUP && version == 1;
  printf("%zu of %d samples have equal log-probs; the weights are version %" PRIu64 "\n", equal,
         GROUP, version);

  /* End. */
  rl_event_release(trained);
  rl_batch_release(batch);
  rl_batch_release(drawn);
  rl_buffer_destroy(buffer);
  rl_trainer_destroy(trainer);
  rl_engine_destroy(engine);
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  if (!good) fprintf(stderr, "3_train_step: the step did not do what was expected\n");
  return good ? 0 : 1;
}
