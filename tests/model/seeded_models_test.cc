// Head sizes of every remainder, odd numbers of heads and odd widths: logits, log-probs and
// gradients against transformers in float64, and the bits of a token in every way to compute it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/compute_dtypes.h"
#include "support/head_logprob.h"
#include "support/logprob_runs.h"
#include "support/seeded_model.h"

namespace rl::testing {
namespace {

// fp32: as for the other goldens (golden_test.cc). bf16: activations are rounded at other places
// than torch rounds them, and sums are not rounded at all; torch's own bf16 run is the measure.
constexpr double kLogitTolerance = 5e-5, kLogprobTolerance = 2e-5;
constexpr double kGradTolerance = 2e-5;  // of the tensor's largest gradient
constexpr double kBf16Slack = 2;
// Of column slices: what the model takes, and so narrow that every matrix has several.
constexpr int64_t kSliceWidths[] = {0, 16, 48};

struct PassResult {
  std::vector<float> logits;    // (rows, vocab)
  std::vector<float> logprobs;  // of the next tokens, 0 at the last row of a sequence
  std::vector<float> gradients;
};

// Forward and backward of the mean negative log-prob of all predicted tokens.
PassResult run(const TinyModel& tiny, const TrainingBatch& batch) {
  const Model& model = *tiny.model;
  const Dtype dtype = model.compute_dtype();
  const int64_t n = batch.rows();
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  const Arena arena("test head", HeadBuffers::bytes(model.config(), dtype, n, true));
  HeadBuffers head(model.config(), dtype, n, true, arena.data());
  std::vector<int32_t> rows(n), targets(n, 0);
  std::iota(rows.begin(), rows.end(), 0);
  gather_rows(model, batch.buffers->hidden, rows, head);
  const std::vector<float> one(n, 1.0f), zero(n, 0.0f);
  head_forward(model, one, head);
  PassResult out{
      {head.z, head.z + n * head.vocab}, zero, std::vector<float>(model.layout().total(), 0.0f)};
  std::vector<float> d_logprob = zero;
  const auto predicted = static_cast<float>(n - static_cast<int64_t>(batch.slices().size()));
  for (const SequenceRows& s : batch.slices()) {
    for (int32_t row = s.first_row; row + 1 < s.first_row + s.rows; ++row) {
      targets[row] = batch.ids()[row + 1];
      d_logprob[row] = -1.0f / predicted;
      out.logprobs[row] = head_logprob(head, row, targets[row]);
    }
  }
  BackwardWeights packed(model, BackwardPacking::kResident);
  packed.prepare();
  head_backward(model, {packed, targets, one, d_logprob, zero, out.gradients.data()}, head);
  backward(model, batch.batch(), batch.pool, *batch.buffers, *batch.saved, *batch.scratch,
           {packed, out.gradients.data(), head.d_hidden});
  return out;
}

class SeededModels : public ::testing::TestWithParam<std::tuple<std::string, Dtype>> {
 protected:
  SeededModels() : golden_(std::get<0>(GetParam())) {}
  void SetUp() override {
    if (rounds() && !cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  Dtype dtype() const { return std::get<1>(GetParam()); }
  bool rounds() const { return dtype() == Dtype::kBf16; }
  // slice_width: columns of a slice of every matrix; 0: what the model takes.
  TinyModel load(int threads, int64_t slice_width = 0) const {
    return TinyModel(golden_.path(), make_thread_executor(threads), dtype(),
                     ModelOptions{.block_size = 16, .slice_width = slice_width});
  }

  void expect_logits(const TinyModel& tiny) const;
  void expect_gradients(const TinyModel& tiny) const;

  // The stored gradient of a parameter: all of a vector, one row of a matrix, and where that row
  // begins.
  struct StoredRow {
    std::vector<double> values;
    int64_t first;
  };
  StoredRow stored_row(const Parameter& p) const {
    const auto& facts = golden_.facts["tensors"][p.name];
    const GoldenTensor row = golden_.tensors.get("grad." + p.name);
    return {row.values, facts.value("row", int64_t{0}) * p.shape.back()};
  }

  const SeededModel golden_;
};

INSTANTIATE_TEST_SUITE_P(Shapes, SeededModels,
                         ::testing::Combine(::testing::ValuesIn(seeded_models()),
                                            ::testing::ValuesIn(compute_dtypes())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  dtype_name(std::get<1>(info.param));
                         });

TEST_P(SeededModels, WeightsAreThoseOfTheGenerator) {
  const TinyModel tiny = load(1);
  ASSERT_EQ(tiny.model->layout().parameters().size(), golden_.facts["tensors"].size());
  for (const Parameter& p : tiny.model->layout().parameters()) {
    const float* w = tiny.model->master() + p.offset;
    // Multiples of a power of two: sums in double are exact in any order.
    EXPECT_EQ(std::accumulate(w, w + p.size, 0.0),
              golden_.facts["tensors"][p.name]["sum"].get<double>())
        << p.name;
  }
}

void SeededModels::expect_logits(const TinyModel& tiny) const {
  const TrainingBatch batch(tiny, golden_.sequences());
  const PassResult got = run(tiny, batch);
  const int64_t vocab = tiny.model->config().vocab;
  const double noise = golden_.facts["noise"]["bfloat16"]["logits"];
  const double logit_tolerance = rounds() ? kBf16Slack * noise : kLogitTolerance;
  const double logprob_tolerance = rounds() ? 2 * kBf16Slack * noise : kLogprobTolerance;
  for (size_t i = 0; i < batch.slices().size(); ++i) {
    const std::string seq = "seq" + std::to_string(i);
    const SequenceRows& s = batch.slices()[i];
    const std::vector<int32_t> rows = golden_.tensors.ids(seq + ".rows");
    const GoldenTensor logits = golden_.tensors.get(seq + ".logits"),
                       logprobs = golden_.tensors.get(seq + ".logprobs");
    ASSERT_EQ(static_cast<int64_t>(logits.values.size()),
              static_cast<int64_t>(rows.size()) * vocab);
    for (size_t r = 0; r < rows.size(); ++r)
      for (int64_t v = 0; v < vocab; ++v)
        ASSERT_NEAR(got.logits[(s.first_row + rows[r]) * vocab + v], logits.values[r * vocab + v],
                    logit_tolerance)
            << seq << " row " << rows[r] << " token " << v;
    ASSERT_EQ(static_cast<int32_t>(logprobs.values.size()), s.rows - 1);
    for (int32_t t = 0; t + 1 < s.rows; ++t)
      ASSERT_NEAR(got.logprobs[s.first_row + t], logprobs.values[t], logprob_tolerance)
          << seq << " row " << t;
  }
}

void SeededModels::expect_gradients(const TinyModel& tiny) const {
  const PassResult got = run(tiny, TrainingBatch(tiny, golden_.sequences()));
  double off = 0, size = 0;
  for (const Parameter& p : tiny.model->layout().parameters()) {
    const auto& facts = golden_.facts["tensors"][p.name];
    const float* g = got.gradients.data() + p.offset;
    const double largest = facts["grad_max"];
    const StoredRow row = stored_row(p);
    for (size_t i = 0; i < row.values.size(); ++i) {
      const double difference = g[row.first + static_cast<int64_t>(i)] - row.values[i];
      off += difference * difference, size += row.values[i] * row.values[i];
      if (rounds()) continue;
      ASSERT_LE(std::abs(difference), kGradTolerance * largest + 1e-8) << p.name << " at " << i;
    }
    if (rounds()) continue;
    double l2 = 0, dot = 0;
    const std::vector<float> direction = seeded_uniform(p.name + ".dot", p.size);
    for (int64_t i = 0; i < p.size; ++i)
      l2 += double{g[i]} * g[i], dot += double{g[i]} * direction[i];
    EXPECT_NEAR(std::sqrt(l2), facts["grad_l2"].get<double>(),
                1e-5 * facts["grad_l2"].get<double>())
        << p.name;
    // Rounding errors of independent sign; one wrong element of any size that matters is above.
    EXPECT_NEAR(dot, facts["grad_dot"].get<double>(), kGradTolerance * largest * std::sqrt(p.size))
        << p.name;
  }
  if (!rounds()) return;
  EXPECT_LE(std::sqrt(off / size),
            kBf16Slack * golden_.facts["noise"]["bfloat16"]["grad_rows"].get<double>());
}

TEST_P(SeededModels, LogitsAndLogprobsMatch) {
  for (const int64_t width : kSliceWidths) {
    SCOPED_TRACE(str("slices of ", width));
    expect_logits(load(2, width));
  }
}

TEST_P(SeededModels, GradientsMatch) {
  for (const int64_t width : kSliceWidths) {
    SCOPED_TRACE(str("slices of ", width));
    expect_gradients(load(2, width));
  }
}

TEST_P(SeededModels, ThreadsLeaveTheBits) {
  for (const int64_t width : kSliceWidths) {
    const TinyModel one = load(1, width), three = load(3, width);
    const PassResult a = run(one, TrainingBatch(one, golden_.sequences()));
    const PassResult b = run(three, TrainingBatch(three, golden_.sequences()));
    EXPECT_TRUE(same_bits(a.logits, b.logits)) << "slices of " << width;
    EXPECT_TRUE(same_bits(a.gradients, b.gradients)) << "slices of " << width;
  }
}

TEST_P(SeededModels, ATokenHasTheSameBitsInPrefillChunksAndDecoding) {
  const auto sequences = golden_.sequences();
  for (const int64_t width : kSliceWidths) {
    const TinyModel one = load(1, width), three = load(3, width);
    ASSERT_TRUE(one.compute->exact()) << one.compute->implementation();
    const auto packed = packed_logprobs(three, sequences, 0.7f);
    for (size_t i = 0; i < sequences.size(); ++i) {
      const std::string what = str("slices of ", width, ", sequence ", i);
      EXPECT_TRUE(same_bits(packed_logprobs(one, {sequences[i]}, 0.7f)[0], packed[i]))
          << what << " alone";
      for (const int32_t chunk : {1, 7}) {
        EXPECT_TRUE(same_bits(chunked_logprobs(one, sequences[i], chunk, 0.7f), packed[i]))
            << what << " by " << chunk;
        EXPECT_TRUE(same_bits(chunked_logprobs(three, sequences[i], chunk, 0.7f), packed[i]))
            << what << " by " << chunk << " on three threads";
      }
    }
  }
}

}  // namespace
}  // namespace rl::testing
