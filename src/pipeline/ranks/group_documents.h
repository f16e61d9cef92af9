// Groups as the bytes in which they go from rank to rank.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "data/sample.h"

namespace rl {

// Of a batch whose groups are one after the other.
std::vector<std::byte> encode_groups(std::span<const SamplePtr> batch);
// The groups of one batch or of several one after the other, by (ordinal, slot). Aligned to 8
// bytes. kDataLoss for what is not such bytes.
std::vector<SamplePtr> decode_groups(std::span<const std::byte> all);

}  // namespace rl
