// What every call of the emulated runtime shares, and what tests set and ask (emulator.h).
#include "cuda_host/api_calls.h"

#include <map>
#include <utility>

#include "cuda_host/emulated_memory.h"
#include "cuda_host/kernels_known.h"
#include "cuda_host/mapped_pages.h"
#include "cuda_host/reports.h"
#include "cuda_host/stream_queue.h"

namespace rl::emulated {
namespace {

struct Calls {
  DeviceShape shape;
  Injection injection;
  uint64_t seed = 0;
  int64_t total = 0, injected_of = 0;  // calls; calls that the injection counts
  std::map<std::string, int64_t> by_name;
  cudaError_t lost = cudaSuccess;
};
Calls& state() {
  static Calls all;
  return all;
}
thread_local cudaError_t thread_error = cudaSuccess;

// The injected failure of this call, or success.
cudaError_t injected(const char* name) {
  Calls& calls = state();
  const Injection& injection = calls.injection;
  if (injection.call < 0 || (!injection.only.empty() && injection.only != name)) return cudaSuccess;
  if (calls.injected_of++ != injection.call) return cudaSuccess;
  if (injection.sticky) calls.lost = injection.error;
  return injection.error;
}

}  // namespace

std::recursive_mutex& emulator_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

Call::Call(const char* name) : lock_(emulator_mutex()) {
  Calls& calls = state();
  ++calls.total;
  ++calls.by_name[name];
  if (calls.lost != cudaSuccess) {
    status = fail(calls.lost);
    return;
  }
  const cudaError_t error = injected(name);
  if (error != cudaSuccess) {
    status = fail(error);
    return;
  }
  run_ahead();
}

cudaError_t Call::fail(cudaError_t error) {
  thread_error = error;
  return error;
}

const DeviceShape& device_shape() { return state().shape; }
uint64_t emulator_seed() { return state().seed; }
void lose_device(cudaError_t error) {
  if (state().lost == cudaSuccess) state().lost = error;
}
bool device_lost() { return state().lost != cudaSuccess; }
cudaError_t last_error(bool clear) {
  return clear ? std::exchange(thread_error, cudaSuccess) : thread_error;
}

void restart(uint64_t seed) {
  const std::lock_guard lock(emulator_mutex());
  drop_streams();
  drop_pages();
  drop_allocations();
  clear_reports();
  forget_kernel_counts();
  state() = {};
  state().seed = seed;
  thread_error = cudaSuccess;
}
void set_device(const DeviceShape& shape) {
  const std::lock_guard lock(emulator_mutex());
  state().shape = shape;
}
void inject(const Injection& injection) {
  const std::lock_guard lock(emulator_mutex());
  state().injection = injection;
  state().injected_of = 0;
}
int64_t calls(const std::string& name) {
  const std::lock_guard lock(emulator_mutex());
  if (name.empty()) return state().total;
  const auto found = state().by_name.find(name);
  return found == state().by_name.end() ? 0 : found->second;
}

Live live() {
  const std::lock_guard lock(emulator_mutex());
  const StreamTotals streams = stream_totals();
  const MemoryTotals totals = memory_totals();
  return {totals.device_allocations, totals.pinned_allocations, streams.streams, streams.events,
          totals.device_bytes,       totals.pinned_bytes};
}

}  // namespace rl::emulated
