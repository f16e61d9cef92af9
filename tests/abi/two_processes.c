/* Two processes train one model: one samples, one trains. Groups go to the trainer as the bytes of
 * rl_batch_export, weights come back as tensors, through pipes, for ten steps. Both must end with
 * the digest of the run of one process, bit for bit, and so must the copy that samples. The page
 * docs/embedding.md quotes the regions.
 *
 *   two_processes MODEL       MODEL is a Hugging Face directory without a tokenizer
 *
 * Every process of librl is forked before the first call of librl. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rl.h"

enum { STEPS = 10, PROMPTS = 3, GROUP = 4, MAX_DIMS = 8 };

/* region: dlpack */
/* DLPack's struct, as a host without dlpack.h declares it. */
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  struct {
    void* data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t* shape;
    int64_t* strides;
    uint64_t byte_offset;
  } t;
};
/* end of region */

/* ---- errors and pipes ---- */

static const char* role = "";
static rl_error* err; /* of the last call */

static void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", role, what);
  exit(1);
}

static void check(rl_status st) {
  if (st == RL_OK) return;
  fail(err ? rl_error_text(err, RL_ERROR_SUMMARY, NULL) : rl_status_name(st));
}

static void write_all(int fd, const void* data, size_t size) {
  const char* at = data;
  while (size > 0) {
    const ssize_t n = write(fd, at, size);
    if (n <= 0) fail("the other process is gone");
    at += n;
    size -= (size_t)n;
  }
}

static void read_all(int fd, void* data, size_t size) {
  char* at = data;
  while (size > 0) {
    const ssize_t n = read(fd, at, size);
    if (n <= 0) fail("the other process is gone");
    at += n;
    size -= (size_t)n;
  }
}

/* ---- pieces of the loop ---- */

typedef struct host {
  rl_options* options;
  rl_runtime* runtime;
  rl_model* model;
  rl_engine* engine;   /* of what samples */
  rl_trainer* trainer; /* of what trains */
  rl_buffer* buffer;
} host;

static void set(rl_options* options, const char* key, const char* text) {
  check(rl_options_set_text(options, key, RL_NUL_TERMINATED, text, RL_NUL_TERMINATED, &err));
}

/* The budget of a micro-batch is given, since it would follow from the memory that each process
 * has left, and sums are split by it. */
static host open_host(const char* path, const char* instance, int32_t use) {
  host h;
  memset(&h, 0, sizeof h);
  check(rl_options_create(&h.options, &err));
  set(h.options, "model.path", path);
  set(h.options, "runtime.threads", "1");
  set(h.options, "runtime.seed", "11");
  set(h.options, "runtime.instance", instance);
  set(h.options, "engine.max_num_seqs", "8");
  set(h.options, "engine.max_model_len", "64");
  set(h.options, "pipeline.samples_per_prompt", "4");
  set(h.options, "sampling.max_new_tokens", "12");
  set(h.options, "trainer.max_tokens_per_device", "128");
  set(h.options, "optimizer.lr", "1e-3");
  set(h.options, "buffer.max_staleness", "0");
  check(rl_runtime_create(RL_ABI_VERSION, h.options, &h.runtime, &err));
  check(rl_model_open(h.runtime, h.options, use, &h.model, &err));
  if (use != RL_USE_TRAIN) check(rl_engine_create(h.model, NULL, &h.engine, &err));
  if (use != RL_USE_GENERATE) {
    check(rl_trainer_create(h.model, NULL, &h.trainer, &err));
    check(rl_buffer_create(h.options, (uint64_t)PROMPTS * GROUP, &h.buffer, &err));
  }
  return h;
}

static uint64_t digest_now(const host* h) {
  uint64_t digest = 0;
  check(rl_model_digest(h->model, &digest, &err));
  return digest;
}

/* Ends everything; the digest of the weights. */
static uint64_t close_host(host* h) {
  const uint64_t digest = digest_now(h);
  rl_buffer_destroy(h->buffer);
  rl_trainer_destroy(h->trainer);
  rl_engine_destroy(h->engine);
  rl_model_destroy(h->model);
  rl_runtime_destroy(h->runtime);
  rl_options_destroy(h->options);
  return digest;
}

/* Samples the groups of a step. Their ordinals, which random numbers follow from, are the host's.
 * The reward is the share of even ids. */
static rl_batch* sample_step(const host* h, uint64_t step) {
  rl_batch* batch = NULL;
  size_t i, k;
  for (i = 0; i < PROMPTS; ++i) {
    const int32_t prompt[] = {1, (int32_t)(2 + i), (int32_t)(3 + step)};
    rl_request request;
    uint64_t first_id = 0;
    rl_request_init(&request, sizeof request);
    request.prompt = prompt;
    request.num_prompt = 3;
    request.num_samples = GROUP;
    request.ordinal = step * PROMPTS + i;
    request.tag = "even ids";
    request.tag_len = RL_NUL_TERMINATED;
    check(rl_engine_submit(h->engine, &request, &first_id, &err));
  }
  check(rl_engine_run(h->engine, &err));
  check(rl_engine_take(h->engine, &batch, &err));
  if (rl_batch_count(batch) != PROMPTS * GROUP) fail("samples are missing");
  for (i = 0; i < PROMPTS * GROUP; ++i) {
    rl_sample_view view;
    rl_score score;
    size_t even = 0;
    rl_sample_view_init(&view, sizeof view);
    check(rl_batch_sample(batch, i, &view, &err));
    for (k = view.num_prompt; k < view.num_ids; ++k) even += view.ids[k] % 2 == 0;
    rl_score_init(&score, sizeof score);
    score.reward = (double)even / (double)(view.num_ids - view.num_prompt);
    check(rl_batch_score(batch, i, &score, 1, &err));
  }
  return batch;
}

/* Trains on the groups of a step, which must have been sampled from the present weights. */
static void train_step(const host* h, const rl_batch* sampled, uint64_t version) {
  rl_batch* batch = NULL;
  rl_event* event = NULL;
  rl_take take;
  rl_step step;
  double difference = -1, compared = 0;
  check(rl_buffer_put_batch(h->buffer, sampled, &err));
  rl_take_init(&take, sizeof take);
  take.min_groups = PROMPTS;
  take.version = version;
  check(rl_buffer_take(h->buffer, &take, 0, &batch, &err));
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  check(rl_trainer_step(h->trainer, &step, &event, &err));
  check(rl_event_metric_named(event, "training/logprob_max_abs_diff", RL_NUL_TERMINATED,
                              &difference, &err));
  check(rl_event_metric_named(event, "training/logprob_compared_tokens", RL_NUL_TERMINATED,
                              &compared, &err));
  if (difference != 0 || compared == 0) fail("log-probs of sampling and training differ");
  rl_event_release(event);
  rl_batch_release(batch);
  check(rl_trainer_publish(h->trainer, &version, &err));
}

/* ---- what goes through the pipes ---- */

/* region: groups */
static void send_batch(int fd, const rl_batch* batch) {
  rl_bytes* bytes = NULL;
  uint64_t size;
  check(rl_batch_export(batch, &bytes, &err));
  size = rl_bytes_size(bytes);
  write_all(fd, &size, sizeof size);
  write_all(fd, rl_bytes_data(bytes), size);
  rl_bytes_release(bytes);
}

static rl_batch* receive_batch(int fd) {
  rl_batch* batch = NULL;
  uint64_t size = 0;
  void* data;
  read_all(fd, &size, sizeof size);
  data = malloc(size);
  if (data == NULL) fail("no memory");
  read_all(fd, data, size);
  check(rl_batch_import(data, size, &batch, &err));
  free(data);
  return batch;
}
/* end of region */

/* region: send_weights */
/* The version of the weights, then the values of every weight, in the order of the model. */
static void send_weights(int fd, const rl_model* model) {
  uint64_t version = 0;
  size_t i;
  check(rl_model_version(model, &version, &err));
  write_all(fd, &version, sizeof version);
  for (i = 0; i < rl_model_weight_count(model); ++i) {
    const char* name = NULL;
    rl_tensor* tensor = NULL;
    rl_tensor_info info;
    check(rl_model_weight_name(model, i, &name, &err));
    check(rl_model_weight(model, name, RL_NUL_TERMINATED, NULL, &tensor, &err));
    rl_tensor_info_init(&info, sizeof info);
    check(rl_tensor_get_info(tensor, &info, &err));
    write_all(fd, info.data, info.num_elements * sizeof(float));
    rl_tensor_release(tensor);
  }
}
/* end of region */

/* region: receive_weight */
static void free_tensor(struct DLManagedTensorVersioned* self) {
  free(self->t.data);
  free(self->t.shape);
  free(self);
}

/* A tensor of the host with the shape of weight `index`, and values from the pipe. */
static rl_tensor* receive_weight(int fd, const host* h, const char* name) {
  struct DLManagedTensorVersioned* const made = calloc(1, sizeof *made);
  rl_tensor *present = NULL, *tensor = NULL;
  rl_tensor_info info;
  check(rl_model_weight(h->model, name, RL_NUL_TERMINATED, NULL, &present, &err));
  rl_tensor_info_init(&info, sizeof info);
  check(rl_tensor_get_info(present, &info, &err));
  if (made == NULL || info.num_dims > MAX_DIMS) fail("a weight that cannot be received");
  made->major = 1;
  made->deleter = free_tensor;
  made->t.device_type = RL_DEVICE_CPU;
  made->t.ndim = (int32_t)info.num_dims;
  made->t.code = 2; /* floats */
  made->t.bits = 32;
  made->t.lanes = 1;
  made->t.shape = malloc(MAX_DIMS * sizeof *made->t.shape);
  made->t.data = malloc(info.num_elements * sizeof(float));
  if (made->t.shape == NULL || made->t.data == NULL) fail("no memory");
  memcpy(made->t.shape, info.shape, info.num_dims * sizeof *info.shape);
  read_all(fd, made->t.data, info.num_elements * sizeof(float));
  rl_tensor_release(present);
  check(rl_tensor_import_dlpack(h->runtime, made, NULL, 0, &tensor, &err)); /* owns `made` now */
  return tensor;
}
/* end of region */

/* region: receive_weights */
static void receive_weights(int fd, const host* h, uint64_t expected_version) {
  const size_t count = rl_model_weight_count(h->model);
  rl_weight* const weights = calloc(count, sizeof *weights);
  uint64_t theirs = 0, version = 0;
  size_t i;
  if (weights == NULL) fail("no memory");
  read_all(fd, &theirs, sizeof theirs);
  for (i = 0; i < count; ++i) {
    rl_weight_init(&weights[i], sizeof weights[i]);
    check(rl_model_weight_name(h->model, i, &weights[i].name, &err));
    weights[i].tensor = receive_weight(fd, h, weights[i].name);
  }
  /* Under the number that they have where they were trained. */
  check(rl_model_set_weights(h->model, weights, count, NULL, theirs, &version, &err));
  if (version != expected_version) fail("the versions of the processes differ");
  for (i = 0; i < count; ++i) rl_tensor_release(weights[i].tensor);
  free(weights);
}
/* end of region */

/* ---- the processes ---- */

typedef struct ends {
  int in, out; /* to the other process */
  int result;
} ends;

static uint64_t run_alone(const char* path, ends e) {
  host h = open_host(path, "0", RL_USE_PARTS);
  const uint64_t before = digest_now(&h);
  uint64_t step;
  (void)e;
  for (step = 0; step < STEPS; ++step) {
    rl_batch* const batch = sample_step(&h, step);
    train_step(&h, batch, step);
    rl_batch_release(batch);
    if (step == 0 && digest_now(&h) == before) fail("nothing was learnt");
  }
  return close_host(&h);
}

/* region: sampler */
static uint64_t run_sampler(const char* path, ends e) {
  host h = open_host(path, "1", RL_USE_GENERATE);
  uint64_t step;
  for (step = 0; step < STEPS; ++step) {
    rl_batch* const batch = sample_step(&h, step);
    send_batch(e.out, batch);
    rl_batch_release(batch);
    receive_weights(e.in, &h, step + 1);
  }
  return close_host(&h);
}
/* end of region */

/* region: trainer */
static uint64_t run_trainer(const char* path, ends e) {
  host h = open_host(path, "2", RL_USE_TRAIN);
  uint64_t step;
  for (step = 0; step < STEPS; ++step) {
    rl_batch* const batch = receive_batch(e.in);
    rl_sample_view view;
    rl_sample_view_init(&view, sizeof view);
    check(rl_batch_sample(batch, 0, &view, &err));
    if (view.sample_id >> 48 != 1) fail("a sample_id does not name its process");
    if (view.tag_len != 8 || memcmp(view.tag, "even ids", 8) != 0) fail("a tag is lost");
    train_step(&h, batch, step);
    rl_batch_release(batch);
    send_weights(e.out, h.model);
  }
  return close_host(&h);
}
/* end of region */

/* Starts a process that writes its digest to e.result. `theirs` are ends of pipes that it does not
 * have. */
static pid_t start(const char* name, uint64_t (*run)(const char*, ends), const char* path, ends e,
                   ends theirs) {
  const pid_t pid = fork();
  uint64_t digest;
  if (pid < 0) fail("fork");
  if (pid > 0) return pid;
  role = name;
  if (theirs.in >= 0) close(theirs.in);
  if (theirs.out >= 0) close(theirs.out);
  digest = run(path, e);
  write_all(e.result, &digest, sizeof digest);
  exit(0);
}

static uint64_t digest_of(pid_t pid, int result) {
  uint64_t digest = 0;
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fail("a process failed");
  }
  read_all(result, &digest, sizeof digest);
  return digest;
}

static void open_pipe(int fds[2]) {
  if (pipe(fds) != 0) fail("pipe");
}

int main(int argc, char** argv) {
  int groups[2], weights[2], results[3][2];
  uint64_t alone, sampler, trainer;
  pid_t pids[3];
  size_t i;
  const ends none = {-1, -1, -1};
  role = "two_processes";
  if (argc != 2) {
    fprintf(stderr, "usage: two_processes MODEL\n");
    return 2;
  }
  for (i = 0; i < 3; ++i) open_pipe(results[i]);
  {
    const ends e = {-1, -1, results[0][1]};
    pids[0] = start("alone", run_alone, argv[1], e, none);
  }
  alone = digest_of(pids[0], results[0][0]);
  open_pipe(groups);
  open_pipe(weights);
  {
    const ends s = {weights[0], groups[1], results[1][1]};
    const ends t = {groups[0], weights[1], results[2][1]};
    pids[1] = start("sampler", run_sampler, argv[1], s, t);
    pids[2] = start("trainer", run_trainer, argv[1], t, s);
  }
  for (i = 0; i < 2; ++i) {
    close(groups[i]);
    close(weights[i]);
  }
  sampler = digest_of(pids[1], results[1][0]);
  trainer = digest_of(pids[2], results[2][0]);
  printf("%d steps: alone %016" PRIx64 ", sampler %016" PRIx64 ", trainer %016" PRIx64 "\n", STEPS,
         alone, sampler, trainer);
  return alone == sampler && alone == trainer ? 0 : 1;
}
