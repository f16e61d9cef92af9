// Logits, log-probs, entropy and every gradient of the fixture models against float64 goldens, in
// fp32. Tolerances are those of the goldens' own notes: a sound fp32 forward (torch's) is off by
// about a quarter of them.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "support/compute_dtypes.h"
#include "support/golden_tensors.h"
#include "support/head_logprob.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

constexpr double kLogitTolerance = 5e-5, kLogprobTolerance = 2e-5, kLossTolerance = 2e-6;
constexpr double kGradTolerance = 2e-5;  // of the tensor's largest gradient
constexpr int kSequences = 3;

class ModelGolden : public ::testing::TestWithParam<const char*> {
 protected:
  ModelGolden()
      : dir_(TinyModel::fixture(golden_name())),
        golden_(dir_ + "/golden.safetensors"),
        tiny_(TinyModel::fixture(GetParam()), Dtype::kF32, 2) {}
  // A model split over several files has the weights, and so the goldens, of the same model in one.
  static std::string golden_name() {
    const std::string name = GetParam(), suffix = "_sharded";
    return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
  }

  // All rows of the batch through the head, unit temperature.
  std::unique_ptr<HeadBuffers> run_head(const TrainingBatch& batch) {
    const Model& model = *tiny_.model;
    head_arena_ =
        Arena("test head", HeadBuffers::bytes(model.config(), Dtype::kF32, batch.rows(), true));
    auto head = std::make_unique<HeadBuffers>(model.config(), Dtype::kF32, batch.rows(), true,
                                              head_arena_.data());
    std::vector<int32_t> rows(batch.rows());
    std::iota(rows.begin(), rows.end(), 0);
    gather_rows(model, batch.buffers->hidden, rows, *head);
    head_forward(model, std::vector<float>(batch.rows(), 1.0f), *head);
    return head;
  }
  std::vector<std::vector<int32_t>> sequences() const {
    std::vector<std::vector<int32_t>> out;
    for (int i = 0; i < kSequences; ++i)
      out.push_back(golden_.ids("seq" + std::to_string(i) + ".input_ids"));
    return out;
  }

  std::string dir_;
  GoldenTensors golden_;
  TinyModel tiny_;
  Arena head_arena_;
};

TEST_P(ModelGolden, LogitsLogprobsAndEntropyMatch) {
  TrainingBatch batch(tiny_, sequences());
  forward(*tiny_.model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  const auto head = run_head(batch);
  for (int i = 0; i < kSequences; ++i) {
    const std::string seq = "seq" + std::to_string(i);
    const auto logits = golden_.get(seq + ".logits_f64"),
               logprobs = golden_.get(seq + ".logprobs_f64"),
               entropy = golden_.get(seq + ".entropy_f64");
    const int64_t length = logits.shape[0], first = batch.slices()[i].first_row;
    for (int64_t t = 0; t < length; ++t) {
      const int64_t row = first + t;
      for (int64_t v = 0; v < head->vocab; ++v)
        ASSERT_NEAR(head->z[row * head->vocab + v], logits.values[t * head->vocab + v],
                    kLogitTolerance)
            << seq << " row " << t << " token " << v;
      EXPECT_NEAR(head->stats[row].entropy, entropy.values[t], kLogprobTolerance)
          << seq << " row " << t;
      if (t + 1 == length) continue;
      EXPECT_NEAR(head_logprob(*head, row, batch.ids()[row + 1]), logprobs.values[t],
                  kLogprobTolerance);
    }
  }
}

TEST_P(ModelGolden, EveryGradientMatches) {
  const Model& model = *tiny_.model;
  TrainingBatch batch(tiny_, sequences());
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  const auto head = run_head(batch);

  // loss = sum of next-token NLL over the sequences / number of predicted tokens
  const int64_t n = batch.rows(), predicted = n - kSequences;
  std::vector<int32_t> targets(n, 0);
  std::vector<float> d_logprob(n, 0.0f), zero(n, 0.0f), one(n, 1.0f);
  double loss = 0.0;
  for (const SequenceRows& s : batch.slices()) {
    for (int32_t t = 0; t + 1 < s.rows; ++t) {
      const int32_t row = s.first_row + t;
      targets[row] = batch.ids()[row + 1];
      d_logprob[row] = -1.0f / static_cast<float>(predicted);
      loss -= head_logprob(*head, row, targets[row]) / static_cast<double>(predicted);
    }
  }
  std::ifstream in(dir_ + "/golden.json");
  EXPECT_NEAR(loss, nlohmann::json::parse(in)["history_f64"][0]["loss"].get<double>(),
              kLossTolerance);

  BackwardWeights packed(model, BackwardPacking::kResident);
  packed.prepare();
  std::vector<float> grads(model.layout().total(), 0.0f);
  head_backward(model, {packed, targets, one, d_logprob, zero, grads.data()}, *head);
  backward(model, batch.batch(), batch.pool, *batch.buffers, *batch.saved, *batch.scratch,
           {packed, grads.data(), head->d_hidden});

  int compared = 0;
  for (const Parameter& p : model.layout().parameters()) {
    const std::string name = (golden_.has("grad_f64." + p.name) ? "grad_f64." : "grad.") + p.name;
    const GoldenTensor want = golden_.get(name);
    ASSERT_EQ(static_cast<int64_t>(want.values.size()), p.size);
    double largest = 0.0;
    for (const double v : want.values) largest = std::max(largest, std::abs(v));
    for (int64_t i = 0; i < p.size; ++i)
      ASSERT_NEAR(grads[p.offset + i], want.values[i], kGradTolerance * largest + 1e-8)
          << p.name << " at " << i;
    ++compared;
  }
  EXPECT_EQ(compared, static_cast<int>(model.layout().parameters().size()));
}

// Weights stored in bf16: those bits in fp32 arithmetic, and against torch's own bf16 run.
TEST(Bf16Golden, LogitsMatchInBothComputeTypes) {
  const std::string dir = TinyModel::fixture("llama_bf16");
  const GoldenTensors golden(dir + "/golden.safetensors");
  for (const Dtype compute : compute_dtypes()) {
    if (compute == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
    // Two bf16 runs round at different places; the goldens' notes allow 0.15 between them.
    const double tolerance = compute == Dtype::kF32 ? kLogitTolerance : 0.15;
    const TinyModel tiny(dir, compute, 2);
    const Model& model = *tiny.model;
    for (int i = 0; i < kSequences; ++i) {
      const std::string seq = "seq" + std::to_string(i);
      TrainingBatch batch(tiny, {golden.ids(seq + ".input_ids")});
      forward(model, batch.batch(), batch.pool, *batch.buffers, nullptr);
      const Arena arena("test head",
                        HeadBuffers::bytes(model.config(), compute, batch.rows(), false));
      HeadBuffers head(model.config(), compute, batch.rows(), false, arena.data());
      std::vector<int32_t> rows(batch.rows());
      std::iota(rows.begin(), rows.end(), 0);
      gather_rows(model, batch.buffers->hidden, rows, head);
      head_forward(model, std::vector<float>(batch.rows(), 1.0f), head);
      const auto want = golden.get(seq + (compute == Dtype::kF32 ? ".logits_f64" : ".logits_bf16"));
      ASSERT_EQ(static_cast<int64_t>(want.values.size()), batch.rows() * head.vocab);
      for (size_t k = 0; k < want.values.size(); ++k)
        ASSERT_NEAR(head.z[k], want.values[k], tolerance) << seq << " " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ModelGolden,
                         ::testing::Values("llama", "smollm2", "qwen2", "qwen3", "mistral",
                                           "gemma3", "llama_rope_linear", "llama_rope_llama3",
                                           "llama_rope_yarn", "llama_rope_yarn_sharded"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rl::testing
