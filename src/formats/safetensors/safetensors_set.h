// The weights of a Hugging Face directory: one safetensors file, or several with an index,
// presented as one list of tensors. Invariant for several: every tensor is in the file named by the
// index and in no other, and their bytes add up to the index's total_size, if it has one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fs.h"
#include "formats/safetensors/safetensors.h"

namespace rl {

class SafetensorsSet {
 public:
  // Opens dir/model.safetensors or, if there is none, the files of
  // dir/model.safetensors.index.json: the order that transformers uses.
  SafetensorsSet(FileSystem& fs, const std::string& dir);

  size_t size() const { return places_.size(); }
  const SafetensorsEntry& entry(size_t index) const;
  const SafetensorsFile& file_of(size_t index) const { return files_[places_.at(index).file]; }
  StoredRows rows(size_t index) const;
  int64_t find(std::string_view name) const;  // -1 if absent
  // Path of the one file, or of the index.
  const std::string& path() const { return path_; }

 private:
  void open_shards(FileSystem& fs, const std::string& dir);
  void list_entries();

  struct Place {
    size_t file, entry;
  };
  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::vector<Place> places_;
  std::vector<size_t> by_name_;  // indices of places_ sorted by name
};

}  // namespace rl
