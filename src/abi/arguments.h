// Checks of a host's arguments: NULL, lengths, UTF-8, booleans, flags and struct sizes. Every
// error names the parameter. Outputs are cleared before anything else and written last, so that a
// failed call leaves them zero.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "options/options.h"
#include "pipeline/plan/plan.h"
#include "rl.h"

namespace rl::abi {

[[noreturn]] void refuse(const char* parameter, std::string message);
// Puts `to` in place of `from` at the beginning of the key, and where the message names it.
void rename_parameter(Error& error, std::string_view from, std::string_view to);

template <typename T>
void clear(T* out) {
  if (out != nullptr) *out = T{};
}
// Zeroes the array with the host's count, unless the count is implausible.
template <typename T>
void clear_array(T* out, size_t count) {
  constexpr size_t kMost = size_t{1} << 31;
  if (out != nullptr && count < kMost) std::fill_n(out, count, T{});
}
template <typename T>
void require(const T* out, const char* parameter) {
  if (out == nullptr) refuse(parameter, "is NULL");
}

// Any text that is valid UTF-8.
std::string_view text_arg(const char* data, size_t len, const char* parameter);
// The length of a struct's text that may be absent: rl_xxx_init sets RL_NUL_TERMINATED, which is 0
// for NULL.
inline size_t field_len(const char* data, size_t len) {
  return data == nullptr && len == RL_NUL_TERMINATED ? 0 : len;
}
// Also without NUL bytes: keys, names, paths.
std::string_view name_arg(const char* data, size_t len, const char* parameter);
// Also not empty.
std::string path_arg(const char* data, size_t len, const char* parameter);
bool bool_arg(uint32_t value, const char* parameter);
void reserved_arg(uint64_t value, const char* parameter);
void flags_arg(uint64_t flags, uint64_t known, const char* parameter);
PlanUse plan_use_arg(int32_t use);
// Arguments of a function that writes a model: dir, dtype and RL_SAVE_REPLACE in flags.
struct SaveArgs {
  std::string dir;
  Dtype dtype;
  bool replace;
};
SaveArgs save_args(const char* dir, size_t dir_len, int32_t dtype, uint64_t flags);
// kOutOfRange naming the parameter index.
void check_index(size_t index, size_t count);

void check_array(const void* data, size_t count, size_t element_bytes, const char* parameter);
template <typename T>
std::span<const T> array_arg(const T* data, size_t count, const char* parameter) {
  check_array(data, count, sizeof(T), parameter);
  return {data, count};
}
// Text i from arrays of pointers and lengths; lens may be null.
std::string_view text_at(const char* const* texts, const size_t* lens, size_t index,
                         const char* parameter);

// The options behind a handle, or fallback if the handle is null.
OptionSet options_or(const rl_options* options, const OptionSet& fallback);

// Struct sizes. A public struct only grows at its end: a host may have any size from that of the
// first release with this soname on. A struct that has grown since has a specialisation here, and
// write_result writes results to it.
template <typename T>
inline constexpr size_t kFirstSize = sizeof(T);

bool is_struct_size(size_t struct_size, size_t first) noexcept;
void check_struct_size(size_t struct_size, size_t first, const char* parameter);
void check_unknown_tail(const void* data, size_t struct_size, size_t known, const char* parameter);

// Zeroes all of a result struct except struct_size, as far as its size is plausible.
void clear_struct(void* out, size_t first);

template <typename T>
void clear_result(T* out) {
  if (out != nullptr) clear_struct(out, kFirstSize<T>);
}
// A result struct that has never grown, checked and cleared.
template <typename T>
T& result_struct(T* out, const char* parameter) {
  static_assert(kFirstSize<T> == sizeof(T), "the host's struct may be smaller: use write_result");
  require(out, parameter);
  check_struct_size(out->struct_size, sizeof(T), parameter);
  return *out;
}
// Copies the result that fill(T&) makes to the host's struct, up to the host's size.
template <typename T, typename F>
void write_result(T* out, const char* parameter, F&& fill) {
  require(out, parameter);
  check_struct_size(out->struct_size, kFirstSize<T>, parameter);
  T made{};
  fill(made);
  made.struct_size = out->struct_size;
  std::memcpy(out, &made, std::min(made.struct_size, sizeof(T)));
}
// A copy of the known part of an input struct; fields that the host does not have are zero.
template <typename T>
T input_struct(const T* in, const char* parameter) {
  require(in, parameter);
  const size_t size = in->struct_size;
  check_struct_size(size, kFirstSize<T>, parameter);
  check_unknown_tail(in, size, sizeof(T), parameter);
  T copy{};
  std::memcpy(&copy, in, std::min(size, sizeof(T)));
  return copy;
}
// Copies of the known parts of an array of input structs, which lie struct_size apart.
template <typename T>
std::vector<T> input_structs(const T* first, size_t count, const char* parameter) {
  std::vector<T> copies;
  if (count == 0) return copies;
  check_array(first, count, sizeof(size_t), parameter);
  const size_t stride = first->struct_size;
  check_struct_size(stride, kFirstSize<T>, parameter);
  const auto* const bytes = reinterpret_cast<const char*>(first);
  for (size_t i = 0; i < count; ++i) {
    const std::string name = i == 0 ? std::string(parameter) : str(parameter, "[", i, "]");
    size_t size;
    std::memcpy(&size, bytes + i * stride, sizeof(size));
    if (size != stride) {
      refuse(name.c_str(), str("has struct_size ", size, ", but the first has ", stride));
    }
    check_unknown_tail(bytes + i * stride, size, sizeof(T), name.c_str());
    T copy{};
    std::memcpy(&copy, bytes + i * stride, std::min(size, sizeof(T)));
    copies.push_back(copy);
  }
  return copies;
}
// rl_xxx_init: zeros and the size; false if nothing was done.
bool init_struct(void* data, size_t size, size_t first) noexcept;

}  // namespace rl::abi
