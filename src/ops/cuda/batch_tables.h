// Tables that the ops of a batch need again in every layer, such as positions, angles and tiles of
// attention: uploaded once, and found again by their bytes. Invariant: a table that was handed out
// stays where it is until the next op begins, and longer while there is room for all others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/function_ref.h"
#include "device/cuda/scratch.h"

namespace rl::cuda {

class BatchTables {
 public:
  // Memory of the device. Whatever reads or writes a table goes to one stream in order, so that
  // memory may be written again as soon as a table is forgotten.
  explicit BatchTables(std::span<std::byte> memory) : memory_(memory) {}

  // Memory of the device with these bytes: from before, or new, which `upload` then fills. Null:
  // there is no room. Bytes that `upload` failed to fill are not found again.
  const std::byte* get(std::span<const std::byte> bytes, FunctionRef<void(std::byte* to)> upload);
  // Before an op. Forgets all tables if one had no room: most are of batches that are over.
  void begin_op();
  void forget();

 private:
  // Few, since every one of them is compared.
  static constexpr size_t kMostTables = 64;
  struct Table {
    const std::byte* data;
    std::vector<std::byte> bytes;
  };

  Scratch memory_;
  std::vector<Table> tables_;
  bool is_full_ = false;
};

}  // namespace rl::cuda
