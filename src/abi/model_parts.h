// Shared by engine, trainer and pipeline at the ABI: each is made from a model, with the model's
// options unless others are given; and batches, which several of them return.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/payloads.h"

namespace rl::abi {

template <typename Session, typename Handle>
rl_status create_on_model(rl_model* model, const rl_options* options, PlanUse part, Handle** out,
                          rl_error** err) {
  clear(out);
  return guarded(err, model, [&] {
    const auto owner = use(model, "model");
    const Settings settings = options_or(options, owner->options());
    require(out, "out");
    owner->require_use(part);
    *out = issue<Handle>(std::make_shared<Session>(owner, settings));
  });
}

inline rl_batch* make_batch(std::vector<SamplePtr> samples) {
  return issue<rl_batch>(std::make_shared<BatchBox>(std::move(samples)));
}

}  // namespace rl::abi
