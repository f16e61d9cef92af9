// Index and headers are compared in both directions: each entry of a file with the index, then the
// number of entries with the number of names, which reveals a name that no file has.
#include "formats/safetensors/safetensors_set.h"

#include <algorithm>
#include <numeric>

#include "core/checked.h"
#include "core/error.h"
#include "formats/safetensors/shard_index.h"

namespace rl {
namespace {

// Checks that the index assigns every entry of a shard to that shard.
void check_shard(const SafetensorsFile& file, size_t shard, const ShardIndex& index,
                 const std::string& index_path) {
  for (const SafetensorsEntry& e : file.entries()) {
    const auto it = index.tensor_file.find(e.name);
    if (it != index.tensor_file.end() && it->second == shard) continue;
    const std::string seen = it == index.tensor_file.end()
                                 ? std::string("does not list")
                                 : str("places in ", index.files[it->second]);
    throw Error(Code::kDataLoss,
                str(file.path(), ": holds tensor ", e.name, ", which ", index_path, " ", seen))
        .with_key(e.name)
        .with_location(str(file.path(), " offset ", e.offset, " tensor ", e.name));
  }
}

[[noreturn]] void fail_missing_tensor(const std::vector<SafetensorsFile>& files,
                                      const ShardIndex& index, const std::string& index_path) {
  for (const auto& [name, shard] : index.tensor_file) {
    if (files[shard].find(name) >= 0) continue;
    throw Error(Code::kDataLoss, str(index_path, ": places tensor ", name, " in ",
                                     files[shard].path(), ", which does not hold it"))
        .with_key(name)
        .with_location(str(index_path, " /weight_map/", name));
  }
  throw Error(Code::kInternal, str(index_path, ": a tensor was counted but not found"));
}

void check_total_size(const std::vector<SafetensorsFile>& files, uint64_t total,
                      const std::string& index_path) {
  CheckedU64 sum(uint64_t{0});
  for (const SafetensorsFile& file : files)
    for (const SafetensorsEntry& e : file.entries()) sum = sum + CheckedU64(e.bytes);
  if (sum.get() == total) return;
  throw Error(Code::kDataLoss, str(index_path, ": /metadata/total_size is ", total,
                                   ", but the tensors of its files have ", sum.get(), " bytes"))
      .with_key("total_size")
      .with_expected(str(sum.get()))
      .with_location(str(index_path, " /metadata/total_size"));
}

}  // namespace

SafetensorsSet::SafetensorsSet(FileSystem& fs, const std::string& dir) {
  const std::string stem = str(dir, dir.ends_with('/') ? "" : "/", "model.safetensors");
  const std::string index = stem + ".index.json";
  if (fs.exists(stem)) {
    path_ = stem;
    files_.emplace_back(fs, path_);
  } else if (fs.exists(index)) {
    path_ = index;
    open_shards(fs, dir);
  } else {
    throw Error(Code::kNotFound, str(stem, " does not exist"))
        .with_expected("model.safetensors or model.safetensors.index.json")
        .with_location(stem);
  }
  list_entries();
}

void SafetensorsSet::open_shards(FileSystem& fs, const std::string& dir) {
  const ShardIndex index = read_shard_index(fs, path_);
  files_.reserve(index.files.size());
  size_t entries = 0;
  for (size_t i = 0; i < index.files.size(); ++i) {
    const std::string path = str(dir, dir.ends_with('/') ? "" : "/", index.files[i]);
    if (!fs.exists(path)) {
      throw Error(Code::kDataLoss, str(path_, " names ", index.files[i], ", but ", path,
                                       " does not exist: the model is not complete"))
          .with_key(index.files[i])
          .with_location(path);
    }
    check_shard(files_.emplace_back(fs, path), i, index, path_);
    entries += files_.back().entries().size();
  }
  if (entries != index.tensor_file.size()) fail_missing_tensor(files_, index, path_);
  if (index.total_size) check_total_size(files_, *index.total_size, path_);
}

void SafetensorsSet::list_entries() {
  for (size_t f = 0; f < files_.size(); ++f)
    for (size_t e = 0; e < files_[f].entries().size(); ++e) places_.push_back({f, e});
  by_name_.resize(places_.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](size_t a, size_t b) { return entry(a).name < entry(b).name; });
}

const SafetensorsEntry& SafetensorsSet::entry(size_t index) const {
  const Place& p = places_.at(index);
  return files_[p.file].entries()[p.entry];
}

StoredRows SafetensorsSet::rows(size_t index) const {
  const Place& p = places_.at(index);
  return files_[p.file].rows(static_cast<int64_t>(p.entry));
}

int64_t SafetensorsSet::find(std::string_view name) const {
  const auto it =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](size_t i, std::string_view wanted) { return entry(i).name < wanted; });
  return it == by_name_.end() || entry(*it).name != name ? -1 : static_cast<int64_t>(*it);
}

}  // namespace rl
