// Files that are bytes in memory, for what has the layout of a file but is in none.
#pragma once
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/fs.h"

namespace rl {

// Bytes of the caller, which outlive it, under a name for errors.
class MemoryInput final : public InputFile {
 public:
  MemoryInput(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes), name_(name) {}

  uint64_t size() const override { return bytes_.size(); }
  const std::string& path() const override { return name_; }
  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      throw Error(Code::kDataLoss, str(name_, " offset ", offset, ": ", out.size(),
                                       " bytes are wanted, but there are ", bytes_.size()))
          .with_location(str(name_, " offset ", offset));
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }

 private:
  const std::span<const std::byte> bytes_;
  const std::string name_;
};

// Collects what is written.
class MemoryOutput final : public OutputFile {
 public:
  void append(std::span<const std::byte> data) override {
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  void sync() override {}
  void close() override {}

  std::string bytes;
};

}  // namespace rl
