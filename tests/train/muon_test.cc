// Muon's steps against the formula in double, and what a trainer with it keeps.
#include <gtest/gtest.h>

#include <random>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/optimizer/muon_steps.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

const std::string kConfig = "digest";

// Row-major matrices in double.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> at;
  double& operator()(int64_t r, int64_t c) { return at[static_cast<size_t>(r * columns + c)]; }
  double operator()(int64_t r, int64_t c) const { return at[static_cast<size_t>(r * columns + c)]; }
};

Matrix zeros(int64_t rows, int64_t columns) {
  return {rows, columns, std::vector<double>(static_cast<size_t>(rows * columns))};
}
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix y = zeros(a.rows, b.columns);
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t k = 0; k < a.columns; ++k)
      for (int64_t c = 0; c < b.columns; ++c) y(r, c) += a(r, k) * b(k, c);
  return y;
}
Matrix transposed(const Matrix& a) {
  Matrix y = zeros(a.columns, a.rows);
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.columns; ++c) y(c, r) = a(r, c);
  return y;
}

// x = a x + (b A + c A A) x with A = x x^T, for any shape: right and left forms are equal.
Matrix newton_schulz(Matrix x, int steps) {
  double squares = 0;
  for (const double v : x.at) squares += v * v;
  for (double& v : x.at) v /= std::sqrt(squares) + 1e-7;
  for (int i = 0; i < steps; ++i) {
    const Matrix a = product(x, transposed(x)), ax = product(a, x), aax = product(a, ax);
    for (size_t k = 0; k < x.at.size(); ++k)
      x.at[k] = 3.4445 * x.at[k] - 4.7750 * ax.at[k] + 2.0315 * aax.at[k];
  }
  return x;
}

Matrix random_matrix(int64_t rows, int64_t columns, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal(0.0, 0.1);
  Matrix m = zeros(rows, columns);
  for (double& v : m.at) v = static_cast<float>(normal(rng));
  return m;
}

std::vector<float> floats(const Matrix& m) { return {m.at.begin(), m.at.end()}; }

struct Shape {
  int64_t rows, columns;
};

class MuonOf : public ::testing::TestWithParam<Shape> {};

// fp32 products: five steps multiply an error of 1e-7 by at most 3.4445^5.
TEST_P(MuonOf, StepsFollowTheFormulaInDouble) {
  const auto [rows, columns] = GetParam();
  const std::unique_ptr<Executor> executor = make_thread_executor(2);
  const std::unique_ptr<Compute> compute = make_cpu_compute(*executor, Dtype::kF32);
  const MuonMatrix matrix{{0, 0, rows * columns}, rows, columns, true};
  Muon muon({matrix}, *compute);
  const MuonStep step{{0.9, 5}, 0.02, 0.1, 0.5};
  Matrix p = random_matrix(rows, columns, 1), m = zeros(rows, columns);
  std::vector<float> weights = floats(p), momentum = floats(m);
  for (unsigned t = 2; t <= 4; ++t) {
    const Matrix g = random_matrix(rows, columns, t);
    const std::vector<float> gradients = floats(g);
    muon.update(step, matrix, {weights.data(), momentum.data(), gradients.data()});
    Matrix u = zeros(rows, columns);
    for (size_t i = 0; i < m.at.size(); ++i) {
      m.at[i] = 0.9 * m.at[i] + 0.5 * g.at[i];
      u.at[i] = 0.5 * g.at[i] + 0.9 * m.at[i];
    }
    const Matrix x = newton_schulz(u, 5);
    const double size = 0.02 * 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    for (size_t i = 0; i < p.at.size(); ++i) p.at[i] = p.at[i] * (1 - 0.02 * 0.1) - size * x.at[i];
    for (size_t i = 0; i < p.at.size(); ++i) {
      ASSERT_NEAR(momentum[i], m.at[i], 1e-6) << i;
      ASSERT_NEAR(weights[i], p.at[i], 2e-5) << i;
    }
  }
}

// The update brings all singular values near 1: x x^T, or x^T x, is near the identity.
TEST_P(MuonOf, UpdatesAreNearlyOrthogonal) {
  const auto [rows, columns] = GetParam();
  Matrix x = newton_schulz(random_matrix(rows, columns, 9), 5);
  if (rows > columns) x = transposed(x);
  const Matrix gram = product(x, transposed(x));
  double trace = 0;
  for (int64_t i = 0; i < gram.rows; ++i) trace += gram(i, i);
  EXPECT_NEAR(trace / static_cast<double>(gram.rows), 0.85, 0.25);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MuonOf,
                         ::testing::Values(Shape{48, 48}, Shape{96, 40}, Shape{40, 96},
                                           Shape{33, 70}));

TrainerOptions options_of(OptimizerKind kind) {
  TrainerOptions o;
  o.max_tokens = 64;
  o.schedule.lr = 1e-2;
  o.optimizer.kind = kind;
  return o;
}

TEST(MuonTrainer, MatricesOfLayersMoveByMuonAndTheRestByAdamw) {
  TrainRig muon({.model = "qwen2"}, options_of(OptimizerKind::kMuon)),
      adamw({.model = "qwen2"}, options_of(OptimizerKind::kAdamw));
  random_step(muon, 1);
  random_step(adamw, 1);
  const std::vector<float> a = muon.masters(), b = adamw.masters();
  int64_t matrices = 0;
  for (const Parameter& p : muon.model().layout().parameters()) {
    const bool matrix = p.shape.size() == 2 && p.name.starts_with("model.layers.");
    matrices += matrix;
    EXPECT_EQ(std::equal(a.begin() + p.offset, a.begin() + p.offset + p.size, b.begin() + p.offset),
              !matrix)
        << p.name;
  }
  EXPECT_EQ(matrices, 7 * muon.model().config().layers);
}

TEST(MuonTrainer, ThreadsChangeNoBit) {
  TrainRig one({.model = "llama"}, options_of(OptimizerKind::kMuon)),
      three({.model = "llama", .threads = 3}, options_of(OptimizerKind::kMuon));
  for (TrainRig* rig : {&one, &three}) {
    random_step(*rig, 1);
    random_step(*rig, 2);
  }
  EXPECT_TRUE(same_bits(one.masters(), three.masters()));
}

TEST(MuonTrainer, AMatrixHasOneMomentAndAllShareAWorkspace) {
  TrainRig muon({.model = "llama"}, options_of(OptimizerKind::kMuon)),
      adamw({.model = "llama"}, options_of(OptimizerKind::kAdamw));
  int64_t matrices = 0;
  for (const Parameter& p : muon.model().layout().parameters()) {
    if (p.shape.size() == 2 && p.name.starts_with("model.layers.")) matrices += p.size;
  }
  EXPECT_EQ(muon.sizes.optimizer, adamw.sizes.optimizer - static_cast<uint64_t>(matrices) * 4);
  EXPECT_GT(muon.sizes.optimizer_workspace, 0u);
  EXPECT_EQ(adamw.sizes.optimizer_workspace, 0u);
  for (const ArenaLedger::Entry& e : muon.tiny.ledger.entries()) {
    if (e.name == "optimizer states") {
      EXPECT_EQ(e.bytes, muon.sizes.optimizer);
    }
    if (e.name == "optimizer workspace") {
      EXPECT_EQ(e.bytes, muon.sizes.optimizer_workspace);
    }
  }
}

TEST(MuonTrainer, AResumeContinuesWithTheSameBits) {
  const TempDir dir;
  TrainRig whole({.model = "llama"}, options_of(OptimizerKind::kMuon)),
      resumed({.model = "llama"}, options_of(OptimizerKind::kMuon));
  random_step(whole, 1);
  const std::string path = whole.trainer->save(
      real_fs(), dir.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"});
  resumed.trainer->load(real_fs(), path, kConfig);
  for (TrainRig* rig : {&whole, &resumed}) random_step(*rig, 2);
  EXPECT_TRUE(same_bits(whole.masters(), resumed.masters()));
}

TEST(MuonTrainer, WhatItCannotDoIsRefusedByName) {
  TrainerOptions o = options_of(OptimizerKind::kMuon);
  o.optimizer.offload.on = true;
  EXPECT_EQ(expect_error(Code::kConflict, [&] { validate(o); }).key, "optimizer.cpu_offload");
  o.optimizer.offload.on = false;
  o.optimizer.state_dtype = StateDtype::kBf16;
  EXPECT_EQ(expect_error(Code::kConflict, [&] { validate(o); }).key, "optimizer.state_dtype");
}

}  // namespace
}  // namespace rl::testing
