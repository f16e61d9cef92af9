/* A buffer by itself: groups that are complete, taken by a rule, too old, dropped and waited for. A
 * buffer needs neither a model nor a runtime.
 *
 *   parts_buffer FILE        FILE is written and read again */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "parts_host.h"

enum { GROUP = 2, MOST_SAMPLES = 12 };

/* region: create */
static rl_buffer* create(const char* policy, const char* max_staleness) {
  rl_options* options = NULL;
  rl_buffer* buffer = NULL;
  check(rl_options_create(&options, &err));
  set(options, "pipeline.samples_per_prompt", "2");    /* samples of a complete group: GROUP */
  set(options, "buffer.policy", policy);               /* fifo or newest */
  set(options, "buffer.max_staleness", max_staleness); /* versions; -1: any */
  check(rl_buffer_create(options, MOST_SAMPLES, &buffer, &err));
  rl_options_destroy(options); /* the buffer has a copy */
  return buffer;
}
/* end of region */

/* region: put */
/* Copies a sample of two generated tokens into the buffer. */
static rl_status put(rl_buffer* buffer, uint64_t ordinal, uint32_t slot, uint64_t version) {
  const int32_t ids[] = {1, 5, 9, 7}; /* a prompt of two tokens, then the response */
  const float logprobs[] = {-1.5f, -0.25f};
  const uint64_t versions[] = {version, version};
  rl_sample_view sample;
  rl_sample_view_init(&sample, sizeof sample);
  sample.sample_id = ordinal * GROUP + slot + 1;
  sample.ordinal = ordinal; /* its group */
  sample.slot = slot;       /* its place in the group */
  sample.ids = ids;
  sample.num_ids = 4;
  sample.num_prompt = 2;
  sample.logprobs = logprobs;
  sample.versions = versions;
  sample.scored = 1;
  sample.reward = 0.5 * slot;
  return rl_buffer_put(buffer, &sample, &err);
}
/* end of region */

static void put_group(rl_buffer* buffer, uint64_t ordinal, uint64_t version) {
  uint32_t slot;
  for (slot = 0; slot < GROUP; ++slot) check(put(buffer, ordinal, slot, version));
}

/* region: take */
/* Takes up to max_groups complete groups for training the weights of a version. NULL when there are
 * none in time. */
static rl_batch* take(rl_buffer* buffer, uint64_t max_groups, uint64_t version,
                      int64_t timeout_ns) {
  rl_take rule;
  rl_batch* batch = NULL;
  rl_status status;
  rl_take_init(&rule, sizeof rule);
  rule.min_groups = 1;
  rule.max_groups = max_groups;
  rule.version = version;
  status = rl_buffer_take(buffer, &rule, timeout_ns, &batch, &err);
  if (status != RL_TIMEOUT) check(status);
  return batch;
}
/* end of region */

static uint64_t ordinal_taken(rl_buffer* buffer, uint64_t version) {
  rl_batch* const batch = take(buffer, 1, version, 0);
  const uint64_t ordinal = batch != NULL ? sample_at(batch, 0).ordinal : UINT64_MAX;
  require(batch == NULL || rl_batch_count(batch) == GROUP, "groups are whole");
  rl_batch_release(batch);
  return ordinal;
}

static void groups_become_complete(void) {
  rl_buffer* const buffer = create("fifo", "-1");
  uint64_t i;
  check(put(buffer, 4, 0, 0));
  require(take(buffer, 1, 0, 0) == NULL, "half a group is not taken");
  expect(RL_DUPLICATE, put(buffer, 4, 0, 0));
  expect(RL_OUT_OF_RANGE, put(buffer, 4, GROUP, 0));
  check(put(buffer, 4, 1, 0));
  put_group(buffer, 3, 0);
  require(ordinal_taken(buffer, 0) == 3 && ordinal_taken(buffer, 0) == 4, "fifo");
  for (i = 0; i < MOST_SAMPLES / GROUP; ++i) put_group(buffer, i, 0);
  expect(RL_RESOURCE_EXHAUSTED, put(buffer, 100, 0, 0)); /* it is full: take, or drop */
  rl_buffer_destroy(buffer);
}

static void newest_and_stale(void) {
  rl_buffer* const buffer = create("newest", "1");
  rl_buffer_stats stats;
  put_group(buffer, 1, 5);
  put_group(buffer, 2, 6);
  put_group(buffer, 3, 7);
  require(ordinal_taken(buffer, 7) == 3, "newest");
  require(ordinal_taken(buffer, 7) == 2, "one version behind");
  require(ordinal_taken(buffer, 7) == UINT64_MAX, "two versions behind is too old");
  rl_buffer_stats_init(&stats, sizeof stats);
  check(rl_buffer_get_stats(buffer, &stats, &err));
  require(stats.stale == GROUP && stats.samples == 0, "stale samples are counted and gone");
  rl_buffer_destroy(buffer);
}

/* region: drop */
/* Drops what will never be complete of these groups, for example those of a process that is gone.
 * Returns the number of samples. */
static uint64_t drop_incomplete(rl_buffer* buffer, const uint64_t* ordinals, size_t count) {
  rl_drop rule;
  uint64_t num_samples = 0;
  rl_drop_init(&rule, sizeof rule);
  rule.ordinals = ordinals; /* NULL: of all groups */
  rule.num_ordinals = count;
  rule.incomplete_only = 1;
  check(rl_buffer_drop(buffer, &rule, &num_samples, &err));
  return num_samples;
}
/* end of region */

static void drops(void) {
  const uint64_t of_lost_process[] = {1, 2, 3};
  rl_buffer* const buffer = create("fifo", "-1");
  uint64_t dropped = 0;
  put_group(buffer, 1, 0);
  check(put(buffer, 2, 1, 0));
  check(put(buffer, 9, 0, 0));
  require(drop_incomplete(buffer, of_lost_process, 3) == 1, "the half group");
  require(drop_incomplete(buffer, NULL, 0) == 1, "the other half group");
  check(rl_buffer_drop(buffer, NULL, &dropped, &err)); /* everything */
  require(dropped == GROUP, "the whole group");
  rl_buffer_destroy(buffer);
}

/* region: wait */
/* A trainer's thread: takes groups as they become complete, until the buffer ends. */
static void* take_until_the_end(void* user_data) {
  rl_buffer* const buffer = user_data;
  static uint64_t num_taken;
  for (;;) {
    rl_error* error = NULL; /* each thread has its own */
    rl_batch* batch = NULL;
    const rl_status status = rl_buffer_take(buffer, NULL, -1, &batch, &error);
    if (status == RL_OK) num_taken += rl_batch_count(batch);
    rl_batch_release(batch);
    rl_error_release(error);
    /* RL_DONE: destroyed while this thread waited; RL_STALE_HANDLE: before it called. */
    if (status != RL_OK) return status == RL_DONE || status == RL_STALE_HANDLE ? &num_taken : NULL;
  }
}
/* end of region */

static void waits(void) {
  rl_buffer* const buffer = create("fifo", "-1");
  rl_buffer_stats stats;
  pthread_t trainer;
  void* num_taken = NULL;
  uint64_t i;
  require(pthread_create(&trainer, NULL, take_until_the_end, buffer) == 0, "a thread starts");
  for (i = 0; i < 4; ++i) put_group(buffer, i, 0);
  rl_buffer_stats_init(&stats, sizeof stats);
  do check(rl_buffer_get_stats(buffer, &stats, &err));
  while (stats.samples > 0);
  rl_buffer_destroy(buffer);
  pthread_join(trainer, &num_taken);
  require(num_taken != NULL && *(uint64_t*)num_taken == 4 * GROUP, "the thread took all");
}

static void files(const char* path) {
  rl_buffer *from = create("fifo", "-1"), *to = create("fifo", "-1");
  uint64_t count = 0;
  put_group(from, 1, 3);
  check(put(from, 2, 0, 3));
  /* region: save */
  check(rl_buffer_save(from, path, RL_NUL_TERMINATED, NULL, RL_SAVE_REPLACE, &err));
  check(rl_buffer_load(to, path, RL_NUL_TERMINATED, NULL, &count, &err));
  /* end of region */
  require(count == GROUP + 1, "incomplete groups are saved too");
  expect(RL_DUPLICATE, rl_buffer_load(to, path, RL_NUL_TERMINATED, NULL, &count, &err));
  check(put(to, 2, 1, 3));
  require(ordinal_taken(to, 3) == 1 && ordinal_taken(to, 3) == 2, "the group became complete");
  rl_buffer_destroy(from);
  rl_buffer_destroy(to);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: parts_buffer FILE\n");
    return 2;
  }
  groups_become_complete();
  newest_and_stale();
  drops();
  waits();
  files(argv[1]);
  return 0;
}
