// Every function of rl.h from inside the callbacks that places_test.cc leaves: advantage and loss
// functions, on the host's thread (a trainer) and on the library's (a pipeline), and the function
// that ends user_data, which may call everything. A call that waits for itself is killed by a
// watchdog that names it.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <utility>

#include "abi/valid_arguments.h"

namespace abi_test {
namespace {

constexpr unsigned kHangSeconds = 120;

std::atomic<const char*> now_called{""};

void on_hang(int) {
  const char* const name = now_called;
  const bool told = write(STDERR_FILENO, name, strlen(name)) >= 0 &&
                    write(STDERR_FILENO, " waits for ever\n", 16) >= 0;
  _exit(told ? 1 : 2);
}

// While it lives, what takes too long ends the process.
class Watchdog {
 public:
  Watchdog() : before_(signal(SIGALRM, on_hang)) { alarm(kHangSeconds); }
  ~Watchdog() {
    alarm(0);
    signal(SIGALRM, before_);
  }
  Watchdog(const Watchdog&) = delete;

 private:
  void (*before_)(int);
};

// All but the callback-safe functions are refused, and what ends a handle of which only one owner
// is left ends nothing; the safe ones work.
void try_every_function(const Host& host) {
  size_t refused = 0;
  for (const Row& row : rows()) {
    if (row.ends_a_handle() && !row.ends_with("_destroy")) continue;
    SCOPED_TRACE(row.name);
    now_called = row.name;
    Arguments arguments(row, host);
    const auto status = static_cast<rl_status>(arguments.call());
    if (!row.has_status) continue;
    EXPECT_EQ(status, row.callback_safe ? valid_status(row) : RL_WRONG_THREAD)
        << arguments.complaint();
    if (row.callback_safe) continue;
    EXPECT_EQ(rl_error_code(arguments.error()), RL_WRONG_THREAD);
    EXPECT_TRUE(arguments.results_are_clear(row.parameters.size()));
    ++refused;
  }
  EXPECT_GT(refused, rows().size() / 2);
  rl_buffer_stats stats;
  rl_buffer_stats_init(&stats, sizeof stats);
  EXPECT_EQ(rl_buffer_get_stats(host.buffer, &stats, nullptr), RL_WRONG_THREAD);
}

struct Inside {
  const Host* host;
  int advantages = 0, losses = 0;
};

int32_t on_advantages(void* self, const rl_algo_tokens*, double*) {
  auto& inside = *static_cast<Inside*>(self);
  if (inside.advantages++ == 0) try_every_function(*inside.host);
  return 0;
}

int32_t on_loss(void* self, const rl_algo_tokens*, const double*, double*, double*) {
  auto& inside = *static_cast<Inside*>(self);
  if (inside.losses++ == 0) try_every_function(*inside.host);
  return 0;
}

rl_options* with_functions(const Host& host) {
  rl_options* custom = nullptr;
  EXPECT_RL_OK(rl_options_clone(host.options, &custom, &err));
  set(custom, "algo.advantage", "custom");
  set(custom, "algo.policy_loss", "custom");
  return custom;
}

void expect_every_object_lives(const Host& host) {
  uint64_t version = 0;
  stats_of(host.buffer);  // expects RL_OK
  EXPECT_RL_OK(rl_model_version(host.model, &version, &err));
  EXPECT_RL_OK(rl_options_validate(host.options, &err));
}

TEST(Reentrance, FunctionsOfATrainerGetWrongThreadFromAllButTheSafeFunctions) {
  const Watchdog watchdog;
  Host host;
  Inside inside{&host};
  rl_options* const options = with_functions(host);
  rl_trainer* trainer = nullptr;
  rl_event* step = nullptr;
  EXPECT_RL_OK(rl_trainer_create(host.model, options, &trainer, &err));
  EXPECT_RL_OK(rl_trainer_set_advantage(trainer, on_advantages, &inside, nullptr, &err));
  EXPECT_RL_OK(rl_trainer_set_loss(trainer, on_loss, &inside, nullptr, &err));
  EXPECT_RL_OK(train(trainer, host.batch, &step, &err));
  EXPECT_EQ(inside.advantages, 1);
  EXPECT_EQ(inside.losses, 1);
  expect_every_object_lives(host);
  rl_event_release(step);
  rl_trainer_destroy(trainer);
  rl_options_destroy(options);
}

TEST(Reentrance, FunctionsOfAPipelineGetWrongThreadFromAllButTheSafeFunctions) {
  const Watchdog watchdog;
  static const int32_t prompt[] = {1, 2, 3};
  Host host;
  Inside inside{&host};
  rl_options* const options = with_functions(host);
  rl_pipeline* pipeline = nullptr;
  EXPECT_RL_OK(rl_pipeline_create(host.model, options, &pipeline, &err));
  EXPECT_RL_OK(rl_pipeline_set_advantage(pipeline, on_advantages, &inside, nullptr, &err));
  EXPECT_RL_OK(rl_pipeline_set_loss(pipeline, on_loss, &inside, nullptr, &err));
  EXPECT_RL_OK(rl_pipeline_start(pipeline, &err));
  EXPECT_RL_OK(feed(pipeline, prompt, 3, &err));
  EXPECT_RL_OK(rl_pipeline_finish_feed(pipeline, &err));
  rl_event* event = nullptr;
  rl_status status;
  while ((status = rl_pipeline_next(pipeline, -1, &event, nullptr)) == RL_OK) {
    rl_sample_view sample;
    rl_sample_view_init(&sample, sizeof sample);
    if (rl_event_sample(event, 0, &sample, nullptr) == RL_OK) {
      EXPECT_RL_OK(score(pipeline, sample.sample_id, sample.slot, &err));
    }
    rl_event_release(event);
  }
  EXPECT_EQ(status, RL_DONE);
  EXPECT_EQ(inside.advantages, 1);
  EXPECT_EQ(inside.losses, 1);
  rl_pipeline_destroy(pipeline);
  expect_every_object_lives(host);
  rl_options_destroy(options);
}

struct Ending {
  std::function<void()> work;
  int calls = 0;
};

void on_end(void* self) {
  auto& ending = *static_cast<Ending*>(self);
  if (ending.calls++ == 0) ending.work();
}

int32_t no_advantages(void*, const rl_algo_tokens*, double*) { return 0; }
void no_line(void*, const rl_log_record*) {}

// Gives a user_data and takes it back, so that its end comes inside a call of the library.
using GiveAndTake = void (*)(const Host&, Ending*);

void by_log(const Host& host, Ending* ending) {
  EXPECT_RL_OK(rl_runtime_set_log(host.runtime, no_line, ending, on_end, &err));
  EXPECT_RL_OK(rl_runtime_set_log(host.runtime, nullptr, nullptr, nullptr, &err));
}

void by_trainer(const Host& host, Ending* ending) {
  EXPECT_RL_OK(rl_trainer_set_advantage(host.trainer, no_advantages, ending, on_end, &err));
  EXPECT_RL_OK(rl_trainer_set_advantage(host.trainer, nullptr, nullptr, nullptr, &err));
}

void by_pipeline(const Host& host, Ending* ending) {
  EXPECT_RL_OK(rl_pipeline_set_advantage(host.pipeline, no_advantages, ending, on_end, &err));
  EXPECT_RL_OK(rl_pipeline_set_advantage(host.pipeline, nullptr, nullptr, nullptr, &err));
}

TEST(Reentrance, WhatEndsUserDataMayCallEveryFunction) {
  for (const GiveAndTake give_and_take : {by_log, by_trainer, by_pipeline}) {
    const Watchdog watchdog;
    std::filesystem::create_directories(RL_TEST_OUTPUT);
    const Host host;
    Ending ending{[&host] {
      for (const Row& row : rows()) {
        if (row.ends_a_handle()) continue;
        SCOPED_TRACE(row.name);
        now_called = row.name;
        Arguments arguments(row, host);
        const auto status = static_cast<rl_status>(arguments.call());
        if (row.has_status) {
          EXPECT_NE(status, RL_WRONG_THREAD);
          EXPECT_NE(status, RL_INTERNAL) << arguments.complaint();
        }
        arguments.release_results();
      }
    }};
    give_and_take(host, &ending);
    EXPECT_EQ(ending.calls, 1);
    std::filesystem::remove_all(RL_TEST_OUTPUT);
  }
}

// The call that takes it has its object for as long as it needs it.
TEST(Reentrance, WhatEndsUserDataMayEndEverything) {
  for (const GiveAndTake give_and_take : {by_log, by_trainer, by_pipeline}) {
    const Watchdog watchdog;
    Host host;
    Ending ending{[&host] { host.end(); }};
    give_and_take(host, &ending);
    EXPECT_EQ(ending.calls, 1);
    uint64_t version = 0;
    EXPECT_EQ(rl_model_version(host.model, &version, nullptr), RL_STALE_HANDLE);
  }
}

}  // namespace
}  // namespace abi_test
