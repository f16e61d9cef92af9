// A step holds the write lease of the weights; log-probs only compute. With two compute copies a
// step leaves the published one unchanged, so engines may compute between its micro-batches, and
// publishing is one store.
#include "pipeline/update/trainer_session.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/update/policy_update.h"
#include "pipeline/update/step_metrics.h"

namespace rl {

struct TrainerSession::Impl {
  Impl(LoadedModel& model, const Settings& settings, const MemoryPlan& plan)
      : objective(settings.algo.objective),
        workspace("training workspace", plan.train_workspace_bytes, Touch::kNow,
                  &model.runtime().ledger()),
        update(model, settings, plan, workspace.data()) {}

  const Objective objective;
  Arena workspace;
  PolicyUpdate update;
  uint64_t steps = 0;            // steps done
  uint64_t trained_version = 0;  // after the last of them
};

TrainerSession::TrainerSession(std::shared_ptr<LoadedModel> model, const Settings& settings)
    : model_(std::move(model)) {
  Runtime& runtime = model_->runtime();
  const MemoryPlan plan = model_->plan_session(settings, PlanUse::kTrain);
  const uint64_t others = model_->model().arena_bytes() + plan.bytes_of("matmul workspace") +
                          plan.bytes_of("engine workspace");
  require_room(runtime, "the trainer", plan.arena_bytes - others, plan.baseline_bytes);
  const ComputeLease lease(runtime, "making a trainer");
  impl_ = std::make_unique<Impl>(*model_, settings, plan);
}

TrainerSession::~TrainerSession() = default;

// The turn of a call that computes.
class TrainerSession::Turn {
 public:
  Turn(TrainerSession& trainer, const char* what, ComputeSharing sharing = ComputeSharing::kAlone)
      : calls_(trainer.computing_),
        compute_(trainer.model_->runtime(), what, sharing, trainer.model_.get()),
        state_(trainer.mutex_) {}

 private:
  const std::lock_guard<std::mutex> calls_;
  const ComputeLease compute_;
  const std::lock_guard<std::mutex> state_;
};

namespace {

// Indices of samples in (ordinal, slot) order.
std::vector<size_t> batch_order(std::span<const SamplePtr> samples) {
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Sample &x = *samples[a], &y = *samples[b];
    return x.ordinal != y.ordinal ? x.ordinal < y.ordinal : x.slot < y.slot;
  });
  return order;
}

std::vector<SampleRewards> own_rewards(std::span<const SamplePtr> samples) {
  std::vector<SampleRewards> out;
  for (const SamplePtr& s : samples) out.push_back(rewards_of(*s));
  return out;
}

void check_samples(std::span<const SamplePtr> samples) {
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] != nullptr) continue;
    throw Error(Code::kInvalidArgument, str("sample ", i, " of the batch is null"));
  }
}

}  // namespace

TrainedStep TrainerSession::step(std::span<const SamplePtr> samples) {
  check_samples(samples);
  return step(samples, own_rewards(samples));
}

TrainedStep TrainerSession::step_with_advantages(std::span<const SamplePtr> samples,
                                                 std::span<const double> advantages) {
  check_samples(samples);
  return step_with_advantages(samples, own_rewards(samples), advantages);
}

TrainedStep TrainerSession::step(std::span<const SamplePtr> samples,
                                 std::span<const SampleRewards> rewards) {
  check_samples(samples);
  RL_CHECK(rewards.size() == samples.size());
  std::vector<SamplePtr> batch;
  std::vector<double> scores;
  std::vector<std::vector<double>> parts;
  for (const size_t i : batch_order(samples)) {
    if (!rewards[i].scored && is_rl(impl_->objective)) {
      throw Error(Code::kFailedPrecondition,
                  str("sample ", samples[i]->id, " of the batch is not scored"));
    }
    batch.push_back(samples[i]);
    scores.push_back(rewards[i].reward);
    parts.push_back(rewards[i].parts);
  }
  return update([&] { impl_->update.begin({batch, scores, parts}, impl_->steps); });
}

TrainedStep TrainerSession::step_with_advantages(std::span<const SamplePtr> samples,
                                                 std::span<const SampleRewards> rewards,
                                                 std::span<const double> advantages) {
  check_samples(samples);
  RL_CHECK(rewards.size() == samples.size());
  if (!is_rl(impl_->objective)) {
    throw Error(Code::kConflict, str("advantages are given, but algo.objective = ",
                                     objective_name(impl_->objective), " ignores them"))
        .with_key("advantages")
        .with_other_key("algo.objective");
  }
  if (samples.size() != advantages.size()) {
    throw Error(Code::kInvalidArgument,
                str(advantages.size(), " advantages for ", samples.size(), " samples"))
        .with_key("advantages");
  }
  std::vector<SamplePtr> batch;
  std::vector<double> ordered, scores;
  for (const size_t i : batch_order(samples)) {
    batch.push_back(samples[i]);
    ordered.push_back(advantages[i]);
    scores.push_back(rewards[i].reward);
  }
  return update([&] { impl_->update.begin_given(batch, scores, ordered, impl_->steps); });
}

// The previous function is destroyed with the parameter, after unlocking: it may call back.
void TrainerSession::set_custom_advantage(CustomAdvantage advantage) {
  const std::lock_guard lock(mutex_);
  impl_->update.swap_custom_advantage(advantage);
}

void TrainerSession::set_custom_loss(CustomLoss loss) {
  const std::lock_guard lock(mutex_);
  impl_->update.swap_custom_loss(loss);
}

TrainedStep TrainerSession::update(FunctionRef<void()> begin) {
  const Turn turn(*this, "a training step", model_->compute_sharing());
  const LoadedModel::WriteLease write(*model_, model_->runtime().busy_timeout_ns());
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  begin();
  while (impl_->update.next()) {
  }
  UpdateResult result = impl_->update.finish();
  ++impl_->steps;
  impl_->trained_version = model_->model().trained_version();
  TrainedStep out{std::move(result.metrics), impl_->steps, impl_->trained_version};
  out.append(train_metrics(result.trained));
  return out;
}

void TrainerSession::require_scores(bool wanted, const char* what) const {
  if ((impl_->objective == Objective::kRewardModel) == wanted) return;
  throw Error(Code::kFailedPrecondition, str("algo.objective is ", objective_name(impl_->objective),
                                             ": the trained model has no ", what))
      .with_key("algo.objective");
}

std::vector<float> TrainerSession::scores(std::span<const SamplePtr> samples) {
  require_scores(true, "scores");
  check_samples(samples);
  std::vector<const Sample*> inputs;
  for (const SamplePtr& s : samples) inputs.push_back(s.get());
  std::vector<float> out(inputs.size());
  const Turn turn(*this, "scores");
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  impl_->update.trainer().scores(inputs, out);
  return out;
}

std::vector<float> TrainerSession::logprobs(std::span<const SamplePtr> samples) {
  require_scores(false, "log-probs");
  check_samples(samples);
  size_t tokens = 0;
  for (const SamplePtr& s : samples) tokens += static_cast<size_t>(s->generated());
  std::vector<float> all(tokens);
  std::vector<const Sample*> inputs;
  std::vector<std::span<float>> outs;
  for (size_t at = 0; const SamplePtr& s : samples) {
    inputs.push_back(s.get());
    outs.push_back(std::span(all).subspan(at, static_cast<size_t>(s->generated())));
    at += outs.back().size();
  }
  const Turn turn(*this, "log-probs");
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  impl_->update.trainer().logprobs(model_->model(), inputs, outs);
  return all;
}

std::vector<float> TrainerSession::logprobs(std::span<const int32_t> ids, int64_t prompt_tokens,
                                            float temperature) {
  if (prompt_tokens < 1 || prompt_tokens > static_cast<int64_t>(ids.size())) {
    throw Error(Code::kOutOfRange,
                str("prompt_tokens is ", prompt_tokens, " of ", ids.size(), " ids"))
        .with_key("prompt_tokens")
        .with_expected(str("1..", ids.size()));
  }
  const auto sample = std::make_shared<Sample>();
  sample->ids.assign(ids.begin(), ids.end());
  sample->prompt_tokens = static_cast<int32_t>(prompt_tokens);
  sample->temperature = temperature;
  return logprobs({{sample}});
}

// The policy's write lease is held while either of them trains.
void TrainerSession::save_critic(const std::string& dir, Dtype dtype, bool replace_existing) const {
  impl_->update.save_critic(dir, dtype, replace_existing);
}

TensorPtr TrainerSession::hidden(std::span<const int32_t> ids) {
  Sample sample;
  sample.ids.assign(ids.begin(), ids.end());
  sample.prompt_tokens = 1;
  const Turn turn(*this, "hidden states");
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  return impl_->update.trainer().hidden(sample);
}

uint64_t TrainerSession::publish() {
  const auto publish = [&] { return impl_->update.trainer().publish(); };
  {
    const std::lock_guard lock(mutex_);
    if (const auto version = model_->publish_packed(publish)) return *version;
  }
  const Turn turn(*this, "publishing a half-trained model");
  if (const auto version = model_->publish_packed(publish)) return *version;  // whole meanwhile
  const LoadedModel::WriteLease write(*model_, model_->runtime().busy_timeout_ns());
  return impl_->update.trainer().publish_masters();
}

uint64_t TrainerSession::trained_version() const {
  const std::lock_guard lock(mutex_);
  return impl_->trained_version;
}

}  // namespace rl
