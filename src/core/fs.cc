// The real file system over POSIX calls. Every call is retried on EINTR, short transfers are
// continued, and every failure names the operation, the path and the system's reason.
#include "core/fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

[[noreturn]] void fail(const char* operation, const std::string& path, int code) {
  const Code kind = code == ENOENT ? Code::kNotFound : Code::kIo;
  throw Error(kind, str("cannot ", operation, " ", path, ": ", std::strerror(code)))
      .with_location(path)
      .with_system_code(code);
}

template <typename Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// O_NONBLOCK keeps open from blocking on a FIFO; it has no effect on regular files, the only ones
// accepted.
Descriptor open_regular(const std::string& path, int flags, const char* operation) {
  Descriptor fd(retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666); }));
  if (fd.get() < 0) fail(operation, path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) fail(operation, path, errno);
  if (!S_ISREG(info.st_mode)) {
    throw Error(Code::kIo, str("cannot ", operation, " ", path, ": not a regular file"))
        .with_location(path)
        .with_system_code(S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  }
  return fd;
}

class RealInput final : public InputFile {
 public:
  RealInput(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {
    struct stat info;
    if (fstat(fd_.get(), &info) != 0) fail("open", path_, errno);
    size_ = static_cast<uint64_t>(info.st_size);
  }
  uint64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }

  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size_ || out.size() > size_ - offset) {
      throw Error(Code::kDataLoss, str(path_, ": cannot read ", out.size(), " bytes at offset ",
                                       offset, ": the file has ", size_, " bytes"))
          .with_location(str(path_, " offset ", offset));
    }
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = retry([&] {
        return ::pread(fd_.get(), out.data() + done, out.size() - done,
                       static_cast<off_t>(offset + done));
      });
      if (n < 0) fail("read", path_, errno);
      if (n == 0) {
        throw Error(Code::kDataLoss, str(path_, ": the file ended at offset ", offset + done,
                                         " although it had ", size_, " bytes when it was opened"))
            .with_location(str(path_, " offset ", offset + done));
      }
      done += static_cast<size_t>(n);
    }
  }

 private:
  std::string path_;
  Descriptor fd_;
  uint64_t size_ = 0;
};

class RealOutput final : public OutputFile {
 public:
  RealOutput(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  void append(std::span<const std::byte> data) override {
    require_open("write");
    while (!data.empty()) {
      const ssize_t n = retry([&] { return ::write(fd_.get(), data.data(), data.size()); });
      if (n < 0) fail("write", path_, errno);
      data = data.subspan(static_cast<size_t>(n));
    }
  }
  void sync() override {
    require_open("sync");
    if (retry([&] { return ::fsync(fd_.get()); }) != 0) fail("sync", path_, errno);
  }
  void close() override {
    require_open("close");
    // On Linux the descriptor is closed even if close fails, so it is never retried.
    if (::close(fd_.release()) != 0 && errno != EINTR) fail("close", path_, errno);
  }

 private:
  void require_open(const char* operation) const {
    if (fd_.get() < 0) {
      throw Error(Code::kFailedPrecondition,
                  str("cannot ", operation, " ", path_, ": it is closed"))
          .with_location(path_);
    }
  }
  std::string path_;
  Descriptor fd_;
};

class RealFileSystem final : public FileSystem {
 public:
  std::unique_ptr<InputFile> open(const std::string& path) override {
    return std::make_unique<RealInput>(path, open_regular(path, O_RDONLY, "open"));
  }

  std::unique_ptr<OutputFile> create(const std::string& path) override {
    Descriptor fd = open_regular(path, O_WRONLY | O_CREAT, "create");
    if (retry([&] { return ::ftruncate(fd.get(), 0); }) != 0) fail("truncate", path, errno);
    return std::make_unique<RealOutput>(path, std::move(fd));
  }

  std::unique_ptr<OutputFile> append_to(const std::string& path) override {
    return std::make_unique<RealOutput>(
        path, open_regular(path, O_WRONLY | O_CREAT | O_APPEND, "append to"));
  }

  bool exists(const std::string& path) override { return mode_of(path) != 0; }
  bool is_directory(const std::string& path) override { return S_ISDIR(mode_of(path)); }

  std::vector<std::string> list(const std::string& dir) override {
    DIR* stream = opendir(dir.c_str());
    if (stream == nullptr) fail("list", dir, errno);
    const std::unique_ptr<DIR, int (*)(DIR*)> owner(stream, closedir);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(stream)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    if (errno != 0) fail("list", dir, errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  void make_directories(const std::string& path) override {
    std::error_code code;
    std::filesystem::create_directories(path, code);
    if (code) fail("create directory", path, code.value());
    if (!is_directory(path)) fail("create directory", path, ENOTDIR);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail("rename", str(from, " to ", to), errno);
  }

  void remove_all(const std::string& path) override {
    std::error_code code;
    std::filesystem::remove_all(path, code);
    if (code) fail("remove", path, code.value());
  }

  void sync_directory(const std::string& path) override {
    const Descriptor fd(
        retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (fd.get() < 0) fail("open directory", path, errno);
    if (retry([&] { return ::fsync(fd.get()); }) != 0) fail("sync directory", path, errno);
  }

 private:
  // File mode of path, or 0 when nothing is there.
  static mode_t mode_of(const std::string& path) {
    struct stat info;
    if (::stat(path.c_str(), &info) == 0) return info.st_mode;
    if (errno == ENOENT || errno == ENOTDIR) return 0;
    fail("stat", path, errno);
  }
};

}  // namespace

FileSystem& real_fs() {
  static RealFileSystem* const fs = new RealFileSystem;
  return *fs;
}

std::string parent_directory(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string read_text_file(FileSystem& fs, const std::string& path, uint64_t max_bytes) {
  const std::unique_ptr<InputFile> file = fs.open(path);
  if (file->size() > max_bytes) {
    throw Error(Code::kResourceExhausted,
                str(path, " has ", file->size(), " bytes, above the limit of ", max_bytes))
        .with_location(path);
  }
  std::string text(file->size(), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void write_file_atomically(FileSystem& fs, const std::string& path, std::string_view data) {
  const std::string temporary = path + ".tmp";
  try {
    const std::unique_ptr<OutputFile> file = fs.create(temporary);
    file->append(std::as_bytes(std::span(data)));
    file->sync();
    file->close();
    fs.rename(temporary, path);
  } catch (const Error&) {
    try {
      fs.remove_all(temporary);
    } catch (const Error&) {
      // The first failure is the one to report; the leftover is overwritten by the next attempt.
    }
    throw;
  }
  fs.sync_directory(parent_directory(path));
}

}  // namespace rl
