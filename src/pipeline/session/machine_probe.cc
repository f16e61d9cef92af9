// Each rate is the best of a few passes: whoever else uses the machine only makes one slower.
#include "pipeline/session/machine_probe.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "core/arena.h"
#include "ops/compute.h"
#include "pipeline/session/compute_lease.h"

namespace rl {
namespace {

constexpr int kPasses = 4;
constexpr int64_t kRows = 512, kInner = 512, kOuter = 2048;  // of a product
constexpr uint64_t kRange = uint64_t{32} << 20;              // bytes read, and copied

double best_seconds(const std::function<void()>& pass) {
  pass();  // makes kernels and touches memory
  double best = 1e9;
  for (int i = 0; i < kPasses; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pass();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, std::max(took.count(), 1e-9));
  }
  return best;
}

double product_flops(Runtime& runtime, Dtype dtype) {
  const Device& device = runtime.compute().device();
  const auto compute = device.make_compute(runtime.executor(), dtype, nullptr);
  const PackedShape shape = device.plan_packed({kInner, kOuter}, dtype);
  const int64_t rows = padded_rows(kRows);
  const Arena packed("probe", shape.bytes, Touch::kNow), x("probe", 4 * rows * kInner, Touch::kNow);
  std::vector<float> weights(kInner * kOuter, 0.5f), y(rows * kOuter);
  PackedMatrix w;
  pack_columns(*compute, {shape, packed.data(), w, weights.data()});
  const double seconds = best_seconds([&] { project(*compute, {w, x.data(), kRows, y.data()}); });
  return 2.0 * kRows * kInner * kOuter / seconds;
}

// Sums words, so that every byte reaches a register.
double read_rate(Executor& executor, const std::byte* data) {
  const int64_t tasks = 4 * executor.num_threads(), words = kRange / 8 / tasks;
  std::vector<uint64_t> sums(static_cast<size_t>(tasks));
  const double seconds = best_seconds([&] {
    executor.parallel_for(tasks, [&](int64_t task, int) {
      const auto* first = reinterpret_cast<const uint64_t*>(data) + task * words;
      uint64_t sum = 0;
      for (int64_t i = 0; i < words; ++i) sum += first[i];
      sums[static_cast<size_t>(task)] += sum;
    });
  });
  return static_cast<double>(tasks * words * 8) / seconds;
}

double copy_rate(Executor& executor, const std::byte* from, std::byte* to) {
  const int64_t tasks = 4 * executor.num_threads(), bytes = kRange / tasks;
  const double seconds = best_seconds([&] {
    executor.parallel_for(tasks, [&](int64_t task, int) {
      std::memcpy(to + task * bytes, from + task * bytes, static_cast<size_t>(bytes));
    });
  });
  return static_cast<double>(tasks * bytes) / seconds;
}

MachineRates measured(Runtime& runtime) {
  const Arena from("probe", kRange, Touch::kNow), to("probe", kRange, Touch::kNow);
  MachineRates rates;
  rates.threads = runtime.num_threads();
  rates.f32_flops = product_flops(runtime, Dtype::kF32);
  const bool bf16 = runtime.compute().device().has_bf16();
  rates.bf16_flops = bf16 ? product_flops(runtime, Dtype::kBf16) : rates.f32_flops / 4;
  rates.read_bytes_per_s = read_rate(runtime.executor(), from.data());
  rates.copy_bytes_per_s = copy_rate(runtime.executor(), from.data(), to.data());
  return rates;
}

}  // namespace

MachineRates probe_machine(Runtime& runtime) {
  const ComputeLease lease(runtime, "a probe");
  std::optional<MachineRates>& rates = runtime.machine_rates();
  if (!rates) rates = measured(runtime);
  return *rates;
}

}  // namespace rl
