// Argument checks; see arguments.h.
#include "abi/arguments.h"

#include "abi/handles.h"
#include "core/encoding/utf8.h"

namespace rl::abi {
namespace {

// No struct of rl.h will come near this; a larger size means an uninitialised field.
constexpr size_t kMaxStructSize = 65536;

void check_utf8(std::string_view text, const char* parameter) {
  const auto broken = find_broken_utf8(text);
  if (broken) refuse(parameter, str("is not UTF-8 at byte ", *broken));
}

}  // namespace

void refuse(const char* parameter, std::string message) {
  throw Error(Code::kInvalidArgument, str("parameter ", parameter, " ", message))
      .with_key(parameter);
}

void rename_parameter(Error& error, std::string_view from, std::string_view to) {
  if (!error.key.starts_with(from)) return;
  const size_t named = error.message.find(error.key);
  error.key.replace(0, from.size(), to);
  if (named != std::string::npos) error.message.replace(named, from.size(), to);
}

std::string_view text_arg(const char* data, size_t len, const char* parameter) {
  if (data == nullptr) {
    if (len == RL_NUL_TERMINATED) refuse(parameter, "is NULL");
    if (len != 0) refuse(parameter, "is NULL but its length is not 0");
    return "";
  }
  if (len == RL_NUL_TERMINATED) len = std::strlen(data);
  if (len > static_cast<size_t>(std::numeric_limits<ptrdiff_t>::max())) {
    refuse(parameter, str("has the impossible length ", len));
  }
  const std::string_view text(data, len);
  check_utf8(text, parameter);
  return text;
}

std::string_view name_arg(const char* data, size_t len, const char* parameter) {
  const std::string_view text = text_arg(data, len, parameter);
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) refuse(parameter, str("has a NUL byte at offset ", nul));
  return text;
}

std::string path_arg(const char* data, size_t len, const char* parameter) {
  const std::string_view path = name_arg(data, len, parameter);
  if (path.empty()) refuse(parameter, "is empty");
  return std::string(path);
}

bool bool_arg(uint32_t value, const char* parameter) {
  if (value > 1) refuse(parameter, str("is ", value, "; a boolean is 0 or 1"));
  return value == 1;
}

void reserved_arg(uint64_t value, const char* parameter) {
  if (value != 0) refuse(parameter, "is not 0");
}

void flags_arg(uint64_t flags, uint64_t known, const char* parameter) {
  if ((flags & ~known) != 0) refuse(parameter, str("has unknown bits: ", flags & ~known));
}

SaveArgs save_args(const char* dir, size_t dir_len, int32_t dtype, uint64_t flags) {
  SaveArgs args{path_arg(dir, dir_len, "dir"), Dtype::kF32, (flags & RL_SAVE_REPLACE) != 0};
  if (dtype != RL_DTYPE_F32 && dtype != RL_DTYPE_BF16)
    refuse("dtype", str("is ", dtype, ", expected RL_DTYPE_F32 or RL_DTYPE_BF16"));
  if (dtype == RL_DTYPE_BF16) args.dtype = Dtype::kBf16;
  flags_arg(flags, RL_SAVE_REPLACE, "flags");
  return args;
}

PlanUse plan_use_arg(int32_t use) {
  if (use >= RL_USE_MODEL && use <= RL_USE_FORWARD) return static_cast<PlanUse>(use);
  refuse("use", str("is ", use, ", expected RL_USE_MODEL to RL_USE_FORWARD"));
}

void check_index(size_t index, size_t count) {
  if (index < count) return;
  throw Error(Code::kOutOfRange, str("parameter index is ", index, ", but the count is ", count))
      .with_key("index");
}

void check_array(const void* data, size_t count, size_t element_bytes, const char* parameter) {
  if (data == nullptr && count != 0) refuse(parameter, str("is NULL but has ", count, " entries"));
  if (count > static_cast<size_t>(std::numeric_limits<ptrdiff_t>::max()) / element_bytes) {
    refuse(parameter, str("has the impossible count ", count));
  }
}

std::string_view text_at(const char* const* texts, const size_t* lens, size_t index,
                         const char* parameter) {
  const size_t len = lens != nullptr ? lens[index] : RL_NUL_TERMINATED;
  return text_arg(texts[index], len, str(parameter, "[", index, "]").c_str());
}

OptionSet options_or(const rl_options* options, const OptionSet& fallback) {
  return options != nullptr ? use(options, "options")->copy() : fallback;
}

bool is_struct_size(size_t struct_size, size_t first) noexcept {
  return struct_size >= first && struct_size <= kMaxStructSize;
}

void check_struct_size(size_t struct_size, size_t first, const char* parameter) {
  if (is_struct_size(struct_size, first)) return;
  refuse(parameter,
         str("has struct_size ", struct_size, ", expected ", first, "..", kMaxStructSize));
}

void check_unknown_tail(const void* data, size_t struct_size, size_t known, const char* parameter) {
  const auto* const bytes = static_cast<const unsigned char*>(data);
  for (size_t i = known; i < struct_size; ++i) {
    if (bytes[i] == 0) continue;
    throw Error(Code::kUnsupported,
                str("parameter ", parameter, " sets byte ", i, ", beyond the ", known,
                    " bytes that this library knows; it was made for a newer one"))
        .with_key(parameter);
  }
}

void clear_struct(void* out, size_t first) {
  size_t size;
  std::memcpy(&size, out, sizeof(size));
  if (size < first || size > kMaxStructSize) return;
  std::memset(static_cast<char*>(out) + sizeof(size), 0, size - sizeof(size));
}

bool init_struct(void* data, size_t size, size_t first) noexcept {
  if (data == nullptr || size < first || size > kMaxStructSize) return false;
  std::memset(data, 0, size);
  std::memcpy(data, &size, sizeof(size));
  return true;
}

}  // namespace rl::abi
