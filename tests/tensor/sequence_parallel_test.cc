// Ranks that divide the rows of the residual: the bits of those that do not, less memory, and the
// bytes of the formula.
#include <gtest/gtest.h>

#include "support/compute_dtypes.h"
#include "tensor/tensor_outcome.h"

namespace rl::testing {
namespace {

TEST(ResidualRows, AreCutWhereChunksOfGradientsBegin) {
  run_local_ranks(3, [](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
    for (const int64_t rows : {1, 64, 65, 200, 640, 1000}) {
      const ResidualRows cut(TensorRanks(group), rows, true);
      EXPECT_LE(cut.own().count, ResidualRows::most(rows, 3));
      EXPECT_TRUE(cut.own().first % kGradientRows == 0 || cut.own().count == 0);
      std::vector<int32_t> seen(static_cast<size_t>(rows), 0);
      for (int64_t r = cut.own().first; r < cut.own().end(); ++r) seen[static_cast<size_t>(r)] = 1;
      group.all_reduce(values_of(std::span(seen)));
      EXPECT_EQ(std::ranges::count(seen, 1), rows) << rows;
    }
    EXPECT_EQ(ResidualRows(TensorRanks(group), 1000, false).own().count, 1000);
    const ResidualRows cut(TensorRanks(group), 1000, true);
    int64_t own = 0;
    for (int64_t first = 0; first < 1000; first += 512)
      own += cut.own({first, std::min<int64_t>(512, 1000 - first)}).count;
    EXPECT_EQ(own, cut.own().count);
  });
}

class SequenceParallel : public ::testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, SequenceParallel, ::testing::ValuesIn(compute_dtypes()));

// Micro-batches of many chunks of rows, and the last ones of few.
constexpr int kSamples = 60;
TrainerOptions wide_options() {
  TrainerOptions o = options_of();
  o.max_tokens = 1300;
  o.logprob_chunk_tokens = 128;
  return o;
}

TEST_P(SequenceParallel, HasTheBitsOfOneRank) {
  for (const bool normed : {false, true}) {
    SCOPED_TRACE(normed ? "normed" : "biased");
    const LayeredSource source(twelve_heads(normed));
    const RigOptions rig{.compute = GetParam(), .source = &source};
    TrainerOptions divided = wide_options();
    divided.sequence_parallel = true;
    for (const Division d : {Division{3, 3}, Division{4, 2}, Division{4, 4}}) {
      SCOPED_TRACE(str(d.ranks, " ranks of ", d.parts, " parts"));
      const Outcome one = train_on({d.parts, 1}, rig, wide_options(), kSamples)[0];
      expect_same_as_one(train_on(d, rig, divided, kSamples), one);
    }
  }
}

TEST_P(SequenceParallel, WithMicroBatchesOfFewRows) {
  const LayeredSource source(twelve_heads(true));
  const RigOptions rig{.compute = GetParam(), .source = &source};
  TrainerOptions divided = options_of();
  divided.sequence_parallel = true;
  expect_same_as_one(train_on({4, 4}, rig, divided), train_on({4, 1}, rig)[0]);
}

TEST(SequenceParallelRules, WhatIsComputedAgainHasTheSameBits) {
  const LayeredSource source(twelve_heads(true));
  const RigOptions rig{.source = &source};
  const Outcome one = train_on({4, 1}, rig, wide_options(), kSamples)[0];
  for (const char* rule : {"full", "selective", "offload", "chunks", "bf16 gradients"}) {
    SCOPED_TRACE(rule);
    TrainerOptions o = wide_options();
    const std::string_view name = rule;
    ActivationRule& a = o.activations;
    if (name == "full" || name == "offload") a.granularity = RecomputeGranularity::kFull;
    if (name == "full") a.num_layers = 2;
    if (name == "offload") a.offload = true;
    if (name == "selective") a.granularity = RecomputeGranularity::kSelective;
    if (name == "selective") a.qkv = a.attention = a.residual = a.mlp = true;
    if (name == "chunks") o.mlp_chunk_tokens = 512;
    TrainerOptions divided = o;
    divided.sequence_parallel = true;
    if (name == "chunks") divided.activations.granularity = RecomputeGranularity::kSelective;
    if (name == "chunks") divided.activations.mlp = true;
    if (name == "bf16 gradients") {
      o.optimizer.grad_dtype = divided.optimizer.grad_dtype = GradDtype::kBf16;
      const std::vector<Outcome> ranks = train_on({4, 2}, rig, divided, kSamples);
      const std::vector<Outcome> without = train_on({4, 2}, rig, o, kSamples);
      for (size_t r = 0; r < ranks.size(); ++r) {
        EXPECT_EQ(ranks[r].norms, without[r].norms);
        EXPECT_TRUE(same_bits(ranks[r].masters, without[r].masters));
      }
      continue;
    }
    expect_same_as_one(train_on({4, 2}, rig, divided, kSamples), one);
  }
}

// Of a batch of 256 rows on two ranks each keeps half of the residuals, and four of norms.
TEST(SequenceParallelMemory, IsOfOwnRows) {
  for (const bool normed : {false, true}) {
    ModelConfig config = twelve_heads(normed);
    config.split = {2, 0, 1};
    BatchLimits limits(256), divided(256);
    divided.row_ranks = 2;
    const auto bytes = [&](const BatchLimits& l) {
      return SavedActivations::bytes(config, Dtype::kF32, l);
    };
    const int64_t vectors = config.layers * (normed ? 4 : 2);
    EXPECT_EQ(bytes(limits) - bytes(divided),
              static_cast<uint64_t>(vectors * 128 * config.hidden * 4));
  }
}

// What a rank sends of a micro-batch of rows that two ranks divide evenly, one part on each.
TEST(SequenceParallelTraffic, IsThatOfTheFormula) {
  ModelConfig config = twelve_heads(false);
  config.vocab = 256;
  const LayeredSource source(config);
  run_local_ranks(2, [&](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
    const RigOptions rig{
        .split = {2, group.rank(), 1}, .tensor = TensorRanks(group), .source = &source};
    const auto sent = [&](bool divides) {
      TrainerOptions o = options_of();
      o.max_tokens = 128;
      o.logprob_chunk_tokens = 128;
      o.sequence_parallel = divides;
      TrainRig r(rig, o);
      std::vector<Sample> samples;
      for (int i = 0; i < 2; ++i) {
        std::vector<int32_t> ids(65);
        for (size_t k = 0; k < ids.size(); ++k)
          ids[k] = static_cast<int32_t>((7 * k + 3 * i) % 256);
        samples.push_back(make_sample(std::move(ids), 1, 0, static_cast<uint32_t>(i)));
      }
      store_logprobs(r, samples);
      const Traffic before = group.traffic();
      const TrainMetrics m = r.trainer->step(with_advantages(samples));
      EXPECT_EQ(m.micro_batches, 1);
      return group.traffic() - before;
    };
    const uint64_t layers = static_cast<uint64_t>(config.layers);
    const uint64_t half = 64 * static_cast<uint64_t>(config.hidden) * 4;  // own rows in fp32
    const Traffic whole = sent(false), rows = sent(true);
    // An all-reduce for the embedding, two for a layer in each direction, one for the head's input;
    // in place of those of layers a reduce-scatter, and all-gathers: of the norms, twice in the
    // forward and twice again in the backward, of two rounded gradients, and of dx at the end.
    EXPECT_EQ(rows.of(Collective::kReduceScatter).sent, 4 * layers * half);
    EXPECT_EQ(rows.of(Collective::kReduceScatter).sent + rows.of(Collective::kAllReduce).sent +
                  4 * layers * half,
              whole.of(Collective::kAllReduce).sent);
    const uint64_t chunk_sums = (2 * layers + 1) * static_cast<uint64_t>(config.hidden) * 4;
    EXPECT_EQ(rows.of(Collective::kAllGather).sent - whole.of(Collective::kAllGather).sent,
              (6 * layers + 1) * half + chunk_sums);
  });
}

}  // namespace
}  // namespace rl::testing
