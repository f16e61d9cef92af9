// Sums over ranks that are divided into groups of neighbours, all of one size
// (parallel.zero_group). They are in the order of all ranks, so they have the bits of one group of
// all (contract N3).
//
// Of each piece of the values a rank in every group is the owner. That of the first group adds up
// what its group has, and sends the sums to that of the next group, which goes on with its own; the
// last one has the sums of all ranks, and they go back from group to group. Chunk by chunk, so that
// the groups work at the same time. Sums of bf16 go on in fp32, are rounded once, by the last
// group, and go back in bf16.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/group.h"

namespace rl::comm {

class GroupedSum {
 public:
  static constexpr int kChannel = 1;  // of both axes
  // The axis context of the mesh has the ranks of a group, and the axis data the groups. Values of
  // a device pass through a buffer in the host's memory; those of one call at a time.
  GroupedSum(std::shared_ptr<Transport> transport, const Mesh& mesh, const GroupOptions& options);
  GroupedSum(const GroupedSum&) = delete;
  GroupedSum& operator=(const GroupedSum&) = delete;

  int rank() const { return within_.rank(); }  // in its group
  int size() const { return within_.size(); }  // of a group
  int group() const { return across_.rank(); }
  int groups() const { return across_.size(); }
  // Of working memory, which the first sum allocates.
  static uint64_t scratch_bytes(int size, const GroupOptions& options);

  // Calls that all ranks of all groups make together, of values in fp32 or bf16 and one piece for
  // each rank of a group. Afterwards the piece of rank() is the sum over all ranks.
  void reduce_scatter(const Values& values, const Pieces& pieces);
  // Afterwards all values are.
  void all_reduce(const Values& values);
  // The same, overlapped (comm/group.h).
  StartedCall start_reduce_scatter(const Values& values, const Pieces& pieces);
  StartedCall start_all_reduce(const Values& values);

  // All of it as gradients. What went between groups is counted as such too.
  Traffic traffic() const;

 private:
  void run(const std::function<void()>& sum);
  StartedCall start(std::function<void()> sum);
  // One call, of whose messages none is checked for itself.
  void run_as(bool overlapped, const std::function<void()>& sum);
  void sum_pieces(const Values& values, const Pieces& pieces);
  void sum_all(const Values& values);
  // What the ranks of this group have of a chunk.
  void add_chunk(std::span<const std::byte* const> parts, const Values& chunk);
  void return_sums(const Values& own);
  bool is_first() const { return group() == 0; }
  bool is_last() const { return group() + 1 == groups(); }

  const uint64_t chunk_bytes_;
  const MemoryCheck memory_;
  Group within_, across_;
  std::vector<float> sums_;             // of a chunk, over this group and those before
  std::unique_ptr<CallQueue> started_;  // from the first start on
};

}  // namespace rl::comm
