// A safetensors file opened for reading. Invariant: a SafetensorsFile exists only if its whole
// header was checked: at most 100 MB, no duplicate names, every shape times element size equals its
// byte range, and the ranges cover the data from first to last byte without gap or overlap. Data is
// read on demand; only the header is kept.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fs.h"
#include "formats/stored/gguf_dequant.h"

namespace rl {

struct SafetensorsCaps {
  uint64_t header_bytes = 100'000'000;
  size_t tensors = 1'000'000;
  size_t rank = 8;
  size_t name_bytes = 1024;
  size_t metadata_entries = 65'536;
};
inline constexpr SafetensorsCaps kSafetensorsCaps;

struct SafetensorsEntry {
  std::string name;
  std::string_view dtype;  // "F32", "BF16", "I64", ...: a name from the format's fixed list
  uint32_t element_bytes = 0;
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // from the start of the file
  uint64_t bytes = 0;
};

class SafetensorsFile {
 public:
  SafetensorsFile(FileSystem& fs, const std::string& path);

  const std::string& path() const { return file_->path(); }
  const InputFile& file() const { return *file_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // by offset
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  int64_t find(std::string_view name) const;  // -1 if absent

  // The entry as rows to dequantise; Error(kUnsupported) unless it is F32, F16 or BF16 of rank 1 or
  // 2.
  StoredRows rows(int64_t index) const;
  // All bytes of an entry as stored; out has exactly its size.
  void read_bytes(int64_t index, std::span<std::byte> out) const;

 private:
  std::unique_ptr<InputFile> file_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
  std::vector<uint32_t> by_name_;  // indices of entries_ sorted by name
};

}  // namespace rl
