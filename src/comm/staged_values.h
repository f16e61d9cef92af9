// Values in the memory of a device, for backends that reach the host's alone: they pass through a
// buffer in the host's memory, window by window. A window has as many values on every rank, so a
// call of the ranks is as many calls of theirs on values of the host. Sums are in the order of
// ranks (comm/rank_order.h), so no bit depends on where windows begin.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "comm/values.h"
#include "core/arena.h"
#include "core/error.h"

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

  // What a call reads of its values before it begins, and what it has changed when it has ended.
  struct Touched {
    std::vector<Piece> read, changed;
  };
  // Calls run(host, window) for each window of the values, at least one, with values of the host in
  // place of those of the window. Of these only what is read has the device's bits.
  template <typename Byte, typename Run>
  void pass(const BasicValues<Byte>& values, const Touched& touched, const Run& run) {
    const uint64_t size = element_bytes(values.element), most = arena_.bytes() / size;
    uint64_t begin = 0;
    do {
      const Piece window{begin, std::min(begin + most, values.count)};
      for (const Piece& piece : touched.read) {
        visit_common(piece, window, size, [&](uint64_t at, std::span<std::byte> host) {
          copies_->to_host(values.data + at, host);
        });
      }
      run(Values{arena_.data(), window.count(), values.element}, window);
      if constexpr (!std::is_const_v<Byte>) {
        for (const Piece& piece : touched.changed) {
          visit_common(piece, window, size, [&](uint64_t at, std::span<std::byte> host) {
            copies_->to_device(host, values.data + at);
          });
        }
      }
      begin = window.end;
    } while (begin < values.count);
  }

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

  const std::unique_ptr<DeviceCopies> copies_;
  const Arena arena_;
};

}  // namespace rl
