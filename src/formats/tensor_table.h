// The tensors of an opened checkpoint under their Hugging Face names, each with the location of its
// rows in a file.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/model_config.h"
#include "formats/stored/gguf_dequant.h"
#include "formats/weight_source.h"

namespace rl {

class TensorTable {
 public:
  // head_rows above 0: the rows are stored interleaved, in heads of that many rows
  // (StoredRows::read_interleaved).
  void add(TensorInfo info, const StoredRows& rows, int64_t head_rows);
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  int64_t find(std::string_view name) const;  // -1 if absent
  // Error(kInvalidArgument) if the request is not whole rows of the tensor.
  void read(int64_t index, int64_t first_row, std::span<float> out) const;
  // Error(kInvalidArgument) if the block is not inside the tensor.
  void read_block(int64_t index, const TensorBlock& block, std::span<float> out) const;
  // The narrowest type that holds every stored value exactly.
  Dtype exact_dtype() const;

 private:
  struct Place {
    StoredRows rows;
    int64_t head_rows;
  };
  const TensorInfo& tensor(int64_t index) const;

  std::vector<TensorInfo> tensors_;
  std::vector<Place> places_;
  std::unordered_map<std::string, size_t> by_name_;
};

}  // namespace rl
