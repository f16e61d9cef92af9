// One optimizer step, and the packed forms of the weights it updates.
#include "train/optimizer/learner.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace rl {
namespace {

// Squares of larger scaled gradients would make the second moment infinite.
constexpr double kLargestUpdateNorm = 1e18;

// So that no step creates kernels for the row count it happens to have. scratch: floats for a part
// of a matrix; 0: matrices are not divided.
void prepare_gradients(const Model& model, const WeightLayout& layout, int64_t scratch) {
  const auto prepare_rows = [&](int64_t elements, const SliceRule& r) {
    const int64_t part = scratch == 0 ? elements : RoundedGradients::part_elements(scratch, r.k);
    for (const int64_t size : {std::min(part, elements), (elements - 1) % part + 1})
      prepare_gradient(model.compute(), {size / r.k, r.k, r.n});
  };
  const auto prepare = [&](int64_t offset, const SliceRule& r) {
    layout.for_each_trained(offset, r.n * r.k,
                            [&](const TrainedRun& run) { prepare_rows(run.size, r); });
  };
  for (int64_t l = 0; l < model.config().layers; ++l) {
    const ProductRules rules = forward_rules(model.config(), 0, l);
    for (int64_t part = 0; part < layout.split().count; ++part) {
      const LayerOffsets& at = layout.layer(l, part);
      prepare(at.qkv, rules.qkv);
      prepare(at.o, rules.o);
      prepare(at.gate_up, rules.gate_up);
      prepare(at.down, rules.down);
    }
  }
  if (model.config().scalar_head || !model.config().has_head()) return;
  if (layout.gradient_of(layout.head()) < 0) return;
  SliceRule rule = forward_rules(model.config()).head;
  for (const HeadPart& part : head_parts(model.compute().device(), model.config())) {
    if (part.first > 0 && part.tokens == rule.n) continue;
    rule.n = part.tokens;
    prepare_rows(rule.n * rule.k, rule);
  }
}

// Moments and averages of all ranks.
uint64_t whole_state_bytes(const WeightLayout& layout, OptimizerOptions options) {
  options.zero = {};
  const MomentBytes moments = AdamwState::moment_bytes(layout, options);
  const auto total = static_cast<uint64_t>(layout.gradient_total());
  return moments.device + moments.host + EmaWeights::bytes(total, options.ema);
}

// A trainer needs the masters that its optimizer steps update.
void require_own_cut(const Model& model, const WeightLayout& layout,
                     const OptimizerOptions& optimizer, int rank) {
  if (master_cut(layout, optimizer, rank) == model.master_cut()) return;
  throw Error(
      Code::kConflict,
      str("the trainer has parallel.zero_stage = ", optimizer.zero.stage,
          ", but the ranks divide the model's weights otherwise: it was opened with another "
          "stage, or other options of what is trained"))
      .with_key("parallel.zero_stage")
      .with_expected("the options that the model was opened with");
}

int64_t largest_divided(const WeightLayout& layout, const OptimizerOptions& options) {
  int64_t most = 0;
  for (const LayerMatrix& m : divided_matrices(layout, options)) most = std::max(most, m.size);
  return most;
}

}  // namespace

StoredBytes stored_bytes(const WeightLayout& layout, const OptimizerOptions& options) {
  return {static_cast<uint64_t>(layout.gradient_total()) * sizeof(float),
          whole_state_bytes(layout, options)};
}

TrainerSizes plan_learner(const TrainShape& shape, const StepOptions& options) {
  const WeightLayout layout(shape.config, options.trainable);
  const StoredBytes stored = stored_bytes(layout, options.optimizer);
  const UpdateRuns runs = update_runs(layout, options.optimizer);
  const MomentBytes moments = AdamwState::moment_bytes(layout, options.optimizer);
  const PackedShapes backward = plan_backward_shapes(shape.device, shape.config, shape.compute());
  const ArenaPlan workspace = plan_train_buffers(shape, options);
  const GradientBytes gradients = AdamwState::gradient_bytes(layout, options.optimizer.grad_dtype);
  const uint64_t longest = shard_pieces(layout, options.optimizer).longest();
  return {.gradients = gradients.values,
          .gradient_scratch = gradients.scratch,
          .optimizer = moments.device,
          .optimizer_host = moments.host,
          .optimizer_staging = moments.staging,
          .optimizer_workspace = Muon::bytes(runs.matrices, shape.compute()),
          .averages = EmaWeights::bytes(longest, options.optimizer.ema),
          .whole_states = stored.states,
          .trained_masters = stored.masters,
          .packed_backward = BackwardWeights::bytes(backward, options.backward_packing,
                                                    largest_divided(layout, options.optimizer)),
          .workspace = workspace.total_bytes(),
          .workspace_regions = workspace.regions(),
          .host_workspace = train_host_bytes(shape, options)};
}

Learner::Learner(Model& model, const TrainableRule& trainable, BackwardPacking packing,
                 const OptimizerOptions& optimizer, const LearnerTools& tools)
    : model_(model),
      layout_(model.config(), trainable),
      runs_(update_runs(layout_, optimizer)),
      state_(layout_, optimizer, model.compute(), tools),
      muon_(runs_.matrices, model.compute()),
      averages_(layout_, optimizer.ema, model.held_masters(), model.compute(), state_.shards()),
      backward_(model, packing),
      packs_as_they_come_(optimizer.zero.overlap_gather) {
  RL_CHECK(!model.frozen());
  require_own_cut(model, layout_, optimizer, tools.ranks.dividing().rank());
  // A pattern of optimizer.no_decay may be for another stage, but not for none.
  if (layout_.stage().divides()) update_runs(WeightLayout(model.whole_config()), optimizer);
  const bool in_parts = optimizer.grad_dtype == GradDtype::kBf16;
  prepare_gradients(model, layout_, in_parts ? RoundedGradients::scratch_floats(layout_) : 0);
}

std::vector<std::span<std::byte>> Learner::memory() const {
  std::vector<std::span<std::byte>> all = state_.memory();
  if (!muon_.memory().empty()) all.push_back(muon_.memory());
  if (averages_.kept()) all.push_back(averages_.memory());
  all.push_back(backward_.memory());
  return all;
}

MicroBatchPass::Training Learner::training(bool last) {
  const bool overlaps = last && state_.overlaps_sums();
  return {model_, backward_, state_.sink(), &layout_, overlaps ? &layer_done_ : nullptr};
}

void Learner::prepare() {
  stage();
  backward_.prepare();
  state_.zero_gradients(optimizer_steps_ + 1);
}

void Learner::sleep(bool holds_gradients) {
  std::vector<Arena*> kept = state_.kept(holds_gradients);
  std::vector<Arena*> dropped = state_.dropped(holds_gradients);
  kept.push_back(&averages_.arena());
  dropped.push_back(&muon_.arena());
  asleep_.sleep(model_.compute(), std::move(kept), std::move(dropped));
}

void Learner::wake() { asleep_.wake(model_.compute()); }

Learner::Outcome Learner::update(const StepOptions& options, bool finite_loss) {
  const double norm =
      finite_loss ? state_.gradient_norm(model_.tensor_ranks(), model_.stage_ranks()) : 0;
  const double scale =
      finite_loss && std::isfinite(norm) ? grad_clip_scale(norm, options.grad_clip) : 0;
  if (!finite_loss || !std::isfinite(norm) || norm * scale > kLargestUpdateNorm) {
    ++skipped_steps_;
    return {};
  }
  const double lr = learning_rate(options.schedule, optimizer_steps_);
  model_.mark_masters_changed();  // marked first: an update that throws has changed some of them
  release_at_update_ = model_.published().release();
  apply(options, {lr, optimizer_steps_ + 1, scale});
  ++optimizer_steps_;
  return {true, norm, lr};
}

void Learner::apply(const StepOptions& options, const AdamwStepInput& input) {
  AdamwParams undecayed = options.adamw;
  undecayed.weight_decay = 0;
  const MasterFloats masters = model_.held_masters();
  state_.update(adamw_step(options.adamw, input), input.step, runs_.decayed, masters);
  state_.update(adamw_step(undecayed, input), input.step, runs_.undecayed, masters);
  const MuonStep step{options.optimizer.muon, input.lr, options.adamw.weight_decay,
                      input.grad_scale};
  const Piece own = state_.shards().own();
  for (const MuonMatrix& m : muon_.matrices()) {
    if (part_of(m.run, own).size == 0) continue;  // another rank's, as a whole
    muon_.update(
        step, m,
        {masters.at(m.run.master), state_.first_moments(m.run), state_.run_gradients(m.run)});
  }
  averages_.update(masters);
  gather_masters();
}

// What the others have updated. Masters of other ranks, or masters that come while others are
// packed, are packed here; others once they are needed.
void Learner::gather_masters() {
  const Shards& shards = state_.shards();
  const MemorySpace space = model_.compute().space();
  if (!packs_as_they_come_) {
    shards.gather(model_.held_masters(), space);
    if (shards.divides_masters()) model_.repack();
    return;
  }
  std::vector<Shards::StartedRun> runs = shards.start_gather(model_.held_masters(), space);
  auto next = runs.begin();
  const MasterFloats::Await await = [&](int64_t end) {
    for (; next != runs.end() && next->master < end; ++next) next->call.wait();
  };
  model_.repack(&await);
}

void Learner::exchange_averages() {
  RL_CHECK(!unpublished());
  averages_.exchange(model_.held_masters());
  model_.publish_as(model_.version());
}

void Learner::copy_averages(Model& to) {
  averages_.exchange(model_.held_masters());
  try {
    to.copy_masters(model_);
  } catch (...) {
    averages_.exchange(model_.held_masters());
    throw;
  }
  averages_.exchange(model_.held_masters());
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
  std::vector<StateArray> states = state_.arrays();
  if (averages_.kept()) states.push_back(averages_.state());
  return {&layout_, model_.held_masters(), std::move(states)};
}

void Learner::loaded(const TrainerCounters& counters) {
  lost_ = {};
  state_.zero_gradients(optimizer_steps_ + 1);
  state_.free_gradients();
  optimizer_steps_ = counters.optimizer_steps;
  skipped_steps_ = counters.skipped_steps;
  model_.publish_as(counters.weight_version);
}

void Learner::load_failed(const char* lost, const std::string& path) {
  if (lost != nullptr) lost_ = {lost, path};
  state_.zero_gradients(optimizer_steps_ + 1);
  state_.free_gradients();
}

void Learner::require_whole() const {
  if (lost_.path.empty()) return;
  throw Error(Code::kFailedPrecondition,
              str(lost_.what, " are lost: reading ", lost_.path,
                  " failed half-way; load a checkpoint again or create another trainer"))
      .with_location(lost_.path);
}

}  // namespace rl
