// Two pipelines of two processes are one run over a store: one generates (pipeline.role rollout),
// one trains (train). Either is killed (SIGKILL) at random moments and starts again. Then both run
// to an end: each step has trained on whole groups, no group twice and none that is too old, and
// groups are missing only if they were dropped as too old. tests/deploy runs the same over Redis.
//
//   role_processes MODEL DIR KILLS SEED
//
// Every process of librl is forked before the first call of librl.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "rl.h"
#ifdef RL_REDIS_STORE
#include "redis_store.h"
#endif

namespace {

namespace fs = std::filesystem;
constexpr uint64_t kGroup = 2, kBatch = 2;  // samples of a group, groups of a step
constexpr uint64_t kStaleness = 2, kSaveEvery = 2, kMoreSteps = 6;
constexpr uint64_t kInstance = 5;  // of the pipeline that generates
constexpr int kMostSeconds = 600;

const char* role = "role_processes";
rl_error* err;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", role, what.c_str());
  std::exit(1);
}
rl_status check(rl_status status) {
  if (status < RL_INVALID_ARGUMENT) return status;
  fail(err != nullptr ? rl_error_text(err, RL_ERROR_SUMMARY, nullptr) : rl_status_name(status));
}

void set(rl_options* options, const char* key, const std::string& text) {
  check(rl_options_set_text(options, key, RL_NUL_TERMINATED, text.data(), text.size(), &err));
}

struct Run {
  fs::path model, dir;
  uint64_t total_steps = 0;  // 0: until it is killed
};

// Those that both roles have.
rl_options* options_of(const Run& run, const char* name) {
  rl_options* options = nullptr;
  check(rl_options_create(&options, &err));
  set(options, "model.path", run.model);
  set(options, "runtime.threads", "1");
  set(options, "engine.max_model_len", "32");
  set(options, "sampling.max_new_tokens", "4");
  set(options, "pipeline.mode", "async");
  set(options, "pipeline.role", name);
  set(options, "pipeline.max_staleness", std::to_string(kStaleness));
  set(options, "pipeline.prompts_per_step", std::to_string(kBatch));
  set(options, "pipeline.samples_per_prompt", std::to_string(kGroup));
  set(options, "pipeline.total_steps", std::to_string(run.total_steps));
  return options;
}

rl_pipeline* open_pipeline(rl_options* options, const fs::path& dir) {
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_pipeline* pipeline = nullptr;
#ifdef RL_REDIS_STORE
  rl_store store;
  const char* failure = redis_store_open(std::getenv("RL_REDIS_SOCKET"), "roles", &store);
  if (failure != nullptr) fail(failure);
  (void)dir;
#else
  set(options, "buffer.store_path", dir / "store");
  if (std::string_view(role) == "rollout") set(options, "buffer.num_storage_units", "3");
#endif
  check(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  check(rl_model_open(runtime, options, RL_USE_PIPELINE, &model, &err));
#ifdef RL_REDIS_STORE
  check(rl_pipeline_create_stored(model, options, &store, &pipeline, &err));
#else
  check(rl_pipeline_create(model, options, &pipeline, &err));
#endif
  check(rl_pipeline_start(pipeline, &err));
  return pipeline;
}

template <typename OnEvent>
void serve(rl_pipeline* pipeline, const OnEvent& on_event) {
  rl_event* event = nullptr;
  while (check(rl_pipeline_next(pipeline, -1, &event, &err)) == RL_OK) {
    on_event(event);
    rl_event_release(event);
  }
}

// ---- the process that generates ----

void score(rl_pipeline* pipeline, const rl_event* event) {
  rl_sample_view sample;
  rl_score score;
  rl_sample_view_init(&sample, sizeof sample);
  rl_score_init(&score, sizeof score);
  check(rl_event_sample(event, 0, &sample, &err));
  score.sample_id = sample.sample_id;
  score.reward = static_cast<double>(sample.slot);
  const rl_status status = rl_pipeline_score(pipeline, &score, 1, nullptr, &err);
  // The run may have ended meanwhile.
  if (status != RL_LATE && status != RL_FAILED_PRECONDITION) check(status);
}

void run_rollout(const Run& run) {
  rl_options* const options = options_of(run, "rollout");
  set(options, "runtime.instance", std::to_string(kInstance));
  set(options, "data.path", run.dir / "prompts.jsonl");
  set(options, "engine.max_num_seqs", "4");
  set(options, "pipeline.partial_rollout", "true");
  set(options, "pipeline.weights_dir", run.dir / "checkpoints");
  rl_pipeline* const pipeline = open_pipeline(options, run.dir);
  serve(pipeline, [&](const rl_event* event) {
    if (rl_event_kind(event) == RL_EVENT_SCORE) score(pipeline, event);
  });
}

// ---- the process that trains ----

double metric(const rl_event* event, const char* name) {
  double value = 0;
  check(rl_event_metric_named(event, name, RL_NUL_TERMINATED, &value, &err));
  return value;
}

void check_step(const rl_event* event) {
  const double drawn = metric(event, "pipeline/prompts_drawn"),
               trained = metric(event, "pipeline/prompts_trained"),
               dropped = metric(event, "pipeline/prompts_dropped"),
               open = metric(event, "pipeline/groups_in_flight") +
                      metric(event, "pipeline/groups_queued"),
               age = metric(event, "pipeline/staleness/max");
  if (drawn != trained + dropped + open) fail("the books do not close");
  if (age > static_cast<double>(kStaleness)) fail("a sample is " + std::to_string(age) + " old");
}

// A kill may make groups too old: the process that goes on does not know what waits.
void note_drop(const rl_event* event, const fs::path& dir) {
  rl_event_view view;
  rl_event_view_init(&view, sizeof view);
  check(rl_event_get_view(event, &view, &err));
  const std::string text(view.text, view.text_len);
  if (view.reason != RL_DROP_STALE) fail("a group was dropped: " + text);
  std::ofstream(dir / "stale", std::ios::app) << text << '\n';
}

void run_trainer(const Run& run) {
  rl_options* const options = options_of(run, "train");
  set(options, "trainer.max_tokens_per_device", "128");
  set(options, "optimizer.lr", "1e-4");
  set(options, "checkpoint.dir", run.dir / "checkpoints");
  set(options, "checkpoint.every_steps", std::to_string(kSaveEvery));
  set(options, "checkpoint.keep_last", "2");
  set(options, "checkpoint.resume", "auto");
  set(options, "buffer.record_dir", run.dir / "batches");
  serve(open_pipeline(options, run.dir), [&](const rl_event* event) {
    if (rl_event_kind(event) == RL_EVENT_STEP) check_step(event);
    if (rl_event_kind(event) == RL_EVENT_GROUP_DROPPED) note_drop(event, run.dir);
  });
}

// ---- what was trained on ----

// The ordinals of a step's groups, which are whole; `seen` has all samples of the steps before.
void read_batch(const fs::path& path, std::set<uint64_t>& seen, std::set<uint64_t>& ordinals) {
  rl_options* options = nullptr;
  rl_buffer* buffer = nullptr;
  rl_batch* batch = nullptr;
  uint64_t count = 0;
  check(rl_options_create(&options, &err));
  set(options, "pipeline.samples_per_prompt", std::to_string(kGroup));
  check(rl_buffer_create(options, 64, &buffer, &err));
  check(rl_buffer_load(buffer, path.c_str(), RL_NUL_TERMINATED, nullptr, &count, &err));
  check(rl_buffer_take(buffer, nullptr, 0, &batch, &err));
  if (rl_batch_count(batch) != kBatch * kGroup) fail(path.string() + " is no whole batch");
  for (size_t i = 0; i < rl_batch_count(batch); ++i) {
    rl_sample_view sample;
    rl_sample_view_init(&sample, sizeof sample);
    check(rl_batch_sample(batch, i, &sample, &err));
    const uint64_t first = (kInstance << 48) + 1;
    if (sample.sample_id < first) fail("a sample is of no pipeline that generates");
    if (!seen.insert(sample.sample_id).second) {
      fail("sample " + std::to_string(sample.sample_id) + " was trained on twice");
    }
    ordinals.insert((sample.sample_id - first) / kGroup);
  }
  rl_batch_release(batch);
  rl_buffer_destroy(buffer);
  rl_options_destroy(options);
}

void run_check(const Run& run) {
  std::set<uint64_t> samples, ordinals;
  for (uint64_t step = 1; step <= run.total_steps; ++step) {
    char name[32];
    std::snprintf(name, sizeof name, "step_%06d.rlbuf", static_cast<int>(step));
    read_batch(run.dir / "batches" / name, samples, ordinals);
  }
  if (samples.size() != ordinals.size() * kGroup) fail("a group was trained on in part");
  // Groups that are too old are done without a step; any other one that is not done would hold
  // back those after it. The last ones may still wait.
  std::ifstream stale(run.dir / "stale");
  const auto dropped = static_cast<uint64_t>(
      std::count(std::istreambuf_iterator<char>(stale), std::istreambuf_iterator<char>(), '\n'));
  const uint64_t ahead = (kStaleness + 1) * kBatch, last = *ordinals.rbegin();
  uint64_t missing = 0;
  for (uint64_t ordinal = 0; ordinal + ahead <= last; ++ordinal) {
    missing += !ordinals.contains(ordinal);
  }
  if (missing > dropped) {
    fail(std::to_string(missing) + " groups are missing, but only " + std::to_string(dropped) +
         " were too old");
  }
}

// ---- who starts and kills them ----

struct Worker {
  const char* name;
  void (*run)(const Run& run);
  pid_t pid = 0;  // 0: it has ended

  void start(const Run& with) {
    pid = fork();
    if (pid < 0) fail("fork");
    if (pid > 0) return;
    role = name;
    run(with);
    std::_Exit(0);
  }
  // Whether it has ended by itself, which is a failure unless it ended well.
  bool has_ended() {
    int status = 0;
    if (pid == 0) return true;
    if (waitpid(pid, &status, WNOHANG) != pid) return false;
    pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail(std::string(name) + " failed");
    return true;
  }
  void kill_now() {
    if (has_ended()) fail(std::string(name) + " ended early");
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }
};

Worker workers[] = {{"rollout", run_rollout}, {"train", run_trainer}};

[[noreturn]] void give_up(const char* what) {
  for (Worker& w : workers) {
    if (w.pid != 0) kill(w.pid, SIGKILL);
  }
  fail(what);
}

// Of the newest checkpoint; 0: there is none.
uint64_t saved_steps(const fs::path& dir) {
  uint64_t newest = 0;
  if (!fs::exists(dir / "checkpoints")) return newest;
  for (const auto& entry : fs::directory_iterator(dir / "checkpoints")) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step_") && entry.path().extension().empty()) {
      newest = std::max<uint64_t>(newest, std::stoull(name.substr(5)));
    }
  }
  return newest;
}

void kill_some(const Run& run, int kills, std::mt19937& rng) {
  for (Worker& w : workers) w.start(run);
  for (int killed = 0; killed < kills; ++killed) {
    usleep(50'000 + rng() % 600'000);
    Worker& victim = workers[rng() % 2];
    victim.kill_now();
    victim.start(run);
  }
  usleep(300'000);
  for (Worker& w : workers) w.kill_now();
}

void run_to_the_end(const Run& run) {
  for (Worker& w : workers) w.start(run);
  const time_t start = time(nullptr);
  while (!workers[0].has_ended() | !workers[1].has_ended()) {
    if (time(nullptr) - start > kMostSeconds) give_up("the run does not end: a group is lost");
    usleep(5000);
  }
  Worker check{"check", run_check};
  check.start(run);
  while (!check.has_ended()) usleep(5000);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: role_processes MODEL DIR KILLS SEED\n");
    return 2;
  }
  Run run{argv[1], argv[2]};
  const int kills = std::atoi(argv[3]);
  std::mt19937 rng(static_cast<unsigned>(std::atoi(argv[4])));
  fs::remove_all(run.dir);
  fs::create_directories(run.dir);
  std::ofstream prompts(run.dir / "prompts.jsonl");
  for (int row = 0; row < 7; ++row) prompts << "{\"ids\": [1, " << 2 + 5 * row << "]}\n";
  prompts.close();
  kill_some(run, kills, rng);
  run.total_steps = saved_steps(run.dir) / kSaveEvery * kSaveEvery + kMoreSteps;
  run_to_the_end(run);
  std::printf("%d kills: each of the groups of %d steps was trained on once\n", kills + 2,
              static_cast<int>(run.total_steps));
  return 0;
}
