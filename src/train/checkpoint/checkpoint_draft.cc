// Arrays that the contents leave out are dropped here, so that nobody copies them.
#include "train/checkpoint/checkpoint_draft.h"

#include <utility>

#include "core/hash.h"
#include "train/checkpoint/checkpoint_manifest.h"

namespace rl {

TensorList master_tensors(const WeightLayout& layout, const MasterFloats& masters) {
  TensorList tensors;
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    StateTensor tensor{p.name, "F32", p.shape, {}};
    if (masters.has(p.offset)) tensor.bytes = masters.part(p.offset, p.size).bytes();
    if (masters.divides(p.offset)) tensor.first = 0;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

FrozenMark frozen_mark(const CheckpointArrays& a) {
  FrozenMark mark;
  const bool in_parts = a.layout->split().divides();
  Digest64 all;
  for (const Parameter& p : a.layout->parameters()) {
    if (p.trainable()) continue;
    Digest64 own;
    Digest64& digest = in_parts ? own : all;
    mark.names.push_back(p.name);
    a.masters.part(p.offset, p.size).visit([&](std::span<const float> part) {
      digest.update(std::as_bytes(part));
    });
    if (in_parts) mark.digests.push_back(own.value());
  }
  mark.digest = in_parts ? digest_of_parts(mark.digests) : all.value();
  return mark;
}

uint64_t digest_of_parts(std::span<const uint64_t> digests) {
  return digest64(std::as_bytes(digests));
}

ModelDraft draft_model(const TrainerCounters& counters, const CheckpointArrays& arrays,
                       const CheckpointContents& contents, bool is_policy) {
  ModelDraft draft{counters, frozen_mark(arrays), {}, {}};
  // A Hugging Face directory of divided masters is made from what the ranks gather for it.
  const bool for_hf = contents.hf_model && is_policy && !arrays.masters.divided();
  if (contents.model || for_hf)
    draft.arrays.push_back({kMasters, master_tensors(*arrays.layout, arrays.masters)});
  if (contents.optimizer)
    draft.arrays.insert(draft.arrays.end(), arrays.states.begin(), arrays.states.end());
  return draft;
}

}  // namespace rl
