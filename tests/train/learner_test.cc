// What a Learner makes once: the kernels of weight gradients, for every number of rows that steps
// may have.
#include "train/optimizer/learner.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ops/cpu/cpu_compute.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

// Forward, head and backward of so many rows.
void train_rows(const TinyModel& tiny, int64_t rows) {
  constexpr int64_t kLength = 50;
  const Model& model = *tiny.model;
  std::vector<std::vector<int32_t>> sequences;
  for (int64_t left = rows; left > 0; left -= kLength) {
    sequences.emplace_back(std::min(left, kLength));
    std::iota(sequences.back().begin(), sequences.back().end(), 5);
  }
  TrainingBatch batch(tiny, sequences);
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  const Arena arena("test head", HeadBuffers::bytes(model.config(), Dtype::kF32, rows, true));
  HeadBuffers head(model.config(), Dtype::kF32, rows, true, arena.data());
  std::vector<int32_t> all(rows);
  std::iota(all.begin(), all.end(), 0);
  gather_rows(model, batch.buffers->hidden, all, head);
  const std::vector<float> one(rows, 1.0f), zero(rows, 0.0f);
  head_forward(model, one, head);
  BackwardWeights packed(model, BackwardPacking::kResident);
  packed.prepare();
  std::vector<float> gradients(model.layout().total(), 0.0f);
  head_backward(model, {packed, std::vector<int32_t>(rows, 1), one, one, zero, gradients.data()},
                head);
  backward(model, batch.batch(), batch.pool, *batch.buffers, *batch.saved, *batch.scratch,
           {packed, gradients.data(), head.d_hidden});
}

// Every number of rows has a whole tile of rows and one that ends alike, so only depths differ from
// step to step.
TEST(Learner, AStepWithAnotherNumberOfRowsMakesNoKernel) {
  const TinyModel tiny(TinyModel::fixture("llama"), Dtype::kF32, 2);
  const Learner learner(*tiny.model);
  train_rows(tiny, 300);
  const int64_t made = cpu_of(*tiny.compute).matmul().kernels_made();
  for (const int64_t rows : {556, 812, 1068}) {
    train_rows(tiny, rows);
    EXPECT_EQ(cpu_of(*tiny.compute).matmul().kernels_made(), made) << rows << " rows";
  }
}

}  // namespace
}  // namespace rl::testing
