// An optimizer step in two halves: the gradients of a batch, or of a part of one, and their update,
// between which a host may combine them with those of other processes.
#include <cmath>

#include "core/error.h"
#include "train/trainer_impl.h"

namespace rl {
namespace {

[[noreturn]] void refuse_part(const char* key, std::string_view value) {
  throw Error(Code::kUnsupported, str("counts of a larger batch are given, but with ", key, " = ",
                                      value, " the loss of a part is no part of its loss"))
      .with_key(key);
}

[[noreturn]] void refuse_more(const char* key, int64_t value) {
  throw Error(Code::kConflict,
              str("gradients are those of one optimizer step, but ", key, " is ", value))
      .with_key(key)
      .with_expected("one optimizer step for a batch");
}

void require_count(const char* key, double whole, int64_t part) {
  if (whole == 0 || (std::isfinite(whole) && whole >= static_cast<double>(part))) return;
  throw Error(Code::kOutOfRange, str(key, " is ", whole, ", but this part of the batch has ", part))
      .with_key(key)
      .with_expected(str("at least ", part));
}

// The count that the loss divides by is that of the whole batch, or both are those of this part.
void check_counts(const TrainerOptions& options, const LossDenominators& whole) {
  const bool by_option = is_rl(options.objective) || options.objective == Objective::kSft;
  const LossAgg agg = by_option ? options.loss_agg : LossAgg::kTokenMean;
  if (agg == LossAgg::kTokenSum) return;
  const bool of_tokens = agg == LossAgg::kTokenMean;
  if ((of_tokens ? whole.num_tokens : whole.num_sequences) != 0) return;
  const char* const key = of_tokens ? "step.total_tokens" : "step.total_sequences";
  throw Error(Code::kInvalidArgument,
              str(key, " is 0, but counts of a larger batch are given, and algo.loss_agg = ",
                  loss_agg_name(agg), " divides by this one"))
      .with_key(key);
}

}  // namespace

void Trainer::Impl::check_one_update(int64_t samples) const {
  if (options.epochs != 1) refuse_more("trainer.epochs", options.epochs);
  const int64_t count = samples / samples_together(options.objective);
  const BatchRules& rules = options.batch;
  if (rules.global_batch_size == 0) {
    if (rules.num_minibatches != 1) refuse_more("trainer.num_minibatches", rules.num_minibatches);
  } else if (count > rules.global_batch_size) {
    refuse_more("trainer.global_batch_size", rules.global_batch_size);
  }
}

void Trainer::Impl::check_divisible(const LossDenominators& whole) const {
  if (whole.num_tokens == 0 && whole.num_sequences == 0) return;
  check_counts(options, whole);
  if (is_pairs(options.objective)) {
    refuse_part("algo.objective", objective_name(options.objective));
  }
  if (!is_rl(options.objective)) return;
  if (needs_selection(options.policy_loss.kind)) {
    refuse_part("algo.policy_loss", policy_loss_name(options.policy_loss.kind));
  }
  if (options.correction.batch_normalize) {
    refuse_part("algo.correction.batch_normalize", "true");
  }
}

void Trainer::Impl::check_all_gradients() const {
  if (!learner.state().shards().divides_gradients()) return;
  throw Error(Code::kUnsupported, str("parallel.zero_stage is ", options.optimizer.zero.stage,
                                      ", so no rank has all gradients of a batch"))
      .with_key("parallel.zero_stage")
      .with_expected("0 or 1");
}

void Trainer::Impl::begin_gradients(std::span<const TrainSample> samples,
                                    const LossDenominators& whole) {
  check_all_gradients();
  check_one_update(static_cast<int64_t>(samples.size()));
  check_divisible(whole);
  begin(samples);
  int64_t tokens = 0, sequences = 0;
  for (const PackItem& item : items) {
    tokens += item.wanted;
    sequences += item.wanted > 0;
  }
  require_count("step.total_tokens", whole.num_tokens, tokens);
  require_count("step.total_sequences", whole.num_sequences, sequences);
  progress.holds = true;
  progress.whole = whole;
  planned_steps = 1;
  non_finite.clear();
}

void Trainer::Impl::hold_gradients() {
  if (count_loss()) return;
  name_non_finite(progress.metrics);
  learner.state().spoil_gradients();
}

void Trainer::Impl::apply() {
  RL_CHECK(progress.holds && !progress.open);
  progress.applied = true;
  const bool part = progress.whole.num_tokens > 0 || progress.whole.num_sequences > 0;
  if (progress.metrics.minibatches == 0 && !part) return;  // as in a step without loss
  const PhaseTimer phase(context, "train.optimizer", progress.metrics.optimizer_ns);
  update_weights(true, progress.metrics);
}

}  // namespace rl
