// The data-parallel ranks of one rank's trainer. Each has all samples of a batch, computes a part
// of them, and has from the others what it did not compute. So all of them see the same sums, take
// the same optimizer steps and have the same weights, bit for bit. Sums are in the order of ranks,
// but for those of gradients where the group has messages of devices with an order of their own.
//
// All functions but fail() are calls that the ranks make together (comm/group.h), and do nothing
// for one rank.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "comm/group.h"
#include "comm/grouped_sum.h"
#include "core/function_ref.h"

namespace rl {

using PartVisitor = FunctionRef<void(std::span<const std::byte> part)>;

class DataRanks {
 public:
  DataRanks() = default;  // one rank
  // Both outlive it.
  DataRanks(comm::Group& group, Transport& transport) : DataRanks(group, group, transport) {}
  // all: of the ranks that compute parts, and of those that divide the model with them. They too
  // are given the whole batch, agree on it, and fail together.
  DataRanks(comm::Group& group, comm::Group& all, Transport& transport)
      : group_(&group), all_(&all), transport_(&transport) {}
  // The same, where so many neighbours divide the rows of one part (model/ranks/context_ranks.h).
  DataRanks divided_by(int ranks) const {
    DataRanks out = *this;
    out.ranks_of_part_ = ranks;
    return out;
  }

  // The same, where groups of neighbours divide what parallel.zero_stage says: `own` is that of
  // this rank, and `sums` adds over all of them. Both outlive it.
  DataRanks divided_by_groups(comm::Group& own, comm::GroupedSum& sums) const {
    DataRanks out = *this;
    out.own_group_ = &own;
    out.sums_ = &sums;
    return out;
  }
  // Those that divide it with this rank: its group, or all of them.
  DataRanks dividing() const {
    return own_group_ != nullptr ? DataRanks(*own_group_, *all_, *transport_) : *this;
  }
  // Whether this rank's group is the first one, or the only one.
  bool in_first_group() const { return sums_ == nullptr || sums_->group() == 0; }

  int rank() const { return group_ != nullptr ? group_->rank() : 0; }
  int size() const { return group_ != nullptr ? group_->size() : 1; }
  bool alone() const { return size() == 1; }
  // Which of the parts of a training batch this rank has, alone or with the ranks that divide its
  // rows, and how many parts there are. Of those ranks the first alone counts micro-batches and
  // tokens.
  int part() const { return rank() / ranks_of_part_; }
  int parts() const { return size() / ranks_of_part_; }
  bool counts_part() const { return rank() % ranks_of_part_ == 0; }
  // With those that divide the model: all of the run.
  DataRanks of_run() const { return all_ != nullptr ? DataRanks(*all_, *transport_) : DataRanks(); }
  // Whether other ranks take part in its steps, in whatever way.
  bool has_others() const { return all_ != nullptr && all_->size() > 1; }

  // What each rank has, by rank.
  template <typename T>
  std::vector<T> gather(const T& own) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<size_t>(size()), own);
    gather_bytes(std::as_writable_bytes(std::span(all)));
    return all;
  }
  // What all ranks have, those of rank 0 first.
  template <typename T>
  std::vector<T> gather_lists(std::span<const T> own) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::vector<uint64_t> counts = gather<uint64_t>(own.size());
    uint64_t longest = 0;
    for (const uint64_t count : counts) longest = std::max(longest, count);
    std::vector<T> padded(static_cast<size_t>(longest) * counts.size());
    std::copy(own.begin(), own.end(), padded.begin() + static_cast<ptrdiff_t>(longest) * rank());
    if (!padded.empty()) gather_bytes(std::as_writable_bytes(std::span(padded)));
    std::vector<T> all;
    for (size_t r = 0; r < counts.size(); ++r) {
      const auto first = padded.begin() + static_cast<ptrdiff_t>(r * longest);
      all.insert(all.end(), first, first + static_cast<ptrdiff_t>(counts[r]));
    }
    return all;
  }
  // Each value is 0 on all ranks but one, which afterwards all of them have.
  void fill(std::span<float> values) const;
  // Afterwards all ranks have the bytes of the first one.
  void broadcast_bytes(std::span<std::byte> bytes) const;
  // Gradients: afterwards they are the sums over all ranks, or only those of this rank's piece are,
  // of one for each of dividing().
  void sum(const Values& values) const;
  void sum_pieces(const Values& values, const Pieces& pieces) const;
  // The same, overlapped (comm/group.h). One rank has nothing to wait for.
  StartedCall start_sum(const Values& values) const;
  StartedCall start_sum_pieces(const Values& values, const Pieces& pieces) const;
  // Between two ranks, of gradients.
  void send(const Values& values, int to) const;
  void receive(const Values& values, int from) const;
  // Parameters: each rank gives the others its piece.
  void gather_pieces(const Values& values, const Pieces& pieces) const;
  StartedCall start_gather_pieces(const Values& values, const Pieces& pieces) const;
  // Bytes of which each rank has a part, which `read` calls its argument with: rank 0 visits all of
  // them, by rank. What its visitor throws is thrown once all parts have come.
  void visit_parts(uint64_t own_bytes, FunctionRef<void(PartVisitor visit)> read,
                   PartVisitor visit) const;
  // What this rank has exchanged.
  Traffic traffic() const;

  // Runs the checks of a batch. An error of this rank is thrown once the others know of it, which
  // are Error(kFailedPrecondition) then: nothing has begun. Error(kConflict) if a rank has another
  // batch, by the digest that each computes of its own.
  void agree(FunctionRef<void()> check, FunctionRef<uint64_t()> digest) const;
  // The same of a checkpoint that all ranks load; Error(kIncompatible) if a rank has another one.
  void agree_to_load(FunctionRef<void()> check, FunctionRef<uint64_t()> digest) const;
  // In place of agree(), for a batch that this rank has refused before.
  void refuse() const;
  // Ends the run of all ranks: each is a RankError from now on that names this one.
  void fail(const char* why) const;

 private:
  struct Subject;
  void agree_on(const Subject& subject, FunctionRef<void()> check,
                FunctionRef<uint64_t()> digest) const;
  void gather_bytes(std::span<std::byte> pieces) const;
  comm::Group& counted_as(TrafficUse use) const;
  void send_part(FunctionRef<void(PartVisitor visit)> read) const;

  comm::Group* group_ = nullptr;  // null: one rank
  comm::Group* all_ = nullptr;
  Transport* transport_ = nullptr;
  comm::Group* own_group_ = nullptr;  // null: all ranks divide it, or nothing is divided
  comm::GroupedSum* sums_ = nullptr;
  int ranks_of_part_ = 1;
};

// Runs a part of a step in which the others wait for this rank: an error that only it has ends
// their run too.
template <typename Call>
auto run_together(const DataRanks& ranks, const Call& call) {
  if (!ranks.has_others()) return call();
  try {
    return call();
  } catch (const RankError&) {
    throw;
  } catch (const std::exception& e) {
    ranks.fail(e.what());
    throw;
  }
}

}  // namespace rl
