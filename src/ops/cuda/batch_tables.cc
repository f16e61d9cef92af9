#include "ops/cuda/batch_tables.h"

#include <cstring>

namespace rl::cuda {

const std::byte* BatchTables::get(std::span<const std::byte> bytes,
                                  FunctionRef<void(std::byte* to)> upload) {
  for (const Table& table : tables_) {
    if (table.bytes.size() == bytes.size() &&
        std::memcmp(table.bytes.data(), bytes.data(), bytes.size()) == 0) {
      return table.data;
    }
  }
  if (tables_.size() == kMostTables || bytes.size() > memory_.room()) {
    is_full_ = true;
    return nullptr;
  }
  std::byte* const data = memory_.take(bytes.size());
  upload(data);
  tables_.push_back({data, {bytes.begin(), bytes.end()}});
  return data;
}

void BatchTables::begin_op() {
  if (is_full_) forget();
}

void BatchTables::forget() {
  tables_.clear();
  memory_.give_back(0);
  is_full_ = false;
}

}  // namespace rl::cuda
