/* A trainer that is saved and goes on elsewhere with the same bits, and whose learning rate changes
 * between steps.
 *
 *   parts_checkpoint MODEL DIRECTORY        neither DIRECTORY nor DIRECTORY_rates exists yet */
#include "parts_host.h"

enum { GROUPS = 2, STEPS = 4 };

/* region: save */
/* Saves a trainer. `state` is for the host: here the number of the next group. */
static void save(rl_trainer* trainer, const char* dir, const char* state) {
  rl_checkpoint checkpoint;
  rl_bytes* path = NULL;
  rl_checkpoint_init(&checkpoint, sizeof checkpoint);
  checkpoint.dir = dir;
  checkpoint.state = state;
  checkpoint.state_len = strlen(state);
  checkpoint.keep_last = 2;
  check(rl_trainer_save(trainer, &checkpoint, &path, &err));
  printf("saved %s\n", (const char*)rl_bytes_data(path)); /* DIR/step_000002 */
  rl_bytes_release(path);
}
/* end of region */

/* region: load */
/* Loads the newest checkpoint of a directory. Returns the number of the next group: 0 for a run
 * that begins. */
static uint64_t load(rl_trainer* trainer, const char* dir) {
  rl_bytes* state = NULL;
  uint64_t next = 0;
  const rl_status status = rl_trainer_load(trainer, dir, RL_NUL_TERMINATED, &state, &err);
  if (status == RL_NOT_FOUND) { /* there is none */
    rl_error_release(err);
    return 0;
  }
  check(status);
  next = strtoull(rl_bytes_data(state), NULL, 10);
  rl_bytes_release(state);
  return next;
}
/* end of region */

static void train(const host* h, uint64_t ordinal) {
  rl_batch* const batch = generate_groups(h, ordinal, GROUPS);
  rl_step step;
  rl_event* event = NULL;
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  check(rl_trainer_step(h->trainer, &step, &event, &err));
  rl_event_release(event);
  rl_batch_release(batch);
}

/* region: run */
/* Trains up to a number of groups, from the newest checkpoint on. */
static uint64_t run(const char* model, const char* dir, uint64_t groups) {
  host h = open_parts(tiny_options(model), RL_USE_PARTS, 8);
  uint64_t next = dir != NULL ? load(h.trainer, dir) : 0, digest;
  char state[32];
  for (; next < groups; next += GROUPS) train(&h, next);
  snprintf(state, sizeof state, "%" PRIu64, next);
  if (dir != NULL) save(h.trainer, dir, state);
  digest = digest_of(h.model);
  close_host(&h);
  return digest;
}
/* end of region */

/* region: options */
/* A learning rate for the steps from here on. */
static void set_rate(const host* h, const char* rate) {
  set(h->options, "optimizer.lr", rate);
  check(rl_trainer_set_options(h->trainer, h->options, &err));
}
/* end of region */

/* Of what cannot change nothing is applied; and a trainer loads with the options of the saved one.
 */
static void rates(const char* model, const char* dir) {
  host h = open_parts(tiny_options(model), RL_USE_PARTS, 8);
  rl_bytes* state = NULL;
  set_rate(&h, "5e-4");
  train(&h, 0);
  save(h.trainer, dir, "");
  set(h.options, "trainer.max_tokens_per_device", "128");
  expect(RL_NOT_CHANGEABLE, rl_trainer_set_options(h.trainer, h.options, &err));
  close_host(&h);
  h = open_parts(tiny_options(model), RL_USE_PARTS, 8);
  expect(RL_INCOMPATIBLE, rl_trainer_load(h.trainer, dir, RL_NUL_TERMINATED, &state, &err));
  set_rate(&h, "5e-4");
  require(load(h.trainer, dir) == 0, "an empty state");
  close_host(&h);
}

int main(int argc, char** argv) {
  uint64_t whole, resumed;
  char other[256];
  if (argc != 3) {
    fprintf(stderr, "usage: parts_checkpoint MODEL DIRECTORY\n");
    return 2;
  }
  whole = run(argv[1], NULL, STEPS * GROUPS);
  resumed = run(argv[1], argv[2], STEPS * GROUPS / 2);
  require(resumed != whole, "half of the steps");
  resumed = run(argv[1], argv[2], STEPS * GROUPS);
  require(resumed == whole, "a resumed run has the bits of one that was never stopped");
  snprintf(other, sizeof other, "%s_rates", argv[2]);
  rates(argv[1], other);
  return 0;
}
