// Contracts N1, N2 and N5 of the engine: tokens and log-probs have the same bits whatever the
// batch, the chunks, the threads or the neighbours are, and equal those of a fresh training
// forward.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "rollout/engine_fixture.h"
#include "support/compute_dtypes.h"
#include "support/head_logprob.h"

namespace rl::testing {
namespace {

class EngineGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(EngineGolden, GreedyTokensAndLogprobsMatch) {
  const std::string dir = TinyModel::fixture(GetParam());
  const auto golden = nlohmann::json::parse(std::ifstream(dir + "/golden.json"));
  TinyModel tiny(dir, Dtype::kF32, 2);
  TestEngine test(tiny, {});
  const auto& generation = golden.at("generation");
  ASSERT_GE(generation.size(), 2u);
  for (size_t i = 0; i < generation.size(); ++i) {
    test.engine.submit(make_request(generation[i].at("prompt"), 16, 0.0f, i));
  }
  const SampleMap samples = test.run();
  for (size_t i = 0; i < generation.size(); ++i) {
    const Sample& s = *samples.at({i, 0});
    const std::vector<int32_t> tokens(s.ids.begin() + s.prompt_tokens, s.ids.end());
    EXPECT_EQ(tokens, generation[i].at("tokens").get<std::vector<int32_t>>());
    const auto logprobs = generation[i].at("logprobs_f64").get<std::vector<double>>();
    for (size_t t = 0; t < logprobs.size(); ++t) {
      EXPECT_NEAR(s.logprobs[t], logprobs[t], 2e-5);  // the goldens' tolerance for fp32
      EXPECT_EQ(s.logprobs_sampled[t], 0.0f);
    }
    EXPECT_EQ(s.temperature, 1.0f);
    EXPECT_EQ(s.finish, FinishReason::kLength);
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, EngineGolden,
                         ::testing::Values("llama", "smollm2", "qwen2", "qwen3", "mistral",
                                           "gemma3", "llama_rope_linear", "llama_rope_llama3",
                                           "llama_rope_yarn"));

// Log-probs of the generated tokens from one packed forward with saved activations, as a trainer
// computes them.
std::map<SampleKey, std::vector<float>> training_logprobs(const TinyModel& tiny,
                                                          const SampleMap& samples) {
  std::vector<std::vector<int32_t>> sequences;
  for (const auto& [key, s] : samples) sequences.push_back(s->ids);
  const Model& model = *tiny.model;
  TrainingBatch batch(tiny, sequences);
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  Arena arena("test head", HeadBuffers::bytes(model.config(), model.compute_dtype(), 100, false));
  HeadBuffers head(model.config(), model.compute_dtype(), 100, false, arena.data());
  std::map<SampleKey, std::vector<float>> out;
  size_t i = 0;
  for (const auto& [key, s] : samples) {
    const SequenceRows& slice = batch.slices()[i++];
    const auto generated = static_cast<size_t>(s->generated());
    if (generated == 0) continue;
    std::vector<int32_t> rows(generated);
    std::iota(rows.begin(), rows.end(), slice.first_row + s->prompt_tokens - 1);
    gather_rows(model, batch.buffers->hidden, rows, head);
    head_forward(model, std::vector<float>(generated, 1.0f / s->temperature), head);
    for (size_t t = 0; t < generated; ++t) {
      const int32_t id = s->ids[static_cast<size_t>(s->prompt_tokens) + t];
      out[key].push_back(head_logprob(head, static_cast<int64_t>(t), id));
    }
  }
  return out;
}

// Of the compute copy, and of keys and values.
using Dtypes = std::pair<Dtype, Dtype>;
using Case = std::tuple<const char*, Dtypes>;
class EngineExactness : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (dtype() == Dtype::kBf16 && !cpu_has_bf16_dot()) {
      GTEST_SKIP() << "this CPU has no bf16 dot product";
    }
    one_ = load(1);
    two_ = load(2);
    ASSERT_TRUE(one_->compute->exact()) << one_->compute->implementation();
    requests_ = mixed_requests(40, one_->model->config().vocab, 5);
    TestEngine test(*one_, {.max_num_seqs = 8, .max_num_batched_tokens = 64});
    reference_ = test.run(requests_);
    expect_idle(test.engine);
    ASSERT_GT(reference_.size(), 80u);
  }
  Dtype dtype() const { return std::get<1>(GetParam()).first; }
  std::unique_ptr<TinyModel> load(int threads) const {
    ModelOptions options;
    options.block_size = 16;
    options.kv_dtype = std::get<1>(GetParam()).second;
    return std::make_unique<TinyModel>(path(), make_thread_executor(threads), dtype(), options);
  }
  std::string path() const { return TinyModel::fixture(std::get<0>(GetParam())); }

  std::unique_ptr<TinyModel> one_, two_;
  std::vector<Request> requests_;
  SampleMap reference_;
};

TEST_P(EngineExactness, BatchChunksAndThreadsDoNotChangeSamples) {
  const EngineOptions variants[] = {
      {.max_num_seqs = 4, .max_num_batched_tokens = 4},
      {.max_num_seqs = 4, .max_num_batched_tokens = 300, .prefill_chunk = 1},
      {.max_num_seqs = 16, .max_num_batched_tokens = 33, .prefill_chunk = 7},
      {.max_num_seqs = 16, .max_num_batched_tokens = 512, .prefill_chunk = 64},
      {.max_num_seqs = 200, .max_num_batched_tokens = 1024},  // more draws than head rows
  };
  for (const EngineOptions& options : variants) {
    for (const TinyModel* tiny : {one_.get(), two_.get()}) {
      SCOPED_TRACE(::testing::Message()
                   << options.max_num_seqs << " sequences, chunk " << options.prefill_chunk << ", "
                   << tiny->executor->num_threads() << " threads");
      TestEngine test(*tiny, options);
      expect_same_samples(reference_, test.run(requests_));
      expect_idle(test.engine);
    }
  }
}

TEST_P(EngineExactness, BatchesOfOneAndThreeEqualBatchesOfMany) {
  std::vector<Request> singles;
  for (const Request& r : requests_) {
    for (uint32_t i = 0; i < r.num_samples; ++i) {
      singles.push_back(r);
      singles.back().num_samples = 1;
      singles.back().first_slot = i;
      singles.back().first_sample_id = i;
    }
  }
  for (const int64_t size : {1, 3, 16}) {
    SCOPED_TRACE(size);
    TestEngine test(*two_, {.max_num_seqs = size, .max_num_batched_tokens = 128});
    expect_same_samples(reference_, test.run(singles));
  }
}

TEST_P(EngineExactness, SamplesDoNotDependOnNeighboursOrOrderOfSubmission) {
  std::vector<Request> reversed(requests_.rbegin(), requests_.rend());
  TestEngine test(*two_, {.max_num_seqs = 12, .max_num_batched_tokens = 100});
  expect_same_samples(reference_, test.run(reversed));
  for (const size_t i : {size_t{0}, size_t{13}, size_t{27}}) {
    for (const auto& [key, sample] : test.run({requests_[i]})) {
      expect_same_sample(*reference_.at(key), *sample);
    }
  }
}

TEST_P(EngineExactness, LogprobsEqualThoseOfATrainingForward) {
  const auto trained = training_logprobs(*two_, reference_);
  for (const auto& [key, sample] : reference_) {
    EXPECT_TRUE(same_bits(trained.at(key), sample->logprobs))
        << "ordinal " << key.first << " slot " << key.second;
    ASSERT_EQ(sample->logprobs_sampled.size(), sample->logprobs.size());
    ASSERT_EQ(sample->versions, std::vector<uint64_t>(sample->logprobs.size(), 0));
    ASSERT_EQ(sample->loss_mask, std::vector<uint8_t>(sample->logprobs.size(), 1));
  }
}

TEST_P(EngineExactness, SampledLogprobIsThatOfTheFilteredDistribution) {
  int64_t above = 0;
  for (const Request& r : requests_) {
    for (uint32_t slot = 0; slot < r.num_samples; ++slot) {
      const Sample& s = *reference_.at({r.ordinal, slot});
      for (size_t t = 0; t < s.logprobs.size(); ++t) {
        if (r.sampling.temperature == 0) {
          EXPECT_EQ(s.logprobs_sampled[t], 0.0f);
        } else if (is_plain(r.sampling) && t >= static_cast<size_t>(r.min_new_tokens)) {
          EXPECT_EQ(s.logprobs_sampled[t], s.logprobs[t]);
        } else if (!has_logit_rules(r.sampling)) {
          // Filters only take mass away from others; 1e-5 is the rounding of two fp32 sums.
          EXPECT_GE(s.logprobs_sampled[t], s.logprobs[t] - 1e-5f);
          above += s.logprobs_sampled[t] > s.logprobs[t] + 1e-3f ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(above, 50);
}

// Those whose compute dtype this run covers.
std::vector<Dtypes> made(std::vector<Dtypes> all) {
  const std::vector<Dtype> covered = compute_dtypes();
  std::erase_if(
      all, [&](const Dtypes& d) { return std::ranges::find(covered, d.first) == covered.end(); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    TinyModels, EngineExactness,
    ::testing::Combine(::testing::Values("llama", "smollm2", "qwen2", "qwen3", "mistral", "gemma3"),
                       ::testing::ValuesIn(made({{Dtype::kF32, Dtype::kF32},
                                                 {Dtype::kBf16, Dtype::kBf16}}))));
INSTANTIATE_TEST_SUITE_P(
    KvOfAnotherDtype, EngineExactness,
    ::testing::Combine(::testing::Values("llama"),
                       ::testing::ValuesIn(made({{Dtype::kF32, Dtype::kBf16},
                                                 {Dtype::kBf16, Dtype::kF32}}))));

}  // namespace
}  // namespace rl::testing
