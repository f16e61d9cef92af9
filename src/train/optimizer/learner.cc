// One optimizer step, and the packed forms of the weights it updates.
#include "train/optimizer/learner.h"

#include <cmath>

#include "core/error.h"

namespace rl {
namespace {

// Squares of larger scaled gradients would make the second moment infinite.
constexpr double kLargestUpdateNorm = 1e18;

// So that no step creates kernels for the row count it happens to have.
void prepare_gradients(const Model& model, const WeightLayout& layout) {
  const auto prepare = [&](int64_t offset, const SliceRule& r) {
    layout.for_each_trained(offset, r.n * r.k, [&](const TrainedRun& run) {
      prepare_gradient(model.compute(), {run.size / r.k, r.k, r.n});
    });
  };
  for (int64_t l = 0; l < model.config().layers; ++l) {
    const LayerOffsets& at = layout.layer(l);
    const ProductRules rules = forward_rules(model.config(), 0, l);
    prepare(at.qkv, rules.qkv);
    prepare(at.o, rules.o);
    prepare(at.gate_up, rules.gate_up);
    prepare(at.down, rules.down);
  }
  if (!model.config().scalar_head) prepare(layout.head(), forward_rules(model.config()).head);
}

}  // namespace

TrainerSizes plan_learner(const TrainShape& shape, const StepOptions& options) {
  const int64_t total = WeightLayout(shape.config, options.trainable).gradient_total();
  const PackedShapes backward = plan_backward_shapes(shape.device, shape.config, shape.compute());
  const ArenaPlan workspace = plan_train_buffers(shape, options);
  return {.gradients = AdamwState::gradient_bytes(total),
          .optimizer = AdamwState::moment_bytes(total),
          .packed_backward = BackwardWeights::bytes(backward, options.backward_packing),
          .workspace = workspace.total_bytes(),
          .workspace_regions = workspace.regions()};
}

Learner::Learner(Model& model, const TrainableRule& trainable, BackwardPacking packing)
    : model_(model),
      layout_(model.config(), trainable),
      state_(layout_.gradient_total(), model.compute()),
      backward_(model, packing) {
  RL_CHECK(!model.frozen());
  prepare_gradients(model, layout_);
}

std::vector<std::span<std::byte>> Learner::memory() const {
  std::vector<std::span<std::byte>> all = state_.memory();
  all.push_back(backward_.memory());
  return all;
}

void Learner::prepare() {
  stage();
  backward_.prepare();
  state_.zero_gradients();
}

Learner::Outcome Learner::update(const StepOptions& options, bool finite_loss) {
  const double norm = finite_loss ? state_.gradient_norm() : 0;
  const double scale =
      finite_loss && std::isfinite(norm) ? grad_clip_scale(norm, options.grad_clip) : 0;
  if (!finite_loss || !std::isfinite(norm) || norm * scale > kLargestUpdateNorm) {
    ++skipped_steps_;
    return {};
  }
  const double lr = learning_rate(options.schedule, optimizer_steps_);
  model_.mark_masters_changed();  // marked first: an update that throws has changed some of them
  release_at_update_ = model_.published().release();
  state_.update(adamw_step(options.adamw, {lr, optimizer_steps_ + 1, scale}),
                layout_.trained_runs(), model_.master());
  ++optimizer_steps_;
  return {true, norm, lr};
}

void Learner::stage() {
  if (model_.masters_changed()) model_.repack();
}

uint64_t Learner::publish() { return unpublished() ? publish_masters() : model_.version(); }

uint64_t Learner::publish_masters() {
  stage();
  model_.release();
  return model_.version();
}

CheckpointArrays Learner::arrays() {
  return {&layout_, model_.masters(), state_.first_moments(), state_.second_moments()};
}

void Learner::loaded(const TrainerCounters& counters) {
  lost_.clear();
  state_.zero_gradients();
  optimizer_steps_ = counters.optimizer_steps;
  skipped_steps_ = counters.skipped_steps;
  model_.publish_as(counters.weight_version);
}

void Learner::load_failed(bool moments_lost, const std::string& path) {
  if (moments_lost) lost_ = path;
  state_.zero_gradients();
}

void Learner::require_whole() const {
  if (lost_.empty()) return;
  throw Error(Code::kFailedPrecondition,
              str("the optimizer states are lost: reading ", lost_,
                  " failed half-way; load a checkpoint again or create another trainer"))
      .with_location(lost_);
}

}  // namespace rl
