// Each rate is the best of a few passes: whoever else uses the machine only makes one slower.
#include "pipeline/session/machine_probe.h"

#include <algorithm>
#include <array>
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

// Returns once the ops before it are done.
void finish(Compute& compute, const float* data) {
  double sum = 0;
  std::array<double, 1> chunk_sums;
  squared_norm(compute, {data, 1, chunk_sums, sum});
}

double product_flops(Runtime& runtime, Dtype dtype) {
  const Device& device = runtime.compute().device();
  const auto compute = device.make_compute(runtime.executor(), dtype, nullptr);
  const PackedShape shape = device.plan_packed({kInner, kOuter}, dtype);
  const int64_t rows = padded_rows(kRows);
  const ArenaPlace place = compute->memory();
  const Arena packed("probe", shape.bytes, Touch::kNow, place),
      x("probe", 4 * rows * kInner, Touch::kNow, place),
      weights("probe", 4 * kInner * kOuter, Touch::kNow, place),
      y("probe", 4 * rows * kOuter, Touch::kNow, place);
  PackedMatrix w;
  pack_columns(*compute, {shape, packed.data(), w, weights.at<float>(0)});
  const double seconds = best_seconds([&] {
    project(*compute, {w, x.data(), kRows, y.at<float>(0)});
    finish(*compute, y.at<float>(0));
  });
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

// The same of memory of the device, by ops.
double read_rate(Compute& compute, const Arena& data) {
  constexpr auto kFloats = static_cast<int64_t>(kRange / sizeof(float));
  std::vector<double> chunk_sums(static_cast<size_t>(num_optimizer_chunks(kFloats)));
  double sum = 0;
  const double seconds = best_seconds([&] {
    squared_norm(compute, {data.at<float>(0), kFloats, chunk_sums, sum});
  });
  return static_cast<double>(kRange) / seconds;
}

double copy_rate(Compute& compute, const Arena& from, const Arena& to) {
  const double seconds = best_seconds([&] {
    copy_bytes(compute, {from.data(), to.data(), kRange});
    finish(compute, to.at<float>(0));
  });
  return static_cast<double>(kRange) / seconds;
}

MachineRates measured(Runtime& runtime) {
  Compute& compute = runtime.compute();
  const ArenaPlace place(nullptr, compute.device().memory());
  const Arena from("probe", kRange, Touch::kNow, place), to("probe", kRange, Touch::kNow, place);
  MachineRates rates;
  rates.threads = runtime.num_threads();
  rates.f32_flops = product_flops(runtime, Dtype::kF32);
  const bool bf16 = runtime.compute().device().has_bf16();
  rates.bf16_flops = bf16 ? product_flops(runtime, Dtype::kBf16) : rates.f32_flops / 4;
  if (compute.has_own_memory()) {
    rates.read_bytes_per_s = read_rate(compute, from);
    rates.copy_bytes_per_s = copy_rate(compute, from, to);
  } else {
    rates.read_bytes_per_s = read_rate(runtime.executor(), from.data());
    rates.copy_bytes_per_s = copy_rate(runtime.executor(), from.data(), to.data());
  }
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
