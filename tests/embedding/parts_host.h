/* What the programs of docs/embedding.md share: how a call is checked, the objects of a host with a
 * loop of its own, and a reward. Each program is a host of librl in C99 that uses rl.h and the
 * system alone; it runs on a tiny model, checks what it shows and returns 0. The pages quote what
 * stands between "region:" and "end of region". */
#ifndef RL_TESTS_EMBEDDING_PARTS_HOST_H
#define RL_TESTS_EMBEDDING_PARTS_HOST_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rl.h"

/* region: check */
static rl_error* err; /* of the last call */

/* Ends the program unless the call succeeded. */
static inline void check(rl_status status) {
  if (status == RL_OK) return;
  fprintf(stderr, "%s\n",
          err != NULL ? rl_error_text(err, RL_ERROR_SUMMARY, NULL) : rl_status_name(status));
  exit(1);
}
/* end of region */

/* Ends the program unless a call ended as expected; releases the record of a failure. */
static inline void expect(rl_status expected, rl_status status) {
  if (status == expected) {
    rl_error_release(err);
    err = NULL;
    return;
  }
  fprintf(stderr, "expected %s:\n", rl_status_name(expected));
  check(status);
  exit(1);
}

/* Ends the program unless it is so. */
static inline void require(int it_is_so, const char* what) {
  if (it_is_so) return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}

static inline void set(rl_options* options, const char* key, const char* text) {
  check(rl_options_set_text(options, key, RL_NUL_TERMINATED, text, RL_NUL_TERMINATED, &err));
}

static inline uint64_t digest_of(const rl_model* model) {
  uint64_t digest = 0;
  check(rl_model_digest(model, &digest, &err));
  return digest;
}

/* Sample `index` of a batch. */
static inline rl_sample_view sample_at(const rl_batch* batch, size_t index) {
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  check(rl_batch_sample(batch, index, &view, &err));
  return view;
}

/* region: metric */
static inline double metric(const rl_event* event, const char* name) {
  double value = 0;
  check(rl_event_metric_named(event, name, RL_NUL_TERMINATED, &value, &err));
  return value;
}
/* end of region */

/* ---- objects ---- */

/* region: host */
typedef struct host {
  rl_options* options;
  rl_runtime* runtime;
  rl_model* model;
  rl_engine* engine;
  rl_trainer* trainer;
  rl_buffer* buffer;
} host;
/* end of region */

/* Options for the tiny model: groups of four samples, sixteen tokens at most. */
static inline rl_options* tiny_options(const char* path) {
  rl_options* options = NULL;
  check(rl_options_create(&options, &err));
  set(options, "model.path", path);
  set(options, "runtime.threads", "1");
  set(options, "runtime.seed", "11");
  set(options, "engine.max_model_len", "64");
  set(options, "engine.max_num_seqs", "8");
  set(options, "pipeline.prompts_per_step", "4");
  set(options, "pipeline.samples_per_prompt", "4");
  set(options, "sampling.max_new_tokens", "16");
  set(options, "trainer.max_tokens_per_device", "256");
  set(options, "optimizer.lr", "1e-3");
  return options;
}

/* The objects for a use, which own the options. */
static inline host open_parts(rl_options* options, int32_t use, uint64_t buffer_samples) {
  host h;
  memset(&h, 0, sizeof h);
  h.options = options;
  check(rl_runtime_create(RL_ABI_VERSION, options, &h.runtime, &err));
  check(rl_model_open(h.runtime, NULL, use, &h.model, &err));
  if (use == RL_USE_PARTS || use == RL_USE_GENERATE) {
    check(rl_engine_create(h.model, NULL, &h.engine, &err));
  }
  if (use == RL_USE_PARTS || use == RL_USE_TRAIN) {
    check(rl_trainer_create(h.model, NULL, &h.trainer, &err));
  }
  check(rl_buffer_create(options, buffer_samples, &h.buffer, &err));
  return h;
}

/* region: close */
static inline void close_host(host* h) {
  rl_buffer_destroy(h->buffer);
  rl_trainer_destroy(h->trainer);
  rl_engine_destroy(h->engine);
  rl_model_destroy(h->model);
  rl_runtime_destroy(h->runtime);
  rl_options_destroy(h->options);
}
/* end of region */

/* ---- pieces of a loop ---- */

/* Queues a group of four samples of a prompt that follows from its ordinal. */
static inline void submit_group(const host* h, uint64_t ordinal) {
  const int32_t prompt[] = {1, (int32_t)(2 + ordinal % 7), (int32_t)(3 + ordinal % 5)};
  rl_request request;
  uint64_t first_id = 0;
  rl_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.num_prompt = 3;
  request.num_samples = 4;
  request.ordinal = ordinal;
  check(rl_engine_submit(h->engine, &request, &first_id, &err));
}

/* region: reward */
/* Scores every sample of a batch with the share of even ids in its response. */
static inline void score_batch(rl_batch* batch) {
  size_t i, k;
  for (i = 0; i < rl_batch_count(batch); ++i) {
    rl_sample_view view;
    rl_score score;
    size_t even = 0;
    rl_sample_view_init(&view, sizeof view);
    check(rl_batch_sample(batch, i, &view, &err));
    for (k = view.num_prompt; k < view.num_ids; ++k) even += view.ids[k] % 2 == 0;
    rl_score_init(&score, sizeof score);
    score.reward = (double)even / (double)(view.num_ids - view.num_prompt);
    check(rl_batch_score(batch, i, &score, 1, &err)); /* view is invalid from here on */
  }
}
/* end of region */

/* The scored samples of `count` groups from an ordinal on. */
static inline rl_batch* generate_groups(const host* h, uint64_t first, uint64_t count) {
  rl_batch* batch = NULL;
  uint64_t i;
  for (i = 0; i < count; ++i) submit_group(h, first + i);
  check(rl_engine_run(h->engine, &err));
  check(rl_engine_take(h->engine, &batch, &err));
  score_batch(batch);
  return batch;
}

#endif
