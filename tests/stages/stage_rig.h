// The stages of a model, each with a rig of its own.
#pragma once
#include <functional>

#include "../comm/local_ranks.h"
#include "formats/layer_stage.h"
#include "support/layered_model.h"
#include "train/divided_model.h"

namespace rl::testing {

// The rigs of all stages, each on a thread of its own, in `groups` data-parallel groups.
inline void on_stages(const StageCut& cut, const RigOptions& given, const TrainerOptions& options,
                      const std::function<void(TrainRig&, int rank)>& work, int groups = 1,
                      int64_t timeout_ns = kLongNs) {
  const int stages = static_cast<int>(cut.stages), size = stages * groups;
  run_local_ranks(size, [&](std::shared_ptr<Transport> transport) {
    const Mesh mesh({.data = groups, .pipeline = stages}, size, transport->rank());
    const GroupOptions group_options{timeout_ns};
    comm::Group data(transport, mesh, Axis::kData, group_options), all(transport, group_options);
    StageChannels channels(transport, mesh, [&] { return group_options; });
    RigOptions rig_options = given;
    rig_options.cut = cut;
    if (stages > 1) rig_options.stages = StageRanks(channels);
    if (size > 1) rig_options.ranks = DataRanks(data, all, *transport);
    TrainRig rig(rig_options, options);
    work(rig, transport->rank());
  });
}

}  // namespace rl::testing
