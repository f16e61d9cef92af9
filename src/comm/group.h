// Collectives among the ranks of a group. All ranks of a group make the same calls in the same
// order with arrays of the same type and count; a call that differs is an error on both ends.
//
// Reductions have one order (comm/rank_order.h), but for sums that GroupOptions leaves to messages
// of devices. A call ends within the group's timeout, with a result or with an error that names the
// rank at fault; see Transport for what follows a failure. A Transport reaches the host's memory
// alone. Values of a device go from device to device where GroupOptions has messages of devices
// (comm/device_steps.h), or else pass through a buffer in the host's memory where it has one
// (comm/staged_values.h); the bits are the same. Error(kUnsupported) in a group with neither. The
// arrays of one call are in one memory.
//
// A collective is called, or started and later waited for. Both have the same bits. Those of a
// group run in the order of their calls and starts: a call begins when what was started before it
// has ended. A group is used by one thread, and moved only while nothing that it started runs.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/call_queue.h"
#include "comm/device_steps.h"
#include "comm/memory_check.h"
#include "comm/mesh.h"
#include "comm/rank_order.h"
#include "comm/staged_values.h"
#include "comm/traffic.h"
#include "comm/transport.h"
#include "comm/values.h"

namespace rl {

struct GroupOptions {
  int64_t timeout_ns;                        // of each call; negative: waits without limit
  uint64_t chunk_bytes = uint64_t{1} << 18;  // of a rank's values in one step of a reduction
  MemoryCheck memory = {};
  const char* axis = nullptr;  // its name in errors; null: that of the mesh
  // Of one group alone, for values of a device; null: there are none. With messages of devices the
  // ranks make the group together.
  std::shared_ptr<StagedValues> staging = nullptr;
  std::shared_ptr<DeviceMessages> device = nullptr;
  // Whether the library of `device` adds up sums of fp32 and bf16, in its own order.
  bool own_order_on_devices = false;

  GroupOptions named(const char* name) const {
    GroupOptions out = *this;
    out.axis = name;
    return out;
  }
};
// Makes the options of each group of a rank, because what it has for values of a device is its own.
using MakeGroupOptions = std::function<GroupOptions()>;

// A namespace of its own, because data/sample.h has groups of samples.
namespace comm {

class Group {
 public:
  // The group of a rank on one axis of the mesh, and that of all ranks. Numbers of ranks in a group
  // count from 0 in the order of their indices on the axis. A rank may have several groups of one
  // axis: those with other numbers of a channel do not wait for each other's messages.
  Group(std::shared_ptr<Transport> transport, const Mesh& mesh, Axis axis, GroupOptions options,
        int channel = 0);
  Group(std::shared_ptr<Transport> transport, GroupOptions options);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::string& axis() const { return axis_; }  // its name; "all" for that of all ranks
  // Of working memory, which a reduction allocates once unless ranks share memory.
  static uint64_t scratch_bytes(int size, const GroupOptions& options);

  // The part of `count` values that reduce_scatter leaves to this rank.
  Piece own_piece(uint64_t count) const { return piece_of(count, rank(), size()); }

  // What calls and starts from now on are counted as. overlapped: so are calls, which are made on a
  // thread beside the rank's own.
  void count_as(TrafficUse use, bool overlapped = false) {
    use_ = use;
    overlapped_ = overlapped;
  }
  Traffic traffic() const { return traffic_->now(); }

  // Afterwards values are those of all ranks, reduced.
  void all_reduce(const Values& values, Reduction reduction = Reduction::kSum);
  // Afterwards this rank's piece is reduced. The others are as before.
  void reduce_scatter(const Values& values, Reduction reduction = Reduction::kSum);
  // Each rank gives its piece of the values to all others.
  void all_gather(const Values& values);
  // The same with pieces that the ranks have agreed on, one for each rank.
  void reduce_scatter(const Values& values, const Pieces& pieces,
                      Reduction reduction = Reduction::kSum);
  void all_gather(const Values& values, const Pieces& pieces);
  // In place of a reduction: called for each chunk of this rank's piece, in order, with what rank r
  // has of it in parts[r]. `out` is the chunk, which is parts[rank()] too, and may be written. Both
  // are memory of the host. Error(kUnsupported) for values that go from device to device.
  using TakeParts = std::function<void(std::span<const std::byte* const> parts, const Values& out)>;
  void scatter_chunks(const Values& values, const Pieces& pieces, const TakeParts& take);
  // Piece r of `from` goes to piece rank() of `to` at rank r. Error(kInvalidArgument) unless both
  // have one count, a multiple of size(), and do not overlap.
  void all_to_all(const ConstValues& from, const Values& to);
  // The same with pieces that the ranks have agreed on: each as long as the one that it goes to.
  void all_to_all(const ConstDividedValues& from, const DividedValues& to);
  // Afterwards values are those of rank `root`.
  void broadcast(const Values& values, int root);
  // Each rank gives `from` to the next one, and has from the one before what `to` has room for; the
  // next of the last rank is the first. Error(kInvalidArgument) if the two overlap.
  void shift(const ConstValues& from, const Values& to);
  // Between two ranks; the others take no part.
  void send(const ConstValues& values, int to);
  void receive(const Values& values, int from);
  // Returns when all ranks have come.
  void barrier();

  // The same, overlapped: they check their arguments, return at once, and run on a thread of the
  // group. The timeout begins with the collective's turn, and its errors are thrown by wait(). A
  // rank that gives up with some under way calls Transport::fail first, or it waits for them.
  StartedCall start_all_reduce(const Values& values, Reduction reduction = Reduction::kSum);
  StartedCall start_reduce_scatter(const Values& values, Reduction reduction = Reduction::kSum);
  StartedCall start_all_gather(const Values& values);
  StartedCall start_reduce_scatter(const Values& values, const Pieces& pieces,
                                   Reduction reduction = Reduction::kSum);
  StartedCall start_all_gather(const Values& values, const Pieces& pieces);
  StartedCall start_all_to_all(const ConstValues& from, const Values& to);
  StartedCall start_broadcast(const Values& values, int root);
  StartedCall start_shift(const ConstValues& from, const Values& to);
  StartedCall start_send(const ConstValues& values, int to);
  StartedCall start_receive(const Values& values, int from);

 private:
  Group(std::shared_ptr<Transport> transport, std::vector<int> ranks, std::string axis,
        GroupOptions options);
  class Call;
  // How messages go whose bytes are in a memory space.
  enum class Way : uint8_t {
    kHost,    // by the Transport
    kStaged,  // the same, through a buffer in the host's memory
    kDevice,  // from device to device
  };
  Way way_of(MemorySpace space) const {
    if (space == MemorySpace::kHost) return Way::kHost;
    return device_ != nullptr ? Way::kDevice : Way::kStaged;
  }
  // A collective whose arguments have been checked, and what is to run.
  struct Job {
    Collective collective;
    std::function<void(Call&)> run;
    Way way = Way::kHost;
  };
  Job all_reduce_job(const Values& values, Reduction reduction);
  Job reduce_scatter_job(const Values& values, const Pieces& pieces, Reduction reduction);
  Job all_gather_job(const Values& values, const Pieces& pieces);
  Job all_to_all_job(const ConstValues& from, const Values& to);
  Job all_to_all_job(const ConstDividedValues& from, const DividedValues& to);
  Job broadcast_job(const Values& values, int root);
  Job shift_job(const ConstValues& from, const Values& to);
  Job send_job(const ConstValues& values, int to);
  Job receive_job(const Values& values, int from);
  // Runs it here, after those that were started.
  void run(const Job& job);
  StartedCall start(Job job);
  void run_as(const Job& job, TrafficUse use, bool started);
  void join_devices();

  // Values, which of them each rank reduces, and how.
  struct Reduce {
    const Values& values;
    const Pieces& pieces;
    const TakeParts& take;
  };
  void reduce_piece(Call& call, const Reduce& what);
  // Without copies; false if the backend needs some.
  bool reduce_in_place(Call& call, const Reduce& what);
  void reduce_in_chunks(Call& call, const Reduce& what);
  // Whether messages of devices add these values up, and what is to run then.
  bool has_own_order(const Values& values, Reduction reduction) const;
  Job own_order_job(const Values& values);
  Job own_order_job(const DividedValues& all);
  TakeParts in_rank_order(Reduction reduction, MemorySpace space);
  // Where reduce_in_chunks() has the other ranks' values of a step.
  struct Slots {
    std::byte* data;
    uint64_t bytes;  // of each
  };
  Slots slots(Way way);
  void gather_pieces(Call& call, const Values& values, const Pieces& pieces);
  // The messages of the two halves of an all-reduce: to each rank its piece, and then from it.
  void queue_parts(Call& call, const Values& values, const Pieces& pieces);
  void queue_pieces(Call& call, const Values& values, const Pieces& pieces);
  // Calls run(values, their places) once or, where values of a device are added up in the host's
  // memory, with values of the host for each window of them. changed: what run() changes.
  template <typename Run>
  void in_windows(const Values& values, Piece changed, const Run& run);
  // How messages go that in_windows() leads to.
  Way way_of_sums(MemorySpace space) const {
    return way_of(space) == Way::kDevice ? Way::kDevice : Way::kHost;
  }
  // Error(kInvalidArgument) and, for values that there is no way for, Error(kUnsupported).
  template <typename Byte>
  void require_values(const BasicValues<Byte>& values, const char* call) const;
  void require_two(const ConstValues& from, const Values& to, const char* call) const;
  void require_numbers(const Values& values, const char* call) const;
  Pieces even(const Values& values) const { return even_pieces(values.count, size()); }
  void require_rank(int rank, const char* call) const;
  void require_other_rank(int rank, const char* call) const;

  std::shared_ptr<Transport> transport_;
  std::vector<int> ranks_;  // their numbers among all ranks
  std::string axis_;
  GroupOptions options_;
  uint64_t channel_;
  int rank_;
  TrafficUse use_ = TrafficUse::kOther;
  bool overlapped_ = false;
  std::unique_ptr<TrafficCounter> traffic_ = std::make_unique<TrafficCounter>();
  std::vector<std::byte> scratch_;
  std::unique_ptr<DeviceSteps> device_;  // null: values of a device are staged or refused
  std::unique_ptr<CallQueue> started_;   // from the first start on
};

}  // namespace comm

}  // namespace rl
