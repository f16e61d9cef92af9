/* A program that knows rl.h alone and loads librl from the folder of its gloo plugin: the feature
 * is there. Exit status 0 if it is. */
#include <stdio.h>

#include "rl.h"

int main(void) {
  uint32_t available = 0;
  const char* reason = "";
  if (rl_feature("gloo", RL_NUL_TERMINATED, &available, &reason, NULL) != RL_OK) return 1;
  if (available == 1 && *reason == '\0') return 0;
  printf("gloo is not available: %s\n", reason);
  return 1;
}
