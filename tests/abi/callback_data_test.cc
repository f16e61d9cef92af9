// The user_data of every function that takes a callback: destroy is called with it exactly once,
// whatever becomes of the call. The functions are those of calls.inc, so none can be left out.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "abi/valid_arguments.h"

namespace abi_test {
namespace {

struct Data {
  int ended = 0;
};
void end_data(void* data) { ++static_cast<Data*>(data)->ended; }

bool takes_data(const Row& row) {
  for (const Parameter& p : row.parameters) {
    if (p.is == Is::kUserData) return true;
  }
  return false;
}

void for_each_taker(const std::function<void(const Row&)>& check) {
  size_t count = 0;
  for (const Row& row : rows()) {
    if (!takes_data(row)) continue;
    SCOPED_TRACE(row.name);
    check(row);
    ++count;
  }
  EXPECT_GE(count, 5u);
}

void keep(Arguments&) {}

// Hands data over, with arguments that spoil() may change. The other arguments are valid.
rl_status hand_over(const Row& row, const Host& host, Data& data,
                    const std::function<void(Arguments&)>& spoil = keep) {
  Arguments arguments(row, host);
  for (size_t i = 0; i < row.parameters.size(); ++i) {
    const Parameter& p = row.parameters[i];
    if (p.is == Is::kUserData) arguments.set_pointer(i, &data);
    if (p.c_type == std::string("rl_destroy_fn")) {
      arguments.set_pointer(i, reinterpret_cast<void*>(end_data));
    }
  }
  spoil(arguments);
  return arguments.status();
}

TEST(CallbackData, EndsWhenItIsReplacedAndWithTheObjectThatHasIt) {
  for_each_taker([](const Row& row) {
    Data first, second;
    {
      const Host host;
      EXPECT_EQ(hand_over(row, host, first), valid_status(row));
      EXPECT_EQ(first.ended, 0);
      EXPECT_EQ(hand_over(row, host, second), valid_status(row));
      EXPECT_EQ(first.ended, 1) << "replaced";
      EXPECT_EQ(second.ended, 0);
    }
    EXPECT_EQ(first.ended, 1);
    EXPECT_EQ(second.ended, 1) << "its object ended";
  });
}

TEST(CallbackData, EndsAtOnceWithoutAFunction) {
  for_each_taker([](const Row& row) {
    const Host host;
    Data first, second;
    EXPECT_EQ(hand_over(row, host, first), valid_status(row));
    const auto without_function = [&row](Arguments& arguments) {
      for (size_t i = 0; i < row.parameters.size(); ++i) {
        const Parameter& p = row.parameters[i];
        if (p.is == Is::kFunction && p.name == std::string("fn")) arguments.set_null(i);
      }
    };
    EXPECT_EQ(hand_over(row, host, second, without_function), valid_status(row));
    EXPECT_EQ(first.ended, 1) << "removed";
    EXPECT_EQ(second.ended, 1) << "nothing took it";
  });
}

TEST(CallbackData, EndsWhenAHandleIsRefused) {
  const Host host;
  rl_options* ended = nullptr;
  EXPECT_RL_OK(rl_options_create(&ended, &err));
  rl_options_destroy(ended);
  const std::pair<void*, rl_status> refused[] = {
      {nullptr, RL_INVALID_ARGUMENT}, {ended, RL_STALE_HANDLE}, {host.options, RL_WRONG_HANDLE}};
  for_each_taker([&](const Row& row) {
    for (size_t i = 0; i < row.parameters.size(); ++i) {
      if (row.parameters[i].is != Is::kHandle) continue;
      for (const auto& [handle, status] : refused) {
        Data data;
        const auto spoil = [i, given = handle](Arguments& a) { a.set_pointer(i, given); };
        EXPECT_EQ(hand_over(row, host, data, spoil), status);
        EXPECT_EQ(data.ended, 1) << "after status " << status;
      }
    }
  });
}

TEST(CallbackData, EndsWhenItComesTooLate) {
  const Host host;
  EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
  for_each_taker([&host](const Row& row) {
    if (row.parameters[0].type != std::string("rl_pipeline")) return;
    Data data;
    EXPECT_EQ(hand_over(row, host, data), RL_FAILED_PRECONDITION);
    EXPECT_EQ(data.ended, 1);
  });
}

// Opening a model is worth a line of the log on this thread; the first one makes the calls.
TEST(CallbackData, EndsWhenTheCallIsMadeInACallback) {
  const Host host;
  struct Calls {
    const Host& host;
    int lines = 0;
  } calls{host};
  const auto on_line = [](void* user_data, const rl_log_record*) {
    auto& here = *static_cast<Calls*>(user_data);
    if (here.lines++ > 0) return;
    for_each_taker([&here](const Row& row) {
      Data data;
      EXPECT_EQ(hand_over(row, here.host, data), RL_WRONG_THREAD);
      EXPECT_EQ(data.ended, 1);
    });
  };
  EXPECT_RL_OK(rl_runtime_set_log(host.runtime, on_line, &calls, nullptr, &err));
  rl_model* model = nullptr;
  EXPECT_RL_OK(rl_model_open(host.runtime, host.options, RL_USE_MODEL, &model, &err));
  EXPECT_GT(calls.lines, 0);
  rl_model_destroy(model);
}

TEST(CallbackData, EndsInAForkedChild) {
  const Host host;
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    int wrong = 0;
    for (const Row& row : rows()) {
      if (!takes_data(row)) continue;
      Data data;
      if (hand_over(row, host, data) != RL_FORKED || data.ended != 1) ++wrong;
    }
    _exit(wrong);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the status of waitpid; its second byte is the number of wrong calls";
}

}  // namespace
}  // namespace abi_test
