// With a rank for each part an all-reduce adds in the order of parts. Otherwise every rank has the
// arrays of all parts and adds them itself.
#include "model/ranks/tensor_ranks.h"

#include <algorithm>
#include <span>

#include "core/error.h"
#include "ops/compute.h"

namespace rl {

const float* TensorRanks::sum(Compute& compute, const PartSums& parts) const {
  const TensorSplit& split = parts.split();
  const auto floats = static_cast<uint64_t>(parts.floats());
  RL_CHECK(split.ranks() == size());
  if (floats == 0) return parts.all();
  if (PartSums::slots(split) == 1) {
    if (size() > 1) group_->all_reduce(values_of(std::span(parts.all(), floats), compute.space()));
    return parts.all();
  }
  const auto all = floats * static_cast<uint64_t>(split.parts);
  if (size() > 1) group_->all_gather(values_of(std::span(parts.all(), all), compute.space()));
  for (int64_t p = 1; p < split.parts; ++p) {
    scale_add(compute,
              {{1.0f, parts.all(), 1.0f, parts.all() + p * parts.floats()}, parts.floats()});
  }
  return parts.all();
}

void TensorRanks::gather_bytes(std::span<std::byte> pieces) const {
  if (size() > 1 && !pieces.empty()) group_->all_gather(values_of(pieces));
}

void TensorRanks::gather_bytes(std::span<std::byte> all, const Pieces& pieces,
                               MemorySpace space) const {
  if (size() > 1) group_->all_gather(values_of(all, space), pieces);
}

void TensorRanks::gather_weights(std::span<std::byte> all, const Pieces& pieces,
                                 MemorySpace space) const {
  if (size() == 1) return;
  group_->count_as(TrafficUse::kWeights);
  group_->all_gather(values_of(all, space), pieces);
  group_->count_as(TrafficUse::kTensor);
}

void TensorRanks::broadcast_bytes(std::span<std::byte> bytes) const {
  if (size() > 1 && !bytes.empty()) group_->broadcast(values_of(bytes), 0);
}

std::vector<double> TensorRanks::gather(const std::vector<double>& own) const {
  if (size() == 1) return own;
  std::vector<double> all(own.size() * static_cast<size_t>(size()));
  std::ranges::copy(own, all.begin() + static_cast<ptrdiff_t>(own.size()) * rank());
  gather_bytes(std::as_writable_bytes(std::span(all)));
  return all;
}

std::vector<std::string> TensorRanks::gather_texts(const std::string& own) const {
  if (size() == 1) return {own};
  std::vector<uint64_t> lengths(static_cast<size_t>(size()));
  lengths[static_cast<size_t>(rank())] = own.size();
  gather_bytes(std::as_writable_bytes(std::span(lengths)));
  Pieces pieces{{0}};
  for (const uint64_t length : lengths) pieces.bounds.push_back(pieces.bounds.back() + length);
  std::string all(pieces.count(), ' ');
  own.copy(all.data() + pieces[rank()].begin, own.size());
  gather_bytes(std::as_writable_bytes(std::span(all)), pieces);
  std::vector<std::string> texts;
  for (int r = 0; r < size(); ++r) texts.push_back(all.substr(pieces[r].begin, pieces[r].count()));
  return texts;
}

// As integers, so that -0 and NaN keep their bits.
void TensorRanks::merge_bytes(std::span<std::byte> words, MemorySpace space) const {
  if (size() == 1 || words.empty()) return;
  RL_CHECK(words.size() % sizeof(int32_t) == 0);
  group_->all_reduce({words.data(), words.size() / sizeof(int32_t), Element::kI32, space});
}

void TensorRanks::reduce_scatter(const Values& values, const Pieces& pieces) const {
  RL_CHECK(size() > 1);
  group_->reduce_scatter(values, pieces);
}

void TensorRanks::exchange(const ConstDividedValues& out, const DividedValues& in) const {
  RL_CHECK(size() > 1);
  group_->all_to_all(out, in);
}

}  // namespace rl
