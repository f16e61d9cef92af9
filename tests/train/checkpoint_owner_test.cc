// Checkpoints of a directory that another process may take over: who has lost it changes nothing
// there, also if that happens while its own checkpoint is written.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/checkpoint/checkpoint.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

using Names = std::vector<std::string>;

class CheckpointOwner : public ::testing::Test {
 protected:
  // on_check: at the n-th time that the directory's owner is asked for, from 1.
  void save(
      int64_t step, const std::function<void(int)>& on_check = [](int) {}) {
    int checks = 0;
    CheckpointRules rules{.replace_existing = true, .writer = "aa"};
    rules.require_own = [&] { on_check(++checks); };
    const CheckpointMeta meta{.step = step, .config_digest = "0123456789abcdef", .pipeline = "{}"};
    rig_.trainer->save(real_fs(), dir_.path(), meta, rules);
    EXPECT_EQ(checks, 2);
  }
  static TrainerOptions options() {
    TrainerOptions o;
    o.max_tokens = 160;
    return o;
  }
  static void lose() { throw Error(Code::kFailedPrecondition, "another process has it"); }
  void leave(const std::string& name) { real_fs().make_directories(dir_.file(name)); }
  Names names() { return real_fs().list(dir_.path()); }

  TempDir dir_;
  TrainRig rig_{{.model = "smollm2"}, options()};
};

TEST_F(CheckpointOwner, WhoHasLostItChangesNothing) {
  save(1);
  leave("step_000002.bb.partial");
  expect_error(Code::kFailedPrecondition, [&] { save(2, [](int) { lose(); }); });
  EXPECT_EQ(names(), Names({"step_000001", "step_000002.bb.partial"}));
}

TEST_F(CheckpointOwner, WhoLosesItWhileItWritesLeavesTheSuccessorsFiles) {
  save(1);
  expect_error(Code::kFailedPrecondition, [&] {
    save(2, [&](int check) {
      if (check < 2) return;
      EXPECT_EQ(names(), Names({"step_000001", "step_000002.aa.partial"}));
      leave("step_000002/whole");
      leave("step_000003.bb.partial");
      lose();
    });
  });
  EXPECT_EQ(names(), Names({"step_000001", "step_000002", "step_000003.bb.partial"}));
  EXPECT_EQ(real_fs().list(dir_.file("step_000002")), Names({"whole"}));
}

TEST_F(CheckpointOwner, LeftoversOfEveryWriterGoWithTheNextSave) {
  for (const char* name : {"step_000009.partial", "step_000009.bb.partial"}) leave(name);
  for (const char* name : {"notes.partial", "step_9.partial"}) leave(name);
  save(1);
  EXPECT_EQ(names(), Names({"notes.partial", "step_000001", "step_9.partial"}));
}

}  // namespace
}  // namespace rl::testing
