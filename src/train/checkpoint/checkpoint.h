// Checkpoints of a run: DIR/step_000123 with manifest.json, manifest.xxh64 and one safetensors file
// per fp32 array (masters.safetensors, first_moments.safetensors, second_moments.safetensors;
// tensors under their Hugging Face names). A run with a critic has the same three files of it,
// critic_masters.safetensors and so on.
//
// 1. A checkpoint is written into "step_000123.partial", every file synced, and made visible by one
//    rename. The suffixes .partial and .removed mark leftovers: never loaded, and removed by the
//    next save. One marked .replaced is whole and gave its name to a successor; when a crash kept
//    the successor from taking it, it gets its name back. One marked .abandoned is never loaded
//    and stays.
// 2. The manifest holds the XXH64 digest and size of every file and manifest.xxh64 the manifest's,
//    so any changed, missing or added byte is Error(kDataLoss) naming the file. All digests are
//    checked before anything is taken over.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/fs.h"
#include "model/weights.h"

namespace rl {

// The part that belongs to the owner of the run.
struct CheckpointMeta {
  int64_t step = 0;  // finished steps of the run, >= 0: the checkpoint's name
  std::string
      config_digest;  // what a run must equal to go on from here, e.g. hex64(OptionSet::identity())
  std::string pipeline;  // the pipeline's own state as one JSON text, handed back unread
};

// The part that belongs to a trained model.
struct TrainerCounters {
  int64_t optimizer_steps = 0;  // applied: AdamW's t and the schedule's position
  int64_t skipped_steps = 0;
  uint64_t weight_version = 0;
};

struct CheckpointArrays {
  const WeightLayout* layout = nullptr;
  std::span<float> masters, first_moments, second_moments;  // flat, of the layout
};

// counters, and the arrays given beside a state: of the policy, then of the critic where there is
// one.
struct CheckpointState {
  CheckpointMeta meta;
  std::vector<TrainerCounters> counters;
};

struct CheckpointRules {
  int64_t keep_last = 0;  // above 0 the others but so many of the newest go, the new one counted
  bool replace_existing = false;  // one of the same step: replaced, or Error(kAlreadyExists)
};

// Returns the path of the new checkpoint. One that it replaces keeps its name until the new one is
// whole. An error before the last rename leaves the directory's checkpoints as they were, one after
// it leaves the new one in place.
std::string save_checkpoint(FileSystem& fs, const std::string& dir, const CheckpointState& state,
                            std::span<const CheckpointArrays> arrays, const CheckpointRules& rules);

struct CheckpointTarget {
  struct Trained {
    CheckpointArrays arrays;
    std::span<float> scratch;  // as large as masters; overwritten
  };
  std::vector<Trained> models;
  bool moments_lost = false;  // set by an error that came after the moments began to change
};

// Fills the arrays with content that has been verified in memory. Masters change last and only as a
// whole, so an error leaves them as they were: kIo, kNotFound or kDataLoss naming the file,
// kIncompatible when the checkpoint is of another config digest (both are named), has a critic and
// the target has none or the reverse, or its tensors are not those of the layout. All files are
// verified before the first array changes.
CheckpointState load_checkpoint(FileSystem& fs, const std::string& path,
                                const std::string& config_digest, CheckpointTarget& target);

// What the manifest says, with its own digest and config_digest checked; errors as above.
CheckpointMeta read_checkpoint_meta(FileSystem& fs, const std::string& path,
                                    const std::string& config_digest);

// Renames every checkpoint of a step above this one to "step_000123.abandoned"; an older one of
// that name is removed, and leftovers are. For a run that goes on from an earlier step than the
// newest.
void abandon_later_checkpoints(FileSystem& fs, const std::string& dir, int64_t step);

// "DIR/step_000123".
std::string checkpoint_path(const std::string& dir, int64_t step);
// The checkpoint of the highest step in dir; nullopt when there is none or no such directory. One
// marked .replaced whose successor is missing gets its name back.
std::optional<std::string> latest_checkpoint(FileSystem& fs, const std::string& dir);

}  // namespace rl
