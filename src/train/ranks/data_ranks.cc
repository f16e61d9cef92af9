#include "train/ranks/data_ranks.h"

#include <algorithm>
#include <exception>

#include "core/error.h"

namespace rl {
namespace {

constexpr size_t kPartBytes = size_t{4} << 20;

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

}  // namespace

// What ranks agree on, in words that follow "rank N".
struct DataRanks::Subject {
  const char *refused, *differs;
  Code if_differs;

  void require(const std::vector<Agreement>& all, int own) const {
    for (size_t r = 0; r < all.size(); ++r) {
      if (all[r].refused == 0) continue;
      throw Error(Code::kFailedPrecondition, str("rank ", r, refused))
          .with_location(str("rank ", r));
    }
    for (size_t r = 1; r < all.size(); ++r) {
      if (all[r].digest == all[0].digest) continue;
      throw Error(if_differs, str("rank ", r, differs, "; this is rank ", own))
          .with_location(str("rank ", r));
    }
  }
};

comm::Group& DataRanks::counted_as(TrafficUse use) const {
  group_->count_as(use);
  return *group_;
}

void DataRanks::gather_bytes(std::span<std::byte> pieces) const {
  if (!alone()) counted_as(TrafficUse::kOther).all_gather(values_of(pieces));
}

void DataRanks::broadcast_bytes(std::span<std::byte> bytes) const {
  if (!alone()) counted_as(TrafficUse::kOther).broadcast(values_of(bytes), 0);
}

// Bits are added as integers, which changes none of them.
void DataRanks::fill(std::span<float> values) const {
  if (alone() || values.empty()) return;
  Values bits = values_of(values);
  bits.element = Element::kI32;
  counted_as(TrafficUse::kOther).all_reduce(bits);
}

void DataRanks::sum(const Values& values) const {
  if (sums_ != nullptr) return sums_->all_reduce(values);
  if (!alone()) counted_as(TrafficUse::kGradients).all_reduce(values);
}

void DataRanks::sum_pieces(const Values& values, const Pieces& pieces) const {
  if (sums_ != nullptr) return sums_->reduce_scatter(values, pieces);
  if (!alone()) counted_as(TrafficUse::kGradients).reduce_scatter(values, pieces);
}

StartedCall DataRanks::start_sum(const Values& values) const {
  if (sums_ != nullptr) return sums_->start_all_reduce(values);
  if (alone()) return {};
  return counted_as(TrafficUse::kGradients).start_all_reduce(values);
}

StartedCall DataRanks::start_sum_pieces(const Values& values, const Pieces& pieces) const {
  if (sums_ != nullptr) return sums_->start_reduce_scatter(values, pieces);
  if (alone()) return {};
  return counted_as(TrafficUse::kGradients).start_reduce_scatter(values, pieces);
}

void DataRanks::send(const Values& values, int to) const {
  counted_as(TrafficUse::kGradients)
      .send({values.data, values.count, values.element, values.space}, to);
}

void DataRanks::receive(const Values& values, int from) const {
  counted_as(TrafficUse::kGradients).receive(values, from);
}

void DataRanks::gather_pieces(const Values& values, const Pieces& pieces) const {
  if (!alone()) counted_as(TrafficUse::kParameters).all_gather(values, pieces);
}

StartedCall DataRanks::start_gather_pieces(const Values& values, const Pieces& pieces) const {
  if (alone()) return {};
  return counted_as(TrafficUse::kParameters).start_all_gather(values, pieces);
}

Traffic DataRanks::traffic() const {
  Traffic all = group_ != nullptr ? group_->traffic() : Traffic{};
  if (own_group_ != nullptr) all += own_group_->traffic();
  if (sums_ != nullptr) all += sums_->traffic();
  return all;
}

// In messages of kPartBytes, whatever the parts that `read` has.
void DataRanks::send_part(FunctionRef<void(PartVisitor visit)> read) const {
  read([&](std::span<const std::byte> part) {
    while (!part.empty()) {
      const std::span<const std::byte> next = part.first(std::min(part.size(), kPartBytes));
      counted_as(TrafficUse::kStates).send(const_values_of(next), 0);
      part = part.subspan(next.size());
    }
  });
}

void DataRanks::visit_parts(uint64_t own_bytes, FunctionRef<void(PartVisitor visit)> read,
                            PartVisitor visit) const {
  const std::vector<uint64_t> sizes = gather(own_bytes);
  if (rank() != 0) return send_part(read);
  std::exception_ptr failure;
  const auto offer = [&](std::span<const std::byte> part) {
    if (failure != nullptr) return;
    try {
      visit(part);
    } catch (...) {
      failure = std::current_exception();
    }
  };
  read(offer);
  std::vector<std::byte> buffer;
  for (int from = 1; from < size(); ++from) {
    for (uint64_t left = sizes[static_cast<size_t>(from)]; left > 0; left -= buffer.size()) {
      buffer.resize(static_cast<size_t>(std::min<uint64_t>(left, kPartBytes)));
      counted_as(TrafficUse::kStates).receive(values_of(std::span(buffer)), from);
      offer(buffer);
    }
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

void DataRanks::agree(FunctionRef<void()> check, FunctionRef<uint64_t()> digest) const {
  agree_on({" refused the batch, so no rank trains on it",
            " trains on another batch than rank 0; all ranks are given the whole batch",
            Code::kConflict},
           check, digest);
}

void DataRanks::agree_to_load(FunctionRef<void()> check, FunctionRef<uint64_t()> digest) const {
  agree_on({" cannot load the checkpoint, so no rank does", " loads another checkpoint than rank 0",
            Code::kIncompatible},
           check, digest);
}

void DataRanks::agree_on(const Subject& subject, FunctionRef<void()> check,
                         FunctionRef<uint64_t()> digest) const {
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
  subject.require(all, all_->rank());
}

void DataRanks::refuse() const {
  if (has_others()) rl::gather(*all_, {.refused = 1});
}

void DataRanks::fail(const char* why) const {
  if (has_others()) transport_->fail(why);
}

}  // namespace rl
