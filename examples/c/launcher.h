/* Which rank of a run this process is, where a launcher has started one process for each: torchrun,
 * Slurm, MPI, Kubernetes or Ray. Each tells its processes by environment variables. librl reads
 * none; a host does, checks what it finds, and sets comm.rank and comm.rendezvous.
 * docs/parallel.md lists the variables. */
#ifndef EXAMPLES_LAUNCHER_H
#define EXAMPLES_LAUNCHER_H

#include <stdint.h>

typedef struct {
  uint64_t rank, ranks;
  char rendezvous[512]; /* comm.rendezvous; "" for a single rank */
} place;

/* Fills in the place that a launcher has given this process. The ranks meet at `meeting`, or, if
 * that is NULL, at the port after MASTER_PORT of MASTER_ADDR. Returns NULL, or what is wrong. */
const char* place_of_launcher(const char* launcher, const char* meeting, place* out);

#endif
