// The records of the algorithms: each field from its own option, and the texts that only a record
// can refuse.
#include <gtest/gtest.h>

#include <cmath>

#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using Texts = std::vector<std::string>;

Settings with(const Texts& assignments) {
  OptionSet options;
  for (const std::string& text : assignments) options.set_assignment(text);
  return options;
}

TrainerOptions algorithm_of(const Texts& assignments) {
  TrainerOptions t;
  fill_algorithm(with(assignments), t);
  return t;
}

TEST(AlgoRecords, APolicyLossHasEachOptionInItsField) {
  const TrainerOptions t = algorithm_of(
      {"algo.policy_loss=sapo", "algo.clip_low=0.125", "algo.clip_high=0.375", "algo.dual_clip=3",
       "algo.ratio_log_clamp=12", "algo.ratio_cap=7", "algo.sapo_tau_pos=2", "algo.sapo_tau_neg=5",
       "algo.dro_beta=0.75", "algo.kl_cov_coef=6", "algo.cov_ratio=0.5", "algo.clip_cov_low=-2",
       "algo.clip_cov_high=9", "algo.entropy_coef=0.0625", "runtime.seed=77"});
  const PolicyLossParams& p = t.policy_loss;
  EXPECT_EQ(p.kind, PolicyLoss::kSapo);
  EXPECT_EQ(p.clip_low, 0.125);
  EXPECT_EQ(p.clip_high, 0.375);
  EXPECT_EQ(p.dual_clip, 3);
  EXPECT_EQ(p.ratio_log_clamp, 12);
  EXPECT_EQ(p.ratio_cap, 7);
  EXPECT_EQ(p.sapo_tau_pos, 2);
  EXPECT_EQ(p.sapo_tau_neg, 5);
  EXPECT_EQ(p.dro_beta, 0.75);
  EXPECT_EQ(p.kl_cov_coef, 6);
  EXPECT_EQ(p.gspo_gradient, GspoGradient::kToken);
  EXPECT_EQ(t.clip_cov.ratio, 0.5);
  EXPECT_EQ(t.clip_cov.low, -2);
  EXPECT_EQ(t.clip_cov.high, 9);
  EXPECT_EQ(t.entropy_coef, 0.0625);
  EXPECT_EQ(t.seed, 77u);
  EXPECT_EQ(algorithm_of({"algo.gspo_gradient=sequence"}).policy_loss.gspo_gradient,
            GspoGradient::kSequence);
}

TEST(AlgoRecords, CorrectionsHaveEachOptionInItsField) {
  const CorrectionOptions c =
      algorithm_of({"algo.correction.is=sequence", "algo.correction.mode=icepop",
                    "algo.correction.low=0.25", "algo.correction.high=4",
                    "algo.correction.log_clamp=9", "algo.correction.veto=0.125",
                    "algo.correction.batch_normalize=true", "algo.correction.opsm_delta=0.5",
                    "algo.correction.denominator=all", "algo.correction.decoupled=true"})
          .correction;
  EXPECT_EQ(c.weights.level, CorrectionLevel::kSequence);
  EXPECT_EQ(c.weights.mode, CorrectionMode::kIcepop);
  EXPECT_EQ(c.weights.low, 0.25);
  EXPECT_EQ(c.weights.high, 4);
  EXPECT_EQ(c.weights.log_clamp, 9);
  EXPECT_EQ(c.veto, 0.125);
  EXPECT_TRUE(c.batch_normalize);
  EXPECT_EQ(c.opsm_delta, 0.5);
  EXPECT_TRUE(c.counts_rejected);
  EXPECT_TRUE(c.decoupled);
  const CorrectionOptions plain = algorithm_of({}).correction;
  EXPECT_FALSE(plain.batch_normalize);
  EXPECT_FALSE(plain.counts_rejected);
  EXPECT_FALSE(plain.decoupled);
  EXPECT_TRUE(plain.rejections.empty());
}

TEST(AlgoRecords, TheKlHasEachOptionInItsField) {
  const Texts texts = {"algo.kl.coef=0.5", "algo.kl.estimator=k2+", "algo.kl.value_clamp=8",
                       "algo.kl.ratio_cap=6"};
  const auto kl = [&](const std::string& more) {
    Texts all = texts;
    all.push_back(more);
    return algorithm_of(all);
  };
  const TrainerOptions t = kl("algo.kl.where=loss");
  EXPECT_TRUE(t.kl_in_loss);
  EXPECT_EQ(t.kl_estimator.kind, KlKind::kK2);
  EXPECT_TRUE(t.kl_estimator.straight_through);
  EXPECT_EQ(t.kl_bounds.value_clamp, 8);
  EXPECT_EQ(t.kl_bounds.ratio, KlRatio::kNone);
  EXPECT_EQ(t.kl_bounds.ratio_cap, 6);
  EXPECT_EQ(t.kl_coef, 0.5);
  EXPECT_FALSE(kl("algo.kl.where=reward").kl_in_loss);
  EXPECT_EQ(kl("algo.kl.ratio=gradient").kl_bounds.ratio, KlRatio::kGradient);
  EXPECT_EQ(kl("algo.kl.ratio=full").kl_bounds.ratio, KlRatio::kFull);
  const KlControllerParams p = kl_controller_from(
      with({"algo.kl.controller=adaptive", "algo.kl.target=0.25", "algo.kl.horizon=40"}));
  EXPECT_EQ(p.kind, KlControl::kAdaptive);
  EXPECT_EQ(p.target, 0.25);
  EXPECT_EQ(p.horizon, 40);
}

TEST(AlgoRecords, PreferencesHaveEachOptionInItsField) {
  const DpoParams p =
      algorithm_of({"algo.dpo.beta=0.75", "algo.dpo.label_smoothing=0.25", "algo.dpo.nll_coef=3"})
          .dpo;
  EXPECT_EQ(p.beta, 0.75);
  EXPECT_EQ(p.label_smoothing, 0.25);
  EXPECT_EQ(p.nll_coef, 3);
  EXPECT_FALSE(p.ipo);
  EXPECT_TRUE(algorithm_of({"algo.dpo.ipo=true"}).dpo.ipo);
}

TEST(AlgoRecords, OnlyADivergenceOfWholeRowsDistillsRows) {
  const auto distill = [](const char* objective, const char* kl) {
    return algorithm_of({str("algo.objective=", objective), str("algo.distill.kl=", kl),
                         "algo.distill.beta=0.25", "algo.distill.coef=3"})
        .distill;
  };
  const DistillOptions mixed = distill("distill", "mixed");
  EXPECT_TRUE(mixed.on_rows);
  EXPECT_EQ(mixed.params.kind, DistillKl::kMixed);
  EXPECT_EQ(mixed.params.beta, 0.25);
  EXPECT_EQ(mixed.coef, 3);
  EXPECT_EQ(distill("distill", "forward").params.kind, DistillKl::kForward);
  EXPECT_EQ(distill("distill", "reverse").params.kind, DistillKl::kReverse);
  for (const DistillOptions& none : {distill("distill", "sampled"), distill("rl", "forward")}) {
    EXPECT_FALSE(none.on_rows);
    EXPECT_EQ(none.coef, 0);
  }
  EXPECT_FALSE(distills_rows(with({"algo.distill.kl=forward"})));
  EXPECT_TRUE(distills_rows(with({"algo.distill.kl=forward", "algo.objective=distill"})));
}

TEST(AlgoRecords, AReferenceIsNeededForAKlAndForPreferences) {
  const std::pair<Texts, bool> cases[] = {{{}, false},
                                          {{"algo.kl.where=reward"}, true},
                                          {{"algo.kl.where=loss"}, true},
                                          {{"algo.objective=dpo"}, true},
                                          {{"algo.objective=reward_model"}, false},
                                          {{"algo.objective=sft"}, false},
                                          {{"algo.kl.coef=0.5"}, false}};
  for (const auto& [texts, expected] : cases) {
    EXPECT_EQ(uses_reference(with(texts)), expected) << (texts.empty() ? "defaults" : texts[0]);
  }
}

TEST(AlgoRecords, AdvantagesHaveEachOptionInItsField) {
  const AdvantageOptions a = advantage_options_from(
      with({"algo.advantage=rloo", "algo.adv_norm_std=false", "algo.adv_eps=0.5", "algo.adv_ddof=0",
            "algo.adv_singleton=zero", "algo.adv_std_scope=batch", "algo.gdpo_weights=1,-0.5",
            "algo.gamma=0.75", "algo.lambda=0.25", "algo.gae_masked=zero", "algo.kl.where=reward",
            "algo.kl.spread=token", "algo.kl.estimator=abs", "algo.kl.value_clamp=8",
            "pipeline.overlong_filter=true", "pipeline.repetition_filter=0.375",
            "pipeline.repetition_ngram=6"}));
  EXPECT_EQ(a.estimator.kind, Advantage::kRloo);
  EXPECT_FALSE(a.estimator.norm_std);
  EXPECT_EQ(a.estimator.eps, 0.5);
  EXPECT_EQ(a.estimator.ddof, 0);
  EXPECT_EQ(a.estimator.singleton, AdvSingleton::kZero);
  EXPECT_EQ(a.estimator.std_scope, AdvStdScope::kBatch);
  EXPECT_EQ(a.gdpo_weights, (std::vector<double>{1, -0.5}));
  EXPECT_EQ(a.returns.gamma, 0.75);
  EXPECT_EQ(a.returns.lambda, 0.25);
  EXPECT_EQ(a.returns.masked, MaskedTokens::kZero);
  EXPECT_TRUE(a.kl_in_reward);
  EXPECT_TRUE(a.kl_per_token);
  EXPECT_EQ(a.kl_estimator.kind, KlKind::kAbs);
  EXPECT_EQ(a.kl_bounds.value_clamp, 8);
  EXPECT_TRUE(a.masks_overlong);
  EXPECT_EQ(a.repetition_limit, 0.375);
  EXPECT_EQ(a.repetition_ngram, 6);
  const AdvantageOptions plain = advantage_options_from(with({"algo.kl.where=loss"}));
  EXPECT_TRUE(plain.estimator.norm_std);
  EXPECT_EQ(plain.estimator.ddof, 1);
  EXPECT_EQ(plain.estimator.std_scope, AdvStdScope::kGroup);
  EXPECT_FALSE(plain.kl_in_reward);
  EXPECT_FALSE(plain.kl_per_token);
  EXPECT_FALSE(plain.masks_overlong);
}

TEST(AlgoRecords, RewardsAreShapedByTheirOptions) {
  const RewardShaping s =
      advantage_options_from(
          with({"algo.reward.normalize=true", "algo.reward.truncation_penalty=0.5",
                "sampling.max_new_tokens=40", "algo.reward.overlong_buffer=7",
                "algo.reward.overlong_penalty=3", "algo.reward.clip_low=-2",
                "algo.reward.clip_high=5", "algo.reward.clip_at=advantage"}))
          .shaping;
  EXPECT_TRUE(s.normalize);
  EXPECT_EQ(s.truncation_penalty, 0.5);
  EXPECT_EQ(s.overlong.max_length, 40);
  EXPECT_EQ(s.overlong.buffer, 7);
  EXPECT_EQ(s.overlong.penalty, 3);
  EXPECT_TRUE(s.clips);
  EXPECT_TRUE(s.clips_advantage);
  EXPECT_EQ(s.clip.low, -2);
  EXPECT_EQ(s.clip.high, 5);
  const auto shaping = [](const Texts& texts) {
    return advantage_options_from(with(texts)).shaping;
  };
  EXPECT_FALSE(shaping({}).clips);
  EXPECT_FALSE(shaping({}).clips_advantage);
  EXPECT_TRUE(shaping({"algo.reward.clip_low=-1"}).clips);
  EXPECT_TRUE(shaping({"algo.reward.clip_high=1"}).clips);
}

TEST(AlgoRecords, WhiteningIsThatOfTheEstimatorUnlessNamed) {
  for (const char* kind :
       {"grpo", "dr_grpo", "rloo", "opo", "gpg", "grpo_passk", "reinforce_pp",
        "reinforce_pp_baseline", "flash_reinforce", "remax", "gae", "gdpo", "custom"}) {
    SCOPED_TRACE(kind);
    const std::string name = kind;
    const auto whitening = [&](const char* choice) {
      return advantage_options_from(
                 with({"algo.advantage=" + name, std::string("algo.whiten=") + choice}))
          .whitening;
    };
    const bool defined = name == "gae" || name == "gdpo" || name == "reinforce_pp" ||
                         name == "reinforce_pp_baseline";
    EXPECT_EQ(whitening("auto"), defined ? Whitening::kEps : Whitening::kNone);
    EXPECT_EQ(whitening("none"), Whitening::kNone);
    EXPECT_EQ(whitening("eps"), Whitening::kEps);
    EXPECT_EQ(whitening("floor"), Whitening::kFloor);
  }
}

TEST(AlgoRecords, AWeightThatIsNoFiniteNumberIsNamedByItsPlace) {
  for (const char* bad : {"x", "1e", "2 ", "inf", "nan"}) {
    OptionSet o;
    o.set_string_list("algo.gdpo_weights", {"1", "2.5", bad});
    const Error e = expect_error(Code::kInvalidArgument, [&] { advantage_options_from(o); });
    EXPECT_EQ(e.key, "algo.gdpo_weights") << bad;
    EXPECT_EQ(e.location, "algo.gdpo_weights[2]") << bad;
    EXPECT_EQ(e.expected, "a finite number") << bad;
  }
}

TEST(AlgoRecords, BoundsThatAreNotOnesAreNamedByTheirPlace) {
  const Error counts = expect_error(Code::kConflict, [] {
    algorithm_of({"algo.correction.rs=token_k1,token_k2", "algo.correction.rs_bounds=2"});
  });
  EXPECT_EQ(counts.other_key, "algo.correction.rs");
  EXPECT_TRUE(contains(counts.message, "rs has 2 entries"));
  EXPECT_TRUE(contains(counts.message, "rs_bounds has 1"));
  const auto refused = [](const char* rs, const char* bounds) {
    return expect_error(Code::kInvalidArgument, [&] {
      algorithm_of(
          {str("algo.correction.rs=token_k2,", rs), str("algo.correction.rs_bounds=3,", bounds)});
    });
  };
  EXPECT_EQ(refused("token_k1", "1_x").expected, "LOW_HIGH or a number");
  EXPECT_EQ(refused("token_k1", "1_x").location, "algo.correction.rs_bounds[1]");
  EXPECT_EQ(refused("token_k3", "1_2").expected, "a number");
  EXPECT_EQ(refused("token_k3", "z").expected, "a number");
  EXPECT_EQ(refused("token_k3", "z").key, "algo.correction.rs_bounds");
}

TEST(AlgoRecords, RecordsRefuseWhatTheirAlgorithmsDo) {
  const auto key = [](const Texts& texts) {
    return expect_error(Code::kOutOfRange, [&] { advantage_options_from(with(texts)); }).key;
  };
  EXPECT_EQ(key({"algo.reward.overlong_buffer=9", "sampling.max_new_tokens=8"}),
            "algo.reward.overlong_buffer");
  EXPECT_EQ(key({"algo.reward.clip_low=2", "algo.reward.clip_high=1"}), "algo.reward.clip_high");
  EXPECT_EQ(algorithm_of({"algo.objective=dpo"}).objective, Objective::kDpo);
}

}  // namespace
}  // namespace rl
