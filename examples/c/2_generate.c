/* 2_generate: asks a model a question and prints several answers.
 *
 *   2_generate MODEL [QUESTION]        MODEL is a Hugging Face directory or a GGUF file
 *
 * New here: rl_runtime_create, rl_model_open, rl_model_encode_chat, rl_engine_submit,
 * rl_engine_run, rl_engine_take, rl_batch_sample, rl_model_decode. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rl.h"

enum { NUM_ANSWERS = 4 };

/* ---- errors ---- */

static rl_error* err; /* of the last call */

static void check(rl_status st) {
  if (st == RL_OK) return;
  fprintf(stderr, "%s\n", err ? rl_error_text(err, RL_ERROR_SUMMARY, NULL) : rl_status_name(st));
  exit(1);
}

/* ---- pieces ---- */

static void set(rl_options* options, const char* key, const char* text) {
  check(rl_options_set_text(options, key, RL_NUL_TERMINATED, text, RL_NUL_TERMINATED, &err));
}

/* A chat of one message as JSON; the caller frees it. */
static char* chat_of(const char* question) {
  static const char begin[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"";
  char* const chat = malloc(sizeof begin + 6 * strlen(question) + sizeof "\"}]}");
  char* out = chat;
  if (chat == NULL) exit(1);
  out += sprintf(out, "%s", begin);
  for (; *question != '\0'; ++question) {
    const unsigned char letter = (unsigned char)*question;
    if (letter < ' ' || letter == '"' || letter == '\\') {
      out += sprintf(out, "\\u%04x", letter);
    } else {
      *out++ = *question;
    }
  }
  strcpy(out, "\"}]}");
  return chat;
}

/* The question as token ids: as a chat when the model has a chat format that librl knows, else as
 * plain text. */
static rl_bytes* encode(const rl_model* model, const char* question) {
  char* const chat = chat_of(question);
  rl_bytes* ids = NULL;
  const rl_status status =
      rl_model_encode_chat(model, chat, RL_NUL_TERMINATED, RL_TEXT_GENERATION_PROMPT, &ids, &err);
  free(chat);
  if (status == RL_OK) return ids;
  if (status != RL_UNSUPPORTED && status != RL_FAILED_PRECONDITION) check(status);
  printf("(no chat: %s)\n", rl_error_text(err, RL_ERROR_MESSAGE, NULL));
  rl_error_release(err);
  check(rl_model_encode(model, question, RL_NUL_TERMINATED, 0, &ids, &err));
  return ids;
}

/* An answer ends where the model ends its turn. */
static void stop_at_end_of_turn(rl_options* options, const rl_model* model) {
  rl_bytes* ids = NULL;
  int64_t stops[16];
  size_t i, count;
  check(rl_model_eos_ids(model, &ids, &err));
  count = rl_bytes_size(ids) / sizeof(int32_t);
  if (count > 16) count = 16;
  for (i = 0; i < count; ++i) stops[i] = ((const int32_t*)rl_bytes_data(ids))[i];
  check(rl_options_set_i64_list(options, "sampling.stop_token_ids", RL_NUL_TERMINATED, stops, count,
                                &err));
  rl_bytes_release(ids);
}

/* Prints an answer with its mean log-prob. Returns 1 when the sample is whole. */
static int print_answer(const rl_model* model, const rl_batch* batch, size_t index) {
  rl_bytes* text = NULL;
  rl_sample_view view;
  double sum = 0;
  size_t i, count;
  rl_sample_view_init(&view, sizeof view);
  check(rl_batch_sample(batch, index, &view, &err));
  count = view.num_ids - view.num_prompt;
  for (i = 0; i < count; ++i) sum += view.logprobs[i];
  check(
      rl_model_decode(model, view.ids + view.num_prompt, count, RL_TEXT_SKIP_SPECIAL, &text, &err));
  printf("response %" PRIu32 ", %zu tokens, log-prob %.3f per token: ", view.slot, count,
         sum / (double)count);
  fwrite(rl_bytes_data(text), 1, rl_bytes_size(text), stdout); /* any byte may be in it, 0 too */
  putchar('\n');
  rl_bytes_release(text);
  return count > 0 && sum <= 0 && view.finish != RL_FINISH_ABORTED;
}

/* ---- main ---- */

int main(int argc, char** argv) {
  const char* question = argc > 2 ? argv[2] : "What is 7 + 5? Answer with the number only.";
  rl_options* options = NULL;
  rl_runtime* runtime = NULL;
  rl_model* model = NULL;
  rl_engine* engine = NULL;
  rl_batch* batch = NULL;
  rl_bytes* prompt = NULL;
  rl_request request;
  uint64_t first_id = 0;
  size_t i, good = 0;
  if (argc < 2) {
    fprintf(stderr, "usage: 2_generate MODEL [QUESTION]\n");
    return 2;
  }

  /* Options and objects. */
  check(rl_options_create(&options, &err));
  set(options, "model.path", argv[1]);
  set(options, "engine.max_num_seqs", "4");
  set(options, "sampling.temperature", "0.7");
  set(options, "sampling.max_new_tokens", "32");
  check(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  check(rl_model_open(runtime, options, RL_USE_GENERATE, &model, &err));
  stop_at_end_of_turn(options, model);
  check(rl_engine_create(model, options, &engine, &err));

  /* Work. */
  prompt = encode(model, question);
  rl_request_init(&request, sizeof request);
  request.prompt = (const int32_t*)rl_bytes_data(prompt);
  request.num_prompt = rl_bytes_size(prompt) / sizeof(int32_t);
  request.num_samples = NUM_ANSWERS;
  check(rl_engine_submit(engine, &request, &first_id, &err));
  check(rl_engine_run(engine, &err));
  check(rl_engine_take(engine, &batch, &err));
  for (i = 0; i < rl_batch_count(batch); ++i) good += print_answer(model, batch, i);

  /* Check. */
  if (good != NUM_ANSWERS)
    fprintf(stderr, "2_generate: %zu of %d responses are complete\n", good, NUM_ANSWERS);

  /* End: any order will do. */
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  rl_engine_destroy(engine);
  rl_batch_release(batch);
  rl_bytes_release(prompt);
  return good == NUM_ANSWERS ? 0 : 1;
}
