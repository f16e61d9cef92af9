// What the runtime.* keys and model.dtype mean on this machine. Pure functions; the options are
// valid.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "device/plugin/cuda_plugin.h"
#include "formats/layer_stage.h"
#include "formats/model_config.h"
#include "ops/device.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

// The device that runtime.device, runtime.device_index and runtime.gpu_ranges mean, for a rank that
// shares these options with rank 0. Lives as long as the library. Error(kNotInBuild) or
// Error(kUnsupported) saying what is absent.
const Device& device_of(const Settings& settings, int rank = 0);
// Which of so many GPUs such a rank has, if runtime.device_index is `first`.
int gpu_of_rank(int first, int rank, size_t gpus);
// The GPUs that runtime.device_index counts; none if something is absent. The first call looks, and
// the result lives as long as the library.
const std::vector<GpuFacts>& gpus();
// Why runtime.device = cuda does not work here, or empty. As above.
const char* cuda_absence();
// The compute dtype that model.dtype means on this device.
Dtype compute_dtype_of(const Settings& settings, const Device& device = cpu_device());
// The thread count that runtime.threads and runtime.cpus mean on this machine.
int thread_count_of(const Settings& settings);
// parallel.tensor * parallel.context * parallel.data * parallel.pipeline.
int rank_count_of(const Settings& settings);
// The key of an axis with several ranks, for errors: of data, context and pipeline the first, else
// that of tensor.
const char* rank_axis_of(const Settings& settings);
// Those that share the gradients of a batch: parallel.context * parallel.data.
int data_rank_count_of(const Settings& settings);
// Those of them that divide among them what parallel.zero_stage says. Error(kConflict) unless
// parallel.zero_group divides the number of all of them.
int zero_group_of(const Settings& settings);
// The groups of a rank that exchange values of its device (pipeline/ranks/run_ranks.h).
int device_group_count_of(const Settings& settings);
// Error(kOutOfRange) unless the run has a rank of the number comm.rank.
void require_rank_of_run(const Settings& settings);
// Whether ranks that divide a model have an engine each, with all parts and stages of it
// (engine.tensor_parallel_size): then every rank of the run generates for itself.
bool engines_are_whole(const Settings& settings);
// What a rank of that number among those of parallel.tensor has of a model's layers.
// Error(kConflict) unless parallel.reduction_parts is a multiple of parallel.tensor.
TensorSplit tensor_split_from(const Settings& settings, int rank);
// How the layers of a model are divided among stages.
StageCut stage_cut_from(const Settings& settings);
// What a plan may use: runtime.memory_budget_bytes minus the margin; 0: no limit.
uint64_t usable_budget(const Settings& settings);
// "runtime.memory_budget_bytes is 10", and the margin if there is one.
std::string budget_text(const Settings& settings);

}  // namespace rl
