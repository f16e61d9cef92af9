// The layouts that are compared with one rank, a line each.
#pragma once
#include <iterator>
#include <ostream>

#include "layout_run.h"

namespace rl::testing {

// Of runs on an emulated GPU, which takes long: a small model, and few short samples.
inline constexpr char kSmallRun[] =
    " model=small pipeline.samples_per_prompt=2 sampling.max_new_tokens=3";

struct LayoutRow {
  const char* layout;
  double logprob_bound = 0;  // between those of an engine and of the training forward
  // Relative, between the weights of one rank and those whose gradients have other sums: moments of
  // the first steps make signs of gradients near 0.
  double weights_bound = 1e-3;
};
inline void PrintTo(const LayoutRow& row, std::ostream* out) { *out << row.layout; }

inline constexpr double kRing = 1e-5;  // in fp32
inline constexpr double kBf16 = 1e-2;  // of gradients that are rounded at random

inline constexpr LayoutRow kLayouts[] = {
    {"data=2"},
    {"data=3"},
    {"data=4"},
    {"data=8"},
    {"data=2 zero_stage=1"},
    {"data=3 zero_stage=2"},
    {"data=4 zero_stage=1"},
    {"data=8 zero_stage=2"},
    {"data=2 zero_stage=3"},
    {"data=4 zero_stage=3"},
    {"data=3 zero_stage=1 overlap_grad_reduce=true overlap_param_gather=true"},
    {"data=3 zero_stage=3 overlap_grad_reduce=true overlap_param_gather=true"},
    {"data=4 zero_stage=1 zero_group=2"},
    {"data=4 zero_stage=2 zero_group=2"},
    {"data=4 zero_stage=3 zero_group=2"},
    {"data=6 zero_stage=2 zero_group=3 overlap_grad_reduce=true overlap_param_gather=true"},
    {"data=8 zero_stage=3 zero_group=2 overlap_grad_reduce=true overlap_param_gather=true"},
    {"context=2 data=2 zero_stage=2 zero_group=2"},
    {"tensor=2 data=4 zero_stage=1 zero_group=2"},
    {"tensor=2 data=4 zero_stage=3 zero_group=2"},
    {"pipeline=2 data=4 zero_stage=2 zero_group=2"},
    {"algo.advantage=gae data=4 zero_stage=3 zero_group=2"},
    {"trainer.grad_dtype=bf16 data=4 zero_stage=2 zero_group=2", 0, kBf16},
    {"tensor=2"},
    {"tensor=4"},
    {"tensor=8"},
    {"tensor=2 reduction_parts=4"},
    {"tensor=2 reduction_parts=8"},
    {"tensor=2 data=2"},
    {"tensor=2 data=4"},
    {"tensor=4 data=2"},
    {"tensor=2 data=2 zero_stage=1"},
    {"tensor=2 data=2 zero_stage=2"},
    {"tensor=2 data=3 zero_stage=2"},
    {"tensor=2 data=4 zero_stage=2"},
    {"tensor=2 data=2 zero_stage=3"},
    {"tensor=4 data=2 zero_stage=1"},
    {"tensor=2 reduction_parts=4 data=2 zero_stage=2"},
    {"reduction_parts=4 data=2 zero_stage=2"},
    {"reduction_parts=4 data=2 zero_stage=3"},
    {"tensor=2 sequence_parallel=true"},
    {"tensor=4 sequence_parallel=true data=2 zero_stage=2"},
    {"tensor=2 reduction_parts=4 sequence_parallel=true"},
    {"pipeline=2"},
    {"pipeline=4"},
    {"pipeline=3 pipeline_last_layers=2"},
    {"pipeline=2 data=2"},
    {"pipeline=2 data=4"},
    {"pipeline=4 data=2"},
    {"pipeline=2 reduction_parts=2"},
    {"pipeline=2 tensor=2"},
    {"pipeline=2 tensor=4"},
    {"pipeline=4 tensor=2"},
    {"pipeline=3 pipeline_first_layers=2 tensor=2"},
    {"pipeline=2 tensor=2 reduction_parts=4"},
    {"pipeline=2 tensor=2 data=2"},
    {"pipeline=2 data=2 zero_stage=1"},
    {"pipeline=2 data=3 zero_stage=2"},
    {"pipeline=4 data=2 zero_stage=2"},
    {"pipeline=2 tensor=2 data=2 zero_stage=1"},
    {"pipeline=2 tensor=2 data=2 zero_stage=2"},
    {"pipeline=2 data=2 zero_stage=3"},
    {"pipeline=2 tensor=2 data=2 zero_stage=3"},
    {"pipeline=2 tensor=2 reduction_parts=4 data=2 zero_stage=2"},
    {"context=2"},
    {"context=4"},
    {"context=2 context_zigzag=true"},
    {"context=2 context_kind=ulysses"},
    {"context=4 context_kind=ulysses"},
    {"context=2 data=2"},
    {"context=2 zero_stage=2"},
    {"context=2 context_kind=ulysses data=2 zero_stage=1"},
    {"context=4 context_zigzag=true data=2 zero_stage=2"},
    {"context=2 reduction_parts=2"},
    {"context=2 tensor=2"},
    {"context=4 tensor=2"},
    {"context=2 tensor=2 context_zigzag=true data=2"},
    {"context=2 tensor=2 context_kind=ulysses"},
    {"context=2 tensor=2 reduction_parts=4 context_kind=ulysses zero_stage=2"},
    {"context=2 tensor=2 data=2 zero_stage=2"},
    {"context=2 zero_stage=3"},
    {"context=2 tensor=2 data=2 zero_stage=3"},
    {"context=2 tensor=2 reduction_parts=4 zero_stage=2 overlap_grad_reduce=true"},
    {"context=2 pipeline=2"},
    {"context=2 pipeline=4"},
    {"context=2 pipeline=2 context_kind=ulysses"},
    {"context=2 pipeline=2 data=2 context_zigzag=true zero_stage=2"},
    {"context=2 pipeline=2 tensor=2"},
    {"context=2 pipeline=2 tensor=2 context_kind=ulysses zero_stage=1"},
    {"context=2 context_kind=ring", kRing},
    {"context=4 context_kind=ring context_zigzag=true", kRing},
    {"context=2 context_kind=ring data=2 zero_stage=2", kRing},
    {"context=2 context_kind=ring tensor=2", kRing},
    {"context=2 context_kind=ring pipeline=2 tensor=2", kRing},
    // Each rank generates with all parts and stages.
    {"engines=whole tensor=2"},
    {"engines=whole tensor=2 reduction_parts=4"},
    {"engines=whole tensor=2 data=2 zero_stage=2"},
    {"engines=whole tensor=2 data=2 zero_stage=3"},
    {"engines=whole tensor=4 data=2"},
    {"engines=whole tensor=2 sequence_parallel=true"},
    {"engines=whole pipeline=4"},
    {"engines=whole pipeline=2 data=2 zero_stage=3 overlap_param_gather=true"},
    {"engines=whole pipeline=2 tensor=2 data=2 zero_stage=1"},
    {"engines=whole context=2 pipeline=2 tensor=2"},
    {"engines=whole context=2 context_kind=ring tensor=2", kRing},
    {"engines=whole model=smollm2 pipeline=2 tensor=2 data=2"},
    {"engines=whole model=three tensor=3 data=2"},
    // The head is the embedding, of which the last stage has a copy.
    {"model=smollm2 tensor=2 data=2 zero_stage=2"},
    {"model=smollm2 tensor=2 sequence_parallel=true"},
    {"model=smollm2 pipeline=2 tensor=2"},
    {"model=smollm2 pipeline=2 data=2 zero_stage=1"},
    {"model=smollm2 pipeline=2 data=3 zero_stage=3"},
    {"model=smollm2 pipeline=2 tensor=2 data=2 zero_stage=2"},
    {"model=smollm2 context=2 pipeline=2 tensor=2"},
    {"model=uneven tensor=2"},
    {"model=uneven tensor=4 data=2 zero_stage=2"},
    {"model=uneven tensor=2 reduction_parts=4 sequence_parallel=true"},
    {"model=uneven pipeline=2 tensor=2"},
    {"model=uneven context=2 tensor=2"},
    {"model.freeze=model.layers.1.*,model.embed_tokens.* data=2 zero_stage=2"},
    {"model.freeze=model.layers.1.*,model.embed_tokens.* tensor=2 data=2 zero_stage=1"},
    {"model.freeze=model.layers.1.*,model.embed_tokens.* tensor=4 sequence_parallel=true"},
    {"model.freeze=model.layers.1.*,model.embed_tokens.* context=2 tensor=2 zero_stage=2"},
    {"model.freeze=model.layers.1.*,lm_head.* model=uneven tensor=2 reduction_parts=4"},
    {"model.train_only=model.layers.2.* context=2 context_kind=ulysses"},
    {"algo.advantage=gae data=2"},
    {"algo.advantage=gae data=3 zero_stage=2"},
    {"algo.advantage=gae tensor=2"},
    {"algo.advantage=gae tensor=2 sequence_parallel=true data=2 zero_stage=2"},
    {"algo.advantage=gae tensor=2 reduction_parts=4 data=2 zero_stage=1"},
    {"algo.advantage=gae context=2"},
    {"algo.advantage=gae context=2 tensor=2 zero_stage=2"},
    {"algo.advantage=gae model.freeze=model.layers.1.* context=2 data=2"},
    // Rounded with random numbers of their place, which follow from the parts that a rank has.
    {"trainer.grad_dtype=bf16 data=2", 0, kBf16},
    {"trainer.grad_dtype=bf16 data=4 zero_stage=2", 0, kBf16},
    {"trainer.grad_dtype=bf16 context=2 data=2 zero_stage=1", 0, kBf16},
    {"trainer.grad_dtype=bf16 tensor=2 data=2 zero_stage=2", 0, kBf16},
    {"trainer.grad_dtype=bf16 algo.advantage=gae data=2 zero_stage=2", 0, kBf16},
};
static_assert(std::size(kLayouts) >= 40);

// The layout of fewest ranks whose bits it has: its samples are cut and its sums ordered alike.
inline Layout same_bits_as(const Layout& layout) {
  if (layout.get("trainer.grad_dtype", "fp32") != "fp32")
    return layout.without({"zero_stage", "zero_group"});
  return layout.without({"tensor", "pipeline", "pipeline_first_layers", "pipeline_last_layers",
                         "zero_stage", "zero_group", "sequence_parallel", "engines",
                         "overlap_grad_reduce", "overlap_param_gather"});
}

// One rank that computes the same log-probs, and gradients but for the order of their sums.
inline Layout one_rank_of(const Layout& layout) {
  return same_bits_as(layout).without(
      {"tensor", "data", "context", "context_kind", "context_zigzag"});
}

}  // namespace rl::testing
