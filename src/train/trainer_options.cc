// Range checks; the rules of the algorithms are with the algorithms.
#include "train/trainer_options.h"

#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

void require_range(std::string_view key, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  throw Error(Code::kOutOfRange, str(key, " is ", value, ", expected ", low, "..", high))
      .with_key(std::string(key))
      .with_expected(str(low, "..", high));
}

void require_finite(std::string_view key, double value) {
  require_value(value >= 0 && std::isfinite(value), key, value, "a finite value of at least 0");
}

void check_correction(const TrainerOptions& o) {
  const CorrectionOptions& c = o.correction;
  validate(c.weights);
  for (const Rejection& r : c.rejections) validate(r);
  require_finite("algo.correction.opsm_delta", c.opsm_delta);
  const PolicyLoss kind = o.policy_loss.kind;
  const bool has_ratio =
      kind != PolicyLoss::kNone && kind != PolicyLoss::kGpg && kind != PolicyLoss::kCustom;
  if (c.weights.level == CorrectionLevel::kNone || c.decoupled || !has_ratio) return;
  throw Error(Code::kConflict, str("algo.correction.is = ", correction_level_name(c.weights.level),
                                   " counts the mismatch twice: without algo.correction.decoupled "
                                   "the ratio of the loss is against the sampler already"))
      .with_key("algo.correction.is")
      .with_other_key("algo.correction.decoupled");
}

constexpr int64_t kMaxTokens = int64_t{1} << 24;

void check_batch(const TrainerOptions& o) {
  const BatchRules& b = o.batch;
  require_range("trainer.global_batch_size", b.global_batch_size, 0, int64_t{1} << 32);
  require_range("trainer.num_minibatches", b.num_minibatches, 1, 65536);
  require_range("trainer.micro_batch_size", b.micro_batch_size, 0, 65536);
  require_range("trainer.logprob_max_tokens_per_device", b.logprob_max_tokens, 0, kMaxTokens);
  require_range("trainer.seq_len", b.seq_len, 0, kMaxTokens);
  require_range("trainer.pad_to_multiple_of", b.pad_to, 1, 65536);
  if (o.train_rows() <= kMaxTokens) return;
  throw Error(Code::kOutOfRange, str("a micro-batch would have ", o.train_rows(),
                                     " rows, with trainer.micro_batch_size = ", b.micro_batch_size,
                                     " sequences of up to ", o.longest_rows(), " rows"))
      .with_key("trainer.micro_batch_size")
      .with_expected(str("at most ", kMaxTokens, " rows"));
}

}  // namespace

int64_t TrainerOptions::longest_rows() const {
  return batch.oversize_alone ? longest_sample() - 1 : std::min(longest_sample() - 1, max_tokens);
}

int64_t TrainerOptions::train_rows() const {
  const int64_t longest = longest_rows(), count = batch.micro_batch_size;
  if (count == 0) return std::max(max_tokens, batch.padded(longest));
  return batch.packed ? batch.padded(count * longest) : count * batch.padded(longest);
}

int64_t TrainerOptions::logprob_budget() const {
  return batch.logprob_max_tokens != 0 ? batch.logprob_max_tokens : 2 * train_rows();
}

int64_t TrainerOptions::logprob_rows() const {
  return batch.oversize_alone ? std::max(logprob_budget(), longest_sample() - 1) : logprob_budget();
}

void validate(const TrainerOptions& o) {
  require_range("trainer.max_tokens_per_device", o.max_tokens, 1, kMaxTokens);
  require_range("trainer.max_sequence", o.max_sequence, 0, kMaxTokens + 1);
  require_range("trainer.logprob_chunk_tokens", o.logprob_chunk_tokens, 0, kMaxTokens);
  require_range("trainer.epochs", o.epochs, 1, 1024);
  check_batch(o);
  validate(o.policy_loss);
  validate(o.clip_cov);
  check_correction(o);
  validate(o.adamw);
  validate(o.schedule);
  if (o.loss_agg == LossAgg::kSeqMeanTokenSumNorm) {
    require_value(o.loss_scale_factor > 0 && std::isfinite(o.loss_scale_factor),
                  "algo.loss_scale_factor", o.loss_scale_factor, "a finite value above 0");
  }
  require_finite("algo.entropy_coef", o.entropy_coef);
  require_finite("algo.kl.coef", o.kl_coef);
  require_finite("optimizer.grad_clip", o.grad_clip);
}

}  // namespace rl
