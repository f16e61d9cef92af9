// The fp32 weights that packed forms are made from, addressed by layout offset: masters in memory,
// or rows read from the file on demand. With the latter, a model that is never trained never holds
// its weights in fp32.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/arena.h"
#include "formats/weight_source.h"
#include "model/weights.h"

namespace rl {

class WeightFloats {
 public:
  explicit WeightFloats(const float* masters) : masters_(masters) {}
  // Reads from source, which must outlive this. room: the most floats that a worker holds at a
  // time.
  WeightFloats(const WeightSource& source, const WeightLayout& layout, int num_workers,
               int64_t room, ArenaLedger* ledger);

  // `count` floats from `offset` of the layout on, whole rows. If they have to be read, they go to
  // float `at` of the worker's room and stay valid until the worker reuses that place.
  const float* get(int64_t offset, int64_t count, int64_t at, int worker) const;
  // The same, copied to out. Callable from any thread.
  void copy(int64_t offset, std::span<float> out) const;

 private:
  const float* masters_ = nullptr;
  const WeightSource* source_ = nullptr;
  const WeightLayout* layout_ = nullptr;
  std::vector<int64_t> tensors_;  // index in the source, by parameter
  int64_t room_ = 0;
  Arena rooms_;
};

}  // namespace rl
