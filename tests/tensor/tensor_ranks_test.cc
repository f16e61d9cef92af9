// Models whose layers are divided: ranks that have some parts each have the bits of one rank that
// has all of them, in forward, gradients, optimizer steps and decode, and an undivided model's
// values but for the order of sums.
#include "model/ranks/tensor_ranks.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/compute_dtypes.h"
#include "tensor/tensor_outcome.h"

namespace rl::testing {
namespace {

class TensorRanksTest : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, TensorRanksTest, ::testing::Values(Dtype::kF32, Dtype::kBf16));

TEST_P(TensorRanksTest, FixturesHaveTheBitsOfOneRank) {
  for (const char* model : {"llama", "smollm2", "qwen2", "qwen3", "gemma3", "mistral"}) {
    SCOPED_TRACE(model);
    const RigOptions rig{.model = model, .compute = GetParam()};
    const std::vector<Outcome> one = train_on({2, 1}, rig);
    expect_same_as_one(train_on({2, 2}, rig), one[0]);
    const Outcome whole = train_on({1, 1}, rig)[0];
    const double bound = GetParam() == Dtype::kF32 ? 1e-5 : 2e-2;
    EXPECT_LT(relative_l2(one[0].logprobs, whole.logprobs), bound);
    EXPECT_NEAR(one[0].norms[0], whole.norms[0], 10 * bound * whole.norms[0]);
  }
}

TEST_P(TensorRanksTest, EverySizeThatDividesThePartsHasTheSameBits) {
  for (const bool normed : {false, true}) {
    SCOPED_TRACE(normed ? "normed" : "biased");
    const LayeredSource source(twelve_heads(normed));
    const RigOptions rig{.compute = GetParam(), .source = &source};
    for (const int64_t parts : {3, 4}) {
      const Outcome one = train_on({parts, 1}, rig)[0];
      for (const int64_t ranks : {2, 3, 4}) {
        if (parts % ranks != 0) continue;
        SCOPED_TRACE(str(ranks, " ranks of ", parts, " parts"));
        expect_same_as_one(train_on({parts, ranks}, rig), one);
      }
    }
  }
}

TEST_P(TensorRanksTest, RecomputedLayersHaveTheSameBits) {
  const LayeredSource source(twelve_heads(true));
  const RigOptions rig{.compute = GetParam(), .source = &source};
  const Outcome kept = train_on({3, 1}, rig)[0];
  TrainerOptions options = options_of();
  options.activations.granularity = RecomputeGranularity::kFull;
  expect_same_as_one(train_on({3, 1}, rig, options), kept);
  expect_same_as_one(train_on({3, 3}, rig, options), kept);
}

// Prefill in chunks, decode and a training forward, all of them divided.
TEST_P(TensorRanksTest, RanksSampleTheSameTokens) {
  for (const bool normed : {false, true}) {
    SCOPED_TRACE(normed ? "normed" : "biased");
    const LayeredSource source(twelve_heads(normed));
    const RigOptions rig{.compute = GetParam(), .source = &source};
    const auto generate = [&](const Division& d) {
      std::vector<std::vector<Sample>> out(static_cast<size_t>(d.ranks));
      TrainerOptions options = options_of();
      options.max_tokens = 128;
      on_ranks(d, rig, options, [&](TrainRig& r, int rank) {
        out[static_cast<size_t>(rank)] = sampled_and_computed(r);
      });
      return out;
    };
    const std::vector<Sample> one = generate({4, 1})[0];
    for (const int64_t ranks : {2, 4}) {
      for (const std::vector<Sample>& rank : generate({4, ranks})) expect_same_samples(rank, one);
    }
  }
}

// 9 heads, 3 KV heads and 1536 MLP units, in the dtype that users run. Needs RL_SMOLLM2_GGUF
// (scripts/fetch_model.sh gets the file).
TEST(TensorRanks, SmolLM2HasTheBitsOfOneRankOnThree) {
  const char* path = std::getenv("RL_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "RL_SMOLLM2_GGUF is not set: the model file is not here";
  const Dtype compute = cpu_has_bf16_dot() ? Dtype::kBf16 : Dtype::kF32;
  const auto logprobs_on = [&](const Division& d) {
    std::vector<std::vector<float>> out(static_cast<size_t>(d.ranks));
    on_ranks(d, {.model = path, .compute = compute}, options_of(), [&](TrainRig& r, int rank) {
      std::vector<Sample> samples = random_samples(4, r.model().config().vocab, 5);
      store_logprobs(r, samples);
      r.trainer->step(with_advantages(samples));
      store_logprobs(r, samples);
      for (const Sample& s : samples) {
        std::vector<float>& own = out[static_cast<size_t>(rank)];
        own.insert(own.end(), s.logprobs.begin(), s.logprobs.end());
      }
    });
    return out;
  };
  const std::vector<float> one = logprobs_on({3, 1})[0];
  EXPECT_FALSE(one.empty());
  for (const std::vector<float>& rank : logprobs_on({3, 3})) EXPECT_TRUE(same_bits(rank, one));
}

// Two groups of two ranks: each computes half of a batch with half of the model.
TEST(TensorRanks, GroupsShareABatch) {
  const LayeredSource source(twelve_heads(true));
  const auto run = [&](const Division& d, int groups) {
    std::vector<Outcome> out(static_cast<size_t>(d.ranks) * static_cast<size_t>(groups));
    run_local_ranks(static_cast<int>(out.size()), [&](std::shared_ptr<Transport> transport) {
      const int size = static_cast<int>(out.size());
      const Mesh mesh({.tensor = static_cast<int>(d.ranks), .data = groups}, size,
                      transport->rank());
      comm::Group tensor(transport, mesh, Axis::kTensor, {kLongNs});
      comm::Group data(transport, mesh, Axis::kData, {kLongNs}), all(transport, {kLongNs});
      const int64_t count = d.parts / d.ranks;
      RigOptions rig{.ranks = DataRanks(data, all, *transport),
                     .split = {d.parts, tensor.rank() * count, count},
                     .source = &source};
      if (d.ranks > 1) rig.tensor = TensorRanks(tensor);
      TrainRig r(rig, options_of());
      out[static_cast<size_t>(transport->rank())] = train(r);
    });
    return out;
  };
  const std::vector<Outcome> one = run({4, 1}, 2), ranks = run({4, 2}, 2);
  expect_same_as_one(one, one[0]);
  expect_same_as_one(ranks, one[0]);
  const Outcome alone = train_on({4, 1}, {.source = &source})[0];
  EXPECT_LT(relative_l2(one[0].gradients, alone.gradients), 1e-6);
}

// Tokens of the first rank alone: the others add nothing to the gradient of the embedding, and more
// or fewer parts to that of the head. What all of them have is rounded alike.
TEST(TensorRanksRounding, KeepsWhatAllRanksHaveEqual) {
  const LayeredSource source(twelve_heads(true));
  TrainerOptions o = options_of();
  o.max_tokens = 64;  // several micro-batches a step
  o.optimizer.grad_dtype = GradDtype::kBf16;
  for (const Division d : {Division{2, 2}, Division{3, 3}, Division{4, 2}}) {
    SCOPED_TRACE(str(d.ranks, " ranks of ", d.parts, " parts"));
    std::vector<Outcome> ranks(static_cast<size_t>(d.ranks));
    on_ranks(d, {.source = &source}, o, [&](TrainRig& rig, int rank) {
      ranks[static_cast<size_t>(rank)] = train(rig, 8, 16);
    });
    for (const Outcome& rank : ranks) {
      EXPECT_EQ(rank.norms, ranks.front().norms);
      EXPECT_TRUE(same_bits(rank.whole, ranks.front().whole));
    }
  }
}

}  // namespace
}  // namespace rl::testing
