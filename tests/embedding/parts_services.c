/* What a host gives to a runtime and gets from it: files, memory, CPUs, the log, the clock, spans
 * of its own in the trace. The files stand for an object store: paths that begin with "store:/" are
 * those of a directory that only this host knows.
 *
 *   parts_services MODEL DIRECTORY        DIRECTORY is emptied first */
#define _GNU_SOURCE /* nftw, sched_getaffinity */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts_host.h"

enum { MOST_PATH = 512 };

/* ---- files ---- */

/* region: path */
typedef struct store {
  const char* root; /* the directory behind "store:/" */
} store;

/* Where a path of librl is in truth. It comes with a length and without a NUL. */
static void resolve(const store* s, const char* path, size_t path_len, char out[MOST_PATH]) {
  const size_t prefix = strlen("store:/");
  snprintf(out, MOST_PATH, "%s/%.*s", s->root, (int)(path_len - prefix), path + prefix);
}
/* end of region */

/* region: read */
/* A token of a file is its descriptor, plus 1 so that none is NULL. */
static void* token_of(int fd) { return (void*)(intptr_t)(fd + 1); }
static int fd_of(void* file) { return (int)(intptr_t)file - 1; }

static int32_t store_open(void* user_data, const char* path, size_t path_len, void** file,
                          uint64_t* size) {
  char name[MOST_PATH];
  struct stat about;
  int fd;
  resolve(user_data, path, path_len, name);
  fd = open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &about) != 0) return errno; /* ENOENT becomes RL_NOT_FOUND */
  *file = token_of(fd);
  *size = (uint64_t)about.st_size;
  return 0;
}

/* All of the bytes, or it has failed. */
static int32_t store_read(void* user_data, void* file, uint64_t offset, void* data, uint64_t size) {
  char* at = data;
  (void)user_data;
  while (size > 0) {
    const ssize_t n = pread(fd_of(file), at, size, (off_t)offset);
    if (n <= 0) return n < 0 ? errno : EIO;
    at += n;
    offset += (uint64_t)n;
    size -= (uint64_t)n;
  }
  return 0;
}
/* end of region */

static int32_t store_create(void* user_data, const char* path, size_t path_len, uint32_t append,
                            void** file) {
  char name[MOST_PATH];
  int fd;
  resolve(user_data, path, path_len, name);
  fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | (append == 1 ? O_APPEND : O_TRUNC), 0666);
  if (fd < 0) return errno;
  *file = token_of(fd);
  return 0;
}

static int32_t store_write(void* user_data, void* file, const void* data, uint64_t size) {
  const char* at = data;
  (void)user_data;
  while (size > 0) {
    const ssize_t n = write(fd_of(file), at, size);
    if (n < 0) return errno;
    at += n;
    size -= (uint64_t)n;
  }
  return 0;
}

static int32_t store_sync(void* user_data, void* file) {
  (void)user_data;
  return fsync(fd_of(file)) == 0 ? 0 : errno;
}

static int32_t store_close(void* user_data, void* file, uint32_t discard) {
  (void)user_data;
  (void)discard; /* librl removes or rewrites the file itself */
  return close(fd_of(file)) == 0 ? 0 : errno;
}

static int32_t store_kind(void* user_data, const char* path, size_t path_len, int32_t* kind) {
  char name[MOST_PATH];
  struct stat about;
  resolve(user_data, path, path_len, name);
  if (stat(name, &about) != 0) {
    *kind = RL_FILE_ABSENT;
    return errno == ENOENT ? 0 : errno;
  }
  *kind = S_ISDIR(about.st_mode) ? RL_FILE_DIRECTORY : RL_FILE_REGULAR;
  return 0;
}

static int32_t store_list(void* user_data, const char* path, size_t path_len,
                          rl_file_found_fn found, void* context) {
  char name[MOST_PATH];
  struct dirent* entry;
  int32_t code = 0;
  DIR* dir;
  resolve(user_data, path, path_len, name);
  dir = opendir(name);
  if (dir == NULL) return errno;
  while (code == 0 && (entry = readdir(dir)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    code = found(context, entry->d_name, strlen(entry->d_name));
  }
  closedir(dir);
  return code;
}

static int32_t store_make_directories(void* user_data, const char* path, size_t path_len) {
  char name[MOST_PATH];
  char* slash;
  resolve(user_data, path, path_len, name);
  for (slash = strchr(name + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(name, 0777) != 0 && errno != EEXIST) return errno;
    *slash = '/';
  }
  return mkdir(name, 0777) == 0 || errno == EEXIST ? 0 : errno;
}

/* region: rename */
/* In one go, also for a directory. A store that cannot do that has to replace an index last. */
static int32_t store_rename(void* user_data, const char* from, size_t from_len, const char* to,
                            size_t to_len) {
  char old_name[MOST_PATH], new_name[MOST_PATH];
  resolve(user_data, from, from_len, old_name);
  resolve(user_data, to, to_len, new_name);
  return rename(old_name, new_name) == 0 ? 0 : errno;
}
/* end of region */

static int remove_one(const char* name, const struct stat* about, int type, struct FTW* walk) {
  (void)about, (void)type, (void)walk;
  return remove(name);
}

static int32_t store_remove(void* user_data, const char* path, size_t path_len) {
  char name[MOST_PATH];
  resolve(user_data, path, path_len, name);
  if (nftw(name, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return 0;
  return errno;
}

/* region: table */
static rl_files files_of(store* s) {
  rl_files files;
  rl_files_init(&files, sizeof files); /* functions left NULL: sync_directory, describe, destroy */
  files.user_data = s;
  files.prefix = "store:/"; /* all other paths are the operating system's */
  files.prefix_len = RL_NUL_TERMINATED;
  files.open = store_open;
  files.create = store_create;
  files.read = store_read;
  files.write = store_write;
  files.sync = store_sync;
  files.close = store_close;
  files.kind = store_kind;
  files.list = store_list;
  files.make_directories = store_make_directories;
  files.rename = store_rename;
  files.remove = store_remove;
  return files;
}
/* end of region */

/* ---- memory ---- */

/* region: memory */
typedef struct memory {
  uint64_t bytes; /* allocated now; librl may allocate on several threads at once */
} memory;

static int32_t allocate(void* user_data, uint64_t size, uint64_t alignment, void** out) {
  memory* const m = user_data;
  const int code = posix_memalign(out, alignment, size);
  if (code != 0) return code; /* an errno value; the call of librl is RL_OUT_OF_MEMORY */
  __atomic_add_fetch(&m->bytes, size, __ATOMIC_RELAXED);
  return 0;
}

static void release(void* user_data, void* address, uint64_t size) {
  memory* const m = user_data;
  __atomic_sub_fetch(&m->bytes, size, __ATOMIC_RELAXED);
  free(address);
}
/* end of region */

/* ---- the runtime ---- */

/* region: create */
/* A runtime with services of the host, which are copied: only what user_data points to must live
 * on. */
static rl_runtime* create(const rl_options* options, store* s, memory* m) {
  const rl_files files = files_of(s);
  rl_allocator allocator;
  rl_host services;
  rl_runtime* runtime = NULL;
  rl_allocator_init(&allocator, sizeof allocator);
  allocator.user_data = m;
  allocator.allocate = allocate;
  allocator.release = release;
  rl_host_init(&services, sizeof services);
  services.files = &files;
  services.allocator = &allocator;
  check(rl_runtime_create_hosted(RL_ABI_VERSION, options, &services, &runtime, &err));
  return runtime;
}
/* end of region */

/* region: log */
typedef struct log_sink {
  FILE* file;
  int lines;
} log_sink;

/* Receives a line of the log, on any thread but never on two at once. */
static void write_line(void* user_data, const rl_log_record* record) {
  log_sink* const sink = user_data;
  size_t i;
  fprintf(sink->file, "%.6f %d %s: %s", (double)record->unix_ns * 1e-9, (int)record->level,
          record->component, record->message);
  for (i = 0; i < record->num_fields; ++i) {
    fprintf(sink->file, " %s=%s", record->field_names[i], record->field_values[i]);
  }
  fputc('\n', sink->file);
  ++sink->lines;
}
/* end of region */

/* region: cpus */
/* The threads that librl starts run on these CPUs; the host places its own. */
static void set_cpus(rl_options* options, const int64_t* cpus, size_t count) {
  check(rl_options_set_i64_list(options, "runtime.cpus", RL_NUL_TERMINATED, cpus, count, &err));
}
/* end of region */

static int64_t usable_cpu(void) {
  cpu_set_t usable;
  int64_t cpu = 0;
  require(sched_getaffinity(0, sizeof usable, &usable) == 0, "there are CPUs");
  while (!CPU_ISSET(cpu, &usable)) ++cpu;
  return cpu;
}

/* region: span */
/* Work of the host in librl's trace, by librl's clock. */
static void score_in_trace(rl_runtime* runtime, rl_batch* batch) {
  rl_clock before, after;
  rl_span span;
  rl_clock_init(&before, sizeof before);
  rl_clock_init(&after, sizeof after);
  check(rl_runtime_get_clock(runtime, &before, &err));
  score_batch(batch);
  check(rl_runtime_get_clock(runtime, &after, &err));
  rl_span_init(&span, sizeof span);
  span.lane = "judges"; /* a row of the trace */
  span.name = "score";
  span.lane_len = span.name_len = RL_NUL_TERMINATED;
  span.start_ns = before.steady_ns;
  span.end_ns = after.steady_ns;
  check(rl_runtime_trace_span(runtime, &span, &err));
}
/* end of region */

/* region: trace */
/* A trace that Perfetto opens, of what happens between this and write_trace. */
static rl_profiler* record(rl_runtime* runtime) {
  rl_profiler* profiler = NULL;
  check(rl_profiler_create(runtime, &profiler, &err));
  return profiler;
}

static void write_trace(rl_profiler* profiler, const char* path) {
  check(rl_profiler_write_trace(profiler, path, RL_NUL_TERMINATED, &err));
  rl_profiler_destroy(profiler);
}
/* end of region */

static int is_there(const store* s, const char* path) {
  char name[MOST_PATH];
  struct stat about;
  resolve(s, path, strlen(path), name);
  return stat(name, &about) == 0;
}

/* A checkpoint, a buffer file and a trace, all of them in the store. */
static void train(const host* h, const store* s) {
  rl_profiler* const profiler = record(h->runtime);
  rl_batch* const batch = generate_groups(h, 0, 1);
  rl_checkpoint checkpoint;
  rl_step step;
  rl_event* event = NULL;
  rl_bytes *path = NULL, *state = NULL;
  score_in_trace(h->runtime, batch);
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  check(rl_trainer_step(h->trainer, &step, &event, &err));
  rl_checkpoint_init(&checkpoint, sizeof checkpoint);
  checkpoint.dir = "store:/checkpoints";
  check(rl_trainer_save(h->trainer, &checkpoint, &path, &err));
  check(rl_trainer_load(h->trainer, checkpoint.dir, RL_NUL_TERMINATED, &state, &err));
  require(is_there(s, rl_bytes_data(path)), "the checkpoint is in the store");
  check(rl_buffer_put_batch(h->buffer, batch, &err));
  /* region: buffer */
  check(rl_buffer_set_runtime(h->buffer, h->runtime, &err)); /* a buffer has no files of its own */
  check(rl_buffer_save(h->buffer, "store:/groups.rlbuf", RL_NUL_TERMINATED, h->model, 0, &err));
  /* end of region */
  require(is_there(s, "store:/groups.rlbuf"), "the buffer file is in the store");
  write_trace(profiler, "store:/trace.json");
  require(is_there(s, "store:/trace.json"), "the trace is in the store");
  rl_bytes_release(path);
  rl_bytes_release(state);
  rl_event_release(event);
  rl_batch_release(batch);
}

int main(int argc, char** argv) {
  store s = {NULL};
  memory m = {0};
  log_sink sink = {stdout, 0};
  const int64_t cpu = usable_cpu();
  host h;
  if (argc != 3) {
    fprintf(stderr, "usage: parts_services MODEL DIRECTORY\n");
    return 2;
  }
  s.root = argv[2];
  store_remove(&s, "store:/", strlen("store:/"));
  store_make_directories(&s, "store:/", strlen("store:/"));
  memset(&h, 0, sizeof h);
  h.options = tiny_options(argv[1]);
  set_cpus(h.options, &cpu, 1);
  set(h.options, "runtime.log_level", "debug");
  h.runtime = create(h.options, &s, &m);
  /* region: set_log */
  check(rl_runtime_set_log(h.runtime, write_line, &sink, NULL, &err)); /* NULL: nothing to free */
  /* end of region */
  check(rl_model_open(h.runtime, NULL, RL_USE_PARTS, &h.model, &err));
  check(rl_engine_create(h.model, NULL, &h.engine, &err));
  check(rl_trainer_create(h.model, NULL, &h.trainer, &err));
  check(rl_buffer_create(h.options, 4, &h.buffer, &err));
  require(m.bytes > 0, "arenas are memory of the host");
  train(&h, &s);
  close_host(&h);
  require(m.bytes == 0, "all of it was given back");
  require(sink.lines > 0, "the log has lines");
  return 0;
}
