// Version, build and features of the library.
#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"
#include "comm/plugin/gloo_loader.h"
#include "pipeline/config/runtime_options.h"

namespace rl::abi {
namespace {

// Why bf16 is not the compute dtype on this machine, or empty.
const char* bf16_reason() {
  return compute_dtype_of(OptionSet()) == Dtype::kBf16
             ? ""
             : "bf16: unavailable, because this processor has no bf16 dot product; fp32 is used";
}

const char* works() { return ""; }

const char* gloo_absence() {
  static const auto& found = *new std::string([] {
    try {
      static_cast<void>(gloo_plugin());
      return std::string();
    } catch (const Error& error) {
      return error.message;
    }
  }());
  return found.c_str();
}

struct Feature {
  const char* name;
  const char* (*reason)();  // empty: available
};
constexpr Feature kFeatures[] = {
    {"cpu", works},   {"bf16", bf16_reason},  {"cuda", cuda_absence}, {"sync", works},
    {"async", works}, {"distributed", works}, {"gguf", works},        {"safetensors", works},
    {"grpo", works},  {"gloo", gloo_absence},
};

#ifdef __clang__
constexpr const char* kCompiler = "";  // its version text already starts with its name
#else
constexpr const char* kCompiler = "GCC ";
#endif

#ifdef RL_SANITIZED
constexpr const char* kSanitized = "yes";
#else
constexpr const char* kSanitized = "no";
#endif

}  // namespace
}  // namespace rl::abi

using namespace rl;
using namespace rl::abi;

extern "C" {

uint32_t rl_abi_version(void) { return RL_ABI_VERSION; }

const char* rl_version_string(void) { return RL_VERSION_TEXT; }

rl_status rl_build_info(rl_bytes** out, rl_error** err) {
  clear(out);
  return guarded(err, nullptr, [&] {
    require(out, "out");
    *out = make_bytes(str("version=", RL_VERSION_TEXT, "\nabi=", RL_ABI_MAJOR, ".", RL_ABI_MINOR,
                          "\ncompiler=", kCompiler, __VERSION__, "\nlanguage=C++",
                          __cplusplus / 100 % 100, "\nbuild_type=", RL_BUILD_TYPE,
                          "\nsanitized=", kSanitized, "\n"));
  });
}

rl_status rl_feature(const char* name, size_t name_len, uint32_t* available, const char** reason,
                     rl_error** err) {
  clear(available);
  clear(reason);
  return guarded(err, nullptr, [&] {
    require(available, "available");
    require(reason, "reason");
    const std::string_view wanted = name_arg(name, name_len, "name");
    for (const Feature& feature : kFeatures) {
      if (wanted != feature.name) continue;
      const char* const text = feature.reason();
      *available = *text == '\0' ? 1 : 0;
      *reason = text;
      return;
    }
    throw Error(Code::kNotFound, str("parameter name: there is no feature \"", wanted, "\""))
        .with_key("name");
  });
}

const char* rl_feature_name(size_t index) {
  return index < std::size(kFeatures) ? kFeatures[index].name : nullptr;
}

void rl_device_info_init(rl_device_info* info, size_t size) {
  init_struct(info, size, sizeof(*info));
}

rl_status rl_device_count(size_t* count, rl_error** err) {
  clear(count);
  return guarded(err, nullptr, [&] {
    require(count, "count");
    *count = gpus().size();
  });
}

rl_status rl_device_get(size_t index, rl_device_info* info, rl_error** err) {
  clear_result(info);
  return guarded(err, nullptr, [&] {
    rl_device_info& out = result_struct(info, "info");
    check_index(index, gpus().size());
    const GpuFacts& gpu = gpus()[index];
    out.name = gpu.name.c_str();
    out.memory_bytes = gpu.memory_bytes;
    out.architecture_major = gpu.major;
    out.architecture_minor = gpu.minor;
  });
}

const char* rl_status_name(rl_status status) { return code_name(static_cast<Code>(status)); }

}  // extern "C"
