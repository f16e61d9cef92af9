/* 4_grpo: trains a model by GRPO on questions whose answer is an integer. librl drives the loop,
 * this host rewards: 1 when the last integer of an answer is the one in the row's tag, else 0.
 * Held-out rows are answered greedily before and after. Ctrl-C ends the run with a checkpoint;
 * --resume goes on from the newest one. New here: rl_pipeline_*, rl_event_sample, rl_model_save. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "rl.h"

enum { MAX_SETTINGS = 64, BAR_WIDTH = 30, EDGE_STEPS = 5 };
enum { STEP_S, REWARD, ROLLOUT_RATE, TRAIN_RATE, NUM_SERIES };
static const char* const series_names[] = {"timing_s/step", "critic/rewards/mean",
                                           "perf/rollout_tokens_per_s", "perf/train_tokens_per_s"};

typedef struct {
  const char *model, *data, *eval, *out, *steps, *settings[MAX_SETTINGS];
  int num_settings, resume;
} arguments;

typedef struct {
  rl_pipeline* pipeline;
  int stopping, on_terminal, num_evals;
  double start_s, first_step_end_s, eval_before_s, accuracy_before, accuracy_after, logprob_diff;
  double* series[NUM_SERIES]; /* values of every step of this process */
  size_t num_steps;
  uint64_t step, group_size, rewarded; /* steps done; answers of a step; rewards given in it */
} run;

static const char usage[] =
    "4_grpo --model PATH --data TRAIN.jsonl [--eval HELDOUT.jsonl] --steps N --out DIR "
    "[--set KEY=VALUE]... [--resume]";

/* ---- errors ---- */

static rl_error* err; /* of the last call */

static void check(rl_status status) {
  if (status == RL_OK) return;
  fprintf(stderr, "%s: %s\n", rl_status_name(status), rl_error_text(err, RL_ERROR_SUMMARY, NULL));
  exit(1);
}

/* ---- pieces ---- */

static volatile sig_atomic_t interrupted = 0;

static void on_interrupt(int signal_number) { interrupted = signal_number; }

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int parse(int argc, char** argv, arguments* a) {
  static const char* const names[] = {"--model", "--data", "--eval", "--out", "--steps"};
  const char** const values[] = {&a->model, &a->data, &a->eval, &a->out, &a->steps};
  int i, k;
  for (i = 1; i < argc; ++i) {
    for (k = 0; k < 5 && strcmp(argv[i], names[k]) != 0;) ++k;
    if (strcmp(argv[i], "--resume") == 0) {
      a->resume = 1;
    } else if (i + 1 < argc && k < 5) {
      *values[k] = argv[++i];
    } else if (i + 1 < argc && strcmp(argv[i], "--set") == 0 && a->num_settings < MAX_SETTINGS) {
      a->settings[a->num_settings++] = argv[++i];
    } else {
      return 0;
    }
  }
  return a->model != NULL && a->data != NULL && a->out != NULL && a->steps != NULL;
}

static void set(rl_options* options, const char* key, const char* text, const char* more) {
  char value[4096];
  snprintf(value, sizeof value, "%s%s", text, more);
  check(rl_options_set_text(options, key, RL_NUL_TERMINATED, value, RL_NUL_TERMINATED, &err));
}

static void configure(rl_options* options, const arguments* a) {
  int i;
  set(options, "model.path", a->model, "");
  set(options, "data.path", a->data, "");
  set(options, "eval.path", a->eval != NULL ? a->eval : "", "");
  set(options, "eval.every_steps", a->eval != NULL ? a->steps : "0", "");
  set(options, "pipeline.total_steps", a->steps, "");
  set(options, "checkpoint.dir", a->out, "/checkpoints");
  set(options, "checkpoint.resume", a->resume ? "auto" : "never", "");
  set(options, "metrics.jsonl", a->out, "/metrics.jsonl");
  set(options, "profiler.timeline.enable", "true", "");
  set(options, "profiler.timeline.dir", a->out, "");
  for (i = 0; i < a->num_settings; ++i) {
    check(rl_options_set_assignment(options, a->settings[i], RL_NUL_TERMINATED, &err));
  }
}

static uint64_t get(const rl_options* options, const char* key) {
  uint64_t value = 0;
  check(rl_options_get_u64(options, key, RL_NUL_TERMINATED, &value, &err));
  return value;
}

static double reward_of(const char* text, const char* tag) {
  const char *last = NULL, *p;
  for (p = text; *p != '\0'; ++p) {
    const int starts = p == text || p[-1] < '0' || p[-1] > '9';
    if (*p >= '0' && *p <= '9' && starts) last = p > text && p[-1] == '-' ? p - 1 : p;
  }
  return last != NULL && strtoll(last, NULL, 10) == strtoll(tag, NULL, 10) ? 1.0 : 0.0;
}

/* ---- events ---- */

static double metric(const rl_event* event, const char* name) {
  double value = 0;
  check(rl_event_metric_named(event, name, RL_NUL_TERMINATED, &value, &err));
  return value;
}

static void on_score(run* r, const rl_event* event) {
  rl_sample_view sample;
  rl_status status;
  rl_sample_view_init(&sample, sizeof sample);
  check(rl_event_sample(event, &sample, &err));
  status =
      rl_pipeline_score(r->pipeline, sample.sample_id, reward_of(sample.text, sample.tag), &err);
  if (!r->stopping) check(status); /* a step that was given up takes no more rewards */
  rl_error_release(err);
  if (sample.purpose != RL_PURPOSE_TRAIN || !r->on_terminal) return;
  ++r->rewarded;
  printf("\rstep %" PRIu64 " [%-*.*s] %" PRIu64 "/%" PRIu64, r->step + 1, BAR_WIDTH,
         (int)(r->rewarded * BAR_WIDTH / r->group_size), "##############################",
         r->rewarded, r->group_size);
  fflush(stdout);
}

static void on_step(run* r, const rl_event* event, uint64_t step) {
  const size_t i = r->num_steps++;
  const double diff = metric(event, "training/logprob_max_abs_diff");
  int k;
  if (i == 0)
    r->first_step_end_s = now_s() - r->start_s - (r->num_evals > 0 ? r->eval_before_s : 0);
  r->step = step;
  r->rewarded = 0;
  for (k = 0; k < NUM_SERIES; ++k) r->series[k][i] = metric(event, series_names[k]);
  if (diff > r->logprob_diff) r->logprob_diff = diff;
  printf("step %" PRIu64 "  reward %.3f  %.2f s  rollout %.0f tokens/s  train %.0f tokens/s\n",
         step, r->series[REWARD][i], r->series[STEP_S][i], r->series[ROLLOUT_RATE][i],
         r->series[TRAIN_RATE][i]);
}

static void on_event(run* r, const rl_event* event) {
  rl_event_view view;
  rl_event_view_init(&view, sizeof view);
  check(rl_event_get_view(event, &view, &err));
  if (view.kind != RL_EVENT_SCORE && r->on_terminal) printf("\r\033[K");
  if (view.kind == RL_EVENT_SCORE) on_score(r, event);
  if (view.kind == RL_EVENT_STEP) on_step(r, event, view.step);
  if (view.kind == RL_EVENT_CHECKPOINT) printf("checkpoint %s\n", view.text);
  if (view.kind == RL_EVENT_GROUP_DROPPED) printf("dropped a group: %s\n", view.text);
  if (view.kind == RL_EVENT_EVAL) {
    if (r->num_evals++ == 0) r->eval_before_s = metric(event, "timing_s/eval");
    *(r->num_evals == 1 ? &r->accuracy_before : &r->accuracy_after) = view.value;
    printf("held-out accuracy %.3f of %" PRIu64 " questions\n", view.value, view.count);
  }
  fflush(stdout);
}

/* Serves the pipeline until it ends. Ctrl-C gives the current step up and writes a checkpoint. */
static void serve(run* r) {
  rl_event* event = NULL;
  rl_bytes* path = NULL;
  for (;;) {
    const rl_status status = rl_pipeline_next(r->pipeline, 100000000, &event, &err);
    if (interrupted && !r->stopping) {
      r->stopping = 1;
      rl_pipeline_stop(r->pipeline, 0, NULL); /* RL_TIMEOUT: it is still ending */
    }
    if (status == RL_TIMEOUT) continue;
    if (status == RL_DONE) break;
    check(status);
    on_event(r, event);
    rl_event_release(event);
  }
  if (!r->stopping) return;
  check(rl_pipeline_checkpoint(r->pipeline, -1, &path, &err));
  printf("stopped after step %" PRIu64 ": %s\n", r->step, (const char*)rl_bytes_data(path));
  rl_bytes_release(path);
}

/* ---- summary ---- */

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values, size_t count) { /* sorts them */
  qsort(values, count, sizeof *values, compare);
  return count == 0 ? NAN : 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

static double mean(const double* values, size_t count) {
  double sum = count == 0 ? NAN : 0;
  size_t i;
  for (i = 0; i < count; ++i) sum += values[i] / (double)count;
  return sum;
}

/* What is not known is null. */
static void write_summary(run* r, const arguments* a, uint64_t planned_bytes, uint64_t digest,
                          uint64_t seed, int64_t threads) {
  const size_t n = r->num_steps, edge = n < EDGE_STEPS ? n : EDGE_STEPS;
  const struct {
    const char* key;
    double value;
  } rows[] = {{"reward_first", mean(r->series[REWARD], edge)},
              {"reward_last", mean(r->series[REWARD] + n - edge, edge)},
              {"step_s_median", median(r->series[STEP_S], n)},
              {"first_step_end_s", r->first_step_end_s},
              {"rollout_tokens_per_s", median(r->series[ROLLOUT_RATE], n)},
              {"train_tokens_per_s", median(r->series[TRAIN_RATE], n)},
              {"logprob_max_abs_diff", r->logprob_diff},
              {"eval_before_s", r->eval_before_s},
              {"accuracy_before", r->accuracy_before},
              {"accuracy_after", r->accuracy_after},
              {"wall_s", now_s() - r->start_s}};
  char path[4096];
  struct rusage usage;
  FILE* file;
  size_t i;
  getrusage(RUSAGE_SELF, &usage);
  snprintf(path, sizeof path, "%s/summary.json", a->out);
  file = fopen(path, "w");
  if (file == NULL) perror(path), exit(1);
  fprintf(file, "{\n");
  for (i = 0; i < sizeof rows / sizeof *rows; ++i) {
    fprintf(file, isnan(rows[i].value) ? "  \"%s\": null,\n" : "  \"%s\": %.9g,\n", rows[i].key,
            rows[i].value);
  }
  fprintf(file, "  \"steps\": %" PRIu64 ",\n  \"peak_rss_bytes\": %lld,\n", r->step,
          1024LL * usage.ru_maxrss);
  fprintf(file, "  \"planned_bytes\": %" PRIu64 ",\n  \"weight_digest\": \"%016" PRIx64 "\",\n",
          planned_bytes, digest);
  fprintf(file, "  \"seed\": %" PRIu64 ",\n  \"threads\": %" PRId64 "\n}\n", seed, threads);
  if (fclose(file) != 0) perror(path), exit(1);
}

/* ---- main ---- */

int main(int argc, char** argv) {
  struct sigaction action = {.sa_handler = on_interrupt};
  arguments a = {0};
  run r = {.start_s = now_s(),
           .first_step_end_s = NAN,
           .eval_before_s = NAN,
           .accuracy_before = NAN,
           .accuracy_after = NAN};
  rl_options* options = NULL;
  rl_runtime* runtime = NULL;
  rl_model* model = NULL;
  rl_plan* plan = NULL;
  rl_plan_info info;
  rl_pipeline_stats stats;
  int64_t threads = 0;
  uint64_t digest = 0, total;
  char path[4096];
  int i;
  if (!parse(argc, argv, &a)) {
    fprintf(stderr, "usage: %s\n", usage);
    return 2;
  }
  r.on_terminal = isatty(STDOUT_FILENO);
  sigaction(SIGINT, &action, NULL);
  mkdir(a.out, 0777);

  /* Options and objects. */
  check(rl_options_create(&options, &err));
  configure(options, &a);
  check(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  check(rl_runtime_threads(runtime, &threads, &err));
  check(rl_model_open(runtime, options, RL_USE_PIPELINE, &model, &err));
  check(rl_pipeline_create(model, options, &r.pipeline, &err));
  rl_pipeline_stats_init(&stats, sizeof stats);
  check(rl_pipeline_get_stats(r.pipeline, &stats, &err));
  rl_plan_info_init(&info, sizeof info);
  check(rl_pipeline_plan(r.pipeline, &plan, &err));
  check(rl_plan_get_info(plan, &info, &err));
  total = get(options, "pipeline.total_steps");
  r.step = stats.step;
  r.group_size =
      get(options, "pipeline.prompts_per_step") * get(options, "pipeline.samples_per_prompt");
  for (i = 0; i < NUM_SERIES; ++i) r.series[i] = calloc(total + 1, sizeof(double));

  /* Work. */
  if (a.eval != NULL) check(rl_pipeline_evaluate(r.pipeline, &err));
  check(rl_pipeline_start(r.pipeline, &err));
  serve(&r);
  snprintf(path, sizeof path, "%s/model", a.out);
  check(rl_model_save(model, path, RL_NUL_TERMINATED, RL_DTYPE_BF16, RL_SAVE_REPLACE, &err));
  check(rl_model_digest(model, &digest, &err));
  write_summary(&r, &a, info.total_bytes, digest, get(options, "runtime.seed"), threads);

  /* End. */
  rl_pipeline_destroy(r.pipeline);
  rl_plan_release(plan);
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  for (i = 0; i < NUM_SERIES; ++i) free(r.series[i]);

  /* Check. */
  if (!r.stopping && r.step != total) return fprintf(stderr, "4_grpo: steps are missing\n"), 1;
  if (r.logprob_diff != 0) return fprintf(stderr, "4_grpo: log-probs differ\n"), 1;
  return 0;
}
