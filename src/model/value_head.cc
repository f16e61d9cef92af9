// The checks of the caller's arrays; the arithmetic is an op of the device.
#include "model/value_head.h"

#include "core/error.h"
#include "ops/compute.h"

namespace rl {

void value_forward(const Model& model, const std::byte* hidden, std::span<const int32_t> rows,
                   std::span<float> values) {
  RL_CHECK(model.config().scalar_head && rows.size() == values.size());
  value_rows(model.compute(),
             {hidden, rows, model.trained().score(), model.config().hidden, values});
}

void value_backward(const Model& model, const ValueBackwardArgs& args) {
  RL_CHECK(model.config().scalar_head && args.rows.size() == args.d_value.size());
  const WeightLayout& layout = args.layout != nullptr ? *args.layout : model.layout();
  const int64_t at = layout.gradient_of(layout.head()), hidden = model.config().hidden;
  const auto add = [&](float* grad) {
    value_rows_backward(model.compute(), {args.hidden, args.rows, model.trained().score(), hidden,
                                          args.d_value, args.d_hidden, grad});
  };
  at >= 0 ? args.grads.add(at, hidden, add) : add(nullptr);
}

}  // namespace rl
