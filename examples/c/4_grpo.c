/* 4_grpo: trains a model by GRPO on questions whose answer is an integer. librl drives the loop,
 * this host rewards: 1 when the last integer of an answer is the one in the row's tag, else 0.
 * Held-out rows are answered greedily before and after. Ctrl-C ends the run with a checkpoint;
 * --resume goes on from the newest one. With --ranks so many ranks share the work, those of
 * parallel.tensor, context and pipeline included; with --launcher this process is one of a run's
 * ranks. New here: rl_pipeline_*, rl_event_sample, rl_model_save, rl_runtime_create_rank. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "launcher.h"
#include "rl.h"

enum { MAX_SETTINGS = 64, BAR_WIDTH = 30, EDGE_STEPS = 5, MAX_STEPS = 10000, MAX_RANKS = 64 };
enum { STEP_S, REWARD, ROLLOUT_RATE, TRAIN_RATE, NUM_SERIES };
static const char* const series_names[] = {"timing_s/step", "critic/rewards/mean",
                                           "perf/rollout_tokens_per_s", "perf/train_tokens_per_s"};

typedef struct {
  const char *model, *data, *eval, *out, *steps, *ranks, *launcher, *meeting;
  const char* settings[MAX_SETTINGS];
  int num_settings, resume;
} arguments;

typedef struct {
  rl_runtime* runtime;
  rl_model* model;
  rl_pipeline* pipeline;
  int ended;
} rank;

typedef struct {
  rank ranks[MAX_RANKS]; /* of this process */
  place place;           /* among the ranks of several processes */
  rl_pipeline* pipeline; /* of the first rank here; rank 0 of the run has metrics and files */
  int stopping, on_terminal, num_evals;
  double start_s, first_step_end_s, eval_before_s, accuracy_before, accuracy_after, logprob_diff;
  double series[NUM_SERIES][MAX_STEPS]; /* of every step of this process */
  size_t num_steps, num_ranks;          /* ranks of this process */
  size_t num_parts, num_copies;         /* parts of the layers; ranks that have the same one */
  uint64_t step, total;                 /* steps done; steps in all */
  uint64_t num_answers, rewarded;       /* answers of a step; rewards given in it */
} run;

static const char usage[] =
    "4_grpo --model M --data D [--eval E] --steps N --out DIR [--set KEY=VALUE]... [--resume] "
    "[--ranks N | --launcher torchrun|slurm|mpi|kubernetes|ray [--rendezvous PLACE]]\n";

/* ---- errors ---- */

static rl_error* err; /* of the last call */

static void check(rl_status st) {
  if (st == RL_OK) return;
  fprintf(stderr, "%s\n", err ? rl_error_text(err, RL_ERROR_SUMMARY, NULL) : rl_status_name(st));
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
  static const char* const names[] = {"--model", "--data",  "--eval",     "--out",
                                      "--steps", "--ranks", "--launcher", "--rendezvous"};
  const char** const values[] = {&a->model, &a->data,  &a->eval,     &a->out,
                                 &a->steps, &a->ranks, &a->launcher, &a->meeting};
  for (int i = 1, k; i < argc; ++i) {
    for (k = 0; k < 8 && strcmp(argv[i], names[k]) != 0;) ++k;
    if (strcmp(argv[i], "--resume") == 0) {
      a->resume = 1;
    } else if (i + 1 < argc && k < 8) {
      *values[k] = argv[++i];
    } else if (i + 1 < argc && strcmp(argv[i], "--set") == 0 && a->num_settings < MAX_SETTINGS) {
      a->settings[a->num_settings++] = argv[++i];
    } else {
      return 0;
    }
  }
  if (a->launcher ? a->ranks != NULL : a->meeting != NULL) return 0;
  return a->model && a->data && a->out && a->steps;
}

static const char* join(const char* dir, const char* name) { /* lives until the next call */
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return path;
}

static void set(rl_options* options, const char* key, const char* text) {
  check(rl_options_set_text(options, key, RL_NUL_TERMINATED, text, RL_NUL_TERMINATED, &err));
}

static uint64_t get(const rl_options* options, const char* key) {
  rl_option_value value;
  rl_option_value_init(&value, sizeof value);
  check(rl_options_get(options, key, RL_NUL_TERMINATED, &value, NULL, &err));
  return value.u64;
}

/* Whether ranks pass keys and values round, where log-probs differ a little. */
static int in_ring(const rl_options* options) {
  rl_option_value value;
  rl_bytes* kind = NULL;
  rl_option_value_init(&value, sizeof value);
  check(rl_options_get(options, "parallel.context_kind", RL_NUL_TERMINATED, &value, &kind, &err));
  const int ring = strcmp(rl_bytes_data(kind), "ring") == 0;
  rl_bytes_release(kind);
  return ring && get(options, "parallel.context") > 1;
}

static void set_number(rl_options* options, const char* key, uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "%" PRIu64, number);
  set(options, key, text);
}

/* Sets parallel.data so that the axes make so many ranks. */
static void share_ranks(rl_options* options, uint64_t ranks) {
  static const char axes[] = "parallel.tensor * parallel.context * parallel.pipeline";
  const uint64_t inner = get(options, "parallel.tensor") * get(options, "parallel.context") *
                         get(options, "parallel.pipeline");
  if (ranks % inner != 0) {
    fprintf(stderr, "4_grpo: %" PRIu64 " ranks are not a multiple of %s = %" PRIu64 "\n", ranks,
            axes, inner);
    exit(2);
  }
  set_number(options, "parallel.data", ranks / inner);
}

/* Makes this process a rank of a run of several. */
static void join_run(rl_options* options, const arguments* a, place* own) {
  const char* const problem = place_of_launcher(a->launcher, a->meeting, own);
  if (problem != NULL) {
    fprintf(stderr, "4_grpo: launcher %s: %s\n", a->launcher, problem);
    exit(2);
  }
  if (own->ranks == 1) return;
  share_ranks(options, own->ranks);
  set(options, "comm.backend", "gloo");
  set(options, "comm.rendezvous", own->rendezvous);
  set_number(options, "comm.rank", own->rank);
}

static void configure(rl_options* options, const arguments* a) {
  set(options, "model.path", a->model);
  set(options, "data.path", a->data);
  set(options, "eval.path", a->eval != NULL ? a->eval : "");
  set(options, "eval.every_steps", a->eval != NULL ? a->steps : "0");
  set(options, "pipeline.total_steps", a->steps);
  set(options, "parallel.data", a->ranks != NULL ? a->ranks : "1");
  const uint64_t ranks = get(options, "parallel.data");
  set(options, "checkpoint.dir", join(a->out, "checkpoints"));
  set(options, "checkpoint.resume", a->resume ? "auto" : "never");
  set(options, "metrics.jsonl", join(a->out, "metrics.jsonl"));
  set(options, "metrics.eval_jsonl", a->eval != NULL ? join(a->out, "evals.jsonl") : "");
  set(options, "metrics.samples", join(a->out, "samples.jsonl"));
  set(options, "metrics.tensorboard", "true");
  set(options, "profiler.timeline.enable", "true");
  set(options, "profiler.timeline.dir", a->out);
  for (int i = 0; i < a->num_settings; ++i) {
    const size_t key_len = strcspn(a->settings[i], "=");
    const char* const value = a->settings[i] + key_len + (a->settings[i][key_len] == '=');
    check(rl_options_set_text(options, a->settings[i], key_len, value, RL_NUL_TERMINATED, &err));
  }
  if (a->ranks != NULL) share_ranks(options, ranks);
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

static void on_score(run* r, rl_pipeline* pipeline, const rl_event* event) {
  rl_sample_view sample;
  rl_sample_view_init(&sample, sizeof sample);
  check(rl_event_sample(event, 0, &sample, &err));
  rl_score score;
  rl_score_init(&score, sizeof score);
  score.sample_id = sample.sample_id;
  score.reward = reward_of(sample.text, sample.tag);
  const rl_status status = rl_pipeline_score(pipeline, &score, 1, NULL, &err);
  if (!r->stopping && status != RL_LATE) check(status); /* a step given up takes no more rewards */
  rl_error_release(err);
  if (sample.purpose != RL_PURPOSE_TRAIN || !r->on_terminal) return;
  ++r->rewarded;
  printf("\rstep %" PRIu64 " [%-*.*s] %" PRIu64 "/%" PRIu64, r->step + 1, BAR_WIDTH,
         (int)(r->rewarded * BAR_WIDTH / r->num_answers), "##############################",
         r->rewarded, r->num_answers);
}

static void on_step(run* r, const rl_event* event, uint64_t step) {
  r->step = step;
  if (r->place.rank != 0) return;
  const size_t i = r->num_steps++;
  const double diff = metric(event, "training/logprob_max_abs_diff");
  if (i == 0) r->first_step_end_s = now_s() - r->start_s - r->eval_before_s;
  r->rewarded = 0;
  for (int k = 0; k < NUM_SERIES; ++k) r->series[k][i] = metric(event, series_names[k]);
  if (diff > r->logprob_diff) r->logprob_diff = diff;
  printf("step %" PRIu64 "  reward %.3f  %.2f s  rollout %.0f tokens/s  train %.0f tokens/s\n",
         r->step, r->series[REWARD][i], r->series[STEP_S][i], r->series[ROLLOUT_RATE][i],
         r->series[TRAIN_RATE][i]);
}

static void on_event(run* r, rl_pipeline* pipeline, const rl_event* event) {
  rl_event_view view;
  rl_event_view_init(&view, sizeof view);
  check(rl_event_get_view(event, &view, &err));
  if (view.kind != RL_EVENT_SCORE && r->on_terminal) printf("\r\033[K");
  if (view.kind == RL_EVENT_SCORE) on_score(r, pipeline, event);
  if (view.kind == RL_EVENT_STEP && pipeline == r->pipeline) on_step(r, event, view.step);
  if (view.text_len > 0) printf("%s\n", view.text); /* a checkpoint's path, why a group ended */
  if (view.kind == RL_EVENT_EVAL) {
    if (r->num_evals++ == 0) r->eval_before_s = metric(event, "timing_s/eval");
    *(r->num_evals == 1 ? &r->accuracy_before : &r->accuracy_after) = view.value;
    printf("held-out accuracy %.3f of %" PRIu64 " questions\n", view.value, view.count);
  }
  fflush(stdout);
}

/* A rank's part of a call that those which divide the model make together. */
typedef struct {
  rank* of;
  const char* model_dir; /* NULL: of a checkpoint */
  rl_bytes* path;
  rl_status status;
  rl_error* error;
  pthread_t thread;
} part;

static void* save_part(void* data) {
  part* const p = data;
  p->status = p->model_dir == NULL
                  ? rl_pipeline_checkpoint(p->of->pipeline, -1, &p->path, &p->error)
                  : rl_model_save(p->of->model, p->model_dir, RL_NUL_TERMINATED, RL_DTYPE_BF16,
                                  RL_SAVE_REPLACE, &p->error);
  return NULL;
}

/* Which copy of its part of the model a rank has; the ranks of the first one save it together. */
static uint64_t copy_of(const run* r, uint64_t rank) { return rank / r->num_parts % r->num_copies; }

/* Saves the model, or with NULL a checkpoint, whose path it returns; NULL of ranks that do not. */
static rl_bytes* save(run* r, const char* model_dir) {
  static part parts[MAX_RANKS];
  size_t count = 0;
  for (size_t i = 0; i < r->num_ranks; ++i) {
    if (copy_of(r, r->place.rank + i) != 0) continue;
    part* const own = &parts[count++];
    *own = (part){.of = &r->ranks[i], .model_dir = model_dir};
    if (pthread_create(&own->thread, NULL, save_part, own) != 0) exit(1);
  }
  for (size_t i = 0; i < count; ++i) {
    pthread_join(parts[i].thread, NULL);
    err = parts[i].error;
    check(parts[i].status);
    if (i > 0) rl_bytes_release(parts[i].path);
  }
  return parts[0].path;
}

/* Serves the pipelines until they end. Ctrl-C gives the current step up and writes a checkpoint. */
static void serve(run* r) {
  rl_event* event = NULL;
  const int64_t wait_ns = r->num_ranks > 1 ? 1000000 : 100000000;
  for (size_t i = 0, left = r->num_ranks; left > 0; i = (i + 1) % r->num_ranks) {
    rank* const own = &r->ranks[i];
    if (own->ended) continue;
    const rl_status status = rl_pipeline_next(own->pipeline, wait_ns, &event, &err);
    if (status == RL_OK) on_event(r, own->pipeline, event);
    if (status == RL_DONE) own->ended = 1, --left;
    if (status != RL_TIMEOUT && status != RL_DONE) check(status);
    rl_event_release(event);
    if (interrupted && !r->stopping++) rl_pipeline_stop(r->pipeline, 0, NULL);
  }
  const int cut = r->place.ranks > 1 && r->step < r->total; /* another process was stopped */
  if (!r->stopping && !cut) return;
  rl_bytes* const path = save(r, NULL);
  if (path != NULL)
    printf("stopped after step %" PRIu64 ": %s\n", r->step, (const char*)rl_bytes_data(path));
  rl_bytes_release(path);
}

/* ---- summary ---- */

static int compare(const void* a, const void* b) {
  return *(const double*)a < *(const double*)b ? -1 : *(const double*)a > *(const double*)b;
}

static double median(double* values, size_t count) { /* sorts them */
  qsort(values, count, sizeof *values, compare);
  return count == 0 ? -1 : 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

static double mean(const double* values, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += values[i];
  return count == 0 ? -1 : sum / (double)count;
}

static void number(FILE* file, const char* key, double value) { /* below 0: not known */
  fprintf(file, value < 0 ? "  \"%s\": null,\n" : "  \"%s\": %.12g,\n", key, value);
}

static void write_summary(run* r, const arguments* a, uint64_t digest, uint64_t seed) {
  const size_t n = r->num_steps, edge = n < EDGE_STEPS ? n : EDGE_STEPS;
  FILE* const file = fopen(join(a->out, "summary.json"), "w");
  struct rusage usage;
  rl_plan* plan = NULL;
  rl_plan_info info;
  getrusage(RUSAGE_SELF, &usage);
  rl_plan_info_init(&info, sizeof info);
  check(rl_pipeline_plan(r->pipeline, &plan, &err));
  check(rl_plan_get_info(plan, &info, &err));
  rl_plan_release(plan);
  if (file == NULL) perror(a->out), exit(1);
  fprintf(file, "{\n");
  number(file, "steps", (double)r->step);
  number(file, "step_s_median", median(r->series[STEP_S], n));
  number(file, "first_step_end_s", r->first_step_end_s);
  number(file, "eval_before_s", r->eval_before_s);
  number(file, "accuracy_before", r->accuracy_before);
  number(file, "accuracy_after", r->accuracy_after);
  number(file, "reward_first", mean(r->series[REWARD], edge));
  number(file, "reward_last", mean(r->series[REWARD] + n - edge, edge));
  number(file, "rollout_tokens_per_s", median(r->series[ROLLOUT_RATE], n));
  number(file, "train_tokens_per_s", median(r->series[TRAIN_RATE], n));
  number(file, "logprob_max_abs_diff", n > 0 ? r->logprob_diff : -1);
  number(file, "peak_rss_bytes", 1024.0 * (double)usage.ru_maxrss);
  number(file, "planned_bytes", (double)info.total_bytes);
  number(file, "wall_s", now_s() - r->start_s);
  number(file, "threads", (double)info.threads);
  fprintf(file, "  \"weight_digest\": \"%016" PRIx64 "\",\n  \"seed\": %" PRIu64 "\n}\n", digest,
          seed);
  if (fclose(file) != 0) perror(a->out), exit(1);
}

/* ---- main ---- */

/* Makes the objects of the ranks: the first runtime makes the others. */
static void create_ranks(run* r, const rl_options* options) {
  for (size_t i = 0; i < r->num_ranks; ++i) {
    rank* const own = &r->ranks[i];
    check(i == 0 ? rl_runtime_create(RL_ABI_VERSION, options, &own->runtime, &err)
                 : rl_runtime_create_rank(r->ranks[0].runtime, (uint32_t)i, &own->runtime, &err));
    check(rl_model_open(own->runtime, options, RL_USE_PIPELINE, &own->model, &err));
    check(rl_pipeline_create(own->model, options, &own->pipeline, &err));
  }
  r->pipeline = r->ranks[0].pipeline;
}

/* Ends them. Whether all with the same part of the model have the same weights. */
static int end_ranks(run* r) {
  uint64_t digests[MAX_RANKS];
  int same = 1;
  for (size_t i = 0; i < r->num_ranks; ++i) {
    check(rl_model_digest(r->ranks[i].model, &digests[i], &err));
    same = same && digests[i] == digests[i - copy_of(r, i) * r->num_parts];
    rl_pipeline_destroy(r->ranks[i].pipeline);
    rl_model_destroy(r->ranks[i].model);
    rl_runtime_destroy(r->ranks[i].runtime);
  }
  return same;
}

int main(int argc, char** argv) {
  struct sigaction action = {.sa_handler = on_interrupt};
  arguments a = {0};
  static run r = {
      .place.ranks = 1, .first_step_end_s = -1, .accuracy_before = -1, .accuracy_after = -1};
  rl_options* options = NULL;
  rl_pipeline_stats stats;
  uint64_t digest = 0;
  r.start_s = now_s();
  if (!parse(argc, argv, &a)) return fputs(usage, stderr), 2;
  r.on_terminal = isatty(STDOUT_FILENO);
  sigaction(SIGINT, &action, NULL);
  mkdir(a.out, 0777);

  /* Options and objects. */
  check(rl_options_create(&options, &err));
  configure(options, &a);
  if (a.launcher != NULL) join_run(options, &a, &r.place);
  r.num_parts = get(options, "parallel.tensor");
  r.num_copies = get(options, "parallel.context") * get(options, "parallel.data");
  r.num_ranks = r.num_parts * r.num_copies * get(options, "parallel.pipeline");
  if (r.place.ranks > 1) r.num_ranks = 1;
  if (r.num_ranks > MAX_RANKS) return fputs("4_grpo: there are at most 64 ranks\n", stderr), 2;
  create_ranks(&r, options);
  rl_pipeline_stats_init(&stats, sizeof stats);
  check(rl_pipeline_get_stats(r.pipeline, &stats, &err));
  r.total = get(options, "pipeline.total_steps");
  if (!r.total || r.total > MAX_STEPS)
    return fputs("4_grpo: --steps must be 1 to 10000\n", stderr), 2;
  r.step = stats.step;
  r.num_answers =
      get(options, "pipeline.samples_per_prompt") * get(options, "pipeline.prompts_per_step");

  /* Work. */
  if (a.eval != NULL && r.place.rank == 0) check(rl_pipeline_evaluate(r.pipeline, &err));
  for (size_t i = 0; i < r.num_ranks; ++i) check(rl_pipeline_start(r.ranks[i].pipeline, &err));
  serve(&r);
  save(&r, join(a.out, "model"));
  check(rl_model_digest(r.ranks[0].model, &digest, &err));
  if (r.place.rank == 0) {
    write_summary(&r, &a, digest, get(options, "runtime.seed"));
    check(rl_pipeline_write_report(r.pipeline, NULL, join(a.out, "report.html"), RL_NUL_TERMINATED,
                                   &err));
  } else {
    printf("rank %" PRIu64 ": weights %016" PRIx64 "\n", r.place.rank, digest);
  }

  /* Check. */
  int good = (r.stopping || r.step == r.total) && (r.logprob_diff == 0 || in_ring(options));
  if (!good) fprintf(stderr, "4_grpo: steps are missing or log-probs differ\n");

  /* End. */
  if (!end_ranks(&r)) good = 0, fprintf(stderr, "4_grpo: the weights of ranks differ\n");
  rl_options_destroy(options);
  return good ? 0 : 1;
}
