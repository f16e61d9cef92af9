// Everything but weights and optimizer is checked before a load, which overwrites the host's model.
#include <optional>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "pipeline/session/step_watch.h"
#include "pipeline/update/trainer_session_impl.h"

namespace rl {
namespace {

// In place of the digest of a run's options: those of a trainer are in its state, by name.
constexpr const char* kTrainerDigest = "trainer";

// Of two checkpoints of a directory: their names are numbers with leading zeros.
bool is_later(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() > b.size() : a > b;
}

// A newest checkpoint must be that of the last step: later ones are of another run, or of one that
// went on from an earlier checkpoint.
void end_other_branch(FileSystem& fs, const TrainerSession::Checkpoint& checkpoint, int64_t step) {
  const auto newest = latest_checkpoint(fs, checkpoint.dir);
  if (!newest || !is_later(*newest, checkpoint_path(checkpoint.dir, step))) return;
  if (checkpoint.replace_existing) return abandon_later_checkpoints(fs, checkpoint.dir, step);
  throw Error(Code::kAlreadyExists, str(*newest, " is of a later step than this trainer's ", step))
      .with_location(*newest);
}

}  // namespace

std::string TrainerSession::save(const Checkpoint& checkpoint) {
  const std::lock_guard turn(computing_);
  PolicyUpdate& update = impl_->update;
  const DataRanks ranks = model_->runtime().data_ranks();
  std::string path;
  if (ranks.rank() != 0 && update.trainer().has_states_in_parts()) {
    run_together(ranks, [&] { model_->with_steady_weights([&] { give_states(); }); });
    return checkpoint_path(checkpoint.dir, static_cast<int64_t>(impl_->steps));
  }
  update.make_checkpoint(
      [&] { model_->with_steady_weights([&] { path = save_steady(checkpoint); }); });
  return path;
}

// To the checkpoint that rank 0 writes.
void TrainerSession::give_states() {
  const std::lock_guard lock(mutex_);
  require_awake();
  model_->require_whole(LoadedModel::Weights::kTrained);
  impl_->update.give_states({});
}

std::string TrainerSession::save_steady(const Checkpoint& checkpoint) {
  const std::lock_guard lock(mutex_);
  require_awake();
  model_->require_whole(LoadedModel::Weights::kTrained);
  FileSystem& fs = model_->runtime().fs();
  CheckpointMeta meta;
  meta.step = static_cast<int64_t>(impl_->steps);
  meta.config_digest = kTrainerDigest;
  meta.pipeline = render_trainer_state({impl_->steps, impl_->update.adaptive_kl(), checkpoint.host,
                                        trainer_identity(impl_->settings, impl_->plan, *model_)});
  const CheckpointRules rules{.keep_last = checkpoint.keep_last,
                              .replace_existing = checkpoint.replace_existing};
  // Ranks that divide the model make it together, and the first of them writes it.
  const CheckpointDraft draft = impl_->update.draft(meta);
  const Model& model = model_->model();
  if (model.tensor_ranks().rank() != 0 || model.stage_ranks().rank() != 0)
    return checkpoint_path(checkpoint.dir, meta.step);
  end_other_branch(fs, checkpoint, meta.step);
  std::string path = write_checkpoint(fs, checkpoint.dir, draft, rules);
  impl_->events.send<CheckpointEvent>([&](CheckpointEvent& event) {
    event.step = impl_->steps;
    event.path = path;
  });
  return path;
}

// What a checkpoint says of the trainer that made it, which is one like this.
std::pair<CheckpointMeta, TrainerState> TrainerSession::read_state(const std::string& found) const {
  FileSystem& fs = model_->runtime().fs();
  impl_->update.trainer().require_same_frozen(fs, found);
  const CheckpointMeta meta = read_checkpoint_meta(fs, found, kTrainerDigest);
  TrainerState state = parse_trainer_state(meta.pipeline, found + "/manifest.json");
  if (state.steps != static_cast<uint64_t>(meta.step)) {
    throw Error(Code::kDataLoss, str(found, " is the checkpoint of step ", meta.step,
                                     " but its trainer has made ", state.steps))
        .with_location(found);
  }
  require_same_identity(state.identity, trainer_identity(impl_->settings, impl_->plan, *model_),
                        found);
  return {meta, std::move(state)};
}

TrainerState TrainerSession::load(const std::string& path) {
  const Turn turn(*this, "loading a checkpoint");
  Runtime& runtime = model_->runtime();
  FileSystem& fs = runtime.fs();
  PolicyUpdate& update = impl_->update;
  const std::string found = latest_checkpoint(fs, path).value_or(path);
  const bool together = update.trainer().packs_together();
  const DataRanks ranks = together ? runtime.data_ranks() : DataRanks();
  CheckpointMeta meta;
  TrainerState state;
  std::optional<LoadedModel::RunLease> run;
  std::optional<LoadedModel::WriteLease> write;
  const auto check = [&] {
    std::tie(meta, state) = read_state(found);
    run.emplace(*model_, "loading a checkpoint");
    write.emplace(*model_, runtime.busy_timeout_ns());
  };
  ranks.agree_to_load(check, [&] { return digest64(meta.pipeline); });
  const Publication publication(*this);
  StepWatch watch(*model_, nullptr);
  update.load(fs, found, meta.config_digest);
  watch.done();
  if (state.kl_coef) update.restore_kl(*state.kl_coef);
  impl_->steps = state.steps;
  impl_->trained_version = model_->model().trained_version();
  runtime.logger().log(LogLevel::kInfo, "trainer", {{"path", found}}, "loaded ", found);
  return state;
}

}  // namespace rl
