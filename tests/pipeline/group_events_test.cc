// Events for whole groups (pipeline.score_events = group): when they come, what they hold, and that
// they change nothing else.
#include <algorithm>

#include "support/expect_error.h"
#include "turn_rig.h"

namespace rl {
namespace {

using testing::kSecond;
using testing::low_id_reward;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::turn_options;
using testing::use_tool;

OptionSet judged_options(const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  o.set_text("pipeline.score_events", "group");
  o.set_i64("pipeline.total_steps", 2);
  return o;
}

TEST(GroupEvents, HaveTheSamplesOfAGroupByTheirSlots) {
  const TempDir dir;
  Rig rig(judged_options(dir));
  rig.on_event = [](const Event& event) {
    EXPECT_NE(static_cast<EventKind>(event.kind()), EventKind::kScore);
    if (static_cast<EventKind>(event.kind()) != EventKind::kGroup) return;
    const auto& group = static_cast<const GroupEvent&>(event).samples;
    ASSERT_EQ(group.size(), 4u);
    for (uint32_t slot = 0; slot < 4; ++slot) {
      EXPECT_EQ(group[slot].sample->slot, slot);
      EXPECT_EQ(group[slot].sample->ordinal, group[0].sample->ordinal);
      EXPECT_EQ(group[slot].sample->generated(), 8);
    }
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.num_groups, 8);
  EXPECT_EQ(log.steps.size(), 2u);
}

TEST(GroupEvents, TheWeightsAreThoseOfARunWithAnEventForEachSample) {
  const TempDir dir;
  OptionSet one_by_one = judged_options(dir);
  one_by_one.set_text("pipeline.score_events", "sample");
  Rig groups(judged_options(dir)), samples(one_by_one);
  EXPECT_EQ(groups.start_and_serve().fingerprint(), samples.start_and_serve().fingerprint());
  EXPECT_EQ(groups.model().weight_digest(), samples.model().weight_digest());
}

TEST(GroupEvents, AreTakenBackByAFailureOfOneSample) {
  const TempDir dir;
  Rig rig(judged_options(dir));
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    if (s->ordinal == 0 && s->slot == 0) return p.fail(s->id, "a tie");
    if (s->ordinal == 0) {
      expect_error(Code::kLate, [&] { p.score(s->id, 1); });
    } else {
      p.score(s->id, low_id_reward(*s));
    }
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.dropped.size(), 1u);
  EXPECT_EQ(log.dropped[0]->ordinal, 0u);
}

// The time begins with the event of the group, not with the end of its first sample.
TEST(GroupEvents, TheirTimeoutDropsTheGroup) {
  const TempDir dir;
  OptionSet o = judged_options(dir);
  o.set_text("pipeline.reward_timeout_ns", "300ms");
  o.set_i64("pipeline.total_steps", 1);
  Rig rig(o);
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    if (s->ordinal != 2 || s->slot != 3) p.score(s->id, low_id_reward(*s));
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.dropped.size(), 1u);
  EXPECT_EQ(log.dropped[0]->ordinal, 2u);
  EXPECT_EQ(log.dropped[0]->reason, DropReason::kRewardTimeout);
}

TEST(GroupEvents, WaitForTheTurnsOfAllSamples) {
  const TempDir dir;
  Rig rig(turn_options(dir, {"pipeline.score_events=group"}));
  int64_t open = 0;  // turns of the step that are not over
  rig.on_turn = [&](Pipeline& p, const TurnEvent& e) {
    open += e.turn == 1 ? 1 : -1;
    use_tool(p, e);
  };
  rig.on_event = [&](const Event& event) {
    if (static_cast<EventKind>(event.kind()) != EventKind::kGroup) return;
    for (const EventSample& s : static_cast<const GroupEvent&>(event).samples) {
      EXPECT_EQ(s.sample->generated(), 10);
    }
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.num_groups, 4);
  EXPECT_EQ(open, 0);
}

TEST(GroupEvents, AnEvaluationHasThemToo) {
  const TempDir dir;
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(3));
  OptionSet o = judged_options(dir);
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_text("eval.samples_per_prompt", "2");
  o.set_text("eval.temperature", "1");
  o.set_i64("pipeline.total_steps", 1);
  Rig rig(o);
  rig.pipeline().request_eval();
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 1u);
  EXPECT_EQ(log.evals[0]->num_scored, 6);
  EXPECT_EQ(log.num_groups, 3 + 4);
}

}  // namespace
}  // namespace rl
