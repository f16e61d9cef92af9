// Files of the host through rl_files: a run whose files are all in memory, a prefix beside the
// operating system's files, failures of every call, and tables that are refused.
#include <filesystem>
#include <functional>
#include <vector>

#include "abi/host.h"
#include "abi/memory_files.h"
#include "support/temp_dir.h"

namespace abi_test {
namespace {

constexpr const char* kModelFiles[] = {"config.json", "model.safetensors"};

void put_model(MemoryFiles& files, const std::string& dir) {
  for (const char* name : kModelFiles) {
    files.put_copy(dir + "/" + name, std::string(RL_FIXTURES "/models/llama/") + name);
  }
}

// Options of a short run whose files are all below `root`.
void set_run(rl_options* options, const std::string& root) {
  const std::pair<const char*, std::string> settings[] = {
      {"model.path", root + "/model"},
      {"data.path", root + "/data.jsonl"},
      {"eval.path", root + "/data.jsonl"},
      {"eval.max_new_tokens", "2"},
      {"runtime.threads", "1"},
      {"engine.max_num_seqs", "4"},
      {"engine.max_model_len", "64"},
      {"pipeline.samples_per_prompt", "2"},
      {"pipeline.prompts_per_step", "1"},
      {"pipeline.total_steps", "2"},
      {"sampling.max_new_tokens", "4"},
      {"buffer.record_dir", root + "/batches"},
      {"checkpoint.dir", root + "/checkpoints"},
      {"checkpoint.every_steps", "1"},
      {"checkpoint.resume", "auto"},
      {"metrics.jsonl", root + "/metrics.jsonl"},
      {"metrics.samples", root + "/samples.jsonl"},
      {"metrics.tensorboard", "true"},
      {"profiler.timeline.enable", "true"},
      {"profiler.timeline.dir", root + "/trace"},
  };
  for (const auto& [key, value] : settings) set(options, key, value);
}

void put_data(MemoryFiles& files, const std::string& path) {
  std::string rows;
  for (int row = 1; row <= 4; ++row) {
    rows += "{\"ids\": [1, " + std::to_string(row + 1) + ", 3]}\n";
  }
  files.put(path, rows);
}

// A runtime with the host's files and what is made from it. A failed call ends the work.
struct HostedRun {
  explicit HostedRun(const rl_files& files, const std::string& root = "run") {
    EXPECT_RL_OK(rl_options_create(&options, &err));
    set_run(options, root);
    rl_host host;
    rl_host_init(&host, sizeof host);
    host.files = &files;
    EXPECT_RL_OK(rl_runtime_create_hosted(RL_ABI_VERSION, options, &host, &runtime, &err));
  }
  ~HostedRun() {
    rl_pipeline_destroy(pipeline);
    rl_model_destroy(model);
    rl_runtime_destroy(runtime);
    rl_options_destroy(options);
    rl_error_release(failure);
  }
  HostedRun(const HostedRun&) = delete;

  bool did(rl_status got) {
    if (got == RL_OK) return true;
    status = got;
    return false;
  }
  // Notes the error of the first failure.
  rl_error** err() {
    rl_error_release(failure);
    failure = nullptr;
    return &failure;
  }
  bool open() { return did(rl_model_open(runtime, nullptr, RL_USE_PIPELINE, &model, err())); }
  bool run() {
    if (!did(rl_pipeline_create(model, nullptr, &pipeline, err()))) return false;
    if (!did(rl_pipeline_start(pipeline, err()))) return false;
    rl_event* event = nullptr;
    rl_status got;
    while ((got = rl_pipeline_next(pipeline, 60'000'000'000, &event, err())) == RL_OK) {
      if (rl_event_kind(event) == RL_EVENT_SCORE) score(event);
      rl_event_release(event);
    }
    if (got != RL_DONE) return did(got);
    return did(rl_pipeline_close_result(pipeline, err()));
  }
  void score(const rl_event* event) {
    rl_sample_view sample;
    rl_sample_view_init(&sample, sizeof sample);
    EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
    EXPECT_RL_OK(abi_test::score(pipeline, sample.sample_id, sample.slot, &err));
  }
  bool save(const std::string& dir) {
    return did(rl_model_save(model, dir.data(), dir.size(), RL_DTYPE_F32, RL_SAVE_REPLACE, err()));
  }
  bool report(const std::string& path) {
    return did(rl_pipeline_write_report(pipeline, nullptr, path.data(), path.size(), err()));
  }
  uint64_t digest() const {
    uint64_t out = 0;
    EXPECT_RL_OK(rl_model_digest(model, &out, &err));
    return out;
  }
  std::string text() const { return text_of(failure, RL_ERROR_SUMMARY); }

  rl_options* options = nullptr;
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_pipeline* pipeline = nullptr;
  rl_status status = RL_OK;
  rl_error* failure = nullptr;
};

TEST(HostFiles, ARunHasAllItsFilesInMemory) {
  MemoryFiles files;
  put_model(files, "run/model");
  put_data(files, "run/data.jsonl");
  uint64_t trained = 0;
  {
    HostedRun run(files.table());
    ASSERT_TRUE(run.open()) << run.text();
    const uint64_t before = run.digest();
    ASSERT_TRUE(run.run()) << run.text();
    trained = run.digest();
    EXPECT_NE(trained, before);
    EXPECT_TRUE(run.save("run/saved")) << run.text();
    EXPECT_TRUE(run.report("run/report.html")) << run.text();
  }
  for (const char* part : {"checkpoints/step_", "batches/", "events.out.tfevents",
                           "trace/trace.json", "saved/model.safetensors"}) {
    EXPECT_GT(files.count(part), 0u) << part;
  }
  for (const char* path : {"run/metrics.jsonl", "run/samples.jsonl", "run/report.html"}) {
    EXPECT_NE(files.text(path), "") << path;
  }
  EXPECT_EQ(files.count(".tmp") + files.count(".partial"), 0u);
  EXPECT_EQ(files.num_open(), 0);
  EXPECT_FALSE(std::filesystem::exists("run")) << "something went to the disk";

  HostedRun again(files.table());
  set(again.options, "model.path", "run/saved");
  EXPECT_RL_OK(rl_model_open(again.runtime, again.options, RL_USE_MODEL, &again.model, &err));
  EXPECT_EQ(again.digest(), trained) << "the saved model";
}

TEST(HostFiles, ARunIsResumedFromACheckpointInMemory) {
  MemoryFiles files;
  put_model(files, "run/model");
  put_data(files, "run/data.jsonl");
  uint64_t trained = 0;
  {
    HostedRun run(files.table());
    ASSERT_TRUE(run.open() && run.run()) << run.text();
    trained = run.digest();
  }
  HostedRun resumed(files.table());
  ASSERT_TRUE(resumed.open()) << resumed.text();
  EXPECT_NE(resumed.digest(), trained);
  EXPECT_RL_OK(rl_pipeline_create(resumed.model, nullptr, &resumed.pipeline, &err));
  EXPECT_EQ(resumed.digest(), trained);
  rl_bytes* path = nullptr;
  EXPECT_RL_OK(rl_pipeline_resumed_from(resumed.pipeline, &path, &err));
  EXPECT_TRUE(std::string(static_cast<const char*>(rl_bytes_data(path)))
                  .starts_with("run/checkpoints/step_"));
  rl_bytes_release(path);
}

TEST(HostFiles, AResumeThatFailsKeepsTheMetricsOfEarlierSteps) {
  MemoryFiles files;
  put_model(files, "run/model");
  put_data(files, "run/data.jsonl");
  {
    HostedRun run(files.table());
    ASSERT_TRUE(run.open() && run.run()) << run.text();
  }
  const std::string earlier = files.text("run/metrics.jsonl");
  EXPECT_NE(earlier, "");
  files.fail_create("run/samples.jsonl");  // opened after run/metrics.jsonl
  {
    HostedRun resumed(files.table());
    ASSERT_TRUE(resumed.open()) << resumed.text();
    EXPECT_FALSE(resumed.run());
    EXPECT_EQ(resumed.status, RL_IO) << resumed.text();
  }
  EXPECT_EQ(files.text("run/metrics.jsonl"), earlier);
  EXPECT_EQ(files.num_open(), 0);
}

// The model comes from disk, and only what begins with the prefix is the host's.
TEST(HostFiles, PathsOutsideThePrefixAreThoseOfTheSystem) {
  MemoryFiles files;
  const rl::TempDir dir;
  rl_files table = files.table();
  table.prefix = "/memory/";
  table.prefix_len = RL_NUL_TERMINATED;
  HostedRun run(table, "/memory");
  put_data(files, "/memory/data.jsonl");
  set(run.options, "model.path", RL_FIXTURES "/models/llama");
  set(run.options, "metrics.jsonl", dir.file("metrics.jsonl"));
  EXPECT_RL_OK(rl_model_open(run.runtime, run.options, RL_USE_PIPELINE, &run.model, &err));
  ASSERT_TRUE(run.run()) << run.text();
  EXPECT_TRUE(run.save("/memory/saved")) << "at the top of the prefix: " << run.text();
  EXPECT_TRUE(run.save(dir.file("saved"))) << run.text();
  EXPECT_TRUE(std::filesystem::exists(dir.file("metrics.jsonl")));
  EXPECT_TRUE(std::filesystem::exists(dir.file("saved/model.safetensors")));
  EXPECT_GT(files.count("/memory/checkpoints/step_"), 0u);
  EXPECT_TRUE(files.has("/memory/saved/model.safetensors"));
  EXPECT_EQ(files.count(dir.path()), 0u);
  EXPECT_FALSE(std::filesystem::exists("/memory"));
}

// The directory above the first name is the prefix without its slashes.
TEST(HostFiles, APrefixMayBeAScheme) {
  MemoryFiles files;
  rl_files table = files.table();
  table.prefix = "memory://";
  table.prefix_len = RL_NUL_TERMINATED;
  put_model(files, "memory://model");
  HostedRun run(table, "memory://run");
  set(run.options, "model.path", "memory://model");
  EXPECT_RL_OK(rl_model_open(run.runtime, run.options, RL_USE_MODEL, &run.model, &err));
  EXPECT_TRUE(run.save("memory://saved")) << run.text();
  EXPECT_TRUE(files.has("memory://saved/model.safetensors"));
}

TEST(HostFiles, PlansAndBuffersUseTheFilesOfARuntime) {
  MemoryFiles files;
  put_model(files, "run/model");
  const HostedRun run(files.table());
  rl_plan* plan = nullptr;
  EXPECT_EQ(rl_plan_create(run.options, RL_USE_PIPELINE, &plan, nullptr), RL_NOT_FOUND);
  EXPECT_RL_OK(rl_plan_create_hosted(run.runtime, nullptr, RL_USE_PIPELINE, &plan, &err));
  EXPECT_GT(rl_plan_count(plan), 0u);
  rl_plan_release(plan);

  const Host host;
  const std::string path = "run/samples.rlbuf";
  EXPECT_RL_OK(rl_buffer_put_batch(host.buffer, host.batch, &err));
  EXPECT_RL_OK(rl_buffer_set_runtime(host.buffer, run.runtime, &err));
  EXPECT_RL_OK(rl_buffer_save(host.buffer, path.data(), path.size(), nullptr, 0, &err));
  EXPECT_TRUE(files.has(path));
  rl_buffer_file_info info;
  rl_buffer_file_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_buffer_get_hosted_file_info(run.runtime, path.data(), path.size(), &info, &err));
  EXPECT_EQ(info.group_size, 2u);
  rl_batch* taken = nullptr;
  EXPECT_RL_OK(take_groups(host.buffer, 1, &taken, &err));
  rl_batch_release(taken);
  uint64_t count = 0;
  EXPECT_RL_OK(rl_buffer_load(host.buffer, path.data(), path.size(), nullptr, &count, &err));
  EXPECT_EQ(count, 2u);
  EXPECT_RL_OK(rl_buffer_set_runtime(host.buffer, nullptr, &err));
  EXPECT_EQ(rl_buffer_load(host.buffer, path.data(), path.size(), nullptr, &count, nullptr),
            RL_NOT_FOUND);
}

// What a host's code means, and where it came from.
TEST(HostFiles, CodesOfTheHostComeBackWithTheirMeaning) {
  MemoryFiles files;
  put_model(files, "run/model");
  {
    HostedRun run(files.table());
    files.fail_at(1);
    EXPECT_FALSE(run.open());
    EXPECT_EQ(run.status, RL_IO);
    EXPECT_EQ(rl_error_system_code(run.failure), MemoryFiles::kQuota);
    EXPECT_NE(run.text().find("the quota is used up"), std::string::npos) << run.text();
    EXPECT_NE(run.text().find("run/model"), std::string::npos) << run.text();
  }
  rl_files table = files.table();
  table.describe = nullptr;
  HostedRun run(table);
  files.fail_at(1, EACCES);
  EXPECT_FALSE(run.open());
  EXPECT_NE(run.text().find("Permission denied"), std::string::npos) << run.text();
  set(run.options, "model.path", "run/none");
  EXPECT_EQ(rl_model_open(run.runtime, run.options, RL_USE_MODEL, &run.model, nullptr),
            RL_NOT_FOUND);
}

// Every function that reads or writes files of the runtime, with its first call of the host
// failing.
TEST(HostFiles, AFailureIsTheResultOfWhateverNeedsTheFile) {
  MemoryFiles files;
  put_model(files, "run/model");
  put_data(files, "run/data.jsonl");
  HostedRun run(files.table());
  ASSERT_TRUE(run.open()) << run.text();
  EXPECT_RL_OK(rl_pipeline_create(run.model, nullptr, &run.pipeline, &err));
  const Host host;
  rl_model* model = nullptr;
  rl_trainer* trainer = nullptr;
  rl_profiler* profiler = nullptr;
  rl_bytes* bytes = nullptr;
  uint64_t count = 0;
  rl_checkpoint checkpoint;
  rl_checkpoint_init(&checkpoint, sizeof checkpoint);
  checkpoint.dir = "run/trainer";
  rl_options* options = tiny_options();
  set(options, "model.path", "run/model");
  set(options, "algo.advantage", "gae");
  EXPECT_RL_OK(rl_model_open(run.runtime, options, RL_USE_TRAIN, &model, &err));
  EXPECT_RL_OK(rl_trainer_create(model, nullptr, &trainer, &err));
  EXPECT_RL_OK(rl_trainer_save(trainer, &checkpoint, &bytes, &err));
  rl_bytes_release(bytes);
  EXPECT_RL_OK(rl_profiler_create(run.runtime, &profiler, &err));
  EXPECT_RL_OK(rl_buffer_set_runtime(host.buffer, run.runtime, &err));
  EXPECT_RL_OK(rl_buffer_put_batch(host.buffer, host.batch, &err));
  const std::string path = "run/file";
  EXPECT_RL_OK(rl_buffer_save(host.buffer, path.data(), path.size(), nullptr, 0, &err));

  const int64_t open_before = files.num_open();  // those of the pipeline
  const auto expect_io = [&](const char* what, auto&& call) {
    files.fail_at(1);
    EXPECT_EQ(call(), RL_IO) << what;
    files.fail_at(0);
  };
  expect_io("plan", [&] {
    rl_plan* plan = nullptr;
    return rl_plan_create_hosted(run.runtime, options, RL_USE_TRAIN, &plan, nullptr);
  });
  expect_io("trainer_create", [&] {
    rl_trainer* other = nullptr;
    return rl_trainer_create(model, nullptr, &other, nullptr);
  });
  expect_io("trainer_save", [&] { return rl_trainer_save(trainer, &checkpoint, &bytes, nullptr); });
  expect_io("trainer_load", [&] {
    return rl_trainer_load(trainer, checkpoint.dir, RL_NUL_TERMINATED, &bytes, nullptr);
  });
  expect_io("trainer_save_critic", [&] {
    return rl_trainer_save_critic(trainer, "run/critic", RL_NUL_TERMINATED, RL_DTYPE_F32, 0,
                                  nullptr);
  });
  expect_io("buffer_save", [&] {
    return rl_buffer_save(host.buffer, path.data(), path.size(), nullptr, RL_SAVE_REPLACE, nullptr);
  });
  expect_io("buffer_load", [&] {
    return rl_buffer_load(host.buffer, path.data(), path.size(), nullptr, &count, nullptr);
  });
  expect_io("buffer_get_file_info", [&] {
    rl_buffer_file_info info;
    rl_buffer_file_info_init(&info, sizeof info);
    return rl_buffer_get_hosted_file_info(run.runtime, path.data(), path.size(), &info, nullptr);
  });
  expect_io("profiler_write_trace",
            [&] { return rl_profiler_write_trace(profiler, path.data(), path.size(), nullptr); });
  expect_io("pipeline_checkpoint",
            [&] { return rl_pipeline_checkpoint(run.pipeline, 0, &bytes, nullptr); });
  rl_profiler_destroy(profiler);
  rl_trainer_destroy(trainer);
  rl_model_destroy(model);
  rl_options_destroy(options);
  EXPECT_EQ(files.num_open(), open_before);
}

// A listing of one name that is none, in place of the host's.
const char* listed_name = nullptr;
size_t listed_len = 0;
int32_t list_name(void*, const char*, size_t, rl_file_found_fn found, void* context) {
  return found(context, listed_name, listed_len);
}

TEST(HostFiles, NamesOfAListingAreChecked) {
  MemoryFiles files;
  put_model(files, "run/model");
  put_data(files, "run/data.jsonl");
  rl_files table = files.table();
  {
    HostedRun run(table);
    ASSERT_TRUE(run.open() && run.run()) << run.text();
  }
  table.list = list_name;
  const auto expect_refused = [&](const char* name, size_t len, const std::string& shown) {
    listed_name = name;
    listed_len = len;
    HostedRun resumed(table);
    ASSERT_TRUE(resumed.open()) << resumed.text();
    EXPECT_FALSE(resumed.run());
    EXPECT_EQ(resumed.status, RL_IO);
    const std::string text = "an entry has the invalid name \"" + shown + "\"";
    EXPECT_NE(resumed.text().find(text), std::string::npos) << resumed.text();
  };
  expect_refused(nullptr, 0, "");
  expect_refused(nullptr, 3, "");
  expect_refused("a/b", 3, "a/b");
  expect_refused("..", RL_NUL_TERMINATED, "..");
}

// Saves a model with call n failing, for every n until nothing fails.
TEST(HostFiles, AFailureOfAnyCallLeavesNoFileOpenAndNothingIncomplete) {
  MemoryFiles files;
  put_model(files, "run/model");
  HostedRun run(files.table());
  ASSERT_TRUE(run.open()) << run.text();
  ASSERT_TRUE(run.save("run/saved")) << run.text();
  const std::string whole = files.text("run/saved/model.safetensors");
  int64_t failures = 0;
  for (int64_t at = 1;; ++at) {
    ASSERT_LT(at, 1000);
    files.fail_at(at);
    const bool saved = run.save("run/saved");
    const bool reached = files.calls() >= at;
    files.fail_at(0);
    EXPECT_EQ(files.num_open(), 0) << "after call " << at;
    EXPECT_EQ(files.text("run/saved/model.safetensors"), whole) << "after call " << at;
    if (!reached) {
      EXPECT_TRUE(saved) << run.text();
      break;
    }
    if (saved) continue;  // what failed was removing an old directory
    ++failures;
    EXPECT_EQ(run.status, RL_IO) << at;
    EXPECT_EQ(rl_error_system_code(run.failure), MemoryFiles::kQuota);
    ASSERT_TRUE(run.save("run/saved")) << "after call " << at << ": " << run.text();
  }
  EXPECT_GT(failures, 10);
  EXPECT_GT(files.num_discarded(), 0) << "a failing write discards its file";
}

// ---- tables ----

int ended = 0;
void count_end(void*) { ++ended; }

struct Answer {
  rl_status status;
  std::string key;
};

Answer create_with(const rl_files& files) {
  rl_host host;
  rl_host_init(&host, sizeof host);
  host.files = &files;
  rl_runtime* runtime = nullptr;
  rl_error* err = nullptr;
  const rl_status status = rl_runtime_create_hosted(RL_ABI_VERSION, nullptr, &host, &runtime, &err);
  Answer answer{status, text_of(err, RL_ERROR_KEY)};
  rl_error_release(err);
  rl_runtime_destroy(runtime);
  return answer;
}

TEST(HostFiles, AMissingFunctionIsRefusedByName) {
  MemoryFiles files;
  const std::pair<const char*, std::function<void(rl_files&)>> missing[] = {
      {"files.open", [](rl_files& f) { f.open = nullptr; }},
      {"files.create", [](rl_files& f) { f.create = nullptr; }},
      {"files.read", [](rl_files& f) { f.read = nullptr; }},
      {"files.write", [](rl_files& f) { f.write = nullptr; }},
      {"files.close", [](rl_files& f) { f.close = nullptr; }},
      {"files.kind", [](rl_files& f) { f.kind = nullptr; }},
      {"files.list", [](rl_files& f) { f.list = nullptr; }},
      {"files.make_directories", [](rl_files& f) { f.make_directories = nullptr; }},
      {"files.rename", [](rl_files& f) { f.rename = nullptr; }},
      {"files.remove", [](rl_files& f) { f.remove = nullptr; }},
  };
  ended = 0;
  int refused = 0;
  for (const auto& [key, spoil] : missing) {
    rl_files table = files.table();
    table.destroy = count_end;
    spoil(table);
    const Answer answer = create_with(table);
    EXPECT_EQ(answer.status, RL_INVALID_ARGUMENT) << key;
    EXPECT_EQ(answer.key, key);
    EXPECT_EQ(ended, ++refused) << "user_data is consumed when the table is refused";
  }
  rl_files table = files.table();
  table.sync = nullptr;
  table.sync_directory = nullptr;
  table.describe = nullptr;
  EXPECT_EQ(create_with(table).status, RL_OK) << "these may be missing";
  table.prefix = "\xff";
  table.prefix_len = 1;
  EXPECT_EQ(create_with(table).key, "files.prefix");
}

TEST(HostFiles, ATableOfTheWrongSizeIsRefusedByName) {
  MemoryFiles files;
  ended = 0;
  rl_files table = files.table();
  table.destroy = count_end;
  table.struct_size = sizeof table - 1;
  Answer answer = create_with(table);
  EXPECT_EQ(answer.status, RL_INVALID_ARGUMENT);
  EXPECT_EQ(answer.key, "files");
  EXPECT_EQ(ended, 0) << "nothing but the size was read";

  struct {
    rl_files files;
    int64_t more;
  } larger = {table, 1};
  larger.files.struct_size = sizeof larger;
  answer = create_with(larger.files);
  EXPECT_EQ(answer.status, RL_UNSUPPORTED);
  EXPECT_EQ(answer.key, "files");
  EXPECT_EQ(ended, 1);
  larger.more = 0;
  EXPECT_EQ(create_with(larger.files).status, RL_OK);
  EXPECT_EQ(ended, 2);
}

TEST(HostFiles, UserDataEndsWithTheLastObjectOfTheRuntime) {
  MemoryFiles files;
  put_model(files, "run/model");
  ended = 0;
  rl_files table = files.table();
  table.destroy = count_end;
  {
    HostedRun run(table);
    ASSERT_TRUE(run.open()) << run.text();
    rl_runtime_destroy(run.runtime);
    EXPECT_EQ(ended, 0) << "the model still has its files";
    EXPECT_TRUE(run.save("run/saved")) << run.text();
  }
  EXPECT_EQ(ended, 1);
  rl_host host;
  rl_host_init(&host, sizeof host);
  host.files = &table;
  rl_runtime* runtime = nullptr;
  EXPECT_EQ(rl_runtime_create_hosted(0, nullptr, &host, &runtime, nullptr), RL_INCOMPATIBLE);
  EXPECT_EQ(ended, 2) << "another failure consumes it too";
}

// A function of the host calls the library back.
rl_runtime* reentered = nullptr;
rl_status inner = RL_OK;
int32_t calling_kind(void* user_data, const char* path, size_t path_len, int32_t* kind) {
  rl_runtime_info info;
  rl_runtime_info_init(&info, sizeof info);
  inner = rl_runtime_get_info(reentered, &info, nullptr);
  rl_runtime_destroy(reentered);
  EXPECT_STREQ(rl_status_name(RL_IO), "RL_IO");
  return static_cast<MemoryFiles*>(user_data)->table().kind(user_data, path, path_len, kind);
}

TEST(HostFiles, InsideThemOnlyCallbackSafeFunctionsWork) {
  MemoryFiles files;
  put_model(files, "run/model");
  rl_files table = files.table();
  table.kind = calling_kind;
  HostedRun run(table);
  reentered = run.runtime;
  ASSERT_TRUE(run.open()) << run.text();
  EXPECT_EQ(inner, RL_WRONG_THREAD);
  EXPECT_GT(info_of(run.runtime).threads, 0);
}

}  // namespace
}  // namespace abi_test
