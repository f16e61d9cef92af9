// Values in the memory of a device, for backends that reach the host's alone: they pass through a
// buffer in the host's memory. What is added up there is in the order of ranks (comm/rank_order.h),
// so no bit depends on how much of the values passes at a time.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "comm/transport.h"
#include "comm/values.h"
#include "core/arena.h"
#include "core/error.h"
#include "core/function_ref.h"

namespace rl {

// The way between the memory of a device and the host's. Each copy comes behind what the device was
// told to compute before, and ahead of what it is told later. Called on any thread, beside what
// the device computes with other bytes.
class DeviceCopies {
 public:
  virtual ~DeviceCopies() = default;
  // The bytes are there when it returns.
  virtual void to_host(const std::byte* device, std::span<std::byte> host) = 0;
  // The host may change its bytes when it returns.
  virtual void to_device(std::span<const std::byte> host, std::byte* device) = 0;
  virtual void within(std::span<const std::byte> from, std::byte* to) = 0;
};

// Used by one call at a time.
class StagedValues {
 public:
  static constexpr const char* kArena = "collective staging, host";
  static constexpr uint64_t kWindowBytes = uint64_t{4} << 20;

  // Reserves the buffer, which holds whole elements of each type.
  StagedValues(std::unique_ptr<DeviceCopies> copies, ArenaLedger* ledger,
               uint64_t window_bytes = kWindowBytes)
      : copies_(std::move(copies)), arena_(kArena, window_bytes, Touch::kLater, {ledger}) {
    RL_CHECK(window_bytes >= 8 && window_bytes % 8 == 0);
  }

  // For reductions: calls run(host, window) for each window of the values, at least one, with
  // values of the host that have the device's bits. Afterwards the device has what `changed` has
  // then. A window has as many values on every rank.
  template <typename Run>
  void pass(const Values& values, Piece changed, const Run& run) {
    const uint64_t size = element_bytes(values.element), most = arena_.bytes() / size;
    uint64_t begin = 0;
    do {
      const Piece window{begin, std::min(begin + most, values.count)};
      visit_common({0, values.count}, window, size, [&](uint64_t at, std::span<std::byte> host) {
        copies_->to_host(values.data + at, host);
      });
      run(Values{arena_.data(), window.count(), values.element}, window);
      visit_common(changed, window, size, [&](uint64_t at, std::span<std::byte> host) {
        copies_->to_device(host, values.data + at);
      });
      begin = window.end;
    } while (begin < values.count);
  }

  // One step of messages whose bytes are the device's: `round` exchanges a part of each, from and
  // to memory of the host, again and again, at least once. most: of the messages that any rank of
  // the group sends or receives in a step; it decides how long the parts are.
  using Round = FunctionRef<void(std::span<const Outgoing> out, std::span<const Incoming> in)>;
  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in, int most, Round round);
  // Within the device.
  void copy(std::span<const std::byte> from, std::byte* to) { copies_->within(from, to); }

 private:
  // Calls visit(byte of the values, bytes of the buffer) for what the two have in common.
  template <typename Visit>
  void visit_common(Piece piece, Piece window, uint64_t size, const Visit& visit) {
    const uint64_t first = std::max(piece.begin, window.begin);
    const uint64_t end = std::min(piece.end, window.end);
    if (first >= end) return;
    visit(first * size, arena_.span().subspan(static_cast<size_t>((first - window.begin) * size),
                                              static_cast<size_t>((end - first) * size)));
  }

  class Step;  // of messages

  const std::unique_ptr<DeviceCopies> copies_;
  const Arena arena_;
};

}  // namespace rl
