// Gradients that are kept in bf16. Products are summed in fp32 in a scratch array, for a part of a
// matrix or the rows that a batch has of the vocabulary, and each finished sum is added to the
// gradients with stochastic rounding (algo/optimizers/rounded_sum.h).
//
// The random words follow from seed, optimizer step, the place of an element, and the number of the
// addition since the gradients were zero, which counts calls in the backward's order. So bits
// depend on how a batch is split into micro-batches and chunks, but not on threads.
//
// Owns no bytes. Invariant: from begin() on the scratch is zero between additions.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/values.h"
#include "core/function_ref.h"
#include "model/weights.h"
#include "ops/compute.h"

namespace rl {

// Rows of `width` elements from place `at` of the gradients on.
struct GradientRows {
  int64_t at, size, width;
};

class RoundedGradients {
 public:
  struct Memory {
    uint16_t* values;
    int64_t count;
    float* scratch;
    int64_t scratch_floats;  // scratch_floats(layout)
  };
  // stream: apart from other models that round in the same step; below kStreams. vocabulary: the
  // places of pieces of embedding and head. Ranks add there as often as their tokens need, so these
  // additions are counted apart, and all ranks round alike what all of them have.
  static constexpr uint32_t kStreams = 2;
  RoundedGradients(Compute& compute, const Memory& memory, uint64_t seed, uint32_t stream,
                   Piece vocabulary = {});

  // Room for the largest parameter of a layer, for a row of any other, and for one task of the
  // optimizer's ops.
  static int64_t scratch_floats(const WeightLayout& layout);
  // Elements of each part of a matrix but the last, with `room` floats of scratch.
  static int64_t part_elements(int64_t room, int64_t width);

  // Zero, for the optimizer step of this number.
  void begin(int64_t step);

  // Calls add for part after part, of whole rows, with zeros that become the sums of the part.
  // Calls may be nested.
  using Add = FunctionRef<void(float* to, int64_t first, int64_t count)>;
  void add(const GradientRows& rows, Add add);

  struct VocabularyRows {
    int64_t at, width;
    std::span<const int32_t> ids;
    float* scratch;  // (ids, width)
  };
  // Calls add once with a row of zeros for each distinct id, and the rows of ids among them.
  void add_rows(const VocabularyRows& rows,
                FunctionRef<void(float* to, std::span<const int32_t> ids)> add);

  int64_t count() const { return memory_.count; }
  // Elements that widened() takes at a time: whole chunks of the optimizer's ops.
  int64_t piece() const { return memory_.scratch_floats; }
  // Copies elements in fp32, into the scratch or to an array that ops write. No addition may follow
  // the former before begin().
  float* widened(int64_t first, int64_t count);
  void widen(int64_t first, int64_t count, float* to) const;

  // All of them in memory of the host. What write() gets is rounded as an addition to zeros is.
  // Both use the scratch as widened() does.
  void read(std::span<float> to);
  void write(std::span<const float> from);
  // Makes the first one NaN.
  void spoil();

 private:
  RoundingKey next_key(int64_t at);
  void fold(float* from, int64_t at, int64_t count);

  Compute& compute_;
  const Memory memory_;
  const std::array<uint32_t, 2> key_;
  const uint32_t stream_;
  const Piece vocabulary_;
  uint32_t step_ = 0, additions_ = 0, vocabulary_additions_ = 0;
  int64_t used_ = 0;  // floats of scratch that calls of add() have
  std::vector<int32_t> distinct_, places_;
};

}  // namespace rl
