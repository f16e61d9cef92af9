// Files held in memory, for tests that open thousands of variants of one small file.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/fs.h"

namespace rl::test {

class MemoryFs final : public FileSystem {
 public:
  std::map<std::string, std::string> files;

  std::unique_ptr<InputFile> open(const std::string& path) override {
    const auto it = files.find(path);
    if (it == files.end()) throw Error(Code::kNotFound, path).with_location(path);
    return std::make_unique<Input>(path, it->second);
  }
  bool exists(const std::string& path) override {
    return files.contains(path) || is_directory(path);
  }
  bool is_directory(const std::string& path) override {
    const auto it = files.lower_bound(path + "/");
    return it != files.end() && it->first.starts_with(path + "/");
  }
  std::unique_ptr<OutputFile> create(const std::string& p) override { unused(p); }
  std::unique_ptr<OutputFile> append_to(const std::string& p) override { unused(p); }
  std::vector<std::string> list(const std::string& p) override { unused(p); }
  void make_directories(const std::string& p) override { unused(p); }
  void rename(const std::string& p, const std::string&) override { unused(p); }
  void remove_all(const std::string& p) override { unused(p); }
  void sync_directory(const std::string& p) override { unused(p); }

 private:
  // The data belongs to the file system, so that opening a file allocates nothing in proportion to
  // it.
  class Input final : public InputFile {
   public:
    Input(std::string path, std::string_view data) : path_(std::move(path)), data_(data) {}
    uint64_t size() const override { return data_.size(); }
    const std::string& path() const override { return path_; }
    void read_at(uint64_t offset, std::span<std::byte> out) const override {
      if (offset > data_.size() || out.size() > data_.size() - offset) {
        throw Error(Code::kDataLoss, "read past the end").with_location(path_);
      }
      if (!out.empty()) std::memcpy(out.data(), data_.data() + offset, out.size());
    }

   private:
    std::string path_;
    std::string_view data_;
  };
  [[noreturn]] static void unused(const std::string& path) {
    throw Error(Code::kInternal, "a reader changed the file system at " + path);
  }
};

}  // namespace rl::test
