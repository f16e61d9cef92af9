// reference.offload: the reference's weights are on the device only while it computes.
#include <gtest/gtest.h>

#include "run_rig.h"

namespace rl {
namespace {

using testing::Rig;
using testing::RunLog;
using testing::tiny_options;

using Texts = std::vector<std::string>;

OptionSet options_of(const TempDir& dir, const Texts& texts) {
  OptionSet o = tiny_options(dir);
  for (const char* text : {"pipeline.total_steps=3", "optimizer.lr=0.03", "algo.kl.coef=0.5"}) {
    o.set_assignment(text);
  }
  for (const std::string& text : texts) o.set_assignment(text);
  return o;
}

MemoryPlan plan_of(const OptionSet& o) {
  return plan_memory(Settings(o), real_fs(), PlanUse::kPipeline);
}

uint64_t bytes_of(const std::vector<PlanEntry>& entries, const std::string& role,
                  const std::string& phase) {
  uint64_t sum = 0;
  for (const PlanEntry& e : entries) sum += e.role == role && e.phase == phase ? e.bytes : 0;
  return sum;
}

struct Outcome {
  uint64_t digest = 0;
  std::vector<double> kl;
};

// The ledger holds the plan.
Outcome run(const OptionSet& o, const char* kl) {
  Rig rig(o);
  EXPECT_EQ(rig.runtime().ledger().bytes(), plan_of(o).arena_bytes);
  const RunLog log = rig.start_and_serve();
  return {rig.model().weight_digest(), log.series(kl)};
}

// The policy writes to the bytes of the reference in each step; a run after a resume, and one whose
// reference has other weights, fill them otherwise.
TEST(ReferenceOffload, ChangesNoBit) {
  const TempDir dir;
  for (const Texts& texts :
       {Texts{"algo.kl.where=loss"}, Texts{"algo.kl.where=reward"},
        Texts{"algo.kl.where=loss", "optimizer.ema=0.5", "reference.weights=ema"},
        Texts{"algo.kl.where=loss", "trainer.free_grad_buffers_on_publish=true"},
        Texts{"algo.kl.where=loss", "algo.advantage=gae"},
        Texts{"algo.kl.where=loss", "parallel.reduction_parts=2"}}) {
    SCOPED_TRACE(texts.back());
    const bool in_loss = texts.front() == "algo.kl.where=loss";
    const char* kl = in_loss ? "actor/kl" : "actor/reward_kl_penalty";
    Texts offloaded = texts;
    offloaded.push_back("reference.offload=true");
    const Outcome kept = run(options_of(dir, texts), kl),
                  moved = run(options_of(dir, offloaded), kl);
    ASSERT_EQ(kept.kl.size(), 3u);
    EXPECT_NE(kept.kl[2], 0.0) << "the policy has left its reference";
    EXPECT_EQ(moved.kl, kept.kl);
    EXPECT_EQ(moved.digest, kept.digest);
  }
}

TEST(ReferenceOffload, AResumedRunHasTheReferenceOfTheFirst) {
  const TempDir dir;
  OptionSet o =
      options_of(dir, {"algo.kl.where=loss", "reference.offload=true", "checkpoint.every_steps=1"});
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  uint64_t whole = 0;
  std::string first;
  {
    Rig rig(o);
    first = rig.start_and_serve().checkpoints.at(0)->path;
    whole = rig.model().weight_digest();
  }
  o.set_string("checkpoint.resume", first);
  Rig rig(o);
  EXPECT_EQ(rig.start_and_serve().steps.size(), 2u);
  EXPECT_EQ(rig.model().weight_digest(), whole);
}

// Of a model whose weights are the larger part, whichever forward needs most.
TEST(ReferenceOffload, ThePlanHasTheWeightsInHostMemoryAndInTheWorkspace) {
  const TempDir dir;
  for (const char* more : {"algo.advantage=grpo", "algo.advantage=gae"}) {
    SCOPED_TRACE(more);
    const MemoryPlan kept = plan_of(options_of(dir, {"algo.kl.where=loss", more})),
                     moved = plan_of(
                         options_of(dir, {"algo.kl.where=loss", more, "reference.offload=true"}));
    const uint64_t weights = bytes_of(moved.arenas, "reference", "always");
    EXPECT_EQ(weights, bytes_of(kept.arenas, "reference", "always"));
    EXPECT_EQ(moved.bytes_of("weights, host"), weights);
    EXPECT_EQ(bytes_of(moved.parts, "reference", "log-prob"), weights);
    const uint64_t forwards = bytes_of(moved.parts, "", "log-prob");
    EXPECT_EQ(moved.train_offsets.reference_weights % 64, 0u);
    EXPECT_GE(moved.train_offsets.reference_weights, forwards);
    EXPECT_LE(moved.train_offsets.reference_weights + weights, moved.train_workspace_bytes);
    EXPECT_EQ(kept.train_offsets.reference_weights, 0u);
  }
}

}  // namespace
}  // namespace rl
