// The fp32 weights that packed forms are made from, addressed by layout offset: masters in memory
// of the device, or rows read from the file on demand. With the latter, a model that is never
// trained never holds its weights in fp32.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "formats/weight_source.h"
#include "model/masters.h"
#include "model/weights.h"

namespace rl {

class WeightFloats {
 public:
  // await: called before masters are read, which all have then; null: they are there.
  explicit WeightFloats(const MasterFloats& masters, const MasterFloats::Await* await = nullptr)
      : masters_(masters), await_(await) {}
  // Reads from source, which must outlive this.
  WeightFloats(const WeightSource& source, const WeightLayout& layout);

  bool from_file() const { return source_ != nullptr; }
  // Those in memory; none if they are read from a file.
  const MasterFloats& masters() const { return masters_; }
  // Returns once the masters before this place may be read, without those that one rank has.
  void await(int64_t end) const {
    if (await_ != nullptr) (*await_)(end);
  }
  // Reads weights from `offset` of the layout on, of a file whole rows. Callable from any thread.
  void read(int64_t offset, std::span<float> out) const;

 private:
  MasterFloats masters_;
  const MasterFloats::Await* await_ = nullptr;
  const WeightSource* source_ = nullptr;
  const WeightLayout* layout_ = nullptr;
  std::vector<int64_t> tensors_;  // index in the source, by parameter
};

}  // namespace rl
