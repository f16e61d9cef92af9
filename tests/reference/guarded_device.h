// The reference device with memory of its own, for tests only: its arenas are protected pages that
// open while one of its ops runs. Whatever code above the op border touches an element of the
// device ends the test with a message that has the address. Two more rules of ops/op_table.h are
// checked before an op runs, and are an Error(kInternal) naming it: pointers to elements are memory
// of this device, spans are memory of the host. What a callback of an op reads, it reads with the
// pages closed.
#pragma once
#include "reference_device.h"

namespace rl::testing {

// A kind that DLPack keeps for devices like this one.
inline constexpr DeviceId kGuardedId{12, 3};

const Device& guarded_device();
const OpTable& guarded_ops();

}  // namespace rl::testing
