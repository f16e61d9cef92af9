#include "train/checkpoint/state_parts.h"

#include <exception>
#include <utility>

#include "core/error.h"

namespace rl {

StateParts::StateParts(const DataRanks& ranks, std::vector<StateTensor> tensors)
    : ranks_(ranks), tensors_(std::move(tensors)) {
  for (const StateTensor& tensor : tensors_) RL_CHECK(tensor.first.has_value());
}

StateParts::~StateParts() {
  try {
    while (next_ < tensors_.size()) pass_next([](std::span<const std::byte>) {});
  } catch (const std::exception&) {
    next_ = tensors_.size();  // the run of all ranks has ended, which the next call says
  }
}

// Counted first: after an error of the visitor its tensor has passed.
void StateParts::pass_next(PartVisitor visit) {
  const DeviceBytes& own = tensors_[next_++].bytes;
  ranks_.visit_parts(
      own.size(), [&](PartVisitor visitor) { own.visit(visitor); }, visit);
}

void StateParts::visit(const StateTensor& tensor, PartVisitor visit) {
  if (!tensor.first) return tensor.bytes.visit(visit);
  RL_CHECK(next_ < tensors_.size() && tensors_[next_].name == tensor.name);
  pass_next(visit);
}

void StateParts::give() {
  RL_CHECK(ranks_.rank() != 0);
  while (next_ < tensors_.size()) pass_next([](std::span<const std::byte>) {});
}

bool announce_checkpoint(const DataRanks& ranks, bool comes) {
  return ranks.gather<uint64_t>(comes ? 1 : 0).front() != 0;
}

}  // namespace rl
