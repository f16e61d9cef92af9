/* Forwards without a trainer: a process that serves log-probs, entropies and logits, of a model
 * that has neither gradients nor optimizer states.
 *
 *   parts_forward MODEL */
#include <math.h>

#include "parts_host.h"

enum { GROUP = 4 };

/* region: open */
/* A model for forwards alone. */
static rl_model* open_reference(rl_runtime* runtime) {
  rl_model* model = NULL;
  check(rl_model_open(runtime, NULL, RL_USE_FORWARD, &model, &err));
  return model;
}
/* end of region */

/* region: batch */
/* An output for every token after the prompt, sample after sample; the caller frees the array. */
static float* per_token(rl_model* model, const rl_batch* batch, int32_t output, size_t* count) {
  rl_forward forward;
  rl_tensor* tensor = NULL;
  rl_tensor_info info;
  float* values;
  rl_forward_init(&forward, sizeof forward);
  forward.output = output;
  forward.batch = batch; /* each sample at its own temperature */
  check(rl_model_forward(model, &forward, &tensor, &err));
  rl_tensor_info_init(&info, sizeof info);
  check(rl_tensor_get_info(tensor, &info, &err));
  *count = info.num_elements;
  values = malloc(info.num_elements * sizeof *values);
  if (values == NULL) exit(1);
  memcpy(values, info.data, info.num_elements * sizeof *values);
  rl_tensor_release(tensor);
  return values;
}
/* end of region */

/* region: rows */
/* The id that the model finds most probable after a text of ids. */
static int32_t most_probable(rl_model* model, const int32_t* ids, size_t num_ids) {
  const uint64_t last = num_ids - 1;
  rl_forward forward;
  rl_tensor* tensor = NULL;
  rl_tensor_info info;
  const float* logits;
  int64_t i, best = 0;
  rl_forward_init(&forward, sizeof forward);
  forward.output = RL_OUTPUT_LOGITS;
  forward.ids = ids;
  forward.num_ids = num_ids;
  forward.rows = &last; /* one row of logits in place of one for each id */
  forward.num_rows = 1;
  check(rl_model_forward(model, &forward, &tensor, &err));
  rl_tensor_info_init(&info, sizeof info);
  check(rl_tensor_get_info(tensor, &info, &err));
  logits = info.data; /* [1, vocab] */
  for (i = 1; i < info.shape[1]; ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  rl_tensor_release(tensor);
  return (int32_t)best;
}
/* end of region */

/* The log-probs are those of the engine, bit for bit. */
static void equal_logprobs(const rl_batch* batch, const float* logprobs, size_t count) {
  size_t i, token = 0;
  for (i = 0; i < rl_batch_count(batch); ++i) {
    const rl_sample_view view = sample_at(batch, i);
    const size_t tokens = view.num_ids - view.num_prompt;
    require(token + tokens <= count, "every token has its log-prob");
    require(memcmp(&logprobs[token], view.logprobs, tokens * sizeof *logprobs) == 0, "same bits");
    token += tokens;
  }
  require(token == count, "and nothing else");
}

int main(int argc, char** argv) {
  const int32_t ids[] = {1, 2, 3};
  rl_model* reference;
  rl_batch* batch;
  float *logprobs, *entropies;
  size_t count = 0, same = 0, i;
  int32_t best;
  host h;
  if (argc != 2) {
    fprintf(stderr, "usage: parts_forward MODEL\n");
    return 2;
  }
  h = open_parts(tiny_options(argv[1]), RL_USE_GENERATE, GROUP);
  reference = open_reference(h.runtime);
  batch = generate_groups(&h, 0, 1);
  logprobs = per_token(reference, batch, RL_OUTPUT_LOGPROBS, &count);
  entropies = per_token(reference, batch, RL_OUTPUT_ENTROPIES, &same);
  equal_logprobs(batch, logprobs, count);
  require(count == same, "a token has an entropy");
  for (i = 0; i < same; ++i) require(entropies[i] >= 0, "which is not below 0");
  best = most_probable(reference, ids, 3);
  require(best >= 0, "an id");
  free(logprobs);
  free(entropies);
  rl_batch_release(batch);
  rl_model_destroy(reference);
  close_host(&h);
  return 0;
}
