// A block for each row: the sums, then the derivatives.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/head/distill_kernels.h"
#include "ops/cuda/kernels/rows/row_team.h"

namespace rl::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kLanes;

// log m - log p and log m - log q of the mixture m = beta q + (1 - beta) p. Both are 0 exactly
// where p is q, and no exponential overflows.
struct Mixture {
  double over_p, over_q;
};
RL_DEVICE Mixture mixture(double beta, double log_p, double log_q) {
  const double gap = log_q - log_p;
  const double less = std::expm1(gap > 0 ? -gap : gap);
  if (gap > 0) {
    const double over_q = std::log1p((1 - beta) * less);
    return {over_q + gap, over_q};
  }
  const double over_p = std::log1p(beta * less);
  return {over_p, over_p - gap};
}

// Of one id or of a row: terms with the weight p, and with the weight q. NaN propagates;
// probability 0 adds nothing.
struct Terms {
  double from_p, from_q;
};
RL_DEVICE Terms terms_of(const DistillParams& kind, double log_p, double log_q) {
  const double p = exp_of(log_p), q = exp_of(log_q);
  if (kind.kind == DistillKl::kForward) return {0, q != 0 ? q * (log_q - log_p) : 0};
  if (kind.kind == DistillKl::kReverse) return {p != 0 ? p * (log_p - log_q) : 0, 0};
  const Mixture m = mixture(kind.beta, log_p, log_q);
  return {p != 0 ? -p * m.over_p : 0, q != 0 ? -q * m.over_q : 0};
}
RL_DEVICE double value_of(const DistillParams& kind, const Terms& row) {
  if (kind.kind == DistillKl::kForward) return row.from_q;
  if (kind.kind == DistillKl::kReverse) return row.from_p;
  return kind.beta * row.from_q + (1 - kind.beta) * row.from_p;
}

RL_DEVICE double derivative(const DistillParams& kind, const Terms& row, double log_p,
                            double log_q) {
  const double p = exp_of(log_p);
  if (kind.kind == DistillKl::kForward) return p - exp_of(log_q);
  if (p == 0) return 0;
  if (kind.kind == DistillKl::kReverse) return p * (log_p - log_q - row.from_p);
  return (1 - kind.beta) * p * (-mixture(kind.beta, log_p, log_q).over_p - row.from_p);
}

RL_KERNEL void RL_BOUNDS(kThreads, 1) distill_rows_kernel(DistillRowsParams p) {
  const int64_t row = block_x();
  const float* const student = p.student + row * p.vocab;
  float* const teacher = p.teacher + row * p.vocab;
  const RowStats of_student = p.student_stats[row], of_teacher = p.teacher_stats[row];
  const double weight = p.weight[row];
  Terms sums{0, 0};
  for (int64_t id = thread_index(); weight != 0 && id < p.vocab; id += kThreads) {
    const Terms terms =
        terms_of(p.kind, log_prob(student[id], of_student), log_prob(teacher[id], of_teacher));
    sums.from_p += terms.from_p;
    sums.from_q += terms.from_q;
  }
  sums.from_p = add_block(sums.from_p, shared_at<double>(0));
  sums.from_q = add_block(sums.from_q, shared_at<double>(0));
  if (thread_index() == 0) p.value[row] = weight != 0 ? value_of(p.kind, sums) : 0;
  const double scale = p.coef * weight;
  for (int64_t id = thread_index(); id < p.vocab; id += kThreads) {
    const double d = weight != 0
                         ? scale * derivative(p.kind, sums, log_prob(student[id], of_student),
                                              log_prob(teacher[id], of_teacher))
                         : 0;
    teacher[id] = static_cast<float>(d);
  }
}

}  // namespace

void distill_rows(cudaStream_t stream, const DistillRowsParams& p) {
  launch("distill_rows", distill_rows_kernel, {p.rows, kThreads, kWarps * sizeof(double)}, stream,
         p);
}

}  // namespace rl::cuda
