// Lifetimes: callbacks and their data, order of ending, and headers the library cannot serve.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

struct Log {
  int lines = 0, destroyed = 0;
};
void on_log(void* user_data, const rl_log_record* record) {
  EXPECT_GE(record->level, RL_LOG_ERROR);
  EXPECT_EQ(record->component[record->component_len], '\0');
  EXPECT_EQ(record->message[record->message_len], '\0');
  ++static_cast<Log*>(user_data)->lines;
}
void on_destroy(void* user_data) { ++static_cast<Log*>(user_data)->destroyed; }

TEST(AbiLifetime, CallbackDataEndsExactlyOnce) {
  Log first, second, failed, silent;
  rl_runtime* runtime = nullptr;
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, nullptr, &runtime, &err));
  EXPECT_RL_OK(rl_runtime_set_log(runtime, on_log, &first, on_destroy, &err));
  EXPECT_EQ(first.destroyed, 0);
  EXPECT_RL_OK(rl_runtime_set_log(runtime, on_log, &second, on_destroy, &err));
  EXPECT_EQ(first.destroyed, 1) << "replaced";
  EXPECT_RL_OK(rl_runtime_set_log(runtime, nullptr, &silent, on_destroy, &err));
  EXPECT_EQ(second.destroyed, 1) << "silenced";
  EXPECT_EQ(silent.destroyed, 1) << "no function took it";
  EXPECT_EQ(rl_runtime_set_log(nullptr, on_log, &failed, on_destroy, nullptr), RL_INVALID_ARGUMENT);
  EXPECT_EQ(failed.destroyed, 1) << "the call failed";
  Log last;
  EXPECT_RL_OK(rl_runtime_set_log(runtime, on_log, &last, on_destroy, &err));
  rl_runtime_destroy(runtime);
  EXPECT_EQ(last.destroyed, 1) << "the runtime ended";
}

TEST(AbiLifetime, ChildrenOutliveTheHandlesOfTheirParents) {
  Host host;
  rl_options_destroy(host.options);
  rl_runtime_destroy(host.runtime);
  rl_model_destroy(host.model);
  uint64_t version = 0;
  EXPECT_EQ(rl_model_version(host.model, &version, nullptr), RL_STALE_HANDLE);
  rl_batch_release(host.batch);
  host.generate();
  EXPECT_EQ(rl_batch_count(host.batch), 2u);
  rl_event_release(host.event);
  host.train();
  rl_engine_destroy(host.engine);
  EXPECT_EQ(rl_batch_count(host.batch), 2u) << "samples outlive their engine";
  EXPECT_RL_OK(rl_trainer_publish(host.trainer, &version, &err));
  EXPECT_EQ(version, 2u);
}

TEST(AbiLifetime, OldAndNewHeadersAreRefusedWithBothNumbers) {
  rl_runtime* runtime = reinterpret_cast<rl_runtime*>(1);
  const auto shown = [](uint32_t version) {
    return std::to_string(version >> 16) + "." + std::to_string(version & 0xffff);
  };
  std::vector<uint32_t> headers = {RL_ABI_VERSION + 1, RL_ABI_VERSION + 0x10000, 0xffffffffu};
  // Before 1.0 a library does not serve the minor version before its own either.
  if (RL_ABI_MAJOR == 0) headers.push_back(RL_ABI_VERSION - 1);
  for (const uint32_t header : headers) {
    rl_error* err = nullptr;
    EXPECT_EQ(rl_runtime_create(header, nullptr, &runtime, &err), RL_INCOMPATIBLE);
    EXPECT_EQ(runtime, nullptr);
    const std::string text = text_of(err, RL_ERROR_MESSAGE);
    EXPECT_NE(text.find("interface " + shown(header) + ","), std::string::npos) << text;
    EXPECT_NE(text.find("offers " + shown(RL_ABI_VERSION) + ";"), std::string::npos) << text;
    rl_error_release(err);
  }
}

TEST(AbiLifetime, DestroyingAPipelineEndsTheWaitOfAnotherThread) {
  Host host;
  rl_status ended = RL_OK;
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    rl_event* event = nullptr;
    waits = true;
    ended = rl_pipeline_next(host.pipeline, -1, &event, nullptr);
    rl_event_release(event);
  });
  while (!waits) std::this_thread::yield();
  // Destroyed before the call of next began, the handle would be stale: give it time to begin.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  rl_pipeline_destroy(host.pipeline);
  waiter.join();
  EXPECT_EQ(ended, RL_DONE);
}

TEST(AbiLifetime, DestroyingARunningPipelineEndsTheWaitOfAnotherThread) {
  Host host;
  EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));  // without prompts it waits for a feed
  rl_status ended = RL_OK;
  std::thread waiter([&] {
    rl_event* event = nullptr;
    ended = rl_pipeline_next(host.pipeline, -1, &event, nullptr);
    rl_event_release(event);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  rl_pipeline_destroy(host.pipeline);
  waiter.join();
  EXPECT_EQ(ended, RL_DONE);
  // The model is free again.
  uint64_t version = 0;
  EXPECT_RL_OK(rl_trainer_publish(host.trainer, &version, &err));
}

TEST(AbiLifetime, DestroyingAnEngineEndsTheRunOfAnotherThread) {
  Host host;
  set(host.options, "sampling.ignore_eos", "true");
  set(host.options, "sampling.max_new_tokens", "60");
  rl_request request;
  rl_request_init(&request, sizeof request);
  const int32_t prompt[] = {1, 2, 3};
  request.prompt = prompt;
  request.num_prompt = 3;
  request.num_samples = 4;
  request.sampling = host.options;
  uint64_t id = 0;
  for (int i = 0; i < 300; ++i) {
    EXPECT_RL_OK(rl_engine_submit(host.engine, &request, &id, &err));
  }
  rl_engine_stats stats;
  rl_engine_stats_init(&stats, sizeof stats);
  EXPECT_RL_OK(rl_engine_get_stats(host.engine, -1, RL_PERIOD_TOTAL, &stats, &err));
  const uint64_t before = stats.forwards;
  rl_status ended = RL_INTERNAL;
  std::thread runner([&] { ended = rl_engine_run(host.engine, nullptr); });
  do {
    EXPECT_RL_OK(rl_engine_get_stats(host.engine, -1, RL_PERIOD_TOTAL, &stats, &err));
  } while (stats.forwards == before);
  EXPECT_GT(stats.running + stats.waiting, 0u) << "stats are served while the engine runs";
  rl_engine_destroy(host.engine);
  // Its requests are gone with the call: the model may be trained again.
  rl_event_release(host.event);
  host.train();
  runner.join();
  EXPECT_EQ(ended, RL_OK);
}

TEST(AbiLifetime, OneHandleServesManyThreads) {
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([options, t] {
      for (int i = 0; i < 500; ++i) {
        rl_error* err = nullptr;
        rl_bytes* dump = nullptr;
        EXPECT_EQ(rl_options_set_i64(options, "runtime.threads", RL_NUL_TERMINATED, t, &err),
                  RL_OK);
        EXPECT_EQ(rl_options_set_i64(options, "no.such", RL_NUL_TERMINATED, t, &err),
                  RL_UNKNOWN_OPTION);
        EXPECT_NE(text_of(err, RL_ERROR_MESSAGE).find("no.such"), std::string::npos);
        rl_error_release(err);
        EXPECT_EQ(rl_options_export(options, RL_FORMAT_TEXT, 0, &dump, nullptr), RL_OK);
        rl_bytes_release(dump);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  rl_options_destroy(options);
}

}  // namespace
}  // namespace abi_test
