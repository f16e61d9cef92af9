// Models whose layers several ranks have, one range each: they have the bits of one rank in
// forward, gradients, norms and optimizer steps.
#include "model/ranks/stage_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "stages/stage_rig.h"
#include "support/compute_dtypes.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

// What a rank sees of a run.
struct Outcome {
  std::vector<float> logprobs;  // before each step
  // Of the first step and after the last, what the rank has, by name.
  std::map<std::string, std::vector<float>> gradients, masters;
  std::vector<float> weights;  // all, on the first stage
  std::vector<double> norms;
  std::vector<std::string> metrics;
};

constexpr int kSteps = 3;

std::map<std::string, std::vector<float>> by_name(const WeightLayout& layout,
                                                  const std::vector<float>& flat,
                                                  int64_t Parameter::*offset) {
  std::map<std::string, std::vector<float>> out;
  for (const Parameter& p : layout.parameters()) {
    const auto begin = flat.begin() + p.*offset;
    out[p.name] = {begin, begin + p.size};
  }
  return out;
}

std::string text_of(const TrainMetrics& metrics) {
  std::string text;
  for_each_metric(metrics, [&](const char* name, double value) {
    if (!std::string_view(name).starts_with("timing_s/")) text += str(name, "=", value, "\n");
  });
  return text;
}

Outcome train(TrainRig& rig, int samples = 16) {
  Outcome out;
  for (unsigned step = 0; step < kSteps; ++step) {
    std::vector<Sample> batch = random_samples(samples, rig.model().config().vocab, 11 + step);
    store_logprobs(rig, batch);
    for (const Sample& s : batch)
      out.logprobs.insert(out.logprobs.end(), s.logprobs.begin(), s.logprobs.end());
    const TrainMetrics metrics = rig.trainer->step(with_advantages(batch));
    EXPECT_EQ(metrics.logprob_max_abs_diff, 0);
    EXPECT_GT(metrics.logprob_compared_tokens, 0);
    EXPECT_EQ(metrics.optimizer_steps, 1);
    out.norms.push_back(metrics.grad_norm);
    out.metrics.push_back(text_of(metrics));
    const WeightLayout& layout = rig.trainer->layout();
    if (step == 0) out.gradients = by_name(layout, rig.gradients(), &Parameter::gradient);
  }
  out.masters = by_name(rig.model().layout(), rig.masters(), &Parameter::offset);
  out.weights = all_weights(rig.model(), WholeTensors(rig.model()));
  return out;
}

std::vector<Outcome> train_on(const StageCut& cut, const RigOptions& rig,
                              const TrainerOptions& options = options_of(), int groups = 1) {
  std::vector<Outcome> out(static_cast<size_t>(cut.stages * groups));
  on_stages(
      cut, rig, options, [&](TrainRig& r, int rank) { out[static_cast<size_t>(rank)] = train(r); },
      groups);
  return out;
}

void expect_same_as_one(const std::vector<Outcome>& ranks, const Outcome& one) {
  std::map<std::string, int> seen;
  for (const Outcome& rank : ranks) {
    EXPECT_TRUE(same_bits(rank.logprobs, one.logprobs));
    EXPECT_EQ(rank.norms, one.norms);
    EXPECT_EQ(rank.metrics, one.metrics);
    for (const auto& [name, values] : rank.gradients) {
      EXPECT_TRUE(same_bits(values, one.gradients.at(name))) << "gradient of " << name;
      ++seen[name];
    }
    for (const auto& [name, values] : rank.masters)
      EXPECT_TRUE(same_bits(values, one.masters.at(name))) << name;
  }
  EXPECT_EQ(seen.size(), one.gradients.size());
  EXPECT_TRUE(same_bits(ranks[0].weights, one.weights));
}

class StageRanksTest : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, StageRanksTest, ::testing::Values(Dtype::kF32, Dtype::kBf16));

TEST_P(StageRanksTest, FixturesHaveTheBitsOfOneRank) {
  for (const char* model : {"llama", "smollm2", "qwen2", "qwen3", "gemma3", "mistral"}) {
    SCOPED_TRACE(model);
    const RigOptions rig{.model = model, .compute = GetParam()};
    const Outcome one = train_on({}, rig)[0];
    expect_same_as_one(train_on({.stages = 2}, rig), one);
  }
}

// Layers that differ; a tied head, and one of its own.
TEST_P(StageRanksTest, EveryCutHasTheBitsOfOneRank) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "untied");
    const LayeredSource source(tied ? layered_normed_config() : layered_config());
    const RigOptions rig{.compute = GetParam(), .source = &source};
    const Outcome one = train_on({}, rig)[0];
    for (const StageCut& cut : {StageCut{2, 0, 0}, StageCut{2, 3, 1}, StageCut{2, 1, 3},
                                StageCut{3, 2, 0}, StageCut{3, 0, 2}, StageCut{4, 0, 0}}) {
      SCOPED_TRACE(str(cut.stages, " stages, ", cut.first_layers, ", ", cut.last_layers));
      expect_same_as_one(train_on(cut, rig), one);
    }
  }
}

TEST_P(StageRanksTest, RecomputedLayersHaveTheSameBits) {
  const LayeredSource source(layered_normed_config());
  const RigOptions rig{.compute = GetParam(), .source = &source};
  const Outcome kept = train_on({}, rig)[0];
  TrainerOptions options = options_of();
  options.activations.granularity = RecomputeGranularity::kFull;
  options.activations.num_layers = 2;
  expect_same_as_one(train_on({2, 3, 1}, rig, options), kept);
}

// The head goes a part of a chunk at a time, and again for the gradient of a copied embedding.
TEST_P(StageRanksTest, PartsOfTheHeadHaveTheSameBits) {
  for (const char* model : {"llama", "smollm2"}) {
    SCOPED_TRACE(model);
    TrainerOptions options = options_of();
    options.max_tokens = 256;
    options.logprob_chunk_tokens = 0;
    options.recompute_loss = true;
    const RigOptions rig{.model = model, .compute = GetParam()};
    expect_same_as_one(train_on({.stages = 2}, rig, options), train_on({}, rig, options)[0]);
  }
}

TEST_P(StageRanksTest, GroupsShareABatch) {
  for (const char* model : {"llama", "smollm2"}) {
    SCOPED_TRACE(model);
    const RigOptions rig{.model = model, .compute = GetParam()};
    const std::vector<Outcome> one = train_on({}, rig, options_of(), 2);
    expect_same_as_one(train_on({.stages = 2}, rig, options_of(), 2), one[0]);
  }
}

// Prefill in chunks, decode and a training forward.
TEST_P(StageRanksTest, StagesSampleTheTokensOfOneRank) {
  for (const bool normed : {false, true}) {
    SCOPED_TRACE(normed ? "normed" : "biased");
    const LayeredSource source(normed ? layered_normed_config() : layered_config());
    const RigOptions rig{.compute = GetParam(), .source = &source};
    const auto generate = [&](const StageCut& cut) {
      std::vector<std::vector<Sample>> out(static_cast<size_t>(cut.stages));
      TrainerOptions options = options_of();
      options.max_tokens = 128;
      on_stages(cut, rig, options, [&](TrainRig& r, int rank) {
        out[static_cast<size_t>(rank)] = sampled_and_computed(r);
      });
      return out;
    };
    const std::vector<Sample> one = generate({})[0];
    for (const StageCut& cut : {StageCut{2, 0, 0}, StageCut{3, 2, 0}, StageCut{4, 0, 0}}) {
      for (const std::vector<Sample>& rank : generate(cut)) expect_same_samples(rank, one);
    }
  }
}

// Stages have whole chunks of the norm to themselves, and share others.
TEST(StageRanks, NormsOfManyChunksHaveTheBitsOfOneRank) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "untied");
    ModelConfig c = uniform_config();
    c.ffn = 1500;
    c.tied_head = tied;
    const LayeredSource source(c);
    const RigOptions rig{.source = &source};
    const Outcome one = train_on({}, rig)[0];
    for (const StageCut& cut : {StageCut{2, 0, 0}, StageCut{3, 2, 0}, StageCut{4, 0, 0}})
      expect_same_as_one(train_on(cut, rig), one);
  }
}

// Losses of a minibatch, pairs with a reference, and a KL to one.
TEST(StageRanks, ObjectivesHaveTheBitsOfOneRank) {
  struct Outcome {
    std::string metrics;
    std::vector<float> weights;  // of the first stage, which has those of all
  };
  const auto outcomes = [](const StageCut& cut, const TrainerOptions& options) {
    std::vector<Outcome> out(static_cast<size_t>(cut.stages));
    on_stages(cut, {.model = "smollm2", .with_reference = options.needs_reference()}, options,
              [&](TrainRig& rig, int rank) {
                Outcome& own = out[static_cast<size_t>(rank)];
                for (const unsigned seed : {11u, 12u}) {
                  const std::vector<Sample> samples = samples_for(rig, options.objective, seed);
                  own.metrics += text_of(rig.trainer->step(with_advantages(samples)));
                }
                const WholeTensors whole(rig.model());
                if (rank == 0) own.weights = all_weights(rig.model(), whole);
              });
    return out;
  };
  TrainerOptions kl = options_of(), dpo = options_of(), sft = options_of(), stale = options_of();
  kl.kl_in_loss = true;
  kl.kl_coef = 0.1;
  kl.batch.num_minibatches = 2;
  kl.epochs = 2;
  dpo.objective = Objective::kDpo;
  sft.objective = Objective::kSft;
  stale.correction.decoupled = true;
  stale.batch.num_minibatches = 3;
  for (const TrainerOptions& options : {kl, dpo, sft, stale}) {
    SCOPED_TRACE(objective_name(options.objective));
    const Outcome one = outcomes({}, options)[0];
    const std::vector<Outcome> stages = outcomes({.stages = 2}, options);
    EXPECT_TRUE(same_bits(stages[0].weights, one.weights));
    for (const Outcome& stage : stages) EXPECT_EQ(stage.metrics, one.metrics);
  }
}

TEST(StageRanks, OutputsOfForwardsAreThoseOfOneRankOnAllStages) {
  const auto outputs = [](const StageCut& cut) {
    std::vector<std::vector<float>> out(static_cast<size_t>(cut.stages));
    on_stages(cut, {.model = "smollm2"}, options_of(), [&](TrainRig& rig, int rank) {
      const std::vector<Sample> samples = random_samples(6, rig.model().config().vocab, 3);
      std::vector<const Sample*> in;
      size_t tokens = 0;
      for (const Sample& s : samples) {
        in.push_back(&s);
        tokens += static_cast<size_t>(s.generated());
      }
      std::vector<float> values(2 * tokens);
      ForwardPass pass = rig.trainer->forward_pass();
      pass.tokens(in, std::span(values).first(tokens), std::span(values).subspan(tokens));
      const TensorPtr hidden = pass.hidden(in, {}), logits = pass.logits(in, {});
      for (const TensorPtr& t : {hidden, logits}) {
        const auto* const from = static_cast<const float*>(t->data());
        values.insert(values.end(), from, from + t->num_elements());
      }
      out[static_cast<size_t>(rank)] = values;
    });
    return out;
  };
  const std::vector<float> one = outputs({})[0];
  for (const std::vector<float>& stage : outputs({.stages = 2})) EXPECT_TRUE(same_bits(stage, one));
}

// Bytes that the stages send for the rows of a step, each row once in each direction, and the
// gradient of a copied embedding.
TEST(StageRanks, BytesAreThoseOfTheFormula) {
  for (const char* model : {"llama", "smollm2"}) {
    SCOPED_TRACE(model);
    const StageCut cut{.stages = 2};
    on_stages(cut, {.model = model}, options_of(), [&](TrainRig& rig, int rank) {
      const ModelConfig& c = rig.model().config();
      std::vector<Sample> samples = random_samples(16, c.vocab, 3);
      store_logprobs(rig, samples);
      const Traffic before = rig.model().stage_ranks().traffic();
      const TrainMetrics m = rig.trainer->step(with_advantages(samples));
      const Traffic traffic = rig.model().stage_ranks().traffic() - before;
      const auto rows = static_cast<uint64_t>(m.computed_rows * c.hidden) * sizeof(float);
      const auto matrix = static_cast<uint64_t>(c.vocab * c.hidden) * sizeof(float);
      const uint64_t embedding = c.tied_head ? rows : 0, copy = c.tied_head ? matrix : 0;
      const TrafficBytes down{rows + embedding, rows}, up{rows, rows + embedding};
      EXPECT_EQ(traffic.of(TrafficUse::kActivations), rank == 0 ? down : up);
      const TrafficBytes given{copy, 0}, taken{0, copy};
      EXPECT_EQ(traffic.of(TrafficUse::kGradients), rank == 0 ? taken : given);
      EXPECT_GT(m.micro_batches, 3);
    });
  }
}

// It is in no call, while one of the others sends to it and one receives from it.
TEST(StageRanks, AStageThatDoesNotComeIsNamedWithinTheTimeout) {
  const LayeredSource source(uniform_config());
  constexpr int64_t kTimeoutNs = 500'000'000, kSecond = 1'000'000'000;
  const RigOptions rig_options{.source = &source};
  const auto work = [&](TrainRig& rig, int rank) {
    std::vector<Sample> samples = random_samples(16, rig.model().config().vocab, 3);
    store_logprobs(rig, samples);
    const std::vector<TrainSample> batch = with_advantages(samples);
    if (rank == 1) {
      rig.trainer->begin(batch);
      return std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kSecond));
    }
    const int64_t begin = real_clock().now_ns();
    try {
      rig.trainer->step(batch);
      ADD_FAILURE() << "stage " << rank << " trained alone";
    } catch (const RankError& e) {
      EXPECT_EQ(e.location, "rank 1");
    }
    EXPECT_LT(real_clock().now_ns() - begin, kTimeoutNs + kSecond);
  };
  on_stages({3, 2, 1}, rig_options, options_of(), work, 1, kTimeoutNs);
}

TEST(StageRanks, LayersThatCannotBeDividedAreRefusedWithANumberThatCan) {
  const ModelConfig c = uniform_config();  // four layers
  const Error uneven = expect_error(Code::kIncompatible, [&] { with_stage(c, {3, 0, 0}, 0); });
  EXPECT_EQ(uneven.key, "parallel.pipeline");
  EXPECT_EQ(uneven.expected,
            "parallel.pipeline_first_layers = 0 and "
            "parallel.pipeline_last_layers = 2");
  EXPECT_EQ(with_stage(c, {3, 0, 2}, 2).layers, 2);
  EXPECT_EQ(expect_error(Code::kIncompatible,
                         [&] {
                           with_stage(c, {5, 0, 0}, 0);
                         })
                .expected,
            "1..4");
  for (const StageCut& cut : {StageCut{2, 1, 1}, StageCut{2, 4, 0}, StageCut{3, 3, 1},
                              StageCut{4, 2, 0}, StageCut{2, 3, 2}}) {
    expect_error(Code::kIncompatible, [&] { with_stage(c, cut, 0); });
  }
}

TEST(StageRanks, StagesTogetherHaveEachTensorOnce) {
  for (const bool tied : {false, true}) {
    ModelConfig c = layered_config();
    c.tied_head = tied;
    std::vector<std::string> names, all;
    for_each_expected_tensor(c, [&](const TensorInfo& t) { all.push_back(t.name); });
    for (int64_t s = 0; s < 3; ++s) {
      const ModelConfig stage = with_stage(c, {3, 1, 2}, s);
      for_each_expected_tensor(stage, [&](const TensorInfo& t) { names.push_back(t.name); });
      EXPECT_EQ(stage.own_layers.size(), static_cast<size_t>(stage.layers));
      EXPECT_EQ(WeightLayout(stage).num_tensors_of_all(), static_cast<int64_t>(all.size()));
    }
    if (tied) all.push_back("model.embed_tokens.weight");  // the copy
    EXPECT_EQ(names, all);
  }
}

}  // namespace
}  // namespace rl::testing
