// Files of a checkpoint: named tensors as one safetensors file, and digests of files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/fs.h"
#include "core/function_ref.h"
#include "model/weights.h"
#include "ops/device_floats.h"

namespace rl {

struct FileMark {
  uint64_t bytes = 0;
  uint64_t digest = 0;  // XXH64
};

// A tensor in memory, as a file holds it.
struct StateTensor {
  std::string name;
  const char* dtype;  // in the words of safetensors: F32, BF16, I8 or U8
  std::vector<int64_t> shape;
  DeviceBytes bytes;
  // The place of `bytes` among those of the whole, if they are this rank's part of it, which may be
  // empty; the parts of the ranks follow one another.
  std::optional<uint64_t> first = {};
  bool of_draft = false;  // the bytes lie in memory of the draft, which nobody trains on

  uint64_t whole_bytes() const;
};
using TensorList = std::vector<StateTensor>;

// Calls its second argument with all bytes of a tensor, in order.
using ReadTensor =
    FunctionRef<void(const StateTensor&, FunctionRef<void(std::span<const std::byte> part)>)>;

// A flat fp32 array of the parameters of a layout.
struct FlatArray {
  DeviceFloats floats;
  int64_t Parameter::*offset;  // of a parameter in them
};
// Its trained parameters, in the order of the layout.
TensorList trained_tensors(const WeightLayout& layout, const FlatArray& array);

// Writes the tensors in order, under their names. The file is synced. `read`: for tensors in parts.
FileMark write_array_file(FileSystem& fs, const std::string& path, const TensorList& tensors);
FileMark write_array_file(FileSystem& fs, const std::string& path, const TensorList& tensors,
                          ReadTensor read);
FileMark write_marked_text(FileSystem& fs, const std::string& path, std::string_view text);

// The mark of the file that write_array_file would write.
FileMark array_mark(const TensorList& tensors);

// Error(kDataLoss) naming the file, what was expected and what was found.
void verify_file(FileSystem& fs, const std::string& path, const FileMark& expected);

// Error(kIncompatible) unless the file holds exactly these tensors, or these among `count`; their
// bytes are not read.
void check_array_file(FileSystem& fs, const std::string& path, const TensorList& tensors,
                      size_t count);
inline void check_array_file(FileSystem& fs, const std::string& path, const TensorList& tensors) {
  check_array_file(fs, path, tensors, tensors.size());
}
// The same for the layout's trained tensors in fp32.
void check_array_file(FileSystem& fs, const std::string& path, const WeightLayout& layout);
// Fills the tensors' bytes.
void read_array_file(FileSystem& fs, const std::string& path, const TensorList& tensors);
// The same of tensors in parts. Returns the digest of the file as it was read, front to back.
uint64_t read_array_parts(FileSystem& fs, const std::string& path, const TensorList& tensors);

}  // namespace rl
