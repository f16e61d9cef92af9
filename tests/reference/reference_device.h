// The reference device, for tests only: every op of RL_OPS written straight from its contract, with
// one thread, no oneDNN and sums in double. It holds the layer code above the op border to the
// contracts: whatever that code takes for granted of the CPU device shows here. Values are rounded
// where the contracts round them, except that attention weights stay unrounded in bf16, which the
// contract leaves to the machine.
//
// Its packed form is plain: W row-major as (n, k) in the compute dtype, rows in the order of the
// weight's layout.
#pragma once
#include "ops/compute.h"

namespace rl::testing {

const Device& reference_device();
const OpTable& reference_ops();

// The ops, in the file of their kind.
namespace reference {

#define RL_OP_DECLARE(name, Args) void name(Compute& compute, const Args& args);
RL_OPS(RL_OP_DECLARE)
#undef RL_OP_DECLARE

}  // namespace reference
}  // namespace rl::testing
