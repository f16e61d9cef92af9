#include "model/context_ranks.h"

#include <span>

namespace rl {
namespace {

Pieces scaled(const ContextRanks::Units& units) {
  Pieces all = units.pieces;
  for (uint64_t& bound : all.bounds) bound *= units.each;
  return all;
}

}  // namespace

void ContextRanks::gather(std::byte* data, const Units& units) const {
  if (size() == 1) return;
  const Pieces bytes = scaled(units);
  group_->count_as(TrafficUse::kContext);
  group_->all_gather(values_of(std::span(data, static_cast<size_t>(bytes.count()))), bytes);
}

void ContextRanks::sum_own(float* data, const Units& units) const {
  if (size() == 1) return;
  const Pieces floats = scaled(units);
  group_->count_as(TrafficUse::kContext);
  group_->reduce_scatter(values_of(std::span(data, static_cast<size_t>(floats.count()))), floats);
}

void ContextRanks::exchange(const std::byte* from, std::byte* to, uint64_t piece_bytes) const {
  const auto bytes = static_cast<size_t>(piece_bytes) * static_cast<size_t>(size());
  if (bytes == 0) return;
  group_->count_as(TrafficUse::kContext);
  group_->all_to_all(const_values_of(std::span(from, bytes)), values_of(std::span(to, bytes)));
}

}  // namespace rl
