#include "algo/optimizers/adamw.h"

#include <cmath>
#include <vector>

#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

constexpr AdamwParams kParams{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

float wave(size_t i, double period) {
  return static_cast<float>(std::sin(static_cast<double>(i) * period));
}

struct State {
  std::vector<float> p, m, v, g;
  explicit State(size_t n) : p(n), m(n), v(n), g(n) {
    for (size_t i = 0; i < n; ++i) p[i] = wave(i, 0.37);
  }
  void set_grad(int step) {
    for (size_t i = 0; i < g.size(); ++i) g[i] = 0.01f * wave(i + 1, 0.11 * step);
  }
  AdamwSpans spans(size_t begin, size_t count) {
    return {std::span(p).subspan(begin, count), std::span(m).subspan(begin, count),
            std::span(v).subspan(begin, count), std::span<const float>(g).subspan(begin, count)};
  }
};

// One element of AdamW in double, straight from the formula.
struct Oracle {
  double p, m = 0, v = 0;
  void update(double g, double lr, int t) {
    p *= 1 - lr * kParams.weight_decay;
    m = kParams.beta1 * m + (1 - kParams.beta1) * g;
    v = kParams.beta2 * v + (1 - kParams.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(kParams.beta1, t));
    const double v_hat = v / (1 - std::pow(kParams.beta2, t));
    p -= lr * m_hat / (std::sqrt(v_hat) + kParams.eps);
  }
};

TEST(Adamw, FollowsTheDoubleOracleOverSteps) {
  constexpr size_t kSize = 1037;
  constexpr double kLr = 1e-3;
  constexpr double kScale = 0.5;
  State s(kSize);
  std::vector<Oracle> oracle;
  for (const float p : s.p) oracle.push_back({p});
  for (int t = 1; t <= 10; ++t) {
    s.set_grad(t);
    adamw_update(adamw_step(kParams, {kLr, t, kScale}), s.spans(0, kSize));
    for (size_t i = 0; i < kSize; ++i) oracle[i].update(kScale * s.g[i], kLr, t);
  }
  for (size_t i = 0; i < kSize; ++i) {
    // fp32 rounding of p (6e-8 of up to 1) a step, and of an update of at most lr.
    EXPECT_NEAR(s.p[i], oracle[i].p, 10 * 1.2e-7) << i;
    EXPECT_NEAR(s.m[i], oracle[i].m, 1e-8) << i;   // values up to 5e-3
    EXPECT_NEAR(s.v[i], oracle[i].v, 1e-10) << i;  // values up to 2.5e-5
  }
}

// p = 1, g = 0.5, lr 0.1, decay 0: the bias-corrected first step is lr * sign(g).
TEST(Adamw, FirstStepMovesByTheLearningRate) {
  std::vector<float> p{1.0f}, m{0.0f}, v{0.0f};
  const std::vector<float> g{0.5f};
  adamw_update(adamw_step({.beta1 = 0.9, .beta2 = 0.999}, {0.1, 1, 1.0}), {p, m, v, g});
  EXPECT_NEAR(p[0], 0.9f, 2e-7);  // one rounding of fp32 and eps
  EXPECT_NEAR(m[0], 0.05f, 1e-8);
  EXPECT_NEAR(v[0], 0.00025f, 1e-10);
}

TEST(Adamw, AnyCutIntoSpansGivesTheSameBits) {
  constexpr size_t kSize = 1000;
  State whole(kSize);
  State cut(kSize);
  for (int t = 1; t <= 3; ++t) {
    const AdamwStep step = adamw_step(kParams, {1e-3, t, 1.0});
    whole.set_grad(t);
    cut.set_grad(t);
    adamw_update(step, whole.spans(0, kSize));
    for (size_t at = 0, size = 1; at < kSize; at += size, size = std::min(size + 13, kSize - at)) {
      adamw_update(step, cut.spans(at, std::min(size, kSize - at)));
    }
  }
  EXPECT_EQ(whole.p, cut.p);
  EXPECT_EQ(whole.m, cut.m);
  EXPECT_EQ(whole.v, cut.v);
}

TEST(Adamw, ZeroLearningRateLeavesParametersButMovesMoments) {
  State s(33);
  const std::vector<float> before = s.p;
  s.set_grad(1);
  adamw_update(adamw_step(kParams, {0.0, 1, 1.0}), s.spans(0, 33));
  EXPECT_EQ(s.p, before);
  EXPECT_NE(s.m[5], 0.0f);
}

TEST(Adamw, RefusesBadParameters) {
  const auto key_of = [](const AdamwParams& p, const AdamwStepInput& in) {
    return expect_error(Code::kOutOfRange, [&] { adamw_step(p, in); }).key;
  };
  EXPECT_EQ(key_of({.beta1 = 1.0}, {}), "optimizer.beta1");
  EXPECT_EQ(key_of({.beta2 = std::nan("")}, {}), "optimizer.beta2");
  EXPECT_EQ(key_of({.eps = 0.0}, {}), "optimizer.eps");
  EXPECT_EQ(key_of({.weight_decay = -0.1}, {}), "optimizer.weight_decay");
  EXPECT_EQ(key_of({}, {.lr = -1}), "optimizer.lr");
  EXPECT_EQ(key_of({}, {.step = 0}), "step");
  EXPECT_EQ(key_of({}, {.grad_scale = HUGE_VAL}), "grad_scale");
}

TEST(GradNorm, IsTheSumOfSquaresAndBlocksAddUp) {
  const size_t n = 3 * kGradNormBlock + 77;
  std::vector<float> g(n);
  double expected = 0;
  for (size_t i = 0; i < n; ++i) {
    g[i] = wave(i, 0.7);
    expected += static_cast<double>(g[i]) * g[i];
  }
  const double whole = grad_norm_squared(g);
  EXPECT_NEAR(whole, expected, 1e-11 * expected);  // double sums in another order
  double parts = 0;
  for (size_t at = 0; at < n; at += kGradNormBlock) {
    parts += grad_norm_squared(
        std::span<const float>(g).subspan(at, std::min<size_t>(kGradNormBlock, n - at)));
  }
  EXPECT_EQ(whole, parts);
  EXPECT_EQ(grad_norm_squared({}), 0.0);
}

TEST(GradNorm, ShowsANonFiniteGradient) {
  std::vector<float> g(5000, 1.0f);
  g[4999] = NAN;
  EXPECT_TRUE(std::isnan(grad_norm_squared(g)));
  g[4999] = HUGE_VALF;
  EXPECT_TRUE(std::isinf(grad_norm_squared(g)));
}

TEST(GradNorm, ClipScaleIsThatOfTorch) {
  EXPECT_EQ(grad_clip_scale(0.5, 1.0), 1.0);
  EXPECT_EQ(grad_clip_scale(4.0, 1.0), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(grad_clip_scale(4.0, 0.0), 1.0);
  EXPECT_EQ(expect_error(Code::kOutOfRange, [] { grad_clip_scale(1.0, -1.0); }).key,
            "optimizer.grad_clip");
}

}  // namespace
}  // namespace rl
