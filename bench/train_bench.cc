// Forward and backward of training, including the head, with loss at every position: 8 sequences
// of 512 tokens, 32 of 64 and 2 of 2,048, split into micro-batches of 1,024 rows, or of one
// sequence if that is longer. The gradients are checked to be finite and nonzero. Then the speedup
// from computing the prompt of a group once, the cost of computing all activations again, and how
// near an optimizer step comes to the speed of memory.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>

#include "bench/bench_model.h"
#include "bench/optimizer_case.h"
#include "bench/report.h"
#include "bench/shared_prefix_case.h"
#include "model/head.h"
#include "model/transformer.h"

namespace rl::bench {
namespace {

constexpr int64_t kMicroBatchRows = 1024;
constexpr int64_t kHeadRows = 256;

// The buffers of one micro-batch of equally long sequences.
class TrainingStep {
 public:
  TrainingStep(const Model& model, int64_t length, int num_threads,
               const ActivationRule& activations = {})
      : model_(model),
        length_(length),
        rows_(std::max(kMicroBatchRows, length)),
        kv_(model.kv_shape()) {
    const ModelConfig& c = model.config();
    const Dtype compute = model.compute_dtype();
    const int64_t blocks_each = (length + model.block_size() - 1) / model.block_size();
    const int64_t blocks = rows_ / length * blocks_each;
    block_ids_.resize(blocks);
    std::iota(block_ids_.begin(), block_ids_.end(), 0);
    for (int64_t s = 0; s < rows_ / length; ++s) {
      sequences_.push_back({static_cast<int32_t>(s * length), static_cast<int32_t>(length), 0,
                            block_ids_.data() + s * blocks_each});
    }
    pool_arena_ = Arena("bench kv", blocks * kv_.block_bytes());
    pool_ = {kv_, pool_arena_.data(), blocks};
    forward_arena_ = Arena("bench forward", ForwardBuffers::bytes(c, kv_, rows_, num_threads));
    buffers_ = std::make_unique<ForwardBuffers>(c, kv_, rows_, num_threads, forward_arena_.data());
    saved_arena_ =
        Arena("bench activations", SavedActivations::bytes(c, compute, rows_, activations));
    saved_ =
        std::make_unique<SavedActivations>(c, compute, rows_, saved_arena_.data(), activations);
    backward_arena_ = Arena("bench backward", BackwardBuffers::bytes(c, kv_, rows_, num_threads));
    scratch_ =
        std::make_unique<BackwardBuffers>(c, kv_, rows_, num_threads, backward_arena_.data());
    head_arena_ = Arena("bench head", HeadBuffers::bytes(c, compute, kHeadRows, true));
    head_ = std::make_unique<HeadBuffers>(c, compute, kHeadRows, true, head_arena_.data());
    d_hidden_.resize(rows_ * c.hidden);
  }

  int64_t rows() const { return rows_; }
  void run(const std::vector<int32_t>& ids, BackwardWeights& packed, float* grads) {
    const ForwardBatch batch{ids, sequences_};
    forward(model_, batch, pool_, *buffers_, saved_.get());
    for (int64_t first = 0; first < rows_; first += kHeadRows) run_head(ids, first, packed, grads);
    backward(model_, batch, pool_, *buffers_, *saved_, *scratch_,
             {packed, grads, d_hidden_.data()});
  }

 private:
  void run_head(const std::vector<int32_t>& ids, int64_t first, BackwardWeights& packed,
                float* grads) {
    const int64_t hidden = model_.config().hidden;
    std::vector<int32_t> rows(kHeadRows), targets(kHeadRows);
    std::iota(rows.begin(), rows.end(), static_cast<int32_t>(first));
    for (int64_t r = 0; r < kHeadRows; ++r) targets[r] = ids[(first + r + 1) % rows_];
    const std::vector<float> one(kHeadRows, 1.0f), zero(kHeadRows, 0.0f);
    const std::vector<float> weight(kHeadRows, -1.0f / static_cast<float>(rows_));
    gather_rows(model_, buffers_->hidden, rows, *head_);
    head_forward(model_, one, *head_);
    head_backward(model_, {packed, targets, one, weight, zero, grads}, *head_);
    std::copy_n(head_->d_hidden, kHeadRows * hidden, d_hidden_.data() + first * hidden);
  }

  const Model& model_;
  int64_t length_, rows_;
  KvShape kv_;
  std::vector<int32_t> block_ids_;
  std::vector<SequenceRows> sequences_;
  Arena pool_arena_, forward_arena_, saved_arena_, backward_arena_, head_arena_;
  KvPool pool_;
  std::unique_ptr<ForwardBuffers> buffers_;
  std::unique_ptr<SavedActivations> saved_;
  std::unique_ptr<BackwardBuffers> scratch_;
  std::unique_ptr<HeadBuffers> head_;
  std::vector<float> d_hidden_;
};

struct TrainCase {
  const char* name;
  int64_t sequences, length;
};

void check_gradients(const Model& model, const float* grads) {
  double squares = 0;
  for (int64_t i = 0; i < model.layout().total(); ++i)
    squares += static_cast<double>(grads[i]) * grads[i];
  if (!std::isfinite(squares) || squares == 0)
    throw std::runtime_error("gradients are zero or not finite");
}

void run_case(const TrainCase& c, const BenchArgs& args, const BenchModel& bench,
              BackwardWeights& packed, Report& report) {
  if (!args.only.empty() && args.only != c.name) return;
  const Model& model = *bench.model;
  Arena grads("bench gradients", static_cast<uint64_t>(model.layout().total()) * sizeof(float));
  TrainingStep step(model, c.length, bench.executor->num_threads());
  const int64_t tokens = c.sequences * c.length;
  const auto piece = [&](int64_t done) {
    step.run(spread_ids(step.rows(), model.config().vocab, done + 1), packed, grads.at<float>(0));
  };
  piece(0);  // creates kernels and touches memory
  for (int repeat = 0; repeat < args.repeats; ++repeat) {
    report.repeat(c.name, training_work(model.config(), tokens, c.length), [&](MeteredTime& time) {
      for (int64_t done = 0; done < tokens; done += step.rows()) time.add([&] { piece(done); });
      return static_cast<double>(tokens);
    });
  }
  check_gradients(model, grads.at<float>(0));
}

void run_group_case(const char* name, const GroupTraining& shape, const BenchArgs& args,
                    const BenchModel& bench, BackwardWeights& packed, Report& report) {
  if (!args.only.empty() && args.only != name) return;
  Arena grads("bench gradients",
              static_cast<uint64_t>(bench.model->layout().total()) * sizeof(float));
  SharedPrefixCase groups(bench, packed, shape);
  std::vector<double> gains;
  for (int repeat = -1; repeat < args.repeats;
       ++repeat) {  // the first one makes kernels and touches memory
    const double apart = groups.seconds(false, grads.at<float>(0)),
                 shared = groups.seconds(true, grads.at<float>(0));
    if (repeat >= 0) gains.push_back(apart / shared);
  }
  check_gradients(*bench.model, grads.at<float>(0));
  report.add(name, median(gains), "times", 2.0, Goal::kAtLeast);
}

double seconds_of(const BenchModel& bench, BackwardWeights& packed, TrainingStep& step,
                  int64_t tokens, float* grads) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t done = 0; done < tokens; done += step.rows())
    step.run(spread_ids(step.rows(), bench.model->config().vocab, done + 1), packed, grads);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Full recomputation in groups of one layer, over keeping everything; the two take turns.
void run_recompute_case(const TrainCase& c, const BenchArgs& args, const BenchModel& bench,
                        BackwardWeights& packed, Report& report) {
  if (!args.only.empty() && args.only != c.name) return;
  const int threads = bench.executor->num_threads();
  Arena grads("bench gradients",
              static_cast<uint64_t>(bench.model->layout().total()) * sizeof(float));
  ActivationRule full;
  full.granularity = RecomputeGranularity::kFull;
  TrainingStep keeps(*bench.model, c.length, threads),
      recomputes(*bench.model, c.length, threads, full);
  const int64_t tokens = c.sequences * c.length;
  std::vector<double> costs;
  for (int repeat = -1; repeat < args.repeats; ++repeat) {
    const double kept = seconds_of(bench, packed, keeps, tokens, grads.at<float>(0)),
                 again = seconds_of(bench, packed, recomputes, tokens, grads.at<float>(0));
    if (repeat >= 0) costs.push_back(again / kept);
  }
  check_gradients(*bench.model, grads.at<float>(0));
  report.add(c.name, median(costs), "times", 1.38, Goal::kAtMost);
}

// Seconds of a copy over those of a step that moves as many bytes; the two take turns.
void run_optimizer_case(const char* name, const BenchArgs& args, const BenchModel& bench,
                        Report& report) {
  if (!args.only.empty() && args.only != name) return;
  OptimizerCase optimizer(bench);
  std::vector<double> fractions;
  for (int repeat = -1; repeat < args.repeats; ++repeat) {
    const double copied = optimizer.copy_seconds(), stepped = optimizer.step_seconds();
    if (repeat >= 0) fractions.push_back(copied / stepped);
  }
  report.add(name, median(fractions), "of a copy", 0.70, Goal::kAtLeast);
}

void run(const BenchArgs& args) {
  BenchModel bench(args.model);
  const Model& model = *bench.model;
  BackwardWeights packed(model, BackwardPacking::kResident);
  packed.prepare();
  Report report(args.quick);
  if (args.quick) {
    run_case({"train_quick", 16, 64}, args, bench, packed, report);
    run_group_case("shared_prefix_quick", {2, 4, 32, 16, 256}, args, bench, packed, report);
    run_recompute_case({"recompute_quick", 16, 64}, args, bench, packed, report);
    run_optimizer_case("optimizer_quick", args, bench, report);
  } else {
    run_case({"train_8x512", 8, 512}, args, bench, packed, report);
    run_case({"train_32x64", 32, 64}, args, bench, packed, report);
    run_case({"train_2x2048", 2, 2048}, args, bench, packed, report);
    run_group_case("shared_prefix_gain", {8, 8, 256, 64, kMicroBatchRows}, args, bench, packed,
                   report);
    run_recompute_case({"recompute_cost", 8, 512}, args, bench, packed, report);
    run_optimizer_case("optimizer_step", args, bench, report);
  }
  report.write(args.out);
}

}  // namespace
}  // namespace rl::bench

int main(int argc, char** argv) {
  try {
    rl::bench::run(rl::bench::parse_args(argc, argv));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "train_bench: %s\n", e.what());
    return 1;
  }
}
