// Arrays that the contents leave out are dropped here, so that nobody copies them.
#include "train/checkpoint/checkpoint_draft.h"

#include "core/hash.h"
#include "train/checkpoint/checkpoint_manifest.h"

namespace rl {

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
  if (contents.model || (contents.hf_model && is_policy)) {
    draft.arrays.push_back(
        {kMasters, trained_tensors(*arrays.layout, {arrays.masters, &Parameter::offset})});
  }
  if (contents.optimizer)
    draft.arrays.insert(draft.arrays.end(), arrays.states.begin(), arrays.states.end());
  return draft;
}

}  // namespace rl
