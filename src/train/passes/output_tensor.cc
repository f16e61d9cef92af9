// The ledger of a model's arenas knows the memory of its host.
#include "train/passes/output_tensor.h"

#include <utility>

#include "core/arena.h"
#include "ops/compute.h"

namespace rl {

OwnedTensor make_output(const Model& model, ElementType type, std::vector<int64_t> shape) {
  const ArenaLedger* const ledger = model.compute().ledger();
  return make_tensor(type, std::move(shape), ledger != nullptr ? ledger->memory() : nullptr);
}

}  // namespace rl
