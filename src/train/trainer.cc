// Construction, the memory plan and the interface; the step itself is in training_step.cc.
#include "train/trainer.h"

#include <tuple>

#include "core/error.h"
#include "model/whole_tensors.h"
#include "ops/compute.h"
#include "train/critic.h"
#include "train/optimizer/learner_checkpoint.h"
#include "train/trainer_impl.h"

namespace rl {
namespace {

TrainerOptions validated(const TrainerOptions& options) {
  validate(options);
  return options;
}

void require_same_shape(const Model& model, const Model& reference) {
  const ModelConfig &a = model.config(), &b = reference.config();
  const auto sizes = [](const ModelConfig& c) {
    return std::tuple(c.vocab, c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim, c.ffn,
                      c.own_layers);
  };
  if (sizes(a) == sizes(b) && model.compute_dtype() == reference.compute_dtype() &&
      model.kv_shape().block_bytes() == reference.kv_shape().block_bytes()) {
    return;
  }
  throw Error(Code::kIncompatible,
              str("the reference model (hidden ", b.hidden, ", layers ", b.layers, ", vocab ",
                  b.vocab, ") does not have the shape of the trained model (hidden ", a.hidden,
                  ", layers ", a.layers, ", vocab ", a.vocab, ")"))
      .with_key("model.reference_path");
}

}  // namespace

Trainer::Impl::Impl(Model& model, const Model* reference, const TrainerOptions& options,
                    std::byte* workspace, const TrainerTools& tools)
    : model(model),
      reference(reference),
      options(validated(options)),
      context{tools.tracer, tools.lane, tools.clock, tools.yield_point},
      ranks(tools.ranks.divided_by(tools.context.size())),
      context_ranks(tools.context),
      stages(model.stage_ranks()),
      workspace(shape_of(model), options, workspace, tools.host_workspace),
      learner(model, options.trainable, options.backward_packing, options.optimizer,
              {tools.gradients, tools.ranks}),
      pass(this->workspace, context) {
  RL_CHECK(reinterpret_cast<uintptr_t>(workspace) % ArenaPlan::kAlignment == 0);
  RL_CHECK(model.config().scalar_head == scores());
  RL_CHECK(this->options.context.ranks == context_ranks.size());
  if (reference != nullptr) require_same_shape(model, *reference);
}

TrainerSizes Trainer::plan(const ModelConfig& config, const KvShape& kv,
                           const TrainerOptions& options, int num_threads, const Device& device) {
  validate(options);
  return plan_learner({config, kv, num_threads, device}, options);
}

StoredBytes Trainer::stored_bytes(const ModelConfig& config, const StepOptions& options) {
  return rl::stored_bytes(WeightLayout(config, options.trainable), options.optimizer);
}

Trainer::Trainer(Model& model, const Model* reference, const TrainerOptions& options,
                 std::byte* workspace, const TrainerTools& tools)
    : impl_(std::make_unique<Impl>(model, reference, options, workspace, tools)) {}
Trainer::~Trainer() = default;

TrainMetrics Trainer::step(std::span<const TrainSample> samples) {
  TrainMetrics metrics = impl_->train(samples);
  publish(metrics);
  return metrics;
}

void Trainer::publish(TrainMetrics& step) {
  impl_->publish(step.publish_ns);
  step.total_ns += step.publish_ns;
}

void Trainer::check(std::span<const TrainSample> samples) const { impl_->check(samples); }

TrainMetrics Trainer::train(std::span<const TrainSample> samples) { return impl_->train(samples); }
void Trainer::begin(std::span<const TrainSample> samples) { impl_->begin(samples); }
bool Trainer::next() { return impl_->next(); }
void Trainer::begin_gradients(std::span<const TrainSample> samples, const LossDenominators& whole) {
  impl_->begin_gradients(samples, whole);
}
DeviceFloats Trainer::held_gradients() { return impl_->learner.state().gradients(); }
void Trainer::read_gradients(std::span<float> to) { impl_->learner.state().read_gradients(to); }
void Trainer::write_gradients(std::span<const float> from) {
  impl_->learner.state().write_gradients(from);
}
void Trainer::apply() { impl_->apply(); }
TrainMetrics Trainer::finish() { return impl_->finish(); }
void Trainer::sleep(bool holds) { impl_->learner.sleep(holds); }
void Trainer::wake() { impl_->learner.wake(); }
void Trainer::set_reference(const Model& reference) {
  require_same_shape(impl_->model, reference);
  impl_->reference = &reference;
}
bool Trainer::has_steps_left() const { return impl_->has_steps_left(); }
bool Trainer::abandon() { return impl_->abandon(); }
void Trainer::refuse() { impl_->ranks.refuse(); }

void Trainer::Impl::require_custom_loss() const {
  if (options.policy_loss.kind != PolicyLoss::kCustom || custom_loss) return;
  throw Error(Code::kFailedPrecondition,
              "algo.policy_loss = custom, but no loss function has been set")
      .with_key("algo.policy_loss");
}

void Trainer::Impl::require_row_teacher() const {
  if (!options.distill.on_rows || teacher != nullptr) return;
  throw Error(Code::kFailedPrecondition,
              str("algo.distill.kl = ", distill_kl_name(options.distill.params.kind),
                  ", but no teacher has been set"))
      .with_key("algo.distill.kl")
      .with_other_key("model.teacher_path");
}

uint64_t Trainer::publish() {
  impl_->learner.require_whole();
  int64_t ns = 0;
  return impl_->publish(ns);
}

uint64_t Trainer::publish_masters() {
  impl_->learner.require_whole();
  return impl_->learner.publish_masters();
}

int64_t Trainer::planned_steps() const { return impl_->planned_steps; }

void Trainer::exchange_averages() { impl_->learner.exchange_averages(); }
void Trainer::copy_averages(Model& to) { impl_->learner.copy_averages(to); }
bool Trainer::keeps_averages() const { return impl_->learner.keeps_averages(); }

void Trainer::stage() { impl_->learner.stage(); }

void Trainer::logprobs(const Model& model, std::span<const Sample* const> samples,
                       std::span<const std::span<float>> out) {
  if (&model != &impl_->model && &model != impl_->reference) {
    throw Error(Code::kInvalidArgument,
                "log-probs can only be computed with the trainer's own model or its reference");
  }
  if (out.size() != samples.size()) {
    throw Error(Code::kInvalidArgument,
                str("out has ", out.size(), " spans, expected ", samples.size()));
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    check_sequence(*samples[i], forward_limits(impl_->options, model, impl_->forward_of(model)));
    check_token_array(*samples[i], "out", out[i].size());
  }
  impl_->logprobs(model, samples, out);
}

void Trainer::logprobs(std::span<const Sample* const> samples,
                       std::span<const std::span<float>> out) {
  logprobs(impl_->model, samples, out);
}

void Trainer::scores(std::span<const Sample* const> samples, std::span<float> out) {
  RL_CHECK(impl_->scores() && out.size() == samples.size());
  std::vector<PackItem> all;
  for (const Sample* s : samples) {
    check_sequence(*s,
                   with_last_row(forward_limits(impl_->options, impl_->model, ForwardOf::kOwn)));
    const auto index = static_cast<int32_t>(all.size());
    all.push_back(make_pack_item(*s, index, WantedTokens::kLast));
  }
  impl_->score_values(all,
                      [&](int32_t item, float value) { out[static_cast<size_t>(item)] = value; });
}

ForwardPass Trainer::forward_pass() {
  impl_->learner.stage();
  return {impl_->model, impl_->options, impl_->workspace.scoring};
}

uint64_t Trainer::trained_version() const {
  return impl_->model.version() + (impl_->learner.unpublished() ? 1 : 0);
}

const TrainerOptions& Trainer::options() const { return impl_->options; }

const WeightLayout& Trainer::layout() const { return impl_->learner.layout(); }

std::vector<std::span<std::byte>> Trainer::memory() const { return impl_->learner.memory(); }

void Trainer::set_options(const TrainerOptions& options) {
  validate(options);
  require_same_sizes(impl_->options, options);
  impl_->options = options;
}

void Trainer::set_custom_loss(CustomLoss loss) { impl_->custom_loss = std::move(loss); }

void Trainer::set_row_teacher(RowTeacher* teacher) {
  const Model& own = impl_->model;
  RL_CHECK(teacher == nullptr || (teacher->model().config().vocab == own.config().vocab &&
                                  teacher->model().block_size() == own.block_size() &&
                                  teacher->model().compute_dtype() == own.compute_dtype()));
  impl_->teacher = teacher;
}

TrainerCounters Trainer::counters() const { return impl_->learner.counters(); }

std::span<const float> Trainer::gradients() const {
  return impl_->learner.state().gradients().in_host();
}

namespace {

std::vector<Learner*> learners_of(Learner& policy, Critic* critic) {
  std::vector<Learner*> all = {&policy};
  if (critic != nullptr) all.push_back(&critic->learner());
  return all;
}

// Of the ranks that divide the model the first one does.
bool writes_checkpoint(const Model& model) {
  return model.tensor_ranks().rank() == 0 && model.stage_ranks().rank() == 0;
}

}  // namespace

CheckpointDraft Trainer::draft(const CheckpointMeta& meta, Critic* critic) {
  CheckpointDraft draft = draft_learners(meta, learners_of(impl_->learner, critic));
  if (has_states_in_parts()) share_draft(impl_->ranks, writes_checkpoint(impl_->model), draft);
  return draft;
}

bool Trainer::has_states_in_parts() const { return impl_->learner.state().shards().divided(); }

bool Trainer::packs_together() const { return impl_->learner.state().shards().divides_masters(); }

void Trainer::call_off_checkpoint() { announce_checkpoint(impl_->ranks, false); }

void Trainer::give_states(const CheckpointContents& contents, Critic* critic) {
  CheckpointMeta meta;
  meta.contents = contents;
  meta.contents.hf_model = false;
  const bool divides = impl_->learner.state().shards().divides_masters();
  if (!divides) meta.contents.model = false;  // rank 0 has all weights
  run_together(impl_->ranks, [&] {
    if (!impl_->ranks.in_first_group()) {  // the first one has all that is saved
      announce_checkpoint(impl_->ranks, false);
      return;
    }
    const CheckpointDraft draft = draft_learners(meta, learners_of(impl_->learner, critic));
    give_draft(impl_->ranks, writes_checkpoint(impl_->model), draft, [&] {
      if (!divides || !contents.hf_model) return;
      const WholeTensors given(impl_->model);
    });
  });
}

void Trainer::back_up(WeightsBackup& backup, Critic* critic) {
  back_up_learners(backup, learners_of(impl_->learner, critic));
}

void Trainer::restore(const WeightsBackup& backup, Critic* critic) {
  restore_learners(backup, learners_of(impl_->learner, critic));
}

std::string Trainer::save(FileSystem& fs, const std::string& dir, const CheckpointMeta& meta,
                          const CheckpointRules& rules, Critic* critic) {
  const CheckpointDraft made = draft(meta, critic);
  if (!writes_checkpoint(impl_->model)) return checkpoint_path(dir, meta.step);
  return write_checkpoint(fs, dir, made, rules);
}

void Trainer::require_same_frozen(FileSystem& fs, const std::string& path) const {
  rl::require_same_frozen(fs, path, impl_->learner.layout());
}

CheckpointMeta Trainer::load(FileSystem& fs, const std::string& path,
                             const std::string& config_digest, Critic* critic) {
  const auto load = [&] {
    return load_learners(fs, path, config_digest, learners_of(impl_->learner, critic));
  };
  return packs_together() ? run_together(impl_->ranks, load) : load();
}

}  // namespace rl
