// Copies check both sides when they run, not when they are enqueued: memory may be freed between.
#include "cuda_host/copies.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cuda_host/emulated_memory.h"
#include "cuda_host/reports.h"
#include "cuda_host/shadow.h"

namespace rl::emulated {
namespace {

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// What an address is to a copy.
enum class Side : uint8_t { kDevice, kPinned, kPageable };
Side side_of(const void* address) {
  if (!in_arena(number(address))) return Side::kPageable;
  return number(address) < kPinnedBase ? Side::kDevice : Side::kPinned;
}

bool fits_kind(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyDefault:
      return true;
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
  }
  return false;
}

// Reports and refuses memory that is not wholly one live allocation.
bool is_sound(const char* what, const void* address, uint64_t bytes) {
  const uintptr_t begin = number(address);
  if (!in_arena(begin)) return true;
  const Allocation* const owner = owner_of(begin);
  const bool inside = owner != nullptr && begin >= owner->begin && begin + bytes <= owner->end;
  if (inside && !owner->freed) return true;
  report(
      inside ? Fault::kFreed : Fault::kOutOfBounds, begin,
      std::string(what) + " of " + std::to_string(bytes) + " bytes at " + describe_address(begin));
  lose_device(cudaErrorIllegalAddress);
  return false;
}

void copy_row(void* to, const void* from, uint64_t bytes) {
  const bool to_device = side_of(to) == Side::kDevice, from_device = side_of(from) == Side::kDevice;
  if (!is_sound("read", from, bytes) || !is_sound("write", to, bytes)) return;
  if (to_device && from_device)
    note_copied(number(to), number(from), bytes);
  else if (to_device)
    note_filled(number(to), bytes);
  else if (from_device)
    note_fetched(number(from), bytes);
  std::memmove(to, from, bytes);
}

void copy_rows(const CopyShape& shape) {
  for (uint64_t row = 0; row < shape.height; ++row)
    copy_row(static_cast<char*>(shape.to) + row * shape.to_pitch,
             static_cast<const char*>(shape.from) + row * shape.from_pitch, shape.width);
}

}  // namespace

bool host_waits_for(const CopyShape& shape) {
  return side_of(shape.to) != Side::kDevice || side_of(shape.from) == Side::kPinned;
}

cudaError_t enqueue_copy(Call& call, const CopyShape& shape, cudaMemcpyKind kind,
                         CUstream_st* stream) {
  if (stream == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  if (shape.width == 0 || shape.height == 0) return cudaSuccess;
  const Side to = side_of(shape.to), from = side_of(shape.from);
  if (!fits_kind(kind, to == Side::kDevice, from == Side::kDevice))
    return call.fail(cudaErrorInvalidMemcpyDirection);
  if (shape.to == nullptr || shape.from == nullptr) return call.fail(cudaErrorInvalidValue);
  if (shape.height > 1 && (shape.to_pitch < shape.width || shape.from_pitch < shape.width))
    return call.fail(cudaErrorInvalidValue);
  if (from == Side::kPageable) {
    std::vector<char> staged(shape.width * shape.height);
    for (uint64_t row = 0; row < shape.height; ++row)
      std::memcpy(staged.data() + row * shape.width,
                  static_cast<const char*>(shape.from) + row * shape.from_pitch, shape.width);
    const auto mark = enqueue(stream, "copy", 1, [shape, staged = std::move(staged)] {
      copy_rows({shape.to, staged.data(), shape.width, shape.height, shape.to_pitch, shape.width});
    });
    if (to == Side::kPageable) wait_for(mark);
    return cudaSuccess;
  }
  const auto mark = enqueue(stream, "copy", 1, [shape] { copy_rows(shape); });
  if (to == Side::kPageable) wait_for(mark);
  return cudaSuccess;
}

cudaError_t enqueue_fill(Call& call, void* to, int value, uint64_t bytes, CUstream_st* stream) {
  if (stream == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (side_of(to) == Side::kPageable) return call.fail(cudaErrorInvalidValue);
  enqueue(stream, "fill", 1, [to, value, bytes] {
    if (!is_sound("write", to, bytes)) return;
    note_filled(number(to), bytes);
    std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

namespace {

bool may_use(const char* what, const void* address, uint64_t bytes) {
  if (in_arena(number(address))) return is_sound(what, address, bytes);
  report(Fault::kHostMemory, number(address),
         std::string(what) + " of " + describe_address(number(address)));
  lose_device(cudaErrorIllegalAddress);
  return false;
}

}  // namespace

bool note_read_by_call(const void* from, uint64_t bytes) {
  if (!may_use("read", from, bytes)) return false;
  note_fetched(number(from), bytes);
  return true;
}
bool note_write_by_call(void* to, uint64_t bytes) {
  if (!may_use("write", to, bytes)) return false;
  note_filled(number(to), bytes);
  return true;
}

}  // namespace rl::emulated
