// Range checks, and row counts derived from budgets.
#include "train/options/step_options.h"

#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 24;

void require_range(std::string_view key, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  throw Error(Code::kOutOfRange, str(key, " is ", value, ", expected ", low, "..", high))
      .with_key(std::string(key))
      .with_expected(str(low, "..", high));
}

void check_forward_rows(int64_t rows, int64_t sequences, const char* key) {
  if (sequences == 0 || rows <= kMaxTokens) return;
  throw Error(Code::kOutOfRange,
              str("a micro-batch would have ", rows, " rows, with ", key, " = ", sequences))
      .with_key(key)
      .with_expected(str("at most ", kMaxTokens, " rows"));
}

void check_batch(const StepOptions& o) {
  const BatchRules& b = o.batch;
  require_range("trainer.global_batch_size", b.global_batch_size, 0, int64_t{1} << 32);
  require_range("trainer.num_minibatches", b.num_minibatches, 1, 65536);
  require_range(o.keys.micro_batch_size, b.micro_batch_size, 0, 65536);
  require_range(o.keys.forward_max_tokens, b.forward_max_tokens, 0, kMaxTokens);
  require_range("reference.forward_max_tokens_per_device", b.reference_max_tokens, 0, kMaxTokens);
  require_range("trainer.seq_len", b.seq_len, 0, kMaxTokens);
  require_range("trainer.pad_to_multiple_of", b.pad_to, 1, 65536);
  require_range("reward.micro_batch_size", b.forward_micro_batch_size, 0, 65536);
  require_range("reference.micro_batch_size", b.reference_micro_batch_size, 0, 65536);
  check_forward_rows(o.forward_budget(), b.forward_micro_batch_size, "reward.micro_batch_size");
  check_forward_rows(o.reference_budget(), b.reference_micro_batch_size,
                     "reference.micro_batch_size");
  if (o.train_rows() <= kMaxTokens) return;
  throw Error(Code::kOutOfRange, str("a micro-batch would have ", o.train_rows(), " rows, with ",
                                     o.keys.micro_batch_size, " = ", b.micro_batch_size,
                                     " sequences of up to ", o.longest_rows(), " rows"))
      .with_key(o.keys.micro_batch_size)
      .with_expected(str("at most ", kMaxTokens, " rows"));
}

void check_mlp_chunk(int64_t tokens) {
  constexpr const char* kKey = "trainer.mlp_chunk_tokens";
  require_range(kKey, tokens, 0, kMaxTokens);
  if (tokens % kMlpRowUnit == 0) return;
  throw Error(Code::kOutOfRange,
              str(kKey, " is ", tokens, ", expected a multiple of ", kMlpRowUnit))
      .with_key(kKey)
      .with_expected(str("a multiple of ", kMlpRowUnit));
}

[[noreturn]] void refuse_change(const char* key) {
  throw Error(Code::kNotChangeable, str(key, " cannot be changed: the memory plan depends on it"))
      .with_key(key);
}

void require_same_activations(const ActivationRule& a, const ActivationRule& b) {
  if (a.granularity != b.granularity) refuse_change("trainer.recompute_granularity");
  if (a.method != b.method) refuse_change("trainer.recompute_method");
  if (a.num_layers != b.num_layers) refuse_change("trainer.recompute_num_layers");
  if (a.offload != b.offload) refuse_change("trainer.activation_offload");
  if (a != b) refuse_change("trainer.recompute_modules");
}

}  // namespace

int64_t StepOptions::longest_rows() const {
  return batch.oversize_alone ? longest_sample() - 1 : std::min(longest_sample() - 1, max_tokens);
}

int64_t StepOptions::train_rows() const {
  const int64_t longest = longest_rows(), count = batch.micro_batch_size;
  if (count == 0) return std::max(max_tokens, batch.padded(longest));
  return batch.packed ? batch.padded(count * longest) : count * batch.padded(longest);
}

int64_t StepOptions::forward_budget() const {
  if (batch.forward_micro_batch_size != 0)
    return batch.forward_micro_batch_size * (longest_sample() - 1);
  if (batch.forward_max_tokens != 0) return batch.forward_max_tokens;
  return std::max(2 * train_rows() / context.ranks, longest_rows());
}

int64_t StepOptions::forward_rows() const {
  return batch.oversize_alone ? std::max(forward_budget(), longest_sample() - 1) : forward_budget();
}

int64_t StepOptions::reference_budget() const {
  if (batch.reference_micro_batch_size != 0)
    return batch.reference_micro_batch_size * (longest_sample() - 1);
  return batch.reference_max_tokens != 0 ? batch.reference_max_tokens : forward_budget();
}

int64_t StepOptions::reference_rows() const {
  return batch.oversize_alone ? std::max(reference_budget(), longest_sample() - 1)
                              : reference_budget();
}

void validate(const StepOptions& o) {
  require_range(o.keys.max_tokens, o.max_tokens, 1, kMaxTokens);
  require_range("engine.max_model_len", o.max_sequence, 0, kMaxTokens + 1);
  require_range("trainer.logprob_chunk_tokens", o.logprob_chunk_tokens, 0, kMaxTokens);
  check_mlp_chunk(o.mlp_chunk_tokens);
  require_range("trainer.epochs", o.epochs, 1, 1024);
  require_range("trainer.recompute_num_layers", o.activations.num_layers, 1, 65536);
  check_batch(o);
  validate(o.adamw);
  validate(o.schedule);
  validate(o.optimizer);
  if (o.loss_agg == LossAgg::kSeqMeanTokenSumNorm) {
    require_value(o.loss_scale_factor > 0 && std::isfinite(o.loss_scale_factor),
                  "algo.loss_scale_factor", o.loss_scale_factor, "a finite value above 0");
  }
  require_value(o.grad_clip >= 0 && std::isfinite(o.grad_clip), "optimizer.grad_clip", o.grad_clip,
                "a finite value of at least 0");
}

void require_same_sizes(const StepOptions& now, const StepOptions& next) {
  const auto require_same = [](const char* key, int64_t old_value, int64_t new_value) {
    if (old_value == new_value) return;
    throw Error(Code::kNotChangeable, str(key, " is ", old_value, " and cannot be changed to ",
                                          new_value, ": the memory plan depends on it"))
        .with_key(key);
  };
  const BatchRules &a = now.batch, &b = next.batch;
  RL_CHECK(a.step_samples == b.step_samples);  // fixed by the memory plan
  require_same(now.keys.max_tokens, now.max_tokens, next.max_tokens);
  require_same(now.keys.micro_batch_size, a.micro_batch_size, b.micro_batch_size);
  require_same("trainer.sequence_packing", a.packed, b.packed);
  require_same("trainer.seq_len", a.seq_len, b.seq_len);
  require_same("trainer.pad_to_multiple_of", a.pad_to, b.pad_to);
  require_same("trainer.oversize", a.oversize_alone, b.oversize_alone);
  require_same("trainer.oversize", a.cuts, b.cuts);
  require_same("reward.micro_batch_size", a.forward_micro_batch_size, b.forward_micro_batch_size);
  require_same("reference.micro_batch_size", a.reference_micro_batch_size,
               b.reference_micro_batch_size);
  require_same(now.keys.forward_max_tokens, a.forward_max_tokens, b.forward_max_tokens);
  require_same("reference.forward_max_tokens_per_device", a.reference_max_tokens,
               b.reference_max_tokens);
  require_same("engine.max_model_len", now.max_sequence, next.max_sequence);
  require_same("trainer.logprob_chunk_tokens", now.logprob_chunk_tokens, next.logprob_chunk_tokens);
  require_same("trainer.mlp_chunk_tokens", now.mlp_chunk_tokens, next.mlp_chunk_tokens);
  require_same("trainer.recompute_loss", now.recompute_loss, next.recompute_loss);
  if (now.context != next.context) refuse_change("parallel.context");
  if (now.backward_packing != next.backward_packing) refuse_change("trainer.backward_weights");
  require_same_states(now.optimizer, next.optimizer);
  require_same_activations(now.activations, next.activations);
  if (now.trainable == next.trainable) return;
  refuse_change(now.trainable.freeze != next.trainable.freeze ? "model.freeze"
                                                              : "model.train_only");
}

}  // namespace rl
