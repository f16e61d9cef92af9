// manifest.json of a checkpoint and manifest.xxh64, the digest of its text.
#pragma once
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "train/checkpoint/array_file.h"
#include "train/checkpoint/checkpoint.h"

namespace rl {

// Arrays of a model, each in a file of its own: those that every checkpoint has, and those that
// depend on options.
inline constexpr const char* kMasters = "masters";
inline constexpr std::array<const char*, 3> kArrays = {kMasters, "first_moments", "second_moments"};
inline constexpr std::array<const char*, 1> kOptionalArrays = {"ema"};
// Whether they are among the contents of a checkpoint.
bool holds_array(const CheckpointContents& contents, std::string_view array);
inline constexpr size_t kMaxModels = 2;  // the policy, then the critic
// "masters.safetensors", or "critic_masters.safetensors".
std::string array_file_name(size_t model, std::string_view array);

struct CheckpointManifest {
  CheckpointState state;
  std::vector<FrozenMark> frozen;         // one for each model that has counters
  std::map<std::string, FileMark> files;  // by name; those of each model that has counters
};

// Reads a file that belongs to the checkpoint `dir`: if it is missing, the checkpoint is damaged,
// Error(kDataLoss) naming both.
void read_part(const std::string& dir, const std::string& name, FunctionRef<void()> read);

void write_manifest(FileSystem& fs, const std::string& dir, const CheckpointManifest& manifest);
// Errors name the file, and the key when the text itself is intact but not as expected.
CheckpointManifest read_manifest(FileSystem& fs, const std::string& dir);

}  // namespace rl
