// Distillation on whole rows through the trainer: losses are those of plain sums over log-probs
// that other forwards gave, gradients those of finite differences, and neither log-probs nor loss
// depend on the cut. Teachers have the policy's vocabulary and any shape.
#include "train/passes/row_teacher.h"

#include <gtest/gtest.h>

#include <iostream>

#include "group_rig.h"
#include "support/compute_dtypes.h"
#include "support/expect_error.h"
#include "support/random_llama.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

using Row = std::vector<double>;

DistillOptions distill(DistillKl kind, double coef = 1, double beta = 0.25) {
  return {true, {kind, beta}, coef};
}
constexpr DistillKl kKinds[] = {DistillKl::kForward, DistillKl::kReverse, DistillKl::kMixed};

TrainerOptions still_options(const DistillOptions& d) {
  TrainerOptions o;
  o.objective = Objective::kDistill;
  o.max_tokens = 512;
  o.logprob_chunk_tokens = 7;
  o.adamw.weight_decay = 0;
  o.schedule.lr = 0;
  o.distill = d;
  return o;
}

// Two prompts of two responses each, at another temperature than 1, with tokens that carry no loss.
std::vector<Sample> few_samples() {
  std::vector<Sample> out;
  for (uint32_t i = 0; i < 4; ++i) {
    const auto k = static_cast<int32_t>(i);
    out.push_back(make_sample({4, 9 + k / 2, 77, 20 + 3 * k, 130, 7 * k, 250}, 3, i / 2, i % 2));
    out.back().temperature = 0.7f;
    out.back().loss_mask = {1, static_cast<uint8_t>(i % 2), 1, 1};
  }
  return out;
}

std::vector<TrainSample> batch_of(const std::vector<Sample>& samples, double advantage = 0) {
  std::vector<TrainSample> out;
  for (const Sample& s : samples) out.push_back({&s, advantage, {}, {}});
  return out;
}

// Log-probs of every id behind a prefix, each the only response of a sample of its own.
Row row_behind(TrainRig& rig, Model& model, const Sample& s, int64_t generated) {
  const auto end = s.ids.begin() + s.prompt_tokens + generated;
  std::vector<Sample> all;
  for (int32_t id = 0; id < static_cast<int32_t>(model.config().vocab); ++id) {
    std::vector<int32_t> ids(s.ids.begin(), end);
    ids.push_back(id);
    all.push_back(make_sample(std::move(ids), static_cast<int32_t>(end - s.ids.begin()), 0, 0));
    all.back().temperature = s.temperature;
  }
  std::vector<const Sample*> in;
  std::vector<std::span<float>> out;
  for (Sample& one : all) {
    in.push_back(&one);
    out.emplace_back(one.logprobs);
  }
  const TrainerOptions options = still_options({});
  Arena workspace("test rows", Trainer::plan(model.config(), model.kv_shape(), options,
                                             rig.tiny.executor->num_threads())
                                   .workspace);
  Trainer(model, nullptr, options, workspace.data()).logprobs(model, in, out);
  Row row;
  for (const Sample& one : all) row.push_back(one.logprobs[0]);
  return row;
}

double plain_value(const DistillParams& params, const Row& log_p, const Row& log_q) {
  double forward = 0, reverse = 0, mixed = 0;
  for (size_t i = 0; i < log_p.size(); ++i) {
    const double p = std::exp(log_p[i]), q = std::exp(log_q[i]);
    const double m = params.beta * q + (1 - params.beta) * p;
    forward += q * (log_q[i] - log_p[i]);
    reverse += p * (log_p[i] - log_q[i]);
    mixed += params.beta * q * (log_q[i] - std::log(m)) +
             (1 - params.beta) * p * (log_p[i] - std::log(m));
  }
  return params.kind == DistillKl::kForward   ? forward
         : params.kind == DistillKl::kReverse ? reverse
                                              : mixed;
}

class RowTeachers : public ::testing::Test {
 protected:
  // Another family; another width, depth and number of heads.
  std::vector<std::string> teachers() {
    return {"qwen2", write_random_llama(dir_.file("wide"), {.hidden = 80, .layers = 1, .heads = 5}),
            write_random_llama(dir_.file("narrow"), {.hidden = 32, .layers = 3, .seed = 2})};
  }
  TempDir dir_;
};

TEST_F(RowTeachers, LossIsThePlainSumOverRowsOfOtherForwards) {
  for (const std::string& teacher : teachers()) {
    TrainRig rig({.threads = 2, .teacher = teacher}, still_options(distill(kKinds[0])));
    std::vector<Sample> samples = few_samples();
    std::vector<std::pair<Row, Row>> rows;
    for (const Sample& s : samples) {
      for (int64_t g = 0; g < s.generated(); ++g) {
        if (s.loss_mask[g] == 0) continue;
        rows.emplace_back(row_behind(rig, rig.model(), s, g), row_behind(rig, *rig.teacher, s, g));
      }
    }
    for (const DistillKl kind : kKinds) {
      SCOPED_TRACE(str(teacher, " ", distill_kl_name(kind)));
      const DistillOptions d = distill(kind, 0.5);
      double mean = 0;
      for (const auto& [p, q] : rows) {
        mean += plain_value(d.params, p, q) / static_cast<double>(rows.size());
      }
      rig.rebuild(still_options(d));
      store_logprobs(rig, samples);
      const TrainMetrics m = rig.trainer->step(batch_of(samples));
      EXPECT_GT(mean, 0.01);
      // The same fp32 log-probs; sums of 256 terms in double.
      EXPECT_NEAR(m.distill_kl, mean, 1e-12 * mean);
      EXPECT_NEAR(m.distill_loss, 0.5 * mean, 1e-12 * mean);
      EXPECT_EQ(m.loss, m.distill_loss);  // advantages of 0 add nothing
      EXPECT_EQ(m.logprob_max_abs_diff, 0.0);
      EXPECT_EQ(m.logprob_compared_tokens, static_cast<int64_t>(rows.size()));
    }
  }
}

TEST_F(RowTeachers, AFiniteDifferenceAlongTheGradientIsItsNorm) {
  const std::string teacher = teachers().back();
  for (const DistillKl kind : kKinds) {
    SCOPED_TRACE(distill_kl_name(kind));
    TrainRig rig({.teacher = teacher}, still_options(distill(kind)));
    std::vector<Sample> samples = few_samples();
    store_logprobs(rig, samples);
    const double norm = rig.trainer->step(batch_of(samples)).grad_norm;
    const std::vector<float> gradient = rig.gradients(), start = rig.masters();
    const auto loss_at = [&](double distance) {
      for (size_t i = 0; i < start.size(); ++i) {
        rig.model().master()[i] = start[i] + static_cast<float>(distance / norm * gradient[i]);
      }
      rig.model().publish();
      return rig.trainer->step(batch_of(samples)).loss;
    };
    constexpr double kStep = 1e-3;  // both the third derivative and fp32 rounding stay below 1%
    EXPECT_NEAR((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep), norm, 0.01 * norm);
  }
}

TEST_F(RowTeachers, ATeacherThatIsThePolicyHasNoLossAndNoGradient) {
  for (const DistillKl kind : kKinds) {
    TrainRig rig({.threads = 2, .teacher = "llama"}, still_options(distill(kind)));
    std::vector<Sample> samples = few_samples();
    store_logprobs(rig, samples);
    const TrainMetrics m = rig.trainer->step(batch_of(samples));
    EXPECT_EQ(m.loss, 0);
    EXPECT_EQ(m.distill_kl, 0);
    EXPECT_EQ(m.grad_norm, 0);
    for (const float g : rig.gradients()) ASSERT_EQ(g, 0);
  }
}

TEST_F(RowTeachers, TheLossAndItsGradientAreAddedToThoseOfThePolicy) {
  const StepRules plain;
  StepRules both, measured;
  both.distill = distill(DistillKl::kReverse, 0.5);
  measured.distill = distill(DistillKl::kReverse, 0);
  const RigOptions rig{.threads = 2, .teacher = "qwen2"};
  const Step alone = step(rig, plain), sum = step(rig, both), seen = step(rig, measured);
  EXPECT_GT(sum.metrics.distill_kl, 0);
  EXPECT_EQ(sum.metrics.pg_loss, alone.metrics.pg_loss);
  EXPECT_NEAR(sum.metrics.loss, alone.metrics.loss + sum.metrics.distill_loss, 1e-12);
  // A coefficient of 0 measures only.
  EXPECT_EQ(seen.metrics.distill_kl, sum.metrics.distill_kl);
  EXPECT_EQ(seen.metrics.loss, alone.metrics.loss);
  EXPECT_TRUE(same_bits(seen.gradients, alone.gradients));
  StepRules twice = both;
  twice.distill.coef = 1;
  const std::vector<float> more = step(rig, twice).gradients;
  std::vector<float> line(more.size());
  for (size_t i = 0; i < line.size(); ++i) line[i] = 2 * sum.gradients[i] - alone.gradients[i];
  EXPECT_LE(relative_l2(more, line), 1e-6);  // N4: the same terms, rounded in other sums
}

class RowTeacherCut : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, RowTeacherCut, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(RowTeacherCut, TenRandomCutsLeaveLogprobsAndLoss) {
  const TempDir dir;
  const RigOptions rig{.model = "smollm2",
                       .compute = GetParam(),
                       .threads = 2,
                       .teacher = write_random_llama(dir.file("teacher"), {})};
  const DistillOptions d = distill(DistillKl::kMixed, 2);
  StepRules one_by_one = without_sharing();
  one_by_one.distill = d;
  const Step whole = step(rig, one_by_one);
  std::mt19937 rng(22);
  double largest = 0;
  for (int i = 0; i < 10; ++i) {
    StepRules rules = random_rules(rng);
    SCOPED_TRACE(text_of(rules));
    rules.distill = d;
    const Step cut = step(rig, rules);
    for (size_t s = 0; s < whole.samples.size(); ++s)
      EXPECT_TRUE(same_bits(cut.samples[s].logprobs, whole.samples[s].logprobs)) << s;
    EXPECT_EQ(cut.metrics.logprob_max_abs_diff, 0.0);
    // Sums in double, in another order.
    EXPECT_NEAR(cut.metrics.loss, whole.metrics.loss, 1e-12 * std::abs(whole.metrics.loss));
    EXPECT_NEAR(cut.metrics.distill_kl, whole.metrics.distill_kl, 1e-12 * whole.metrics.distill_kl);
    largest = std::max(largest, relative_l2(cut.gradients, whole.gradients));
  }
  const double noise = rounding_noise(rig, whole, d);
  std::cout << "relative L2 of gradients over ten random cuts, " << dtype_name(GetParam()) << ": "
            << largest << " (rounding alone: " << noise << ")\n";
  // As in batch_cut_test: N4 in fp32; in bf16 shared prompts round their gradients elsewhere.
  EXPECT_LE(largest, GetParam() == Dtype::kF32 ? 1e-6 : noise / 2);
}

TEST(RowTeacher, WritesNothingBeyondItsMemory) {
  std::mt19937 rng(6);
  const TempDir dir;
  const std::string teacher = write_random_llama(dir.file("teacher"), {.hidden = 96, .heads = 3});
  TrainRig rig({.threads = 2, .teacher = teacher}, {});
  constexpr size_t kGuard = 4096;
  for (int i = 0; i < 10; ++i) {
    StepRules rules = random_rules(rng);
    SCOPED_TRACE(text_of(rules));
    rules.distill = distill(DistillKl::kForward);
    const TrainerOptions options = options_of(rules);
    rig.rebuild(options);
    const TrainShape shape{rig.teacher->config(), rig.teacher->kv_shape(), 2};
    std::vector<std::byte> memory[2];
    std::byte* starts[2];
    const uint64_t sizes[] = {RowTeacher::forward_bytes(shape, options),
                              RowTeacher::kept_bytes(shape, options)};
    for (size_t part = 0; part < 2; ++part) {
      memory[part].assign(sizes[part] + 2 * kGuard + 64, std::byte{0x5a});
      const size_t skew = 64 - reinterpret_cast<uintptr_t>(memory[part].data()) % 64;
      starts[part] = memory[part].data() + skew + kGuard;
    }
    RowTeacher row_teacher(*rig.teacher, options, {starts[0], starts[1]},
                           {nullptr, 0, &real_clock()});
    rig.trainer->set_row_teacher(&row_teacher);
    std::vector<Sample> samples = groups(256, 6);
    rig.trainer->step(with_advantages(samples));
    const auto untouched = [](std::byte b) { return b == std::byte{0x5a}; };
    for (size_t part = 0; part < 2; ++part) {
      std::byte *begin = memory[part].data(), *end = begin + memory[part].size();
      EXPECT_TRUE(std::all_of(begin, starts[part], untouched));
      EXPECT_TRUE(std::all_of(starts[part] + sizes[part], end, untouched));
    }
  }
}

TEST(RowTeacher, ARowThatIsNotFiniteNamesItsSampleAndMovesNothing) {
  TrainerOptions options = still_options(distill(DistillKl::kReverse));
  options.schedule.lr = 1e-3;
  TrainRig rig({.teacher = "mistral"}, options);
  const std::vector<float> before = rig.masters();
  std::vector<Sample> samples = few_samples();
  samples[2].ids[1] = samples[3].ids[1] = 200;  // an embedding that the others do not read
  rig.teacher->master()[200 * rig.teacher->config().hidden] = NAN;
  rig.teacher->publish();
  const TrainMetrics m = rig.trainer->step(batch_of(samples));
  EXPECT_EQ(m.skipped_steps, 1);
  EXPECT_EQ(m.non_finite_samples, (std::vector<uint64_t>{samples[2].id, samples[3].id}));
  EXPECT_TRUE(same_bits(rig.masters(), before));
}

TEST(RowTeacher, RejectedTokensAreNotRead) {
  TrainRig rig({.teacher = "qwen2"}, still_options(distill(DistillKl::kForward)));
  std::vector<Sample> samples = few_samples();
  store_logprobs(rig, samples);
  std::vector<TrainSample> batch = batch_of(samples);
  const std::vector<Sample> rest(samples.begin() + 1, samples.end());
  const TrainMetrics few = rig.trainer->step(batch_of(rest));
  batch[0].carries_loss = false;
  const TrainMetrics m = rig.trainer->step(batch);
  EXPECT_EQ(m.distill_kl, few.distill_kl);
  EXPECT_EQ(m.loss, few.loss);
}

// Nor are the teacher's rows of tokens that a correction rejects: they may hold anything.
TEST(RowTeacher, RowsThatACorrectionRejectsAreNotCompared) {
  TrainerOptions options = still_options(distill(DistillKl::kReverse));
  options.correction.decoupled = true;
  options.correction.rejections = {{RejectLevel::kToken, RejectStatistic::kK2, 0, 0.5}};
  TrainRig rig({.teacher = "mistral"}, options);
  std::vector<Sample> samples = few_samples();
  Sample& s = samples[0];
  s.ids[5] = 200;  // an embedding that the others do not read
  store_logprobs(rig, samples);
  for (float& lp : s.logprobs) lp -= 2;
  std::ranges::fill(s.versions, kUnknownVersion);
  rig.teacher->master()[200 * rig.teacher->config().hidden] = NAN;
  rig.teacher->publish();
  const TrainMetrics m = rig.trainer->step(batch_of(samples));
  EXPECT_EQ(m.corrections.rejections.num_touched, 1.0);
  EXPECT_EQ(m.skipped_steps, 0);
  EXPECT_EQ(m.optimizer_steps, 1);
  EXPECT_TRUE(std::isfinite(m.distill_kl));
}

TEST(RowTeacher, IsMissedByName) {
  TrainRig rig({}, still_options(distill(DistillKl::kMixed)));
  const std::vector<Sample> samples = few_samples();
  const Error e =
      expect_error(Code::kFailedPrecondition, [&] { rig.trainer->step(batch_of(samples)); });
  EXPECT_EQ(e.key, "algo.distill.kl");
  EXPECT_EQ(e.other_key, "model.teacher_path");
  TrainerOptions options = still_options(distill(DistillKl::kMixed, -1));
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { validate(options); }).key, "algo.distill.coef");
  options.distill = distill(DistillKl::kMixed, 1, 1);
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { validate(options); }).key, "algo.distill.beta");
}

TEST(RowTeacher, MetricsHaveNamesOnlyWithOne) {
  const auto count = [](const TrainMetrics& metrics) {
    int found = 0;
    for_each_metric(metrics, [&](const char* name, double) {
      found += std::string(name) == "actor/distill_kl" || std::string(name) == "timing_s/teacher" ||
               std::string(name) == "actor/distill_loss";
    });
    return found;
  };
  TrainRig rig({.teacher = "qwen2"}, still_options(distill(DistillKl::kForward)));
  const std::vector<Sample> samples = few_samples();
  EXPECT_EQ(count(rig.trainer->step(batch_of(samples))), 3);
  rig.rebuild(still_options({}));
  EXPECT_EQ(count(rig.trainer->step(batch_of(samples))), 0);
}

}  // namespace
}  // namespace rl::testing
