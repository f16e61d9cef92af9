// trainer.grad_dtype = bf16: bits at any thread count and with every option of memory, how far
// gradients are from those in fp32 and from those of another cut, halves of a step, checkpoints.
#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

const std::string kConfig = "digest";

TrainerOptions options_of(GradDtype dtype = GradDtype::kBf16) {
  TrainerOptions o;
  o.max_tokens = 64;
  o.max_sequence = 64;
  o.schedule.lr = 1e-2;
  o.adamw.weight_decay = 0.1;
  o.optimizer.grad_dtype = dtype;
  o.optimizer.seed = 5;
  return o;
}

struct Bits {
  std::vector<float> gradients, masters;
  bool operator==(const Bits& b) const {
    return same_bits(gradients, b.gradients) && same_bits(masters, b.masters);
  }
};

Bits after(const RigOptions& rig_options, const TrainerOptions& options, unsigned steps = 2) {
  TrainRig rig(rig_options, options);
  for (unsigned s = 1; s <= steps; ++s) random_step(rig, s);
  return {rig.gradients(), rig.masters()};
}

TEST(GradDtype, ThreadsChangeNoBit) {
  for (const char* model : {"llama", "qwen2", "qwen3", "gemma3"}) {
    for (const Dtype compute : {Dtype::kF32, Dtype::kBf16}) {
      if (compute == Dtype::kBf16 && !cpu_has_bf16_dot()) continue;  // the other type still runs
      SCOPED_TRACE(str(model, " ", dtype_name(compute)));
      const Bits one = after({.model = model, .compute = compute}, options_of());
      EXPECT_TRUE(after({.model = model, .compute = compute, .threads = 3}, options_of()) == one);
    }
  }
}

// The first step's gradients have no other difference than their rounding: a relative error of at
// most 2^-7 an addition, and below 2^-8 in the mean of its square. Micro-batches of other sizes
// differ by as much.
TEST(GradDtype, GradientsDifferFromThoseInFp32ByTheirRounding) {
  for (const char* model : {"llama", "smollm2", "qwen2", "qwen3", "gemma3"}) {
    SCOPED_TRACE(model);
    TrainerOptions cut = options_of();
    cut.max_tokens = 256;
    const std::vector<float> exact =
        after({.model = model}, options_of(GradDtype::kF32), 1).gradients;
    const std::vector<float> rounded = after({.model = model}, options_of(), 1).gradients;
    const std::vector<float> other = after({.model = model}, cut, 1).gradients;
    RecordProperty(str(model, ".to_fp32"), std::to_string(relative_l2(rounded, exact)));
    RecordProperty(str(model, ".across_cuts"), std::to_string(relative_l2(other, rounded)));
    EXPECT_GT(relative_l2(rounded, exact), 1e-4);
    EXPECT_LT(relative_l2(rounded, exact), 0.01);
    EXPECT_LT(relative_l2(other, rounded), 0.01);
  }
}

TEST(GradDtype, TheSeedDecidesTheRounding) {
  TrainerOptions other = options_of();
  other.optimizer.seed = 6;
  EXPECT_FALSE(after({}, options_of(), 1) == after({}, other, 1));
  EXPECT_TRUE(after({}, options_of(), 1) == after({}, options_of(), 1));
}

// What does not change the forward or the order of sums changes no bit of rounded gradients either.
TEST(GradDtype, RecomputationAndOffloadChangeNoBit) {
  const Bits plain = after({}, options_of());
  TrainerOptions o = options_of();
  o.activations.granularity = RecomputeGranularity::kFull;
  EXPECT_TRUE(after({}, o) == plain);
  o = options_of();
  o.recompute_loss = true;
  EXPECT_TRUE(after({}, o) == plain);
  o = options_of();
  o.backward_packing = BackwardPacking::kResident;
  EXPECT_TRUE(after({}, o) == plain);
  for (const double fraction : {0.3, 1.0}) {
    o = options_of();
    o.optimizer.offload = {true, fraction, true};
    EXPECT_TRUE(after({}, o) == plain);
  }
}

TEST(GradDtype, FrozenParametersHaveNoGradients) {
  TrainerOptions o = options_of();
  o.trainable.freeze = {"model.embed_tokens.*", "*.k_proj.*"};
  const Bits some = after({.model = "qwen2"}, o, 1);
  EXPECT_LT(some.gradients.size(), after({.model = "qwen2"}, options_of(), 1).gradients.size());
  TrainerOptions exact = o;
  exact.optimizer.grad_dtype = GradDtype::kF32;
  EXPECT_LT(relative_l2(some.gradients, after({.model = "qwen2"}, exact, 1).gradients), 0.01);
}

// With every form of states, each of which reads the gradients piece by piece.
TEST(GradDtype, EveryOptimizerTrainsNearly) {
  for (const StateDtype states : {StateDtype::kF32, StateDtype::kBf16, StateDtype::kInt8}) {
    TrainerOptions o = options_of(), exact = options_of(GradDtype::kF32);
    o.optimizer.state_dtype = exact.optimizer.state_dtype = states;
    o.optimizer.ema = exact.optimizer.ema = 0.9;
    EXPECT_LT(relative_l2(after({}, o, 3).masters, after({}, exact, 3).masters), 0.02);
  }
  TrainerOptions o = options_of(), exact = options_of(GradDtype::kF32);
  o.optimizer.kind = exact.optimizer.kind = OptimizerKind::kMuon;
  EXPECT_LT(relative_l2(after({}, o, 3).masters, after({}, exact, 3).masters), 0.02);
}

TEST(GradDtype, HalvesOfAStepAreAStep) {
  TrainRig whole({}, options_of()), halves({}, options_of());
  std::vector<Sample> samples = random_samples(8, whole.model().config().vocab, 1);
  store_logprobs(whole, samples);
  const std::vector<TrainSample> batch = with_advantages(samples);
  whole.trainer->step(batch);
  halves.trainer->begin_gradients(batch, {});
  while (halves.trainer->next()) {
  }
  std::vector<float> held = halves.gradients();
  EXPECT_TRUE(same_bits(held, whole.gradients()));
  halves.trainer->write_gradients(held);  // what bf16 represents stays
  EXPECT_TRUE(same_bits(halves.gradients(), held));
  halves.trainer->apply();
  halves.trainer->finish();
  EXPECT_TRUE(same_bits(halves.masters(), whole.masters()));
}

TEST(GradDtype, ALossThatIsNotFiniteMakesAGradientNan) {
  TrainRig rig({}, options_of());
  std::vector<Sample> samples = random_samples(4, rig.model().config().vocab, 1);
  store_logprobs(rig, samples);
  std::vector<TrainSample> batch = with_advantages(samples);
  batch[0].advantage = std::numeric_limits<double>::infinity();
  rig.trainer->begin_gradients(batch, {});
  while (rig.trainer->next()) {
  }
  EXPECT_TRUE(std::isnan(rig.gradients().front()));
  const std::vector<float> before = rig.masters();
  rig.trainer->apply();
  EXPECT_EQ(rig.trainer->finish().skipped_steps, 1);
  EXPECT_TRUE(same_bits(rig.masters(), before));
}

TEST(GradDtype, AResumeContinuesWithTheSameBits) {
  const TempDir dir;
  TrainRig whole({}, options_of());
  random_step(whole, 1);
  const std::string path = whole.trainer->save(
      real_fs(), dir.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"});
  random_step(whole, 2);
  TrainRig resumed({}, options_of());
  resumed.trainer->load(real_fs(), path, kConfig);
  random_step(resumed, 2);
  EXPECT_TRUE(same_bits(whole.masters(), resumed.masters()));
}

// All files are verified before; a read that fails later finds the weights half-way changed.
TEST(GradDtype, ALoadThatFailsHalfWayNamesWhatIsLost) {
  const TempDir dir;
  TrainRig whole({}, options_of());
  random_step(whole, 1);
  const std::string path = whole.trainer->save(
      real_fs(), dir.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"});
  FaultFs fs;
  fs.arm({});
  TrainRig({}, options_of()).trainer->load(fs, path, kConfig);
  const int64_t operations = fs.operations();
  TrainRig other({}, options_of());
  const std::vector<float> masters = other.masters();
  int64_t lost = 0;
  for (int64_t at = 1; at <= operations; ++at) {
    SCOPED_TRACE(at);
    other.rebuild(options_of());
    other.model().masters().write(masters);
    fs.arm({.at = at});
    expect_error(Code::kIo, [&] { other.trainer->load(fs, path, kConfig); });
    const bool changed = other.model().masters_changed();
    EXPECT_TRUE(changed || same_bits(other.masters(), masters)) << "no state says otherwise";
    try {
      other.trainer->publish();
      EXPECT_FALSE(changed) << "half-read weights are published";
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kFailedPrecondition);
      EXPECT_EQ(e.location, path);
      EXPECT_TRUE(changed);
      EXPECT_TRUE(contains(e.message, "the weights and the optimizer states are lost"));
      ++lost;
    }
  }
  EXPECT_GT(lost, 1);
  other.trainer->load(real_fs(), path, kConfig);
  random_step(whole, 2);
  random_step(other, 2);
  EXPECT_TRUE(same_bits(whole.masters(), other.masters()));
}

}  // namespace
}  // namespace rl::testing
