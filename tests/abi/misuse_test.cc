// Every parameter of every function of rl.h: NULL, a handle that ended, one of another kind, one
// never issued, and all handles after the host ended everything. One argument is spoiled at a
// time, so the answer must name it. Nothing may be printed meanwhile.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <memory>

#include "abi/valid_arguments.h"

namespace abi_test {
namespace {

// Everything written to a descriptor while it lives.
class Capture {
 public:
  explicit Capture(int fd) : fd_(fd), saved_(dup(fd)), file_(std::tmpfile()) {
    std::fflush(nullptr);
    dup2(fileno(file_), fd_);
  }
  ~Capture() {
    restore();
    std::fclose(file_);
  }
  off_t restore() {
    if (saved_ >= 0) {
      std::fflush(nullptr);
      dup2(saved_, fd_);
      close(saved_);
      saved_ = -1;
    }
    struct stat info {};
    fstat(fileno(file_), &info);
    return info.st_size;
  }

 private:
  int fd_, saved_;
  std::FILE* file_;
};

class Misuse : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { host_ = new Host; }
  static void TearDownTestSuite() {
    delete host_;
    host_ = nullptr;
  }
  static Host* host_;

  // A live handle of another kind.
  static void* other(const std::string& type) {
    return host_->handle(type == "rl_options" ? "rl_buffer" : "rl_options");
  }
};
Host* Misuse::host_ = nullptr;

// Calls with parameter i spoiled and expects the status, an error that names the parameter and
// clear results.
void expect_refused(const Row& row, const Host& host, size_t i, rl_status expected,
                    const std::function<void(Arguments&)>& spoil) {
  const Parameter& p = row.parameters[i];
  SCOPED_TRACE(std::string(row.name) + "(" + p.name + ")");
  Arguments arguments(row, host);
  spoil(arguments);
  EXPECT_EQ(arguments.status(), expected) << arguments.complaint();
  EXPECT_EQ(rl_error_code(arguments.error()), expected);
  EXPECT_EQ(text_of(arguments.error(), RL_ERROR_KEY), p.name);
  EXPECT_NE(text_of(arguments.error(), RL_ERROR_MESSAGE).find(p.name), std::string::npos);
  EXPECT_TRUE(arguments.results_are_clear(i)) << "a result was left as it was";
  Arguments silent(row, host);
  spoil(silent);
  silent.set_null(row.parameters.size() - 1);
  EXPECT_EQ(silent.status(), expected) << "without err";
}

template <typename F>
void for_each_handle(F&& f) {
  size_t count = 0;
  for (const Row& row : rows()) {
    for (size_t i = 0; i < row.parameters.size(); ++i) {
      if (!row.has_status || row.parameters[i].is != Is::kHandle) continue;
      f(row, i);
      ++count;
    }
  }
  EXPECT_GT(count, rows().size() / 2);
}

TEST_F(Misuse, EveryFunctionWorksWithItsArguments) {
  std::filesystem::create_directories(RL_TEST_OUTPUT);
  for (const Row& row : rows()) {
    if (row.ends_a_handle()) continue;
    SCOPED_TRACE(row.name);
    // Functions that change nothing share their host.
    const bool changes = !row.parameters.empty() && row.parameters[0].is == Is::kHandle &&
                         !std::string(row.parameters[0].c_type).starts_with("const");
    const auto own = changes ? std::make_unique<Host>() : nullptr;
    Arguments arguments(row, own != nullptr ? *own : *host_);
    const uint64_t result = arguments.call();
    if (row.has_status) {
      EXPECT_EQ(static_cast<rl_status>(result), valid_status(row))
          << arguments.complaint() << "; are its arguments in valid_arguments.cc?";
      EXPECT_EQ(rl_error_code(arguments.error()),
                valid_status(row) < RL_INVALID_ARGUMENT ? RL_OK : valid_status(row));
    }
    arguments.release_results();
  }
  std::filesystem::remove_all(RL_TEST_OUTPUT);
}

TEST_F(Misuse, NullIsNamedWhereItIsNotAllowed) {
  for (const Row& row : rows()) {
    for (size_t i = 0; i < row.parameters.size(); ++i) {
      if (!row.has_status || !row.is_pointer(i) || row.parameters[i].may_be_null) continue;
      expect_refused(row, *host_, i, RL_INVALID_ARGUMENT, [&](auto& a) { a.set_null(i); });
    }
  }
}

TEST_F(Misuse, NullIsTakenWhereTheHeaderSaysSo) {
  std::filesystem::create_directories(RL_TEST_OUTPUT);
  size_t count = 0;
  for (const Row& row : rows()) {
    for (size_t i = 0; i < row.parameters.size(); ++i) {
      if (!row.is_pointer(i) || !row.parameters[i].may_be_null) continue;
      if (row.parameters[i].is == Is::kError) continue;  // tried with each refusal
      SCOPED_TRACE(std::string(row.name) + "(" + row.parameters[i].name + ")");
      const Host host;
      Arguments arguments(row, host);
      arguments.set_null(i);
      const uint64_t result = arguments.call();
      if (row.has_status) {
        // Only a store is in conflict with the host's options.
        const bool no_store = std::string_view(row.parameters[i].name) == "store";
        EXPECT_EQ(static_cast<rl_status>(result), no_store ? RL_OK : valid_status(row))
            << arguments.complaint();
      }
      arguments.release_results();
      ++count;
    }
  }
  std::filesystem::remove_all(RL_TEST_OUTPUT);
  EXPECT_GT(count, 0u);
}

TEST_F(Misuse, HandleOfAnotherKindIsNamed) {
  for_each_handle([](const Row& row, size_t i) {
    const std::string type = row.parameters[i].type;
    expect_refused(row, *host_, i, RL_WRONG_HANDLE, [&](auto& a) { a.set_handle(i, other(type)); });
    Arguments arguments(row, *host_);
    arguments.set_handle(i, other(type));
    arguments.status();
    EXPECT_EQ(text_of(arguments.error(), RL_ERROR_EXPECTED), type) << row.name;
  });
}

TEST_F(Misuse, AHandleInAStructIsNamedByItsField) {
  const auto refused = [](rl_status expected, const char* field, auto&& call) {
    rl_error* err = nullptr;
    EXPECT_EQ(call(&err), expected) << field;
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), field);
    rl_error_release(err);
  };
  const auto both = [&](const char* field, auto&& call) {
    refused(RL_INVALID_ARGUMENT, field, [&](rl_error** err) { return call(nullptr, err); });
    refused(RL_WRONG_HANDLE, field, [&](rl_error** err) { return call(host_->buffer, err); });
  };
  both("step.batch", [](void* handle, rl_error** err) {
    rl_event* out = nullptr;
    return train(host_->trainer, static_cast<rl_batch*>(handle), &out, err);
  });
  both("parts[0].batch", [](void* handle, rl_error** err) {
    rl_batch_part part;
    rl_batch_part_init(&part, sizeof part);
    part.batch = static_cast<rl_batch*>(handle);
    rl_batch* out = nullptr;
    return rl_batch_select(&part, 1, &out, err);
  });
  both("weights[0].tensor", [](void* handle, rl_error** err) {
    uint64_t version = 0;
    return set_weights(host_->model, {"model.norm.weight"}, {static_cast<rl_tensor*>(handle)},
                       &version, err);
  });
  refused(RL_WRONG_HANDLE, "forward.batch", [](rl_error** err) {
    rl_forward forward;
    rl_forward_init(&forward, sizeof forward);
    forward.batch = reinterpret_cast<rl_batch*>(host_->buffer);
    rl_tensor* out = nullptr;
    return rl_trainer_forward(host_->trainer, &forward, &out, err);
  });
  refused(RL_WRONG_HANDLE, "turn.sampling", [](rl_error** err) {
    rl_turn turn;
    rl_turn_init(&turn, sizeof turn);
    turn.sampling = reinterpret_cast<rl_options*>(host_->buffer);
    return rl_conversation_generate(host_->conversation, &turn, err);
  });
}

TEST_F(Misuse, HandlesThatEndedOrNeverWereAreStale) {
  rl_options* ended = nullptr;
  EXPECT_RL_OK(rl_options_create(&ended, &err));
  rl_options_destroy(ended);
  rl_options* next = nullptr;  // may take the place of the one that ended
  EXPECT_RL_OK(rl_options_create(&next, &err));
  int on_stack = 0;
  for (void* const stale :
       {static_cast<void*>(ended), static_cast<void*>(&on_stack), reinterpret_cast<void*>(~0ull)}) {
    for_each_handle([&](const Row& row, size_t i) {
      expect_refused(row, *host_, i, RL_STALE_HANDLE, [&](auto& a) { a.set_handle(i, stale); });
    });
  }
  rl_options_destroy(next);
}

TEST_F(Misuse, EveryHandleIsStaleAfterTheHostEndedEverything) {
  Host dead;
  dead.end();
  for_each_handle([&](const Row& row, size_t i) {
    expect_refused(row, *host_, i, RL_STALE_HANDLE,
                   [&](auto& a) { a.set_handle(i, dead.handle(row.parameters[i].type)); });
  });
  for (const Row& row : rows()) {
    if (!row.has_status) Arguments(row, dead).call();
  }
  EXPECT_EQ(rl_error_code(dead.error), RL_STALE_HANDLE);
}

TEST_F(Misuse, NothingButZerosFailsWithoutACrash) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    const std::vector<Word> zero(row.parameters.size() + 1, Word{nullptr});
    const uint64_t result = row.call(zero.data());
    if (row.has_status) {
      EXPECT_GE(static_cast<rl_status>(result), RL_INVALID_ARGUMENT);
    }
  }
}

TEST_F(Misuse, EndingAHandleOfAnotherKindEndsNothing) {
  for (const Row& row : rows()) {
    if (!row.ends_a_handle()) continue;
    Arguments arguments(row, *host_);
    arguments.set_handle(0, other(row.parameters[0].type));
    arguments.call();
    arguments.set_null(0);
    arguments.call();
  }
  EXPECT_GT(rl_bytes_size(host_->bytes), 0u);
  EXPECT_RL_OK(rl_options_validate(host_->options, &err));
  stats_of(host_->buffer);  // expects RL_OK
}

TEST_F(Misuse, GettersWithoutStatusAreNeutralOnDeadHandles) {
  rl_bytes* ended = nullptr;
  EXPECT_RL_OK(rl_build_info(&ended, &err));
  rl_bytes_release(ended);
  rl_bytes_release(ended);
  EXPECT_EQ(rl_bytes_data(ended), nullptr);
  EXPECT_EQ(rl_bytes_size(ended), 0u);
  auto* const as_error = reinterpret_cast<rl_error*>(ended);
  EXPECT_EQ(rl_error_code(nullptr), RL_OK);
  EXPECT_EQ(rl_error_code(as_error), RL_STALE_HANDLE);
  EXPECT_STREQ(rl_error_text(as_error, RL_ERROR_MESSAGE, nullptr), "");
  EXPECT_EQ(rl_error_nearest(as_error, 0), nullptr);
  EXPECT_EQ(rl_error_cause(as_error), nullptr);
  EXPECT_EQ(rl_error_system_code(as_error), 0);
  EXPECT_EQ(rl_event_kind(reinterpret_cast<rl_event*>(ended)), 0);
  EXPECT_EQ(rl_event_queue_fd(reinterpret_cast<rl_event_queue*>(ended)), -1);
  EXPECT_EQ(rl_event_queue_size(nullptr), 0u);
  EXPECT_EQ(rl_batch_count(nullptr), 0u);
  EXPECT_EQ(rl_plan_count(nullptr), 0u);
}

TEST_F(Misuse, NothingIsPrinted) {
  Capture out(STDOUT_FILENO), err(STDERR_FILENO);
  for (const Row& row : rows()) {
    const std::vector<Word> zero(row.parameters.size() + 1, Word{nullptr});
    row.call(zero.data());
  }
  { const Host another; }
  EXPECT_EQ(out.restore(), 0);
  EXPECT_EQ(err.restore(), 0);
}

struct Status {
  const char* name;
  rl_status value;
};

TEST(Statuses, EachCodeOfTheRegistryHasItsNameAndNoOtherNumberHasOne) {
  const Status registry[] = {
#include "statuses.inc"
  };
  std::map<rl_status, std::string> names;
  for (const Status& s : registry) names[s.value] = s.name;
  EXPECT_EQ(names.size(), std::size(registry));
  for (rl_status code = -10; code < 1000; ++code) {
    const auto found = names.find(code);
    EXPECT_EQ(rl_status_name(code), found != names.end() ? found->second : "RL_UNKNOWN_CODE");
  }
}

}  // namespace
}  // namespace abi_test
