// The scalar head against goldens and a double-precision oracle, and bits that chunks and threads
// leave alone.
#include "model/value_head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "formats/open/open_weight_source.h"
#include "support/compute_dtypes.h"
#include "support/golden_tensors.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

// That of log-probs: torch's fp32 run is off by less than a quarter of it.
constexpr double kValueTolerance = 2e-5;

struct ScalarModel {
  explicit ScalarModel(const std::string& name, Dtype dtype = Dtype::kF32, int threads = 1,
                       int64_t copies = 1)
      : executor(make_thread_executor(threads)), compute(make_cpu_compute(*executor, dtype)) {
    const auto source = open_weight_source(real_fs(), TinyModel::fixture(name), ModelHead::kScalar);
    model = std::make_unique<Model>(*source, *compute,
                                    ModelOptions{.block_size = 16, .compute_copies = copies});
  }
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Compute> compute;
  std::unique_ptr<Model> model;
};

// Random hidden rows in the compute dtype, and a random head.
struct Rows {
  Rows(ScalarModel& m, int64_t count, unsigned seed)
      : width(m.model->config().hidden), compute(m.model->compute_dtype()) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    hidden.resize(static_cast<size_t>(count * width) * dtype_bytes(compute));
    for (int64_t i = 0; i < count * width; ++i) {
      const float v = round_to(compute, normal(rng));
      plain.push_back(v);
      if (compute == Dtype::kF32) {
        reinterpret_cast<float*>(hidden.data())[i] = v;
      } else {
        reinterpret_cast<bf16*>(hidden.data())[i] = to_bf16(v);
      }
    }
    float* head = m.model->master() + m.model->layout().head();
    for (int64_t c = 0; c < width; ++c) head[c] = normal(rng);
    weight.assign(head, head + width);
    m.model->publish();
  }
  int64_t width;
  Dtype compute;
  std::vector<std::byte> hidden;
  std::vector<float> plain, weight;
};

TEST(ValueHead, ValuesOfEveryRowMatchTheGolden) {
  const std::string dir = TinyModel::fixture("llama_value");
  const GoldenTensors golden(dir + "/golden.safetensors");
  for (const Dtype compute : compute_dtypes()) {
    if (compute == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
    // In bf16 the weights are rounded too; values have the size of 1 and a row sums 32 products.
    const double tolerance = compute == Dtype::kF32 ? kValueTolerance : 0.1;
    ScalarModel m("llama_value", compute);
    for (int i = 0; i < 3; ++i) {
      const std::vector<int32_t> ids = golden.ids("seq" + std::to_string(i) + ".input_ids");
      const KvShape kv = m.model->kv_shape();
      const Arena pool("test kv", 2 * kv.block_bytes());
      const auto rows = static_cast<int64_t>(ids.size());
      const Arena arena("test forward", ForwardBuffers::bytes(m.model->config(), kv, rows, 1));
      ForwardBuffers buffers(m.model->config(), kv, rows, 1, arena.data());
      const std::vector<int32_t> blocks = {0, 1};
      const SequenceRows sequence{0, static_cast<int32_t>(rows), 0, blocks.data()};
      forward(*m.model, {ids, {&sequence, 1}}, {kv, pool.data(), 2}, buffers, nullptr);
      std::vector<int32_t> all(ids.size());
      std::iota(all.begin(), all.end(), 0);
      std::vector<float> values(ids.size());
      value_forward(*m.model, buffers.hidden, all, values);
      const auto want = golden.get("seq" + std::to_string(i) + ".values_f64").values;
      for (size_t t = 0; t < values.size(); ++t) EXPECT_NEAR(values[t], want[t], tolerance);
    }
  }
}

class ValueHeadOracle : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};

TEST_P(ValueHeadOracle, ForwardAndBackwardMatchDoublePrecision) {
  ScalarModel m("llama", GetParam(), 2);
  const int64_t count = 37;
  const Rows rows(m, count, 1);
  const std::vector<int32_t> picked = {3, 0, 36, 3, 17, 20, 21, 22, 3};  // a row may come again
  std::vector<float> values(picked.size()), d_value;
  value_forward(*m.model, rows.hidden.data(), picked, values);
  std::vector<double> d_hidden(rows.plain.size()), d_weight(rows.weight.size());
  for (size_t i = 0; i < picked.size(); ++i) {
    d_value.push_back(0.1f * static_cast<float>(i) - 0.3f);
    double value = 0;
    for (int64_t c = 0; c < rows.width; ++c) {
      const double h = rows.plain[picked[i] * rows.width + c];
      value += h * rows.weight[c];
      d_hidden[picked[i] * rows.width + c] += double{d_value[i]} * rows.weight[c];
      d_weight[c] += d_value[i] * h;
    }
    // 64 products of the size of 1, each rounded to fp32.
    EXPECT_NEAR(values[i], value, 64 * 4 * 6e-8);
  }
  std::vector<float> to(rows.plain.size(), 0.0f);
  std::vector<float> grads(m.model->layout().total(), 0.0f);
  value_backward(*m.model, {rows.hidden.data(), picked, d_value, to.data(), grads.data()});
  for (size_t i = 0; i < to.size(); ++i) EXPECT_NEAR(to[i], d_hidden[i], 1e-6);
  for (int64_t i = 0; i < m.model->layout().total(); ++i) {
    const int64_t c = i - m.model->layout().head();
    const bool of_head = c >= 0 && c < rows.width;
    if (of_head) {
      EXPECT_NEAR(grads[i], d_weight[c], 1e-6);
    } else {
      EXPECT_EQ(grads[i], 0.0f);
    }
  }
}

TEST_P(ValueHeadOracle, ChunksAndThreadsLeaveTheBits) {
  std::vector<float> first_values, first_grads;
  for (const int threads : {1, 3}) {
    for (const size_t chunk : {size_t{100}, size_t{7}, size_t{1}}) {
      ScalarModel m("llama", GetParam(), threads);
      const Rows rows(m, 50, 2);
      std::vector<int32_t> all(50);
      std::iota(all.begin(), all.end(), 0);
      std::vector<float> values(50), d_value(50, 0.25f), d_hidden(rows.plain.size(), 0.0f);
      std::vector<float> grads(m.model->layout().total(), 0.0f);
      for (size_t at = 0; at < all.size(); at += chunk) {
        const size_t n = std::min(chunk, all.size() - at);
        const auto some = std::span<const int32_t>(all).subspan(at, n);
        value_forward(*m.model, rows.hidden.data(), some, std::span(values).subspan(at, n));
        value_backward(*m.model, {rows.hidden.data(), some, std::span(d_value).subspan(at, n),
                                  d_hidden.data(), grads.data()});
      }
      if (first_values.empty()) {
        first_values = values;
        first_grads = grads;
      }
      EXPECT_EQ(values, first_values);
      EXPECT_EQ(grads, first_grads);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Dtypes, ValueHeadOracle, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST(ValueHead, APublishedCopyKeepsItsHeadWhileTheMastersMove) {
  ScalarModel m("llama_value", Dtype::kF32, 1, 2);
  const float before = m.model->published().score()[0];
  m.model->master()[m.model->layout().head()] += 1.0f;
  EXPECT_EQ(m.model->published().score()[0], before);
  m.model->publish();
  EXPECT_EQ(m.model->published().score()[0], before + 1.0f);
}

}  // namespace
}  // namespace rl::testing
