// A host's file system in memory, given to the library as rl_files: nothing of it is on disk. Every
// call is counted, one of them can fail, what the library opens has to be closed, and a file that
// it discards is gone.
#pragma once
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "rl.h"

namespace abi_test {

class MemoryFiles {
 public:
  static constexpr int32_t kQuota = 7001;  // a code of this host

  // What rl_host::files points to. No destroy.
  rl_files table() {
    rl_files files;
    rl_files_init(&files, sizeof files);
    files.user_data = this;
    files.open = open;
    files.create = create;
    files.read = read;
    files.write = write;
    files.sync = sync;
    files.close = close;
    files.kind = kind;
    files.list = list;
    files.make_directories = make_directories;
    files.rename = rename;
    files.remove = remove;
    files.sync_directory = sync_directory;
    files.describe = describe;
    return files;
  }

  void put(const std::string& path, std::string data) {
    const std::lock_guard lock(mutex_);
    files_[path] = std::make_shared<std::string>(std::move(data));
  }
  // A copy of a file on disk.
  void put_copy(const std::string& path, const std::string& from) {
    std::ifstream file(from, std::ios::binary);
    put(path, {std::istreambuf_iterator<char>(file), {}});
  }
  bool has(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    return files_.contains(path);
  }
  std::string text(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(path);
    return found != files_.end() ? *found->second : "";
  }
  // Paths that have this part.
  size_t count(const std::string& part) const {
    const std::lock_guard lock(mutex_);
    size_t number = 0;
    for (const auto& [path, data] : files_) number += path.find(part) != std::string::npos;
    return number;
  }

  // Call number `at` from now on fails, counted from 1; 0: none.
  void fail_at(int64_t at, int32_t code = kQuota) {
    calls_ = 0;
    fail_at_ = at;
    fail_code_ = code;
  }
  // Creating this file, or adding to it, fails from now on; "": none.
  void fail_create(std::string path) {
    const std::lock_guard lock(mutex_);
    fail_create_ = std::move(path);
  }
  int64_t calls() const { return calls_; }
  int64_t num_open() const { return num_open_; }
  int64_t num_discarded() const { return num_discarded_; }

 private:
  using Data = std::shared_ptr<std::string>;
  struct Open {
    Data data;
  };

  static MemoryFiles& self(void* user_data) { return *static_cast<MemoryFiles*>(user_data); }
  // 0, or the code with which this call fails.
  int32_t begin() { return ++calls_ == fail_at_ ? fail_code_.load() : 0; }
  void* token(Data data) {
    ++num_open_;
    return new Open{std::move(data)};
  }

  static int32_t open(void* user_data, const char* path, size_t path_len, void** file,
                      uint64_t* size) {
    MemoryFiles& me = self(user_data);
    if (const int32_t code = me.begin()) return code;
    const std::lock_guard lock(me.mutex_);
    const auto found = me.files_.find(std::string(path, path_len));
    if (found == me.files_.end()) return ENOENT;
    *size = found->second->size();
    *file = me.token(found->second);
    return 0;
  }

  static int32_t create(void* user_data, const char* path, size_t path_len, uint32_t append,
                        void** file) {
    MemoryFiles& me = self(user_data);
    if (const int32_t code = me.begin()) return code;
    const std::lock_guard lock(me.mutex_);
    const std::string name(path, path_len);
    if (name == me.fail_create_) return kQuota;
    Data& data = me.files_[name];
    data = std::make_shared<std::string>(append == 1 && data != nullptr ? *data : "");
    *file = me.token(data);
    return 0;
  }

  static int32_t read(void* user_data, void* file, uint64_t offset, void* data, uint64_t size) {
    MemoryFiles& me = self(user_data);
    if (const int32_t code = me.begin()) return code;
    const std::lock_guard lock(me.mutex_);
    const std::string& from = *static_cast<Open*>(file)->data;
    if (offset > from.size() || size > from.size() - offset) return EINVAL;
    std::memcpy(data, from.data() + offset, size);
    return 0;
  }

  static int32_t write(void* user_data, void* file, const void* data, uint64_t size) {
    MemoryFiles& me = self(user_data);
    if (const int32_t code = me.begin()) return code;
    const std::lock_guard lock(me.mutex_);
    static_cast<Open*>(file)->data->append(static_cast<const char*>(data), size);
    return 0;
  }

  static int32_t sync(void* user_data, void*) { return self(user_data).begin(); }

  static int32_t close(void* user_data, void* file, uint32_t discard) {
    MemoryFiles& me = self(user_data);
    const std::unique_ptr<Open> open(static_cast<Open*>(file));
    --me.num_open_;
    me.num_discarded_ += discard;
    const std::lock_guard lock(me.mutex_);
    if (discard == 1) {
      std::erase_if(me.files_, [&](const auto& entry) { return entry.second == open->data; });
    }
    return me.begin();
  }

  static int32_t kind(void* user_data, const char* path, size_t path_len, int32_t* kind) {
    MemoryFiles& me = self(user_data);
    if (const int32_t code = me.begin()) return code;
    const std::lock_guard lock(me.mutex_);
    const std::string name(path, path_len);
    *kind = me.files_.contains(name) ? RL_FILE_REGULAR
            : me.is_directory(name)  ? RL_FILE_DIRECTORY
                                     : RL_FILE_ABSENT;
    return 0;
  }

  static int32_t list(void* user_data, const char* path, size_t path_len, rl_file_found_fn found,
                      void* context) {
    MemoryFiles& me = self(user_data);
    if (const int32_t code = me.begin()) return code;
    const std::lock_guard lock(me.mutex_);
    const std::string dir(path, path_len);
    if (!me.is_directory(dir)) return ENOENT;
    std::set<std::string> names;
    const auto add = [&](const std::string& inside) {
      if (!inside.starts_with(dir + "/")) return;
      names.insert(
          inside.substr(dir.size() + 1, inside.find('/', dir.size() + 1) - dir.size() - 1));
    };
    for (const auto& [name, data] : me.files_) add(name);
    for (const std::string& name : me.directories_) add(name);
    for (auto name = names.rbegin(); name != names.rend(); ++name) {  // the library sorts
      if (const int32_t code = found(context, name->data(), name->size())) return code;
    }
    return 0;
  }

  static int32_t make_directories(void* user_data, const char* path, size_t path_len) {
    MemoryFiles& me = self(user_data);
    if (const int32_t code = me.begin()) return code;
    const std::lock_guard lock(me.mutex_);
    me.directories_.emplace(path, path_len);
    return 0;
  }

  static int32_t rename(void* user_data, const char* from, size_t from_len, const char* to,
                        size_t to_len) {
    MemoryFiles& me = self(user_data);
    if (const int32_t code = me.begin()) return code;
    const std::lock_guard lock(me.mutex_);
    const std::string old_name(from, from_len), new_name(to, to_len);
    if (!me.files_.contains(old_name) && !me.is_directory(old_name)) return ENOENT;
    me.files_.erase(new_name);
    std::map<std::string, Data> files;
    for (auto& [name, data] : me.files_) files[moved(name, old_name, new_name)] = data;
    std::set<std::string> directories;
    for (const std::string& name : me.directories_)
      directories.insert(moved(name, old_name, new_name));
    me.files_.swap(files);
    me.directories_.swap(directories);
    return 0;
  }

  static int32_t remove(void* user_data, const char* path, size_t path_len) {
    MemoryFiles& me = self(user_data);
    if (const int32_t code = me.begin()) return code;
    const std::lock_guard lock(me.mutex_);
    const std::string dir(path, path_len);
    const auto inside = [&](const std::string& name) {
      return name == dir || name.starts_with(dir + "/");
    };
    std::erase_if(me.files_, [&](const auto& entry) { return inside(entry.first); });
    std::erase_if(me.directories_, inside);
    return 0;
  }

  static int32_t sync_directory(void* user_data, const char*, size_t) {
    return self(user_data).begin();
  }

  static void describe(void*, int32_t code, char* text, size_t text_size) {
    std::snprintf(text, text_size, "%s", code == kQuota ? "the quota is used up" : "it failed");
  }

  static std::string moved(const std::string& name, const std::string& from,
                           const std::string& to) {
    if (name == from) return to;
    return name.starts_with(from + "/") ? to + name.substr(from.size()) : name;
  }
  bool is_directory(const std::string& path) const {
    if (directories_.contains(path)) return true;
    const auto under = [&](const std::string& name) { return name.starts_with(path + "/"); };
    for (const auto& [name, data] : files_)
      if (under(name)) return true;
    for (const std::string& name : directories_)
      if (under(name)) return true;
    return false;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Data> files_;
  std::set<std::string> directories_;
  std::string fail_create_;
  std::atomic<int64_t> calls_{0}, fail_at_{0}, num_open_{0}, num_discarded_{0};
  std::atomic<int32_t> fail_code_{0};
};

}  // namespace abi_test
