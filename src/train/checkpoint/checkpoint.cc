// Saving and loading; the manifest's text is in checkpoint_manifest.cc.
#include "train/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "core/error.h"
#include "core/hash.h"
#include "core/step_name.h"
#include "train/checkpoint/checkpoint_manifest.h"
#include "train/checkpoint/rank_pieces.h"

namespace rl {
namespace {

std::string join(const std::string& dir, std::string_view name) { return str(dir, "/", name); }

// Steps of all checkpoints in dir, ascending.
std::vector<int64_t> steps_in(FileSystem& fs, const std::string& dir) {
  std::vector<int64_t> steps;
  for (const std::string& name : fs.list(dir)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

constexpr std::string_view kPartial = ".partial", kRemoved = ".removed", kReplaced = ".replaced";

std::string with(const std::string& path, std::string_view suffix) { return str(path, suffix); }

// Where a checkpoint is written until it is whole.
std::string partial_path(const std::string& path, const std::string& writer) {
  return writer.empty() ? with(path, kPartial) : str(path, ".", writer, kPartial);
}

// Of any writer.
bool is_partial(std::string_view name) {
  return name.ends_with(kPartial) && step_of(name.substr(0, name.find('.'))).has_value();
}

// A crash between the two renames of take_place left a whole checkpoint without its name. A
// .replaced one whose successor is in place must be removed before the successor loses its name.
void bring_back(FileSystem& fs, const std::string& path) {
  const std::string aside = with(path, kReplaced);
  if (!fs.exists(path) && fs.exists(aside)) fs.rename(aside, path);
}

void bring_back_all(FileSystem& fs, const std::string& dir) {
  for (const std::string& name : fs.list(dir)) {
    if (const auto step = step_of(name, kReplaced)) bring_back(fs, checkpoint_path(dir, *step));
  }
}

// A removed checkpoint loses its name before its files, so no name refers to a partial one.
void remove_checkpoint(FileSystem& fs, const std::string& path, const std::string& base) {
  const std::string removed = with(base, kRemoved);
  fs.remove_all(removed);
  fs.rename(path, removed);
  fs.remove_all(removed);
}

void remove_leftovers(FileSystem& fs, const std::string& dir) {
  for (const std::string& name : fs.list(dir)) {
    if (is_partial(name) || step_of(name, kRemoved)) fs.remove_all(join(dir, name));
  }
  for (const std::string& name : fs.list(dir)) {
    if (const auto step = step_of(name, kReplaced)) {
      remove_checkpoint(fs, join(dir, name), checkpoint_path(dir, *step));
    }
  }
}

// The score of a checkpoint by this metric; none of one that cannot be read.
std::optional<double> score_of(FileSystem& fs, const std::string& path, const std::string& metric) {
  try {
    const std::optional<CheckpointScore> score = read_manifest(fs, path).state.meta.score;
    if (score && score->metric == metric) return score->value;
  } catch (const Error&) {
    // Whoever loads it is told what is wrong with it.
  }
  return std::nullopt;
}

// The steps with the best scores, of equal ones the newer.
std::vector<int64_t> best_steps(FileSystem& fs, const std::string& dir,
                                std::span<const int64_t> steps, const CheckpointRules& rules) {
  std::vector<std::pair<double, int64_t>> scored;
  for (const int64_t step : steps) {
    if (const auto score = score_of(fs, checkpoint_path(dir, step), rules.metric))
      scored.emplace_back(rules.lowest_is_best ? -*score : *score, step);
  }
  std::sort(scored.rbegin(), scored.rend());
  scored.resize(std::min(scored.size(), static_cast<size_t>(rules.keep_best)));
  std::vector<int64_t> best;
  for (const auto& [score, step] : scored) best.push_back(step);
  return best;
}

void prune(FileSystem& fs, const std::string& dir, int64_t saved_step,
           const CheckpointRules& rules) {
  std::vector<int64_t> steps = steps_in(fs, dir), best;
  if (rules.keep_best > 0) best = best_steps(fs, dir, steps, rules);
  std::erase(steps, saved_step);
  const auto others = static_cast<size_t>(rules.keep_last - 1);
  for (size_t i = 0; i + others < steps.size(); ++i) {
    if (std::ranges::find(best, steps[i]) != best.end()) continue;
    const std::string path = checkpoint_path(dir, steps[i]);
    remove_checkpoint(fs, path, path);
  }
}

void write_files(FileSystem& fs, const std::string& dir, const CheckpointDraft& draft) {
  const CheckpointContents& contents = draft.meta.contents;
  fs.make_directories(dir);
  CheckpointManifest manifest{{draft.meta, {}}, {}, {}};
  if (!contents.extra) manifest.state.meta.pipeline.clear();
  for (size_t model = 0; model < draft.models.size(); ++model) {
    manifest.state.counters.push_back(draft.models[model].counters);
    manifest.frozen.push_back(draft.models[model].frozen);
    for (const StateArray& array : draft.models[model].arrays) {
      if (!holds_array(contents, array.name)) continue;
      const std::string name = array_file_name(model, array.name);
      manifest.files[name] =
          write_array_file(fs, join(dir, name), array.tensors, [&](const auto& t, auto visit) {
            draft.parts != nullptr ? draft.parts->visit(t, visit) : t.bytes.visit(visit);
          });
    }
  }
  if (contents.hf_model) draft.save_model(fs, join(dir, "hf_model"));
  write_manifest(fs, dir, manifest);
  fs.sync_directory(dir);
}

// The replaced one gets its name back if its successor cannot take it.
void take_place(FileSystem& fs, const std::string& path, const std::string& partial,
                bool replaces) {
  if (!replaces) return fs.rename(partial, path);
  const std::string aside = with(path, kReplaced);
  fs.rename(path, aside);
  try {
    fs.rename(partial, path);
  } catch (const Error&) {
    try {
      fs.rename(aside, path);
    } catch (const Error&) {
      // Report the first failure; the next lookup restores the name.
    }
    throw;
  }
}

void require_config(const CheckpointMeta& meta, const std::string& path,
                    const std::string& config_digest) {
  if (meta.config_digest == config_digest) return;
  throw Error(Code::kIncompatible,
              str(path, " is of a run with configuration digest '", meta.config_digest,
                  "', but this run's is '", config_digest, "'"))
      .with_expected(config_digest)
      .with_location(path);
}

// A run or trainer goes on from a checkpoint only if that has all of its state.
void require_contents(const CheckpointMeta& meta, const std::string& path) {
  for (const auto& [name, held] : kContentNames) {
    if (meta.contents.*held || held == &CheckpointContents::hf_model) continue;
    throw Error(Code::kIncompatible, str(path, " was written without ", name,
                                         " (checkpoint.contents), so nothing can resume from it"))
        .with_key("checkpoint.contents")
        .with_expected(name)
        .with_location(path);
  }
}

void check_arguments(const CheckpointMeta& meta, const CheckpointRules& rules) {
  const auto require = [](const char* key, int64_t value) {
    if (value >= 0) return;
    throw Error(Code::kOutOfRange, str(key, " is ", value, ", expected at least 0"))
        .with_key(key)
        .with_expected("at least 0");
  };
  require("checkpoint step", meta.step);
  require("checkpoint.keep_last", rules.keep_last);
  require("checkpoint.keep_best", rules.keep_best);
  RL_CHECK(!meta.score || std::isfinite(meta.score->value));
}

}  // namespace

std::string checkpoint_path(const std::string& dir, int64_t step) {
  return join(dir, step_name(step));
}

std::optional<std::string> latest_checkpoint(FileSystem& fs, const std::string& dir) {
  if (!fs.is_directory(dir)) return std::nullopt;
  bring_back_all(fs, dir);
  const std::vector<int64_t> steps = steps_in(fs, dir);
  if (steps.empty()) return std::nullopt;
  return checkpoint_path(dir, steps.back());
}

std::string save_checkpoint(FileSystem& fs, const std::string& dir, const CheckpointState& state,
                            std::span<const CheckpointArrays> arrays,
                            const CheckpointRules& rules) {
  RL_CHECK(arrays.size() == state.counters.size());
  CheckpointDraft draft{state.meta, {}, {}};
  for (size_t i = 0; i < arrays.size(); ++i)
    draft.models.push_back(draft_model(state.counters[i], arrays[i], state.meta.contents, i == 0));
  return write_checkpoint(fs, dir, draft, rules);
}

std::string write_checkpoint(FileSystem& fs, const std::string& dir, const CheckpointDraft& draft,
                             const CheckpointRules& rules) {
  RL_CHECK(!draft.models.empty() && draft.models.size() <= kMaxModels);
  check_arguments(draft.meta, rules);
  const auto require_own = [&] {
    if (rules.require_own) rules.require_own();
  };
  require_own();
  fs.make_directories(dir);
  bring_back_all(fs, dir);
  const std::string path = checkpoint_path(dir, draft.meta.step);
  const std::string partial = partial_path(path, rules.writer);
  const bool replaces = fs.exists(path);
  if (replaces && !rules.replace_existing)
    throw Error(Code::kAlreadyExists, str(path, " already exists")).with_location(path);
  remove_leftovers(fs, dir);
  try {
    write_files(fs, partial, draft);
    require_own();
    take_place(fs, path, partial, replaces);
  } catch (...) {
    try {
      fs.remove_all(partial);
    } catch (const Error&) {
      // Report the failure that led here; the next save removes the leftover.
    }
    throw;
  }
  fs.sync_directory(dir);
  if (replaces) remove_checkpoint(fs, with(path, kReplaced), path);
  if (rules.keep_last > 0) prune(fs, dir, draft.meta.step, rules);
  return path;
}

CheckpointMeta read_checkpoint_meta(FileSystem& fs, const std::string& path,
                                    const std::string& config_digest) {
  bring_back(fs, path);
  CheckpointMeta meta = read_manifest(fs, path).state.meta;
  require_contents(meta, path);
  require_config(meta, path, config_digest);
  return meta;
}

void abandon_later_checkpoints(FileSystem& fs, const std::string& dir, int64_t step) {
  if (!fs.is_directory(dir)) return;
  bring_back_all(fs, dir);
  remove_leftovers(fs, dir);
  for (const int64_t later : steps_in(fs, dir)) {
    if (later <= step) continue;
    const std::string path = checkpoint_path(dir, later), aside = path + ".abandoned";
    if (fs.exists(aside)) fs.remove_all(aside);
    fs.rename(path, aside);
  }
}

namespace {

// A rank that reads its pieces of the file has not the content that the digest is of.
void read_verified(FileSystem& fs, const std::string& path, const TensorList& tensors,
                   const FileMark& expected, bool all_of_it) {
  const bool in_parts =
      std::ranges::any_of(tensors, [](const StateTensor& t) { return t.first.has_value(); });
  if (!in_parts) read_array_file(fs, path, tensors);
  if (!in_parts && !all_of_it) return;
  const uint64_t digest =
      in_parts ? read_array_parts(fs, path, tensors) : array_mark(tensors).digest;
  if (digest == expected.digest) return;
  throw Error(Code::kDataLoss, str(path, " has content with digest ", hex64(digest), ", expected ",
                                   hex64(expected.digest), ": it changed while it was read"))
      .with_location(path);
}

// The masters, read into scratch if there is some.
TensorList scratch_tensors(const CheckpointTarget::Trained& m) {
  if (m.scratch.empty()) return master_tensors(*m.arrays.layout, m.arrays.masters);
  return trained_tensors(*m.arrays.layout, {m.scratch, &Parameter::gradient});
}

void read_arrays(FileSystem& fs, const std::string& path, const CheckpointManifest& manifest,
                 CheckpointTarget& target) {
  const auto read = [&](size_t model, const char* array, const TensorList& tensors) {
    const std::string name = array_file_name(model, array);
    const WeightLayout& layout = *target.models[model].arrays.layout;
    const bool all_of_it = layout.split().ranks() == 1 && !layout.stage().divides();
    read_verified(fs, join(path, name), tensors, manifest.files.at(name), all_of_it);
  };
  for (size_t m = 0; m < target.models.size(); ++m) {
    if (target.models[m].scratch.empty()) target.moments_lost = target.masters_lost = true;
    read(m, kMasters, scratch_tensors(target.models[m]));
  }
  target.moments_lost = true;
  for (size_t m = 0; m < target.models.size(); ++m) {
    for (const StateArray& state : target.models[m].arrays.states) {
      read(m, state.name, state.tensors);
    }
  }
  target.moments_lost = target.masters_lost = false;
}

// Both have the same arrays.
void require_arrays(const CheckpointManifest& manifest, const CheckpointTarget& target,
                    const std::string& path) {
  for (size_t m = 0; m < target.models.size(); ++m) {
    const std::vector<StateArray>& states = target.models[m].arrays.states;
    for (const char* array : kOptionalArrays) {
      const std::string name = array_file_name(m, array);
      const bool stored = manifest.files.contains(name);
      const bool wanted = std::ranges::any_of(
          states, [&](const StateArray& s) { return std::string_view(s.name) == array; });
      if (stored == wanted) continue;
      throw Error(Code::kIncompatible, str(path, stored ? " has " : " has no ", name,
                                           ", which this run ", wanted ? "needs" : "does not have"))
          .with_location(join(path, name));
    }
  }
}

void check_files(FileSystem& fs, const std::string& path, const CheckpointManifest& manifest,
                 const CheckpointTarget& target) {
  const auto check = [&](size_t model, const char* array, const TensorList& tensors) {
    const std::string name = array_file_name(model, array);
    read_part(path, name, [&] { verify_file(fs, join(path, name), manifest.files.at(name)); });
    check_array_file(fs, join(path, name), tensors,
                     num_stored(tensors, *target.models[model].arrays.layout));
  };
  for (size_t m = 0; m < target.models.size(); ++m) {
    check(m, kMasters, scratch_tensors(target.models[m]));
    for (const StateArray& state : target.models[m].arrays.states) {
      check(m, state.name, state.tensors);
    }
  }
}

[[noreturn]] void refuse_frozen(const std::string& path, const std::string& name, bool here) {
  throw Error(
      Code::kIncompatible,
      str(path, here ? " is of a run that trained " : " is of a run that did not train ", name,
          ", but this run ", here ? "does not" : "does", " (model.freeze, model.train_only)"))
      .with_key(name)
      .with_location(path);
}

void require_frozen(const FrozenMark& stored, const WeightLayout& layout, const std::string& path) {
  std::vector<std::string> known;
  for (const Parameter& p : layout.parameters()) {
    const bool frozen = std::ranges::find(stored.names, p.name) != stored.names.end();
    if (frozen == p.trainable()) refuse_frozen(path, p.name, !frozen);
    if (frozen) known.push_back(p.name);
  }
  if (num_stored(known, layout.split().ranks()) == stored.names.size()) return;
  throw Error(Code::kIncompatible,
              str(path, " names frozen parameters that the model does not have"))
      .with_location(path);
}

// Of what a rank has of a model in parts. Both have the same names.
void require_frozen_parts(const FrozenMark& stored, const FrozenMark& own,
                          const std::string& path) {
  if (stored.digests.empty()) {
    throw Error(Code::kIncompatible, str(path, " is of a run of an undivided model"))
        .with_location(path);
  }
  for (size_t i = 0; i < own.names.size(); ++i) {
    const auto at = std::ranges::find(stored.names, own.names[i]) - stored.names.begin();
    const uint64_t digest = stored.digests[static_cast<size_t>(at)];
    if (digest == own.digests[i]) continue;
    throw Error(Code::kIncompatible,
                str(path, " is of a run whose frozen ", own.names[i], " has digest ", hex64(digest),
                    ", but the model's has ", hex64(own.digests[i])))
        .with_key(own.names[i])
        .with_expected(hex64(digest))
        .with_location(path);
  }
}

// A frozen parameter's values come from the model, so they must be those of the run that saved.
void require_frozen_values(const FrozenMark& stored, const CheckpointArrays& arrays,
                           const std::string& path) {
  if (stored.names.empty()) return;
  const FrozenMark own = frozen_mark(arrays);
  if (arrays.layout->split().divides()) return require_frozen_parts(stored, own, path);
  if (own.digest == stored.digest) return;
  throw Error(Code::kIncompatible,
              str(path, " is of a run whose frozen parameters have digest ", hex64(stored.digest),
                  ", but the model's have ", hex64(own.digest)))
      .with_expected(hex64(stored.digest))
      .with_location(path);
}

void require_models(size_t stored, size_t wanted, const std::string& path) {
  if (stored == wanted) return;
  const auto text = [](size_t count) { return count > 1 ? "a critic" : "no critic"; };
  throw Error(Code::kIncompatible,
              str(path, " has ", text(stored), ", but this run has ", text(wanted)))
      .with_expected(text(wanted))
      .with_location(path);
}

}  // namespace

void require_same_frozen(FileSystem& fs, const std::string& path, const WeightLayout& layout) {
  bring_back(fs, path);
  require_frozen(read_manifest(fs, path).frozen.front(), layout, path);
}

CheckpointState load_checkpoint(FileSystem& fs, const std::string& path,
                                const std::string& config_digest, CheckpointTarget& target) {
  for (const auto& m : target.models) {
    RL_CHECK(m.scratch.empty() || m.scratch.count() == m.arrays.layout->gradient_total());
  }
  bring_back(fs, path);
  CheckpointManifest manifest = read_manifest(fs, path);
  require_contents(manifest.state.meta, path);
  require_config(manifest.state.meta, path, config_digest);
  require_models(manifest.state.counters.size(), target.models.size(), path);
  for (size_t m = 0; m < target.models.size(); ++m) {
    const CheckpointArrays& arrays = target.models[m].arrays;
    require_frozen(manifest.frozen[m], *arrays.layout, path);
    require_frozen_values(manifest.frozen[m], arrays, path);
  }
  require_arrays(manifest, target, path);
  check_files(fs, path, manifest, target);
  read_arrays(fs, path, manifest, target);
  // The masters come last: nothing after them can fail, so a failed load leaves them unchanged.
  for (const auto& m : target.models) {
    if (m.scratch.empty()) continue;
    for (const Parameter& p : m.arrays.layout->parameters()) {
      if (!p.trainable() || !m.arrays.masters.has(p.offset)) continue;
      m.scratch.part(p.gradient, p.size).copy_to(m.arrays.masters.part(p.offset, p.size));
    }
  }
  return std::move(manifest.state);
}

}  // namespace rl
