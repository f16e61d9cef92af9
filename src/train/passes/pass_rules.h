// What one pass over samples may be given and how it is cut: the limits of a sample and the sizes
// of a micro-batch, from the options of a role and the model that the pass runs through.
#pragma once
#include <span>

#include "model/model.h"
#include "train/batch/micro_batch_plan.h"
#include "train/batch/sample_check.h"
#include "train/options/step_options.h"

namespace rl {

// Where the last token of a sample is a row as well, it may have one less.
SampleLimits with_last_row(SampleLimits limits);

SampleLimits training_limits(const StepOptions& options, const Model& model);
PackRules training_rules(const StepOptions& options, const Model& model);

// Forward only. By tokens, packed and in order, without padding: none of it would change a result.
enum class ForwardOf : uint8_t { kOwn, kReference };
SampleLimits forward_limits(const StepOptions& options, const Model& model, ForwardOf of);
PackRules forward_rules(const StepOptions& options, const Model& model, ForwardOf of);

// The order that samples are trained in, whatever order they came in.
bool trains_before(const Sample& a, const Sample& b);

// Calls visit(items) for every minibatch of every epoch, in order; items are in training order.
// Each `together` neighbours, of which there are a whole number, count as one and stay together.
template <typename Visit>
void for_each_minibatch(const StepOptions& options, std::span<const PackItem> items,
                        const Visit& visit, int64_t together = 1) {
  const int64_t count = static_cast<int64_t>(items.size()) / together;
  const int64_t parts = options.batch.minibatches(count);
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = together * (count * part / parts);
      const int64_t end = together * (count * (part + 1) / parts);
      visit(items.subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)));
    }
  }
}

}  // namespace rl
