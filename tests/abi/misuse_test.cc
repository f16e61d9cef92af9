// Every function of rl.h with NULL, with a handle that ended, with a handle of another kind, and
// without result parameters. The table of calls is generated from the header, so no function can be
// left out. Nothing may be printed meanwhile.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "abi/host.h"

namespace abi_test {
namespace {

struct Row {
  const char* name;
  const char* handle;  // type of the first parameter, empty when that is no handle
  const char* parameter;
  bool has_error;  // takes rl_error **err
  bool has_outs;
  rl_status (*call)(void* handle, rl_error** err);  // every other argument is NULL or 0
};
const Row kRows[] = {
#include "misuse_table.inc"
};

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

  // A live handle of another kind than the row's.
  static void* other(const Row& row) {
    return std::string(row.handle) == "rl_options" ? host_->handle("rl_buffer")
                                                   : host_->handle("rl_options");
  }
  static void expect_status(const Row& row, void* handle, rl_status expected) {
    SCOPED_TRACE(row.name);
    rl_error* err = nullptr;
    EXPECT_EQ(row.call(handle, &err), expected) << text_of(err, RL_ERROR_SUMMARY);
    EXPECT_EQ(rl_error_code(err), expected);
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), row.parameter);
    EXPECT_NE(text_of(err, RL_ERROR_MESSAGE).find(row.parameter), std::string::npos);
    rl_error_release(err);
    EXPECT_EQ(row.call(handle, nullptr), expected) << "without err";
  }
};
Host* Misuse::host_ = nullptr;

bool takes_checked_handle(const Row& row) { return row.has_error && *row.handle != '\0'; }

// These take NULL in place of their first handle and mean the defaults by it.
bool may_be_null(const Row& row) { return std::string(row.name) == "rl_buffer_create"; }

TEST_F(Misuse, NullHandleIsAnInvalidArgument) {
  for (const Row& row : kRows) {
    if (takes_checked_handle(row) && !may_be_null(row)) {
      expect_status(row, nullptr, RL_INVALID_ARGUMENT);
    }
  }
}

TEST_F(Misuse, HandleOfAnotherKindIsNamed) {
  for (const Row& row : kRows) {
    if (!takes_checked_handle(row)) continue;
    expect_status(row, other(row), RL_WRONG_HANDLE);
    rl_error* err = nullptr;
    row.call(other(row), &err);
    EXPECT_EQ(text_of(err, RL_ERROR_EXPECTED), row.handle);
    rl_error_release(err);
  }
}

TEST_F(Misuse, EndedHandleIsStale) {
  rl_options* ended = nullptr;
  EXPECT_RL_OK(rl_options_create(&ended, &err));
  rl_options_destroy(ended);
  for (const Row& row : kRows) {
    if (takes_checked_handle(row)) expect_status(row, ended, RL_STALE_HANDLE);
  }
}

TEST_F(Misuse, TokensNeverIssuedAreStale) {
  int on_stack = 0;
  for (const Row& row : kRows) {
    if (!takes_checked_handle(row)) continue;
    expect_status(row, &on_stack, RL_STALE_HANDLE);
    expect_status(row, reinterpret_cast<void*>(~uintptr_t{0}), RL_STALE_HANDLE);
  }
}

TEST_F(Misuse, NothingButZerosFailsWithoutACrash) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    rl_error* err = nullptr;
    const rl_status status = row.call(nullptr, &err);
    if (row.has_error) {
      EXPECT_GE(status, RL_INVALID_ARGUMENT);
      EXPECT_EQ(rl_error_code(err), status);
      EXPECT_NE(text_of(err, RL_ERROR_KEY), "");
    }
    rl_error_release(err);
  }
}

TEST_F(Misuse, MissingResultParametersAreNamed) {
  for (const Row& row : kRows) {
    if (!takes_checked_handle(row) || !row.has_outs) continue;
    SCOPED_TRACE(row.name);
    rl_error* err = nullptr;
    const rl_status status = row.call(host_->handle(row.handle), &err);
    EXPECT_GE(status, RL_INVALID_ARGUMENT);
    EXPECT_NE(text_of(err, RL_ERROR_KEY), "") << text_of(err, RL_ERROR_SUMMARY);
    rl_error_release(err);
  }
}

TEST_F(Misuse, EndingAHandleOfAnotherKindEndsNothing) {
  for (const Row& row : kRows) {
    const std::string name = row.name;
    if (!name.ends_with("_destroy") && !name.ends_with("_release")) continue;
    SCOPED_TRACE(name);
    row.call(other(row), nullptr);
    row.call(nullptr, nullptr);
  }
  EXPECT_GT(rl_bytes_size(host_->bytes), 0u);
  EXPECT_RL_OK(rl_options_validate(host_->options, &err));
  uint64_t samples = 0, groups = 0;
  EXPECT_RL_OK(rl_buffer_count(host_->buffer, &samples, &groups, &err));
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

TEST_F(Misuse, TheTableHoldsEveryKindOfHandle) {
  std::set<std::string> kinds;
  for (const Row& row : kRows) kinds.insert(row.handle);
  kinds.erase("");
  EXPECT_EQ(kinds.size(), 14u);
  for (const std::string& kind : kinds) EXPECT_NE(host_->handle(kind), nullptr) << kind;
}

TEST_F(Misuse, NothingIsPrinted) {
  Capture out(STDOUT_FILENO), err(STDERR_FILENO);
  for (const Row& row : kRows) {
    if (!takes_checked_handle(row)) continue;
    row.call(nullptr, nullptr);
    row.call(other(row), nullptr);
  }
  { const Host another; }
  EXPECT_EQ(out.restore(), 0);
  EXPECT_EQ(err.restore(), 0);
}

}  // namespace
}  // namespace abi_test
