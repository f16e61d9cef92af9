// Every device checks its table here.
#include "ops/compute.h"

namespace rl {

namespace {

[[noreturn]] void refuse_streams(const Device& device) {
  throw Error(Code::kUnsupported, str("device ", device.name(), " has no streams"));
}

}  // namespace

void Compute::follow(void*) { refuse_streams(device()); }
void Compute::lead(void*) { refuse_streams(device()); }

std::shared_ptr<DeviceMessages> Compute::make_messages() {
  throw Error(Code::kUnsupported, str("device ", device().name(), " has no messages of its own"));
}

Compute::Compute(const OpTable& ops, const ComputeTraits& traits) : ops_(ops), traits_(traits) {
  require_complete(ops, traits.device.name());
}

}  // namespace rl
