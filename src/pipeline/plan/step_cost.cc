// The formulas of step_cost.h, in its symbols.
#include "pipeline/plan/step_cost.h"

#include <algorithm>
#include <cmath>

#include "formats/vocabulary_cut.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/plan/knobs.h"
#include "pipeline/plan/planner.h"

namespace rl {
namespace {

constexpr double kAdamBytes = 28;  // masters and both moments, read and written, and gradients
constexpr double kBf16Bytes = 30, kInt8Bytes = 68;  // what rounding takes longer, as bytes
constexpr double kGradientBytes = 8;                // a micro-batch reads and writes each
constexpr double kRoundingBytes = 21;               // what rounding one takes, as bytes
constexpr double kMasterBytes = 4;

double real(int64_t n) { return static_cast<double>(n); }
double rounds_of(double amount, double each) { return std::ceil(amount / std::max(1.0, each)); }

// Work per token of a model.
struct TokenWork {
  explicit TokenWork(const ModelConfig& c) {
    for (int64_t l = 0; l < c.layers; ++l) {
      const LayerShape s = c.own(l);
      layers += 2 * real(c.hidden) * real(2 * s.q_width() + s.kv_width() + 3 * s.ffn);
      heads += 4 * real(s.q_width());
    }
    head = 2 * real(c.hidden) * real(c.scalar_head ? 1 : VocabularyCut(c).own().count);
    params = (layers + head) / 2;
  }
  double attend(double keys) const { return heads * keys; }
  double layers = 0, head = 0, heads = 0, params = 0;
};

class StepTime {
 public:
  StepTime(const Planner& p, const StepSizes& sizes, const MachineRates& rates)
      : p_(p), s_(p.settings()), sizes_(sizes), policy_(p.config()), rollout_(p.rollout()) {
    const double share = static_cast<double>(p.threads()) / std::max(1, rates.threads);
    flops_ = share * (p.compute() == Dtype::kBf16 ? rates.bf16_flops : rates.f32_flops);
    read_ = share * rates.read_bytes_per_s;
    copy_ = share * rates.copy_bytes_per_s;
    response_ =
        real(std::min(s_.sampling.max_new_tokens, std::max<int64_t>(1, p.max_model_len() - 1)));
    prompt_ = std::max(1.0, real(p.max_model_len()) - response_);
    samples_ = real(s_.pipeline.prompts_per_step * attempts_per_prompt(s_));
    forward_bytes_ = static_cast<double>(p.packed_bytes());
    rollout_bytes_ = static_cast<double>(p.rollout_packed_bytes());
    if (p.has_trainer()) {
      backward_held_ = static_cast<double>(p.train_sizes(p.min_tokens()).packed_backward);
    }
  }

  StepSeconds seconds() const {
    StepSeconds t;
    if (p_.has_engine() && is_rl(s_.algo.objective)) t.rollout = prefill() + decode();
    if (!p_.has_trainer()) return t;
    const double others = p_.has_reference() + p_.has_critic() + p_.has_reward_model() +
                          static_cast<double>(p_.has_teacher());
    t.logprob = others * (layer_time(1, forward_bytes_) + head_time(1));
    const double passes = real(s_.trainer.epochs) * (1 + static_cast<double>(p_.has_critic()));
    t.train = passes * (layer_time(3, 2 * forward_bytes_ + kGradientBytes * policy_.params) +
                        head_time(3) + rounding_time());
    for (const KnobRow& row : knob_table()) {
      if (row.work != nullptr) t.train += passes * time_of(row.work(p_, pass()));
    }
    const double updates = passes * minibatches();
    t.update = updates * (update_bytes() * policy_.params / (2 * copy_) + muon_time());
    t.publish = updates *
                (kMasterBytes * policy_.params / read_ + (forward_bytes_ + backward_held_) / copy_);
    if (has_rollout_weights(s_, p_.use())) t.publish += rollout_bytes_ / copy_;
    return t;
  }

 private:
  double time_of(const StepWork& w) const {
    return std::max(w.flop / flops_, w.read_bytes / read_) + w.copy_bytes / copy_;
  }
  double minibatches() const {
    return real(std::max<int64_t>(1, batch_rules_from(s_).minibatches(trained_units(s_))));
  }

  // Of gradients in bf16, once a micro-batch.
  double rounding_time() const {
    if (s_.trainer.grad_dtype != TrainerGradDtype::kBf16) return 0;
    return pass().micro_batches * kRoundingBytes * policy_.params / (2 * copy_);
  }

  double update_bytes() const {
    const OptimizerStateDtype dtype = s_.optimizer.state_dtype;
    if (dtype == OptimizerStateDtype::kInt8) return kInt8Bytes;
    return dtype == OptimizerStateDtype::kBf16 ? kBf16Bytes : kAdamBytes;
  }

  // Of the products of Newton-Schulz steps.
  double muon_time() const {
    if (s_.optimizer.name != OptimizerName::kMuon) return 0;
    const auto step = [](int64_t a, int64_t b) {
      const double small = real(std::min(a, b)), large = real(std::max(a, b));
      return 4 * large * small * small + 2 * small * small * small;
    };
    double flop = 0;
    for (int64_t l = 0; l < p_.config().layers; ++l) {
      const LayerShape s = p_.config().own(l);
      const int64_t hidden = p_.config().hidden;
      flop += 2 * step(s.q_width(), hidden) + 2 * step(s.kv_width() / 2, hidden) +
              3 * step(s.ffn, hidden);
    }
    return real(s_.optimizer.muon_ns_steps) * flop / flops_;
  }

  double prefill() const {
    const double prompts = s_.engine.prefix_caching ? real(s_.pipeline.prompts_per_step) : samples_;
    const double tokens = prompts * prompt_;
    const double forwards = rounds_of(tokens, real(s_.engine.max_num_batched_tokens));
    return time_of(
        {tokens * (rollout_.layers + rollout_.attend(prompt_ / 2)), forwards * rollout_bytes_, 0});
  }

  double decode() const {
    const double context = prompt_ + response_ / 2, engines = real(p_.num_engines());
    const double fitting = real(sizes_.kv_blocks) * real(p_.rollout_kv().block_size()) / context;
    const double rows =
        std::min({real(s_.engine.max_num_seqs), std::max(1.0, fitting),
                  real(s_.engine.max_num_batched_tokens), std::ceil(samples_ / engines)});
    const double kv =
        static_cast<double>(p_.rollout_kv().block_bytes()) / real(p_.rollout_kv().block_size());
    const double products = time_of({rows * (rollout_.layers + rollout_.head), rollout_bytes_, 0});
    const double attention = time_of({rows * rollout_.attend(context), rows * context * kv, 0});
    return samples_ / rows * response_ * (products + attention);
  }

  PassSize pass() const {
    const double rows = samples_ * (prompt_ + response_);
    return {rows, rounds_of(rows, real(sizes_.max_tokens))};
  }

  // Of a pass over the samples' rows: so many times the FLOP of a forward, and so many bytes for
  // each micro-batch.
  double layer_time(double times, double bytes) const {
    const double length = prompt_ + response_, rows = samples_ * length;
    const double micro_batches = rounds_of(rows, real(sizes_.max_tokens));
    return time_of(
        {times * rows * (policy_.layers + policy_.attend(length / 2)), micro_batches * bytes, 0});
  }

  double head_time(double times) const {
    const double tokens = samples_ * response_;
    const auto chunk = static_cast<double>(s_.trainer.logprob_chunk_tokens);
    const double micro = real(sizes_.max_tokens);
    const double chunks = rounds_of(tokens, chunk == 0 ? micro : std::min(chunk, micro));
    const double bytes = policy_.head * (p_.compute() == Dtype::kBf16 ? 1 : 2);
    return time_of({times * tokens * policy_.head, times * chunks * bytes, 0});
  }

  const Planner& p_;
  const Settings& s_;
  const StepSizes sizes_;
  const TokenWork policy_, rollout_;
  double flops_, read_, copy_, prompt_, response_, samples_, forward_bytes_, rollout_bytes_;
  double backward_held_ = 0;
};

}  // namespace

StepSeconds step_seconds(const Planner& planner, const StepSizes& sizes,
                         const MachineRates& rates) {
  return StepTime(planner, sizes, rates).seconds();
}

}  // namespace rl
