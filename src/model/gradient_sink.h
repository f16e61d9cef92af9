// Where a backward adds the gradients of trained parameters: a flat fp32 array in memory of the
// device, or RoundedGradients. Places are those of WeightLayout's gradients.
#pragma once
#include <cstdint>

#include "core/function_ref.h"
#include "model/rounded_gradients.h"

namespace rl {

class GradientSink {
 public:
  GradientSink(float* flat) : flat_(flat) {}
  GradientSink(RoundedGradients& rounded) : rounded_(&rounded) {}

  // Calls add with the gradient of `size` elements, which it adds to.
  void add(int64_t at, int64_t size, FunctionRef<void(float* to)> add) const {
    if (flat_ != nullptr) return add(flat_ + at);
    rounded_->add({at, size, size}, [&](float* to, int64_t, int64_t) { add(to); });
  }
  // The same for a matrix with rows of `width`, in one part or several of whole rows; first is the
  // part's first element.
  void add_matrix(const GradientRows& rows,
                  FunctionRef<void(float* to, int64_t first, int64_t count)> add) const {
    if (flat_ != nullptr) return add(flat_ + rows.at, 0, rows.size);
    rounded_->add(rows, add);
  }
  // The same for one of the vocabulary, of which a batch has few rows. ids: the row of each entry;
  // add adds entry i to row ids[i]. scratch: room for as many rows as there are entries.
  void add_rows(int64_t at, std::span<const int32_t> ids, int64_t width, float* scratch,
                FunctionRef<void(float* to, std::span<const int32_t> ids)> add) const {
    if (flat_ != nullptr) return add(flat_ + at, ids);
    rounded_->add_rows({at, width, ids, scratch}, add);
  }

 private:
  float* flat_ = nullptr;
  RoundedGradients* rounded_ = nullptr;
};

}  // namespace rl
