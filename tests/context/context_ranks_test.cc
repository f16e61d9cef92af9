// Ranks that divide the rows of micro-batches: the log-probs of a divided forward have the bits of
// one rank, or in a ring are as near as they are said to be; gradients are those of one rank but
// for the order of their sums, and a layout gives the same bits twice.
#include "model/ranks/context_ranks.h"

#include "context/context_rig.h"
#include "support/compute_dtypes.h"
#include "support/layered_model.h"
#include "train/batch/micro_batch.h"

namespace rl::testing {
namespace {

struct Outcome {
  std::vector<float> gradients;  // of the first step
  std::vector<float> masters;    // after the last
  std::vector<TrainMetrics> metrics;
};

constexpr int kSteps = 3;

TrainerOptions options_of(int64_t max_tokens = 128) {
  TrainerOptions o;
  o.max_tokens = max_tokens;
  o.logprob_chunk_tokens = 16;
  o.schedule.lr = 1e-3;
  o.check_logprobs = true;  // of each first minibatch, with those of a forward of one rank
  return o;
}

using Samples = std::function<std::vector<Sample>(int64_t vocab, unsigned seed)>;

std::vector<Sample> short_samples(int64_t vocab, unsigned seed) {
  return random_samples(8, vocab, seed);
}

Outcome train(TrainRig& rig, const Samples& samples_of, const ContextRule& rule) {
  Outcome out;
  const double bound = logprob_bound(rule, rig.model().compute_dtype());
  for (unsigned step = 0; step < kSteps; ++step) {
    std::vector<Sample> samples = samples_of(rig.model().config().vocab, 11 + step);
    store_logprobs(rig, samples);
    out.metrics.push_back(rig.trainer->step(with_advantages(samples)));
    EXPECT_LE(out.metrics.back().logprob_max_abs_diff, bound);
    if (step == 0) out.gradients = rig.gradients();
  }
  out.masters = rig.masters();
  return out;
}

std::vector<Outcome> train_on(const ContextLayout& layout, const RigOptions& rig,
                              const TrainerOptions& options,
                              const Samples& samples = short_samples) {
  std::vector<Outcome> out(static_cast<size_t>(layout.ranks()));
  on_ranks(layout, rig, options, [&](TrainRig& r, int rank) {
    out[static_cast<size_t>(rank)] = train(r, samples, layout.rule);
  });
  return out;
}

// Of sums in another order; in bf16 each rank rounds the gradients of its part of a sum's operands.
// In a ring the outputs of attention, of which the gradients are, differ too.
double bound_of(const ContextRule& rule, Dtype compute) {
  if (rule.in_ring()) return compute == Dtype::kF32 ? 1e-5 : 3e-2;
  return compute == Dtype::kF32 ? 1e-6 : 1e-3;
}

// The weights of later steps differ by what AdamW makes of gradients, so their entropies do.
void expect_near(const Outcome& ranks, const Outcome& one, double bound) {
  EXPECT_LT(relative_l2(ranks.gradients, one.gradients), bound);
  for (int step = 0; step < kSteps; ++step) {
    const TrainMetrics &a = ranks.metrics[step], &b = one.metrics[step];
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.loss_tokens, b.loss_tokens);
    EXPECT_EQ(a.micro_batches, b.micro_batches);
    EXPECT_EQ(a.logprob_compared_tokens, b.logprob_compared_tokens);
    EXPECT_EQ(a.optimizer_steps, 1);
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 10 * bound * b.grad_norm + 1e-5);
    EXPECT_NEAR(a.entropy, b.entropy, std::max(1e-3, 0.5 * bound) * b.entropy);
  }
}

void expect_as_one_rank(const ContextLayout& layout, const RigOptions& rig,
                        const TrainerOptions& options, const Samples& samples = short_samples) {
  SCOPED_TRACE(name_of(layout));
  const std::vector<Outcome> ranks = train_on(layout, rig, options, samples);
  for (const Outcome& rank : ranks) {
    EXPECT_TRUE(same_bits(rank.masters, ranks[0].masters));
    EXPECT_TRUE(same_bits(rank.gradients, ranks[0].gradients));
  }
  EXPECT_TRUE(same_bits(train_on(layout, rig, options, samples)[0].masters, ranks[0].masters));
  expect_near(ranks[0], train_on({}, rig, options, samples)[0], bound_of(layout.rule, rig.compute));
}

// The fixtures have 4 heads and 2 KV heads.
constexpr ContextLayout kTwo{{2}}, kThreeZigzag{{3, ContextKind::kAllGather, true}},
    kByHeads{{2, ContextKind::kUlysses}}, kRing{{2, ContextKind::kRing}},
    kThreeInRing{{3, ContextKind::kRing, true}};

class ContextRanksTest : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, ContextRanksTest, ::testing::Values(Dtype::kF32, Dtype::kBf16));

TEST_P(ContextRanksTest, FixturesTrainAsOneRankDoes) {
  for (const char* model : {"llama", "smollm2", "qwen2", "qwen3", "gemma3", "mistral"}) {
    SCOPED_TRACE(model);
    const RigOptions rig{.model = model, .compute = GetParam()};
    expect_as_one_rank(kTwo, rig, options_of());
    expect_as_one_rank(kThreeZigzag, rig, options_of());
    expect_as_one_rank(kByHeads, rig, options_of());
    expect_as_one_rank(kRing, rig, options_of());
    expect_as_one_rank(kThreeInRing, rig, options_of());
  }
}

// Of several chunks of the attention's backward, cut within prompts and responses.
std::vector<Sample> long_samples(int64_t vocab, unsigned seed) {
  return group_samples({3, 3, 300, 250}, vocab, seed);
}

// 4 heads and 2 KV heads, with windows on every second layer or none.
ModelConfig long_config(int64_t window) {
  ModelConfig c = uniform_config();
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.max_position = 1024;
  c.own_layers = {c.layer(0), c.layer(1)};
  c.own_layers[1].window = window;
  return c;
}

TEST_P(ContextRanksTest, LongSequencesTrainAsOneRankDoes) {
  for (const int64_t window : {0, 20, 150}) {  // smaller than a rank's rows, and larger
    SCOPED_TRACE(str("window ", window));
    const LayeredSource source(long_config(window));
    const RigOptions rig{.compute = GetParam(), .source = &source};
    expect_as_one_rank({{2, ContextKind::kRing, true}}, rig, options_of(1024), long_samples);
    expect_as_one_rank({{4, ContextKind::kRing}}, rig, options_of(1024), long_samples);
    if (window == 20) continue;
    expect_as_one_rank({{2, ContextKind::kAllGather, true}}, rig, options_of(1024), long_samples);
    expect_as_one_rank({{4}}, rig, options_of(1024), long_samples);
    expect_as_one_rank(kByHeads, rig, options_of(1024), long_samples);
  }
}

TEST_P(ContextRanksTest, PromptsThatAreNotSharedTrainAsOneRankDoes) {
  TrainerOptions o = options_of(1024);
  o.batch.shared_prefix = false;
  const LayeredSource source(long_config(0));
  const RigOptions rig{.compute = GetParam(), .source = &source};
  expect_as_one_rank({{3, ContextKind::kAllGather, true}}, rig, o, long_samples);
  expect_as_one_rank(kByHeads, rig, o, long_samples);
  expect_as_one_rank(kThreeInRing, rig, o, long_samples);
}

TEST_P(ContextRanksTest, PaddedMicroBatchesTrainAsOneRankDoes) {
  TrainerOptions o = options_of();
  o.batch.packed = o.batch.shared_prefix = false;
  o.batch.pad_to = 48;
  expect_as_one_rank(kTwo, {.compute = GetParam()}, o);
  expect_as_one_rank(kThreeInRing, {.compute = GetParam()}, o);
  o.batch.packed = true;
  expect_as_one_rank(kTwo, {.compute = GetParam()}, o);
  expect_as_one_rank(kThreeInRing, {.compute = GetParam()}, o);
}

// Fewer blocks than ranks: some have no rows.
TEST_P(ContextRanksTest, RanksMayHaveNoRows) {
  const Samples one_short = [](int64_t vocab, unsigned seed) {
    return group_samples({1, 2, 6, 6}, vocab, seed);
  };
  for (const char* model : {"llama", "qwen3", "gemma3"}) {
    const RigOptions rig{.model = model, .compute = GetParam()};
    expect_as_one_rank({{5}}, rig, options_of(), one_short);
    expect_as_one_rank(kByHeads, rig, options_of(), one_short);
    expect_as_one_rank({{3, ContextKind::kAllGather, true}}, rig, options_of(), one_short);
    expect_as_one_rank({{5, ContextKind::kRing}}, rig, options_of(), one_short);
    expect_as_one_rank(kThreeInRing, rig, options_of(), one_short);
  }
}

TEST_P(ContextRanksTest, RecomputedLayersHaveTheSameBits) {
  for (const ContextLayout& layout : {kThreeZigzag, kByHeads, kThreeInRing}) {
    SCOPED_TRACE(name_of(layout));
    const RigOptions rig{.model = "gemma3", .compute = GetParam()};
    const Outcome kept = train_on(layout, rig, options_of())[0];
    TrainerOptions full = options_of(), offloaded = options_of(), some = options_of();
    full.activations.granularity = RecomputeGranularity::kFull;
    full.activations.num_layers = 2;
    offloaded.activations = {.granularity = RecomputeGranularity::kFull, .offload = true};
    some.activations = {
        .granularity = RecomputeGranularity::kSelective, .qkv = true, .attention = true};
    for (const TrainerOptions& options : {full, offloaded, some}) {
      const Outcome again = train_on(layout, rig, options)[0];
      EXPECT_TRUE(same_bits(again.masters, kept.masters));
      EXPECT_TRUE(same_bits(again.gradients, kept.gradients));
    }
  }
}

TEST_P(ContextRanksTest, GroupsShareABatch) {
  const RigOptions rig{.compute = GetParam()};
  for (const ContextRule& rule :
       {ContextRule{2}, ContextRule{2, ContextKind::kAllGather, true},
        ContextRule{2, ContextKind::kUlysses}, ContextRule{2, ContextKind::kRing, true}}) {
    const ContextLayout layout{rule, 2};
    SCOPED_TRACE(name_of(layout));
    const std::vector<Outcome> ranks = train_on(layout, rig, options_of());
    for (const Outcome& rank : ranks) EXPECT_TRUE(same_bits(rank.masters, ranks[0].masters));
    const Outcome one = train_on({}, rig, options_of())[0];
    EXPECT_LT(relative_l2(ranks[0].gradients, one.gradients), bound_of(rule, GetParam()));
    EXPECT_EQ(ranks[0].metrics[0].tokens, one.metrics[0].tokens);
  }
}

// All ranks divide the states, whatever they divide of the batch.
TEST_P(ContextRanksTest, ZeroStagesHaveTheSameBits) {
  const ContextLayout layout{{2}, 2};
  const RigOptions rig{.compute = GetParam()};
  const Outcome whole = train_on(layout, rig, options_of())[0];
  for (const int stage : {1, 2, 3}) {
    TrainerOptions o = options_of();
    o.optimizer.zero.stage = stage;
    std::vector<std::vector<float>> masters(4);
    on_ranks(layout, rig, o, [&](TrainRig& r, int rank) {
      for (unsigned step = 0; step < kSteps; ++step) {
        std::vector<Sample> samples = short_samples(r.model().config().vocab, 11 + step);
        store_logprobs(r, samples);
        r.trainer->step(with_advantages(samples));
      }
      masters[static_cast<size_t>(rank)] = r.masters();
    });
    for (const std::vector<float>& rank : masters) EXPECT_TRUE(same_bits(rank, whole.masters));
  }
}

// A step of two ranks on samples one of which has log-probs that differ by so much.
void step_with_difference(const ContextLayout& layout, float difference, bool accepted) {
  TrainerOptions o = options_of();
  o.context = layout.rule;
  const auto thrown = try_local_ranks(2, [&](std::shared_ptr<Transport> transport) {
    RankGroups groups(layout, transport);
    RigOptions rig_options;
    groups.join(rig_options);
    TrainRig rig(rig_options, o);
    std::vector<Sample> samples = short_samples(rig.model().config().vocab, 5);
    store_logprobs(rig, samples);
    for (float& logprob : samples[2].logprobs) logprob += difference;
    if (accepted) {
      EXPECT_GT(rig.trainer->step(with_advantages(samples)).logprob_max_abs_diff, 0);
    } else {
      EXPECT_THROW(rig.trainer->step(with_advantages(samples)), Error);
    }
  });
  for (const auto& e : thrown) EXPECT_EQ(e, nullptr);
}

TEST(ContextRanks, ALogProbThatDiffersIsFound) {
  const auto bound = static_cast<float>(logprob_bound(kRing.rule, Dtype::kF32));
  step_with_difference(kTwo, 0.25f, false);
  step_with_difference(kTwo, 0.5f * bound, false);
  step_with_difference(kRing, 0.5f * bound, true);
  step_with_difference(kRing, 2 * bound, false);
}

// The rows and blocks of the rank that has most, of a micro-batch of one sample.
struct Longest {
  uint64_t rows, blocks;
};
Longest longest_of(const Sample& sample, const ContextRule& rule, const ContextRanks& ranks) {
  const PackItem item = make_pack_item(sample, 0, WantedTokens::kLoss);
  PackRules rules;
  rules.block_size = 16;
  MicroBatch micro;
  micro.fill({&item, 1}, rules, WantedTokens::kLoss);
  micro.divide(rule, ranks);
  const ContextBatch& context = *micro.batch().context;
  return {context.row_places.longest(), context.blocks.longest()};
}

// What all ranks give each other in a forward and backward of one layer (docs/parallel.md).
uint64_t bytes_of_layer(const ContextRule& rule, const AttentionShape& s, uint64_t rows,
                        const Longest& longest) {
  const auto ranks = static_cast<uint64_t>(rule.ranks), others = ranks - 1;
  const auto q = static_cast<uint64_t>(s.heads * s.head_dim),
             k = static_cast<uint64_t>(s.kv_heads * s.head_dim);
  const uint64_t kv = (rows + 15) / 16 * s.block_bytes();
  if (!rule.by_heads()) return others * ((rule.in_ring() ? 2 : 1) * kv + rows * 2 * k * 4);
  const uint64_t item = dtype_bytes(s.dtype);
  const auto padded_q = static_cast<uint64_t>(s.heads * s.padded_dim());
  return others * (longest.rows * ((padded_q + 2 * q) * item + (2 * q + 2 * k) * 4) +
                   longest.blocks * s.block_bytes());
}

TEST(ContextRanks, ExchangeTheBytesOfTheFormula) {
  const LayeredSource source(long_config(0));
  for (const ContextLayout& layout :
       {kTwo, kThreeZigzag, ContextLayout{{4}}, kByHeads, kRing, kThreeInRing}) {
    SCOPED_TRACE(name_of(layout));
    std::vector<uint64_t> sent(static_cast<size_t>(layout.ranks())), want(sent.size());
    TrainerOptions o = options_of(1024);
    o.context = layout.rule;
    run_local_ranks(layout.ranks(), [&](std::shared_ptr<Transport> transport) {
      RankGroups groups(layout, transport);
      RigOptions rig_options{.source = &source};
      groups.join(rig_options);
      TrainRig rig(rig_options, o);
      std::vector<Sample> samples = group_samples({1, 1, 300, 250}, 224, 3);
      store_logprobs(rig, samples);
      EXPECT_EQ(rig.trainer->step(with_advantages(samples)).micro_batches, 1);
      const auto rank = static_cast<size_t>(transport->rank());
      sent[rank] = groups.context().traffic().of(TrafficUse::kContext).sent;
      const auto rows =
          static_cast<uint64_t>(make_pack_item(samples[0], 0, WantedTokens::kLoss).rows);
      const Longest longest = longest_of(samples[0], layout.rule, rig_options.context);
      for (const AttentionShape& shape : rig.model().kv_shape().layers)
        want[rank] += bytes_of_layer(layout.rule, shape, rows, longest);
    });
    uint64_t total = 0;
    for (const uint64_t bytes : sent) total += bytes;
    EXPECT_EQ(total, want[0]);
    EXPECT_GT(total, 0u);
  }
}

TEST_P(ContextRanksTest, OtherHeadsAndLayersThatDiffer) {
  for (const bool normed : {false, true}) {
    SCOPED_TRACE(normed ? "normed" : "biased");
    const LayeredSource source(twelve_heads(normed));
    const RigOptions rig{.compute = GetParam(), .source = &source};
    expect_as_one_rank({{3, ContextKind::kUlysses}}, rig, options_of());
    expect_as_one_rank({{4, ContextKind::kUlysses}}, rig, options_of());
    expect_as_one_rank({{4, ContextKind::kAllGather, true}}, rig, options_of());
    expect_as_one_rank({{4, ContextKind::kRing, true}}, rig, options_of());
  }
  const LayeredSource source(layered_config());
  const RigOptions rig{.compute = GetParam(), .source = &source};
  expect_as_one_rank(kThreeZigzag, rig, options_of());
  expect_as_one_rank(kThreeInRing, rig, options_of());
}

}  // namespace
}  // namespace rl::testing
