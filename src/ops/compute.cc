// Every device checks its table here.
#include "ops/compute.h"

namespace rl {

Compute::Compute(const OpTable& ops, const ComputeTraits& traits) : ops_(ops), traits_(traits) {
  require_complete(ops, traits.device.name());
}

}  // namespace rl
