// One matrix after the other in a workspace for the largest: x in fp32, x rounded and its
// transpose, the matrix A of the smaller side, and a polynomial of it.
#include "train/optimizer/muon_steps.h"

#include <algorithm>

#include "core/checked.h"

namespace rl {

struct Muon::Views {
  float *x, *gram, *polynomial;
  std::byte *plain, *flipped, *gram_rounded;
};

namespace {

int64_t smaller(const MuonMatrix& m) { return std::min(m.rows, m.columns); }

// Largest element counts. Rounded operands are readable to their padded rows.
struct Counts {
  int64_t x = 0, plain = 0, flipped = 0, gram = 0, gram_rounded = 0;
};

Counts counts_of(std::span<const MuonMatrix> matrices) {
  Counts most;
  for (const MuonMatrix& m : matrices) {
    const int64_t d = smaller(m);
    most.x = std::max(most.x, m.rows * m.columns);
    most.plain = std::max(most.plain, padded_gradient_rows(m.rows) * m.columns);
    most.flipped = std::max(most.flipped, padded_gradient_rows(m.columns) * m.rows);
    most.gram = std::max(most.gram, d * d);
    most.gram_rounded = std::max(most.gram_rounded, padded_gradient_rows(d) * d);
  }
  return most;
}

struct Regions {
  ArenaPlan plan;
  uint64_t x, gram, polynomial, plain, flipped, gram_rounded;
};

Regions plan_regions(std::span<const MuonMatrix> matrices, Dtype compute) {
  const Counts n = counts_of(matrices);
  Regions r{};
  const auto add = [&](const char* name, int64_t count, uint64_t each) {
    return r.plan.add_region(name,
                             (CheckedU64(static_cast<uint64_t>(count)) * CheckedU64(each)).get());
  };
  const uint64_t item = dtype_bytes(compute);
  r.x = add("x", n.x, sizeof(float));
  r.gram = add("A", n.gram, sizeof(float));
  r.polynomial = add("polynomial", n.gram, sizeof(float));
  r.plain = add("x, rounded", n.plain, item);
  r.flipped = add("x, transposed", n.flipped, item);
  r.gram_rounded = add("A, rounded", n.gram_rounded, item);
  return r;
}

}  // namespace

uint64_t Muon::bytes(std::span<const MuonMatrix> matrices, Dtype compute) {
  return matrices.empty() ? 0 : plan_regions(matrices, compute).plan.total_bytes();
}

Muon::Muon(std::vector<MuonMatrix> matrices, Compute& compute)
    : matrices_(std::move(matrices)),
      compute_(compute),
      workspace_("optimizer workspace", bytes(matrices_, compute.dtype()), Touch::kLater,
                 compute.memory()),
      chunk_sums_(static_cast<size_t>(num_optimizer_chunks(counts_of(matrices_).x))) {
  for (const MuonMatrix& m : matrices_) {
    const int64_t d = smaller(m);
    prepare_gradient(compute_, {d, d});
    prepare_gradient(compute_, {m.rows, m.columns});
  }
}

Muon::Views Muon::views() const {
  const Regions r = plan_regions(matrices_, compute_.dtype());
  return {workspace_.at<float>(r.x),           workspace_.at<float>(r.gram),
          workspace_.at<float>(r.polynomial),  workspace_.at<std::byte>(r.plain),
          workspace_.at<std::byte>(r.flipped), workspace_.at<std::byte>(r.gram_rounded)};
}

// From x rounded: the rounded polynomial -4.7750 A + 2.0315 A A.
void Muon::polynomial(const Views& v, const MuonMatrix& m) {
  const int64_t d = smaller(m), count = d * d;
  zero_floats(compute_, {v.gram, count});
  std::byte* const x = m.rows >= m.columns ? v.plain : v.flipped;
  weight_gradient(compute_, {x, d, x, d, std::max(m.rows, m.columns), v.gram});
  round_floats(compute_, {v.gram, count, v.gram_rounded});
  zero_floats(compute_, {v.polynomial, count});
  weight_gradient(compute_, {v.gram_rounded, d, v.gram_rounded, d, d, v.polynomial});
  scale_add(compute_,
            {{NewtonSchulz::kQuintic, v.polynomial, NewtonSchulz::kCubic, v.gram}, count});
  round_floats(compute_, {v.polynomial, count, v.gram_rounded});
}

void Muon::orthogonalize(const Views& v, const MuonMatrix& m, int64_t steps) {
  const int64_t count = m.rows * m.columns, d = smaller(m);
  double squares = 0;
  const auto chunks = static_cast<size_t>(num_optimizer_chunks(count));
  squared_norm(compute_, {v.x, count, std::span(chunk_sums_).first(chunks), squares});
  scale_add(compute_, {{muon_norm_scale(squares), v.x, 0, nullptr}, count});
  for (int64_t i = 0; i < steps; ++i) {
    round_floats(compute_, {v.x, count, v.plain});
    transpose_rows(compute_, {v.x, m.rows, m.columns, v.flipped});
    polynomial(v, m);
    scale_add(compute_, {{NewtonSchulz::kLinear, v.x, 0, nullptr}, count});
    std::byte* const left = m.rows >= m.columns ? v.flipped : v.gram_rounded;
    std::byte* const right = m.rows >= m.columns ? v.gram_rounded : v.plain;
    weight_gradient(compute_, {left, m.rows, right, m.columns, d, v.x});
  }
}

void Muon::update(const MuonStep& step, const MuonMatrix& m, const Operands& on) {
  const Views v = views();
  const int64_t count = m.rows * m.columns;
  const auto momentum = static_cast<float>(step.params.momentum);
  const auto scale = static_cast<float>(step.grad_scale);
  scale_add(compute_, {{momentum, on.momentum, scale, on.gradients}, count});
  scale_add(compute_, {{0, v.x, scale, on.gradients}, count});
  scale_add(compute_, {{1, v.x, momentum, on.momentum}, count});
  orthogonalize(v, m, step.params.ns_steps);
  const auto kept = static_cast<float>(1 - (m.decayed ? step.lr * step.weight_decay : 0));
  scale_add(compute_,
            {{kept, on.weights, -muon_update_scale(step.lr, m.rows, m.columns), v.x}, count});
}

}  // namespace rl
