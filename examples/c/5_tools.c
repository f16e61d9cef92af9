/* 5_tools: trains an agent that calls a tool. The model calls it by writing the digit 1 or 2, the
 * tool replies with the other one, and the answer is right when it repeats the tool's digit.
 *
 *   5_tools MODEL        MODEL is a GGUF file or a directory with a tokenizer
 *
 * A sample has two turns of the model: the pipeline reports the first one, the host replies, and
 * the reply's tokens carry no loss. New here: RL_EVENT_TURN, rl_pipeline_reply, rl_pipeline_feed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rl.h"

enum { STEPS = 3, PROMPTS = 2 };

typedef struct {
  rl_pipeline* pipeline;
  uint64_t calls, steps; /* of the tool; done */
  double logprob_diff;
} run;

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

static void configure(rl_options* options, const char* path) {
  set(options, "model.path", path);
  set(options, "pipeline.turns", "stop_string");
  set(options, "pipeline.max_turns", "2");
  set(options, "pipeline.prompts_per_step", "2");
  set(options, "pipeline.samples_per_prompt", "4");
  set(options, "sampling.stop", "1,2");
  set(options, "sampling.temperature", "8");
  set(options, "sampling.max_new_tokens", "8");
  set(options, "engine.max_model_len", "64");
  set(options, "optimizer.lr", "1e-3");
  set(options, "runtime.seed", "7");
}

/* Lets the model write only digits 1 and 2 and letters: calls and answers, and what is neither. */
static void allow(rl_options* options, const rl_model* model) {
  char list[256] = "";
  for (const char* c = "12abcdef"; *c != '\0'; ++c) {
    rl_bytes* ids = NULL;
    check(rl_model_encode(model, c, 1, 0, &ids, &err));
    const int32_t last = ((const int32_t*)rl_bytes_data(ids))[rl_bytes_size(ids) / 4 - 1];
    const size_t len = strlen(list);
    snprintf(list + len, sizeof list - len, len == 0 ? "%d" : ",%d", (int)last);
    rl_bytes_release(ids);
  }
  set(options, "sampling.allowed_token_ids", list);
}

/* Digit `index` of a text, counted from 0; 0 when there is none. */
static char digit(const char* text, int index) {
  for (; *text != '\0'; ++text) {
    if ((*text == '1' || *text == '2') && index-- == 0) return *text;
  }
  return 0;
}

static void feed(const run* r) {
  for (int i = 0; i < STEPS * PROMPTS; ++i) {
    char line[64];
    rl_feed_row row;
    rl_feed_row_init(&row, sizeof row);
    row.json = line;
    row.json_len = (size_t)snprintf(line, sizeof line, "{\"prompt\": \"%d + 1?\"}", i);
    check(rl_pipeline_feed(r->pipeline, &row, -1, &err));
  }
  check(rl_pipeline_finish_feed(r->pipeline, &err));
}

static double metric(const rl_event* event, const char* name) {
  double value = 0;
  check(rl_event_metric_named(event, name, RL_NUL_TERMINATED, &value, &err));
  return value;
}

/* ---- events ---- */

/* The tool: it replies with the digit that the call does not have. */
static void on_turn(run* r, const rl_event* event, const rl_event_view* view) {
  rl_sample_view sample;
  rl_reply reply;
  rl_sample_view_init(&sample, sizeof sample);
  check(rl_event_sample(event, 0, &sample, &err));
  rl_reply_init(&reply, sizeof reply);
  reply.sample_id = sample.sample_id;
  reply.turn = view->count;
  reply.text = digit(view->text, 0) == '1' ? "2" : "1";
  reply.text_len = 1;
  check(rl_pipeline_reply(r->pipeline, &reply, 1, NULL, &err));
  ++r->calls;
}

/* The response has the digits of the call, of the reply and of the answer. */
static void on_score(const run* r, const rl_event* event) {
  rl_sample_view sample;
  rl_score score;
  rl_sample_view_init(&sample, sizeof sample);
  check(rl_event_sample(event, 0, &sample, &err));
  rl_score_init(&score, sizeof score);
  score.sample_id = sample.sample_id;
  score.reward = digit(sample.text, 2) != 0 && digit(sample.text, 2) == digit(sample.text, 1);
  check(rl_pipeline_score(r->pipeline, &score, 1, NULL, &err));
}

static void on_event(run* r, const rl_event* event) {
  rl_event_view view;
  rl_event_view_init(&view, sizeof view);
  check(rl_event_get_view(event, &view, &err));
  if (view.kind == RL_EVENT_TURN) on_turn(r, event, &view);
  if (view.kind == RL_EVENT_SCORE) on_score(r, event);
  if (view.kind != RL_EVENT_STEP) return;
  r->steps = view.step;
  r->logprob_diff += metric(event, "training/logprob_max_abs_diff");
  printf("step %" PRIu64 "  reward %.3f  calls so far %" PRIu64 "\n", view.step,
         metric(event, "critic/rewards/mean"), r->calls);
}

/* ---- main ---- */

int main(int argc, char** argv) {
  run r = {0};
  rl_options* options = NULL;
  rl_runtime* runtime = NULL;
  rl_model* model = NULL;
  rl_event* event = NULL;
  rl_status status;
  uint64_t before = 0, after = 0;
  int good;
  if (argc < 2) return fputs("usage: 5_tools MODEL\n", stderr), 2;

  /* Options and objects. */
  check(rl_options_create(&options, &err));
  configure(options, argv[1]);
  check(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  check(rl_model_open(runtime, options, RL_USE_PIPELINE, &model, &err));
  allow(options, model);
  check(rl_pipeline_create(model, options, &r.pipeline, &err));
  check(rl_model_digest(model, &before, &err));

  /* Work. */
  check(rl_pipeline_start(r.pipeline, &err));
  feed(&r);
  while ((status = rl_pipeline_next(r.pipeline, -1, &event, &err)) != RL_DONE) {
    check(status);
    on_event(&r, event);
    rl_event_release(event);
  }
  check(rl_model_digest(model, &after, &err));

  /* Check. */
  good = r.steps == STEPS && r.calls > 0 && r.logprob_diff == 0 && after != before;
  printf("%" PRIu64 " calls of the tool; weights %016" PRIx64 "\n", r.calls, after);
  if (!good) fprintf(stderr, "5_tools: the run did not do what was expected\n");

  /* End. */
  rl_pipeline_destroy(r.pipeline);
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  return good ? 0 : 1;
}
