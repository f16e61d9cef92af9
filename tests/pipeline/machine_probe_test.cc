// The probe of the machine: rates that a machine can have, and nothing left behind.
#include "pipeline/session/machine_probe.h"

#include <gtest/gtest.h>

namespace rl {
namespace {

TEST(MachineProbe, MeasuresRatesOfThisMachine) {
  OptionSet o;
  o.set_i64("runtime.threads", 2);
  Runtime runtime(o);
  const uint64_t held = runtime.ledger().bytes();
  const MachineRates rates = probe_machine(runtime);
  EXPECT_EQ(runtime.ledger().bytes(), held);
  EXPECT_EQ(rates.threads, 2);
  EXPECT_GT(rates.f32_flops, 1e8);
  EXPECT_LT(rates.f32_flops, 1e14);
  EXPECT_GT(rates.bf16_flops, 1e7);
  EXPECT_LT(rates.bf16_flops, 1e15);
  EXPECT_GT(rates.read_bytes_per_s, 1e7);
  EXPECT_LT(rates.read_bytes_per_s, 1e13);
  EXPECT_GT(rates.copy_bytes_per_s, 1e7);
  EXPECT_LT(rates.copy_bytes_per_s, 1e13);
  const ComputeLease free(runtime, "a test");  // the probe's has ended
}

}  // namespace
}  // namespace rl
