// The order in which a checkpoint reaches the disk: every file is synced before the name appears,
// and what it replaces goes only after its successor is in place.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "checkpoint_arrays.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

using Log = std::vector<std::string>;

// Notes what changes the disk, with paths relative to a directory.
class RecordingFs : public FaultFs {
 public:
  explicit RecordingFs(std::string dir) : dir_(std::move(dir)) {}
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    return std::make_unique<Output>(*this, path, real_fs().create(path));
  }
  void rename(const std::string& from, const std::string& to) override {
    note("rename to", to);
    FaultFs::rename(from, to);
  }
  void remove_all(const std::string& path) override {
    note("remove", path);
    FaultFs::remove_all(path);
  }
  void sync_directory(const std::string& path) override {
    note("sync", path);
    FaultFs::sync_directory(path);
  }
  Log take() { return std::exchange(log_, {}); }

 private:
  class Output final : public OutputFile {
   public:
    Output(RecordingFs& fs, std::string path, std::unique_ptr<OutputFile> base)
        : fs_(fs), path_(std::move(path)), base_(std::move(base)) {}
    void append(std::span<const std::byte> data) override {
      written_ = true;
      base_->append(data);
    }
    void sync() override {
      EXPECT_TRUE(written_) << path_;
      fs_.note("sync", path_);
      base_->sync();
    }
    void close() override { base_->close(); }

   private:
    RecordingFs& fs_;
    std::string path_;
    std::unique_ptr<OutputFile> base_;
    bool written_ = false;
  };
  void note(const std::string& what, const std::string& path) {
    log_.push_back(what + " " + (path == dir_ ? "." : path.substr(dir_.size() + 1)));
  }

  std::string dir_;
  Log log_;
};

Log save(RecordingFs& fs, const TempDir& dir, int64_t step, const CheckpointRules& rules = {}) {
  CheckpointedArrays policy(1);
  const std::vector<CheckpointArrays> views = {policy.view()};
  save_checkpoint(fs, dir.path(), {{step, "digest", "{}"}, {{1, 2, 3}}}, views, rules);
  return fs.take();
}

// Files of a checkpoint that is not whole yet, then its directory.
Log synced(const std::string& name) {
  Log out;
  for (const char* file : {"masters.safetensors", "first_moments.safetensors",
                           "second_moments.safetensors", "manifest.json", "manifest.xxh64"})
    out.push_back("sync " + name + "/" + file);
  out.push_back("sync " + name);
  return out;
}

Log followed_by(Log log, const Log& more) {
  log.insert(log.end(), more.begin(), more.end());
  return log;
}

TEST(CheckpointOrder, EveryFileIsSyncedBeforeTheNameAppears) {
  const TempDir dir;
  RecordingFs fs(dir.path());
  EXPECT_EQ(save(fs, dir, 7),
            followed_by(synced("step_000007.partial"), {"rename to step_000007", "sync ."}));
}

TEST(CheckpointOrder, AReplacedOneGoesAfterItsSuccessorIsInPlace) {
  const TempDir dir;
  RecordingFs fs(dir.path());
  save(fs, dir, 7);
  EXPECT_EQ(save(fs, dir, 7, {.replace_existing = true}),
            followed_by(synced("step_000007.partial"),
                        {"rename to step_000007.replaced", "rename to step_000007", "sync .",
                         "remove step_000007.removed", "rename to step_000007.removed",
                         "remove step_000007.removed"}));
}

// An old checkpoint loses its name before its files.
TEST(CheckpointOrder, OldOnesGoAfterTheNewOneIsInPlace) {
  const TempDir dir;
  RecordingFs fs(dir.path());
  save(fs, dir, 2);
  EXPECT_EQ(save(fs, dir, 7, {.keep_last = 1}),
            followed_by(synced("step_000007.partial"),
                        {"rename to step_000007", "sync .", "remove step_000002.removed",
                         "rename to step_000002.removed", "remove step_000002.removed"}));
}

}  // namespace
}  // namespace rl::testing
