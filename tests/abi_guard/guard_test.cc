// What becomes of exceptions at the boundary: status, record, and a poisoned handle after a broken
// invariant. When not even the record gets memory, a fixed error takes its place.
#include "abi/guard.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>

namespace {
// Allocations that still succeed; negative: all do.
thread_local long allocations_left = -1;
}  // namespace

// Not inlined, all three: the compiler would see malloc() beside a call of operator delete, or
// free() beside one of operator new, and report a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* const data = std::malloc(size)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, size_t) noexcept { std::free(data); }

namespace rl::abi {
namespace {

std::string text_of(rl_error* error, int32_t field) { return rl_error_text(error, field, nullptr); }

rl_options* make_handle() { return issue<rl_options>(std::make_shared<OptionsBox>(OptionSet())); }

template <typename F>
rl_status run(rl_error** err, const void* handle, F&& body) {
  return guarded(err, handle, std::forward<F>(body));
}

TEST(Guard, AnErrorKeepsEveryDetailAndItsCause) {
  rl_error* err = nullptr;
  const rl_status status = run(&err, nullptr, [] {
    throw Error(Code::kIo, "cannot read it")
        .with_key("file")
        .with_expected("a file")
        .with_location("x.bin offset 3")
        .with_system_code(5)
        .with_nearest({"y.bin"})
        .with_cause(Error(Code::kDataLoss, "torn"));
  });
  EXPECT_EQ(status, RL_IO);
  EXPECT_EQ(rl_error_code(err), RL_IO);
  EXPECT_EQ(text_of(err, RL_ERROR_LOCATION), "x.bin offset 3");
  EXPECT_EQ(rl_error_system_code(err), 5);
  EXPECT_STREQ(rl_error_nearest(err, 0), "y.bin");
  rl_error* const cause = rl_error_cause(err);
  EXPECT_EQ(rl_error_code(cause), RL_DATA_LOSS);
  EXPECT_EQ(rl_error_cause(cause), nullptr);
  for (const char* part : {"RL_IO", "cannot read it", "file", "offset 3", "y.bin", "torn", "5"}) {
    EXPECT_NE(text_of(err, RL_ERROR_SUMMARY).find(part), std::string::npos) << part;
  }
  rl_error_release(err);
  EXPECT_EQ(rl_error_code(cause), RL_DATA_LOSS) << "a cause is a handle of its own";
  rl_error_release(cause);
}

TEST(Guard, ResultsHaveNoRecord) {
  for (const Code code : {Code::kTimeout, Code::kDone, Code::kInterrupted}) {
    rl_error* err = reinterpret_cast<rl_error*>(1);
    EXPECT_EQ(run(&err, nullptr, [&] { throw Error(code, "not a failure"); }),
              static_cast<rl_status>(code));
    EXPECT_EQ(err, nullptr);
  }
}

TEST(Guard, ABrokenInvariantPoisonsTheHandle) {
  rl_options* const handle = make_handle();
  rl_error* err = nullptr;
  EXPECT_EQ(run(&err, handle, [] { RL_CHECK(1 + 1 == 3); }), RL_INTERNAL);
  rl_error_release(err);
  EXPECT_EQ(run(&err, handle, [&] { use(handle, "options"); }), RL_INTERNAL);
  EXPECT_NE(text_of(err, RL_ERROR_MESSAGE).find("can only be destroyed"), std::string::npos);
  rl_error_release(err);
  drop(handle);
  EXPECT_EQ(run(nullptr, handle, [&] { use(handle, "options"); }), RL_STALE_HANDLE);
}

TEST(Guard, ForeignExceptionsAreInternalErrors) {
  rl_options* const handle = make_handle();
  rl_error* err = nullptr;
  EXPECT_EQ(run(&err, handle, [] { throw std::runtime_error("from below"); }), RL_INTERNAL);
  EXPECT_NE(text_of(err, RL_ERROR_MESSAGE).find("from below"), std::string::npos);
  rl_error_release(err);
  EXPECT_EQ(run(&err, nullptr, [] { throw 42; }), RL_INTERNAL);
  rl_error_release(err);
  EXPECT_EQ(run(nullptr, handle, [&] { use(handle, "options"); }), RL_INTERNAL) << "poisoned";
  drop(handle);
}

TEST(Guard, AnErrorOfTheHostLeavesTheHandleUsable) {
  rl_options* const handle = make_handle();
  EXPECT_EQ(run(nullptr, handle, [] { throw Error(Code::kOutOfRange, "too much"); }),
            RL_OUT_OF_RANGE);
  EXPECT_EQ(run(nullptr, handle, [&] { use(handle, "options"); }), RL_OK);
  drop(handle);
}

TEST(Guard, OutOfMemoryNeedsNoMemory) {
  rl_error* err = nullptr;
  const rl_status status = run(&err, nullptr, [] { throw std::bad_alloc(); });
  EXPECT_EQ(status, RL_OUT_OF_MEMORY);
  size_t len = 0;
  EXPECT_EQ(rl_error_code(err), RL_OUT_OF_MEMORY);
  EXPECT_STREQ(rl_error_text(err, RL_ERROR_MESSAGE, &len), "the system is out of memory");
  EXPECT_EQ(len, 27u);
  EXPECT_STREQ(rl_error_text(err, RL_ERROR_KEY, &len), "");
  EXPECT_EQ(rl_error_nearest(err, 0), nullptr);
  EXPECT_EQ(rl_error_cause(err), nullptr);
  rl_error_release(err);
  rl_error_release(err);
}

TEST(Guard, AnErrorWithoutRoomForItsRecordKeepsItsStatus) {
  const std::exception_ptr error = std::make_exception_ptr(
      Error(Code::kIo, "cannot read this file, whose name is too long to be held in place"));
  const auto unreadable = [&] { std::rethrow_exception(error); };  // allocates nothing
  rl_error* err = nullptr;
  allocations_left = 0;
  const rl_status status = run(&err, nullptr, unreadable);
  allocations_left = -1;
  EXPECT_EQ(status, run(nullptr, nullptr, unreadable));
  EXPECT_EQ(status, RL_IO);
  EXPECT_EQ(rl_error_code(err), RL_IO);
  EXPECT_NE(text_of(err, RL_ERROR_MESSAGE), "");
  EXPECT_EQ(rl_error_cause(err), nullptr);
  rl_error_release(err);
}

// The n-th allocation of a failing call fails, for every n: it ends as itself or as out of memory.
TEST(Guard, SurvivesTheFailureOfEachAllocation) {
  bool done = false;
  for (long n = 0; !done && n < 1000; ++n) {
    rl_error* err = nullptr;
    rl_options* const stale = reinterpret_cast<rl_options*>(uintptr_t{0x0300000100000007});
    allocations_left = n;
    const rl_status status = run(&err, stale, [&] { use(stale, "options"); });
    done = allocations_left > 0;
    allocations_left = -1;
    EXPECT_TRUE(status == RL_STALE_HANDLE || status == RL_OUT_OF_MEMORY) << status;
    EXPECT_EQ(rl_error_code(err), status);
    EXPECT_NE(text_of(err, RL_ERROR_SUMMARY), "");
    rl_error_release(err);
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace rl::abi
