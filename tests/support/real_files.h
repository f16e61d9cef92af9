// The system's files as a class, of which a test overrides what it is about. Unlike a FaultFs it
// may be called from several threads at once.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/fs.h"

namespace rl {

class RealFiles : public FileSystem {
 public:
  std::unique_ptr<InputFile> open(const std::string& p) override { return real_fs().open(p); }
  std::unique_ptr<OutputFile> create(const std::string& p) override { return real_fs().create(p); }
  std::unique_ptr<OutputFile> append_to(const std::string& p) override {
    return real_fs().append_to(p);
  }
  bool exists(const std::string& p) override { return real_fs().exists(p); }
  bool is_directory(const std::string& p) override { return real_fs().is_directory(p); }
  std::vector<std::string> list(const std::string& p) override { return real_fs().list(p); }
  void make_directories(const std::string& p) override { real_fs().make_directories(p); }
  void rename(const std::string& a, const std::string& b) override { real_fs().rename(a, b); }
  void remove_all(const std::string& p) override { real_fs().remove_all(p); }
  void sync_directory(const std::string& p) override { real_fs().sync_directory(p); }
};

}  // namespace rl
