// Muon's steps on the matrices of layers (algo/optimizers/muon.h). Products are those of weight
// gradients (ops/backward_ops.h), in the compute dtype with fp32 sums, so that every device has
// them; their order of sums is documented there.
#pragma once
#include <span>
#include <vector>

#include "algo/optimizers/muon.h"
#include "core/arena.h"
#include "ops/compute.h"
#include "train/options/update_runs.h"

namespace rl {

struct MuonStep {
  MuonParams params;
  double lr = 0, weight_decay = 0;
  double grad_scale = 1;  // of clipping
};

class Muon {
 public:
  // Bytes of the workspace; 0 without matrices.
  static uint64_t bytes(std::span<const MuonMatrix> matrices, Dtype compute);
  Muon(std::vector<MuonMatrix> matrices, Compute& compute);

  std::span<const MuonMatrix> matrices() const { return matrices_; }
  std::span<std::byte> memory() const { return workspace_.span(); }
  Arena& arena() { return workspace_; }  // which means nothing between calls
  // Arrays of one matrix, (rows, columns).
  struct Operands {
    float *weights, *momentum;
    const float* gradients;
  };
  void update(const MuonStep& step, const MuonMatrix& matrix, const Operands& on);

 private:
  struct Views;
  Views views() const;
  void orthogonalize(const Views& v, const MuonMatrix& matrix, int64_t steps);
  void polynomial(const Views& v, const MuonMatrix& matrix);

  std::vector<MuonMatrix> matrices_;
  Compute& compute_;
  Arena workspace_;
  std::vector<double> chunk_sums_;
};

}  // namespace rl
