// Where functions may be called: every one from inside the log callback, from inside an event
// callback, and in a forked child. What is not allowed there is a named error, never a wait.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <thread>

#include "abi/valid_arguments.h"

namespace abi_test {
namespace {

// Runs a function once, inside the log callback.
class InLogCallback {
 public:
  InLogCallback(const Host& host, std::function<void()> work) : work_(std::move(work)) {
    EXPECT_RL_OK(rl_runtime_set_log(host.runtime, on_line, this, nullptr, &err));
    rl_model* model = nullptr;  // opening one is worth a line on this thread
    EXPECT_RL_OK(rl_model_open(host.runtime, host.options, RL_USE_MODEL, &model, &err));
    rl_model_destroy(model);
    EXPECT_RL_OK(rl_runtime_set_log(host.runtime, nullptr, nullptr, nullptr, &err));
    EXPECT_EQ(calls_, 1);
  }

 private:
  static void on_line(void* self, const rl_log_record*) {
    auto& here = *static_cast<InLogCallback*>(self);
    if (here.calls_++ == 0) here.work_();
  }
  std::function<void()> work_;
  int calls_ = 0;
};

// What callback-safe getters say of a host's live objects, in a comparable form.
std::string look(const Host& host) {
  std::string out;
  for (const Row& row : rows()) {
    if (row.has_status || row.ends_a_handle()) continue;
    Arguments arguments(row, host);
    uint64_t result = arguments.call();
    if (row.result == std::string("rl_error*")) {
      rl_error_release(reinterpret_cast<rl_error*>(result));
      result = 0;
    }
    out += std::string(row.name) + "=" + std::to_string(result) + "\n";
  }
  return out;
}

TEST(Places, TheLogCallbackGetsWrongThreadFromAllFunctionsButTheSafeOnes) {
  const Host host;
  size_t refused = 0;
  const InLogCallback calls(host, [&] {
    for (const Row& row : rows()) {
      if (!row.has_status || row.callback_safe) continue;
      SCOPED_TRACE(row.name);
      Arguments arguments(row, host);
      EXPECT_EQ(arguments.status(), RL_WRONG_THREAD) << arguments.complaint();
      EXPECT_EQ(rl_error_code(arguments.error()), RL_WRONG_THREAD);
      EXPECT_TRUE(arguments.results_are_clear(row.parameters.size()));
      ++refused;
    }
  });
  EXPECT_GT(refused, rows().size() / 2);
}

TEST(Places, CallbackSafeFunctionsWorkInTheLogCallback) {
  const Host host;
  const std::string before = look(host);
  const InLogCallback calls(host, [&] {
    EXPECT_EQ(look(host), before);
    for (const Row& row : rows()) {
      if (!row.has_status || !row.callback_safe) continue;
      SCOPED_TRACE(row.name);
      Arguments arguments(row, host);
      EXPECT_EQ(arguments.status(), valid_status(row)) << arguments.complaint();
    }
  });
}

TEST(Places, TheLogCallbackDestroysNothingAndReleasesWhatItIsGiven) {
  std::filesystem::create_directories(RL_TEST_OUTPUT);
  const Host host;
  const InLogCallback calls(host, [&] {
    for (const Row& row : rows()) {
      if (row.ends_a_handle()) Arguments(row, host).call();
    }
  });
  const auto releases = [](const std::string& kind) {
    return std::any_of(rows().begin(), rows().end(),
                       [&](const Row& row) { return row.name == kind + "_release"; });
  };
  for (const Row& row : rows()) {
    const auto is_handle = [](const Parameter& p) {
      const std::string_view type = p.c_type;  // one, an array of them, or one in a struct
      return !handle_kind(p).empty() ||
             (type.starts_with("const rl_") && type.ends_with("* const*"));
    };
    if (!row.has_status || !is_handle(row.parameters[0])) continue;
    if (std::count_if(row.parameters.begin(), row.parameters.end(), is_handle) != 1) continue;
    SCOPED_TRACE(row.name);
    Arguments arguments(row, host);
    const Parameter& p = row.parameters[0];
    const std::string kind = p.is == Is::kStructIn ? handle_kind(p) : p.type;
    EXPECT_EQ(arguments.status() == RL_STALE_HANDLE, releases(kind)) << arguments.complaint();
    arguments.release_results();
  }
  EXPECT_EQ(rl_bytes_data(host.bytes), nullptr);
  EXPECT_EQ(rl_error_code(host.error), RL_STALE_HANDLE);
}

TEST(Places, AnotherThreadMayCallWhileOneLogs) {
  const Host host;
  const InLogCallback calls(host, [&] {
    std::thread other([&] { EXPECT_RL_OK(rl_options_validate(host.options, &err)); });
    other.join();
  });
}

void feed_and_start(const Host& host, int rows) {
  const int32_t ids[] = {1, 2};
  for (int i = 0; i < rows; ++i) {
    EXPECT_RL_OK(feed(host.pipeline, ids, 2, &err));
  }
  EXPECT_RL_OK(rl_pipeline_finish_feed(host.pipeline, &err));
  EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
}

// What a forked child finds: the names of functions that did not answer as promised.
std::string look_from_child(const Host& host) {
  std::string wrong;
  for (const Row& row : rows()) {
    Arguments arguments(row, host);
    const uint64_t result = arguments.call();
    bool right = true;
    if (row.has_status) {
      right = static_cast<rl_status>(result) == RL_FORKED &&
              rl_error_code(arguments.error()) == RL_FORKED &&
              text_of(arguments.error(), RL_ERROR_SUMMARY).find("RL_FORKED: ") == 0 &&
              arguments.results_are_clear(row.parameters.size());
      arguments.set_null(row.parameters.size() - 1);
      right = right && arguments.status() == RL_FORKED;
    }
    if (!right) wrong += std::string(row.name) + " ";
  }
  if (rl_bytes_data(host.bytes) != nullptr) wrong += "rl_bytes_data: live ";
  if (rl_event_queue_fd(host.queue) != -1) wrong += "rl_event_queue_fd: live ";
  return wrong;
}

// Forks; the child's complaints, or how it ended.
std::string fork_and_look(const Host& host) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a child that waits for a lock ends by it
    const std::string wrong = look_from_child(host);
    const ssize_t written = write(ends[1], wrong.data(), wrong.size());
    _exit(written == static_cast<ssize_t>(wrong.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string wrong(4096, '\0');
  wrong.resize(static_cast<size_t>(std::max<ssize_t>(0, read(ends[0], wrong.data(), 4096))));
  close(ends[0]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status == 0 ? wrong : wrong + "ended with wait status " + std::to_string(status);
}

TEST(Places, AForkedChildGetsForkedFromEveryFunctionAndEndsNothing) {
  const Host host;
  const std::string before = look(host);
  EXPECT_EQ(fork_and_look(host), "");
  EXPECT_EQ(look(host), before);
  EXPECT_RL_OK(rl_options_validate(host.options, &err));
}

TEST(Places, AForkDuringARunDisturbsNeitherSide) {
  Host host;
  feed_and_start(host, 3);
  rl_event* event = nullptr;
  uint64_t steps = 0;
  rl_status status;
  while ((status = rl_pipeline_next(host.pipeline, -1, &event, nullptr)) == RL_OK) {
    if (rl_event_kind(event) == RL_EVENT_SCORE) {
      rl_sample_view sample;
      rl_sample_view_init(&sample, sizeof sample);
      EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
      if (sample.slot == 0) {
        EXPECT_EQ(fork_and_look(host), "");
      }
      EXPECT_RL_OK(score(host.pipeline, sample.sample_id, sample.slot, &err));
    }
    steps += rl_event_kind(event) == RL_EVENT_STEP;
    rl_event_release(event);
  }
  EXPECT_EQ(status, RL_DONE);
  EXPECT_EQ(steps, 3u);
}

}  // namespace
}  // namespace abi_test
