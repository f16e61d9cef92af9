// Gradients and moments of the trained parameters (model/weights.h), and AdamW's steps on them.
// Gradients are one flat array in memory of the device, in fp32 or bf16
// (model/rounded_gradients.h), of which steps read fp32 piece by piece; moments are those of
// MomentLayout, in fp32 or fewer bits, on several ranks perhaps those of a part (Shards). The step
// of a parameter on the host copies its gradient and weights into a staging buffer there and the
// weights back; no bit depends on it. Nor do sums and updates depend on the thread count
// (ops/optimizer_ops.h).
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "algo/optimizers/adamw.h"
#include "core/arena.h"
#include "model/gradient_sink.h"
#include "model/masters.h"
#include "model/ranks/stage_ranks.h"
#include "model/ranks/tensor_ranks.h"
#include "model/weights.h"
#include "ops/compute.h"
#include "ops/device_floats.h"
#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/moment_layout.h"
#include "train/optimizer/shards.h"
#include "train/ranks/data_ranks.h"

namespace rl {

struct GradientBytes {
  uint64_t values = 0, scratch = 0;
  uint64_t total() const { return values + scratch; }
};

struct MomentBytes {
  uint64_t device = 0, host = 0, staging = 0;
};

// What a learner is given besides its model and options.
struct LearnerTools {
  // gradient_bytes() in memory of the device for gradients and scratch, whose content is theirs
  // during an update only; null: arenas.
  std::byte* gradients = nullptr;
  DataRanks ranks = {};
};

class AdamwState {
 public:
  // layout outlives it. Padding of the gradients stays zero.
  AdamwState(const WeightLayout& layout, const OptimizerOptions& options, Compute& compute,
             const LearnerTools& tools = {});
  static GradientBytes gradient_bytes(const WeightLayout& layout, GradDtype dtype);
  // Of any rank: what the one with most of it needs.
  static MomentBytes moment_bytes(const WeightLayout& layout, const OptimizerOptions& options);

  GradientSink sink();
  // The flat array; empty if it is in bf16.
  DeviceFloats gradients() const;
  // All of them, padding included, as an array of the host has them.
  void read_gradients(std::span<float> to);
  void write_gradients(std::span<const float> from);
  // Makes one NaN, if there is one.
  void spoil_gradients();
  // In fp32 in memory of the device, until the next call: those of a run of one parameter.
  const float* run_gradients(const TrainedRun& run);
  // Of a parameter whose moments are in fp32.
  float* first_moments(const TrainedRun& run);

  std::vector<std::span<std::byte>> memory() const;
  // For a checkpoint.
  std::vector<StateArray> arrays() const;

  // Between updates, with OptimizerOptions::frees_gradients: the pages of gradients and scratch go
  // back to the system. hold_gradients() has them again, and so has zero_gradients().
  void free_gradients();
  void hold_gradients();
  // Arenas whose content a sleep of the trainer keeps, and those whose content means nothing
  // between updates.
  std::vector<Arena*> kept(bool with_gradients);
  std::vector<Arena*> dropped(bool with_gradients);
  // number: of the optimizer step that they are for, as in update().
  void zero_gradients(int64_t number);
  const Shards& shards() const { return shards_; }
  // With ZeroOptions::overlap_sums, while the last micro-batch of a minibatch goes back: the
  // gradients of this layer and of what follows it are complete, and the ranks begin to sum them.
  // They stay as they are until sum_over_ranks() has returned.
  bool overlaps_sums() const { return options_.zero.overlap_sums; }
  void start_sum(int64_t layer);
  // The same for what is left of the layers; no effect without the option.
  void start_sums();
  // Afterwards each rank has the sums of all ranks' gradients (comm/group.h). In rank order those
  // of bf16 are rounded once. With Shards::divides_gradients it has those of its piece alone.
  void sum_over_ranks();
  // Global norm; chunk sums are added in order. The ranks make this call together; `ranks` are
  // those that have the other parts of the layout's split, `stages` those of its other stages.
  double gradient_norm(const TensorRanks& ranks = {}, const StageRanks& stages = {});
  // After sum_over_ranks(): stages that have the same weights get the same gradients of them.
  void share_copies(const StageRanks& stages);
  // Updates these runs of the masters, or this rank's part of them; all else keeps its bits.
  // number: of the optimizer step, for random numbers.
  void update(const AdamwStep& step, int64_t number, std::span<const TrainedRun> runs,
              const MasterFloats& masters);

 private:
  // Elements of a run.
  struct Piece {
    const TrainedRun& run;
    int64_t first, count;
  };
  // Their weights and gradients, where the moments are.
  struct Operands {
    float* weights;
    const float* gradients;
  };
  // What an optimizer step has in common.
  struct Update {
    const AdamwStep& step;
    int64_t number;
    const MasterFloats& masters;
  };
  std::byte* moments(const MomentPlace& place) const;
  void apply(const Update& update, const Piece& piece, const Operands& on);
  float* staged(int64_t buffer) const;
  Operands fetch(const TrainedRun& run, const MasterFloats& masters, int64_t buffer);
  void update_on_device(const Update& update, const TrainedRun& run);
  void update_on_host(const Update& update, std::span<const TrainedRun> runs);
  double squares_of(const LayoutSection& section, const StageRanks& stages);
  std::vector<double> chunk_squares(rl::Piece range);
  void square_chunks(rl::Piece places, int64_t origin);
  Values all_gradients() const;
  void add_tensors(const Parameter& p, StateArray& first, StateArray& second) const;

  const WeightLayout& layout_;
  const OptimizerOptions options_;
  const Shards shards_;
  const MomentLayout places_;
  Compute& compute_;
  Arena gradients_, scratch_, moments_, host_moments_, staging_;
  std::byte* const gradient_data_;
  bool freed_ = false;
  std::optional<RoundedGradients> rounded_;  // with gradients in bf16
  std::vector<double> chunk_sums_;
  const std::vector<int64_t> layer_gradients_;
  std::vector<StartedCall> sums_;
  uint64_t unsummed_ = 0;  // places before this one are still to be summed
};

}  // namespace rl
