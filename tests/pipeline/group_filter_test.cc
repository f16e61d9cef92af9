// Groups that a step does not keep: counted and told by reason, replaced by new prompts while there
// are some, and the same again after a resume. Also the greedy responses of remax and the
// coefficient of an adaptive KL, which live as long.
#include <map>
#include <set>

#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::options_with;
using testing::Rig;
using testing::RunLog;

// Odd ordinals have a signal; the samples of an even one have equal scores.
void score_by_ordinal(Pipeline& p, const SamplePtr& s) {
  p.score(s->id, s->ordinal % 2 == 0 ? 1.0 : 0.25 * s->slot);
}

TEST(GroupFilter, FilteredGroupsAreReplacedAndNamed) {
  for (const char* filter : {"pipeline.filter=mean", "pipeline.filter=spread"}) {
    const TempDir dir;
    Rig rig(options_with(dir, {filter}));
    rig.on_score = score_by_ordinal;
    const RunLog log = rig.start_and_serve();
    EXPECT_EQ(log.series("training/samples"), (std::vector<double>{16, 16, 16}));
    // 4 draws leave 2 groups, 2 more one, the next none or one, until there are four.
    for (const auto& d : log.dropped) {
      EXPECT_EQ(d->reason, DropReason::kFiltered);
      EXPECT_EQ(d->ordinal % 2, 0u);
      EXPECT_TRUE(contains(d->message, "pipeline.filter_")) << d->message;
    }
    const LedgerCounts c = rig.pipeline().status().ledger;
    EXPECT_EQ(c.prompts_trained, 12);
    const auto filtered = static_cast<size_t>(DropReason::kFiltered);
    EXPECT_EQ(c.prompts_dropped[filtered], static_cast<int64_t>(log.dropped.size()));
    EXPECT_GE(log.dropped.size(), 11u);
    double reported = 0, rounds = 0;
    for (const MetricList& m : log.steps) {
      reported += m.get("pipeline/groups_filtered/score").value();
      rounds += m.get("pipeline/filter_rounds").value();
      EXPECT_EQ(m.get("pipeline/groups_filtered/not_replaced"), 0.0);
    }
    EXPECT_EQ(reported, static_cast<double>(log.dropped.size()));
    EXPECT_GE(rounds, 6);
    std::set<uint64_t> ordinals;
    for (const SamplePtr& s : log.samples) ordinals.insert(s->ordinal);
    EXPECT_EQ(ordinals.size(), *ordinals.rbegin() + 1) << "no draw is left out";
  }
}

TEST(GroupFilter, AfterTheLastRoundAStepTrainsOnWhatItHas) {
  const TempDir dir;
  Rig rig(options_with(dir, {"pipeline.filter=mean", "pipeline.filter_max_rounds=1"}));
  rig.on_score = score_by_ordinal;
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps[0].get("training/samples"), 12.0);
  EXPECT_EQ(log.steps[0].get("pipeline/groups_filtered/not_replaced"), 1.0);
  EXPECT_EQ(log.steps[0].get("pipeline/filter_rounds"), 1.0);
}

TEST(GroupFilter, ADryFeedEndsTheRefill) {
  const TempDir dir;
  OptionSet o = options_with(dir, {"pipeline.filter=mean", "pipeline.total_steps=0"});
  o.set_text("data.path", "");
  Rig rig(o);
  rig.on_score = score_by_ordinal;
  for (int i = 0; i < 5; ++i) rig.pipeline().feed_ids({1, 2, 3 + i}, "");
  rig.pipeline().end_feed();
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.steps[0].get("training/samples"), 8.0);
  EXPECT_EQ(log.steps[0].get("pipeline/groups_filtered/not_replaced"), 2.0);
  EXPECT_EQ(rig.pipeline().status().ledger.prompts_drawn, 5);
}

TEST(GroupFilter, GroupsWithoutAdvantageAreDiscardedAndNotReplaced) {
  const TempDir dir;
  Rig rig(options_with(dir, {"pipeline.discard_zero_advantage=true"}));
  rig.on_score = score_by_ordinal;
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.series("training/samples"), (std::vector<double>{8, 8, 8}));
  EXPECT_EQ(log.series("pipeline/groups_filtered/zero_advantage"), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(log.steps[2].get("pipeline/prompts_dropped/filtered"), 6.0);
  ASSERT_EQ(log.dropped.size(), 6u);
  EXPECT_TRUE(contains(log.dropped[0]->message, "advantages are 0"));
  for (const double kept : log.series("pipeline/prompts_drawn"))
    EXPECT_EQ(static_cast<int>(kept) % 4, 0);
}

TEST(GroupFilter, PartsOfRewardsSayWhetherAGroupHasAnAdvantage) {
  const TempDir dir;
  Rig rig(options_with(dir, {"algo.advantage=gdpo", "algo.gdpo_weights=1,1",
                             "pipeline.discard_zero_advantage=true", "pipeline.total_steps=1"}));
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    const double parts[] = {s->ordinal % 2 == 0 ? 1.0 : 0.25 * s->slot, 0.5};
    p.score(s->id, parts[0] + parts[1], parts);
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.steps[0].get("pipeline/groups_filtered/zero_advantage"), 2.0);
  EXPECT_EQ(log.steps[0].get("training/samples"), 8.0);
}

TEST(GroupFilter, AStepOfWhichNothingIsLeftChangesNoWeight) {
  const TempDir dir;
  Rig rig(options_with(dir, {"pipeline.discard_zero_advantage=true", "pipeline.total_steps=1"}));
  const uint64_t before = rig.model().weight_digest();
  rig.on_score = [](Pipeline& p, const SamplePtr& s) { p.score(s->id, 1); };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps[0].get("training/samples"), 0.0);
  EXPECT_EQ(log.dropped.size(), 4u);
  EXPECT_EQ(rig.model().weight_digest(), before);
}

TEST(GroupFilter, AResumedRunDrawsOnWhereItStopped) {
  const TempDir dir;
  OptionSet o =
      options_with(dir, {"pipeline.filter=mean", "checkpoint.every_steps=1",
                         "pipeline.total_steps=4", "algo.kl.where=reward", "algo.kl.coef=0.1",
                         "algo.kl.controller=adaptive", "algo.kl.horizon=50"});
  o.set_string("checkpoint.dir", dir.file("whole"));
  uint64_t whole;
  double coef;
  {
    Rig rig(o);
    rig.on_score = score_by_ordinal;
    coef = rig.start_and_serve().steps.back().get("actor/reward_kl_penalty_coeff").value();
    whole = rig.model().weight_digest();
  }
  OptionSet half = o;
  half.set_string("checkpoint.dir", dir.file("parts"));
  half.set_text("pipeline.total_steps", "2");
  {
    Rig rig(half);
    rig.on_score = score_by_ordinal;
    rig.start_and_serve();
  }
  half.set_text("pipeline.total_steps", "4");
  half.set_text("checkpoint.resume", "auto");
  Rig rig(half);
  rig.on_score = score_by_ordinal;
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps.back().get("actor/reward_kl_penalty_coeff"), coef);
  EXPECT_NE(coef, 0.1);
  EXPECT_EQ(rig.model().weight_digest(), whole);
}

TEST(Remax, AGreedyResponseIsGeneratedAndScoredForEachGroup) {
  const TempDir dir;
  Rig rig(options_with(dir, {"algo.advantage=remax", "pipeline.total_steps=1"}));
  std::map<uint64_t, std::set<uint32_t>> slots;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    slots[s->ordinal].insert(s->slot);
    p.score(s->id, s->slot == 4 ? 0.25 : 0.25 * s->slot);
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(slots.size(), 4u);
  for (const auto& [ordinal, seen] : slots) EXPECT_EQ(seen, (std::set<uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(log.steps[0].get("training/samples"), 16.0);
  EXPECT_EQ(log.steps[0].get("critic/score/mean"), 0.375);
  EXPECT_NEAR(log.steps[0].get("critic/advantages/mean").value(), 0.125, 1e-12);
  EXPECT_EQ(log.steps[0].get("critic/advantages/min"), -0.25);
  EXPECT_EQ(rig.pipeline().status().ledger.attempts_trained, 20);
  for (const SamplePtr& s : log.samples) {
    if (s->slot != 4) continue;
    EXPECT_EQ(s->temperature, 1.0f);  // of the stored log-probs of a greedy response
  }
}

TEST(Remax, OneSampleOfAPromptHasAGreedyResponseToo) {
  const TempDir dir;
  Rig rig(options_with(
      dir, {"algo.advantage=remax", "pipeline.samples_per_prompt=1", "pipeline.total_steps=1"}));
  std::set<uint64_t> greedy;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    if (s->slot == 1) greedy.insert(s->ordinal);
    p.score(s->id, s->slot == 1 ? 0.25 : 1);
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(greedy, (std::set<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(log.series("training/samples"), std::vector<double>{4});
  EXPECT_EQ(log.series("critic/score/mean"), std::vector<double>{1});
  EXPECT_EQ(log.series("critic/advantages/mean"), std::vector<double>{0.75});
}

// Whatever the temperature of the others is; log-probs of a greedy response are those of 1.
TEST(Remax, OnlyTheLastResponseOfAGroupIsGreedy) {
  const TempDir dir;
  Rig rig(options_with(
      dir, {"algo.advantage=remax", "pipeline.total_steps=1", "sampling.temperature=0.5"}));
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.samples.size(), 20u);
  for (const SamplePtr& s : log.samples) {
    EXPECT_EQ(s->temperature, s->slot == 4 ? 1.0f : 0.5f) << s->slot;
    EXPECT_EQ(s->id, 1 + 5 * s->ordinal + s->slot);
  }
}

TEST(Remax, TheGreedyResponseIsNoMemberOfAFilteredGroup) {
  const TempDir dir;
  Rig rig(options_with(dir, {"algo.advantage=remax", "pipeline.total_steps=1",
                             "pipeline.filter=spread", "pipeline.filter_max_rounds=1"}));
  // Samples of the even ordinals are alike, whatever their greedy response is.
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    p.score(s->id, s->slot == 4 || s->ordinal % 2 == 0 ? 0.5 * (s->slot == 4) : 0.25 * s->slot);
  };
  const RunLog log = rig.start_and_serve();
  std::set<uint64_t> dropped;
  for (const auto& d : log.dropped) dropped.insert(d->ordinal);
  EXPECT_EQ(dropped, (std::set<uint64_t>{0, 2, 4}));
  EXPECT_EQ(log.steps[0].get("training/samples"), 12.0);
}

TEST(Remax, ATrainerRequiresTheGreedyResponse) {
  const TempDir dir;
  OptionSet o = options_with(dir, {"algo.advantage=remax", "pipeline.total_steps=1"});
  std::vector<SamplePtr> samples;
  {
    Rig rig(o);
    rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
      samples.push_back(std::make_shared<Sample>(*s));
      samples.back()->scored = true;
      samples.back()->reward = 0.25 * s->slot;
      p.score(s->id, 0.25 * s->slot);
    };
    rig.start_and_serve();
  }
  const auto runtime = std::make_shared<Runtime>(o);
  TrainerSession trainer(LoadedModel::open(runtime, o, PlanUse::kTrain), testing::for_session(o));
  EXPECT_EQ(trainer.step(samples).get("training/samples"), 16.0);
  std::erase_if(samples, [](const SamplePtr& s) { return s->slot == 4 && s->ordinal == 2; });
  const Error e = expect_error(Code::kFailedPrecondition, [&] { trainer.step(samples); });
  EXPECT_EQ(e.key, "algo.advantage");
  EXPECT_TRUE(contains(e.message, "ordinal 2")) << e.message;
}

TEST(AdaptiveKl, TheCoefficientFollowsTheKlOfBothPlacements) {
  for (const char* where : {"algo.kl.where=reward", "algo.kl.where=loss"}) {
    SCOPED_TRACE(where);
    const TempDir dir;
    Rig rig(options_with(dir, {where, "algo.kl.coef=0.1", "algo.kl.controller=adaptive",
                               "algo.kl.target=1e-7", "algo.kl.horizon=160"}));
    const RunLog log = rig.start_and_serve();
    const std::vector<double> coef =
        log.series(contains(where, "reward") ? "actor/reward_kl_penalty_coeff" : "actor/kl_coef");
    const std::vector<double> kl =
        log.series(contains(where, "reward") ? "actor/reward_kl_penalty" : "actor/kl");
    EXPECT_EQ(kl[0], 0.0);
    EXPECT_DOUBLE_EQ(coef[1], 0.1 * (1 - 0.2 * 16 / 160));
    EXPECT_GT(kl[1], 1e-6);
    EXPECT_DOUBLE_EQ(coef[2], coef[1] * (1 + 0.2 * 16 / 160));
  }
}

TEST(AdaptiveKl, ACoefficientThatIsSetAnewIsWhereItGoesOn) {
  const TempDir dir;
  OptionSet o =
      options_with(dir, {"algo.kl.where=reward", "algo.kl.coef=0.1", "algo.kl.controller=adaptive",
                         "algo.kl.target=1e-7", "algo.kl.horizon=160"});
  Rig rig(o);
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    if (s->ordinal == 0 && s->slot == 0) {
      o.set_f64("algo.kl.coef", 0.5);
      p.set_options(o);
    }
    p.score(s->id, testing::low_id_reward(*s));
  };
  const std::vector<double> coef = rig.start_and_serve().series("actor/reward_kl_penalty_coeff");
  EXPECT_EQ(coef[0], 0.1);
  EXPECT_EQ(coef[1], 0.5);
  EXPECT_DOUBLE_EQ(coef[2], 0.5 * (1 + 0.2 * 16 / 160));
}

TEST(AdaptiveKl, TheCoefficientWaitsWhileTheCriticWarmsUp) {
  const TempDir dir;
  Rig rig(
      options_with(dir, {"algo.advantage=gae", "algo.critic_warmup_steps=1", "algo.kl.where=reward",
                         "algo.kl.coef=0.1", "algo.kl.controller=adaptive", "algo.kl.target=1e-7",
                         "algo.kl.horizon=160"}));
  const std::vector<double> coef = rig.start_and_serve().series("actor/reward_kl_penalty_coeff");
  EXPECT_EQ(coef[0], 0.1);
  EXPECT_EQ(coef[1], 0.1) << "the policy has not moved";
  EXPECT_DOUBLE_EQ(coef[2], 0.1 * (1 - 0.2 * 16 / 160));
}

}  // namespace
}  // namespace rl
