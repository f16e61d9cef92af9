// Opens a model the way a process uses it: all usable cores, bf16 if the CPU has it. Also what
// bench programs share: arguments, repeatable token ids and the clock.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/fs.h"
#include "device/cpu/executors.h"
#include "formats/open/open_weight_source.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace rl::bench {

struct BenchModel {
  explicit BenchModel(const std::string& path)
      : executor(make_default_executor(0)),
        compute(make_cpu_compute(*executor, cpu_has_bf16_dot() ? Dtype::kBf16 : Dtype::kF32)) {
    const auto source = open_weight_source(real_fs(), path);
    model = std::make_unique<Model>(*source, *compute, ModelOptions{});
    if (auto parts = source->tokenizer_parts()) {
      tokenizer = std::make_unique<Tokenizer>(Tokenizer::from_parts(std::move(*parts)));
    } else if (!source->tokenizer_json_path().empty()) {
      tokenizer = std::make_unique<Tokenizer>(Tokenizer::from_directory(real_fs(), path));
    }
  }
  double item_bytes() const { return static_cast<double>(dtype_bytes(model->compute_dtype())); }

  std::unique_ptr<Executor> executor;
  std::unique_ptr<Compute> compute;
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null if the model came without one
};

struct BenchArgs {
  std::string model, out;
  std::string only;  // the one case to run; empty: all
  int repeats = 5;
  bool quick = false;  // one repeat of one small case: proves that the program runs
};

constexpr const char* kUsage = "usage: --model PATH --out FILE [--quick] [--only CASE]";

inline BenchArgs parse_args(int argc, char** argv) {
  BenchArgs args;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--quick") {
      args.quick = true;
      args.repeats = 1;
    } else if (name == "--model" && i + 1 < argc) {
      args.model = argv[++i];
    } else if (name == "--out" && i + 1 < argc) {
      args.out = argv[++i];
    } else if (name == "--only" && i + 1 < argc) {
      args.only = argv[++i];
    } else {
      throw std::runtime_error("unknown argument " + name + "; " + kUsage);
    }
  }
  if (args.model.empty() || args.out.empty()) throw std::runtime_error(kUsage);
  return args;
}

// Ids that repeat from run to run and differ between sequences.
inline std::vector<int32_t> spread_ids(int64_t count, int64_t vocab, uint64_t seed) {
  std::vector<int32_t> ids(count);
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (int32_t& id : ids) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    id = static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab));
  }
  return ids;
}

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace rl::bench
