// The CPU device: an executor and oneDNN's matrix products. Parallel loops, tiles and the scratch
// of threads exist below this border only. No result depends on the number of threads.
#pragma once
#include <algorithm>

#include "ops/compute.h"
#include "ops/cpu/matmul.h"

namespace rl {

class CpuCompute final : public Compute {
 public:
  CpuCompute(Executor& executor, Dtype dtype, ArenaLedger* ledger);
  bool exact() const override { return matmul_.exact(); }
  const std::string& implementation() const override { return matmul_.implementation(); }

  Executor& executor() { return executor_; }
  Matmul& matmul() { return matmul_; }
  int64_t item() const { return static_cast<int64_t>(dtype_bytes(dtype())); }  // bytes

  // Runs body(first, size, chunk) over [0, count) in chunks of `most` elements, one task each.
  template <typename Body>
  void for_chunks(int64_t count, int64_t most, const Body& body) {
    executor_.parallel_for((count + most - 1) / most, [&](int64_t chunk, int) {
      const int64_t first = chunk * most;
      body(first, std::min(most, count - first), chunk);
    });
  }

 private:
  Executor& executor_;
  Matmul matmul_;
};

// Every op of cpu_ops() is called with a CpuCompute.
inline CpuCompute& cpu_of(Compute& compute) { return static_cast<CpuCompute&>(compute); }

}  // namespace rl
