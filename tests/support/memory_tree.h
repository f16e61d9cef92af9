// Files in memory that can be written, for tests of thousands of file operations that are about
// their order and their failures (FaultFs), and would wait for a disk all the time. One thread.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/fs.h"

namespace rl {

class MemoryTree final : public FileSystem {
 public:
  std::unique_ptr<InputFile> open(const std::string& path) override {
    return std::make_unique<Input>(path, file(path));
  }
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    return std::make_unique<Output>(files_[path] = std::make_shared<std::string>());
  }
  std::unique_ptr<OutputFile> append_to(const std::string& path) override {
    return files_.contains(path) ? std::make_unique<Output>(file(path)) : create(path);
  }
  bool exists(const std::string& path) override {
    return files_.contains(path) || is_directory(path);
  }
  bool is_directory(const std::string& path) override { return directories_.contains(path); }
  std::vector<std::string> list(const std::string& dir) override {
    if (!is_directory(dir)) refuse("list", dir);
    std::set<std::string> names;
    for (const auto& [path, content] : files_) add_child(dir, path, names);
    for (const std::string& path : directories_) add_child(dir, path, names);
    return {names.begin(), names.end()};
  }
  void make_directories(const std::string& path) override {
    for (std::string dir = path; dir != "." && dir != "/"; dir = parent_directory(dir))
      directories_.insert(dir);
  }
  // Of files alone.
  void rename(const std::string& from, const std::string& to) override {
    files_[to] = file(from);
    files_.erase(from);
  }
  void remove_all(const std::string& path) override {
    const auto is_gone = [&](const std::string& p) { return p == path || is_below(path, p); };
    std::erase_if(files_, [&](const auto& entry) { return is_gone(entry.first); });
    std::erase_if(directories_, is_gone);
  }
  void sync_directory(const std::string&) override {}

 private:
  using Content = std::shared_ptr<std::string>;

  [[noreturn]] static void refuse(const char* operation, const std::string& path) {
    throw Error(Code::kNotFound, str("cannot ", operation, " ", path)).with_location(path);
  }
  static bool is_below(const std::string& dir, const std::string& path) {
    return path.starts_with(dir + "/");
  }
  static void add_child(const std::string& dir, const std::string& path,
                        std::set<std::string>& names) {
    if (!is_below(dir, path)) return;
    const std::string name = path.substr(dir.size() + 1);
    if (name.find('/') == std::string::npos) names.insert(name);
  }
  Content file(const std::string& path) const {
    const auto found = files_.find(path);
    if (found == files_.end()) refuse("find", path);
    return found->second;
  }

  class Input final : public InputFile {
   public:
    Input(std::string path, Content content)
        : path_(std::move(path)), content_(std::move(content)) {}
    uint64_t size() const override { return content_->size(); }
    const std::string& path() const override { return path_; }
    void read_at(uint64_t offset, std::span<std::byte> out) const override {
      RL_CHECK(offset <= content_->size() && out.size() <= content_->size() - offset);
      if (!out.empty()) std::memcpy(out.data(), content_->data() + offset, out.size());
    }

   private:
    const std::string path_;
    const Content content_;
  };
  class Output final : public OutputFile {
   public:
    explicit Output(Content content) : content_(std::move(content)) {}
    void append(std::span<const std::byte> data) override {
      content_->append(reinterpret_cast<const char*>(data.data()), data.size());
    }
    void sync() override {}
    void close() override {}

   private:
    const Content content_;
  };

  std::map<std::string, Content> files_;
  std::set<std::string> directories_;
};

}  // namespace rl
