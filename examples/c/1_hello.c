/* 1_hello: the library, its features, its options and its errors. No model is needed.
 *
 *   1_hello [KEY]        describes every option, or the one with this key
 *
 * New here: rl_version_string, rl_build_info, rl_feature, rl_option_at, rl_options_set_text,
 * rl_error_text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rl.h"

/* ---- errors ---- */

static rl_error* err; /* of the last call */

static void check(rl_status st) {
  if (st == RL_OK) return;
  fprintf(stderr, "%s\n", err ? rl_error_text(err, RL_ERROR_SUMMARY, NULL) : rl_status_name(st));
  exit(1);
}

/* ---- pieces ---- */

static void show_library(void) {
  rl_bytes* info = NULL;
  size_t i;
  printf("librl %s, interface %u.%u\n", rl_version_string(), (unsigned)(rl_abi_version() >> 16),
         (unsigned)(rl_abi_version() & 0xffff));
  check(rl_build_info(&info, &err));
  fputs((const char*)rl_bytes_data(info), stdout);
  rl_bytes_release(info);
  for (i = 0; rl_feature_name(i) != NULL; ++i) {
    uint32_t available = 0;
    const char* reason = NULL;
    check(rl_feature(rl_feature_name(i), RL_NUL_TERMINATED, &available, &reason, &err));
    printf("feature %-12s %s\n", rl_feature_name(i), available ? "yes" : reason);
  }
}

static void show_option(const rl_option_info* info) {
  size_t i;
  printf("%s = %s %s\n  %s\n", info->key, info->default_text, info->unit, info->doc);
  for (i = 0; i < info->num_choices; ++i) {
    const char *name = NULL, *doc = NULL;
    check(rl_option_choice(info->key, RL_NUL_TERMINATED, i, &name, &doc, &err));
    printf("  %s: %s\n", name, doc);
  }
}

static size_t show_options(const char* key) {
  rl_option_info info;
  size_t i;
  rl_option_info_init(&info, sizeof info);
  if (key != NULL) {
    check(rl_option_find(key, RL_NUL_TERMINATED, &info, &err));
    show_option(&info);
    return 1;
  }
  for (i = 0; i < rl_option_count(); ++i) {
    check(rl_option_at(i, &info, &err));
    show_option(&info);
  }
  return i;
}

/* A misspelt key is an error that knows the right one. Returns 1 when it does. */
static int show_error(rl_options* options) {
  const rl_status status = rl_options_set_text(options, "engine.blok_size", RL_NUL_TERMINATED, "64",
                                               RL_NUL_TERMINATED, &err);
  const char* nearest = rl_error_nearest(err, 0);
  const int good =
      status == RL_UNKNOWN_OPTION && nearest != NULL && strcmp(nearest, "engine.block_size") == 0;
  printf("an error on purpose: %s\n", rl_error_text(err, RL_ERROR_SUMMARY, NULL));
  rl_error_release(err);
  return good;
}

/* ---- main ---- */

int main(int argc, char** argv) {
  rl_options* options = NULL;
  rl_option_value block_size;
  int good;

  /* Work. */
  show_library();
  printf("%zu options shown\n", show_options(argc > 1 ? argv[1] : NULL));
  check(rl_options_create(&options, &err));
  check(rl_options_set_text(options, "engine.block_size", RL_NUL_TERMINATED, "64",
                            RL_NUL_TERMINATED, &err));
  rl_option_value_init(&block_size, sizeof block_size);
  check(rl_options_get(options, "engine.block_size", RL_NUL_TERMINATED, &block_size, NULL, &err));

  /* Check. */
  good = show_error(options) && block_size.i64 == 64;

  /* End. */
  rl_options_destroy(options);
  if (!good) fprintf(stderr, "1_hello: the library did not behave as expected\n");
  return good ? 0 : 1;
}
