// Other trained models on ranks that divide the rows of micro-batches: every objective, losses over
// more than one token, a teacher of whole rows, and a critic.
#include <gtest/gtest.h>

#include "context/context_rig.h"
#include "train/data_rank_rig.h"

namespace rl::testing {
namespace {

constexpr ContextLayout kLayouts[] = {{{2}},
                                      {{2, ContextKind::kAllGather, true}, 2},
                                      {{2, ContextKind::kUlysses}},
                                      {{2, ContextKind::kRing, true}}};

std::vector<Outcome> outcomes_on(const ContextLayout& layout, const RigOptions& rig,
                                 const TrainerOptions& options) {
  std::vector<Outcome> out(static_cast<size_t>(layout.ranks()));
  on_ranks(layout, rig, options,
           [&](TrainRig& r, int rank) { out[static_cast<size_t>(rank)] = train_twice(r); });
  return out;
}

void expect_as_one_rank(const TrainerOptions& options, const RigOptions& rig = {}) {
  const Outcome one = outcomes_on({}, rig, options)[0];
  for (const ContextLayout& layout : kLayouts) {
    SCOPED_TRACE(name_of(layout));
    const std::vector<Outcome> ranks = outcomes_on(layout, rig, options);
    for (const Outcome& other : ranks) expect_same(other, ranks[0]);
    const double bound = layout.rule.in_ring() ? 1e-5 : 1e-6;
    EXPECT_LT(relative_l2(ranks[0].first_gradients, one.first_gradients), bound);
    for (size_t i = 0; i < one.metrics.size(); ++i) {
      const TrainMetrics &a = ranks[0].metrics[i], &b = one.metrics[i];
      EXPECT_EQ(a.tokens, b.tokens);
      EXPECT_EQ(a.loss_tokens, b.loss_tokens);
      EXPECT_EQ(a.preference.pairs, b.preference.pairs);
      EXPECT_NEAR(a.loss, b.loss, 1e-4 * std::abs(b.loss) + 1e-6);
      EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-4 * b.grad_norm);
    }
  }
}

class ContextObjectives : public ::testing::TestWithParam<Objective> {};
INSTANTIATE_TEST_SUITE_P(Objectives, ContextObjectives,
                         ::testing::Values(Objective::kRl, Objective::kSft, Objective::kDpo,
                                           Objective::kRewardModel),
                         [](const auto& info) { return std::string(objective_name(info.param)); });

TEST_P(ContextObjectives, TrainAsOneRankDoes) {
  expect_as_one_rank(options_of(GetParam()), {.with_reference = GetParam() == Objective::kDpo});
}

TEST(ContextRoles, LossesOfWholeSequencesAndReferences) {
  TrainerOptions o = options_of();
  o.policy_loss.kind = PolicyLoss::kGspo;
  o.kl_in_loss = true;
  o.kl_coef = 0.1;
  o.correction.decoupled = true;
  o.correction.weights.level = CorrectionLevel::kToken;
  expect_as_one_rank(o, {.with_reference = true});
}

TEST(ContextRoles, ATeacherOfWholeRows) {
  TrainerOptions o = options_of(Objective::kDistill);
  o.distill = {true, {DistillKl::kForward, 0.25}, 1};
  expect_as_one_rank(o, {.teacher = "smollm2"});
}

std::vector<CriticOutcome> critics_on(const ContextLayout& layout) {
  std::vector<CriticOutcome> out(static_cast<size_t>(layout.ranks()));
  CriticOptions options = critic_options();
  options.context = layout.rule;
  options.max_tokens = 128;
  run_local_ranks(layout.ranks(), [&](std::shared_ptr<Transport> transport) {
    RankGroups groups(layout, transport);
    RigOptions rig_options;
    groups.join(rig_options);
    out[static_cast<size_t>(transport->rank())] = train_critic(rig_options, options);
  });
  return out;
}

TEST(ContextRoles, ACritic) {
  const CriticOutcome one = critics_on({})[0];
  for (const ContextLayout& layout : kLayouts) {
    SCOPED_TRACE(name_of(layout));
    expect_one_critic(critics_on(layout), one);
  }
}

}  // namespace
}  // namespace rl::testing
