// Saving and loading; the manifest's text is in checkpoint_manifest.cc.
#include "train/checkpoint.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/hash.h"
#include "core/step_name.h"
#include "train/checkpoint_manifest.h"

namespace rl {
namespace {

std::string join(const std::string& dir, std::string_view name) { return str(dir, "/", name); }

// Steps of all checkpoints of dir, ascending.
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

// A crash between the two renames of take_place left a whole checkpoint without its name. A
// .replaced one whose successor stands must be gone before the successor loses its name.
void bring_back(FileSystem& fs, const std::string& path) {
  const std::string aside = with(path, kReplaced);
  if (!fs.exists(path) && fs.exists(aside)) fs.rename(aside, path);
}

void bring_back_all(FileSystem& fs, const std::string& dir) {
  for (const std::string& name : fs.list(dir)) {
    if (const auto step = step_of(name, kReplaced)) bring_back(fs, checkpoint_path(dir, *step));
  }
}

// A removed checkpoint loses its name before its files, so no name stands for a part of one.
void remove_checkpoint(FileSystem& fs, const std::string& path, const std::string& base) {
  const std::string removed = with(base, kRemoved);
  fs.remove_all(removed);
  fs.rename(path, removed);
  fs.remove_all(removed);
}

void remove_leftovers(FileSystem& fs, const std::string& dir) {
  for (const std::string& name : fs.list(dir)) {
    if (step_of(name, kPartial) || step_of(name, kRemoved)) fs.remove_all(join(dir, name));
  }
  for (const std::string& name : fs.list(dir)) {
    if (const auto step = step_of(name, kReplaced)) {
      remove_checkpoint(fs, join(dir, name), checkpoint_path(dir, *step));
    }
  }
}

void prune(FileSystem& fs, const std::string& dir, int64_t saved_step, int64_t keep_last) {
  std::vector<int64_t> steps = steps_in(fs, dir);
  std::erase(steps, saved_step);
  const auto others = static_cast<size_t>(keep_last - 1);
  for (size_t i = 0; i + others < steps.size(); ++i) {
    const std::string path = checkpoint_path(dir, steps[i]);
    remove_checkpoint(fs, path, path);
  }
}

using NamedArrays = std::array<std::pair<const char*, std::span<float>>, 3>;

NamedArrays named(const CheckpointArrays& a) {
  return {{{kCheckpointFiles[0], a.masters},
           {kCheckpointFiles[1], a.first_moments},
           {kCheckpointFiles[2], a.second_moments}}};
}

void write_files(FileSystem& fs, const std::string& dir, const CheckpointState& state,
                 const CheckpointArrays& arrays) {
  fs.make_directories(dir);
  CheckpointManifest manifest{state, {}};
  for (const auto& [name, flat] : named(arrays))
    manifest.files[name] = write_array_file(fs, join(dir, name), *arrays.layout, flat);
  write_manifest(fs, dir, manifest);
  fs.sync_directory(dir);
}

// The replaced one comes back when its successor cannot take the name.
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
      // The first failure is the one to report; whoever looks next gives the name back.
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

void check_arguments(const CheckpointMeta& meta, int64_t keep_last) {
  const auto require = [](const char* key, int64_t value) {
    if (value >= 0) return;
    throw Error(Code::kOutOfRange, str(key, " is ", value, ", expected at least 0"))
        .with_key(key)
        .with_expected("at least 0");
  };
  require("checkpoint step", meta.step);
  require("checkpoint.keep_last", keep_last);
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
                            const CheckpointArrays& arrays, const CheckpointRules& rules) {
  check_arguments(state.meta, rules.keep_last);
  fs.make_directories(dir);
  bring_back_all(fs, dir);
  const std::string path = checkpoint_path(dir, state.meta.step), partial = with(path, kPartial);
  const bool replaces = fs.exists(path);
  if (replaces && !rules.replace_existing)
    throw Error(Code::kAlreadyExists, str(path, " already exists")).with_location(path);
  remove_leftovers(fs, dir);
  try {
    write_files(fs, partial, state, arrays);
    take_place(fs, path, partial, replaces);
  } catch (...) {
    try {
      fs.remove_all(partial);
    } catch (const Error&) {
      // The failure that led here is the one to report; a leftover is removed by the next save.
    }
    throw;
  }
  fs.sync_directory(dir);
  if (replaces) remove_checkpoint(fs, with(path, kReplaced), path);
  if (rules.keep_last > 0) prune(fs, dir, state.meta.step, rules.keep_last);
  return path;
}

CheckpointMeta read_checkpoint_meta(FileSystem& fs, const std::string& path,
                                    const std::string& config_digest) {
  bring_back(fs, path);
  CheckpointMeta meta = read_manifest(fs, path).state.meta;
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

void read_verified(FileSystem& fs, const std::string& path, const WeightLayout& layout,
                   const FileMark& expected, std::span<float> flat) {
  read_array_file(fs, path, layout, flat);
  const uint64_t digest = array_mark(layout, flat).digest;
  if (digest == expected.digest) return;
  throw Error(Code::kDataLoss, str(path, " gave content of digest ", hex64(digest), ", expected ",
                                   hex64(expected.digest), ": it changed while it was read"))
      .with_location(path);
}

}  // namespace

CheckpointState load_checkpoint(FileSystem& fs, const std::string& path,
                                const std::string& config_digest, CheckpointTarget& target) {
  const CheckpointArrays& arrays = target.arrays;
  RL_CHECK(target.scratch.size() == arrays.masters.size());
  bring_back(fs, path);
  const CheckpointManifest manifest = read_manifest(fs, path);
  require_config(manifest.state.meta, path, config_digest);
  for (const char* name : kCheckpointFiles) {
    verify_file(fs, join(path, name), manifest.files.at(name));
    check_array_file(fs, join(path, name), *arrays.layout);
  }
  const auto read = [&](const char* name, std::span<float> flat) {
    read_verified(fs, join(path, name), *arrays.layout, manifest.files.at(name), flat);
  };
  read(kCheckpointFiles[0], target.scratch);
  target.moments_lost = true;
  read(kCheckpointFiles[1], arrays.first_moments);
  read(kCheckpointFiles[2], arrays.second_moments);
  target.moments_lost = false;
  for (const Parameter& p : arrays.layout->parameters()) {
    const auto at = static_cast<size_t>(p.offset), size = static_cast<size_t>(p.size);
    std::ranges::copy(target.scratch.subspan(at, size), arrays.masters.subspan(at, size).begin());
  }
  return manifest.state;
}

}  // namespace rl
