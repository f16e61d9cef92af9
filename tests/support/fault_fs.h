// A FileSystem over another one that fails, shortens or loses chosen operations. Operations are
// counted over all files; the n-th one (from 1) fails with Error(kIo) and the given errno, once or
// from then on. A failing append may first write part of its data, as on a full disk.
#pragma once
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/fs.h"

namespace rl {

class FaultFs : public FileSystem {
 public:
  explicit FaultFs(FileSystem& base = real_fs()) : base_(base) {}

  struct Fault {
    int64_t at = 0;  // operation number; 0 never fails
    int system_code = EIO;
    bool for_ever = false;
    uint64_t partial_bytes = 0;  // of a failing append, written before it fails
  };
  void arm(Fault fault) {
    fault_ = fault;
    operations_ = 0;
  }
  int64_t operations() const { return operations_; }

  std::unique_ptr<InputFile> open(const std::string& path) override {
    step("open", path);
    return std::make_unique<Input>(*this, base_.open(path));
  }
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    step("create", path);
    return std::make_unique<Output>(*this, path, base_.create(path));
  }
  std::unique_ptr<OutputFile> append_to(const std::string& path) override {
    step("append to", path);
    return std::make_unique<Output>(*this, path, base_.append_to(path));
  }
  bool exists(const std::string& path) override {
    step("stat", path);
    return base_.exists(path);
  }
  bool is_directory(const std::string& path) override {
    step("stat", path);
    return base_.is_directory(path);
  }
  std::vector<std::string> list(const std::string& dir) override {
    step("list", dir);
    return base_.list(dir);
  }
  void make_directories(const std::string& path) override {
    step("create directory", path);
    base_.make_directories(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    step("rename", from);
    base_.rename(from, to);
  }
  void remove_all(const std::string& path) override {
    step("remove", path);
    base_.remove_all(path);
  }
  void sync_directory(const std::string& path) override {
    step("sync directory", path);
    base_.sync_directory(path);
  }

 private:
  bool next_fails() {
    ++operations_;
    if (fault_.at == 0) return false;
    return fault_.for_ever ? operations_ >= fault_.at : operations_ == fault_.at;
  }
  [[noreturn]] void fail(const char* operation, const std::string& path) const {
    throw Error(Code::kIo,
                str("cannot ", operation, " ", path, ": ", std::strerror(fault_.system_code)))
        .with_location(path)
        .with_system_code(fault_.system_code);
  }
  void step(const char* operation, const std::string& path) {
    if (next_fails()) fail(operation, path);
  }

  class Input final : public InputFile {
   public:
    Input(FaultFs& fs, std::unique_ptr<InputFile> base) : fs_(fs), base_(std::move(base)) {}
    uint64_t size() const override { return base_->size(); }
    const std::string& path() const override { return base_->path(); }
    void read_at(uint64_t offset, std::span<std::byte> out) const override {
      fs_.step("read", path());
      base_->read_at(offset, out);
    }

   private:
    FaultFs& fs_;
    std::unique_ptr<InputFile> base_;
  };

  class Output final : public OutputFile {
   public:
    Output(FaultFs& fs, std::string path, std::unique_ptr<OutputFile> base)
        : fs_(fs), path_(std::move(path)), base_(std::move(base)) {}
    void append(std::span<const std::byte> data) override {
      if (fs_.next_fails()) {
        base_->append(data.subspan(0, std::min<size_t>(data.size(), fs_.fault_.partial_bytes)));
        fs_.fail("write", path_);
      }
      base_->append(data);
    }
    void sync() override {
      fs_.step("sync", path_);
      base_->sync();
    }
    void close() override {
      fs_.step("close", path_);
      base_->close();
    }

   private:
    FaultFs& fs_;
    std::string path_;
    std::unique_ptr<OutputFile> base_;
  };

  FileSystem& base_;
  Fault fault_;
  int64_t operations_ = 0;
};

}  // namespace rl
