// The scheduling seam. All compute parallelism of the library is Executor::parallel_for over
// independent tasks whose number follows from shapes only, so results never depend on the thread
// count (contract N3, N6). device/cpu has the TBB executor (default) and a plain-thread one (used
// under ThreadSanitizer and in tests).
#pragma once
#include <cstdint>
#include <memory>

#include "core/function_ref.h"

namespace rl {

// A range of tasks, [begin, end).
struct TaskShare {
  int64_t begin, end;
};
// A worker's initial contiguous range, the same in every run of `count` tasks, for locality. Idle
// workers steal from the tail of other ranges. With more workers than tasks, the surplus gets none.
constexpr TaskShare task_share(int64_t count, int64_t worker, int64_t workers) {
  const int64_t sharing = workers < count ? workers : count;
  if (worker >= sharing) return {count, count};
  return {count * worker / sharing, count * (worker + 1) / sharing};
}

class Executor {
 public:
  virtual ~Executor() = default;
  virtual int num_threads() const = 0;
  // Runs task(i, worker) for every i in [0, count) and returns when all are done. worker is in [0,
  // num_threads()) and no two concurrent tasks share it: use it to pick per-thread scratch. The
  // first exception thrown by a task is rethrown after all tasks ended. Not re-entrant; one caller
  // at a time.
  virtual void parallel_for(int64_t count, FunctionRef<void(int64_t task, int worker)> task) = 0;
};

}  // namespace rl
