// One function per rule.
#include "train/passes/pass_rules.h"

#include <algorithm>
#include <tuple>

#include "train/passes/train_buffers.h"

namespace rl {

SampleLimits with_last_row(SampleLimits limits) {
  --limits.max_rows;
  --limits.max_sample;
  --limits.max_positions;
  return limits;
}

namespace {

// What bounds the tokens of a sample.
const char* sample_key(const BatchRules& b) {
  return b.cuts ? "trainer.seq_len" : "engine.max_model_len";
}

}  // namespace

SampleLimits training_limits(const StepOptions& o, const Model& model) {
  const BatchRules& b = o.batch;
  const bool by_length = b.seq_len != 0 && !b.oversize_alone;
  const int64_t longest = o.longest_rows();
  return {model.config().vocab,
          model.max_positions(),
          by_length ? std::min(b.seq_len, longest) : longest,
          by_length ? "trainer.seq_len" : o.keys.max_tokens,
          o.longest_sample(),
          sample_key(b)};
}

PackRules training_rules(const StepOptions& o, const Model& model) {
  const int64_t block_size = model.block_size();
  return {o.batch,
          o.max_tokens,
          training_kv_blocks(o, block_size),
          block_size,
          std::max<int64_t>(1, o.longest_sample() - 1),
          model.config().hidden,
          max_samples(o, block_size)};
}

SampleLimits forward_limits(const StepOptions& o, const Model& model, ForwardOf of) {
  const bool own = of == ForwardOf::kOwn || o.batch.reference_max_tokens == 0;
  return {model.config().vocab,
          model.max_positions(),
          of == ForwardOf::kOwn ? o.forward_rows() : o.reference_rows(),
          own ? o.keys.forward_max_tokens : "reference.forward_max_tokens_per_device",
          o.longest_sample(),
          sample_key(o.batch)};
}

PackRules forward_rules(const StepOptions& o, const Model& model, ForwardOf of) {
  BatchRules batch;
  batch.shared_prefix = o.batch.shared_prefix;
  const bool own = of == ForwardOf::kOwn;
  batch.micro_batch_size =
      own ? o.batch.forward_micro_batch_size : o.batch.reference_micro_batch_size;
  const int64_t block_size = model.block_size();
  return {batch, own ? o.forward_budget() : o.reference_budget(),
          forward_kv_blocks(o, own ? o.forward_rows() : o.reference_rows(), block_size),
          block_size};
}

bool trains_before(const Sample& a, const Sample& b) {
  const auto key = [](const Sample& s) { return std::tuple(s.ordinal, s.slot, s.attempt, s.id); };
  return key(a) < key(b);
}

}  // namespace rl
