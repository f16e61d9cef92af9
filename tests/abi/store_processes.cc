// One process samples, one trains, through a directory that they share (buffer.store_path). Either
// is killed at random moments and starts again. In the end every group was trained on exactly once,
// as the checkpoints say, and the store is empty. tests/deploy runs the same over Redis.
//
//   store_processes MODEL DIR KILLS SEED
//
// Every process of librl is forked before the first call of librl.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "abi/dlpack_host.h"
#include "rl.h"
#ifdef RL_REDIS_STORE
#include "redis_store.h"
#endif

namespace {

namespace fs = std::filesystem;
constexpr uint64_t kGroup = 2, kBatch = 2;  // samples of a group, groups of a step
constexpr uint64_t kAhead = 4;              // steps that sampling may be ahead of saved weights
constexpr int kSaveEvery = 2;               // steps
constexpr int64_t kWaitNs = 100'000'000;
constexpr int kMostSeconds = 600;

const char* role = "store_processes";
rl_error* err;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", role, what.c_str());
  std::exit(1);
}
void check(rl_status status) {
  if (status == RL_OK) return;
  fail(err != nullptr ? rl_error_text(err, RL_ERROR_SUMMARY, nullptr) : rl_status_name(status));
}

// A file that appears by one rename.
void write_file(const fs::path& path, const std::string& text) {
  const fs::path temporary = path.string() + ".tmp";
  std::ofstream(temporary, std::ios::binary) << text;
  fs::rename(temporary, path);
}
std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Host {
  rl_options* options = nullptr;
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_engine* engine = nullptr;
  rl_trainer* trainer = nullptr;
  rl_buffer* buffer = nullptr;
};

void set(rl_options* options, const char* key, const std::string& text) {
  check(rl_options_set_text(options, key, RL_NUL_TERMINATED, text.data(), text.size(), &err));
}

// The buffer that both processes share.
void open_buffer(Host& h, const fs::path& dir) {
#ifdef RL_REDIS_STORE
  rl_store store;
  const char* failure = redis_store_open(std::getenv("RL_REDIS_SOCKET"), "groups", &store);
  if (failure != nullptr) fail(failure);
  (void)dir;
  check(rl_buffer_create_stored(h.options, 64, &store, &h.buffer, &err));
#else
  set(h.options, "buffer.store_path", (dir / "store").string());
  set(h.options, "buffer.num_storage_units", "3");
  check(rl_buffer_create(h.options, 64, &h.buffer, &err));
#endif
}

Host open_host(const char* model, const fs::path& dir, const char* instance, int32_t use) {
  Host h;
  check(rl_options_create(&h.options, &err));
  set(h.options, "model.path", model);
  set(h.options, "runtime.threads", "1");
  set(h.options, "runtime.instance", instance);
  set(h.options, "engine.max_num_seqs", "4");
  set(h.options, "engine.max_model_len", "32");
  set(h.options, "pipeline.samples_per_prompt", std::to_string(kGroup));
  set(h.options, "sampling.max_new_tokens", "4");
  set(h.options, "trainer.max_tokens_per_device", "128");
  set(h.options, "optimizer.lr", "1e-4");
  check(rl_runtime_create(RL_ABI_VERSION, h.options, &h.runtime, &err));
  check(rl_model_open(h.runtime, h.options, use, &h.model, &err));
  if (use == RL_USE_GENERATE) check(rl_engine_create(h.model, nullptr, &h.engine, &err));
  if (use == RL_USE_TRAIN) check(rl_trainer_create(h.model, nullptr, &h.trainer, &err));
  open_buffer(h, dir);
  return h;
}

void close_host(Host& h) {
  rl_buffer_destroy(h.buffer);
  rl_trainer_destroy(h.trainer);
  rl_engine_destroy(h.engine);
  rl_model_destroy(h.model);
  rl_runtime_destroy(h.runtime);
  rl_options_destroy(h.options);
}

// ---- weights: a file of the version and the values, in the order of the model ----

template <typename F>
void for_each_weight(const Host& h, F&& visit) {
  for (size_t i = 0; i < rl_model_weight_count(h.model); ++i) {
    const char* name = nullptr;
    rl_tensor* tensor = nullptr;
    rl_tensor_info info;
    check(rl_model_weight_name(h.model, i, &name, &err));
    check(rl_model_weight(h.model, name, RL_NUL_TERMINATED, nullptr, &tensor, &err));
    rl_tensor_info_init(&info, sizeof info);
    check(rl_tensor_get_info(tensor, &info, &err));
    visit(name, info);
    rl_tensor_release(tensor);
  }
}

void publish(const Host& h, const fs::path& dir) {
  uint64_t version = 0;
  check(rl_model_version(h.model, &version, &err));
  std::string text(reinterpret_cast<const char*>(&version), sizeof version);
  for_each_weight(h, [&](const char*, const rl_tensor_info& info) {
    text.append(static_cast<const char*>(info.data), info.num_elements * sizeof(float));
  });
  write_file(dir / "weights", text);
}

// The version of the weights that are generated with from now on.
uint64_t receive(const Host& h, const fs::path& dir, uint64_t present) {
  const std::string text = fs::exists(dir / "weights") ? read_file(dir / "weights") : "";
  uint64_t version = 0;
  if (text.size() < sizeof version) return present;
  std::memcpy(&version, text.data(), sizeof version);
  if (version <= present) return present;
  std::vector<std::unique_ptr<abi_test::Producer>> producers;
  std::vector<rl_weight> weights;
  size_t at = sizeof version;
  for_each_weight(h, [&](const char* name, const rl_tensor_info& info) {
    std::vector<float> values(info.num_elements);
    std::memcpy(values.data(), text.data() + at, values.size() * sizeof(float));
    at += values.size() * sizeof(float);
    producers.push_back(std::make_unique<abi_test::Producer>(
        std::vector<int64_t>(info.shape, info.shape + info.num_dims), std::move(values)));
    rl_weight& weight = weights.emplace_back();
    rl_weight_init(&weight, sizeof weight);
    weight.name = name;
    check(rl_tensor_import_dlpack(h.runtime, &producers.back()->managed, nullptr, 0, &weight.tensor,
                                  &err));
  });
  if (at != text.size()) fail("the file of weights has another size");
  check(rl_model_set_weights(h.model, weights.data(), weights.size(), nullptr, version, &present,
                             &err));
  for (const rl_weight& weight : weights) rl_tensor_release(weight.tensor);
  return present;
}

// ---- the process that samples ----

void sample_group(const Host& h, uint64_t ordinal) {
  const int32_t prompt[] = {1, static_cast<int32_t>(2 + ordinal % 50)};
  rl_request request;
  uint64_t first_id = 0;
  rl_batch* batch = nullptr;
  rl_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.num_prompt = 2;
  request.num_samples = kGroup;
  request.ordinal = ordinal;
  check(rl_engine_submit(h.engine, &request, &first_id, &err));
  check(rl_engine_run(h.engine, &err));
  check(rl_engine_take(h.engine, &batch, &err));
  for (size_t i = 0; i < kGroup; ++i) {
    rl_score score;
    rl_score_init(&score, sizeof score);
    score.reward = static_cast<double>(i);
    check(rl_batch_score(batch, i, &score, 1, &err));
  }
  check(rl_buffer_put_batch(h.buffer, batch, &err));
  rl_batch_release(batch);
}

// Its record of what it has put lags behind, so that a new process puts groups again.
void run_sampler(const char* model, const fs::path& dir) {
  Host h = open_host(model, dir, "1", RL_USE_GENERATE);
  uint64_t ordinal = 0, version = 0;
  if (fs::exists(dir / "next")) ordinal = std::stoull(read_file(dir / "next"));
  for (;;) {
    version = receive(h, dir, version);
    if (ordinal % kBatch == 0 && fs::exists(dir / "stop")) break;
    if (ordinal >= (version + kAhead) * kBatch) {
      usleep(2000);
      continue;
    }
    sample_group(h, ordinal++);
    if (ordinal % 3 == 0) write_file(dir / "next", std::to_string(ordinal));
  }
  write_file(dir / "total", std::to_string(ordinal));
  close_host(h);
}

// ---- the process that trains ----

// What the weights of a checkpoint were trained on; its text is the state of the checkpoint.
struct Progress {
  uint64_t step = 0;
  std::vector<uint64_t> ordinals;

  std::string text() const {
    std::string out = std::to_string(step);
    for (const uint64_t ordinal : ordinals) out.append(1, ' ').append(std::to_string(ordinal));
    return out;
  }
  static Progress of(const std::string& text) {
    std::istringstream in(text);
    Progress p;
    in >> p.step;
    for (uint64_t ordinal; in >> ordinal;) p.ordinals.push_back(ordinal);
    return p;
  }
};

Progress load(const Host& h, const fs::path& dir) {
  const std::string path = (dir / "checkpoints").string();
  rl_bytes* state = nullptr;
  const rl_status status = rl_trainer_load(h.trainer, path.data(), path.size(), &state, &err);
  if (status == RL_NOT_FOUND) return {};
  check(status);
  const Progress progress =
      Progress::of({static_cast<const char*>(rl_bytes_data(state)), rl_bytes_size(state)});
  rl_bytes_release(state);
  return progress;
}

void save(const Host& h, const fs::path& dir, const Progress& progress) {
  const std::string path = (dir / "checkpoints").string(), state = progress.text();
  rl_checkpoint checkpoint;
  rl_bytes* made = nullptr;
  rl_checkpoint_init(&checkpoint, sizeof checkpoint);
  checkpoint.dir = path.c_str();
  checkpoint.state = state.c_str();
  checkpoint.keep_last = 2;
  checkpoint.flags = RL_SAVE_REPLACE;
  check(rl_trainer_save(h.trainer, &checkpoint, &made, &err));
  rl_bytes_release(made);
}

void train(const Host& h, rl_batch* batch, Progress& progress) {
  rl_step step;
  rl_event* event = nullptr;
  uint64_t version = 0;
  rl_step_init(&step, sizeof step);
  step.batch = batch;
  check(rl_trainer_step(h.trainer, &step, &event, &err));
  rl_event_release(event);
  check(rl_trainer_publish(h.trainer, &version, &err));
  ++progress.step;
  for (size_t i = 0; i < rl_batch_count(batch); i += kGroup) {
    rl_sample_view view;
    rl_sample_view_init(&view, sizeof view);
    check(rl_batch_sample(batch, i, &view, &err));
    progress.ordinals.push_back(view.ordinal);
  }
}

// NULL if no batch came in time.
rl_batch* take(const Host& h, uint64_t step, uint64_t min_groups) {
  rl_take take;
  rl_batch* batch = nullptr;
  rl_take_init(&take, sizeof take);
  take.min_groups = min_groups;
  take.max_groups = kBatch;
  take.step = step;
  const rl_status status = rl_buffer_take(h.buffer, &take, kWaitNs, &batch, &err);
  if (status == RL_TIMEOUT) return nullptr;
  check(status);
  return batch;
}

void require_each_once(const Progress& progress, uint64_t total) {
  std::map<uint64_t, int> times;
  for (const uint64_t ordinal : progress.ordinals) ++times[ordinal];
  for (uint64_t ordinal = 0; ordinal < total; ++ordinal) {
    if (times[ordinal] != 1) {
      fail("group " + std::to_string(ordinal) + " was trained " + std::to_string(times[ordinal]) +
           " times");
    }
  }
  if (times.size() != total) fail("groups were trained that were not sampled");
}

void run_trainer(const char* model, const fs::path& dir) {
  Host h = open_host(model, dir, "2", RL_USE_TRAIN);
  Progress progress = load(h, dir);
  check(rl_buffer_resume(h.buffer, progress.step, &err));
  if (progress.step > 0) publish(h, dir);
  for (;;) {
    rl_batch* const batch = take(h, progress.step + 1, kBatch);
    const bool ended = batch == nullptr && fs::exists(dir / "total");
    if (batch == nullptr && !ended) continue;
    if (batch != nullptr) train(h, batch, progress);
    rl_batch_release(batch);
    const uint64_t total = ended ? std::stoull(read_file(dir / "total")) : 0;
    const bool complete = ended && progress.ordinals.size() >= total;
    if (progress.step % kSaveEvery != 0 && !complete) continue;
    if (batch == nullptr && !complete) continue;
    save(h, dir, progress);
    publish(h, dir);
    check(rl_buffer_acknowledge(h.buffer, progress.step, &err));
    if (!complete) continue;
    if (take(h, progress.step + 1, 1) != nullptr) fail("a group is left");
    require_each_once(progress, total);
    write_file(dir / "trained", std::to_string(total));
    break;
  }
  close_host(h);
}

// ---- who starts and kills them ----

struct Worker {
  const char* name;
  void (*run)(const char* model, const fs::path& dir);
  pid_t pid = 0;  // 0: it has ended

  void start(const char* model, const fs::path& dir) {
    pid = fork();
    if (pid < 0) fail("fork");
    if (pid > 0) return;
    role = name;
    run(model, dir);
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
    kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    pid = 0;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: store_processes MODEL DIR KILLS SEED\n");
    return 2;
  }
  const char* model = argv[1];
  const fs::path dir = argv[2];
  const int kills = std::atoi(argv[3]);
  std::mt19937 rng(static_cast<unsigned>(std::atoi(argv[4])));
  fs::remove_all(dir);
  fs::create_directories(dir);
  Worker workers[] = {{"sampler", run_sampler}, {"trainer", run_trainer}};
  for (Worker& w : workers) w.start(model, dir);
  const time_t start = time(nullptr);
  for (int killed = 0; killed < kills; ++killed) {
    usleep(20'000 + rng() % 400'000);
    Worker& victim = workers[rng() % 2];
    if (victim.has_ended()) fail(std::string(victim.name) + " ended early");
    victim.kill_now();
    victim.start(model, dir);
  }
  usleep(300'000);  // both get on
  write_file(dir / "stop", "");
  while (!workers[0].has_ended() | !workers[1].has_ended()) {
    if (time(nullptr) - start > kMostSeconds) {
      for (Worker& w : workers) {
        if (w.pid != 0) w.kill_now();
      }
      fail("a group is lost: the trainer does not end");
    }
    usleep(5000);
  }
  int left = 0;
  if (fs::exists(dir / "store")) {
    for (const auto& entry : fs::recursive_directory_iterator(dir / "store")) {
      left += entry.path().extension() == ".rlbuf";
    }
  }
  if (left != 0) fail(std::to_string(left) + " groups are left in the store");
  std::printf("%d kills: each of %s groups was trained once\n", kills,
              read_file(dir / "trained").c_str());
  return 0;
}
