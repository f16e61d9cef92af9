// The fp32 weights that packed forms are made from, addressed by layout offset: masters in memory
// of the device, or rows read from the file on demand. With the latter, a model that is never
// trained never holds its weights in fp32.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "formats/weight_source.h"
#include "model/weights.h"

namespace rl {

class WeightFloats {
 public:
  explicit WeightFloats(const float* masters) : masters_(masters) {}
  // Reads from source, which must outlive this.
  WeightFloats(const WeightSource& source, const WeightLayout& layout);

  // Null if the weights are read.
  const float* masters() const { return masters_; }
  // Reads weights from `offset` of the layout on, whole rows, from the file. Callable from any
  // thread.
  void read(int64_t offset, std::span<float> out) const;

 private:
  const float* masters_ = nullptr;
  const WeightSource* source_ = nullptr;
  const WeightLayout* layout_ = nullptr;
  std::vector<int64_t> tensors_;  // index in the source, by parameter
};

}  // namespace rl
