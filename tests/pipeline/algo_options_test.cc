// Options of algorithms that are fixed at creation: every choice runs and acts, and texts that the
// registry cannot check are refused by name.
#include "pipeline/config/algo_options.h"

#include <set>

#include "pipeline/config/run_options.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::Rig;
using testing::tiny_options;

using Texts = std::vector<std::string>;

// Digest of the weights after two steps of two passes, in which the ratio leaves 1.
uint64_t trained_weights(const Texts& assignments) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  for (const char* text :
       {"pipeline.total_steps=2", "trainer.epochs=2", "sampling.ignore_eos=true"}) {
    o.set_assignment(text);
  }
  for (const std::string& text : assignments) o.set_assignment(text);
  Rig rig(o);
  const testing::RunLog log = rig.start_and_serve();
  // A pass whose tokens are all rejected has no optimizer step; the first one rejects none.
  for (const double steps : log.series("training/optimizer_steps")) EXPECT_GE(steps, 1);
  return rig.model().weight_digest();
}

std::vector<std::string> choices_of(const char* key) {
  const OptionInfo& info = require_option(key);
  std::vector<std::string> names;
  for (size_t i = 0; i < info.num_choices; ++i) names.emplace_back(info.choices[i].name);
  return names;
}

TEST(AlgoOptions, EveryPolicyLossTrainsInItsOwnWay) {
  std::set<uint64_t> seen;
  const Texts names = choices_of("algo.policy_loss");
  for (const std::string& name : names) {
    if (name == "custom") continue;  // tests/abi/host_algorithm_test.cc
    SCOPED_TRACE(name);
    Texts texts = {"algo.policy_loss=" + name};
    if (name.ends_with("_cov")) texts.push_back("algo.cov_ratio=0.2");
    if (name == "clip_cov") texts.push_back("algo.clip_cov_low=-1");
    const uint64_t digest = trained_weights(texts);
    EXPECT_EQ(seen.insert(digest).second, name != "gpg") << "gpg, and only it, is none by a name";
  }
}

TEST(AlgoOptions, EveryAggregationWeighsInItsOwnWay) {
  std::set<uint64_t> seen;
  for (const std::string& name : choices_of("algo.loss_agg")) {
    SCOPED_TRACE(name);
    Texts texts = {"algo.loss_agg=" + name, "sampling.ignore_eos=false", "optimizer.grad_clip=0",
                   "sampling.max_new_tokens=16",
                   "sampling.stop_token_ids=1,5,9,20,33,47,60,80,90,100,120,140,160,180,200,220"};
    if (name.ends_with("_norm")) texts.push_back("algo.loss_scale_factor=100");
    EXPECT_TRUE(seen.insert(trained_weights(texts)).second);
  }
}

TEST(AlgoOptions, EveryKlEstimatorPullsInItsOwnWay) {
  std::set<uint64_t> seen;
  for (const std::string& name : choices_of("algo.kl.estimator")) {
    SCOPED_TRACE(name);
    const uint64_t digest =
        trained_weights({"algo.kl.where=loss", "algo.kl.coef=0.5", "algo.kl.estimator=" + name});
    if (name == "low_var") continue;  // k3 but for clamps, which nothing here reaches
    EXPECT_EQ(seen.insert(digest).second, !name.ends_with("+")) << "they have the gradient of k2";
  }
}

TEST(AlgoOptions, EveryAdvantageEstimatorTrainsInItsOwnWay) {
  std::set<uint64_t> seen;
  for (const std::string& name : choices_of("algo.advantage")) {
    if (name == "custom" || name == "gdpo") continue;  // tests/abi/host_algorithm_test.cc
    SCOPED_TRACE(name);
    // Answers of several lengths, and a gradient that its norm does not hide.
    const uint64_t digest = trained_weights(
        {"algo.advantage=" + name, "optimizer.grad_clip=0", "sampling.ignore_eos=false",
         "sampling.max_new_tokens=16", "algo.whiten=none",
         "sampling.stop_token_ids=1,5,9,20,33,47,60,80,90,100,120,140,160,180,200,220"});
    // Without whitening it is R - mean, as dr_grpo.
    EXPECT_EQ(seen.insert(digest).second, name != "reinforce_pp_baseline");
  }
}

TEST(AlgoOptions, FormsOfAdvantagesAndPenaltiesAct) {
  std::set<uint64_t> seen = {trained_weights({})};
  const std::vector<const char*> kl = {"algo.kl.where=reward", "algo.kl.coef=0.5"};
  for (const Texts& texts :
       std::vector<Texts>{{"algo.adv_std_scope=batch"},
                          {"algo.whiten=eps"},
                          {"algo.whiten=floor"},
                          {"algo.reward.clip_high=0.2"},
                          {"algo.reward.clip_high=0.2", "algo.reward.clip_low=-0.3",
                           "algo.reward.clip_at=advantage"},
                          {kl[0], kl[1]},
                          {kl[0], kl[1], "algo.kl.estimator=k1"},
                          {kl[0], kl[1], "algo.kl.value_clamp=1e-4"},
                          {kl[0], kl[1], "algo.kl.spread=token"},
                          {kl[0], kl[1], "algo.kl.spread=token", "algo.policy_loss=gspo"},
                          {kl[0], kl[1], "algo.kl.spread=token", "algo.policy_loss=gspo",
                           "algo.gspo_gradient=sequence"},
                          {kl[0], kl[1], "algo.kl.spread=token", "algo.gamma=0.5"},
                          {kl[0], kl[1], "algo.advantage=reinforce_pp"},
                          {kl[0], kl[1], "algo.advantage=remax"},
                          {kl[0], kl[1], "algo.kl.controller=adaptive", "algo.kl.horizon=20"}}) {
    SCOPED_TRACE(texts.back());
    EXPECT_TRUE(seen.insert(trained_weights(texts)).second);
  }
}

TEST(AlgoOptions, CorrectionsAct) {
  const Texts plain = {"algo.policy_loss=none"};
  std::set<uint64_t> seen = {trained_weights(plain)};
  for (const Texts& more :
       std::vector<Texts>{{"algo.correction.is=token"},
                          {"algo.correction.is=token", "algo.correction.high=1.0001"},
                          {"algo.correction.is=token", "algo.correction.high=1.0001",
                           "algo.correction.mode=icepop"},
                          {"algo.correction.is=sequence"},
                          {"algo.correction.rs=token_k1", "algo.correction.rs_bounds=0.9_1.1"},
                          {"algo.correction.rs=seq_mean_k2", "algo.correction.rs_bounds=2e-1"}}) {
    SCOPED_TRACE(more.back());
    Texts texts = plain;
    texts.insert(texts.end(), more.begin(), more.end());
    EXPECT_TRUE(seen.insert(trained_weights(texts)).second);
  }
}

TEST(AlgoOptions, SamplesOfTheSameWeightsNeedNoProximalForward) {
  EXPECT_EQ(trained_weights({"algo.correction.decoupled=true"}), trained_weights({}));
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_text("algo.correction.decoupled", "true");
  Rig rig(o);
  const testing::RunLog log = rig.start_and_serve();
  for (const MetricList& m : log.steps) {
    EXPECT_EQ(m.get("training/old_log_prob_samples"), 0.0);
    EXPECT_EQ(m.get("timing_s/old_log_prob"), 0.0);
    EXPECT_GT(m.get("timing_s/old_log_prob_saved").value(), 0.0);
    EXPECT_EQ(m.get("actor/ratio_max"), 1.0);
    EXPECT_EQ(m.get("rollout_corr/kl"), 0.0);
    EXPECT_EQ(m.get("rollout_corr/ppl_ratio"), 1.0);
    EXPECT_EQ(m.get("training/rollout_probs_diff_max"), 0.0);
    EXPECT_EQ(m.get("training/rollout_actor_probs_pearson_corr"), 1.0);
  }
}

TrainerOptions trainer_of(const Texts& assignments) {
  OptionSet o;
  for (const std::string& text : assignments) o.set_assignment(text);
  return trainer_options_from(o, 64, 0);
}

TEST(AlgoOptions, RejectionsHaveTheirBounds) {
  const auto rejections = trainer_of({"algo.correction.rs=token_k1,seq_mean_k1,seq_max_k3,token_tv",
                                      "algo.correction.rs_bounds=0.5_2,4,0.25,1e-1"})
                              .correction.rejections;
  ASSERT_EQ(rejections.size(), 4u);
  EXPECT_EQ(rejection_name(rejections[0]), "token_k1");
  EXPECT_EQ(rejections[0].low, 0.5);
  EXPECT_EQ(rejections[0].high, 2.0);
  EXPECT_EQ(rejections[1].low, 0.25);
  EXPECT_EQ(rejections[1].high, 4.0);
  EXPECT_EQ(rejections[2].high, 0.25);
  EXPECT_EQ(rejections[3].high, 0.1);
}

TEST(AlgoOptions, BadRejectionsAreNamed) {
  const auto error = [](Code code, const char* rs, const char* bounds) {
    return expect_error(code, [&] {
      trainer_of({str("algo.correction.rs=", rs), str("algo.correction.rs_bounds=", bounds)});
    });
  };
  EXPECT_EQ(error(Code::kInvalidArgument, "seq_max_k1", "2").key, "algo.correction.rs");
  EXPECT_EQ(error(Code::kConflict, "token_k1,token_k2", "2").key, "algo.correction.rs_bounds");
  for (const char* bounds : {"x", "0.5_", "_2", "1_2_3", "1 ", "nan_2x"}) {
    const Error e = error(Code::kInvalidArgument, "token_k1", bounds);
    EXPECT_EQ(e.location, "algo.correction.rs_bounds[0]") << bounds;
    EXPECT_TRUE(contains(e.message, "LOW_HIGH")) << e.message;
  }
  EXPECT_EQ(error(Code::kInvalidArgument, "token_k2", "0.5_2").key, "algo.correction.rs_bounds");
  for (const char* bounds : {"2_1", "0_1", "-1", "nan", "0"}) {
    EXPECT_EQ(error(Code::kOutOfRange, "token_k1", bounds).key, "algo.correction.rs_bounds");
  }
}

TEST(AlgoOptions, ValuesInsideTheRangeThatMeanNothingAreNamed) {
  const auto key = [](const Texts& texts) {
    return expect_error(Code::kOutOfRange, [&] { trainer_of(texts); }).key;
  };
  EXPECT_EQ(key({"algo.dual_clip=0.5"}), "algo.dual_clip");
  EXPECT_EQ(key({"algo.ratio_cap=0.5"}), "algo.ratio_cap");
}

}  // namespace
}  // namespace rl
