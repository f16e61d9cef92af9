/* One step over two processes: each computes the gradients of its samples, the host adds them, and
 * both make the same optimizer step. They end with each other's weights bit for bit, and with those
 * of one process on the whole batch up to the order of sums.
 *
 *   parts_gradients MODEL        every process is forked before its first call of librl */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parts_host.h"

enum { STEPS = 3, GROUPS = 4, GROUP = 2, PROMPT = 3, TOKENS = 5 };

/* region: process */
typedef struct process {
  int rank;   /* 0 or 1 */
  int socket; /* to the other process; -1: there is none */
  rl_trainer* trainer;
} process;
/* end of region */

/* ---- what connects the processes ---- */

static void write_all(int fd, const void* data, size_t size) {
  const char* at = data;
  while (size > 0) {
    const ssize_t n = write(fd, at, size);
    require(n > 0, "the other process is there");
    at += n;
    size -= (size_t)n;
  }
}

static void read_all(int fd, void* data, size_t size) {
  char* at = data;
  while (size > 0) {
    const ssize_t n = read(fd, at, size);
    require(n > 0, "the other process is there");
    at += n;
    size -= (size_t)n;
  }
}

/* Gives `mine` to the other process and gets `theirs`. */
static void exchange(const process* p, const void* mine, void* theirs, size_t size) {
  if (p->rank == 0) write_all(p->socket, mine, size);
  read_all(p->socket, theirs, size);
  if (p->rank == 1) write_all(p->socket, mine, size);
}

/* Stands for a collective of the host: MPI_Allreduce, gloo or torch.distributed. */
static void add_floats(const process* p, float* values, size_t count) {
  float* const theirs = malloc(count * sizeof *theirs);
  size_t i;
  require(theirs != NULL, "there is memory");
  exchange(p, values, theirs, count * sizeof *values);
  for (i = 0; i < count; ++i) values[i] += theirs[i];
  free(theirs);
}

static void add_counts(const process* p, uint64_t counts[2]) {
  uint64_t theirs[2];
  exchange(p, counts, theirs, sizeof theirs);
  counts[0] += theirs[0];
  counts[1] += theirs[1];
}

/* ---- the step ---- */

/* region: count */
/* Tokens that carry loss in a batch, and samples that have such tokens. */
static void count_loss(const rl_batch* batch, uint64_t counts[2]) {
  size_t i, k;
  counts[0] = counts[1] = 0;
  for (i = 0; i < rl_batch_count(batch); ++i) {
    const rl_sample_view view = sample_at(batch, i);
    uint64_t tokens = 0;
    for (k = 0; k < view.num_ids - view.num_prompt; ++k) {
      tokens += view.loss_mask == NULL || view.loss_mask[k] == 1;
    }
    counts[0] += tokens;
    counts[1] += tokens > 0;
  }
}
/* end of region */

/* region: step */
/* A step on the samples of both processes, of which this one has `batch`. */
static void train(const process* p, const rl_batch* batch) {
  rl_step step;
  rl_tensor* gradient = NULL;
  rl_tensor_info info;
  rl_event* event = NULL;
  uint64_t counts[2];
  count_loss(batch, counts);
  if (p->socket >= 0) add_counts(p, counts); /* of both processes */
  rl_step_init(&step, sizeof step);
  step.batch = batch; /* may have no samples */
  step.total_tokens = counts[0];
  step.total_sequences = counts[1];
  check(rl_trainer_backward(p->trainer, &step, &err));
  check(rl_trainer_gradient(p->trainer, "", 0, NULL, &gradient, &err)); /* all in one row */
  rl_tensor_info_init(&info, sizeof info);
  check(rl_tensor_get_info(gradient, &info, &err));
  if (p->socket >= 0) add_floats(p, (float*)info.data, info.num_elements); /* in place */
  rl_tensor_release(gradient);
  check(rl_trainer_apply(p->trainer, &event, &err)); /* clips, steps and publishes */
  rl_event_release(event);
}
/* end of region */

/* ---- the processes ---- */

/* Groups from `first` on, with rewards and without log-probs. */
static rl_batch* groups_of(uint64_t first, uint64_t count) {
  static const uint8_t mask[TOKENS] = {1, 0, 1, 1, 1};
  int32_t ids[GROUPS * GROUP][PROMPT + TOKENS];
  rl_sample_view views[GROUPS * GROUP];
  rl_batch* batch = NULL;
  size_t i, k;
  for (i = 0; i < count * GROUP; ++i) {
    rl_sample_view* const view = &views[i];
    const uint64_t ordinal = first + i / GROUP, slot = i % GROUP;
    rl_sample_view_init(view, sizeof *view);
    for (k = 0; k < PROMPT + TOKENS; ++k) {
      ids[i][k] = (int32_t)(k < PROMPT ? 1 + k : 10 + 17 * ordinal + 7 * slot + 3 * k);
    }
    view->sample_id = 1 + ordinal * GROUP + slot;
    view->ordinal = ordinal;
    view->slot = (uint32_t)slot;
    view->ids = ids[i];
    view->num_ids = PROMPT + TOKENS - slot;
    view->num_prompt = PROMPT;
    view->loss_mask = mask;
    view->scored = 1;
    view->reward = (double)slot + 0.5 * (double)ordinal;
  }
  check(rl_batch_create(views, count * GROUP, &batch, &err));
  return batch;
}

/* In the last step process 0 has all groups, and the other one none. */
static rl_batch* part_of(const process* p, int step) {
  if (p->socket < 0) return groups_of(0, GROUPS);
  if (step + 1 == STEPS) return groups_of(0, p->rank == 0 ? GROUPS : 0);
  return groups_of(p->rank == 0 ? 0 : GROUPS / 2, GROUPS / 2);
}

static void write_weights(const host* h, int fd) {
  size_t i;
  for (i = 0; i < rl_model_weight_count(h->model); ++i) {
    const char* name = NULL;
    rl_tensor* tensor = NULL;
    rl_tensor_info info;
    check(rl_model_weight_name(h->model, i, &name, &err));
    check(rl_model_weight(h->model, name, RL_NUL_TERMINATED, NULL, &tensor, &err));
    rl_tensor_info_init(&info, sizeof info);
    check(rl_tensor_get_info(tensor, &info, &err));
    write_all(fd, info.data, info.num_elements * sizeof(float));
    rl_tensor_release(tensor);
  }
}

/* A process that trains, and writes its weights to a pipe. */
static void run(const char* path, int rank, int socket, int result) {
  rl_options* const options = tiny_options(path);
  process p = {rank, socket, NULL};
  host h;
  int step;
  set(options, "model.dtype", "fp32");
  set(options, "pipeline.samples_per_prompt", "2");
  h = open_parts(options, RL_USE_TRAIN, GROUP);
  p.trainer = h.trainer;
  for (step = 0; step < STEPS; ++step) {
    rl_batch* const batch = part_of(&p, step);
    train(&p, batch);
    rl_batch_release(batch);
  }
  write_weights(&h, result);
  close_host(&h);
}

typedef struct child {
  pid_t pid;
  int result;
} child;

static child start(const char* path, int rank, const int* sockets) {
  int pipe_ends[2];
  child c;
  require(pipe(pipe_ends) == 0, "a pipe");
  c.pid = fork();
  require(c.pid >= 0, "a process");
  c.result = pipe_ends[0];
  if (c.pid > 0) {
    close(pipe_ends[1]);
    return c;
  }
  if (sockets != NULL) close(sockets[1 - rank]);
  run(path, rank, sockets != NULL ? sockets[rank] : -1, pipe_ends[1]);
  exit(0);
}

/* The weights of a process, which ends. */
static float* weights_of(child c, size_t* count) {
  size_t size = 0, room = (size_t)1 << 26;
  char* const data = malloc(room);
  int status = 0;
  ssize_t n;
  require(data != NULL, "there is memory");
  while ((n = read(c.result, data + size, room - size)) > 0) size += (size_t)n;
  close(c.result);
  require(waitpid(c.pid, &status, 0) == c.pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "a process succeeds");
  *count = size / sizeof(float);
  return (float*)(void*)data;
}

static double relative_difference(const float* a, const float* b, size_t count) {
  double difference = 0, norm = 0;
  size_t i;
  for (i = 0; i < count; ++i) {
    difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    norm += (double)a[i] * a[i];
  }
  return sqrt(difference / norm);
}

int main(int argc, char** argv) {
  int sockets[2];
  child children[3];
  float* weights[3];
  size_t counts[3], i;
  double difference;
  if (argc != 2) {
    fprintf(stderr, "usage: parts_gradients MODEL\n");
    return 2;
  }
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "a pair of sockets");
  children[0] = start(argv[1], 0, sockets);
  children[1] = start(argv[1], 1, sockets);
  close(sockets[0]);
  close(sockets[1]);
  children[2] = start(argv[1], 0, NULL);
  for (i = 0; i < 3; ++i) weights[i] = weights_of(children[i], &counts[i]);
  require(counts[0] > 0 && counts[0] == counts[1] && counts[0] == counts[2], "all weights came");
  require(memcmp(weights[0], weights[1], counts[0] * sizeof(float)) == 0, "both have the same");
  difference = relative_difference(weights[2], weights[0], counts[0]);
  printf("%d steps: two processes differ from one by %.2g (relative L2)\n", STEPS, difference);
  require(difference <= 1e-6, "and those of one process");
  for (i = 0; i < 3; ++i) free(weights[i]);
  return 0;
}
