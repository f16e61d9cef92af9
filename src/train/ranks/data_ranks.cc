#include "train/ranks/data_ranks.h"

#include <exception>

#include "core/error.h"

namespace rl {
namespace {

struct Agreement {
  uint64_t digest = 0;
  uint64_t refused = 0;
};

// What all ranks say, by their number.
std::vector<Agreement> gather(comm::Group& all, const Agreement& own) {
  std::vector<Agreement> said(static_cast<size_t>(all.size()), own);
  all.all_gather(values_of(std::as_writable_bytes(std::span(said))));
  return said;
}

void require_agreement(const std::vector<Agreement>& all, int own) {
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].refused == 0) continue;
    throw Error(Code::kFailedPrecondition,
                str("rank ", r, " refused the batch, so no rank trains on it"))
        .with_location(str("rank ", r));
  }
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r].digest == all[0].digest) continue;
    throw Error(Code::kConflict, str("rank ", r,
                                     " trains on another batch than rank 0; all ranks "
                                     "are given the whole batch; this is rank ",
                                     own))
        .with_location(str("rank ", r));
  }
}

}  // namespace

void DataRanks::gather_bytes(std::span<std::byte> pieces) const {
  if (!alone()) group_->all_gather(values_of(pieces));
}

// Bits are added as integers, which changes none of them.
void DataRanks::fill(std::span<float> values) const {
  if (alone() || values.empty()) return;
  Values bits = values_of(values);
  bits.element = Element::kI32;
  group_->all_reduce(bits);
}

void DataRanks::sum(const Values& values) const {
  if (!alone()) group_->all_reduce(values);
}

void DataRanks::agree(FunctionRef<void()> check, FunctionRef<uint64_t()> digest) const {
  if (!has_others()) return check();
  std::exception_ptr refusal;
  Agreement own;
  try {
    check();
    own.digest = digest();
  } catch (...) {
    refusal = std::current_exception();
    own.refused = 1;
  }
  const std::vector<Agreement> all = rl::gather(*all_, own);
  if (refusal != nullptr) std::rethrow_exception(refusal);
  require_agreement(all, all_->rank());
}

void DataRanks::refuse() const {
  if (has_others()) rl::gather(*all_, {.refused = 1});
}

void DataRanks::fail(const char* why) const {
  if (has_others()) transport_->fail(why);
}

}  // namespace rl
