// Reductions over ranks in their written order (contract N3). An element of the result is
//   ((x0 + x1) + x2) + ...
// over the elements x of ranks 0, 1, 2, ... of the group. fp32 is added in fp32; bf16 is added in
// fp32 and rounded once, at the end; integers wrap around. The order depends on nothing else:
// neither on time, nor on the backend, nor on how the values are cut into chunks.
#pragma once
#include <span>

#include "comm/values.h"

namespace rl {

// The maximum of floating-point numbers of which one is NaN is NaN.
enum class Reduction : uint8_t { kSum = 0, kMax = 1 };

// parts[r] are the values of rank r, `out.count` each. out may be one of them. Error(kUnsupported)
// for bytes, which have no arithmetic.
void reduce_in_rank_order(Reduction reduction, std::span<const std::byte* const> parts,
                          const Values& out);

// A sum that goes on over several lists of ranks: `before` are the sums of the ranks before these,
// in fp32; null: there are none. parts are in fp32 or bf16, out is in fp32, with sums that are not
// rounded, or as the parts are. out may be `before` or one of the parts. Error(kUnsupported) for
// other types.
void add_in_rank_order(const float* before, std::span<const std::byte* const> parts,
                       Element element, const Values& out);

}  // namespace rl
