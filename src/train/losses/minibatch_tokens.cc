// Sums run in item and token order, in double.
#include "train/losses/minibatch_tokens.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/rng.h"

namespace rl {
bool is_minibatch_loss(const TrainerOptions& o) {
  if (!is_rl(o.objective)) return o.objective == Objective::kDpo;
  return is_sequence_loss(o.policy_loss.kind) || needs_selection(o.policy_loss.kind) ||
         o.policy_loss.kind == PolicyLoss::kCustom;
}

bool needs_current_logprobs(const TrainerOptions& o) {
  if (is_minibatch_loss(o)) return true;
  if (!is_rl(o.objective)) return false;
  return o.correction.opsm_delta > 0 || (o.correction.reads_mismatch() && !o.correction.decoupled);
}

void MinibatchTokens::begin(int32_t first_item) {
  first_item_ = first_item;
  samples_.clear();
  sample_advantages_.clear();
  offsets_.assign(1, 0);
  lengths_.clear();
  for (auto* v : {&rollout_, &old_, &current_, &reference_, &advantage_}) v->clear();
  mask_.clear();
}

void MinibatchTokens::add(const Source& s) {
  const auto count = static_cast<size_t>(s.sample->generated());
  const bool has_old = !s.old_logprobs.empty();
  RL_CHECK(s.old_logprobs.size() == count || !has_old);
  samples_.push_back(s.sample);
  lengths_.push_back(static_cast<int32_t>(count));
  double sum = 0, tokens = 0;
  for (size_t g = 0; g < count; ++g) {
    const bool carries = s.carries_loss && s.sample->loss_mask[g] != 0;
    rollout_.push_back(has_old ? s.sample->logprobs[g] : 0);
    old_.push_back(has_old ? s.old_logprobs[g] : 0);
    reference_.push_back(s.ref_logprobs.empty() ? 0 : s.ref_logprobs[g]);
    advantage_.push_back(s.token_advantages.empty() ? static_cast<float>(s.advantage)
                                                    : s.token_advantages[g]);
    mask_.push_back(carries);
    sum += carries ? advantage_.back() : 0.0f;
    tokens += carries;
  }
  sample_advantages_.push_back(tokens > 0 ? sum / tokens : 0);
  current_.resize(mask_.size());
  offsets_.push_back(mask_.size());
}

std::span<float> MinibatchTokens::current(int32_t item) {
  const auto at = static_cast<size_t>(item - first_item_);
  return std::span(current_).subspan(offsets_[at], static_cast<size_t>(lengths_[at]));
}

CorrectionReport MinibatchTokens::correct(const CorrectionOptions& options) {
  CorrectionReport report;
  correction_.clear();
  counted_.clear();
  if (!options.active()) return report;
  if (options.counts_rejected) counted_ = mask_;
  correction_.assign(mask_.size(), 1.0);
  keep_.resize(mask_.size());
  const MismatchInput in{{lengths_, mask_}, options.decoupled ? old_ : current_, rollout_};
  if (options.decoupled || options.reads_mismatch()) {
    report.mismatch = mismatch(in);
    report.weights = correction_weights(options.weights, in, correction_);
    if (options.batch_normalize) {
      const double mean = correction_mean(options.weights.level, report.weights);
      for (double& w : correction_) w /= mean;
    }
    report.rejections = reject(options.rejections, in, keep_);
    mask_ = keep_;
    if (options.veto > 0) {
      report.veto = veto(options.veto, in, keep_);
      mask_ = keep_;
    }
  }
  if (options.opsm_delta > 0) reject_off_policy(options.opsm_delta, report);
  return report;
}

void MinibatchTokens::reject_off_policy(double delta, CorrectionReport& report) {
  report.opsm = opsm(delta, {{lengths_, mask_}, old_, current_, sample_advantages_}, keep_);
  mask_ = keep_;
}

int64_t MinibatchTokens::use_weights(std::span<const double> weights) {
  RL_CHECK(weights.size() == mask_.size());
  weight_.assign(weights.begin(), weights.end());
  for (size_t t = 0; t < mask_.size(); ++t) {
    if (mask_[t] == 0) weight_[t] = 0;
  }
  return std::reduce(mask_.begin(), mask_.end(), int64_t{0});
}

int64_t MinibatchTokens::set_weights(LossAgg agg, double scale_factor,
                                     const LossDenominators& whole) {
  LossDenominators denominators{.scale_factor = scale_factor};
  const std::vector<uint8_t>& counted = counted_.empty() ? mask_ : counted_;
  std::vector<int64_t> loss_tokens(lengths_.size());
  for (size_t i = 0; i < lengths_.size(); ++i) {
    for (size_t t = offsets_[i]; t < offsets_[i + 1]; ++t) loss_tokens[i] += counted[t];
    denominators.num_tokens += static_cast<double>(loss_tokens[i]);
    denominators.num_sequences += loss_tokens[i] > 0;
  }
  if (whole.num_tokens > 0) denominators.num_tokens = whole.num_tokens;
  if (whole.num_sequences > 0) denominators.num_sequences = whole.num_sequences;
  weight_.assign(mask_.size(), 0.0);
  for (size_t i = 0; i < lengths_.size(); ++i) {
    if (loss_tokens[i] == 0) continue;
    const double weight = token_weight(agg, denominators, loss_tokens[i]);
    for (size_t t = offsets_[i]; t < offsets_[i + 1]; ++t) weight_[t] = mask_[t] != 0 ? weight : 0;
  }
  return std::reduce(mask_.begin(), mask_.end(), int64_t{0});
}

PolicyLossInput MinibatchTokens::input(size_t first, size_t count,
                                       std::span<const int32_t> lengths) const {
  const auto part = [&](const auto& v) { return std::span(v).subspan(first, count); };
  PolicyLossInput in{part(current_), part(old_), part(advantage_), part(weight_)};
  if (!correction_.empty()) in.correction = part(correction_);
  in.lengths = lengths;
  if (!selected_.empty()) in.selected = part(selected_);
  return in;
}

PolicyLossSums MinibatchTokens::compute(const TrainerOptions& options, int64_t optimizer_step) {
  if (options.objective == Objective::kDpo) return compute_pairs(options.dpo);
  selected_.clear();
  if (needs_selection(options.policy_loss.kind)) select(options, optimizer_step);
  gradient_.assign(mask_.size(), 0.0);
  return policy_loss(options.policy_loss, input(0, mask_.size(), lengths_), gradient_);
}

AlgoArrays MinibatchTokens::arrays() {
  ordinals_.clear();
  ids_.clear();
  for (const Sample* s : samples_) {
    ordinals_.push_back(s->ordinal);
    ids_.push_back(s->id);
  }
  AlgoArrays a;
  a.lengths = lengths_;
  a.groups = ordinals_;
  a.sample_ids = ids_;
  a.mask = mask_;
  a.logprobs = current_;
  a.old_logprobs = old_;
  a.rollout_logprobs = rollout_;
  a.advantages = advantage_;
  return a;
}

PolicyLossSums MinibatchTokens::compute(const CustomLoss& loss) {
  selected_.clear();
  gradient_.assign(mask_.size(), 0.0);
  std::vector<double> scale(weight_);
  for (size_t t = 0; t < correction_.size(); ++t) scale[t] *= correction_[t];
  PolicyLossSums sums;
  sums.loss = loss(arrays(), scale, gradient_);
  for (size_t t = 0; t < mask_.size(); ++t) {
    if (weight_[t] == 0) {
      gradient_[t] = 0;
      continue;
    }
    TokenLoss token{};
    token.log_ratio = static_cast<double>(current_[t]) - old_[t];
    sums.count(token);
    if (!std::isfinite(gradient_[t])) sums.loss = gradient_[t];
  }
  return sums;
}

// Covariances are over the tokens that carry loss.
void MinibatchTokens::select(const TrainerOptions& options, int64_t optimizer_step) {
  std::vector<size_t> tokens;
  std::vector<float> advantages, logprobs;
  CovarianceMeans means;
  for (size_t t = 0; t < mask_.size(); ++t) {
    if (mask_[t] == 0) continue;
    tokens.push_back(t);
    advantages.push_back(advantage_[t]);
    logprobs.push_back(current_[t]);
    means.advantage += advantage_[t];
    means.log_prob += current_[t];
  }
  means.advantage /= static_cast<double>(tokens.size());
  means.log_prob /= static_cast<double>(tokens.size());
  std::vector<double> covariance(tokens.size());
  token_covariances(means, advantages, logprobs, covariance);
  selected_.assign(mask_.size(), 0);
  if (options.policy_loss.kind == PolicyLoss::kClipCov) {
    select_clip_cov(options, optimizer_step, tokens, covariance);
    return;
  }
  std::vector<uint8_t> chosen(tokens.size());
  select_largest(options.clip_cov.ratio, covariance, chosen);
  for (size_t i = 0; i < tokens.size(); ++i) selected_[tokens[i]] = chosen[i];
}

void MinibatchTokens::select_clip_cov(const TrainerOptions& options, int64_t optimizer_step,
                                      std::span<const size_t> tokens,
                                      std::span<const double> covariance) {
  const PhiloxKey step_key{options.seed, RngPurpose::kClipCov};
  const PhiloxKey key{random_bits(step_key, static_cast<uint64_t>(optimizer_step), 0, 0),
                      RngPurpose::kClipCov};
  PolicyLossParams clip = options.policy_loss;
  clip.kind = PolicyLoss::kPpoClip;
  std::vector<uint8_t> clipped(tokens.size()), chosen(tokens.size());
  std::vector<double> u(tokens.size());
  size_t item = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t t = tokens[i];
    while (t >= offsets_[item + 1]) ++item;
    const Sample& s = *samples_[item];
    u[i] = uniform(key, s.ordinal, s.slot, static_cast<uint32_t>(t - offsets_[item]));
    clipped[i] = token_policy_loss(clip, current_[t], old_[t], advantage_[t]).clipped;
  }
  select_between(options.clip_cov, {covariance, clipped, u}, chosen);
  for (size_t i = 0; i < tokens.size(); ++i) selected_[tokens[i]] = chosen[i];
}

PairTokens MinibatchTokens::pairs() const { return {lengths_, mask_, current_, reference_}; }

PolicyLossSums MinibatchTokens::compute_pairs(const DpoParams& params) {
  gradient_.assign(mask_.size(), 0.0);
  preference_ = pair_losses(params, pairs(), gradient_);
  PolicyLossSums sums;
  sums.loss = preference_.mean(preference_.loss);
  sums.num_tokens = std::count(mask_.begin(), mask_.end(), 1);
  return sums;
}

void MinibatchTokens::find_non_finite(const TrainerOptions& options,
                                      std::vector<int32_t>& items) const {
  if (options.objective == Objective::kDpo) {
    find_non_finite_pairs(options.dpo, pairs(), first_item_, items);
    return;
  }
  if (options.policy_loss.kind == PolicyLoss::kCustom) return find_non_finite_gradients(items);
  std::vector<double> gradient;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    const auto count = static_cast<size_t>(lengths_[i]);
    gradient.assign(count, 0.0);
    const double loss =
        policy_loss(options.policy_loss, input(offsets_[i], count, {&lengths_[i], 1}), gradient)
            .loss;
    const bool finite = std::isfinite(loss) &&
                        std::ranges::all_of(gradient, [](double g) { return std::isfinite(g); });
    if (!finite) items.push_back(first_item_ + static_cast<int32_t>(i));
  }
}

void MinibatchTokens::find_non_finite_gradients(std::vector<int32_t>& items) const {
  const size_t before = items.size();
  for (size_t i = 0; i < lengths_.size(); ++i) {
    const auto part = std::span(gradient_).subspan(offsets_[i], static_cast<size_t>(lengths_[i]));
    const bool finite = std::ranges::all_of(part, [](double g) { return std::isfinite(g); });
    if (!finite) items.push_back(first_item_ + static_cast<int32_t>(i));
  }
  if (items.size() != before) return;
  for (size_t i = 0; i < lengths_.size(); ++i)
    items.push_back(first_item_ + static_cast<int32_t>(i));
}

}  // namespace rl
