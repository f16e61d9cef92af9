// Messages between the memories of devices, not through the memory of the host: what a library
// such as NCCL provides to one group of ranks. Collectives on values of a device are built on it as
// those on values of the host are on a Transport, so sums have the same order (comm/rank_order.h),
// unless a group wants that of the library.
//
// Ranks are numbered within the group. Everything that is enqueued runs in the order of the calls.
// Used by one thread at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/rank_order.h"
#include "comm/transport.h"
#include "core/function_ref.h"

namespace rl {

class DeviceMessages {
 public:
  static constexpr const char* kArena = "collective scratch, device";
  // Of the others' values in one step of a reduction, of all other ranks together.
  static constexpr uint64_t kScratchBytes = uint64_t{32} << 20;

  // Called again and again while this rank waits. What it throws ends the wait, and with it all
  // messages: nothing but destruction works afterwards. So does every Error of the functions below.
  using StillThere = FunctionRef<void()>;

  // Waits for nobody.
  virtual ~DeviceMessages() = default;

  // The group's first rank makes an id, of as many bytes on every rank, and gives it to the others;
  // then all of them join, once.
  virtual uint64_t id_bytes() const = 0;
  virtual std::vector<std::byte> make_id() = 0;
  struct Place {
    std::span<const std::byte> id;
    int rank, size;
  };
  virtual void join(const Place& place, StillThere still_there) = 0;

  // What is enqueued from now on runs behind what the device was told to compute before.
  virtual void begin() = 0;
  // Enqueues messages; both ends know their sizes. Their memory is the device's.
  virtual void exchange(std::span<const Outgoing> out, std::span<const Incoming> in,
                        StillThere still_there) = 0;
  // Enqueues a copy within the device, beside the messages of this rank.
  virtual void copy(std::span<const std::byte> from, std::byte* to) = 0;
  // Memory of the device, as much on every rank.
  virtual std::span<std::byte> scratch() const = 0;
  // Enqueues a reduction in rank order, with the bits of reduce_in_rank_order(). `out` has the
  // values of this rank. Those of the others lie in scratch, each of them at a multiple of
  // slot_bytes, in rank order. Error(kUnsupported) unless they are fp32, bf16 or int32.
  virtual void reduce(Reduction reduction, uint64_t slot_bytes, const Values& out) = 0;
  // Enqueue sums of fp32 or bf16 in an order of the library's own: all ranks have the same bits,
  // which may depend on the devices, on how they are connected and on sizes. All ranks call with
  // the same count and pieces. Afterwards rank r has the sums of piece r, and the rest as before.
  virtual void reduce_scatter_own_order(const DividedValues& all, StillThere still_there) = 0;
  // Afterwards every rank has all sums.
  virtual void all_reduce_own_order(const Values& values, StillThere still_there) = 0;
  // Returns when everything that was enqueued is complete.
  virtual void complete(StillThere still_there) = 0;
};

}  // namespace rl
