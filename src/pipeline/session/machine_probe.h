// Measures the rates that estimates of time need (pipeline/plan/step_cost.h), with the ops and the
// threads of a runtime. A rough figure in a fraction of a second: bench/probe.h measures limits.
#pragma once
#include "pipeline/plan/step_cost.h"
#include "pipeline/session/runtime.h"

namespace rl {

// Takes the compute lease. The first call measures, with 96 MiB outside the ledger meanwhile; later
// ones return its rates, so that estimates of one runtime agree.
MachineRates probe_machine(Runtime& runtime);

}  // namespace rl
