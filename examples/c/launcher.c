#include "launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of two rows for one launcher the first that has a variable set counts. */
static const struct {
  const char *launcher, *rank, *ranks;
} rows[] = {{"torchrun", "RANK", "WORLD_SIZE"},
            {"slurm", "SLURM_PROCID", "SLURM_NTASKS"},
            {"mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
            {"mpi", "PMI_RANK", "PMI_SIZE"},
            {"kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE"},
            {"ray", "RANK", "WORLD_SIZE"}};
enum { NUM_ROWS = sizeof rows / sizeof *rows };

static char problem[512];

static int is_set(int row) {
  return getenv(rows[row].rank) != NULL || getenv(rows[row].ranks) != NULL;
}

static int row_of(const char* launcher) { /* -1: there is none */
  int found = -1;
  for (int i = NUM_ROWS - 1; i >= 0; --i) {
    if (strcmp(rows[i].launcher, launcher) != 0) continue;
    if (found < 0 || is_set(i) || !is_set(found)) found = i;
  }
  return found;
}

static const char* text_of(const char* name) { /* NULL, and a problem, if it is not set */
  const char* const text = getenv(name);
  if (text != NULL && *text != '\0') return text;
  snprintf(problem, sizeof problem, "%s is not set", name);
  return NULL;
}

static int64_t number_of(const char* name) { /* -1, and a problem, if it is none */
  const char* const text = text_of(name);
  if (text == NULL) return -1;
  const size_t digits = strspn(text, "0123456789");
  if (digits <= 9 && text[digits] == '\0') return strtol(text, NULL, 10);
  snprintf(problem, sizeof problem, "%s is \"%.100s\", not a number", name, text);
  return -1;
}

/* 0, and a problem, if a text of so many bytes was cut. */
static int is_whole(int length, size_t size, const char* name) {
  if (length >= 0 && (size_t)length < size) return 1;
  snprintf(problem, sizeof problem, "%s is too long: a rendezvous has at most %d bytes", name,
           (int)size - 1);
  return 0;
}

static int meet_at_master(char* rendezvous, size_t size) { /* 0, and a problem, if it cannot be */
  const char* const host = text_of("MASTER_ADDR");
  const int64_t port = host != NULL ? number_of("MASTER_PORT") : -1;
  if (port < 0) return 0;
  if (port < 1 || port > 65534) {
    snprintf(problem, sizeof problem, "MASTER_PORT is %d, not 1 to 65534", (int)port);
    return 0;
  }
  return is_whole(snprintf(rendezvous, size, "tcp:%s:%d", host, (int)port + 1), size,
                  "MASTER_ADDR");
}

const char* place_of_launcher(const char* launcher, const char* meeting, place* out) {
  const int row = row_of(launcher);
  if (row < 0) return "it is none of torchrun, slurm, mpi, kubernetes and ray";
  const int64_t rank = number_of(rows[row].rank);
  const int64_t ranks = rank >= 0 ? number_of(rows[row].ranks) : -1;
  if (ranks < 0) return problem;
  if (rank >= ranks) {
    snprintf(problem, sizeof problem, "%s is %d, but %s is %d", rows[row].rank, (int)rank,
             rows[row].ranks, (int)ranks);
    return problem;
  }
  *out = (place){.rank = (uint64_t)rank, .ranks = (uint64_t)ranks};
  if (ranks == 1) return NULL;
  const size_t size = sizeof out->rendezvous;
  const int meets = meeting == NULL ? meet_at_master(out->rendezvous, size)
                                    : is_whole(snprintf(out->rendezvous, size, "%s", meeting), size,
                                               "--rendezvous");
  return meets ? NULL : problem;
}
