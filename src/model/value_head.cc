// Both directions process one row after another; the backward is split by columns, the forward by
// rows.
#include "model/value_head.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace rl {
namespace {

constexpr int64_t kRowsPerTask = 16;
constexpr int64_t kColumnsPerTask = 64;

template <typename T>
float dot(const T* h, const float* w, int64_t n) {
  std::array<float, kValueLanes> lanes{};
  int64_t c = 0;
  for (; c + kValueLanes <= n; c += kValueLanes) {
    for (int64_t j = 0; j < kValueLanes; ++j) lanes[j] += to_float(h[c + j]) * w[c + j];
  }
  for (int64_t j = 0; c + j < n; ++j) lanes[j] += to_float(h[c + j]) * w[c + j];
  for (int64_t half = kValueLanes / 2; half > 0; half /= 2) {
    for (int64_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

// Calls work(pointer to the first element of hidden), typed.
template <typename Work>
void with_type(Dtype dtype, const std::byte* hidden, const Work& work) {
  if (dtype == Dtype::kF32) {
    work(reinterpret_cast<const float*>(hidden));
  } else {
    work(reinterpret_cast<const bf16*>(hidden));
  }
}

}  // namespace

void value_forward(const Model& model, const std::byte* hidden, std::span<const int32_t> rows,
                   std::span<float> values) {
  RL_CHECK(model.config().scalar_head && rows.size() == values.size());
  const int64_t width = model.config().hidden, count = static_cast<int64_t>(rows.size());
  const float* w = model.trained().score();
  with_type(model.compute_dtype(), hidden, [&](const auto* h) {
    const int64_t tasks = (count + kRowsPerTask - 1) / kRowsPerTask;
    model.matmul().executor().parallel_for(tasks, [&](int64_t task, int) {
      const int64_t end = std::min(count, (task + 1) * kRowsPerTask);
      for (int64_t i = task * kRowsPerTask; i < end; ++i)
        values[i] = dot(h + rows[i] * width, w, width);
    });
  });
}

void value_backward(const Model& model, const ValueBackwardArgs& args) {
  RL_CHECK(model.config().scalar_head && args.rows.size() == args.d_value.size());
  const int64_t width = model.config().hidden;
  const float* w = model.trained().score();
  float* grads = args.grads + model.layout().head();
  with_type(model.compute_dtype(), args.hidden, [&](const auto* h) {
    const int64_t tasks = (width + kColumnsPerTask - 1) / kColumnsPerTask;
    model.matmul().executor().parallel_for(tasks, [&](int64_t task, int) {
      const int64_t first = task * kColumnsPerTask, end = std::min(width, first + kColumnsPerTask);
      for (size_t i = 0; i < args.rows.size(); ++i) {
        const float d = args.d_value[i];
        const auto* from = h + args.rows[i] * width;
        float* to = args.d_hidden + args.rows[i] * width;
        for (int64_t c = first; c < end; ++c) {
          to[c] += d * w[c];
          grads[c] += d * to_float(from[c]);
        }
      }
    });
  });
}

}  // namespace rl
