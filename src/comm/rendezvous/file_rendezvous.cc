#include "comm/rendezvous/rendezvous.h"
#include "core/error.h"

namespace rl {
namespace {

class FileRendezvous final : public Rendezvous {
 public:
  FileRendezvous(FileSystem& files, std::string directory)
      : files_(files), directory_(std::move(directory)) {
    if (files_.is_directory(directory_)) return;
    throw Error(Code::kNotFound, str(directory_, " is no directory for ranks to meet in"));
  }

  bool publish(int rank, const std::string& card, int64_t) override {
    write_file_atomically(files_, path_of(rank), card);
    return true;
  }

  std::optional<std::string> find(int rank, int64_t) override {
    if (!files_.exists(path_of(rank))) return std::nullopt;
    try {
      return read_text_file(files_, path_of(rank), kLimit);
    } catch (const Error& error) {
      if (error.code == Code::kNotFound) return std::nullopt;  // withdrawn meanwhile
      throw;
    }
  }

  void withdraw(int rank) override { files_.remove_all(path_of(rank)); }
  std::string own_address(int64_t) override { return ""; }

 private:
  static constexpr uint64_t kLimit = 4096;
  std::string path_of(int rank) const { return str(directory_, "/rank_", rank); }

  FileSystem& files_;
  std::string directory_;
};

class HostRendezvous final : public Rendezvous {
 public:
  explicit HostRendezvous(RendezvousCalls calls) : calls_(std::move(calls)) {}
  bool publish(int rank, const std::string& card, int64_t) override {
    calls_.publish(rank, card);
    return true;
  }
  std::optional<std::string> find(int rank, int64_t) override { return calls_.find(rank); }
  void withdraw(int) override {}
  std::string own_address(int64_t) override { return ""; }

 private:
  RendezvousCalls calls_;
};

}  // namespace

std::unique_ptr<Rendezvous> file_rendezvous(FileSystem& files, std::string directory) {
  return std::make_unique<FileRendezvous>(files, std::move(directory));
}

std::unique_ptr<Rendezvous> host_rendezvous(RendezvousCalls calls) {
  return std::make_unique<HostRendezvous>(std::move(calls));
}

}  // namespace rl
