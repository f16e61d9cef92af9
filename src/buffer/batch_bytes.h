// A list of samples as bytes, for another process: the content of a buffer file
// (docs/buffer_format.md), so a file may hold them and a buffer may load it.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/sample.h"

namespace rl {

// Neighbours of one ordinal with ascending slots share a document, so order and repetitions are
// kept. Errors of encode_group.
std::string encode_samples(std::span<const SamplePtr> samples);
// The samples in the order of the bytes, which may come from anywhere. name stands for a path in
// errors: kDataLoss and kIncompatible name it and the offset.
std::vector<SamplePtr> decode_samples(std::span<const std::byte> bytes, std::string_view name);

}  // namespace rl
