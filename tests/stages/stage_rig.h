// The stages of a model, each with a rig of its own.
#pragma once
#include <functional>

#include "../comm/local_ranks.h"
#include "formats/layer_stage.h"
#include "model/whole_tensors.h"
#include "support/layered_model.h"
#include "train/train_rig.h"

namespace rl::testing {

// Several micro-batches in a minibatch, and several head chunks in a micro-batch.
inline TrainerOptions options_of(double grad_clip = 0.5) {
  TrainerOptions o;
  o.max_tokens = 64;
  o.logprob_chunk_tokens = 16;
  o.schedule.lr = 1e-3;
  o.grad_clip = grad_clip;
  return o;
}

// The rigs of all stages, each on a thread of its own, in `groups` data-parallel groups.
inline void on_stages(const StageCut& cut, const RigOptions& given, const TrainerOptions& options,
                      const std::function<void(TrainRig&, int rank)>& work, int groups = 1,
                      int64_t timeout_ns = kLongNs) {
  const int stages = static_cast<int>(cut.stages), size = stages * groups;
  run_local_ranks(size, [&](std::shared_ptr<Transport> transport) {
    const Mesh mesh({.data = groups, .pipeline = stages}, size, transport->rank());
    const GroupOptions group_options{timeout_ns};
    comm::Group data(transport, mesh, Axis::kData, group_options), all(transport, group_options);
    StageChannels channels(transport, mesh, group_options);
    RigOptions rig_options = given;
    rig_options.cut = cut;
    if (stages > 1) rig_options.stages = StageRanks(channels);
    if (size > 1) rig_options.ranks = DataRanks(data, all, *transport);
    TrainRig rig(rig_options, options);
    work(rig, transport->rank());
  });
}

// All weights in the order of files; on the first stage.
inline std::vector<float> all_weights(const Model& model, const WholeTensors& whole) {
  std::vector<float> out;
  if (model.stage_ranks().rank() != 0) return out;
  for (const TensorInfo& t : expected_tensors(model.whole_config())) {
    std::vector<float> values(static_cast<size_t>(t.rows() * t.cols()));
    whole.read(t, 0, values);
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

}  // namespace rl::testing
