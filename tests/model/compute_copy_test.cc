// Compute copies: what a reader of the published one sees while the masters move on.
#include "model/compute_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "formats/open/open_weight_source.h"
#include "support/expect_error.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

const std::vector<std::vector<int32_t>> kSequences = {{5, 9, 200, 31, 77, 3}, {1, 2, 3}};

// Every logit of the sequences, as bytes.
std::string logits(const TinyModel& tiny, const ComputeCopy& weights) {
  TrainingBatch batch(tiny, kSequences);
  ForwardBatch rows = batch.batch();
  rows.weights = &weights;
  forward(*tiny.model, rows, batch.pool, *batch.buffers, nullptr);
  const Model& model = *tiny.model;
  const int64_t count = batch.rows();
  Arena arena("test head", HeadBuffers::bytes(model.config(), model.compute_dtype(), count, false));
  HeadBuffers head(model.config(), model.compute_dtype(), count, false, arena.data());
  std::vector<int32_t> all;
  for (int32_t r = 0; r < count; ++r) all.push_back(r);
  gather_rows(model, batch.buffers->hidden, all, head);
  head_forward(model, weights, std::vector<float>(all.size(), 1.0f), head);
  return {reinterpret_cast<const char*>(head.z),
          static_cast<size_t>(count * head.vocab) * sizeof(float)};
}

// Every parameter moves, norms and biases too.
void train(const TinyModel& tiny) {
  float* master = tiny.model->master();
  for (int64_t i = 0; i < tiny.model->layout().total(); ++i) {
    master[i] += 0.01f * static_cast<float>(i % 7 - 3);
  }
}

class Copies : public ::testing::TestWithParam<const char*> {
 protected:
  Copies()
      : one_(TinyModel::fixture(GetParam())),
        two_(TinyModel::fixture(GetParam()), Dtype::kF32, 1, 16, 2) {}
  TinyModel one_, two_;
};

TEST_P(Copies, ThePublishedOneStaysWhileTheOtherIsTrainedAndPacked) {
  const std::string first = logits(two_, two_.model->published());
  EXPECT_EQ(first, logits(one_, one_.model->published()));
  const ComputeCopy& held = two_.model->published();
  train(two_);
  EXPECT_EQ(logits(two_, held), first) << "masters alone";
  two_.model->repack();
  EXPECT_EQ(&two_.model->published(), &held);
  EXPECT_NE(&two_.model->trained(), &held);
  EXPECT_EQ(logits(two_, held), first) << "the other one packed";
  EXPECT_EQ(two_.model->version(), 0u);
  EXPECT_EQ(two_.model->trained_version(), 1u);
  two_.model->release();
  EXPECT_EQ(two_.model->version(), 1u);
  EXPECT_EQ(held.version(), 0u);
  EXPECT_EQ(logits(two_, held), first) << "who began with it keeps it";
  train(one_);
  one_.model->publish();
  const std::string second = logits(one_, one_.model->published());
  EXPECT_NE(second, first);
  EXPECT_EQ(logits(two_, two_.model->published()), second);
}

TEST_P(Copies, TheyTakeTurnsAndSeveralTrainingsArePublishedTogether) {
  for (uint64_t version = 1; version <= 4; ++version) {
    const std::string before = logits(two_, two_.model->published());
    for (uint64_t i = 0; i < version; ++i) {
      train(one_);
      train(two_);
      two_.model->repack();
      EXPECT_EQ(logits(two_, two_.model->published()), before);
    }
    one_.model->publish();
    two_.model->release();
    EXPECT_EQ(two_.model->version(), version);
    EXPECT_EQ(logits(two_, two_.model->published()), logits(one_, one_.model->published()));
    EXPECT_EQ(&two_.model->trained(), &two_.model->published());
  }
}

// A training step that failed before its weights were packed, and an engine that sleeps and wakes.
TEST_P(Copies, WhatIsPublishedIsNotMadeAgainFromMovedMasters) {
  const std::string before = logits(two_, two_.model->published());
  train(one_);
  train(two_);
  two_.model->mark_masters_changed();
  two_.model->drop_packed();
  two_.model->restore_packed();
  EXPECT_EQ(logits(two_, two_.model->published()), before);
  one_.model->publish();
  two_.model->publish();
  EXPECT_EQ(logits(two_, two_.model->published()), logits(one_, one_.model->published()));
}

TEST_P(Copies, APinnedVersionIsNotPackedOver) {
  const std::string first = logits(two_, two_.model->published());
  {
    const WeightPin pin = two_.model->pin();
    train(two_);
    two_.model->publish();  // into the other copy
    EXPECT_EQ(two_.model->version(), 1u);
    EXPECT_EQ(pin.weights().version(), 0u);
    train(two_);
    two_.model->mark_masters_changed();  // which no copy shares
    const WeightPin again = two_.model->pin();
    EXPECT_EQ(again.weights().version(), 1u);
    const Error e = expect_error(Code::kBusy, [&] { two_.model->repack(); });
    EXPECT_TRUE(contains(e.message, "version 0 of the weights")) << e.message;
    EXPECT_TRUE(contains(e.message, "pinned it (1)")) << e.message;
    EXPECT_EQ(e.key, "model.compute_copies");
    expect_error(Code::kBusy, [&] { two_.model->require_repackable(); });
    expect_error(Code::kBusy, [&] { two_.model->drop_packed(); });
    EXPECT_EQ(logits(two_, pin.weights()), first);
  }
  two_.model->publish();
  EXPECT_EQ(two_.model->version(), 2u);
  for (int i = 0; i < 2; ++i) train(one_);
  one_.model->publish();
  EXPECT_EQ(logits(two_, two_.model->published()), logits(one_, one_.model->published()));
}

// With one copy nothing can be trained, since embedding and norms are those of the masters.
TEST_P(Copies, OneCopyThatIsPinnedIsNotTrained) {
  {
    const WeightPin pin = one_.model->pin(), other = one_.model->pin();
    EXPECT_EQ(&pin.weights(), &one_.model->published());
    const std::function<void(Model&)> changes[] = {&Model::mark_masters_changed,
                                                   [](Model& m) { m.repack(); }, &Model::publish};
    for (const auto& change : changes) {
      const Error e = expect_error(Code::kBusy, [&] { change(*one_.model); });
      EXPECT_TRUE(contains(e.message, "pinned it (2)")) << e.message;
    }
    EXPECT_FALSE(one_.model->masters_changed());
  }
  train(one_);
  one_.model->publish();
  EXPECT_EQ(one_.model->pin().weights().version(), 1u);
}

// gemma3 has all norms, qwen2 biases, llama a head of its own.
INSTANTIATE_TEST_SUITE_P(TinyModels, Copies,
                         ::testing::Values("llama", "smollm2", "qwen2", "qwen3", "gemma3"));

TEST(ComputeCopies, AreOneOrTwo) {
  for (const int64_t copies : {0, 3, -1}) {
    const Error e = expect_error(Code::kOutOfRange, [&] {
      TinyModel(TinyModel::fixture("llama"), Dtype::kF32, 1, 16, copies);
    });
    EXPECT_EQ(e.key, "model.compute_copies");
    EXPECT_TRUE(contains(e.message, std::to_string(copies)));
  }
}

TEST(ComputeCopies, BytesAreKnownBeforeTheModel) {
  for (const char* name : {"llama", "qwen2", "gemma3"}) {
    const TinyModel two(TinyModel::fixture(name), Dtype::kF32, 1, 16, 2);
    const ModelConfig& c = two.model->config();
    EXPECT_EQ(two.model->arena_bytes(),
              Model::master_bytes(c) +
                  2 * Model::packed_forward_bytes(cpu_device(), c, Dtype::kF32) +
                  2 * ComputeCopy::vector_bytes(c));
    EXPECT_EQ(two.ledger.bytes(), two.model->arena_bytes() + cpu_workspace_bytes(1));
  }
}

// The packed matrices and the vectors of a model.
std::string forms_of(const Model& model) {
  const ComputeCopy& copy = model.published();
  const auto packed = copy.packed().memory();
  std::string bytes(reinterpret_cast<const char*>(packed.data()), packed.size());
  const auto add = [&](const float* v, int64_t size) {
    if (v != nullptr)
      bytes.append(reinterpret_cast<const char*>(v), static_cast<size_t>(size) * sizeof(float));
  };
  const ModelConfig& c = model.config();
  add(copy.embedding(), c.vocab * c.hidden);
  add(copy.final_norm(), c.hidden);
  add(copy.score(), c.hidden);
  for (int64_t l = 0; l < c.layers; ++l) {
    const LayerVectors& v = copy.layer(l);
    for (const float* norm : {v.input_norm, v.mlp_norm, v.attention_out_norm, v.mlp_out_norm})
      add(norm, c.hidden);
    add(v.q_norm, c.head_dim);
    add(v.k_norm, c.head_dim);
    add(v.qkv_bias.front(), (c.heads + 2 * c.kv_heads) * c.head_dim);
  }
  return bytes;
}

class Frozen : public ::testing::TestWithParam<const char*> {};

// What a frozen model computes with is made of the file, to the bits of one with masters.
TEST_P(Frozen, ReadsTheSameBitsWithoutMasters) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    if (dtype == Dtype::kBf16 && !cpu_has_bf16_dot()) continue;
    for (const ModelHead head : {ModelHead::kLogits, ModelHead::kScalar}) {
      const auto open = [&](bool frozen, int threads) {
        return std::make_unique<TinyModel>(TinyModel::fixture(GetParam()),
                                           make_thread_executor(threads), dtype,
                                           ModelOptions{.frozen = frozen}, head);
      };
      const auto trained = open(false, 1), frozen = open(true, 3);
      ASSERT_EQ(frozen->model->master(), nullptr);
      EXPECT_TRUE(frozen->model->frozen());
      EXPECT_FALSE(trained->model->frozen());
      EXPECT_EQ(forms_of(*frozen->model), forms_of(*trained->model));
      const ModelConfig& c = frozen->model->config();
      EXPECT_EQ(frozen->model->arena_bytes(),
                ComputeCopy::vector_bytes(c) + Model::packed_forward_bytes(cpu_device(), c, dtype));
      EXPECT_EQ(frozen->ledger.bytes(), frozen->model->arena_bytes() + cpu_workspace_bytes(3))
          << "what was read is given back";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Frozen,
                         ::testing::Values("llama", "llama_bf16", "smollm2", "qwen2", "qwen3",
                                           "mistral", "gemma3"));

}  // namespace
}  // namespace rl::testing
