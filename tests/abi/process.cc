// A host whose process must stay as it set it up: two runs of the training loop with checkpoints,
// metrics, trace, evaluation, a saved model and a forked child that exits, all silently. Prints
// what changed and fails when something did.
//
// usage: abi_process MODEL DIRECTORY
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "abi/process_state.h"
#include "rl.h"

#if defined(__SANITIZE_ADDRESS__)
// Asked at exit. A forked child lacks the threads on whose stacks its memory is still named, so to
// the leak sanitizer it looks lost there.
static bool in_forked_child = false;
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  return in_forked_child ? 1 : 0;
}
static void enter_child() { in_forked_child = true; }
#else
static void enter_child() {}
#endif

namespace {

std::string problems;

void complain(const std::string& when, const std::string& what) {
  if (!what.empty()) problems += when + ":\n" + what;
}

void check(rl_status status, rl_error* error) {
  if (status != RL_OK) {
    complain("a call failed", rl_error_text(error, RL_ERROR_SUMMARY, nullptr) + std::string("\n"));
  }
  rl_error_release(error);
}
#define CHECK(call)                  \
  do {                               \
    rl_error* err = nullptr;         \
    const rl_status result = (call); \
    check(result, err);              \
  } while (0)

struct Settings {
  std::string model, dir;
};

void set(rl_options* options, const char* key, const std::string& value) {
  CHECK(rl_options_set_text(options, key, RL_NUL_TERMINATED, value.c_str(), value.size(), &err));
}

rl_options* make_options(const Settings& s, const std::string& run) {
  rl_options* options = nullptr;
  CHECK(rl_options_create(&options, &err));
  set(options, "model.path", s.model);
  set(options, "runtime.threads", "2");
  set(options, "runtime.log_level", "debug");
  set(options, "pipeline.samples_per_prompt", "2");
  set(options, "pipeline.prompts_per_step", "2");
  set(options, "pipeline.total_steps", "2");
  set(options, "sampling.max_new_tokens", "4");
  set(options, "engine.max_model_len", "64");
  set(options, "data.path", s.dir + "/data.jsonl");
  set(options, "eval.path", s.dir + "/data.jsonl");
  set(options, "metrics.jsonl", run + "/metrics.jsonl");
  set(options, "checkpoint.dir", run + "/checkpoints");
  set(options, "checkpoint.every_steps", "1");
  set(options, "profiler.timeline.enable", "true");
  set(options, "profiler.timeline.dir", run + "/trace");
  return options;
}

void ignore_line(void*, const rl_log_record*) {}
void on_signal(int) {}

// A child that ends as programs do, running what the library registered to run at exit.
void fork_and_exit(rl_pipeline* pipeline) {
  const pid_t child = fork();
  if (child == 0) {
    enter_child();
    alarm(60);
    rl_pipeline_destroy(pipeline);
    std::exit(rl_pipeline_start(pipeline, nullptr) == RL_FORKED ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) complain("a forked child", "ended with status " + std::to_string(status) + "\n");
}

void reward(rl_pipeline* pipeline, const rl_sample_view& sample) {
  rl_score score;
  rl_score_init(&score, sizeof score);
  score.sample_id = sample.sample_id;
  score.reward = sample.slot;
  CHECK(rl_pipeline_score(pipeline, &score, 1, nullptr, &err));
}

void serve(rl_pipeline* pipeline, const abi_test::State& before) {
  rl_event* event = nullptr;
  uint64_t steps = 0;
  rl_status status;
  rl_error* failure = nullptr;
  while ((status = rl_pipeline_next(pipeline, -1, &event, &failure)) == RL_OK) {
    complain("during the run", abi_test::difference(before, abi_test::process_state()));
    complain("during the run", abi_test::interruptible_threads());
    rl_sample_view sample;
    rl_sample_view_init(&sample, sizeof sample);
    if (rl_event_kind(event) == RL_EVENT_STEP) ++steps;
    if (rl_event_kind(event) == RL_EVENT_SCORE) {
      CHECK(rl_event_sample(event, 0, &sample, &err));
      reward(pipeline, sample);
    }
    rl_event_release(event);
    if (steps == 1) fork_and_exit(pipeline);
  }
  if (status != RL_DONE || steps != 2) {
    const char* const said = rl_error_text(failure, RL_ERROR_SUMMARY, nullptr);
    complain("the run", "ended after " + std::to_string(steps) + " steps: " + said + "\n");
  }
  rl_error_release(failure);
}

// Returns the digest of the trained weights.
uint64_t run(const Settings& s, const std::string& dir, const abi_test::State& before) {
  std::filesystem::create_directories(dir);
  rl_options* const options = make_options(s, dir);
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_pipeline* pipeline = nullptr;
  CHECK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  CHECK(rl_runtime_set_log(runtime, ignore_line, nullptr, nullptr, &err));
  CHECK(rl_model_open(runtime, options, RL_USE_PIPELINE, &model, &err));
  CHECK(rl_pipeline_create(model, options, &pipeline, &err));
  CHECK(rl_pipeline_evaluate(pipeline, &err));
  CHECK(rl_pipeline_start(pipeline, &err));
  serve(pipeline, before);
  CHECK(rl_pipeline_close_result(pipeline, &err));
  CHECK(rl_model_save(model, (dir + "/model").c_str(), RL_NUL_TERMINATED, RL_DTYPE_F32, 0, &err));
  uint64_t digest = 0;
  CHECK(rl_model_digest(model, &digest, &err));
  rl_pipeline_destroy(pipeline);
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  return digest;
}

// Attributes as no library would set them.
void set_up_process(const Settings& s) {
  std::filesystem::remove_all(s.dir);
  std::filesystem::create_directories(s.dir);
  std::ofstream data(s.dir + "/data.jsonl");
  for (int row = 0; row < 4; ++row) data << "{\"ids\": [1, 2, " << row + 3 << "]}\n";
  setenv("RL_HOST_VARIABLE", "as the host set it", 1);
  setenv("OMP_NUM_THREADS", "3", 1);
  setlocale(LC_ALL, "C.UTF-8");
  umask(027);
  signal(SIGUSR1, on_signal);
  signal(SIGPIPE, SIG_IGN);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = 512;
  setrlimit(RLIMIT_NOFILE, &files);
  if (chdir(s.dir.c_str()) != 0) complain("the test", "cannot enter " + s.dir + "\n");
}

// Size of what was written to a descriptor that was led to a file.
void expect_silence(int fd, const char* name) {
  std::fflush(nullptr);
  struct stat info {};
  fstat(fd, &info);
  if (info.st_size != 0) {
    std::string text(static_cast<size_t>(info.st_size), '\0');
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, pread(fd, text.data(), text.size(), 0))));
    complain(std::string("written to ") + name, text + "\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Settings s{argv[1], argv[2]};
  set_up_process(s);
  const int report = dup(STDOUT_FILENO);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    const int file = open(".", O_TMPFILE | O_RDWR, 0600);
    dup2(file, fd);
    close(file);
  }
  const abi_test::State before = abi_test::process_state(), open_before = abi_test::descriptors();
  const uint64_t first = run(s, s.dir + "/first", before);
  fesetround(FE_TOWARDZERO);
  const abi_test::State rounded = abi_test::process_state();
  const uint64_t second = run(s, s.dir + "/second", rounded);
  if (first != second) complain("the host's rounding mode", "moves the trained weights\n");
  complain("after everything was destroyed",
           abi_test::difference(rounded, abi_test::process_state()));
  complain("after everything was destroyed",
           abi_test::difference(open_before, abi_test::descriptors()));
  expect_silence(STDOUT_FILENO, "the standard output");
  expect_silence(STDERR_FILENO, "the standard error");
  dprintf(report, "%s%zu attributes compared\n", problems.c_str(), before.size());
  return problems.empty() ? 0 : 1;
}
