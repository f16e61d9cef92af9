// The file seam. Every file operation of the library goes through a FileSystem, so that a test can
// fail or shorten any of them. Errors are Error(kIo) (or kNotFound) naming path and operation, with
// errno as system_code.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rl {

// A readable file of fixed length. read_at is thread-safe and either fills the whole span or
// throws: kDataLoss if the range lies beyond the end (names path, offset, length), kIo if the
// system call fails.
class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual uint64_t size() const = 0;
  virtual void read_at(uint64_t offset, std::span<std::byte> out) const = 0;
  virtual const std::string& path() const = 0;
};

// An append-only file. Data is durable only after sync() returned; close() reports late write
// errors.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void append(std::span<const std::byte> data) = 0;
  virtual void sync() = 0;
  virtual void close() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual std::unique_ptr<InputFile> open(const std::string& path) = 0;     // regular files only
  virtual std::unique_ptr<OutputFile> create(const std::string& path) = 0;  // truncates
  virtual std::unique_ptr<OutputFile> append_to(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual bool is_directory(const std::string& path) = 0;
  virtual std::vector<std::string> list(const std::string& dir) = 0;  // names, sorted
  virtual void make_directories(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove_all(const std::string& path) = 0;
  virtual void sync_directory(const std::string& path) = 0;
};

// The real file system (pread, write, fsync). Never destroyed.
FileSystem& real_fs();

// The directory that holds path: "." for a bare name.
std::string parent_directory(const std::string& path);

// Reads a whole file; kResourceExhausted if it is larger than max_bytes.
std::string read_text_file(FileSystem& fs, const std::string& path, uint64_t max_bytes);
// Writes a temporary sibling, syncs and renames it, so that path has either the old or the complete
// new content.
void write_file_atomically(FileSystem& fs, const std::string& path, std::string_view data);

}  // namespace rl
