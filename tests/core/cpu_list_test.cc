// Lists of CPUs: what is refused, and which thread is bound.
#include "core/cpu_list.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/expect_error.h"

namespace rl {
namespace {

int64_t first_usable() {
  const CpuMask mask = CpuMask::of_this_thread();
  int64_t cpu = 0;
  while (!mask.has(cpu)) ++cpu;
  return cpu;
}

TEST(CpuList, BindsTheThreadThatAsks) {
  const int before = CpuMask::of_this_thread().count();
  const CpuList list({first_usable()});
  EXPECT_EQ(list.count(), 1);
  int inside = 0;
  bool has = false;
  std::thread([&] {
    list.bind_this_thread();
    inside = CpuMask::of_this_thread().count();
    has = CpuMask::of_this_thread().has(first_usable());
  }).join();
  EXPECT_EQ(inside, 1);
  EXPECT_TRUE(has);
  EXPECT_EQ(CpuMask::of_this_thread().count(), before);
}

TEST(CpuList, AnEmptyListBindsNothing) {
  const CpuList none(std::vector<int64_t>{});
  EXPECT_TRUE(none.empty());
  int inside = 0;
  std::thread([&] {
    none.bind_this_thread();
    inside = CpuMask::of_this_thread().count();
  }).join();
  EXPECT_EQ(inside, CpuMask::of_this_thread().count());
}

TEST(CpuList, RefusesWhatTheProcessMayNotUseAndWhatIsListedTwice) {
  const int64_t cpu = first_usable();
  int64_t none = CpuMask::kMaxCpus - 1;
  while (CpuMask::of_this_thread().has(none)) --none;
  const Error unusable = expect_error(Code::kOutOfRange, [&] { CpuList({cpu, none}); });
  EXPECT_EQ(unusable.key, "runtime.cpus");
  EXPECT_TRUE(contains(unusable.message, str("CPU ", none, ", which")));
  EXPECT_TRUE(contains(unusable.expected, str(cpu)));
  const Error twice = expect_error(Code::kOutOfRange, [&] { CpuList({cpu, cpu}); });
  EXPECT_TRUE(contains(twice.message, "twice"));
}

}  // namespace
}  // namespace rl
