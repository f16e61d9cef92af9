// Files in memory, for runs that are killed and go on thousands of times.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/fs.h"

namespace rl::testing {

class MemoryDisk final : public FileSystem {
 public:
  std::map<std::string, std::vector<std::byte>> files;

  std::unique_ptr<InputFile> open(const std::string& path) override {
    const auto found = files.find(path);
    if (found == files.end()) throw Error(Code::kNotFound, path).with_location(path);
    return std::make_unique<Input>(path, found->second);
  }
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    files[path].clear();
    return append_to(path);
  }
  std::unique_ptr<OutputFile> append_to(const std::string& path) override {
    return std::make_unique<Output>(files[path]);
  }
  bool exists(const std::string& path) override { return files.contains(path); }
  bool is_directory(const std::string&) override { return false; }
  std::vector<std::string> list(const std::string&) override { return {}; }
  void make_directories(const std::string&) override {}
  void rename(const std::string& from, const std::string& to) override {
    files[to] = std::move(files.at(from));
    files.erase(from);
  }
  void remove_all(const std::string& path) override { files.erase(path); }
  void sync_directory(const std::string&) override {}

 private:
  class Input final : public InputFile {
   public:
    Input(std::string path, std::vector<std::byte> data)
        : path_(std::move(path)), data_(std::move(data)) {}
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
    std::vector<std::byte> data_;
  };
  class Output final : public OutputFile {
   public:
    explicit Output(std::vector<std::byte>& data) : data_(data) {}
    void append(std::span<const std::byte> data) override {
      data_.insert(data_.end(), data.begin(), data.end());
    }
    void sync() override {}
    void close() override {}

   private:
    std::vector<std::byte>& data_;
  };
};

}  // namespace rl::testing
