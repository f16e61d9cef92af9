// A checkpoint with a critic: a resumed run equals the uninterrupted one bit for bit, and damage to
// the critic's files, or a run without a critic, changes nothing.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "critic_rig.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "train/checkpoint/checkpoint.h"

namespace rl::testing {
namespace {

constexpr const char* kConfig = "0123456789abcdef";

// A policy and its critic.
struct Pair {
  Pair() : policy({}, TrainerOptions()), critic({}, critic_options()) {}
  static CriticOptions critic_options() {
    CriticOptions o;
    o.schedule = {ScheduleKind::kCosine, 1e-3, 1, 6, 0.0};
    o.batch.num_minibatches = 2;
    return o;
  }
  void step(unsigned seed) {
    const std::vector<Sample> samples = random_samples(8, policy.model().config().vocab, seed);
    policy.trainer->step(with_advantages(samples));
    critic.critic->step(CriticData(critic, samples, seed).batch);
  }
  std::string save(const std::string& dir, FileSystem& fs = real_fs()) {
    return policy.trainer->save(fs, dir, {.step = 1, .config_digest = kConfig, .pipeline = "{}"},
                                {.replace_existing = true}, critic.critic.get());
  }
  void load(const std::string& path, FileSystem& fs = real_fs()) {
    policy.trainer->load(fs, path, kConfig, critic.critic.get());
  }
  bool equals(Pair& other) {
    return same_bits(policy.masters(), other.policy.masters()) &&
           same_bits(critic.masters(), other.critic.masters());
  }

  TrainRig policy;
  CriticRig critic;
};

// A pair one step beyond its checkpoint, and another that went the same way.
struct Trained {
  Trained() {
    pair.step(1);
    path = pair.save(dir.path());
    pair.step(2);
    before.load(path);
    before.step(2);
  }
  TempDir dir;
  Pair pair, before;
  std::string path;
};

TEST(CriticCheckpoint, AResumedRunEqualsTheUninterruptedOne) {
  const TempDir dir;
  Pair whole;
  whole.step(1);
  whole.step(2);
  const std::string path = whole.save(dir.path());
  EXPECT_TRUE(std::filesystem::exists(path + "/critic_second_moments.safetensors"));
  whole.step(3);
  Pair resumed;
  resumed.load(path);
  EXPECT_EQ(resumed.critic.critic->counters().optimizer_steps, 4);
  EXPECT_EQ(resumed.critic.model().version(), 2u);
  EXPECT_FALSE(resumed.equals(whole));
  resumed.step(3);
  EXPECT_TRUE(resumed.equals(whole));
}

TEST(CriticCheckpoint, ARunWithoutACriticAndOneWithoutItsFilesAreRefused) {
  const TempDir with, without;
  Pair pair;
  pair.step(1);
  const std::string path = pair.save(with.path());
  const std::string bare = pair.policy.trainer->save(
      real_fs(), without.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"});
  const Error none = expect_error(Code::kIncompatible,
                                  [&] { pair.policy.trainer->load(real_fs(), path, kConfig); });
  EXPECT_TRUE(contains(none.message, "has a critic, but this run has no critic"));
  const Error some = expect_error(Code::kIncompatible, [&] { pair.load(bare); });
  EXPECT_TRUE(contains(some.message, "has no critic, but this run has a critic"));
  pair.load(path);
}

TEST(CriticCheckpoint, DamageToItsFilesIsNamedAndChangesNothing) {
  Trained trained;
  Pair &pair = trained.pair, &before = trained.before;
  const std::string& path = trained.path;
  for (const char* name : {"critic_masters.safetensors", "critic_first_moments.safetensors",
                           "critic_second_moments.safetensors"}) {
    const std::string file = path + "/" + name;
    const auto at = static_cast<std::streamoff>(std::filesystem::file_size(file) - 3);
    const auto flip = [&] {
      std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
      f.seekg(at);
      const char byte = static_cast<char>(f.get() ^ 1);
      f.seekp(at);
      f.put(byte);
    };
    flip();
    const Error e = expect_error(Code::kDataLoss, [&] { pair.load(path); });
    EXPECT_TRUE(contains(e.message, name));
    EXPECT_TRUE(pair.equals(before));
    flip();
  }
  pair.step(3);  // nothing was lost
}

TEST(CriticCheckpoint, ALoadThatFailsAnywhereLeavesBothWeights) {
  Trained trained;
  Pair &pair = trained.pair, &before = trained.before;
  const std::string& path = trained.path;
  FaultFs fs;
  fs.arm({});
  {
    Pair counted;
    counted.load(path, fs);
  }
  const int64_t operations = fs.operations();
  EXPECT_GT(operations, 20);
  for (int64_t at = 1; at <= operations; ++at) {
    fs.arm({.at = at});
    expect_error(Code::kIo, [&] { pair.load(path, fs); });
    ASSERT_TRUE(pair.equals(before)) << "operation " << at;
  }
  pair.load(path);
  Pair loaded;
  loaded.load(path);
  EXPECT_TRUE(pair.equals(loaded));
}

}  // namespace
}  // namespace rl::testing
