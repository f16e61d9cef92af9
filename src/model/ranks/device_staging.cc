#include "model/ranks/device_staging.h"

#include "ops/compute.h"

namespace rl {
namespace {

class ComputeCopies final : public DeviceCopies {
 public:
  explicit ComputeCopies(Compute& compute) : compute_(compute) {}
  void to_host(const std::byte* device, std::span<std::byte> host) override {
    copy_bytes(compute_, {device, host.data(), host.size()});
  }
  void to_device(std::span<const std::byte> host, std::byte* device) override {
    copy_bytes(compute_, {host.data(), device, host.size()});
  }
  void within(std::span<const std::byte> from, std::byte* to) override {
    copy_bytes(compute_, {from.data(), to, from.size()});
  }

 private:
  Compute& compute_;
};

}  // namespace

std::shared_ptr<StagedValues> staging_of(Compute& compute) {
  return std::make_shared<StagedValues>(std::make_unique<ComputeCopies>(compute), compute.ledger());
}

}  // namespace rl
