// Ranges of the options of a step, the numbers of rows that follow from them, and what stays as it
// is between steps.
#include "train/options/step_options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "train/critic.h"
#include "train/options/trainer_options.h"

namespace rl {
namespace {

constexpr int64_t kMost = 16777216;

struct Range {
  std::string key;
  int64_t low, high;
  void (*set)(StepOptions&, int64_t);
};

std::vector<Range> ranges() {
  using O = StepOptions;
  return {
      {"trainer.max_tokens_per_device", 1, kMost, [](O& o, int64_t v) { o.max_tokens = v; }},
      {"engine.max_model_len", 0, kMost + 1, [](O& o, int64_t v) { o.max_sequence = v; }},
      {"trainer.logprob_chunk_tokens", 0, kMost,
       [](O& o, int64_t v) { o.logprob_chunk_tokens = v; }},
      {"trainer.mlp_chunk_tokens", 0, kMost, [](O& o, int64_t v) { o.mlp_chunk_tokens = v; }},
      {"trainer.epochs", 1, 1024, [](O& o, int64_t v) { o.epochs = v; }},
      {"trainer.global_batch_size", 0, int64_t{1} << 32,
       [](O& o, int64_t v) { o.batch.global_batch_size = v; }},
      {"trainer.num_minibatches", 1, 65536, [](O& o, int64_t v) { o.batch.num_minibatches = v; }},
      {"trainer.micro_batch_size", 0, 65536,
       [](O& o, int64_t v) {
         o.batch.micro_batch_size = v;
         o.max_tokens = 1;  // one row a sequence, so that no row count is too large
       }},
      {"trainer.logprob_max_tokens_per_device", 0, kMost,
       [](O& o, int64_t v) { o.batch.forward_max_tokens = v; }},
      {"reference.forward_max_tokens_per_device", 0, kMost,
       [](O& o, int64_t v) { o.batch.reference_max_tokens = v; }},
      {"trainer.seq_len", 0, kMost, [](O& o, int64_t v) { o.batch.seq_len = v; }},
      {"trainer.pad_to_multiple_of", 1, 65536, [](O& o, int64_t v) { o.batch.pad_to = v; }},
  };
}

TEST(StepOptions, ARangeIncludesItsEndsAndNothingBeyondThem) {
  for (const Range& r : ranges()) {
    SCOPED_TRACE(r.key);
    for (const int64_t inside : {r.low, r.high}) {
      StepOptions o;
      r.set(o, inside);
      EXPECT_NO_THROW(validate(o)) << inside;
    }
    for (const int64_t outside : {r.low - 1, r.high + 1}) {
      StepOptions o;
      r.set(o, outside);
      const Error e = expect_error(Code::kOutOfRange, [&] { validate(o); });
      EXPECT_EQ(e.key, r.key);
      EXPECT_EQ(e.expected, str(r.low, "..", r.high));
      EXPECT_TRUE(contains(e.message, str(r.key, " is ", outside, ",")));
    }
  }
}

TEST(StepOptions, RangesOfACriticHaveItsKeys) {
  const auto key_of = [](void (*set)(CriticOptions&)) {
    CriticOptions o;
    set(o);
    return expect_error(Code::kOutOfRange, [&] { validate(o); }).key;
  };
  using O = CriticOptions;
  EXPECT_EQ(key_of([](O& o) { o.max_tokens = 0; }), "critic.max_tokens_per_device");
  EXPECT_EQ(key_of([](O& o) { o.batch.forward_max_tokens = -1; }),
            "critic.forward_max_tokens_per_device");
  EXPECT_EQ(key_of([](O& o) { o.batch.micro_batch_size = -1; }), "critic.micro_batch_size");
  EXPECT_EQ(key_of([](O& o) { o.value_clip = -0.5; }), "algo.value_clip");
  EXPECT_EQ(key_of([](O& o) { o.value_clip = INFINITY; }), "algo.value_clip");
  CriticOptions off;
  off.value_clip = 0;
  EXPECT_NO_THROW(validate(off));
}

// 65536 sequences of 256 rows are the most; with padding that is part of each sequence, too.
TEST(StepOptions, AMicroBatchHasAtMostSoManyRows) {
  StepOptions o;
  o.batch.micro_batch_size = 65536;
  for (const bool packed : {true, false}) {
    o.batch.packed = packed;
    o.batch.pad_to = packed ? 1 : 256;
    o.max_tokens = packed ? 256 : 200;
    EXPECT_NO_THROW(validate(o));
    (packed ? o.max_tokens : o.batch.pad_to) = 257;
    const Error e = expect_error(Code::kOutOfRange, [&] { validate(o); });
    EXPECT_EQ(e.key, "trainer.micro_batch_size");
    EXPECT_EQ(e.expected, "at most 16777216 rows");
    EXPECT_TRUE(contains(e.message, str(65536 * 257, " rows")));
    EXPECT_TRUE(contains(e.message, str("of up to ", packed ? 257 : 200, " rows")));
  }
}

TEST(StepOptions, RatesAndCoefficientsHaveRangesToo) {
  const auto key_of = [](Code code, void (*set)(TrainerOptions&)) {
    TrainerOptions o;
    set(o);
    return expect_error(code, [&] { validate(o); }).key;
  };
  using O = TrainerOptions;
  constexpr Code kRange = Code::kOutOfRange;
  EXPECT_EQ(key_of(kRange, [](O& o) { o.grad_clip = -1; }), "optimizer.grad_clip");
  EXPECT_EQ(key_of(kRange, [](O& o) { o.schedule.lr = -1; }), "optimizer.lr");
  EXPECT_EQ(key_of(kRange, [](O& o) { o.entropy_coef = -0.5; }), "algo.entropy_coef");
  EXPECT_EQ(key_of(kRange, [](O& o) { o.kl_coef = INFINITY; }), "algo.kl.coef");
  EXPECT_EQ(key_of(kRange, [](O& o) { o.distill.coef = NAN; }), "algo.distill.coef");
  EXPECT_EQ(key_of(kRange, [](O& o) { o.dpo.beta = 0; }), "algo.dpo.beta");
  EXPECT_EQ(key_of(kRange, [](O& o) { o.correction.opsm_delta = -1; }),
            "algo.correction.opsm_delta");
  EXPECT_EQ(key_of(kRange, [](O& o) { o.correction.weights.high = 0; }), "algo.correction.high");
  EXPECT_EQ(key_of(kRange,
                   [](O& o) {
                     o.correction.rejections = {{RejectLevel::kToken, RejectStatistic::kK2, 0, 1},
                                                {RejectLevel::kToken, RejectStatistic::kK2, 0, 0}};
                   }),
            "algo.correction.rs_bounds");
  for (const double factor : {0.0, -1.0, static_cast<double>(INFINITY)}) {
    TrainerOptions o;
    o.loss_scale_factor = factor;  // read by one aggregation only
    EXPECT_NO_THROW(validate(o));
    o.loss_agg = LossAgg::kSeqMeanTokenSumNorm;
    const Error e = expect_error(Code::kOutOfRange, [&] { validate(o); });
    EXPECT_EQ(e.key, "algo.loss_scale_factor");
    EXPECT_EQ(e.expected, "a finite value above 0");
  }
}

// A loss whose ratio is already relative to the sampler takes no weights for the mismatch.
TEST(StepOptions, WeightsWithoutDecouplingNeedALossWithoutARatio) {
  using P = PolicyLoss;
  for (const P kind : {P::kPpoClip, P::kNone, P::kGspo, P::kCispo, P::kSapo, P::kGmpo, P::kGpg,
                       P::kDppoTv, P::kDppoKl, P::kClipCov, P::kKlCov, P::kDro, P::kCustom}) {
    SCOPED_TRACE(policy_loss_name(kind));
    TrainerOptions o;
    o.policy_loss.kind = kind;
    EXPECT_NO_THROW(validate(o));
    o.correction.weights.level = CorrectionLevel::kSequence;
    if (kind == P::kNone || kind == P::kGpg || kind == P::kCustom) {
      EXPECT_NO_THROW(validate(o));
    } else {
      const Error e = expect_error(Code::kConflict, [&] { validate(o); });
      EXPECT_EQ(e.key, "algo.correction.is");
      EXPECT_EQ(e.other_key, "algo.correction.decoupled");
      EXPECT_TRUE(contains(e.message, "algo.correction.is = sequence"));
    }
    o.correction.decoupled = true;
    EXPECT_NO_THROW(validate(o));
  }
}

TEST(StepOptions, ACorrectionIsActiveWhereItDoesSomething) {
  CorrectionOptions c;
  EXPECT_FALSE(c.active() || c.reads_mismatch());
  c.counts_rejected = c.batch_normalize = true;  // say how others are done
  EXPECT_FALSE(c.active() || c.reads_mismatch());
  const auto expect = [](void (*set)(CorrectionOptions&), bool reads) {
    CorrectionOptions o;
    set(o);
    EXPECT_TRUE(o.active());
    EXPECT_EQ(o.reads_mismatch(), reads);
  };
  using O = CorrectionOptions;
  expect([](O& o) { o.weights.level = CorrectionLevel::kToken; }, true);
  expect([](O& o) { o.rejections.resize(1); }, true);
  expect([](O& o) { o.veto = 1e-9; }, true);
  expect([](O& o) { o.opsm_delta = 0.1; }, false);
  expect([](O& o) { o.decoupled = true; }, false);
}

TEST(StepOptions, ALossTermAndDpoNeedAReference) {
  TrainerOptions o;
  EXPECT_FALSE(o.needs_reference());
  o.kl_coef = 1;  // as a penalty of the reward
  EXPECT_FALSE(o.needs_reference());
  o.kl_in_loss = true;
  EXPECT_TRUE(o.needs_reference());
  o.kl_in_loss = false;
  for (const Objective objective : {Objective::kSft, Objective::kRewardModel, Objective::kDistill,
                                    Objective::kRl, Objective::kDpo}) {
    o.objective = objective;
    EXPECT_EQ(o.needs_reference(), objective == Objective::kDpo) << objective_name(objective);
  }
}

struct Sizes {
  int64_t longest_sample, longest, train, forward_budget, forward, reference_budget, reference,
      chunk;
  bool operator==(const Sizes&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Sizes& s) {
  return out << s.longest_sample << ' ' << s.longest << ' ' << s.train << ' ' << s.forward_budget
             << ' ' << s.forward << ' ' << s.reference_budget << ' ' << s.reference << ' '
             << s.chunk;
}

Sizes sizes_of(int64_t max_tokens, int64_t max_sequence, const BatchRules& batch,
               int64_t chunk = 256) {
  StepOptions o;
  o.max_tokens = max_tokens;
  o.max_sequence = max_sequence;
  o.batch = batch;
  o.logprob_chunk_tokens = chunk;
  return {o.longest_sample(), o.longest_rows(),     o.train_rows(),     o.forward_budget(),
          o.forward_rows(),   o.reference_budget(), o.reference_rows(), o.chunk_rows()};
}

TEST(StepOptions, AnMlpChunkIsAMultipleOfItsUnit) {
  StepOptions o;
  o.mlp_chunk_tokens = 1000;
  const Error error = expect_error(Code::kOutOfRange, [&] { validate(o); });
  EXPECT_EQ(error.key, "trainer.mlp_chunk_tokens");
  EXPECT_EQ(error.expected, "a multiple of 512");
  o.mlp_chunk_tokens = 1024;
  EXPECT_EQ(o.limits(4000).mlp_rows, 1024);
  EXPECT_EQ(o.limits(700).mlp_rows, 700);
  o.mlp_chunk_tokens = 0;
  EXPECT_EQ(o.limits(4000).mlp_rows, 4000);
}

// The last token of a sample is only a target: 81 tokens are 80 rows.
TEST(StepOptions, RowsFollowFromBudgetsAndLengths) {
  EXPECT_EQ(sizes_of(1024, 0, {}), (Sizes{1025, 1024, 1024, 2048, 2048, 2048, 2048, 256}));
  EXPECT_EQ(sizes_of(100, 81, {}), (Sizes{81, 80, 100, 200, 200, 200, 200, 100}));
  EXPECT_EQ(sizes_of(100, 81, {}, 0), (Sizes{81, 80, 100, 200, 200, 200, 200, 100}));
  EXPECT_EQ(sizes_of(70, 81, {}, 7), (Sizes{81, 70, 70, 140, 140, 140, 140, 7}));
  // A budget below one padded sequence is raised to it.
  EXPECT_EQ(sizes_of(90, 81, {.pad_to = 32}), (Sizes{81, 80, 96, 192, 192, 192, 192, 96}));
  EXPECT_EQ(sizes_of(40, 31, {.seq_len = 50}), (Sizes{31, 30, 50, 100, 100, 100, 100, 50}));
}

TEST(StepOptions, RowsOfAFixedNumberOfSequencesArePaddedTogetherOrEach) {
  BatchRules b{.micro_batch_size = 3, .pad_to = 20};
  EXPECT_EQ(sizes_of(40, 31, b), (Sizes{31, 30, 100, 200, 200, 200, 200, 100}));
  b.packed = false;
  EXPECT_EQ(sizes_of(40, 31, b), (Sizes{31, 30, 120, 240, 240, 240, 240, 120}));
}

TEST(StepOptions, ForwardsHaveBudgetsOfTheirOwn) {
  BatchRules b{.forward_max_tokens = 150};
  EXPECT_EQ(sizes_of(40, 31, b), (Sizes{31, 30, 40, 150, 150, 150, 150, 40}));
  b.reference_max_tokens = 500;
  EXPECT_EQ(sizes_of(40, 31, b), (Sizes{31, 30, 40, 150, 150, 500, 500, 40}));
  // The longest sample fits although the budgets are smaller.
  b = {.forward_max_tokens = 20, .reference_max_tokens = 60, .oversize_alone = true};
  EXPECT_EQ(sizes_of(40, 100, b), (Sizes{100, 99, 99, 20, 99, 60, 99, 99}));
  b = {.forward_max_tokens = 150, .reference_max_tokens = 500, .oversize_alone = true};
  EXPECT_EQ(sizes_of(40, 100, b), (Sizes{100, 99, 99, 150, 150, 500, 500, 99}));
}

TEST(StepOptions, PaddingGoesToALengthAndBeyondItToAMultiple) {
  BatchRules b;
  EXPECT_FALSE(b.pads());
  EXPECT_EQ(b.padded(51), 51);
  b.pad_to = 8;
  EXPECT_TRUE(b.pads());
  for (const auto& [rows, padded] :
       {std::pair{0, 0}, {1, 8}, {7, 8}, {8, 8}, {9, 16}, {51, 56}, {56, 56}})
    EXPECT_EQ(b.padded(rows), padded) << rows;
  b.seq_len = 50;
  for (const auto& [rows, padded] : {std::pair{0, 50}, {49, 50}, {50, 50}, {51, 56}, {57, 64}})
    EXPECT_EQ(b.padded(rows), padded) << rows;
  b.pad_to = 1;
  EXPECT_TRUE(b.pads());
}

TEST(StepOptions, AGlobalBatchSizeDecidesOnTheMinibatches) {
  BatchRules b{.num_minibatches = 3};
  for (const int64_t samples : {0, 1, 3, 100}) EXPECT_EQ(b.minibatches(samples), 3);
  b.global_batch_size = 4;
  for (const auto& [samples, parts] :
       {std::pair{0, 0}, {1, 1}, {3, 1}, {4, 1}, {5, 2}, {8, 2}, {9, 3}})
    EXPECT_EQ(b.minibatches(samples), parts) << samples;
}

TEST(StepOptions, ASizeOfACriticThatChangesIsNamedWithBothValues) {
  const CriticOptions now;
  const auto refused = [&](void (*set)(CriticOptions&)) {
    CriticOptions next;
    set(next);
    return expect_error(Code::kNotChangeable, [&] { require_same_sizes(now, next); });
  };
  using O = CriticOptions;
  const Error tokens = refused([](O& o) { o.max_tokens = 100; });
  EXPECT_EQ(tokens.key, "critic.max_tokens_per_device");
  EXPECT_TRUE(contains(tokens.message,
                       "critic.max_tokens_per_device is 1024 and cannot be changed to 100"));
  EXPECT_EQ(refused([](O& o) { o.batch.micro_batch_size = 2; }).key, "critic.micro_batch_size");
  EXPECT_EQ(refused([](O& o) { o.batch.forward_max_tokens = 64; }).key,
            "critic.forward_max_tokens_per_device");
  EXPECT_EQ(refused([](O& o) { o.trainable.freeze = {"*norm.weight"}; }).key, "model.freeze");
  EXPECT_EQ(refused([](O& o) { o.backward_packing = BackwardPacking::kResident; }).key,
            "trainer.backward_weights");
  const Error only = refused([](O& o) { o.trainable.train_only = {"*norm.weight"}; });
  EXPECT_EQ(only.key, "model.train_only");
  EXPECT_TRUE(contains(only.message, "model.train_only cannot be changed"));
}

TEST(StepOptions, WhatNoSizeFollowsFromMayChange) {
  const StepOptions now;
  StepOptions next;
  next.epochs = 3;
  next.batch.num_minibatches = 4;
  next.batch.global_batch_size = 5;
  next.batch.shared_prefix = false;
  next.batch.balance = BalanceCost::kTokens;
  next.loss_agg = LossAgg::kTokenSum;
  next.adamw.weight_decay = 0.5;
  next.schedule.lr = 1;
  next.grad_clip = 0;
  EXPECT_NO_THROW(require_same_sizes(now, next));
}

}  // namespace
}  // namespace rl
