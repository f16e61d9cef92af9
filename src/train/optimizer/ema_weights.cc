// Runs of the layout, one op each.
#include "train/optimizer/ema_weights.h"

#include "core/checked.h"
#include "core/error.h"

namespace rl {

uint64_t EmaWeights::bytes(uint64_t elements, double decay) {
  if (decay == 0) return 0;
  return (CheckedU64(elements) * CheckedU64(sizeof(float))).align_up(ArenaPlan::kAlignment).get();
}

EmaWeights::EmaWeights(const WeightLayout& layout, double decay, const MasterFloats& masters,
                       Compute& compute, const Shards& shards)
    : layout_(layout),
      decay_(decay),
      compute_(compute),
      shards_(shards),
      averages_("averaged weights", bytes(shards.longest(), decay), Touch::kLater,
                compute.memory()) {
  if (!kept()) return;
  for_each_run([&](const TrainedRun& run, float* averages) {
    const uint64_t bytes = static_cast<uint64_t>(run.size) * sizeof(float);
    copy_bytes(compute_, {masters.at(run.master), averages, bytes});
  });
}

void EmaWeights::for_each_run(
    FunctionRef<void(const TrainedRun& run, float* averages)> visit) const {
  const Piece own = shards_.own();
  for (const TrainedRun& whole : layout_.trained_runs()) {
    const TrainedRun run = part_of(whole, own);
    if (run.size == 0) continue;
    visit(run, averages().data() + run.gradient - static_cast<int64_t>(own.begin));
  }
}

void EmaWeights::update(const MasterFloats& masters) {
  if (!kept()) return;
  for_each_run([&](const TrainedRun& run, float* averages) {
    average_floats(compute_, {decay_, masters.at(run.master), averages, run.size});
  });
}

void EmaWeights::exchange(const MasterFloats& masters) {
  RL_CHECK(kept() && !shards_.divided());
  for_each_run([&](const TrainedRun& run, float* averages) {
    exchange_floats(compute_, {masters.at(run.master), averages, run.size});
  });
}

StateArray EmaWeights::state() const {
  StateArray out{"ema", {}};
  const Piece piece = shards_.own();
  for (const Parameter& p : layout_.parameters()) {
    if (!p.trainable()) continue;
    const TrainedRun own = part_of({p.offset, p.gradient, p.size}, piece);
    const int64_t at = own.size > 0 ? own.gradient - static_cast<int64_t>(piece.begin) : 0;
    StateTensor tensor{p.name, "F32", p.shape, averages().part(at, own.size).bytes()};
    const int64_t before = own.size > 0 ? own.gradient - p.gradient : 0;
    if (shards_.divided()) tensor.first = static_cast<uint64_t>(before) * sizeof(float);
    out.tensors.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace rl
