// A trainer that sleeps between steps, and one whose gradients have no memory between updates: the
// same bits as one that does neither, whatever its states are; what the ledger shows; failures.
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/checkpoint/checkpoint_copy.h"
#include "train/critic.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

TrainerOptions options_of(StateDtype states = StateDtype::kF32) {
  TrainerOptions o;
  o.max_tokens = 64;
  o.max_sequence = 64;
  o.schedule.lr = 1e-2;
  o.optimizer.state_dtype = states;
  o.optimizer.seed = 5;
  return o;
}

std::vector<float> after(const TrainerOptions& options, bool sleeps) {
  TrainRig rig({}, options);
  for (unsigned s = 1; s <= 3; ++s) {
    random_step(rig, s);
    if (!sleeps) continue;
    rig.trainer->sleep(false);
    fill_bytes(*rig.tiny.compute, rig.workspace, 0x7f);
    rig.trainer->wake();
  }
  return rig.masters();
}

std::vector<TrainerOptions> all_options() {
  std::vector<TrainerOptions> all;
  for (const StateDtype states : {StateDtype::kF32, StateDtype::kBf16, StateDtype::kInt8}) {
    all.push_back(options_of(states));
    all.back().optimizer.ema = 0.9;
    all.push_back(options_of(states));
    all.back().optimizer.offload = {true, 0.4, true};
    all.back().activations.granularity = RecomputeGranularity::kFull;
  }
  all.push_back(options_of());
  all.back().optimizer.kind = OptimizerKind::kMuon;
  all.push_back(options_of());
  all.back().optimizer.grad_dtype = GradDtype::kBf16;
  all.back().backward_packing = BackwardPacking::kResident;
  all.back().recompute_loss = true;
  return all;
}

TEST(TrainerSleep, ChangesNoBit) {
  for (const TrainerOptions& o : all_options()) {
    const std::vector<float> awake = after(o, false);
    EXPECT_TRUE(same_bits(after(o, true), awake));
    TrainerOptions freed = o;
    freed.optimizer.frees_gradients = true;
    EXPECT_TRUE(same_bits(after(freed, false), awake));
    EXPECT_TRUE(same_bits(after(freed, true), awake));
  }
}

// As with checkpoint.async: the copy is written while the states that it is of are elsewhere, and
// has the files of a checkpoint that was written at once.
TEST(TrainerSleep, ACopyOfTheStateIsWrittenMeanwhile) {
  for (const TrainerOptions& o : all_options()) {
    const TempDir dir;
    const CheckpointMeta meta{.step = 1, .config_digest = "digest", .pipeline = "{}"};
    TrainRig rig({}, o);
    random_step(rig, 1);
    const std::string at_once = rig.trainer->save(real_fs(), dir.file("at_once"), meta);
    CheckpointDraft draft = rig.trainer->draft(meta);
    CheckpointCopy copy(rig.sizes.trained_masters + rig.sizes.optimizer + rig.sizes.optimizer_host +
                            rig.sizes.averages,
                        nullptr);
    copy.take(draft);
    rig.trainer->sleep(false);
    const std::string asleep = write_checkpoint(real_fs(), dir.file("asleep"), draft, {});
    rig.trainer->wake();
    random_step(rig, 2);
    for (const std::string& path : {at_once, asleep}) {
      TrainRig resumed({}, o);
      resumed.trainer->load(real_fs(), path, "digest");
      random_step(resumed, 2);
      EXPECT_TRUE(same_bits(resumed.masters(), rig.masters())) << path;
    }
  }
}

uint64_t held(const TrainRig& rig, const char* name) {
  for (const ArenaLedger::Entry& e : rig.tiny.ledger.entries()) {
    if (e.name == name) return e.bytes;
  }
  return 0;
}

TEST(TrainerSleep, TheLedgerShowsWhatIsInHostMemory) {
  TrainerOptions o = options_of();
  o.optimizer.ema = 0.9;
  TrainRig rig({}, o);
  random_step(rig, 1);
  const uint64_t before = rig.tiny.ledger.bytes();
  rig.trainer->sleep(false);
  EXPECT_EQ(held(rig, "optimizer states, asleep"), rig.sizes.optimizer + rig.sizes.averages);
  rig.trainer->wake();
  EXPECT_EQ(held(rig, "optimizer states, asleep"), 0u);
  EXPECT_EQ(rig.tiny.ledger.bytes(), before);
}

TEST(TrainerSleep, HeldGradientsSleepToo) {
  for (const GradDtype dtype : {GradDtype::kF32, GradDtype::kBf16}) {
    TrainerOptions o = options_of();
    o.optimizer.grad_dtype = dtype;
    o.optimizer.frees_gradients = true;
    TrainRig whole({}, o), halves({}, o);
    random_step(whole, 1);
    std::vector<Sample> samples = random_samples(8, halves.model().config().vocab, 1);
    store_logprobs(halves, samples);
    const std::vector<TrainSample> batch = with_advantages(samples);
    halves.trainer->begin_gradients(batch, {});
    while (halves.trainer->next()) {
    }
    halves.trainer->sleep(true);
    halves.trainer->wake();
    halves.trainer->apply();
    halves.trainer->finish();
    halves.trainer->publish();
    EXPECT_TRUE(same_bits(halves.masters(), whole.masters()));
  }
}

// Between updates the freed pages read as zeros, so nothing may rely on them.
TEST(FreedGradients, HaveNoMemoryBetweenUpdates) {
  TrainerOptions o = options_of();
  TrainRig kept({}, o);
  o.optimizer.frees_gradients = true;
  TrainRig freed({}, o);
  random_step(kept, 1);
  random_step(freed, 1);
  const auto sum = [](const std::vector<float>& all) {
    double out = 0;
    for (const float g : all) out += std::abs(g);
    return out;
  };
  EXPECT_GT(sum(kept.gradients()), 0);
  EXPECT_EQ(sum(freed.gradients()), 0);
}

TEST(FreedGradients, ACheckpointIsLoadedThroughThem) {
  const TempDir dir;
  TrainerOptions o = options_of();
  o.optimizer.frees_gradients = true;
  TrainRig whole({}, o), resumed({}, o);
  random_step(whole, 1);
  const std::string path = whole.trainer->save(
      real_fs(), dir.path(), {.step = 1, .config_digest = "digest", .pipeline = "{}"});
  random_step(whole, 2);
  resumed.trainer->load(real_fs(), path, "digest");
  random_step(resumed, 2);
  EXPECT_TRUE(same_bits(whole.masters(), resumed.masters()));
}

// Memory that a caller lends is filled with other values between updates.
TEST(FreedGradients, LentMemoryNeedsItsContentDuringAnUpdateOnly) {
  for (const GradDtype dtype : {GradDtype::kF32, GradDtype::kBf16}) {
    TrainerOptions o = options_of();
    o.optimizer.grad_dtype = dtype;
    const std::vector<float> own = after(o, false);
    TrainRig rig({}, o);
    rig.trainer.reset();
    Arena lent("lent", rig.sizes.gradients + rig.sizes.gradient_scratch, Touch::kNow,
               place_on(*rig.tiny.compute));
    rig.trainer = std::make_unique<Trainer>(rig.model(), nullptr, o, rig.workspace.data(),
                                            TrainerTools{.gradients = lent.data()});
    EXPECT_EQ(held(rig, "gradients"), 0u);
    for (unsigned s = 1; s <= 3; ++s) {
      fill_bytes(*rig.tiny.compute, lent, 0x7f);
      random_step(rig, s);
    }
    EXPECT_TRUE(same_bits(rig.masters(), own));
    rig.trainer.reset();
  }
}

}  // namespace
}  // namespace rl::testing
