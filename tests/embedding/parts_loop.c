/* A loop of many steps from parts: an engine generates, the host scores, a buffer collects groups,
 * a trainer steps. The host names the groups of a step, and every step must find the log-probs of
 * sampling and training equal.
 *
 *   parts_loop MODEL DIRECTORY        MODEL is a model with a tokenizer */
#include "parts_host.h"

enum { STEPS = 5, PROMPTS = 3, GROUP = 4 };

/* region: plan */
/* What the process will hold, before any of it is allocated. */
static void print_plan(const rl_options* options) {
  rl_plan* plan = NULL;
  rl_plan_info info;
  rl_plan_info_init(&info, sizeof info);
  check(rl_plan_create(options, RL_USE_PARTS, &plan, &err)); /* reads the model's header */
  check(rl_plan_get_info(plan, &info, &err));
  printf("%" PRIu64 " bytes, of which %" PRIu64 " are arenas\n", info.total_bytes,
         info.arena_bytes);
  rl_plan_release(plan);
}
/* end of region */

/* region: open */
static host open_host(const char* path) {
  host h;
  memset(&h, 0, sizeof h);
  check(rl_options_create(&h.options, &err));
  set(h.options, "model.path", path);
  set(h.options, "runtime.seed", "11");
  set(h.options, "engine.max_model_len", "64");       /* tokens of the longest sequence */
  set(h.options, "engine.max_num_seqs", "8");         /* samples that are generated at once */
  set(h.options, "pipeline.prompts_per_step", "3");   /* groups of a step: PROMPTS */
  set(h.options, "pipeline.samples_per_prompt", "4"); /* samples of a group: GROUP */
  set(h.options, "sampling.max_new_tokens", "12");
  set(h.options, "trainer.max_tokens_per_device", "256");
  set(h.options, "optimizer.lr", "1e-3");
  check(rl_runtime_create(RL_ABI_VERSION, h.options, &h.runtime, &err));
  check(rl_model_open(h.runtime, NULL, RL_USE_PARTS, &h.model, &err));
  check(rl_engine_create(h.model, NULL, &h.engine, &err));
  check(rl_trainer_create(h.model, NULL, &h.trainer, &err));
  check(rl_buffer_create(h.options, (uint64_t)PROMPTS * GROUP, &h.buffer, &err));
  return h;
}
/* end of region */

/* region: encode */
/* A text as token ids: int32_t each, rl_bytes_size / 4 of them. */
static rl_bytes* encode(const host* h, const char* text) {
  rl_bytes* ids = NULL;
  check(rl_model_encode(h->model, text, RL_NUL_TERMINATED, RL_TEXT_ADD_SPECIAL, &ids, &err));
  return ids;
}
/* end of region */

/* region: submit */
/* Queues the groups of a step. Group i of step s is number s * PROMPTS + i of the run. */
static void submit_step(const host* h, uint64_t step) {
  uint64_t i;
  for (i = 0; i < PROMPTS; ++i) {
    char question[32];
    rl_bytes* ids;
    rl_request request;
    uint64_t first_id = 0; /* of slot 0; slot k has first_id + k */
    snprintf(question, sizeof question, "%d + %d?", (int)step, (int)i);
    ids = encode(h, question);
    rl_request_init(&request, sizeof request);
    request.prompt = rl_bytes_data(ids);
    request.num_prompt = rl_bytes_size(ids) / sizeof(int32_t);
    request.num_samples = GROUP;
    request.ordinal = step * PROMPTS + i;
    request.tag = question; /* comes back in every sample */
    request.tag_len = RL_NUL_TERMINATED;
    check(rl_engine_submit(h->engine, &request, &first_id, &err));
    rl_bytes_release(ids); /* the request has a copy */
  }
}
/* end of region */

/* A sample knows its group, its place in it, and what generated it. */
static void look_at(const host* h, const rl_batch* batch, uint64_t step) {
  size_t i;
  for (i = 0; i < rl_batch_count(batch); ++i) {
    const rl_sample_view view = sample_at(batch, i);
    rl_bytes* text = NULL;
    require(view.ordinal / PROMPTS == step && view.slot < GROUP, "a group has its name");
    require(view.versions[0] == step, "a token names the weights that generated it");
    require(view.tag_len >= 6 && view.tag[0] == (char)('0' + step), "a tag comes back");
    /* region: decode */
    check(rl_model_decode(h->model, view.ids + view.num_prompt, view.num_ids - view.num_prompt,
                          RL_TEXT_SKIP_SPECIAL, &text, &err));
    /* end of region */
    rl_bytes_release(text);
  }
}

/* region: generate */
/* The samples of a step, scored. */
static rl_batch* generate_step(const host* h, uint64_t step) {
  rl_batch* batch = NULL;
  submit_step(h, step);
  check(rl_engine_run(h->engine, &err)); /* computes on this thread until nothing is left to do */
  check(rl_engine_take(h->engine, &batch, &err));
  look_at(h, batch, step);
  score_batch(batch);
  return batch;
}
/* end of region */

/* region: read_step */
static void read_step(const rl_event* event, uint64_t expected) {
  rl_event_view view;
  rl_event_view_init(&view, sizeof view);
  check(rl_event_get_view(event, &view, &err));
  require(view.kind == RL_EVENT_STEP && view.step == expected, "steps are counted from 1");
  require(metric(event, "training/logprob_max_abs_diff") == 0, "log-probs are equal");
  require(metric(event, "training/logprob_compared_tokens") > 0, "log-probs were compared");
  printf("step %" PRIu64 ": reward %.3f, grad norm %.4f\n", view.step,
         metric(event, "critic/rewards/mean"), metric(event, "actor/grad_norm"));
}
/* end of region */

/* region: train */
/* Trains on the groups of the buffer. Returns the version of the new weights. */
static uint64_t train_step(const host* h, uint64_t version) {
  rl_take take;
  rl_step step;
  rl_batch* batch = NULL;
  rl_event* event = NULL;
  rl_take_init(&take, sizeof take);
  take.min_groups = take.max_groups = PROMPTS;
  take.version = version; /* what is trained; only buffer.max_staleness reads it */
  check(rl_buffer_take(h->buffer, &take, 0, &batch, &err));
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  check(rl_trainer_step(h->trainer, &step, &event, &err));
  check(rl_trainer_publish(h->trainer, &version, &err));
  read_step(event, version);
  rl_event_release(event);
  rl_batch_release(batch);
  return version;
}
/* end of region */

/* region: loop */
static void run(const host* h) {
  uint64_t version = 0, step;
  for (step = 0; step < STEPS; ++step) {
    rl_batch* const batch = generate_step(h, step);
    check(rl_buffer_put_batch(h->buffer, batch, &err)); /* has its own: the batch may end */
    rl_batch_release(batch);
    version = train_step(h, version);
  }
  require(version == STEPS, "a step is a version");
}
/* end of region */

/* region: save */
/* The trained model as a directory that transformers and rl_model_open read. */
static void save(const host* h, const char* dir) {
  check(rl_model_save(h->model, dir, RL_NUL_TERMINATED, RL_DTYPE_F32, RL_SAVE_REPLACE, &err));
}
/* end of region */

int main(int argc, char** argv) {
  host h;
  uint64_t before;
  if (argc != 3) {
    fprintf(stderr, "usage: parts_loop MODEL DIRECTORY\n");
    return 2;
  }
  h = open_host(argv[1]);
  print_plan(h.options);
  before = digest_of(h.model);
  run(&h);
  require(digest_of(h.model) != before, "the weights have changed");
  printf("weights %016" PRIx64 "\n", digest_of(h.model));
  save(&h, argv[2]);
  close_host(&h);
  return 0;
}
