// The trained parameters of a flat fp32 array as one safetensors file, and digests of files.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "core/fs.h"
#include "model/weights.h"
#include "ops/device_floats.h"

namespace rl {

struct FileMark {
  uint64_t bytes = 0;
  uint64_t digest = 0;  // XXH64
};

// Writes tensors in the order of the layout, under their names. The file is synced.
struct FlatArray {
  DeviceFloats floats;
  int64_t Parameter::*offset;  // of a parameter in them
};
FileMark write_array_file(FileSystem& fs, const std::string& path, const WeightLayout& layout,
                          const FlatArray& array);
FileMark write_marked_text(FileSystem& fs, const std::string& path, std::string_view text);

// The mark of the file that write_array_file would write.
FileMark array_mark(const WeightLayout& layout, const FlatArray& array);

// Error(kDataLoss) naming the file, what was expected and what was found.
void verify_file(FileSystem& fs, const std::string& path, const FileMark& expected);

// Error(kIncompatible) unless the file holds exactly the layout's trained tensors in fp32.
void check_array_file(FileSystem& fs, const std::string& path, const WeightLayout& layout);
// Reads each parameter to its place in the gradients and optimizer states.
void read_array_file(FileSystem& fs, const std::string& path, const WeightLayout& layout,
                     const DeviceFloats& flat);

}  // namespace rl
