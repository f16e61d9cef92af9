#include "train/passes/stage_buffers.h"

#include "train/passes/train_buffers.h"

namespace rl {
namespace {

struct Sizes {
  Sizes(const TrainShape& s, const StepOptions& o) {
    const LayerStage& stage = s.config.stage;
    if (!stage.divides()) return;
    const BatchLimits limits = train_limits(s, o);
    const auto rows = static_cast<uint64_t>(padded_rows(limits.rows));
    const uint64_t row = rows * static_cast<uint64_t>(s.config.hidden);
    others = stage.stages - stage.index - 1;
    saved = SavedActivations::bytes(s.config, s.compute(), limits, o.activations);
    blocks = pool_kv_blocks(s, o);
    kv =
        static_cast<uint64_t>(blocks) * training_kv(train_kv(s.kv, o), o.activations).block_bytes();
    if (!s.config.tied_head) return;
    if (stage.last()) hidden = row * dtype_bytes(s.compute());
    if (stage.first()) embedding = row * sizeof(float);
    slots = stage.stages;
  }
  int64_t others = 0, slots = 0, blocks = 0;
  uint64_t saved = 0, kv = 0, hidden = 0, embedding = 0;
};

// Calls the functions with the offset of each part; returns the bytes of all.
template <typename Other, typename Hidden, typename Embedding>
uint64_t lay_out(const Sizes& sizes, const Other& other, const Hidden& hidden,
                 const Embedding& embedding) {
  ArenaPlan plan;
  for (int64_t i = 0; i < sizes.others; ++i) {
    const uint64_t saved = plan.add_region("saved activations", sizes.saved);
    other(saved, plan.add_region("training KV", sizes.kv));
  }
  for (int64_t i = 0; i < sizes.slots; ++i) {
    if (sizes.hidden != 0) hidden(plan.add_region("final hidden", sizes.hidden));
    if (sizes.embedding != 0) embedding(plan.add_region("embedding gradients", sizes.embedding));
  }
  return plan.total_bytes();
}

}  // namespace

uint64_t StageBuffers::bytes(const TrainShape& s, const StepOptions& o) {
  const auto nothing = [](auto...) {};
  return lay_out(Sizes(s, o), nothing, nothing, nothing);
}

StageBuffers::StageBuffers(const TrainShape& s, const StepOptions& o, std::byte* data) {
  const Sizes sizes(s, o);
  const BatchLimits limits = train_limits(s, o);
  lay_out(
      sizes,
      [&](uint64_t saved, uint64_t kv) {
        others.push_back(
            {SavedActivations(s.config, s.compute(), limits, data + saved, o.activations),
             KvPool{training_kv(train_kv(s.kv, o), o.activations), data + kv, sizes.blocks}});
      },
      [&](uint64_t at) { hidden.push_back(data + at); },
      [&](uint64_t at) { embedding.push_back(reinterpret_cast<float*>(data + at)); });
}

}  // namespace rl
