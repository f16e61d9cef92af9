// Lifetimes: callbacks and their data, order of ending, fork, and headers the library cannot serve.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

struct Log {
  int lines = 0, destroyed = 0;
};
void on_log(void* user_data, int32_t level, const char* component, size_t component_len,
            const char* message, size_t message_len) {
  EXPECT_GE(level, RL_LOG_ERROR);
  EXPECT_EQ(component[component_len], '\0');
  EXPECT_EQ(message[message_len], '\0');
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
  host.draw();
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
  for (const uint32_t header : {RL_ABI_VERSION + 1, RL_ABI_VERSION + 0x10000, 0xffffffffu}) {
    rl_error* err = nullptr;
    EXPECT_EQ(rl_runtime_create(header, nullptr, &runtime, &err), RL_INCOMPATIBLE);
    EXPECT_EQ(runtime, nullptr);
    EXPECT_NE(text_of(err, RL_ERROR_MESSAGE).find("0.1"), std::string::npos);
    rl_error_release(err);
  }
}

// What a forked child finds, as bits of its exit status: 0 when all is as promised.
int look_from_child(const Host& host) {
  int wrong = 0;
  uint64_t version = 0;
  if (rl_model_version(host.model, &version, nullptr) != RL_FORKED) wrong |= 1;
  if (rl_options_validate(host.options, nullptr) != RL_FORKED) wrong |= 2;
  if (rl_bytes_data(host.bytes) != nullptr) wrong |= 4;
  rl_options* fresh = nullptr;
  if (rl_options_create(&fresh, nullptr) != RL_FORKED || fresh != nullptr) wrong |= 8;
  rl_pipeline_destroy(host.pipeline);
  rl_runtime_destroy(host.runtime);
  return wrong;
}

TEST(AbiLifetime, AForkedChildGetsForkedAndEndsNothing) {
  const Host host;
  const pid_t child = fork();
  if (child == 0) _exit(look_from_child(host));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_RL_OK(rl_options_validate(host.options, &err));
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
        EXPECT_EQ(rl_options_dump(options, 0, &dump, nullptr), RL_OK);
        rl_bytes_release(dump);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  rl_options_destroy(options);
}

}  // namespace
}  // namespace abi_test
