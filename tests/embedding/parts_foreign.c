/* Samples of another engine: the host makes batches of its own arrays, in any number of pieces,
 * and trains on them.
 *
 *   parts_foreign MODEL */
#include <math.h>

#include "parts_host.h"

enum { GROUP = 4, MOST_IDS = 64 };

/* What another engine returns for a prompt: token ids, and the log-prob of each of its tokens. */
typedef struct response {
  int32_t ids[MOST_IDS]; /* prompt and response */
  size_t num_prompt, num_ids;
  float logprobs[MOST_IDS]; /* of the response */
  double reward;
} response;

/* Stands for the other engine, whose log-probs are rounded otherwise. */
static void generate_elsewhere(const host* h, response* out) {
  rl_batch* const batch = generate_groups(h, 0, 1);
  size_t i, k;
  for (i = 0; i < GROUP; ++i) {
    const rl_sample_view view = sample_at(batch, i);
    require(view.num_ids <= MOST_IDS, "it fits");
    memcpy(out[i].ids, view.ids, view.num_ids * sizeof *view.ids);
    out[i].num_ids = view.num_ids;
    out[i].num_prompt = view.num_prompt;
    for (k = 0; k < view.num_ids - view.num_prompt; ++k) {
      out[i].logprobs[k] = view.logprobs[k] * 1.0001f;
    }
    out[i].reward = (double)(i % 2);
  }
  rl_batch_release(batch);
}

/* region: view */
/* Describes a response as sample `slot` of a group. Nothing is copied yet. */
static rl_sample_view view_of(const response* r, uint64_t ordinal, uint32_t slot) {
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view); /* temperature 1, no optional array */
  view.sample_id = ordinal * GROUP + slot + 1;
  view.ordinal = ordinal;
  view.slot = slot;
  view.finish = RL_FINISH_STOP_TOKEN;
  view.ids = r->ids;
  view.num_ids = r->num_ids;
  view.num_prompt = r->num_prompt;
  view.logprobs = r->logprobs; /* [num_ids - num_prompt] nats; NULL: the trainer computes them */
  view.versions = NULL;        /* unknown: no log-prob is compared */
  view.loss_mask = NULL;       /* every token after the prompt is trained on */
  view.scored = 1;
  view.reward = r->reward;
  return view;
}
/* end of region */

/* region: batch */
static rl_batch* batch_of(const response* responses, size_t count, uint64_t ordinal) {
  rl_sample_view views[GROUP];
  rl_batch* batch = NULL;
  size_t i;
  for (i = 0; i < count; ++i) views[i] = view_of(&responses[i], ordinal, (uint32_t)i);
  check(rl_batch_create(views, count, &batch, &err)); /* copies everything */
  return batch;
}
/* end of region */

/* region: refused */
/* A batch is made whole or not at all; the error says what is wrong with which sample. */
static void refused(const response* good) {
  rl_sample_view views[2];
  rl_batch* batch = NULL;
  views[0] = view_of(good, 0, 0);
  views[1] = view_of(good, 0, 1);
  views[1].reward = NAN;
  if (rl_batch_create(views, 2, &batch, &err) != RL_NON_FINITE) exit(1);
  if (strcmp(rl_error_text(err, RL_ERROR_KEY, NULL), "samples[1].reward") != 0) exit(1);
  rl_error_release(err);
}
/* end of region */

/* region: select */
/* Every sample of one batch, then some of another. */
static rl_batch* join(const rl_batch* whole, const rl_batch* other, const size_t* indices,
                      size_t count) {
  rl_batch_part parts[2];
  rl_batch* joined = NULL;
  rl_batch_part_init(&parts[0], sizeof parts[0]);
  rl_batch_part_init(&parts[1], sizeof parts[1]);
  parts[0].batch = whole; /* indices NULL: all of them */
  parts[1].batch = other;
  parts[1].indices = indices;
  parts[1].num_indices = count;
  check(rl_batch_select(parts, 2, &joined, &err));
  return joined;
}
/* end of region */

/* region: compare */
/* The largest difference between the log-probs of the other engine and those of this model. */
static double largest_difference(const host* h, const rl_batch* batch) {
  rl_forward forward;
  rl_tensor* tensor = NULL;
  rl_tensor_info info;
  double largest = 0;
  size_t i, k, token = 0;
  rl_forward_init(&forward, sizeof forward); /* output RL_OUTPUT_LOGPROBS */
  forward.batch = batch;
  check(rl_trainer_forward(h->trainer, &forward, &tensor, &err));
  rl_tensor_info_init(&info, sizeof info);
  check(rl_tensor_get_info(tensor, &info, &err));
  for (i = 0; i < rl_batch_count(batch); ++i) { /* one sample after the other */
    const rl_sample_view view = sample_at(batch, i);
    for (k = 0; k < view.num_ids - view.num_prompt; ++k, ++token) {
      const double difference = fabs((double)view.logprobs[k] - ((const float*)info.data)[token]);
      if (difference > largest) largest = difference;
    }
  }
  rl_tensor_release(tensor);
  return largest;
}
/* end of region */

static rl_event* step_on(const host* h, const rl_batch* batch) {
  rl_step step;
  rl_event* event = NULL;
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  check(rl_trainer_step(h->trainer, &step, &event, &err));
  return event;
}

/* Log-probs that claim to be of the present weights have to be theirs. */
static void claimed(const host* h, const response* responses) {
  rl_sample_view views[GROUP];
  rl_batch* batch = NULL;
  rl_step step;
  rl_event* event = NULL;
  uint64_t version = 0, versions[MOST_IDS];
  size_t i;
  check(rl_model_version(h->model, &version, &err));
  for (i = 0; i < MOST_IDS; ++i) versions[i] = version;
  for (i = 0; i < GROUP; ++i) {
    views[i] = view_of(&responses[i], 5, (uint32_t)i);
    views[i].versions = versions;
  }
  check(rl_batch_create(views, GROUP, &batch, &err));
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  expect(RL_FAILED_PRECONDITION, rl_trainer_step(h->trainer, &step, &event, &err));
  rl_batch_release(batch);
}

/* region: advantages */
/* Trains on advantages of the host, one for each sample, which rewards have no part in. */
static rl_event* step_by_advantages(const host* h, const rl_batch* batch,
                                    const double* advantages) {
  rl_step step;
  rl_event* event = NULL;
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  step.advantages = advantages;
  step.num_advantages = rl_batch_count(batch);
  check(rl_trainer_step(h->trainer, &step, &event, &err));
  return event;
}
/* end of region */

int main(int argc, char** argv) {
  static response responses[GROUP];
  const size_t last[] = {3, 0};
  const double advantages[] = {1, -1, 0.5, -0.5};
  rl_batch *group, *half, *joined;
  rl_event* event;
  double difference;
  host h;
  if (argc != 2) {
    fprintf(stderr, "usage: parts_foreign MODEL\n");
    return 2;
  }
  h = open_parts(tiny_options(argv[1]), RL_USE_PARTS, 2 * GROUP);
  generate_elsewhere(&h, responses);
  refused(responses);
  group = batch_of(responses, GROUP, 0);
  half = batch_of(responses, 2, 1);
  joined = join(half, group, last, 2);
  require(rl_batch_count(joined) == 4 && sample_at(joined, 2).slot == 3, "parts are joined");
  difference = largest_difference(&h, group);
  require(difference > 0 && difference < 1e-2, "the other engine is close");
  claimed(&h, responses);
  event = step_on(&h, group);
  require(metric(event, "actor/grad_norm") > 0, "rewards differ, so there is a gradient");
  rl_event_release(event);
  event = step_by_advantages(&h, group, advantages);
  rl_event_release(event);
  rl_batch_release(group);
  rl_batch_release(half);
  rl_batch_release(joined);
  close_host(&h);
  return 0;
}
