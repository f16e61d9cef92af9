// Rewards of single tokens in a host's scores: that they train, reach files and the host's own
// advantages, and what is refused.
#include <cmath>
#include <functional>

#include "replay_rig.h"
#include "support/expect_error.h"
#include "turn_rig.h"

namespace rl::testing {
namespace {

OptionSet rewarded_options(const TempDir& dir, const char* advantage = "reinforce_pp") {
  OptionSet o = tiny_options(dir);
  o.set_text("algo.advantage", advantage);
  o.set_i64("pipeline.total_steps", 1);
  return o;
}

using Reward = std::function<double(const Sample& s, size_t token)>;

void give(Pipeline& p, const Sample& s, const Reward& reward_of) {
  std::vector<double> rewards;
  for (size_t t = 0; t < s.loss_mask.size(); ++t) rewards.push_back(reward_of(s, t));
  p.score(Score{.sample_id = s.id, .reward = low_id_reward(s), .token_rewards = rewards});
}

uint64_t digest_of(const OptionSet& o, const Reward& reward_of) {
  Rig rig(o);
  rig.on_turn = use_tool;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) { give(p, *s, reward_of); };
  rig.start_and_serve();
  return rig.model().weight_digest();
}

double nothing(const Sample&, size_t) { return 0; }
double odd_ids(const Sample& s, size_t t) {
  return s.ids[static_cast<size_t>(s.prompt_tokens) + t] % 2;
}

TEST(TokenRewards, TheyTrain) {
  for (const char* advantage : {"reinforce_pp", "remax", "gae"}) {
    SCOPED_TRACE(advantage);
    const TempDir dir;
    const OptionSet o = rewarded_options(dir, advantage);
    Rig plain(o);
    plain.start_and_serve();
    const uint64_t without = plain.model().weight_digest();
    EXPECT_EQ(digest_of(o, nothing), without);
    EXPECT_NE(digest_of(o, odd_ids), without);
  }
}

// The whole reward at the last token, given as the reward of a sample or of that token.
TEST(TokenRewards, TheRewardOfASampleIsThatOfItsLastToken) {
  const TempDir dir;
  const OptionSet o = rewarded_options(dir);
  Rig rig(o);
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    std::vector<double> rewards(s->loss_mask.size());
    rewards.back() = low_id_reward(*s);
    p.score(Score{.sample_id = s->id, .token_rewards = rewards});
  };
  rig.start_and_serve();
  EXPECT_EQ(rig.model().weight_digest(), digest_of(o, nothing));
}

TEST(TokenRewards, ThoseOfRepliesAreNotRead) {
  const TempDir dir;
  const OptionSet o = turn_options(dir, {"algo.advantage=reinforce_pp", "pipeline.total_steps=1"});
  const auto of_replies = [](const Sample& s, size_t t) { return s.loss_mask[t] == 0 ? 9.0 : 0.0; };
  EXPECT_EQ(digest_of(o, of_replies), digest_of(o, nothing));
}

TEST(TokenRewards, RecordedBatchesHaveThem) {
  const TempDir dir;
  OptionSet o = rewarded_options(dir);
  o.set_string("buffer.record_dir", dir.file("record"));
  const uint64_t digest = digest_of(o, odd_ids);
  testing::Replay replay(o);
  EXPECT_EQ(replay.step(dir.file("record/step_000001.rlbuf")), 16u);
  EXPECT_EQ(replay.digest(), digest);
}

TEST(TokenRewards, TheHostsOwnAdvantagesReadThem) {
  const TempDir dir;
  Rig rig(rewarded_options(dir, "custom"));
  int64_t seen = 0;
  rig.pipeline().set_custom_advantage([&](const AlgoArrays& in, std::span<double> advantages) {
    ASSERT_EQ(in.token_rewards.size(), advantages.size());
    for (size_t t = 0; t < advantages.size(); ++t) {
      advantages[t] = in.token_rewards[t];
      seen += in.token_rewards[t] == 1;
    }
  });
  int64_t given = 0;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    if (s->slot == 0) return p.score(s->id, 0);  // no token rewards count as zeros
    for (size_t t = 0; t < s->loss_mask.size(); ++t) given += odd_ids(*s, t) == 1;
    give(p, *s, odd_ids);
  };
  EXPECT_EQ(rig.start_and_serve().steps.size(), 1u);
  EXPECT_EQ(seen, given);
  EXPECT_GT(seen, 0);
}

TEST(TokenRewards, ARefusedScoreLeavesTheSampleWaiting) {
  const TempDir dir;
  Rig rig(rewarded_options(dir));
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    const std::vector<double> few(3, 1.0);
    std::vector<double> broken(s->loss_mask.size(), 1.0);
    broken[2] = NAN;
    const Error e = expect_error(Code::kInvalidArgument, [&] {
      p.score(Score{.sample_id = s->id, .reward = 1, .token_rewards = few});
    });
    EXPECT_EQ(e.key, "token_rewards");
    EXPECT_TRUE(contains(e.message, "has 8 tokens after its prompt"));
    expect_error(Code::kNonFinite,
                 [&] { p.score(Score{.sample_id = s->id, .reward = 1, .token_rewards = broken}); });
    give(p, *s, odd_ids);
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(rig.pipeline().status().ledger.nonfinite_scores, 16);
}

TEST(TokenRewards, AnEstimatorOfSamplesRefusesThem) {
  const TempDir dir;
  Rig rig(rewarded_options(dir, "grpo"));
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    const Error e = expect_error(Code::kInvalidArgument, [&] { give(p, *s, odd_ids); });
    EXPECT_EQ(e.key, "algo.advantage");
    p.score(s->id, low_id_reward(*s));
  };
  EXPECT_EQ(rig.start_and_serve().steps.size(), 1u);
}

}  // namespace
}  // namespace rl::testing
