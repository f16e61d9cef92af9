// Runs the reference only if the reward needs it; a KL in the loss is the trainer's.
#include "pipeline/update/batch_preparation.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "core/violations.h"
#include "data/sample_error.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/update/step_metrics.h"

namespace rl {

namespace {

// Options that were set to derive advantages from rewards: "key = value", by key.
std::map<std::string, std::string> options_of_rewards(const Settings& settings) {
  const OptionSet& options = settings.set;
  constexpr std::string_view kKeys[] = {"algo.adv", "algo.gamma", "algo.gdpo_weights",
                                        "algo.reward.", "algo.whiten"};
  std::map<std::string, std::string> set;
  for (size_t i = 0; i < option_count(); ++i) {
    const std::string key = option_at(i).key;
    const bool read =
        std::ranges::any_of(kKeys, [&](auto begin) { return key.starts_with(begin); });
    if (read && !options.is_default(key)) set[key] = str(key, " = ", options.get_text(key));
  }
  if (settings.algo.kl.where == AlgoKlWhere::kReward) {
    set["algo.kl.where"] = "algo.kl.where = reward";
  }
  return set;
}

}  // namespace

ScoredLists::ScoredLists(std::span<const SamplePtr> batch) : samples(batch) {
  for (const SamplePtr& s : batch) {
    scores.push_back(s->reward);
    parts.push_back(s->reward_parts);
    token_rewards.push_back(s->token_rewards);
  }
}

BatchPreparation::BatchPreparation(const Settings& settings) { set_options(settings); }

void BatchPreparation::set_options(const Settings& settings) {
  objective_ = settings.algo.objective;
  distill_coef_ = settings.algo.distill.coef;
  reads_rewards_ = settings.algo.distill.rewards;
  options_ = advantage_options_from(settings);
  beside_given_ = options_of_rewards(settings);
  greedy_slot_ = static_cast<uint32_t>(settings.pipeline.samples_per_prompt);
}

void PreparedBatch::count(TrainMetrics& metrics) const {
  metrics.reference_ns += reference_ns;
  completed.count(metrics);
}

namespace {

// First read of the arrays of a host's samples.
void check_samples(std::span<const SamplePtr> samples, const Trainer& trainer) {
  std::vector<TrainSample> train;
  for (const SamplePtr& s : samples) {
    train.push_back({s.get(), 0, {}, {}});
    // Stands in for the reference log-probs, which the trainer has not computed yet.
    if (s != nullptr) train.back().ref_logprobs = s->logprobs;
  }
  trainer.check(train);
}

using TokenValues = std::vector<std::vector<float>>;  // one per generated token of each sample
using Forward = FunctionRef<void(std::span<const Sample* const> samples,
                                 std::span<const std::span<float>> out)>;

TokenValues token_values(std::span<const SamplePtr> samples, Forward forward) {
  TokenValues values(samples.size());
  std::vector<const Sample*> inputs;
  std::vector<std::span<float>> out;
  for (size_t i = 0; i < samples.size(); ++i) {
    values[i].resize(static_cast<size_t>(samples[i]->generated()));
    inputs.push_back(samples[i].get());
    out.emplace_back(values[i]);
  }
  forward(inputs, out);
  return values;
}

TokenValues reference_logprobs(std::span<const SamplePtr> samples,
                               const BatchPreparation::Workers& workers) {
  RL_CHECK(workers.reference != nullptr);
  return token_values(samples, [&](auto inputs, auto out) {
    workers.trainer.logprobs(*workers.reference, inputs, out);
  });
}

TokenValues values_of(std::span<const SamplePtr> samples, Critic& critic) {
  return token_values(samples, [&](auto inputs, auto out) { critic.values(inputs, out); });
}

// Removes the rewards' part: the policy learns from the teacher alone.
void forget_rewards(BatchAdvantages& a) {
  std::ranges::fill(a.advantages, 0.0);
  std::ranges::fill(a.per_sample, 0.0);
  a.varies = false;
}

// Fills the policy's training samples.
void give_policy(std::span<const SamplePtr> samples, const BatchAdvantages& a, PreparedBatch& out) {
  out.token_advantages.assign(a.advantages.begin(), a.advantages.end());
  size_t at = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto count = static_cast<size_t>(a.lengths[i]);
    TrainSample s{samples[i].get(), a.per_sample[i], {}, {}, a.carries_loss[i] != 0};
    if (a.varies) s.token_advantages = std::span(out.token_advantages).subspan(at, count);
    out.train.push_back(s);
    at += count;
  }
}

// Fills the critic's samples, from values and the policy's samples already in out.
void give_critic(const BatchAdvantages& a, PreparedBatch& out) {
  out.returns.assign(a.returns.begin(), a.returns.end());
  size_t at = 0;
  for (size_t i = 0; i < out.train.size(); ++i) {
    const auto count = static_cast<size_t>(a.lengths[i]);
    const std::span<const float> returns = std::span(out.returns).subspan(at, count);
    out.critic.push_back({out.train[i].sample, out.values[i], returns, out.train[i].carries_loss});
    at += count;
  }
}

void set_teacher_metrics(const std::optional<TeacherRole::Measured>& measured,
                         MetricList& metrics) {
  if (!measured) return;
  metrics.set("actor/distill_kl", measured->kl);
  metrics.set("timing_s/teacher", static_cast<double>(measured->ns) * 1e-9);
}

double sum_of_trained(const Sample& sample, std::span<const double> token_rewards) {
  double sum = 0;
  for (size_t t = 0; t < token_rewards.size(); ++t) {
    if (sample.loss_mask[t] != 0) sum += token_rewards[t];
  }
  return sum;
}

[[noreturn]] void refuse_token_rewards(const Sample& sample, std::string what) {
  SampleError error(Code::kInvalidArgument, sample, std::move(what));
  error.key = error.field = "token_rewards";
  throw error;
}

// Token rewards of all samples, one after another; empty if no sample has any.
std::vector<double> flat_token_rewards(Advantage kind, std::span<const SamplePtr> samples,
                                       std::span<const std::vector<double>> given) {
  std::vector<double> flat;
  if (std::ranges::all_of(given, [](const auto& of) { return of.empty(); })) return flat;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto tokens = static_cast<size_t>(samples[i]->generated());
    const size_t count = given[i].size();
    if (count != 0 && kind != Advantage::kCustom && !has_token_rewards(kind)) {
      refuse_token_rewards(
          *samples[i],
          str(" has token rewards, but algo.advantage = ", advantage_name(kind), " reads none"));
    }
    if (count != 0 && count != tokens) {
      refuse_token_rewards(*samples[i],
                           str(" has ", count, " token rewards for ", tokens, " tokens"));
    }
    flat.insert(flat.end(), given[i].begin(), given[i].end());
    flat.resize(flat.size() + tokens - count);
  }
  return flat;
}

}  // namespace

struct BatchPreparation::Split {
  std::vector<SamplePtr> samples;
  std::vector<double> scores;
  std::vector<std::vector<double>> token_rewards;  // empty: none
  std::vector<GreedyResponse> greedy;              // one for each sample
};

BatchPreparation::Split BatchPreparation::split_greedy(std::span<const SamplePtr> samples,
                                                       const ScoredSamples& all) const {
  Split out;
  const std::span<const double> scores = all.scores;
  std::map<uint64_t, GreedyResponse> greedy;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i]->slot != greedy_slot_) continue;
    GreedyResponse response{samples[i].get(), scores[i]};
    if (!all.token_rewards.empty()) {
      response.token_rewards = sum_of_trained(*samples[i], all.token_rewards[i]);
    }
    greedy[samples[i]->ordinal] = response;
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i]->slot == greedy_slot_) continue;
    const auto found = greedy.find(samples[i]->ordinal);
    if (found == greedy.end()) {
      throw Error(
          Code::kFailedPrecondition,
          str(sample_name(*samples[i]),
              " has no greedy response in its group: algo.advantage = remax needs one in slot ",
              greedy_slot_))
          .with_key("algo.advantage");
    }
    out.samples.push_back(samples[i]);
    out.scores.push_back(scores[i]);
    if (!all.token_rewards.empty()) out.token_rewards.push_back(all.token_rewards[i]);
    out.greedy.push_back(found->second);
  }
  return out;
}

PreparedBatch BatchPreparation::prepare(const ScoredSamples& all, const Workers& workers) const {
  check_samples(all.samples, workers.trainer);
  if (!is_rl(objective_)) return prepare_responses(all.samples);
  PreparedBatch out;
  out.completed = complete_logprobs(all.samples, workers.trainer, workers.clock);
  Split split;
  std::span<const SamplePtr> samples = out.completed.samples;
  std::span<const double> scores = all.scores;
  std::span<const std::vector<double>> given = all.token_rewards;
  if (options_.estimator.kind == Advantage::kRemax) {
    split = split_greedy(samples, all);
    samples = split.samples;
    scores = split.scores;
    given = split.token_rewards;
  }
  ScoredBatch batch{samples, scores};
  const std::vector<double> token_rewards =
      flat_token_rewards(options_.estimator.kind, samples, given);
  batch.token_rewards = token_rewards;
  if (samples.size() == all.samples.size()) batch.parts = all.parts;
  batch.greedy = split.greedy;
  batch.kl_coef = workers.kl.value();
  batch.custom = workers.advantage;
  TokenValues reference;
  const int64_t start = workers.clock.now_ns();
  if (options_.kl_in_reward) reference = reference_logprobs(samples, workers);
  batch.ref_logprobs = reference;
  const int64_t scored = workers.clock.now_ns();
  if (workers.critic != nullptr) out.values = values_of(samples, *workers.critic);
  batch.values = out.values;
  const int64_t valued = workers.clock.now_ns();
  BatchAdvantages a = batch_advantages(options_, batch);
  if (!reads_rewards_) forget_rewards(a);
  const auto measured = apply_teacher(samples, workers, a);
  give_policy(samples, a, out);
  if (workers.critic != nullptr) give_critic(a, out);
  out.penalty_kl = a.kl;
  out.metrics = batch_metrics({samples, scores, a});
  if (workers.critic != nullptr) {
    out.metrics.append(value_metrics(a, out.values));
    out.metrics.set("timing_s/values", static_cast<double>(valued - scored) * 1e-9);
  }
  if (options_.kl_in_reward) {
    out.metrics.set("actor/reward_kl_penalty", a.kl);
    out.metrics.set("actor/reward_kl_penalty_coeff", workers.kl.value());
    out.reference_ns = scored - start;
  }
  set_teacher_metrics(measured, out.metrics);
  if (workers.kl.in_loss()) out.metrics.set("actor/kl_coef", workers.kl.value());
  out.metrics.set("timing_s/adv", static_cast<double>(workers.clock.now_ns() - valued) * 1e-9);
  return out;
}

std::optional<TeacherRole::Measured> BatchPreparation::apply_teacher(
    std::span<const SamplePtr> samples, const Workers& workers, BatchAdvantages& a) const {
  if (workers.teacher == nullptr) return std::nullopt;
  return workers.teacher->apply_teacher(samples, distill_coef_, a);
}

PreparedBatch BatchPreparation::prepare_responses(std::span<const SamplePtr> samples) const {
  PreparedBatch out;
  for (const SamplePtr& s : samples) out.train.push_back({s.get(), 0, {}, {}});
  out.metrics = length_metrics(samples);
  return out;
}

void BatchPreparation::refuse_beside_given() const {
  Violations violations;
  for (const auto& [key, setting] : beside_given_) {
    violations.add(Error(Code::kConflict,
                         str("advantages are given, but ", setting, " computes them from rewards"))
                       .with_key("step.advantages")
                       .with_other_key(key));
  }
  violations.throw_any();
}

PreparedBatch BatchPreparation::prepare_given(std::span<const SamplePtr> all,
                                              std::span<const double> scores,
                                              std::span<const double> advantages,
                                              const Workers& workers) const {
  check_samples(all, workers.trainer);
  if (options_.estimator.kind == Advantage::kGae) {
    throw Error(
        Code::kFailedPrecondition,
        "algo.advantage = gae trains a critic on returns, which given advantages do not include")
        .with_key("algo.advantage");
  }
  if (!reads_rewards_) {
    throw Error(Code::kConflict,
                "advantages are given, but algo.distill.rewards = false ignores them")
        .with_key("step.advantages")
        .with_other_key("algo.distill.rewards");
  }
  refuse_beside_given();
  PreparedBatch out;
  out.completed = complete_logprobs(all, workers.trainer, workers.clock);
  const std::span<const SamplePtr> samples = out.completed.samples;
  BatchAdvantages a = given_advantages(options_, {samples, scores}, advantages);
  const auto measured = apply_teacher(samples, workers, a);
  give_policy(samples, a, out);
  out.metrics = batch_metrics({samples, scores, a});
  set_teacher_metrics(measured, out.metrics);
  if (workers.kl.in_loss()) out.metrics.set("actor/kl_coef", workers.kl.value());
  return out;
}

}  // namespace rl
