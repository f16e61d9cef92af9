// Descriptors of watched files are recorded when they are opened.
#include "gates/file_hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

namespace gates {
namespace {

constexpr int kMaxDescriptors = 4096;

char watched_dir[4096], failed_path[4096];
std::array<std::atomic<bool>, kMaxDescriptors> watched, written;
std::mutex calls_mutex;
std::array<std::vector<std::string>, kNumFileOps> calls;  // the file of each
std::atomic<int> armed_op{-1}, armed_error{0};
std::atomic<uint64_t> armed_call{0};
std::atomic<bool> failed{false};

bool is_watched(const char* path) {
  return watched_dir[0] != '\0' && strncmp(path, watched_dir, strlen(watched_dir)) == 0;
}
bool is_watched(int fd) { return fd >= 0 && fd < kMaxDescriptors && watched[size_t(fd)]; }

// 0: make the call; otherwise the error it fails with.
int fault_of(FileOp op, const char* path) {
  const std::lock_guard lock(calls_mutex);
  calls[size_t(op)].push_back(path);
  if (armed_op != int(op) || armed_call != calls[size_t(op)].size()) return 0;
  snprintf(failed_path, sizeof failed_path, "%s", path);
  failed = true;
  return armed_error;
}

int fault_of_path(FileOp op, const char* path) { return is_watched(path) ? fault_of(op, path) : 0; }

int fault_of_file(FileOp op, int fd) {
  if (!is_watched(fd)) return 0;
  char link[32], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, path, sizeof path - 1) < 0) path[0] = '\0';
  return fault_of(op, path);
}

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

const char* name_of(FileOp op) {
  static constexpr const char* names[] = {"open",   "pread",     "write", "fsync",
                                          "rename", "ftruncate", "mkdir", "close"};
  return names[size_t(op)];
}

void watch_files(const std::string& dir) {
  snprintf(watched_dir, sizeof watched_dir, "%s", dir.c_str());
}

void arm_file(FileOp op, int error, uint64_t n) {
  failed = false;
  for (auto& paths : calls) paths.clear();
  armed_error = error;
  armed_call = n;
  armed_op = int(op);
}

bool disarm_file() {
  armed_op = -1;
  return failed;
}

std::string failed_file() { return failed_path; }

std::vector<std::string> files_of(FileOp op) {
  const std::lock_guard lock(calls_mutex);
  return calls[size_t(op)];
}

}  // namespace gates

// ---- the functions of the program ----

using gates::fault_of_file;
using gates::fault_of_path;
using gates::FileOp;
using gates::is_watched;
using gates::real;

#define RL_HOOK __attribute__((visibility("default")))

extern "C" {

RL_HOOK int open(const char* path, int flags, ...) {
  static const auto call = real<int (*)(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
  va_end(arguments);
  const bool ours = is_watched(path);
  if (const int error = fault_of_path(FileOp::kOpen, path); error != 0) return errno = error, -1;
  const int fd = call(path, flags, mode);
  if (fd >= 0 && fd < gates::kMaxDescriptors) {
    gates::watched[size_t(fd)] = ours;
    gates::written[size_t(fd)] = (flags & O_ACCMODE) != O_RDONLY;
  }
  return fd;
}

RL_HOOK ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  static const auto call = real<decltype(&pread)>("pread");
  const int error = fault_of_file(FileOp::kRead, fd);
  if (error > 0) return errno = error, -1;
  return call(fd, data, error == gates::kShort ? std::max<size_t>(size / 2, 1) : size, offset);
}

RL_HOOK ssize_t write(int fd, const void* data, size_t size) {
  static const auto call = real<decltype(&write)>("write");
  const int error = fault_of_file(FileOp::kWrite, fd);
  if (error > 0) return errno = error, -1;
  return call(fd, data, error == gates::kShort ? std::max<size_t>(size / 2, 1) : size);
}

// Does not wait for the disk: what was written is read back from memory anyway.
RL_HOOK int fsync(int fd) {
  const int error = fault_of_file(FileOp::kSync, fd);
  return error != 0 ? (errno = error, -1) : 0;
}

RL_HOOK int ftruncate(int fd, off_t size) noexcept {
  static const auto call = real<int (*)(int, off_t)>("ftruncate");
  const int error = fault_of_file(FileOp::kTruncate, fd);
  return error != 0 ? (errno = error, -1) : call(fd, size);
}

RL_HOOK int rename(const char* from, const char* to) noexcept {
  static const auto call = real<int (*)(const char*, const char*)>("rename");
  const int error = fault_of_path(FileOp::kRename, from);
  return error != 0 ? (errno = error, -1) : call(from, to);
}

RL_HOOK int mkdir(const char* path, mode_t mode) noexcept {
  static const auto call = real<int (*)(const char*, mode_t)>("mkdir");
  const int error = fault_of_path(FileOp::kMakeDirectory, path);
  return error != 0 ? (errno = error, -1) : call(path, mode);
}

// Faults only for files that were written: nothing is lost with the others. The descriptor is
// closed even if close fails, as on Linux.
RL_HOOK int close(int fd) {
  static const auto call = real<decltype(&close)>("close");
  const bool ours = is_watched(fd) && gates::written[size_t(fd)];
  const int error = ours ? fault_of_file(FileOp::kClose, fd) : 0;
  if (fd >= 0 && fd < gates::kMaxDescriptors) gates::watched[size_t(fd)] = false;
  const int result = call(fd);
  return error != 0 ? (errno = error, -1) : result;
}

}  // extern "C"
