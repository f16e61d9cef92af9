// The fp32 weights that compute forms are made of, by their place in the layout: masters that stand
// in memory, or rows that are read from the file when they are asked for. With the latter a model
// that nobody trains never holds its weights in fp32.
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
  // Reads from source, which outlives it. room: the most floats that a worker holds at a time.
  WeightFloats(const WeightSource& source, const WeightLayout& layout, int num_workers,
               int64_t room, ArenaLedger* ledger);

  // `count` floats from `offset` of the layout on, whole rows. Where they have to be read they
  // stand at float `at` of the worker's room until the worker asks for the same place again.
  const float* get(int64_t offset, int64_t count, int64_t at, int worker) const;
  // The same, written to out. Any thread.
  void copy(int64_t offset, std::span<float> out) const;

 private:
  const float* masters_ = nullptr;
  const WeightSource* source_ = nullptr;
  const WeightLayout* layout_ = nullptr;
  std::vector<int64_t> tensors_;  // of the source, by parameter
  int64_t room_ = 0;
  Arena rooms_;
};

}  // namespace rl
