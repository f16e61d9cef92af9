// The policy's weights of a checkpoint, for whoever generates with them and trains nothing: any
// model of the same shape may take them, whatever options it runs with.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/fs.h"
#include "core/function_ref.h"
#include "model/weights.h"
#include "ops/device_floats.h"

namespace rl {

// A checkpoint among those that another process writes and removes.
struct FoundCheckpoint {
  std::string path;
  int64_t step = 0;
};
// That of the highest step in dir, which is only read; nullopt if there is none or no such
// directory.
std::optional<FoundCheckpoint> newest_checkpoint(FileSystem& fs, const std::string& dir);

// The version of its weights. Errors of read_manifest, and kIncompatible if it was written without
// the model (checkpoint.contents).
uint64_t checkpoint_version(FileSystem& fs, const std::string& path);

// Reads what the run of the checkpoint trained into masters, in the layout, which may be a rank's
// part of the model; frozen parameters stay as they are. begin is called before the first one
// changes. kIncompatible if the tensors are not those of the layout, kDataLoss if a file is damaged
// or missing, both naming it: masters have changed only if begin was called.
void read_weights(FileSystem& fs, const std::string& path, const WeightLayout& layout,
                  const DeviceFloats& masters, FunctionRef<void()> begin);

}  // namespace rl
