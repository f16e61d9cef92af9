// Checkpoints of a run: DIR/step_000123 with manifest.json, manifest.xxh64 and one safetensors
// file per array (masters.safetensors in fp32, first_moments.safetensors,
// second_moments.safetensors, with optimizer.ema also ema.safetensors; tensors under their Hugging
// Face names). A run with a critic has the first three for it too, critic_masters.safetensors and
// so on. The files hold trained parameters only; of frozen ones the manifest has the names and a
// digest. checkpoint.contents leaves some of them out, or adds hf_model, the policy as a Hugging
// Face directory, whose files are in no digest.
//
// 1. A checkpoint is written into "step_000123.partial", every file synced, and made visible by
//    one rename. The suffixes .partial and .removed mark leftovers: never loaded, and removed by
//    the next save. Of several processes that may write into one directory each has files of its
//    own, "step_000123.WRITER.partial". A checkpoint marked .replaced is whole and gave up its name
//    to a successor; if a crash kept the successor from taking the name, it is restored. A
//    checkpoint marked .abandoned is never loaded and is kept.
// 2. The manifest holds the XXH64 digest and size of every file, and manifest.xxh64 holds the
//    manifest's, so any changed, missing or added byte is Error(kDataLoss) naming the file. All
//    digests are checked before anything is loaded.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/fs.h"
#include "model/weights.h"
#include "ops/device_floats.h"
#include "train/checkpoint/checkpoint_draft.h"

namespace rl {

// Counters, in the order of the arrays passed with them: the policy's, then the critic's if there
// is one.
struct CheckpointState {
  CheckpointMeta meta;
  std::vector<TrainerCounters> counters;
};

struct CheckpointRules {
  int64_t keep_last = 0;  // > 0: keep only this many newest checkpoints, including the new one
  // Besides those, as many with the best scores of this metric.
  int64_t keep_best = 0;
  std::string metric = {};
  bool lowest_is_best = false;
  // An existing one of the same step is replaced; false: Error(kAlreadyExists).
  bool replace_existing = false;
  // Names the writer among others that may write into the directory; empty: there is none.
  std::string writer = {};
  // Throws if the directory is another writer's: called before anything in it changes, and again
  // right before the new checkpoint takes its name. Empty: it is always this one's.
  std::function<void()> require_own = {};
};

// Returns the path of the new checkpoint. One that it replaces keeps its name until the new one is
// whole. An error before the last rename leaves the directory's checkpoints unchanged; an error
// after it leaves the new one in place.
std::string write_checkpoint(FileSystem& fs, const std::string& dir, const CheckpointDraft& draft,
                             const CheckpointRules& rules);
// The same of arrays as they are now.
std::string save_checkpoint(FileSystem& fs, const std::string& dir, const CheckpointState& state,
                            std::span<const CheckpointArrays> arrays, const CheckpointRules& rules);

struct CheckpointTarget {
  struct Trained {
    CheckpointArrays arrays;
    // layout->gradient_total(); overwritten. Empty: masters are read in place.
    DeviceFloats scratch;
  };
  std::vector<Trained> models;
  bool moments_lost = false;  // set by an error after the moments began to change
  bool masters_lost = false;  // the same for masters, which only what is read in place can be
};

// Fills the arrays with content that has been verified in memory. With scratch, masters change last
// and only as a whole, so an error leaves them unchanged; without, all files are still verified
// before, but a file that cannot be read again may leave them half read: kNotFound if there is no
// checkpoint; kIo or kDataLoss naming the file, kDataLoss also if it is missing; kIncompatible if
// the checkpoint has another config digest (both are named), if only one of checkpoint and target
// has a critic, if another set of parameters is frozen (one is named) or they have other values, if
// its tensors do not match the layout, if the checkpoint was written without a part
// (checkpoint.contents), or if one of both lacks an array (it is named). All files are verified
// before the first array changes.
CheckpointState load_checkpoint(FileSystem& fs, const std::string& path,
                                const std::string& config_digest, CheckpointTarget& target);

// Reads the manifest's meta data, with its own digest and config_digest checked; errors as above.
CheckpointMeta read_checkpoint_meta(FileSystem& fs, const std::string& path,
                                    const std::string& config_digest);

// Error(kIncompatible) naming a parameter of the policy that is frozen in only one of checkpoint
// and layout. Its errors come before those of another config digest, which follows from it.
void require_same_frozen(FileSystem& fs, const std::string& path, const WeightLayout& layout);

// Renames every checkpoint of a later step to "step_000123.abandoned", replacing an older one of
// that name, and removes leftovers. For a run that resumes from an earlier step than the newest.
void abandon_later_checkpoints(FileSystem& fs, const std::string& dir, int64_t step);

// "DIR/step_000123".
std::string checkpoint_path(const std::string& dir, int64_t step);
// The checkpoint of the highest step in dir; nullopt if there is none or no such directory. One
// marked .replaced whose successor is missing gets its name back.
std::optional<std::string> latest_checkpoint(FileSystem& fs, const std::string& dir);

}  // namespace rl
