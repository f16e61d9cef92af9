// How values of a device come to other ranks (comm/staged_values.h): by copies of its Compute.
#pragma once
#include <memory>

#include "comm/staged_values.h"

namespace rl {

class Compute;

// Of one group of ranks, which ends before the Compute does.
std::shared_ptr<StagedValues> staging_of(Compute& compute);

}  // namespace rl
