// model.safetensors.index.json: which file of the directory holds which tensor. Invariant: a
// ShardIndex names at least one tensor, and its files are plain names ending in .safetensors, so
// that they stay inside the directory.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fs.h"

namespace rl {

struct ShardIndexCaps {
  uint64_t bytes = uint64_t{8} << 20;
  size_t files = 4096;
};
inline constexpr ShardIndexCaps kShardIndexCaps;

struct ShardIndex {
  std::vector<std::string> files;                          // sorted, no repeats
  std::map<std::string, size_t, std::less<>> tensor_file;  // tensor name to index in files
  std::optional<uint64_t> total_size;                      // bytes of all tensors, if given
};

ShardIndex read_shard_index(FileSystem& fs, const std::string& path);

}  // namespace rl
