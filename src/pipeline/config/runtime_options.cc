#include "pipeline/config/runtime_options.h"

#include <algorithm>

#include "core/error.h"
#include "device/cpu/executors.h"
#include "ops/compute.h"

namespace rl {

Dtype compute_dtype_of(const OptionSet& options) {
  const std::string& name = options.get_string("model.dtype");
  if (name == "fp32") return Dtype::kF32;
  if (cpu_has_bf16_dot()) return Dtype::kBf16;
  if (name == "auto") return Dtype::kF32;
  throw Error(Code::kUnsupported,
              "model.dtype is bf16, but this processor has no bf16 dot product; fp32 and auto work")
      .with_key("model.dtype");
}

int thread_count_of(const OptionSet& options) {
  const int64_t asked = options.get_i64("runtime.threads");
  return asked == 0 ? usable_cores() : static_cast<int>(asked);
}

uint64_t usable_budget(const OptionSet& options) {
  const uint64_t budget = options.get_u64("runtime.memory_budget_bytes");
  return budget - std::min(budget, options.get_u64("runtime.memory_margin_bytes"));
}

std::string budget_text(const OptionSet& options) {
  std::string text =
      str("runtime.memory_budget_bytes is ", options.get_u64("runtime.memory_budget_bytes"));
  const uint64_t margin = options.get_u64("runtime.memory_margin_bytes");
  if (margin != 0) text += str(", of which runtime.memory_margin_bytes = ", margin, " stay free");
  return text;
}

}  // namespace rl
