// A checkpoint before it is written: numbers and texts of a run, and tensors of its models, which
// lie in the memory of the models or in a CheckpointCopy.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/fs.h"
#include "model/masters.h"
#include "model/weights.h"
#include "ops/device_floats.h"
#include "train/checkpoint/array_file.h"
#include "train/checkpoint/state_parts.h"

namespace rl {

// The value of a metric as a checkpoint was written, by which the best are kept.
struct CheckpointScore {
  std::string metric;
  double value = 0;  // finite
};

// What a checkpoint holds (checkpoint.contents).
struct CheckpointContents {
  bool model = true;      // the trained masters
  bool optimizer = true;  // its states, and averaged weights
  bool extra = true;      // the state of the run
  bool hf_model = false;  // the policy as a Hugging Face directory

  bool operator==(const CheckpointContents&) const = default;
};
// Their names, as options and manifests have them.
struct ContentName {
  const char* name;
  bool CheckpointContents::*held;
};
inline constexpr ContentName kContentNames[] = {{"model", &CheckpointContents::model},
                                                {"optimizer", &CheckpointContents::optimizer},
                                                {"extra", &CheckpointContents::extra},
                                                {"hf_model", &CheckpointContents::hf_model}};

// The part that belongs to the owner of the run.
struct CheckpointMeta {
  int64_t step = 0;  // finished steps of the run, >= 0: the checkpoint's name
  // A run that resumes from this must have the same, e.g. hex64(OptionSet::identity()).
  std::string config_digest;
  std::string pipeline;  // the pipeline's own state as one JSON text, returned unread
  std::optional<CheckpointScore> score = {};
  CheckpointContents contents = {};
};

// The part that belongs to a trained model.
struct TrainerCounters {
  int64_t optimizer_steps = 0;  // applied: AdamW's t and the schedule's position
  int64_t skipped_steps = 0;
  uint64_t weight_version = 0;
};

// One array of an optimizer.
struct StateArray {
  const char* name;  // one of kArrays or kOptionalArrays (checkpoint_manifest.h)
  TensorList tensors;
};

struct CheckpointArrays {
  const WeightLayout* layout = nullptr;  // with what is trained
  MasterFloats masters;                  // by their places in the layout
  std::vector<StateArray> states;
};

// The masters of the trained parameters. Of those that ranks divide a tensor is this rank's part,
// which is all of it or empty.
TensorList master_tensors(const WeightLayout& layout, const MasterFloats& masters);

// The parameters that a run did not train.
struct FrozenMark {
  std::vector<std::string> names;  // in the order of the layout
  uint64_t digest = 0;             // XXH64 of their values
  // Of a model in parts (ModelConfig::split): XXH64 of each, so that a rank can compare its own.
  // The digest is then that of these.
  std::vector<uint64_t> digests = {};
};
FrozenMark frozen_mark(const CheckpointArrays& arrays);
// The digest of a model in parts, from those of its parameters.
uint64_t digest_of_parts(std::span<const uint64_t> digests);

// What a checkpoint holds of a trained model.
struct ModelDraft {
  TrainerCounters counters;
  FrozenMark frozen;
  std::vector<StateArray> arrays;  // those that the contents need
  // Memory of the pieces that other ranks have (rank_pieces.h).
  std::vector<std::shared_ptr<std::vector<std::byte>>> gathered = {};
};

struct CheckpointDraft {
  CheckpointMeta meta;
  std::vector<ModelDraft> models;  // the policy, then the critic if there is one
  // Writes the policy as a Hugging Face directory; empty unless the contents have hf_model.
  std::function<void(FileSystem& fs, const std::string& dir)> save_model;
  // Of tensors that the ranks have in parts; null: there are none.
  std::shared_ptr<StateParts> parts = {};
};

// Of one model. The tensors are those of the arrays, not copied. is_policy: the one that
// hf_model is made of.
ModelDraft draft_model(const TrainerCounters& counters, const CheckpointArrays& arrays,
                       const CheckpointContents& contents, bool is_policy);

}  // namespace rl
