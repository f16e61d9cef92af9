/* Conversations: a group whose samples have two turns of the model each, with an answer of the
 * environment between them, trained on as any other group.
 *
 *   parts_turns MODEL */
#include "parts_host.h"

enum { GROUP = 4, TURNS = 2 };

/* region: begin */
/* A group: a conversation and its forks, which have the slots 0 to GROUP - 1 of one ordinal. */
static void begin(const host* h, uint64_t ordinal, rl_conversation** group) {
  const int32_t ids[] = {1, 2, 3};
  rl_content prompt;
  uint32_t slot;
  rl_content_init(&prompt, sizeof prompt);
  prompt.ids = ids;
  prompt.num_ids = 3;
  prompt.ordinal = ordinal;
  prompt.tag = "weather";
  prompt.tag_len = RL_NUL_TERMINATED;
  check(rl_conversation_create(h->engine, &prompt, &group[0], &err));
  for (slot = 1; slot < GROUP; ++slot) {
    check(rl_conversation_fork(group[0], &group[slot], &err));
  }
}
/* end of region */

/* region: turn */
/* One turn of the model in every conversation. */
static void generate_turns(const host* h, rl_conversation** group) {
  size_t i;
  for (i = 0; i < GROUP; ++i) check(rl_conversation_generate(group[i], NULL, &err));
  check(rl_engine_run(h->engine, &err)); /* all of them together, with all other requests */
}
/* end of region */

/* region: answer */
/* Reads what the model wrote in its last turn, and appends what the environment answers. */
static void answer(rl_conversation* conversation, uint64_t turn_begin) {
  rl_batch* batch = NULL; /* a copy of the sample so far */
  rl_sample_view view;
  rl_content content;
  int32_t ids[2] = {4, 0};
  rl_sample_view_init(&view, sizeof view);
  check(rl_conversation_sample(conversation, &batch, &err));
  check(rl_batch_sample(batch, 0, &view, &err));
  ids[1] = view.ids[turn_begin]; /* the environment repeats the first id of the turn */
  rl_batch_release(batch);
  rl_content_init(&content, sizeof content);
  content.ids = ids;
  content.num_ids = 2;
  check(rl_conversation_append(conversation, &content, &err));
}
/* end of region */

/* region: info */
static rl_conversation_info info_of(const rl_conversation* conversation) {
  rl_conversation_info info;
  rl_conversation_info_init(&info, sizeof info);
  check(rl_conversation_get_info(conversation, &info, &err));
  return info;
}
/* end of region */

/* region: end */
/* The finished samples of a group, as one batch. */
static rl_batch* end(rl_conversation** group) {
  rl_batch_part parts[GROUP];
  rl_batch* ones[GROUP];
  rl_batch* batch = NULL;
  size_t i;
  for (i = 0; i < GROUP; ++i) {
    check(rl_conversation_sample(group[i], &ones[i], &err));
    rl_batch_part_init(&parts[i], sizeof parts[i]);
    parts[i].batch = ones[i];
  }
  check(rl_batch_select(parts, GROUP, &batch, &err));
  for (i = 0; i < GROUP; ++i) {
    rl_batch_release(ones[i]);
    rl_conversation_destroy(group[i]);
  }
  return batch;
}
/* end of region */

/* Only what the model generated carries loss. */
static void look_at(const rl_batch* batch, const uint64_t* begins) {
  size_t i;
  for (i = 0; i < GROUP; ++i) {
    const rl_sample_view view = sample_at(batch, i);
    const size_t at = (size_t)begins[i] - view.num_prompt; /* of the answer */
    require(view.slot == i && view.num_prompt == 3, "slots of one group");
    require(view.loss_mask[at - 1] == 1 && view.loss_mask[at] == 0 && view.loss_mask[at + 1] == 0 &&
                view.loss_mask[at + 2] == 1,
            "the answer carries no loss");
    require(view.versions[at] == UINT64_MAX && view.logprobs[at] == 0, "nobody generated it");
    require(view.ids[begins[i] + 1] == view.ids[view.num_prompt], "ids are as given");
  }
}

static void train(const host* h, rl_batch* scored) {
  rl_step step;
  rl_batch* batch = NULL;
  rl_event* event = NULL;
  check(rl_buffer_put_batch(h->buffer, scored, &err));
  check(rl_buffer_take(h->buffer, NULL, 0, &batch, &err));
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  check(rl_trainer_step(h->trainer, &step, &event, &err));
  require(metric(event, "training/logprob_max_abs_diff") == 0, "log-probs are equal");
  require(metric(event, "training/logprob_compared_tokens") > 0, "log-probs were compared");
  rl_event_release(event);
  rl_batch_release(batch);
}

/* region: group */
/* A group of TURNS turns. Returns its samples, and where in each the first answer begins. */
static rl_batch* play(const host* h, uint64_t ordinal, uint64_t* first_answers) {
  rl_conversation* group[GROUP];
  uint64_t turn_begins[GROUP];
  size_t turn, i;
  begin(h, ordinal, group);
  for (turn = 1;; ++turn) {
    for (i = 0; i < GROUP; ++i) turn_begins[i] = info_of(group[i]).num_ids;
    generate_turns(h, group);
    if (turn == 1) {
      for (i = 0; i < GROUP; ++i) first_answers[i] = info_of(group[i]).num_ids;
    }
    if (turn == TURNS) return end(group);
    for (i = 0; i < GROUP; ++i) answer(group[i], turn_begins[i]);
  }
}
/* end of region */

int main(int argc, char** argv) {
  uint64_t begins[GROUP];
  rl_batch* batch;
  host h;
  if (argc != 2) {
    fprintf(stderr, "usage: parts_turns MODEL\n");
    return 2;
  }
  h = open_parts(tiny_options(argv[1]), RL_USE_PARTS, GROUP);
  batch = play(&h, 0, begins);
  look_at(batch, begins);
  score_batch(batch);
  train(&h, batch);
  rl_batch_release(batch);
  close_host(&h);
  return 0;
}
