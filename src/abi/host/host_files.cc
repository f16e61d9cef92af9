// Files of a host. Its functions run inside a CallbackScope, so that they can call nothing that
// might wait for the thread they run on. A prefix is a mount point: its own path, without the final
// '/', belongs to the host too.
#include "abi/host/host_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "abi/host/host_service.h"
#include "core/error.h"

namespace rl::abi {
namespace {

// The host's functions, and what their codes mean. Open files keep it alive.
class Calls {
 public:
  Calls(const rl_files* files, UserData user) : host_(files, std::move(user), "files") {
    const rl_files& f = table();
    require_function(f.open, "files.open");
    require_function(f.create, "files.create");
    require_function(f.read, "files.read");
    require_function(f.write, "files.write");
    require_function(f.close, "files.close");
    require_function(f.kind, "files.kind");
    require_function(f.list, "files.list");
    require_function(f.make_directories, "files.make_directories");
    require_function(f.rename, "files.rename");
    require_function(f.remove, "files.remove");
    prefix_ = name_arg(f.prefix, field_len(f.prefix, f.prefix_len), "files.prefix");
  }

  const std::string& prefix() const { return prefix_; }
  const rl_files& table() const { return host_.table(); }

  // Calls function(user_data, arguments...); a code other than 0 is an Error.
  template <typename Function, typename... Args>
  void call(const char* operation, const std::string& path, Function function,
            Args... arguments) const {
    const int32_t code = host_.result_of(function, arguments...);
    if (code != 0) fail(operation, path, code);
  }
  template <typename Function, typename... Args>
  int32_t result_of(Function function, Args... arguments) const {
    return host_.result_of(function, arguments...);
  }

  [[noreturn]] void fail(const char* operation, const std::string& path, int32_t code) const {
    const Code kind = code == ENOENT ? Code::kNotFound : Code::kIo;
    throw Error(kind, str("cannot ", operation, " ", path, ": ", host_.meaning_of(code)))
        .with_location(path)
        .with_system_code(code);
  }

 private:
  HostService<rl_files> host_;
  std::string prefix_;
};
using CallsPtr = std::shared_ptr<const Calls>;

class HostInput final : public InputFile {
 public:
  HostInput(CallsPtr calls, std::string path) : calls_(std::move(calls)), path_(std::move(path)) {
    calls_->call("open", path_, calls_->table().open, path_.c_str(), path_.size(), &file_, &size_);
    if (size_ <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return;
    calls_->result_of(calls_->table().close, file_, uint32_t{0});
    throw Error(Code::kIo, str("cannot open ", path_, ": its size is said to be ", size_, " bytes"))
        .with_location(path_);
  }
  ~HostInput() override { calls_->result_of(calls_->table().close, file_, uint32_t{0}); }

  uint64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }

  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size_ || out.size() > size_ - offset) {
      throw Error(Code::kDataLoss, str(path_, ": cannot read ", out.size(), " bytes at offset ",
                                       offset, ": the file has ", size_, " bytes"))
          .with_location(str(path_, " offset ", offset));
    }
    if (out.empty()) return;
    calls_->call("read", path_, calls_->table().read, file_, offset, static_cast<void*>(out.data()),
                 uint64_t{out.size()});
  }

 private:
  CallsPtr calls_;
  std::string path_;
  void* file_ = nullptr;
  uint64_t size_ = 0;
};

class HostOutput final : public OutputFile {
 public:
  HostOutput(CallsPtr calls, std::string path, bool append)
      : calls_(std::move(calls)), path_(std::move(path)), append_(append) {
    const char* const operation = append ? "append to" : "create";
    calls_->call(operation, path_, calls_->table().create, path_.c_str(), path_.size(),
                 uint32_t{append}, &file_);
  }
  // What a file had before is never given up.
  ~HostOutput() override {
    if (open_) calls_->result_of(calls_->table().close, file_, uint32_t{!append_});
  }

  void append(std::span<const std::byte> data) override {
    require_open("write");
    if (data.empty()) return;
    calls_->call("write", path_, calls_->table().write, file_,
                 static_cast<const void*>(data.data()), uint64_t{data.size()});
  }
  void sync() override {
    require_open("sync");
    if (calls_->table().sync != nullptr) calls_->call("sync", path_, calls_->table().sync, file_);
  }
  // The token has ended even if this fails.
  void close() override {
    require_open("close");
    open_ = false;
    calls_->call("close", path_, calls_->table().close, file_, uint32_t{0});
  }

 private:
  void require_open(const char* operation) const {
    if (open_) return;
    throw Error(Code::kFailedPrecondition, str("cannot ", operation, " ", path_, ": it is closed"))
        .with_location(path_);
  }

  CallsPtr calls_;
  std::string path_;
  const bool append_;
  void* file_ = nullptr;
  bool open_ = true;
};

// Names that a host lists. Its codes are not errno values, so what goes wrong here is kept apart. A
// name that is NULL is kept as an empty one, which is refused with the others.
struct Listing {
  std::vector<std::string> names;
  bool out_of_memory = false;
};

int32_t add_name(void* context, const char* name, size_t name_len) noexcept {
  auto& listing = *static_cast<Listing*>(context);
  try {
    std::string& added = listing.names.emplace_back();
    if (name == nullptr) return 0;
    added.assign(name, name_len == RL_NUL_TERMINATED ? std::strlen(name) : name_len);
    return 0;
  } catch (...) {
    listing.out_of_memory = true;
    return ENOMEM;
  }
}

bool is_entry_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

std::string without_final_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

class HostFiles final : public FileSystem {
 public:
  HostFiles(const rl_files* files, UserData&& user)
      : calls_(std::make_shared<const Calls>(files, std::move(user))),
        root_(without_final_slashes(calls_->prefix())) {}

  std::unique_ptr<InputFile> open(const std::string& path) override {
    if (!is_ours(path)) return real_fs().open(path);
    return std::make_unique<HostInput>(calls_, path);
  }
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    if (!is_ours(path)) return real_fs().create(path);
    return std::make_unique<HostOutput>(calls_, path, false);
  }
  std::unique_ptr<OutputFile> append_to(const std::string& path) override {
    if (!is_ours(path)) return real_fs().append_to(path);
    return std::make_unique<HostOutput>(calls_, path, true);
  }

  bool exists(const std::string& path) override {
    return is_ours(path) ? kind_of(path) != RL_FILE_ABSENT : real_fs().exists(path);
  }
  bool is_directory(const std::string& path) override {
    return is_ours(path) ? kind_of(path) == RL_FILE_DIRECTORY : real_fs().is_directory(path);
  }

  std::vector<std::string> list(const std::string& dir) override {
    if (!is_ours(dir)) return real_fs().list(dir);
    Listing listing;
    const int32_t code = calls_->result_of(host().list, dir.c_str(), dir.size(), &add_name,
                                           static_cast<void*>(&listing));
    if (listing.out_of_memory) throw std::bad_alloc();
    if (code != 0) calls_->fail("list", dir, code);
    std::sort(listing.names.begin(), listing.names.end());
    for (const std::string& name : listing.names) {
      if (is_entry_name(name)) continue;
      throw Error(Code::kIo, str("cannot list ", dir, ": an entry has the invalid name \"",
                                 std::string(name.c_str()), "\""))
          .with_location(dir);
    }
    return std::move(listing.names);
  }

  void make_directories(const std::string& path) override {
    if (!is_ours(path)) return real_fs().make_directories(path);
    calls_->call("create directory", path, host().make_directories, path.c_str(), path.size());
  }

  void rename(const std::string& from, const std::string& to) override {
    if (is_ours(from) != is_ours(to)) {
      throw Error(Code::kUnsupported, str("cannot rename ", from, " to ", to,
                                          ": only one of them is in the host's files"))
          .with_location(from);
    }
    if (!is_ours(from)) return real_fs().rename(from, to);
    calls_->call("rename", str(from, " to ", to), host().rename, from.c_str(), from.size(),
                 to.c_str(), to.size());
  }

  void remove_all(const std::string& path) override {
    if (!is_ours(path)) return real_fs().remove_all(path);
    calls_->call("remove", path, host().remove, path.c_str(), path.size());
  }

  void sync_directory(const std::string& path) override {
    if (!is_ours(path)) return real_fs().sync_directory(path);
    if (host().sync_directory == nullptr) return;
    calls_->call("sync directory", path, host().sync_directory, path.c_str(), path.size());
  }

 private:
  const rl_files& host() const { return calls_->table(); }
  bool is_ours(const std::string& path) const {
    return path.starts_with(calls_->prefix()) || without_final_slashes(path) == root_;
  }
  int32_t kind_of(const std::string& path) const {
    int32_t kind = RL_FILE_ABSENT;
    calls_->call("look up", path, host().kind, path.c_str(), path.size(), &kind);
    if (kind >= RL_FILE_ABSENT && kind <= RL_FILE_DIRECTORY) return kind;
    throw Error(Code::kIo, str("cannot look up ", path, ": its kind is said to be ", kind))
        .with_location(path);
  }

  CallsPtr calls_;
  std::string root_;  // the prefix without its final '/'
};

}  // namespace

std::shared_ptr<FileSystem> host_files(const rl_files* files, UserData&& user) {
  if (files == nullptr) return nullptr;
  return std::make_shared<HostFiles>(files, std::move(user));
}

}  // namespace rl::abi
