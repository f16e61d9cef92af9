#include "pipeline/config/runtime_options.h"

#include <algorithm>

#include "core/error.h"
#include "device/cpu/executors.h"
#include "device/plugin/plugin_loader.h"
#include "model/ranks/stage_ranks.h"
#include "ops/op_table.h"

namespace rl {
namespace {

std::vector<GpuFacts> find_gpus() {
  try {
    return cuda_plugin(sizeof(OpTable)).devices();
  } catch (const Error&) {
    return {};  // cuda_absence() says why
  }
}

std::string find_cuda_absence() {
  try {
    static_cast<void>(cuda_plugin(sizeof(OpTable)).device(0, false));
    return "";
  } catch (const Error& error) {
    return error.message;
  }
}

}  // namespace

const std::vector<GpuFacts>& gpus() {
  static const auto& found = *new std::vector<GpuFacts>(find_gpus());
  return found;
}

const char* cuda_absence() {
  static const auto& found = *new std::string(find_cuda_absence());
  return found.c_str();
}

// That of rank 0 may be one that there is not, which is an error of its own.
int gpu_of_rank(int first, int rank, size_t gpus) {
  if (rank == 0 || gpus == 0) return first;
  return static_cast<int>((static_cast<size_t>(first) + static_cast<size_t>(rank)) % gpus);
}

const Device& device_of(const Settings& settings, int rank) {
  if (settings.runtime.device == RuntimeDevice::kCpu) return cpu_device();
  try {
    const int index =
        gpu_of_rank(static_cast<int>(settings.runtime.device_index), rank, gpus().size());
    return cuda_plugin(sizeof(OpTable)).device(index, settings.runtime.gpu_ranges);
  } catch (const Error& error) {
    throw Error(error).with_key(error.key.empty() ? "runtime.device" : error.key);
  }
}

Dtype compute_dtype_of(const Settings& settings, const Device& device) {
  const ModelDtype named = settings.model.dtype;
  if (named == ModelDtype::kFp32) return Dtype::kF32;
  if (device.has_bf16()) return Dtype::kBf16;
  if (named == ModelDtype::kAuto) return Dtype::kF32;
  throw Error(Code::kUnsupported,
              "model.dtype is bf16, but this processor has no bf16 dot product; fp32 and auto work")
      .with_key("model.dtype");
}

int thread_count_of(const Settings& settings) {
  const int64_t requested = settings.runtime.threads;
  if (requested != 0) return static_cast<int>(requested);
  const size_t listed = settings.runtime.cpus.size();
  const int cores = listed != 0 ? static_cast<int>(listed) : usable_cores();
  const bool share = settings.comm.backend == CommBackend::kLocal;  // processes may be elsewhere
  return std::max(1, share ? cores / rank_count_of(settings) : cores);
}

int rank_count_of(const Settings& settings) {
  const ParallelSettings& p = settings.parallel;
  return static_cast<int>(p.data * p.context * p.tensor * p.pipeline);
}

const char* rank_axis_of(const Settings& settings) {
  const ParallelSettings& p = settings.parallel;
  return p.data > 1       ? "parallel.data"
         : p.context > 1  ? "parallel.context"
         : p.pipeline > 1 ? "parallel.pipeline"
                          : "parallel.tensor";
}

int data_rank_count_of(const Settings& settings) {
  return static_cast<int>(settings.parallel.data * settings.parallel.context);
}

int zero_group_of(const Settings& settings) {
  const int ranks = data_rank_count_of(settings);
  const auto group = static_cast<int>(settings.parallel.zero_group);
  if (group == 0 || settings.parallel.zero_stage == 0) return ranks;
  if (ranks % group == 0) return group;
  throw Error(Code::kConflict, str("parallel.zero_group is ", group, ", which does not divide the ",
                                   ranks, " ranks of parallel.data x parallel.context"))
      .with_key("parallel.zero_group")
      .with_other_key(rank_axis_of(settings))
      .with_expected(str("0, or a divisor of ", ranks, " above 1"));
}

int device_group_count_of(const Settings& settings) {
  const ParallelSettings& p = settings.parallel;
  const bool divides_batch = data_rank_count_of(settings) > 1;
  const bool has_zero_groups = zero_group_of(settings) < data_rank_count_of(settings);
  return (divides_batch ? 1 : 0) + (p.context > 1 ? 1 : 0) + (p.tensor > 1 ? 1 : 0) +
         (p.pipeline > 1 ? StageChannels::kGroups : 0) + (has_zero_groups ? 2 : 0);
}

void require_rank_of_run(const Settings& settings) {
  const int64_t rank = settings.comm.rank, ranks = rank_count_of(settings);
  if (rank < ranks) return;
  throw Error(Code::kOutOfRange, str("comm.rank is ", rank, ", but the run has ", ranks, " ranks"))
      .with_key("comm.rank")
      .with_expected(str("0..", ranks - 1));
}

bool engines_are_whole(const Settings& settings) {
  const ParallelSettings& p = settings.parallel;
  return settings.engine.tensor_parallel_size == 1 && p.tensor * p.pipeline > 1;
}

TensorSplit tensor_split_from(const Settings& settings, int rank) {
  const int64_t parts = settings.parallel.reduction_parts, ranks = settings.parallel.tensor;
  if (parts % ranks != 0) {
    throw Error(Code::kConflict,
                str("parallel.tensor is ", ranks,
                    ", which does not divide parallel.reduction_parts = ", parts,
                    "; set parallel.reduction_parts to ", ranks, " or a multiple of it"))
        .with_key("parallel.tensor")
        .with_other_key("parallel.reduction_parts")
        .with_expected(str("parallel.reduction_parts = ", ranks));
  }
  const int64_t count = parts / ranks;
  return {parts, rank * count, count};
}

StageCut stage_cut_from(const Settings& settings) {
  const ParallelSettings& parallel = settings.parallel;
  return {parallel.pipeline, parallel.pipeline_first_layers, parallel.pipeline_last_layers};
}

uint64_t usable_budget(const Settings& settings) {
  const uint64_t budget = settings.runtime.memory_budget_bytes;
  return budget - std::min(budget, settings.runtime.memory_margin_bytes);
}

std::string budget_text(const Settings& settings) {
  std::string text = str("runtime.memory_budget_bytes is ", settings.runtime.memory_budget_bytes);
  const uint64_t margin = settings.runtime.memory_margin_bytes;
  if (margin != 0) text += str(", of which runtime.memory_margin_bytes = ", margin, " stay free");
  return text;
}

}  // namespace rl
