// The limits of a sample and the sizes of a micro-batch in one pass, from the options of a role
// and the model that the pass runs through.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "model/model.h"
#include "train/batch/micro_batch_plan.h"
#include "train/batch/sample_check.h"
#include "train/options/step_options.h"

namespace rl {

// If the last token of a sample is a row too, the sample may have one token less.
SampleLimits with_last_row(SampleLimits limits);

SampleLimits training_limits(const StepOptions& options, const Model& model);
PackRules training_rules(const StepOptions& options, const Model& model);

// Forward only: split by tokens, packed, in order, without padding. None of it changes a result.
enum class ForwardOf : uint8_t { kOwn, kReference };
SampleLimits forward_limits(const StepOptions& options, const Model& model, ForwardOf of);
PackRules forward_rules(const StepOptions& options, const Model& model, ForwardOf of);

// The order in which samples are trained on, whatever order they came in.
bool trains_before(const Sample& a, const Sample& b);

// Sorts samples, which have members sample and carries_loss, into training order, and makes their
// items; one that carries no loss has no rows.
template <typename T>
void order_items(std::span<const T> samples, WantedTokens wanted, std::vector<const T*>& ordered,
                 std::vector<PackItem>& items) {
  ordered.clear();
  for (const T& s : samples) ordered.push_back(&s);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const T* a, const T* b) { return trains_before(*a->sample, *b->sample); });
  items.clear();
  for (const T* s : ordered) {
    const auto index = static_cast<int32_t>(items.size());
    items.push_back(make_pack_item(*s->sample, index, wanted));
    if (!s->carries_loss) items.back().rows = items.back().wanted = 0;
  }
}

// Calls visit(items) for every minibatch of every epoch, in order; items are in training order.
// Each run of `together` neighbours counts as one and is never split; items.size() is a multiple
// of it.
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
