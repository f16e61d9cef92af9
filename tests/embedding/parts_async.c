/* An engine that generates while a trainer trains: the engine computes on a thread of the library,
 * reports to a queue, and goes on under new weights in the middle of a sample. The host has one
 * thread, which waits on one descriptor.
 *
 *   parts_async MODEL */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>

#include "parts_host.h"

enum { STEPS = 4, PROMPTS = 2, GROUP = 4, MOST_GROUPS = 6 };

typedef struct loop {
  host h;
  rl_event_queue* queue;
  uint64_t submitted; /* groups */
  uint64_t version, steps;
  uint64_t finished, streamed; /* samples that have finished, tokens that were streamed */
} loop;

/* region: open */
static void open_loop(loop* l, const char* path) {
  rl_options* const options = tiny_options(path);
  memset(l, 0, sizeof *l);
  set(options, "engine.thread", "true");
  set(options, "engine.stream_tokens", "4"); /* an event for every four tokens of a sample */
  set(options, "model.compute_copies", "2"); /* one that engines read, one that is trained */
  set(options, "buffer.max_staleness", "2"); /* groups of older versions are not trained on */
  l->h = open_parts(options, RL_USE_PARTS, (uint64_t)MOST_GROUPS * GROUP);
  check(rl_event_queue_create(&l->queue, &err));
  check(rl_engine_set_queue(l->h.engine, l->queue, 7, &err)); /* 7 is `source` of its events */
}
/* end of region */

/* region: feed */
/* Keeps MOST_GROUPS groups on their way: waiting, running or in the buffer. */
static void submit_more(loop* l) {
  rl_buffer_stats stats;
  rl_buffer_stats_init(&stats, sizeof stats);
  check(rl_buffer_get_stats(l->h.buffer, &stats, &err));
  const uint64_t gone = (stats.taken + stats.stale + stats.dropped) / GROUP;
  while (l->submitted - gone < MOST_GROUPS) submit_group(&l->h, l->submitted++);
}
/* end of region */

/* region: events */
/* Takes every event that is there, without waiting. */
static void take_events(loop* l) {
  rl_event* event = NULL;
  rl_status status;
  while ((status = rl_event_queue_next(l->queue, 0, &event, &err)) == RL_OK) {
    rl_event_view view;
    rl_sample_view sample;
    rl_event_view_init(&view, sizeof view);
    rl_sample_view_init(&sample, sizeof sample);
    check(rl_event_get_view(event, &view, &err));
    if (view.kind == RL_EVENT_ENGINE_FAILED) {
      fprintf(stderr, "engine %" PRIu64 ": %s\n", view.source, view.text);
      exit(1);
    }
    check(rl_event_sample(event, 0, &sample, &err));
    if (view.kind == RL_EVENT_TOKENS) l->streamed += sample.num_ids;
    if (view.kind == RL_EVENT_FINISHED) ++l->finished;
    rl_event_release(event);
  }
  if (status != RL_TIMEOUT) check(status);
}
/* end of region */

/* region: collect */
/* Moves the samples that have finished from the engine to the buffer. */
static void collect(const loop* l) {
  rl_batch* batch = NULL;
  const rl_status status = rl_engine_take(l->h.engine, &batch, &err);
  if (status == RL_WOULD_BLOCK || status == RL_IDLE) return; /* none has finished */
  check(status);
  score_batch(batch);
  check(rl_buffer_put_batch(l->h.buffer, batch, &err));
  rl_batch_release(batch);
}
/* end of region */

/* region: train */
/* Trains if the buffer has enough groups. Returns 1 if it did. */
static int train(loop* l) {
  rl_take take;
  rl_step step;
  rl_batch* batch = NULL;
  rl_event* event = NULL;
  rl_status status;
  rl_take_init(&take, sizeof take);
  take.min_groups = take.max_groups = PROMPTS;
  take.version = l->version; /* the weights that are trained now, for buffer.max_staleness */
  status = rl_buffer_take(l->h.buffer, &take, 0, &batch, &err);
  if (status == RL_TIMEOUT) return 0; /* fewer are complete */
  check(status);
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  check(rl_trainer_step(l->h.trainer, &step, &event, &err));  /* the engine goes on meanwhile */
  check(rl_trainer_publish(l->h.trainer, &l->version, &err)); /* its next step reads these */
  require(metric(event, "training/logprob_max_abs_diff") == 0, "log-probs are equal");
  ++l->steps;
  rl_event_release(event);
  rl_batch_release(batch);
  return 1;
}
/* end of region */

/* region: loop */
static void run(loop* l) {
  while (l->steps < STEPS) {
    struct pollfd entry = {rl_event_queue_fd(l->queue), POLLIN, 0};
    submit_more(l);
    poll(&entry, 1, 1000); /* the host's own event loop: librl's descriptor is one of many */
    take_events(l);
    collect(l);
    while (l->steps < STEPS && train(l)) submit_more(l);
  }
}
/* end of region */

/* region: abort */
/* Ends all requests. Their samples come back as far as they are. */
static rl_batch* abort_all(const loop* l) {
  rl_batch* batch = NULL;
  check(rl_engine_abort(l->h.engine, 0, NULL, &err));
  check(rl_engine_take(l->h.engine, &batch, &err)); /* RL_IDLE if nothing ran */
  return batch;
}
/* end of region */

/* region: resume */
/* Goes on with every sample of a batch that was aborted. */
static size_t resume(const loop* l, const rl_batch* batch) {
  size_t i, count = 0;
  for (i = 0; i < rl_batch_count(batch); ++i) {
    const rl_sample_view view = sample_at(batch, i);
    rl_request request;
    uint64_t id = 0;
    if (view.finish != RL_FINISH_ABORTED) continue;
    rl_request_init(&request, sizeof request);
    request.resume = &view; /* keeps sample_id, ordinal, slot, ids, log-probs and versions */
    check(rl_engine_submit(l->h.engine, &request, &id, &err));
    require(id == view.sample_id, "a sample keeps its id");
    ++count;
  }
  return count;
}
/* end of region */

/* Aborts what is there and generates the rest of it. The pause keeps the engine from finishing it
 * before. */
static void stop_and_go_on(loop* l) {
  rl_batch *part, *rest = NULL;
  size_t resumed;
  check(rl_engine_pause(l->h.engine, &err));
  submit_group(&l->h, l->submitted++);
  part = abort_all(l);
  resumed = resume(l, part);
  require(resumed >= GROUP, "unfinished samples were aborted");
  check(rl_engine_unpause(l->h.engine, &err));
  check(rl_engine_run(l->h.engine, &err)); /* waits for the engine's thread */
  check(rl_engine_take(l->h.engine, &rest, &err));
  require(rl_batch_count(rest) == resumed, "all of them finish");
  require(sample_at(rest, 0).num_aborts == 1, "an abort is counted");
  take_events(l);
  rl_batch_release(part);
  rl_batch_release(rest);
}

int main(int argc, char** argv) {
  loop l;
  rl_buffer_stats stats;
  if (argc != 2) {
    fprintf(stderr, "usage: parts_async MODEL\n");
    return 2;
  }
  open_loop(&l, argv[1]);
  run(&l);
  require(l.version == STEPS, "a publication is a version");
  stop_and_go_on(&l);
  require(l.finished > 0 && l.streamed > l.finished, "events have come");
  rl_buffer_stats_init(&stats, sizeof stats);
  check(rl_buffer_get_stats(l.h.buffer, &stats, &err));
  require(stats.put == stats.taken + stats.stale + stats.dropped + stats.samples, "none is lost");
  printf("%" PRIu64 " steps, %" PRIu64 " samples trained on, %" PRIu64 " stale\n", l.steps,
         stats.taken, stats.stale);
  rl_event_queue_release(l.queue);
  close_host(&l.h);
  return 0;
}
