// The ranks that divide a model, each with a rig of its own.
#pragma once
#include <functional>

#include "../comm/local_ranks.h"
#include "model/ranks/device_staging.h"
#include "support/layered_model.h"
#include "train/divided_model.h"

namespace rl::testing {

struct Division {
  int64_t parts, ranks;
};

// The rigs of all ranks, each on a thread of its own.
inline void on_ranks(const Division& d, const RigOptions& given, const TrainerOptions& options,
                     const std::function<void(TrainRig&, int rank)>& work) {
  const int64_t count = d.parts / d.ranks;
  run_local_ranks(static_cast<int>(d.ranks), [&](std::shared_ptr<Transport> transport) {
    const std::unique_ptr<Executor> executor = make_thread_executor(1);
    const std::unique_ptr<Compute> copies =
        given.device.make_compute(*executor, given.compute, nullptr);
    comm::Group group(transport, {.timeout_ns = kLongNs, .staging = staging_of(*copies)});
    RigOptions rig_options = given;
    rig_options.split = {d.parts, group.rank() * count, count};
    if (d.ranks > 1) rig_options.tensor = TensorRanks(group);
    TrainRig rig(rig_options, options);
    work(rig, group.rank());
  });
}

}  // namespace rl::testing
