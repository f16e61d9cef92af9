// The ranks that divide a model, each with a rig of its own.
#pragma once
#include <functional>

#include "../comm/local_ranks.h"
#include "model/whole_tensors.h"
#include "support/layered_model.h"
#include "train/train_rig.h"

namespace rl::testing {

inline TrainerOptions options_of(double grad_clip = 0.5) {
  TrainerOptions o;
  o.max_tokens = 64;
  o.logprob_chunk_tokens = 16;
  o.schedule.lr = 1e-3;
  o.grad_clip = grad_clip;
  return o;
}

struct Division {
  int64_t parts, ranks;
};

// The rigs of all ranks, each on a thread of its own.
inline void on_ranks(const Division& d, const RigOptions& given, const TrainerOptions& options,
                     const std::function<void(TrainRig&, int rank)>& work) {
  const int64_t count = d.parts / d.ranks;
  run_local_ranks(static_cast<int>(d.ranks), [&](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
    RigOptions rig_options = given;
    rig_options.split = {d.parts, group.rank() * count, count};
    if (d.ranks > 1) rig_options.tensor = TensorRanks(group);
    TrainRig rig(rig_options, options);
    work(rig, group.rank());
  });
}

// All weights in the order of files.
inline std::vector<float> all_weights(const Model& model, const WholeTensors& whole) {
  std::vector<float> out;
  for (const TensorInfo& t : expected_tensors(model.config())) {
    std::vector<float> values(static_cast<size_t>(t.rows() * t.cols()));
    whole.read(t, 0, values);
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

}  // namespace rl::testing
