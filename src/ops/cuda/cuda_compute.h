// What the twins of a GPU compute with: one stream, scratch and copies in its order, and the matrix
// products. Invariant: everything that an op enqueues, and every piece of scratch that it takes, is
// used in the order of the one stream, so that no op waits for another.
//
// The table of ops (cuda_ops.cc) enters each twin: it makes the device current in the thread, opens
// a ScratchScope, and refuses the call with Error(kDeviceLost) once a fault has ended the device.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "device/cuda/ranges.h"
#include "device/cuda/scratch.h"
#include "device/cuda/staging.h"
#include "device/cuda/streams.h"
#include "ops/compute.h"
#include "ops/cuda/batch_tables.h"

namespace rl::cuda {

class Products;  // ops/cuda/products.h

// How a CudaCompute is made.
struct CudaOptions {
  uint64_t scratch_bytes = uint64_t{256} << 20;
  uint64_t staging_bytes = uint64_t{16} << 20;  // a multiple of 256
  RangeFunctions ranges = {};                   // around each op
};

class CudaCompute final : public Compute {
 public:
  CudaCompute(const Device& device, int device_index, Executor& executor, Dtype dtype,
              const CudaOptions& options, ArenaLedger* ledger);
  ~CudaCompute() override;
  // Products are checked when they are made; a shape that fails takes a product of its own order.
  bool exact() const override { return true; }
  const std::string& implementation() const override { return implementation_; }
  void follow(void* stream) override;
  void lead(void* stream) override;
  void complete() override;
  bool has_bytes(const void* data, uint64_t bytes) override;
  std::shared_ptr<DeviceMessages> make_messages() override;

  // Error(kDeviceLost), with the first fault, once a fault has ended the device for this process.
  // Then only destruction works. Any thread.
  void require_device() const;
  void lose(const Error& fault);
  const RangeFunctions& ranges() const { return ranges_; }

  int device_index() const { return device_index_; }
  Executor& executor() { return executor_; }                                   // of host work
  int64_t item() const { return static_cast<int64_t>(dtype_bytes(dtype())); }  // bytes
  cudaStream_t stream() const { return stream_.get(); }
  // Waits until everything that was enqueued is complete.
  void wait() const { stream_.wait(); }

  // Device memory until the ScratchScope around ends. Its content is undefined. An op whose scratch
  // grows with its rows takes them in parts: scratch_rows() says how many fit.
  template <typename T>
  T* scratch(int64_t count) {
    return reinterpret_cast<T*>(scratch_.take(static_cast<uint64_t>(count) * sizeof(T)));
  }
  // How many rows of so many bytes fit into the scratch that is left, less 1 MiB; at least one.
  int64_t scratch_rows(int64_t row_bytes) const;
  Scratch& scratch_memory() { return scratch_; }
  // Before each op that takes scratch.
  void begin_op() { tables_.begin_op(); }

  // A copy of a host array in scratch, complete in the stream's order. The host array may change
  // when the call returns. An array without elements gives null.
  template <typename T>
  const T* upload(std::span<const T> values) {
    if (values.empty()) return nullptr;
    T* const to = scratch<T>(static_cast<int64_t>(values.size()));
    staging_.upload(values.data(), reinterpret_cast<std::byte*>(to), values.size_bytes(), stream());
    return to;
  }
  template <typename T>
  const T* upload(std::span<T> values) {
    return upload(std::span<const T>(values));
  }
  // The same of a table of the batch, which an op of every layer uploads: once, if there is room,
  // and then read where it is. Valid until the op ends.
  template <typename T>
  const T* upload_table(std::span<const T> values) {
    if (values.empty()) return nullptr;
    const std::byte* const kept = kept_table(std::as_bytes(values));
    return kept != nullptr ? reinterpret_cast<const T*>(kept) : upload(values);
  }
  template <typename T>
  const T* upload_table(const std::vector<T>& values) {
    return upload_table(std::span<const T>(values));
  }
  // Copies to memory of the device that is not scratch.
  void upload_to(const void* host, void* device, uint64_t bytes);
  // Copies back, and waits for the stream.
  template <typename T>
  void download(const T* device, std::span<T> to) {
    staging_.download(reinterpret_cast<const std::byte*>(device), to.data(), to.size_bytes(),
                      stream());
  }

  // Made with the Compute, by Products(CudaCompute&), when everything above is ready.
  Products& products() { return *products_; }

 private:
  // Runs calls of CUDA with the device current; a fault is remembered.
  void call(FunctionRef<void()> calls);
  const std::byte* kept_table(std::span<const std::byte> bytes);  // null: there is no room

  const int device_index_;
  Executor& executor_;
  const RangeFunctions ranges_;
  mutable std::mutex lost_mutex_;
  std::string lost_;  // the first fault
  // Where the two reservations below come from.
  const std::shared_ptr<MemorySource> scratch_source_, staging_source_;
  Stream stream_;
  const Arena workspace_;  // tables of batches, then scratch
  BatchTables tables_;
  Scratch scratch_;
  Staging staging_;
  std::unique_ptr<Products> products_;
  std::string implementation_;
};

// Every op of cuda_ops() is called with a CudaCompute.
inline CudaCompute& cuda_of(Compute& compute) { return static_cast<CudaCompute&>(compute); }

// Gives back the scratch that was taken during its life.
class ScratchScope {
 public:
  explicit ScratchScope(CudaCompute& compute)
      : scratch_(compute.scratch_memory()), mark_(scratch_.taken()) {}
  ~ScratchScope() { scratch_.give_back(mark_); }
  ScratchScope(const ScratchScope&) = delete;

 private:
  Scratch& scratch_;
  const uint64_t mark_;
};

}  // namespace rl::cuda
