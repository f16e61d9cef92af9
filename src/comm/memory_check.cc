#include "comm/memory_check.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "core/error.h"

namespace rl {
namespace {

constexpr const char* kFile = "/proc/meminfo";

// The line "MemAvailable:  N kB".
uint64_t available_bytes(const std::string& text) {
  constexpr std::string_view kName = "MemAvailable:";
  const size_t at = text.find(kName);
  std::string_view rest = text;
  rest.remove_prefix(at == text.npos ? rest.size() : at + kName.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  uint64_t kib = 0;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), kib);
  if (failure != std::errc() || kib > UINT64_MAX >> 10) {
    throw Error(Code::kUnsupported, str(kFile, " has no number for MemAvailable"))
        .with_key("comm.memory_check");
  }
  return kib << 10;
}

// Nothing if it cannot be read: that must not keep a rank from a call that others make.
std::optional<uint64_t> bytes_now(const FreeMemory& memory) {
  try {
    return memory.bytes();
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string text_of(std::optional<uint64_t> bytes) { return bytes ? str(*bytes) : "unknown"; }

class SystemMemory final : public FreeMemory {
 public:
  uint64_t bytes() const override {
    std::ifstream file(kFile);  // its size is 0, so it is read to its end
    return available_bytes({std::istreambuf_iterator<char>(file), {}});
  }
  void release_caches() override {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
  }
};

}  // namespace

std::shared_ptr<FreeMemory> free_system_memory() {
  auto memory = std::make_shared<SystemMemory>();
  memory->bytes();  // it can be read
  return memory;
}

void run_checked(const MemoryCheck& check, FunctionRef<void()> call) {
  if (check.memory == nullptr) return call();
  const std::optional<uint64_t> before = bytes_now(*check.memory);
  const bool short_of_memory = before && *before < check.threshold_bytes;
  if (short_of_memory) check.memory->release_caches();
  try {
    call();
  } catch (Error& error) {
    error.message += str("; free memory in bytes: ", text_of(before), " before the call, ",
                         text_of(bytes_now(*check.memory)), " after it");
    if (short_of_memory) {
      error.message += str("; caches were released, since comm.memory_check_threshold_bytes is ",
                           check.threshold_bytes);
    }
    throw;
  }
}

}  // namespace rl
