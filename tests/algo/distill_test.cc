#include "algo/losses/distill.h"

#include <cmath>
#include <vector>

#include "algo/losses/entropy.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using Values = std::vector<double>;

const std::vector<float> kStudent{0.5f, -1.0f, 2.0f, 0.25f};
const std::vector<float> kTeacher{1.0f, 0.0f, 0.5f, -2.0f};

double value_of(const DistillParams& p, const std::vector<float>& student) {
  Values unused(4);
  return distill_row(p, row_reference(student, 1).log_probs, row_reference(kTeacher, 1).log_probs,
                     1, unused);
}

TEST(Distill, GradientIsTheDerivativeInTheStudentsLogits) {
  const float h = 1.0f / 4096;
  for (const DistillParams& p :
       {DistillParams{DistillKl::kForward}, DistillParams{DistillKl::kReverse},
        DistillParams{DistillKl::kMixed, 0.25}, DistillParams{DistillKl::kMixed, 0.5}}) {
    Values g(4);
    const double value = distill_row(p, row_reference(kStudent, 1).log_probs,
                                     row_reference(kTeacher, 1).log_probs, 2.0, g);
    EXPECT_GT(value, 0);
    for (size_t i = 0; i < 4; ++i) {
      std::vector<float> up = kStudent, down = kStudent;
      up[i] += h;
      down[i] -= h;
      // Central difference: h^2 / 6 = 1e-8 times a third derivative below 1.
      EXPECT_NEAR(g[i] / 2, (value_of(p, up) - value_of(p, down)) / (2.0 * h), 2e-8)
          << distill_kl_name(p.kind) << i;
    }
  }
}

TEST(Distill, EqualDistributionsHaveNoLossAndNoGradient) {
  for (const DistillKl kind : {DistillKl::kForward, DistillKl::kReverse, DistillKl::kMixed}) {
    Values g(4);
    const Values p = row_reference(kStudent, 1).log_probs;
    EXPECT_EQ(distill_row({kind, 0.3}, p, p, 1, g), 0);
    for (const double v : g) EXPECT_EQ(v, 0);
  }
}

TEST(Distill, AnIdThatOneSideForbidsIsAnErrorOrNothing) {
  const Values p = row_reference(kStudent, 1).log_probs;
  const Values q = row_reference(std::vector<float>{1.0f, 0.0f, 0.5f, -HUGE_VALF}, 1).log_probs;
  Values g(4);
  EXPECT_TRUE(std::isfinite(distill_row({DistillKl::kForward}, p, q, 1, g)));
  EXPECT_TRUE(std::isfinite(distill_row({DistillKl::kMixed}, p, q, 1, g)));
  EXPECT_TRUE(std::isfinite(distill_row({DistillKl::kMixed}, q, p, 1, g)));
  for (const double v : g) EXPECT_TRUE(std::isfinite(v));
  expect_error(Code::kNonFinite, [&] { distill_row({DistillKl::kReverse}, p, q, 1, g); });
  expect_error(Code::kNonFinite, [&] { distill_row({DistillKl::kForward}, q, p, 1, g); });
}

TEST(Distill, IdsWithoutMassUnderTheTeacherAreNotRead) {
  const std::vector<float> p{-1, -2, -40}, q{-0.5f, -HUGE_VALF, -1};
  Values g(3);
  const double q0 = std::exp(-0.5), q2 = std::exp(-1.0);
  EXPECT_DOUBLE_EQ(distill_top(p, q, 2, g), q0 * 0.5 + q2 * 39);
  EXPECT_DOUBLE_EQ(g[0], -2 * q0);
  EXPECT_EQ(g[1], 0);
  EXPECT_DOUBLE_EQ(g[2], -2 * q2);
}

TEST(Distill, RowsOfLogitsGiveWhatTheirLogProbsGive) {
  const DistillNorm student{1.5f, 1.0f}, teacher{-1.25f, 0.5f};
  Values p, q;
  for (size_t i = 0; i < 4; ++i) {
    p.push_back((kStudent[i] - student.max) - student.log_sum);
    q.push_back((kTeacher[i] - teacher.max) - teacher.log_sum);
  }
  for (const DistillKl kind : {DistillKl::kForward, DistillKl::kReverse, DistillKl::kMixed}) {
    const DistillParams params{kind, 0.25};
    Values g(4);
    std::vector<float> row = kTeacher;
    const double value = distill_row(params, p, q, 0.5, g);
    EXPECT_EQ(distill_logits(params, {kStudent, student, row, teacher}, 0.5), value);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(row[i], static_cast<float>(g[i]));
  }
}

TEST(Distill, TheMixtureIsExactFarFromEquality) {
  // One id each: log m = log 0.25 or log 0.75 where the other side has next to nothing.
  const Values p{0, -800}, q{-800, 0};
  Values g(2);
  const double value = distill_row({DistillKl::kMixed, 0.25}, p, q, 1, g);
  EXPECT_NEAR(value, -0.25 * std::log(0.25) - 0.75 * std::log(0.75), 1e-15);
  for (const double v : g) EXPECT_NEAR(v, 0, 1e-15);
}

TEST(Distill, ARowThatIsNotFiniteIsPassedOn) {
  for (const DistillKl kind : {DistillKl::kForward, DistillKl::kReverse, DistillKl::kMixed}) {
    std::vector<float> row = kTeacher, student = kStudent;
    row[2] = NAN;
    EXPECT_TRUE(std::isnan(distill_logits({kind}, {kStudent, {0, 0}, row, {0, 0}}, 1)));
    row = kTeacher;
    student[0] = NAN;
    EXPECT_TRUE(std::isnan(distill_logits({kind}, {student, {0, 0}, row, {0, 0}}, 1)));
  }
}

TEST(Distill, TopIdsAddUpToForwardKl) {
  const Values p = row_reference(kStudent, 1).log_probs, q = row_reference(kTeacher, 1).log_probs;
  const std::vector<float> student(p.begin(), p.end()), teacher(q.begin(), q.end());
  Values g(4), unused(4);
  const double all = distill_top(student, teacher, 0.5, g);
  // fp32 log-probs: half a unit in the last place of numbers below 8.
  EXPECT_NEAR(all, distill_row({DistillKl::kForward}, p, q, 1, unused), 1e-6);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(g[i], -0.5 * std::exp(q[i]), 1e-6);
}

TEST(Distill, OnPolicyFormLowersTheAdvantageAndSkipsMaskedTokens) {
  const std::vector<float> student{-1, NAN}, teacher{-3, NAN};
  const std::vector<uint8_t> mask{1, 0};
  Values advantage{0.5, 0.25};
  add_distill_advantage(0.5, {student, teacher, mask}, advantage);
  EXPECT_EQ(advantage, (Values{0.5 - 1.0, 0.25}));
}

TEST(Distill, RefusesBadParameters) {
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [] {
                           validate(DistillParams{DistillKl::kMixed, 1});
                         })
                .key,
            "algo.distill.beta");
  EXPECT_EQ(parse_distill_kl("forward"), DistillKl::kForward);
  Values one(1);
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { add_distill_advantage(-1, {}, one); }).key,
            "algo.distill.coef");
}

}  // namespace
}  // namespace rl
