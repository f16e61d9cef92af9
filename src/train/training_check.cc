// What a training step requires of its samples, checked before anything runs: limits from the
// options, one check after another. The checks of single fields are in sample_check.cc.
#include <algorithm>

#include "core/error.h"
#include "train/passes/pass_rules.h"
#include "train/trainer_impl.h"

namespace rl {
namespace {

std::vector<const Sample*> samples_of(std::span<const TrainSample> samples) {
  std::vector<const Sample*> out;
  for (const TrainSample& s : samples) out.push_back(s.sample);
  return out;
}

}  // namespace

void Trainer::Impl::check(std::span<const TrainSample> samples) const {
  SampleLimits training = training_limits(options, model);
  SampleLimits scoring = forward_limits(options, model, ForwardOf::kOwn);
  if (scores()) {
    training = with_last_row(training);
    scoring = with_last_row(scoring);
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const TrainSample& s = samples[i];
    if (s.sample == nullptr)
      throw Error(Code::kInvalidArgument, str("sample ", i, " of the step is null"));
    if (!s.carries_loss && is_pairs(options.objective)) {
      throw Error(Code::kInvalidArgument,
                  str(sample_name(*s.sample), " carries no loss, but is part of a pair"));
    }
    check_trainable(*s.sample, training);
    check_sequence(*s.sample, scoring);
    if (!s.token_advantages.empty())
      check_token_array(*s.sample, "token_advantages", s.token_advantages.size());
    if (!s.ref_logprobs.empty())
      check_token_array(*s.sample, "ref_logprobs", s.ref_logprobs.size());
    if (!options.needs_reference() || !s.ref_logprobs.empty()) continue;
    if (reference != nullptr) {
      check_sequence(*s.sample, forward_limits(options, *reference, ForwardOf::kReference));
    } else if (s.sample->generated() > 0) {
      throw Error(Code::kFailedPrecondition,
                  str("sample ", s.sample->id,
                      " has no reference log-probs, and the trainer has no reference model, but ",
                      options.kl_in_loss ? "algo.kl.where is loss" : "algo.objective is dpo"))
          .with_key("model.reference_path");
    }
  }
  if (is_pairs(options.objective)) check_pairs(options.objective, samples_of(samples));
}

void Trainer::Impl::check_step(std::span<const TrainSample> samples) const {
  learner.require_whole();
  require_custom_loss();
  require_row_teacher();
  check(samples);
  require_logprobs(samples);
}

// Without log-probs there is no ratio; responses from the data have none.
void Trainer::Impl::require_logprobs(std::span<const TrainSample> samples) const {
  if (!is_rl(options.objective)) return;
  for (const TrainSample& s : samples) {
    if (!lacks_logprobs(*s.sample)) continue;
    throw Error(Code::kFailedPrecondition, str(sample_name(*s.sample), " has no log-probs"))
        .with_key("logprobs");
  }
}

// Nothing has changed yet: this is found in a step's first minibatch, before its update.
void Trainer::Impl::refuse_logprob(const Sample& sample, int64_t generated, float computed) const {
  const auto g = static_cast<size_t>(generated);
  const int64_t position = sample.prompt_tokens + generated;
  const double allowed = logprob_bound(options.context, model.compute_dtype());
  throw Error(
      Code::kFailedPrecondition,
      str(sample_name(sample), ": the log-prob of the token at position ", position,
          " (generated token ", generated, ", id ", sample.ids[static_cast<size_t>(position)],
          ") is ", sample.logprobs[g], ", but the trainer computes ", computed,
          " with the same weights, version ", sample.versions[g],
          allowed > 0 ? str(", beyond the ", allowed, " of parallel.context_kind = ring") : "",
          "; samples of another engine may differ in bits: trainer.check_logprobs = false accepts "
          "them"))
      .with_key("trainer.check_logprobs")
      .with_location(str("position ", position));
}

}  // namespace rl
