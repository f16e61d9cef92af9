// The critic: values and steps against float64 goldens, what the cut into micro-batches may change,
// masks, skipped steps, and its memory.
#include "train/critic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "critic_rig.h"
#include "group_rig.h"
#include "support/compute_dtypes.h"
#include "support/expect_error.h"
#include "support/golden_tensors.h"

namespace rl::testing {
namespace {

// Those of the other goldens: torch's fp32 run is off by less than a quarter of them.
constexpr double kLossTolerance = 2e-6, kNormTolerance = 1e-5, kGradTolerance = 2e-5;
constexpr double kValueTolerance = 2e-5;
// An element whose gradient is near 0 moves by the sign of noise, up to the learning rate.
constexpr double kParameterTolerance = 5e-6, kLooseTolerance = 1e-3, kCloseShare = 0.999;

CriticOptions usual_options() {
  CriticOptions o;
  o.max_tokens = 64;
  o.max_sequence = 100;
  o.schedule.lr = 1e-3;
  o.value_clip = 0.2;
  return o;
}

class CriticGolden : public ::testing::Test {
 protected:
  CriticGolden()
      : golden_(TinyModel::fixture("llama_value") + "/golden.safetensors"),
        rig_({.model = "llama_value", .threads = 2}, options()) {
    std::ifstream in(TinyModel::fixture("llama_value") + "/golden.json");
    facts_ = nlohmann::json::parse(in);
    for (size_t i = 0; i < facts_["prompts"].size(); ++i) {
      const std::string seq = str("seq", i, ".");
      samples_.push_back(make_sample(golden_.ids(seq + "input_ids"), facts_["prompts"][i], i, 0));
      old_values_.push_back(floats(seq + "old_values"));
      returns_.push_back(floats(seq + "returns"));
    }
    for (size_t i = 0; i < samples_.size(); ++i)
      batch_.push_back({&samples_[i], old_values_[i], returns_[i]});
  }
  static CriticOptions options() {
    CriticOptions o = usual_options();
    o.adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    return o;
  }
  std::vector<float> floats(const std::string& name) const {
    const GoldenTensor t = golden_.get(name);
    return {t.values.begin(), t.values.end()};
  }

  GoldenTensors golden_;
  nlohmann::json facts_;
  CriticRig rig_;
  std::vector<Sample> samples_;
  std::vector<std::vector<float>> old_values_, returns_;
  std::vector<CriticSample> batch_;
};

TEST_F(CriticGolden, ATokensValueIsThatOfTheRowBeforeIt) {
  const auto values = rig_.values(samples_);
  for (size_t i = 0; i < samples_.size(); ++i) {
    const auto want = golden_.get(str("seq", i, ".values_f64")).values;
    for (size_t g = 0; g < values[i].size(); ++g) {
      const size_t row = static_cast<size_t>(samples_[i].prompt_tokens) + g - 1;
      EXPECT_NEAR(values[i][g], want[row], kValueTolerance) << i << " " << g;
    }
  }
}

TEST_F(CriticGolden, EveryGradientMatches) {
  rig_.critic->step(batch_);
  const std::vector<float> gradients = rig_.gradients();
  for (const Parameter& p : rig_.model().layout().parameters()) {
    const GoldenTensor want = golden_.get("grad_f64." + p.name);
    ASSERT_EQ(static_cast<int64_t>(want.values.size()), p.size);
    double largest = 0.0;
    for (const double v : want.values) largest = std::max(largest, std::abs(v));
    for (int64_t i = 0; i < p.size; ++i)
      ASSERT_NEAR(gradients[p.offset + i], want.values[i], kGradTolerance * largest + 1e-8)
          << p.name << " at " << i;
  }
}

TEST_F(CriticGolden, ThreeStepsMatch) {
  for (const auto& want : facts_["history_f64"]) {
    const CriticMetrics m = rig_.critic->step(batch_);
    EXPECT_NEAR(m.loss, want["loss"].get<double>(), kLossTolerance);
    EXPECT_NEAR(m.clip_fraction, want["clip_fraction"].get<double>(), 1e-12);
    const double norm = want["grad_norm"].get<double>();
    EXPECT_NEAR(m.grad_norm, norm, kNormTolerance * norm);
  }
  EXPECT_EQ(rig_.model().version(), 3u);
  const std::vector<float> masters = rig_.masters();
  int64_t compared = 0, close = 0;
  for (const Parameter& p : rig_.model().layout().parameters()) {
    const GoldenTensor want = golden_.get("after3." + p.name);
    for (int64_t i = 0; i < p.size; ++i) {
      const double d = std::abs(masters[p.offset + i] - want.values[i]);
      EXPECT_LE(d, kLooseTolerance) << p.name << " at " << i;
      close += d <= kParameterTolerance;
      ++compared;
    }
  }
  EXPECT_GE(static_cast<double>(close), kCloseShare * static_cast<double>(compared));
}

struct CriticStep {
  CriticMetrics metrics;
  std::vector<std::vector<float>> values;
  std::vector<float> gradients;
};

CriticStep critic_step(const RigOptions& rig_options, const CriticOptions& options) {
  CriticRig rig(rig_options, options);
  rig.fill_head(3);
  const std::vector<Sample> samples = groups(rig.model().config().vocab, 5);
  const CriticData data(rig, samples, 9);
  CriticStep r;
  r.values = rig.values(samples);
  r.metrics = rig.critic->step(data.batch);
  r.gradients = rig.gradients();
  return r;
}

class CriticCut : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, CriticCut, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(CriticCut, TenRandomCutsLeaveValuesAndLoss) {
  CriticOptions whole = usual_options();
  whole.max_tokens = 2048;
  whole.batch.shared_prefix = false;
  const RigOptions rig{.compute = GetParam(), .threads = 2};
  const CriticStep want = critic_step(rig, whole);
  EXPECT_EQ(want.metrics.micro_batches, 1);
  EXPECT_GT(want.metrics.clip_fraction, 0.05);
  std::mt19937 rng(31);
  double worst = 0;
  for (int cut = 0; cut < 10; ++cut) {
    CriticOptions o = usual_options();
    o.max_tokens = static_cast<int64_t>(100 + rng() % 300);
    o.batch.micro_batch_size = rng() % 3 == 0 ? 1 + rng() % 7 : 0;
    o.batch.forward_max_tokens = static_cast<int64_t>(rng() % 2 * 150);
    o.batch.shared_prefix = rng() % 2 == 0;
    o.batch.pad_to = rng() % 2 == 0 ? 1 : 8;
    SCOPED_TRACE(str(o.max_tokens, " ", o.batch.micro_batch_size, " ", o.batch.shared_prefix));
    const CriticStep got = critic_step(rig, o);
    EXPECT_EQ(got.values, want.values);
    // The same losses, summed in double in another grouping.
    EXPECT_NEAR(got.metrics.loss, want.metrics.loss, 1e-12);
    EXPECT_EQ(got.metrics.clip_fraction, want.metrics.clip_fraction);
    worst = std::max(worst, relative_l2(got.gradients, want.gradients));
  }
  // A shared prompt rounds its gradients once in bf16; cuts alone sum fp32 in another order.
  // Rounding alone, the same loss scaled, moves a bf16 gradient by 5e-3.
  EXPECT_LT(worst, GetParam() == Dtype::kF32 ? 1e-6 : 3e-3);
  std::cout << "relative L2 of the critic's gradients over ten random cuts, "
            << dtype_name(GetParam()) << ": " << worst << "\n";
}

TEST_P(CriticCut, ThreadsLeaveTheBits) {
  CriticOptions o = usual_options();
  o.max_tokens = 120;
  const CriticStep one = critic_step({.compute = GetParam(), .threads = 1}, o);
  const CriticStep three = critic_step({.compute = GetParam(), .threads = 3}, o);
  EXPECT_EQ(one.values, three.values);
  EXPECT_TRUE(same_bits(one.gradients, three.gradients));
}

TEST(Critic, BeginsWithTheValueZeroAndLearnsTheReturns) {
  CriticRig rig({}, usual_options());
  const std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 4);
  std::vector<std::vector<float>> returns = rig.values(samples);
  const auto old_values = returns;
  std::vector<CriticSample> batch;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (float& v : returns[i]) {
      EXPECT_EQ(v, 0.0f);
      v = 1.0f;
    }
    batch.push_back({&samples[i], old_values[i], returns[i]});
  }
  CriticOptions o = usual_options();
  o.value_clip = 0;
  rig.critic->set_options(o);
  const double first = rig.critic->step(batch).loss;
  EXPECT_DOUBLE_EQ(first, 0.5);
  double last = first;
  for (int step = 0; step < 30; ++step) last = rig.critic->step(batch).loss;
  EXPECT_LT(last, 0.05);
}

TEST(Critic, MaskedTokensAndSamplesWithoutLossAreNotRead) {
  CriticRig plain({.model = "llama_value"}, usual_options());
  std::vector<Sample> samples = random_samples(12, plain.model().config().vocab, 7);
  CriticData data(plain, samples, 2);
  data.batch[5].carries_loss = false;
  const CriticMetrics m = plain.critic->step(data.batch);
  CriticRig poisoned({.model = "llama_value"}, usual_options());
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t g = 0; g < samples[i].loss_mask.size(); ++g) {
      if (samples[i].loss_mask[g] == 0 || i == 5) data.returns[i][g] = NAN;
    }
  }
  const CriticMetrics n = poisoned.critic->step(data.batch);
  EXPECT_EQ(m.loss, n.loss);
  EXPECT_EQ(m.loss_tokens, n.loss_tokens);
  EXPECT_TRUE(same_bits(plain.masters(), poisoned.masters()));
}

// Neither one that a filter masked nor one whose tokens are all masked is a sequence of the mean.
TEST(Critic, AMeanOverSequencesLeavesOutThoseWithoutLoss) {
  CriticOptions o = usual_options();
  o.loss_agg = LossAgg::kSeqMeanTokenMean;
  CriticRig with({.model = "llama_value"}, o), without({.model = "llama_value"}, o);
  std::vector<Sample> samples = random_samples(8, with.model().config().vocab, 7);
  std::ranges::fill(samples[4].loss_mask, 0);
  CriticData data(with, samples, 2);
  data.batch[1].carries_loss = false;
  std::vector<CriticSample> others = data.batch;
  others.erase(others.begin() + 4);
  others.erase(others.begin() + 1);
  const CriticMetrics m = with.critic->step(data.batch), n = without.critic->step(others);
  EXPECT_GT(m.loss, 0);
  EXPECT_EQ(m.loss, n.loss);
  EXPECT_EQ(m.loss_tokens, n.loss_tokens);
}

TEST(Critic, AReturnThatIsNotFiniteSkipsTheStepAndNamesItsSample) {
  CriticOptions o = usual_options();
  o.batch.num_minibatches = 2;
  CriticRig rig({.model = "llama_value"}, o);
  const std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 7);
  CriticData data(rig, samples, 2);
  size_t g = 0;
  while (samples[6].loss_mask[g] == 0) ++g;
  data.returns[6][g] = INFINITY;
  const CriticMetrics m = rig.critic->step(data.batch);
  EXPECT_EQ(m.optimizer_steps, 1);
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_EQ(m.non_finite_samples, std::vector<uint64_t>{samples[6].id});
  EXPECT_TRUE(std::isfinite(m.loss));
  EXPECT_EQ(rig.critic->counters().skipped_steps, 1);
}

// The clipped value is infinite where the old one is.
TEST(Critic, AnOldValueThatIsNotFiniteNamesItsSampleToo) {
  CriticRig rig({.model = "llama_value"}, usual_options());
  const std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 7);
  CriticData data(rig, samples, 2);
  size_t g = 0;
  while (samples[2].loss_mask[g] == 0) ++g;
  data.old_values[2][g] = INFINITY;
  const CriticMetrics m = rig.critic->step(data.batch);
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_EQ(m.non_finite_samples, std::vector<uint64_t>{samples[2].id});
}

// Fails behind one of its loops, when that is done.
class BreakingExecutor final : public Executor {
 public:
  int num_threads() const override { return base_->num_threads(); }
  void parallel_for(int64_t count, FunctionRef<void(int64_t, int)> task) override {
    base_->parallel_for(count, task);
    if (--loops_left == 0) throw std::runtime_error("broken");
  }
  int64_t loops_left = 0;

 private:
  std::unique_ptr<Executor> base_ = make_thread_executor(1);
};

// Wherever a step fails: once its update has moved the masters, what is asked next is of them.
TEST(Critic, ValuesAfterAStepThatFailedAreOfTheMovedWeights) {
  const CriticOptions o = usual_options();
  const Sample sample = make_sample({1, 2, 3, 4, 5}, 2, 0, 0);
  const std::vector<float> old_values(sample.loss_mask.size(), 0.0f);
  const std::vector<float> returns(sample.loss_mask.size(), 5.0f);
  const CriticSample batch[] = {{&sample, old_values, returns}};
  bool moved = false;
  for (int64_t at = 1; !moved; ++at) {
    BreakingExecutor executor;
    const auto compute = make_cpu_compute(executor, Dtype::kF32);
    Model model(
        *open_weight_source(real_fs(), TrainRig::path_of("llama_value"), ModelHead::kScalar),
        *compute, {});
    const Arena workspace("critic", Critic::plan(model.config(), model.kv_shape(), o, 1).workspace);
    Critic critic(model, o, workspace.data());
    const auto values = [&] {
      std::vector<float> out(sample.loss_mask.size());
      const Sample* const inputs[] = {&sample};
      const std::span<float> outs[] = {out};
      critic.values(inputs, outs);
      return out;
    };
    const std::vector<float> before = values();
    executor.loops_left = at;
    ASSERT_THROW(critic.step(batch), std::runtime_error) << "no loop of a step moves the masters";
    moved = model.masters_changed();
    const std::vector<float> after = values();
    EXPECT_EQ(same_bits(after, before), !moved) << at;
    model.publish();
    EXPECT_TRUE(same_bits(values(), after)) << at;
  }
}

TEST(Critic, MeansAreOverTheTokensOfAllMinibatches) {
  CriticMetrics seen[2];
  for (const int minibatches : {1, 3}) {
    CriticOptions o = usual_options();
    o.schedule.lr = 0;  // so that every minibatch sees the same weights
    o.batch.num_minibatches = minibatches;
    CriticRig rig({.model = "llama_value"}, o);
    const std::vector<Sample> samples = random_samples(12, rig.model().config().vocab, 7);
    CriticData data(rig, samples, 2);
    seen[minibatches > 1] = rig.critic->step(data.batch);
  }
  EXPECT_EQ(seen[1].minibatches, 3);
  EXPECT_GT(seen[0].clip_fraction, 0);
  EXPECT_LT(seen[0].clip_fraction, 1);
  EXPECT_DOUBLE_EQ(seen[1].clip_fraction, seen[0].clip_fraction);
  EXPECT_NEAR(seen[1].value, seen[0].value, 1e-12);
  EXPECT_EQ(seen[1].loss_tokens, seen[0].loss_tokens);
}

TEST(Critic, MinibatchesAndEpochsAreOptimizerSteps) {
  CriticOptions o = usual_options();
  o.batch.num_minibatches = 3;
  o.epochs = 2;
  o.schedule = {ScheduleKind::kLinear, 1e-3, 0, 12, 0.0};
  CriticRig rig({.model = "llama_value"}, o);
  const std::vector<Sample> samples = random_samples(12, rig.model().config().vocab, 7);
  const CriticMetrics m = rig.critic->step(CriticData(rig, samples, 2).batch);
  EXPECT_EQ(m.minibatches, 6);
  EXPECT_EQ(m.optimizer_steps, 6);
  EXPECT_DOUBLE_EQ(m.lr, 1e-3 * 7 / 12);
  EXPECT_EQ(rig.model().version(), 1u);
}

TEST(Critic, BadInputsAreNamed) {
  CriticRig rig({.model = "llama_value"}, usual_options());
  std::vector<Sample> samples = random_samples(2, rig.model().config().vocab, 7);
  const CriticData data(rig, samples, 2);
  const auto refused = [&](Code code, const auto& change) {
    std::vector<CriticSample> batch = data.batch;
    change(batch[1]);
    return expect_error(code, [&] { rig.critic->step(batch); }).key;
  };
  EXPECT_EQ(refused(Code::kInvalidArgument, [](CriticSample& s) { s.sample = nullptr; }), "");
  EXPECT_EQ(refused(Code::kInvalidArgument, [](CriticSample& s) { s.returns = {}; }), "returns");
  EXPECT_EQ(refused(Code::kInvalidArgument, [](CriticSample& s) { s.old_values = {}; }),
            "old_values");
  samples[1].ids.resize(90, 5);
  samples[1].logprobs.resize(static_cast<size_t>(samples[1].generated()));
  const Error e = expect_error(Code::kOutOfRange, [&] { rig.critic->step(data.batch); });
  EXPECT_EQ(e.key, "critic.max_tokens_per_device");
  CriticOptions o = usual_options();
  o.value_clip = NAN;
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { validate(o); }).key, "algo.value_clip");
  o = usual_options();
  o.max_tokens = 65;
  EXPECT_EQ(expect_error(Code::kNotChangeable, [&] { rig.critic->set_options(o); }).key,
            "critic.max_tokens_per_device");
}

TEST(Critic, PlanEqualsTheArenas) {
  CriticRig rig({}, usual_options());
  uint64_t bytes = 0;
  for (const auto& m : rig.critic->memory()) bytes += m.size();
  EXPECT_EQ(bytes, rig.sizes.persistent());
  EXPECT_EQ(rig.critic->memory().size(), 3u);
}

}  // namespace
}  // namespace rl::testing
