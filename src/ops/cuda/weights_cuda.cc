// Filling and copying memory. What a FloatReader reads goes through an array of the host, in pieces
// that readers fill at the same time where there are several.
#include <algorithm>
#include <cstring>
#include <vector>

#include "device/cuda/cuda_calls.h"
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels/rows/packing_kernels.h"
#include "ops/cuda/kernels/rows/rounded_sum_kernels.h"

namespace rl::cuda {
namespace {

constexpr int64_t kReadFloats = 1 << 20;  // that pack_rows() reads at a time, or one row

bool on_device(const void* data) {
  cudaPointerAttributes attributes = {};
  RL_CUDA(cudaPointerGetAttributes(&attributes, data));
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

// Reads the runs, all at the same time, and starts their copies.
void read_runs(CudaCompute& gpu, std::span<const FloatRun> runs, const FloatReader& read,
               std::vector<float>& host) {
  std::vector<int64_t> first = {0};
  for (const FloatRun& run : runs) first.push_back(first.back() + run.count);
  host.resize(static_cast<size_t>(first.back()));
  gpu.executor().parallel_for(static_cast<int64_t>(runs.size()), [&](int64_t i, int) {
    const FloatRun& run = runs[static_cast<size_t>(i)];
    read(run.from, {host.data() + first[static_cast<size_t>(i)], static_cast<size_t>(run.count)});
  });
  for (size_t i = 0; i < runs.size(); ++i) {
    gpu.upload_to(host.data() + first[i], runs[i].to,
                  static_cast<uint64_t>(runs[i].count) * sizeof(float));
  }
}

void copy_within(CudaCompute& gpu, const void* from, void* to, uint64_t bytes) {
  RL_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, gpu.stream()), bytes,
          " bytes");
}

// The runs' source is memory of the device.
void copy_runs(CudaCompute& gpu, const ReadFloatsArgs& a) {
  for (const FloatRun& run : a.runs) {
    if (run.count == 0) continue;
    copy_within(gpu, a.from + run.from, run.to, static_cast<uint64_t>(run.count) * sizeof(float));
  }
}

// Packs rows that are read: all of a slice, or several slices, at a time.
void read_and_pack(CudaCompute& gpu, const PackRowsArgs& a) {
  const int64_t k = a.shape.k, n = a.shape.slices.n;
  const int64_t step = std::max<int64_t>(1, std::min(kReadFloats / k, gpu.scratch_rows(k * 4)));
  float* const device = gpu.scratch<float>(std::min(n, step) * k);
  std::vector<float> host;
  for (int64_t row = 0; row < n; row += step) {
    const int64_t count = std::min(step, n - row) * k;
    host.resize(static_cast<size_t>(count));
    (*a.read)(a.from + row * k, host);
    gpu.upload_to(host.data(), device, static_cast<uint64_t>(count) * sizeof(float));
    round_floats(gpu.stream(), {device, a.bytes + row * k * gpu.item(), gpu.dtype(), count});
  }
}

}  // namespace

void read_floats(Compute& compute, const ReadFloatsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  if (a.read == nullptr) return copy_runs(gpu, a);
  const auto together = static_cast<size_t>(gpu.num_threads());
  std::vector<float> host;
  for (size_t i = 0; i < a.runs.size(); i += together)
    read_runs(gpu, a.runs.subspan(i, std::min(together, a.runs.size() - i)), *a.read, host);
}

void round_floats(Compute& compute, const RoundFloatsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  round_floats(gpu.stream(), {a.from, a.to, gpu.dtype(), a.count});
}

// The packed form has the rows of W in their order, whatever the slices.
void pack_rows(Compute& compute, const PackRowsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  a.out.bind(a.shape, a.bytes);
  if (a.rows == nullptr) return read_and_pack(gpu, a);
  round_floats(gpu.stream(), {a.rows, a.bytes, gpu.dtype(), a.shape.slices.n * a.shape.k});
}

void pack_columns(Compute& compute, const PackColumnsArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  a.out.bind(a.shape, a.bytes);
  round_transposed(gpu.stream(), {a.w, a.bytes, gpu.dtype(), a.shape.k, a.shape.slices.n});
}

void unpack_rows(Compute& compute, const UnpackRowsArgs& a) {
  const PackedShape& shape = a.from.shape();
  const int64_t count = shape.slices.n * shape.k;
  CudaCompute& gpu = cuda_of(compute);
  if (gpu.dtype() == Dtype::kBf16) {
    const auto* const values = reinterpret_cast<const uint16_t*>(a.from.data());
    return widen_bf16(gpu.stream(), {values, a.rows, count});
  }
  copy_within(gpu, a.from.data(), a.rows, static_cast<uint64_t>(count) * sizeof(float));
}

void zero_floats(Compute& compute, const ZeroFloatsArgs& a) {
  if (a.count == 0) return;
  const auto bytes = static_cast<uint64_t>(a.count) * sizeof(float);
  RL_CUDA(cudaMemsetAsync(a.to, 0, bytes, cuda_of(compute).stream()), bytes, " bytes");
}

// Either side may be memory of the host; it is complete when the call returns.
void copy_bytes(Compute& compute, const CopyBytesArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  if (a.bytes == 0) return;
  const bool from_device = on_device(a.from), to_device = on_device(a.to);
  if (from_device && to_device) {
    copy_within(gpu, a.from, a.to, a.bytes);
  } else if (to_device) {
    gpu.upload_to(a.from, a.to, a.bytes);
  } else if (from_device) {
    gpu.download(static_cast<const std::byte*>(a.from),
                 std::span(static_cast<std::byte*>(a.to), a.bytes));
  } else {
    std::memcpy(a.to, a.from, a.bytes);
  }
}

}  // namespace rl::cuda
