#include "model/ranks/context_ranks.h"

#include <span>

namespace rl {
namespace {

Pieces scaled(const ContextRanks::Units& units) {
  Pieces all = units.pieces;
  for (uint64_t& bound : all.bounds) bound *= units.each;
  return all;
}

}  // namespace

double logprob_bound(const ContextRule& rule, Dtype compute) {
  if (!rule.in_ring()) return 0;
  return compute == Dtype::kF32 ? 3e-4 : 1.5;
}

void ContextRanks::gather(std::byte* data, const Units& units) const {
  if (size() == 1) return;
  const Pieces bytes = scaled(units);
  group_->count_as(TrafficUse::kContext);
  const std::span all(data, static_cast<size_t>(bytes.count()));
  group_->all_gather(values_of(all, space_), bytes);
}

void ContextRanks::sum_own(float* data, const Units& units) const {
  if (size() == 1) return;
  const Pieces floats = scaled(units);
  group_->count_as(TrafficUse::kContext);
  const std::span all(data, static_cast<size_t>(floats.count()));
  group_->reduce_scatter(values_of(all, space_), floats);
}

void ContextRanks::exchange(const ExchangeRoom& room, uint64_t piece_bytes) const {
  const auto bytes = static_cast<size_t>(piece_bytes) * static_cast<size_t>(size());
  if (bytes == 0) return;
  group_->count_as(TrafficUse::kContext);
  group_->all_to_all(const_values_of(std::span<const std::byte>(room.out, bytes), space_),
                     values_of(std::span(room.in, bytes), space_));
}

StartedCall ContextRanks::start_shift(std::span<const std::byte> out,
                                      std::span<std::byte> in) const {
  group_->count_as(TrafficUse::kContext);
  return group_->start_shift(const_values_of(out, space_), values_of(in, space_));
}

}  // namespace rl
