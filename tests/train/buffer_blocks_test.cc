// The memory of a step's passes: its regions in order, the KV blocks that they are planned with,
// and the rules that a pass takes from its options.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "train/optimizer/adamw_state.h"
#include "train/passes/pass_rules.h"
#include "train/passes/row_teacher.h"
#include "train/passes/train_buffers.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

StepOptions options_of(int64_t max_tokens, int64_t max_sequence, const BatchRules& batch = {}) {
  StepOptions o;
  o.max_tokens = max_tokens;
  o.max_sequence = max_sequence;
  o.batch = batch;
  return o;
}

// With 16 rows a block, n sequences that share no prompt waste 15 rows each, and 31 with prompts.
TEST(WorkspaceBlocks, AFixedNumberOfSequencesIsPlannedFor) {
  BatchRules b{.micro_batch_size = 4};
  EXPECT_EQ(training_kv_blocks(options_of(50, 51, b), 16), (200 + 4 * 31) / 16);
  b.shared_prefix = false;
  EXPECT_EQ(training_kv_blocks(options_of(50, 51, b), 16), (200 + 4 * 15) / 16);
  b.packed = false;  // 50 rows take 4 blocks, and padding one more
  EXPECT_EQ(training_kv_blocks(options_of(50, 51, b), 16), 4 * (4 + 1));
  b.pad_to = 100;  // 7 blocks
  EXPECT_EQ(training_kv_blocks(options_of(50, 51, b), 16), 4 * (7 + 1));
}

TEST(WorkspaceBlocks, UnpackedMicroBatchesHoldTheirLongestSequenceAndNoMoreThanTwiceTheirRows) {
  BatchRules b{.step_samples = 3, .packed = false};
  // 3 samples in one minibatch; 200 rows.
  EXPECT_EQ(training_kv_blocks(options_of(200, 51, b), 16), (200 + 3 * 31) / 16);
  b.step_samples = 1;  // 200 rows of one sequence take 13 blocks, and its padding one
  EXPECT_EQ(training_kv_blocks(options_of(200, 201, b), 16), 14);
  b.step_samples = 0;  // up to 64 sequences, but no more than two blocks a row
  EXPECT_EQ(training_kv_blocks(options_of(10, 3, b), 16), 2 * 10);
}

// Samples of an optimizer step: a share of the step's, but for rounding and pairs.
TEST(WorkspaceBlocks, AMinibatchHasSoManySamples) {
  const auto blocks = [](const BatchRules& batch) {
    return training_kv_blocks(options_of(16000, 0, batch), 16);
  };
  const auto blocks_for = [](int64_t samples) { return (16000 + samples * 31) / 16; };
  EXPECT_EQ(blocks({.step_samples = 64}), blocks_for(64));
  EXPECT_EQ(blocks({.step_samples = 0}), blocks_for(16000 / 16)) << "unknown";
  EXPECT_EQ(blocks({.num_minibatches = 4, .step_samples = 160}), blocks_for(160 / 4 + 2));
  EXPECT_EQ(blocks({.global_batch_size = 16, .step_samples = 160}), blocks_for(2 * 16));
  EXPECT_EQ(blocks({.global_batch_size = 160, .step_samples = 160}), blocks_for(160));
}

TEST(WorkspaceBlocks, PaddingOfPackedMicroBatchesHasBlocks) {
  EXPECT_EQ(padding_kv_blocks(options_of(100, 31), 16), 0) << "nothing is padded";
  // 100 rows in sequences of up to 30: 4 of them; 7 blocks hold the rows.
  EXPECT_EQ(padding_kv_blocks(options_of(100, 31, {.pad_to = 8}), 16), 7 + 4 + 1);
  EXPECT_EQ(padding_kv_blocks(options_of(100, 31, {.seq_len = 100}), 16), 7 + 4 + 1);
  EXPECT_EQ(padding_kv_blocks(options_of(100, 26, {.pad_to = 8}), 16), 7 + 4 + 1);
  EXPECT_EQ(padding_kv_blocks(options_of(100, 101, {.pad_to = 8}), 16), 7 + 2 + 1)
      << "104 rows do not fit one sequence of 100";
  EXPECT_EQ(padding_kv_blocks(options_of(100, 31, {.packed = false, .pad_to = 8}), 16), 0);
  TrainRig rig({}, {});
  const TrainShape shape = shape_of(rig.model());
  const StepOptions o = options_of(100, 31, {.pad_to = 8});
  EXPECT_EQ(all_kv_blocks(shape, o), training_kv_blocks(o, 16) + 12);
}

// Of 1600 rows a rank has up to 416, of all 8 samples.
TEST(WorkspaceBlocks, ARankHasRoomForTheBlocksOfItsOwnRows) {
  TrainRig rig({}, {});
  const TrainShape shape = shape_of(rig.model());
  StepOptions o = options_of(1600, 401, {.step_samples = 8});
  EXPECT_EQ(own_kv_blocks(shape, o), (1600 + 8 * 31) / 16);
  for (const ContextKind kind : {ContextKind::kUlysses, ContextKind::kRing}) {
    o.context = {4, kind};
    EXPECT_EQ(all_kv_blocks(shape, o), (1600 + 8 * 31) / 16 + 1);
    EXPECT_EQ(own_kv_blocks(shape, o), (416 + 8 * 31) / 16 + 1);
    EXPECT_EQ(max_samples(o, 16), 8);
    const bool ring = kind == ContextKind::kRing;
    EXPECT_EQ(pool_kv_blocks(shape, o), ring ? own_kv_blocks(shape, o) : all_kv_blocks(shape, o));
    BatchLimits limits = train_limits(shape, o);
    const uint64_t own = ForwardBuffers::bytes(shape.config, shape.kv, limits, 1);
    limits.own_blocks = all_kv_blocks(shape, o);
    EXPECT_LT(own, ForwardBuffers::bytes(shape.config, shape.kv, limits, 1));
  }
  o.context = {4};
  EXPECT_EQ(pool_kv_blocks(shape, o), all_kv_blocks(shape, o));
  EXPECT_EQ(max_samples(o, 16), 0);
  o.batch.step_samples = 0;  // any number: a sixteenth of the rows, of a rank's in a ring
  o.max_tokens = 16000;
  o.context = {4, ContextKind::kUlysses};
  EXPECT_EQ(max_samples(o, 16), 1000);
  o.context.kind = ContextKind::kRing;
  EXPECT_EQ(max_samples(o, 16), 4016 / 16);
  EXPECT_EQ(own_kv_blocks(shape, o), (4016 + 4016 / 16 * 31) / 16 + 1);
}

TEST(WorkspaceBlocks, NoMoreBlocksThanRowsArePlanned) {
  EXPECT_EQ(forward_kv_blocks(options_of(100, 31), 20, 16), 20);
  StepOptions o = options_of(100, 31, {.step_samples = 2});
  EXPECT_EQ(forward_kv_blocks(o, 100, 16), (100 + 2 * 31) / 16);
  o.batch.shared_prefix = false;
  EXPECT_EQ(forward_kv_blocks(o, 100, 16), (100 + 2 * 15) / 16);
}

TEST(WorkspaceBlocks, AForwardMayHoldTheSamplesOfAllMinibatches) {
  const StepOptions o = options_of(1600, 201, {.num_minibatches = 8, .step_samples = 40});
  EXPECT_EQ(training_kv_blocks(o, 16), (1600 + (40 / 8 + 2) * 31) / 16);
  EXPECT_EQ(forward_kv_blocks(o, 1600, 16), (1600 + 40 * 31) / 16);
}

std::vector<std::string> names_of(const ArenaPlan& plan) {
  std::vector<std::string> out;
  for (const auto& r : plan.regions()) out.emplace_back(r.name);
  return out;
}

TEST(Workspace, RegionsHaveTheBytesOfTheirBuffers) {
  TrainRig rig({.threads = 2}, {});
  const TrainShape s = shape_of(rig.model());
  EXPECT_EQ(s.num_threads, 2);
  StepOptions o = options_of(100, 31, {.pad_to = 8});
  o.logprob_chunk_tokens = 12;
  const ArenaPlan plan = plan_train_buffers(s, o);
  EXPECT_EQ(names_of(plan).front(), "saved activations");
  const int64_t rows = o.train_rows();
  EXPECT_EQ(rows, 100);
  const std::vector<uint64_t> expected = {
      SavedActivations::bytes(s.config, s.compute(), rows),
      ForwardBuffers::bytes(s.config, s.kv, o.limits(rows), 2),
      BackwardBuffers::bytes(s.config, s.kv, rows, 2),
      0,  // of the head beyond those: 12 rows of it fit in them
      static_cast<uint64_t>(all_kv_blocks(s, o)) * s.kv.block_bytes()};
  ASSERT_GE(plan.regions().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(plan.regions()[i].bytes, expected[i]) << plan.regions()[i].name;
}

// The head's buffers begin behind what the head hands to the backward.
TEST(Workspace, ALargeHeadHasAPlaceBeyondTheBackward) {
  TrainRig rig({}, {});
  ModelConfig config = rig.model().config();
  config.vocab *= 8;
  const Compute& compute = rig.model().compute();
  const TrainShape s{config, rig.model().kv_shape(), compute.num_threads(), compute.device()};
  StepOptions o = options_of(100, 31, {});
  o.logprob_chunk_tokens = 100;
  const BatchLimits rows = o.limits(o.train_rows());
  const uint64_t backward = BackwardBuffers::bytes(s.config, s.kv, rows, s.num_threads);
  const uint64_t before = BackwardBuffers(s.config, s.kv, rows, s.num_threads, nullptr).free_before;
  const uint64_t head = HeadBuffers::bytes(s.config, s.compute(), o.head_rows(), true);
  ASSERT_GT(before + head, backward);
  const ArenaPlan plan = plan_train_buffers(s, o);
  EXPECT_EQ(names_of(plan)[3], "head buffers beyond backward");
  EXPECT_EQ(plan.regions()[3].bytes, before + head - backward);
}

// A forward-only pass lies over the regions of training, and only what it has beyond them is added.
TEST(Workspace, LogProbsBeyondTrainingAreAddedOnlyIfTheyNeedMore) {
  TrainRig rig({}, {});
  const TrainShape s = shape_of(rig.model());
  const StepOptions o = options_of(100, 31, {.forward_max_tokens = 10});
  const ArenaPlan small = plan_train_buffers(s, o);
  EXPECT_EQ(small.regions().size(), 5u);
  EXPECT_GE(small.total_bytes(), ScoringBuffers::bytes(s, o));
  for (int64_t BatchRules::*budget :
       {&BatchRules::forward_max_tokens, &BatchRules::reference_max_tokens}) {
    StepOptions large = o;
    large.batch.*budget = 20000;
    const ArenaPlan plan = plan_train_buffers(s, large);
    ASSERT_EQ(plan.regions().size(), 6u);
    EXPECT_EQ(names_of(plan).back(), "log-probs beyond training");
    EXPECT_GE(plan.total_bytes(), ScoringBuffers::bytes(s, large));
  }
}

TEST(Workspace, MomentsAreTwiceTheGradients) {
  TrainRig rig({}, {});
  const WeightLayout layout(rig.model().config());
  const int64_t total = layout.gradient_total();
  const MomentBytes moments = AdamwState::moment_bytes(layout, {});
  const GradientBytes gradients = AdamwState::gradient_bytes(layout, GradDtype::kF32);
  EXPECT_EQ(gradients.values, static_cast<uint64_t>(total) * 4);
  EXPECT_EQ(gradients.scratch, 0u);
  EXPECT_EQ(moments.device, 2 * gradients.values);
  EXPECT_EQ(moments.host + moments.staging, 0u);
  AdamwState state(layout, {}, *rig.tiny.compute);
  EXPECT_EQ(state.gradients().count(), total);
  EXPECT_EQ(state.memory().size(), 2u);
  std::ranges::fill(state.gradients().in_host(), 3.0f);
  const TrainedRun& first = layout.trained_runs().front();
  state.first_moments(first)[0] = 5.0f;
  EXPECT_NEAR(state.gradient_norm(), std::sqrt(static_cast<double>(total) * 9), 1e-6);
  state.zero_gradients(1);
  EXPECT_EQ(state.gradient_norm(), 0);
  EXPECT_EQ(state.first_moments(first)[0], 5.0f);
}

TEST(Workspace, ARowTeacherPlansItsOwnShape) {
  TrainRig rig({.threads = 2}, {});
  const TrainShape s = shape_of(rig.model());
  StepOptions o = options_of(100, 31, {.pad_to = 8});
  o.logprob_chunk_tokens = 12;
  const uint64_t forward = ForwardBuffers::bytes(s.config, s.kv, o.limits(100), 2);
  const uint64_t kv = static_cast<uint64_t>(all_kv_blocks(s, o)) * forward_kv(s.kv).block_bytes();
  const uint64_t hidden = 100 * static_cast<uint64_t>(s.config.hidden) * sizeof(float);
  const uint64_t head = HeadBuffers::bytes(s.config, s.compute(), 12, false);
  const auto expect_near = [](uint64_t seen, uint64_t sum) {
    EXPECT_GE(seen, sum);
    EXPECT_LT(seen, sum + 2 * 64) << "but for alignment";
  };
  expect_near(RowTeacher::forward_bytes(s, o), forward + kv);
  expect_near(RowTeacher::kept_bytes(s, o), hidden + head);
}

TEST(Workspace, APassTakesItsRulesFromTheOptions) {
  TrainRig rig({}, {});
  const Model& model = rig.model();
  StepOptions o =
      options_of(100, 31, {.step_samples = 7, .pad_to = 8, .balance = BalanceCost::kFlops});
  o.batch.forward_max_tokens = 150;
  o.batch.reference_max_tokens = 70;
  const PackRules training = training_rules(o, model);
  EXPECT_EQ(training.rows, 100);
  EXPECT_EQ(training.blocks, training_kv_blocks(o, 16));
  EXPECT_EQ(training.block_size, 16);
  EXPECT_EQ(training.longest, 30);
  EXPECT_EQ(training.hidden_size, model.config().hidden);
  EXPECT_EQ(training.batch.pad_to, 8);
  EXPECT_EQ(training.batch.balance, BalanceCost::kFlops);
  o.batch.packed = false;
  for (const bool shared : {true, false}) {
    o.batch.shared_prefix = shared;
    const PackRules own = forward_rules(o, model, ForwardOf::kOwn);
    EXPECT_EQ(own.rows, 150);
    EXPECT_EQ(own.blocks, forward_kv_blocks(o, 150, 16));
    EXPECT_EQ(own.block_size, 16);
    EXPECT_EQ(own.shares(), shared) << "forwards are packed";
    EXPECT_EQ(own.batch.pad_to, 1);
    EXPECT_EQ(own.batch.balance, BalanceCost::kNone);
    const PackRules reference = forward_rules(o, model, ForwardOf::kReference);
    EXPECT_EQ(reference.rows, 70);
    EXPECT_EQ(reference.blocks, forward_kv_blocks(o, 70, 16));
  }
  EXPECT_EQ(training_rules(options_of(100, 1), model).longest, 1) << "never 0";
}

TEST(Workspace, TheLimitsOfAPassFollowFromTheModelAndTheOptions) {
  TrainRig rig({}, {});
  const Model& model = rig.model();
  const StepOptions o = options_of(40, 31, {.forward_max_tokens = 150});
  const SampleLimits training = training_limits(o, model);
  EXPECT_EQ(training.vocab, model.config().vocab);
  EXPECT_EQ(training.max_positions, model.max_positions());
  EXPECT_EQ(training.max_rows, 30);
  EXPECT_STREQ(training.rows_key, "trainer.max_tokens_per_device");
  EXPECT_EQ(training.max_sample, 31);
  EXPECT_EQ(training_limits(options_of(20, 31), model).max_rows, 20);
  EXPECT_EQ(training_limits(options_of(40, 31, {.seq_len = 20}), model).max_rows, 20);
  EXPECT_EQ(training_limits(options_of(40, 31, {.seq_len = 35}), model).max_rows, 30);
  const SampleLimits forward = forward_limits(o, model, ForwardOf::kOwn);
  EXPECT_EQ(forward.vocab, model.config().vocab);
  EXPECT_EQ(forward.max_positions, model.max_positions());
  EXPECT_EQ(forward.max_rows, 150);
  EXPECT_STREQ(forward.rows_key, "trainer.logprob_max_tokens_per_device");
  EXPECT_EQ(forward.max_sample, 31);
}

}  // namespace
}  // namespace rl::testing
