#include "bench/optimizer_case.h"

#include <cmath>
#include <cstring>

namespace rl::bench {
namespace {

constexpr int64_t kArrays = 4;                    // weights, gradients, first and second moments
constexpr int64_t kSmallCopy = int64_t{1} << 14;  // floats

}  // namespace

OptimizerCase::OptimizerCase(const BenchModel& bench)
    : bench_(bench),
      count_(bench.model->layout().total()),
      arena_("bench optimizer", static_cast<uint64_t>(kArrays * count_) * sizeof(float)),
      sums_(num_optimizer_chunks(count_)) {
  std::fill_n(array(0), kArrays * count_, 1e-3f);
}

double OptimizerCase::step_seconds() {
  const Stopwatch watch;
  double sum = 0;
  squared_norm(*bench_.compute, {array(1), count_, sums_, sum});
  const double scale = grad_clip_scale(std::sqrt(sum), 1.0);
  const AdamwStep step = adamw_step({}, {.lr = 1e-6, .step = 1, .grad_scale = scale});
  adamw(*bench_.compute, {step, array(0), array(2), array(3), array(1), count_});
  return watch.seconds();
}

// Half of the arrays to the other half, and back, in pieces of so many floats.
double OptimizerCase::seconds_of_copies(int64_t piece) {
  const Stopwatch watch;
  const int64_t half = kArrays / 2 * count_;
  for (float* from : {array(0), array(kArrays / 2)}) {
    float* to = from == array(0) ? array(kArrays / 2) : array(0);
    bench_.executor->parallel_for((half + piece - 1) / piece, [&](int64_t task, int) {
      const int64_t first = task * piece;
      std::memcpy(to + first, from + first,
                  static_cast<size_t>(std::min(piece, half - first)) * sizeof(float));
    });
  }
  return watch.seconds();
}

// A large memcpy writes past the caches, a small one through them.
double OptimizerCase::copy_seconds() {
  const int64_t share = kArrays / 2 * count_ / bench_.executor->num_threads() + 1;
  return std::min(seconds_of_copies(share), seconds_of_copies(kSmallCopy));
}

}  // namespace rl::bench
