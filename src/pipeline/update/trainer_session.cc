// A step holds the write lease of the weights; log-probs only compute. With two compute copies a
// step leaves the published one unchanged, so engines may compute between its micro-batches, and
// publishing is one store.
#include "pipeline/update/trainer_session.h"

#include <algorithm>
#include <numeric>

#include "core/clock.h"
#include "core/error.h"
#include "core/violations.h"
#include "data/sample_error.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/session/device_tensors.h"
#include "pipeline/session/run_rules.h"
#include "pipeline/update/step_metrics.h"
#include "pipeline/update/trainer_session_impl.h"
#include "train/passes/output_tensor.h"

namespace rl {

TrainerSession::TrainerSession(std::shared_ptr<LoadedModel> model, const Settings& settings)
    : model_(std::move(model)) {
  Runtime& runtime = model_->runtime();
  const MemoryPlan plan = model_->plan_session(settings, PlanUse::kTrain);
  const uint64_t others = model_->model().arena_bytes() + plan.arena_bytes_of_role(kRolloutRole) +
                          plan.bytes_of("matmul workspace") + plan.bytes_of("engine workspace");
  with_knobs(plan, [&] {
    require_room(runtime, "the trainer", plan.device_bytes() - others, plan.baseline_bytes);
    const ComputeLease lease(runtime, "making a trainer");
    impl_ = std::make_unique<Impl>(*model_, settings, plan);
  });
}

TrainerSession::~TrainerSession() = default;

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

// A batch in training order. Without advantages the list of them is empty.
struct OrderedBatch {
  OrderedBatch(std::span<const SamplePtr> given, std::span<const SampleRewards> rewards,
               const std::optional<std::span<const double>>& given_advantages) {
    for (const size_t i : batch_order(given)) {
      samples.push_back(given[i]);
      scores.push_back(rewards[i].reward);
      parts.push_back(rewards[i].parts);
      token_rewards.push_back(rewards[i].token_rewards);
      if (!rewards[i].scored && unscored == nullptr) unscored = given[i].get();
      if (given_advantages) advantages.push_back((*given_advantages)[i]);
    }
  }
  ScoredSamples scored() const { return {samples, scores, parts, token_rewards}; }
  void require_scores(Objective objective) const {
    if (unscored == nullptr || !is_rl(objective)) return;
    SampleError error(Code::kFailedPrecondition, *unscored, " of the batch is not scored");
    error.field = "scored";
    throw error;
  }

  std::vector<SamplePtr> samples;
  std::vector<double> scores, advantages;
  std::vector<std::vector<double>> parts, token_rewards;
  const Sample* unscored = nullptr;  // the first one
};

void check_given(Objective objective, size_t num_samples, std::span<const double> advantages) {
  if (!is_rl(objective)) {
    throw Error(Code::kConflict, str("advantages are given, but algo.objective = ",
                                     objective_name(objective), " ignores them"))
        .with_key("step.advantages")
        .with_other_key("algo.objective");
  }
  if (num_samples == advantages.size()) return;
  throw Error(Code::kInvalidArgument,
              str(advantages.size(), " advantages for ", num_samples, " samples"))
      .with_key("step.advantages");
}

std::vector<SampleRewards> own_rewards(std::span<const SamplePtr> samples) {
  std::vector<SampleRewards> out;
  for (const SamplePtr& s : samples) out.push_back(rewards_of(*s));
  return out;
}

TensorPtr critic_values(Critic& critic, const Model& model, const ForwardRequest& request) {
  const std::vector<const Sample*> inputs = inputs_of(request);
  int64_t count = 0;
  for (const Sample* s : inputs) count += s->generated();
  const OwnedTensor out = make_output(model, ElementType::kF32, {count});
  auto* at = reinterpret_cast<float*>(out.data);
  std::vector<std::span<float>> outs;
  for (const Sample* s : inputs) {
    outs.emplace_back(at, static_cast<size_t>(s->generated()));
    at += s->generated();
  }
  critic.values(inputs, outs);
  return out.tensor;
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
  const OrderedBatch batch(samples, rewards, {});
  batch.require_scores(impl_->objective);
  return update([&] { impl_->update.begin(batch.scored(), impl_->steps); });
}

TrainedStep TrainerSession::step_with_advantages(std::span<const SamplePtr> samples,
                                                 std::span<const SampleRewards> rewards,
                                                 std::span<const double> advantages) {
  check_samples(samples);
  RL_CHECK(rewards.size() == samples.size());
  check_given(impl_->objective, samples.size(), advantages);
  const OrderedBatch batch(samples, rewards, advantages);
  return update([&] {
    impl_->update.begin_given(batch.samples, batch.scores, batch.advantages, impl_->steps);
  });
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

void TrainerSession::set_queue(std::shared_ptr<EventQueue> queue, uint64_t source) {
  impl_->events.set_queue(std::move(queue), source);
}

OptionSet TrainerSession::options() const {
  const std::lock_guard lock(impl_->options_mutex);
  return impl_->options;
}

void TrainerSession::run_update(FunctionRef<void()> begin) {
  PolicyUpdate& update = impl_->update;
  begin();
  do {
    if (!impl_->cancel.cancelled() || !update.has_steps_left()) continue;
    const bool unchanged = update.abandon();
    const char* const weights = !unchanged
                                    ? "between two optimizer steps: the model is half-trained"
                                : update.has_backup() ? "and undone"
                                                      : "before any weight changed";
    throw Error(Code::kCancelled, str("the training step was cancelled ", weights));
  } while (update.next());
}

TrainedStep TrainerSession::update(FunctionRef<void()> begin) {
  const Turn turn(*this, "a training step", model_->compute_sharing(), &impl_->cancel);
  const LoadedModel::WriteLease write(*model_, model_->runtime().busy_timeout_ns());
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  const Publication publication(*this);
  run_update(begin);
  return finished(impl_->update.finish());
}

// Gradients do not change the weights, so engines may have requests on them.
void TrainerSession::backward(const Part& part) {
  check_samples(part.samples);
  RL_CHECK(part.rewards.size() == part.samples.size());
  if (part.advantages) check_given(impl_->objective, part.samples.size(), *part.advantages);
  const OrderedBatch batch(part.samples, part.rewards, part.advantages);
  if (!part.advantages) batch.require_scores(impl_->objective);
  GradientBatch gradients{batch.scored(), {}, part.whole};
  if (part.advantages) gradients.advantages = batch.advantages;
  const Turn turn(*this, "gradients", model_->compute_sharing(), &impl_->cancel);
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  model_->with_steady_weights([&] {
    impl_->host_gradients.forget();
    run_update([&] { impl_->update.begin_gradients(gradients); });
    impl_->update.hold();
  });
}

void TrainerSession::require_awake() const {
  if (!impl_->asleep) return;
  throw Error(Code::kFailedPrecondition, "the trainer is asleep; wake it first")
      .with_expected("rl_trainer_wake");
}

void TrainerSession::sleep() {
  const std::lock_guard calls(computing_);
  const ComputeLease lease(model_->runtime(), "putting a trainer to sleep");
  const std::lock_guard lock(mutex_);
  if (impl_->asleep) return;
  impl_->update.sleep();
  impl_->workspace.decommit();
  impl_->asleep = true;
}

void TrainerSession::wake() {
  const std::lock_guard calls(computing_);
  const ComputeLease lease(model_->runtime(), "waking a trainer");
  const std::lock_guard lock(mutex_);
  if (!impl_->asleep) return;
  impl_->workspace.commit();
  impl_->update.wake();
  impl_->asleep = false;
}

TrainedStep TrainerSession::apply() {
  {
    const std::lock_guard lock(mutex_);
    require_awake();
    impl_->update.require_held();
  }
  const Turn turn(*this, "a training step", model_->compute_sharing());
  const LoadedModel::WriteLease write(*model_, model_->runtime().busy_timeout_ns());
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  const Publication publication(*this);
  impl_->host_gradients.write_back(impl_->update.held());
  return finished(impl_->update.apply());
}

TensorPtr TrainerSession::gradient(const std::shared_ptr<TrainerSession>& trainer,
                                   std::string_view name) {
  const std::lock_guard lock(trainer->mutex_);
  return trainer->gradient_locked(name, trainer);
}

// A copy is of whatever will be applied, and binds nobody to one memory.
TensorPtr TrainerSession::copy_gradient(std::string_view name) {
  const std::lock_guard lock(mutex_);
  require_awake();
  const std::shared_ptr<MemorySource> memory = model_->runtime().ledger().memory();
  const DeviceFloats held = impl_->update.held().held_gradients();
  if (held.empty() || held.is_host_memory() || impl_->host_gradients.has_copy()) {
    return copy_of(*gradient_locked(name, nullptr), memory);
  }
  return in_host(model_->runtime().compute(), gradient_on_device(held, name, nullptr), memory);
}

TensorPtr TrainerSession::gradient_on_device(const DeviceFloats& held, std::string_view name,
                                             std::shared_ptr<const void> owner) const {
  Tensor::Description wanted = gradient_at({held.data(), static_cast<size_t>(held.count())}, name);
  wanted.owner = std::move(owner);
  return device_tensor(model_->shared_runtime(), std::move(wanted));
}

TensorPtr TrainerSession::device_gradient(const std::shared_ptr<TrainerSession>& trainer,
                                          std::string_view name, bool copied, void* stream) {
  const std::lock_guard lock(trainer->mutex_);
  trainer->require_awake();
  Impl& impl = *trainer->impl_;
  const DeviceFloats held = impl.update.held().held_gradients();
  if (held.empty()) {
    throw Error(Code::kFailedPrecondition,
                "gradients in bf16 are handed out as fp32 in the host's memory")
        .with_key("trainer.grad_dtype");
  }
  if (!copied) {
    TensorPtr lent = trainer->gradient_on_device(held, name, trainer);
    lent->order()->lead(stream);
    impl.host_gradients.lend();
    return lent;
  }
  const TensorPtr applied = impl.host_gradients.has_copy()
                                ? trainer->gradient_locked(name, nullptr)
                                : trainer->gradient_on_device(held, name, nullptr);
  TensorPtr copy = copy_on_device(trainer->model_->shared_runtime(), *applied);
  copy->order()->lead(stream);
  return copy;
}

TensorPtr TrainerSession::gradient_locked(std::string_view name,
                                          std::shared_ptr<const void> owner) {
  require_awake();
  Trainer& held = impl_->update.held();
  if (!name.empty()) trained_parameter(name);  // before the view counts as handed out
  Tensor::Description wanted = gradient_at(impl_->host_gradients.view(held), name);
  wanted.owner = std::move(owner);
  return std::make_shared<const Tensor>(std::move(wanted));
}

Tensor::Description TrainerSession::gradient_at(std::span<float> all, std::string_view name) const {
  Tensor::Description whole{
      .data = all.data(), .type = ElementType::kF32, .shape = {static_cast<int64_t>(all.size())}};
  if (name.empty()) return whole;
  const Parameter& p = trained_parameter(name);
  whole.data = all.data() + p.gradient;
  whole.shape = p.shape;
  return whole;
}

const Parameter& TrainerSession::trained_parameter(std::string_view name) const {
  std::vector<std::string> names;
  for (const Parameter& p : impl_->update.trainer().layout().parameters()) {
    if (!p.trainable()) continue;
    if (p.name == name) return p;
    names.push_back(p.name);
  }
  throw Error(Code::kNotFound, str("no weight \"", name, "\" is trained"))
      .with_key("name")
      .with_nearest(nearest_names(name, std::move(names)));
}

// What shaped runtime and model is fixed at creation, so it needs no check here.
void TrainerSession::set_options(const Settings& settings) {
  const std::lock_guard lock(mutex_);
  Violations violations;
  violations.add(settings.set.validate_all());
  if (violations.empty()) violations.add(update_violations(settings));
  const Device& device = model_->runtime().compute().device();
  violations.add(plan_violations(settings, model_->config(), PlanUse::kTrain, device));
  violations.add(session_violations(settings.set, "a trainer"));
  for (const std::string& key : impl_->settings.set.diff(settings.set)) {
    violations.collect([&] { require_changeable(require_option(key), OptionWhen::kBetweenSteps); });
  }
  violations.throw_any();
  impl_->update.set_options(settings);
  impl_->settings = settings;
  {
    const std::lock_guard shared(impl_->options_mutex);
    impl_->options = settings.set;
  }
  model_->runtime().logger().set_level(settings.runtime.log_level);
}

void TrainerSession::cancel() {
  impl_->cancel.cancel();
  model_->runtime().compute_queue().note_given_up();
}

TrainedStep TrainerSession::finished(UpdateResult result) {
  ++impl_->steps;
  impl_->trained_version = model_->model().trained_version();
  TrainedStep out{std::move(result.metrics), impl_->steps, impl_->trained_version};
  out.append(train_metrics(result.trained));
  impl_->events.send<StepEvent>([&](StepEvent& event) {
    event.step = out.step;
    event.version = out.version;
    event.metrics = out;
  });
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
  const auto sample = std::make_shared<Sample>();
  sample->ids.assign(ids.begin(), ids.end());
  sample->prompt_tokens = 1;
  const SamplePtr input = sample;
  return forward({ForwardOutput::kHidden, {&input, 1}});
}

TensorPtr TrainerSession::forward(const ForwardRequest& request) {
  const Turn turn(*this, "a forward");
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  Critic* const critic = impl_->update.trained_critic();
  if (request.output == ForwardOutput::kValues && critic != nullptr) {
    return critic_values(*critic, model_->model(), request);
  }
  return compute_output(impl_->update.trainer().forward_pass(), model_->model(), request);
}

std::optional<uint64_t> TrainerSession::publish_packed() {
  const Publication publication(*this);
  return model_->publish_packed([&] { return impl_->update.trainer().publish(); });
}

// Waits for other trainers of the model without a lock.
uint64_t TrainerSession::publish() {
  const int64_t begin_ns = real_clock().now_ns(), busy_ns = model_->runtime().busy_timeout_ns();
  for (bool tried = false; !tried;) {
    try {
      const std::lock_guard lock(mutex_);
      if (const auto version = publish_packed()) return *version;
      tried = true;
    } catch (const Error& e) {
      const int64_t left_ns = std::max(busy_ns - (real_clock().now_ns() - begin_ns), int64_t{0});
      if (e.code != Code::kBusy || !model_->await_trained(left_ns)) throw;
    }
  }
  const Turn turn(*this, "publishing a half-trained model");
  if (const auto version = publish_packed()) return *version;  // whole meanwhile
  const Publication publication(*this);
  const LoadedModel::WriteLease write(*model_, busy_ns);
  return impl_->update.trainer().publish_masters();
}

uint64_t TrainerSession::trained_version() const {
  const std::lock_guard lock(mutex_);
  return impl_->trained_version;
}

}  // namespace rl
