// Masters are read in place: a second copy would need their memory again.
#include "train/checkpoint/checkpoint_weights.h"

#include <algorithm>

#include "core/error.h"
#include "core/hash.h"
#include "core/step_name.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_manifest.h"
#include "train/checkpoint/rank_pieces.h"

namespace rl {
namespace {

CheckpointManifest manifest_with_model(FileSystem& fs, const std::string& path) {
  CheckpointManifest manifest = read_manifest(fs, path);
  if (manifest.state.meta.contents.model) return manifest;
  throw Error(Code::kIncompatible, str(path,
                                       " was written without model (checkpoint.contents), so "
                                       "nothing can generate with its weights"))
      .with_key("checkpoint.contents")
      .with_expected("model")
      .with_location(path);
}

// All parameters but those that the run of the checkpoint did not train.
TensorList tensors_of(const WeightLayout& layout, const DeviceFloats& masters,
                      const FrozenMark& frozen) {
  TensorList tensors;
  for (const Parameter& p : layout.parameters()) {
    if (std::ranges::find(frozen.names, p.name) != frozen.names.end()) continue;
    tensors.push_back({p.name, "F32", p.shape, masters.part(p.offset, p.size).bytes()});
  }
  return tensors;
}

// How many tensors the file of masters has, of which the layout's model may be a part.
size_t num_stored_masters(const TensorList& tensors, const WeightLayout& layout,
                          const FrozenMark& frozen) {
  const size_t stored = num_stored(tensors, layout);
  return layout.stage().divides() ? stored - frozen.names.size() : stored;
}

// Returns the digest of the file as it was read.
uint64_t read_masters(FileSystem& fs, const std::string& file, const TensorList& tensors,
                      const WeightLayout& layout) {
  const bool all_of_it = layout.split().ranks() == 1 && !layout.stage().divides();
  if (!all_of_it) return read_array_parts(fs, file, tensors);
  read_array_file(fs, file, tensors);
  return array_mark(tensors).digest;
}

}  // namespace

std::optional<FoundCheckpoint> newest_checkpoint(FileSystem& fs, const std::string& dir) {
  if (!fs.is_directory(dir)) return std::nullopt;
  std::optional<int64_t> newest;
  for (const std::string& name : fs.list(dir)) {
    if (const auto step = step_of(name)) newest = std::max(newest.value_or(*step), *step);
  }
  if (!newest) return std::nullopt;
  return FoundCheckpoint{checkpoint_path(dir, *newest), *newest};
}

uint64_t checkpoint_version(FileSystem& fs, const std::string& path) {
  return manifest_with_model(fs, path).state.counters.at(0).weight_version;
}

void read_weights(FileSystem& fs, const std::string& path, const WeightLayout& layout,
                  const DeviceFloats& masters, FunctionRef<void()> begin) {
  const CheckpointManifest manifest = manifest_with_model(fs, path);
  const std::string name = array_file_name(0, kMasters), file = str(path, "/", name);
  const FileMark& mark = manifest.files.at(name);
  const FrozenMark& frozen = manifest.frozen.at(0);
  const TensorList tensors = tensors_of(layout, masters, frozen);
  read_part(path, name, [&] { verify_file(fs, file, mark); });
  check_array_file(fs, file, tensors, num_stored_masters(tensors, layout, frozen));
  begin();
  const uint64_t digest = read_masters(fs, file, tensors, layout);
  if (digest == mark.digest) return;
  throw Error(Code::kDataLoss, str(file, " has content with digest ", hex64(digest), ", expected ",
                                   hex64(mark.digest), ": it changed while it was read"))
      .with_location(file);
}

}  // namespace rl
