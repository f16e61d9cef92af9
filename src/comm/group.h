// Collectives among the ranks of a group. All ranks of a group make the same calls in the same
// order with arrays of the same type and count; a call that differs is an error on both ends.
//
// Reductions have one order (comm/rank_order.h). A call ends within the group's timeout, with a
// result or with an error that names the rank at fault; see Transport for what follows a failure.
// Backends of today reach the host's memory alone: Error(kUnsupported) for another space.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/mesh.h"
#include "comm/rank_order.h"
#include "comm/transport.h"
#include "comm/values.h"

namespace rl {

struct GroupOptions {
  int64_t timeout_ns;                        // of each call; negative: waits without limit
  uint64_t chunk_bytes = uint64_t{1} << 18;  // of a rank's values in one step of a reduction
};

// A namespace of its own, because data/sample.h has groups of samples.
namespace comm {

class Group {
 public:
  // The group of a rank on one axis of the mesh, and that of all ranks. Numbers of ranks in a group
  // count from 0 in the order of their indices on the axis.
  Group(std::shared_ptr<Transport> transport, const Mesh& mesh, Axis axis, GroupOptions options);
  Group(std::shared_ptr<Transport> transport, GroupOptions options);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::string& axis() const { return axis_; }  // its name; "all" for that of all ranks
  // Of working memory, which is allocated once.
  static uint64_t scratch_bytes(int size, const GroupOptions& options);

  // The part of `count` values that reduce_scatter leaves to this rank.
  Piece own_piece(uint64_t count) const { return piece_of(count, rank(), size()); }

  // Afterwards values are those of all ranks, reduced.
  void all_reduce(const Values& values, Reduction reduction = Reduction::kSum);
  // Afterwards this rank's piece is reduced. The others are as before.
  void reduce_scatter(const Values& values, Reduction reduction = Reduction::kSum);
  // Each rank gives its piece of the values to all others.
  void all_gather(const Values& values);
  // Piece r of `from` goes to piece rank() of `to` at rank r. Error(kInvalidArgument) unless both
  // have one count, a multiple of size(), and do not overlap.
  void all_to_all(const ConstValues& from, const Values& to);
  // Afterwards values are those of rank `root`.
  void broadcast(const Values& values, int root);
  // Between two ranks; the others take no part.
  void send(const ConstValues& values, int to);
  void receive(const Values& values, int from);
  // Returns when all ranks have come.
  void barrier();

 private:
  Group(std::shared_ptr<Transport> transport, std::vector<int> ranks, std::string axis,
        GroupOptions options);
  class Call;
  void reduce_piece(Call& call, const Values& values, Reduction reduction);
  void gather_pieces(Call& call, const Values& values);
  void require_rank(int rank, const char* call) const;
  void require_other_rank(int rank, const char* call) const;

  std::shared_ptr<Transport> transport_;
  std::vector<int> ranks_;  // their numbers among all ranks
  std::string axis_;
  GroupOptions options_;
  uint64_t channel_;
  int rank_;
  std::vector<std::byte> scratch_;
};

}  // namespace comm

}  // namespace rl
