// What an engine is built from: the regions of its workspace, and options with their defaults.
#include "rollout/engine_setup.h"

#include <gtest/gtest.h>

#include "ops/sample_ops.h"
#include "rollout/request_check.h"
#include "support/expect_error.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

class EngineSetup : public ::testing::Test {
 protected:
  KvPool pool(int64_t blocks) { return {tiny_.model->kv_shape(), &byte_, blocks}; }

  TinyModel tiny_{TinyModel::fixture("llama"), Dtype::kF32, 2};
  std::byte byte_{};
};

uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

TEST_F(EngineSetup, RegionsFollowEachOtherAndHaveTheBytesOfWhatIsInThem) {
  const EngineOptions options = {
      .max_num_seqs = 5, .max_num_batched_tokens = 96, .prefill_chunk = 7, .swap_blocks = 3};
  const Model& model = *tiny_.model;
  const ModelConfig& config = model.config();
  const EngineWorkspace w = plan_workspace(model, options);
  EXPECT_EQ(w.forward, 0u);
  EXPECT_EQ(w.head - w.forward, aligned(ForwardBuffers::bytes(config, model.kv_shape(), 96, 2)));
  EXPECT_EQ(w.sampler - w.head, aligned(HeadBuffers::bytes(config, Dtype::kF32, 5, false)));
  EXPECT_EQ(w.swap - w.sampler, aligned(sample_scratch_bytes(config.vocab, 2)));
  EXPECT_EQ(w.total - w.swap, aligned(3 * model.kv_shape().block_bytes()));
  EXPECT_EQ(engine_workspace_bytes(model, options), w.total);
}

TEST_F(EngineSetup, WithoutSwapSpaceTheLastRegionIsEmpty) {
  const EngineWorkspace w = plan_workspace(*tiny_.model, {});
  EXPECT_EQ(w.total, w.swap);
}

TEST_F(EngineSetup, TheHeadHasARowPerSequenceUpTo64) {
  const std::pair<int64_t, int64_t> rows[] = {{1, 1}, {63, 63}, {64, 64}, {65, 64}, {1000, 64}};
  for (const auto& [sequences, expected] : rows) {
    EXPECT_EQ(head_rows({.max_num_seqs = sequences}), expected);
  }
}

TEST_F(EngineSetup, TheWatermarkIsAShareOfTheBlocksRoundedDown) {
  const auto blocks = [](int64_t num_blocks, double share) {
    return watermark_blocks({.num_blocks = num_blocks, .kv_watermark = share});
  };
  EXPECT_EQ(blocks(1024, 0.01), 10);
  EXPECT_EQ(blocks(99, 0.01), 0);
  EXPECT_EQ(blocks(17, 0.5), 8);
  EXPECT_EQ(blocks(100, 0), 0);
}

TEST_F(EngineSetup, DefaultsAreTheLimitsOfModelAndPool) {
  const EngineOptions all = resolve_options({}, *tiny_.model, pool(9));
  EXPECT_EQ(all.max_model_len, 128);
  EXPECT_EQ(all.num_blocks, 9);
  const EngineOptions set =
      resolve_options({.max_model_len = 77, .num_blocks = 9}, *tiny_.model, pool(9));
  EXPECT_EQ(set.max_model_len, 77);
  EXPECT_EQ(set.num_blocks, 9);
}

TEST_F(EngineSetup, AModelOfFewerPositionsSetsTheLimit) {
  ModelOptions options;
  options.block_size = tiny_.model->block_size();  // that of the pool
  options.max_positions = 48;
  const TinyModel shorter(TinyModel::fixture("llama"), make_thread_executor(1), Dtype::kF32,
                          options);
  EXPECT_EQ(resolve_options({}, *shorter.model, pool(9)).max_model_len, 48);
  const Error e = expect_error(
      Code::kOutOfRange, [&] { resolve_options({.max_model_len = 49}, *shorter.model, pool(9)); });
  EXPECT_EQ(e.key, "engine.max_model_len");
  EXPECT_EQ(e.expected, "integer 0..48");
}

TEST_F(EngineSetup, OtherBlocksThanThoseOfThePoolAreRefusedWithBothNumbers) {
  for (const int64_t asked : {8, 10}) {
    const Error e = expect_error(
        Code::kOutOfRange, [&] { resolve_options({.num_blocks = asked}, *tiny_.model, pool(9)); });
    EXPECT_EQ(e.key, "num_blocks");
    EXPECT_EQ(e.message,
              str("the engine is set to ", asked, " KV blocks, but its pool has ", int64_t{9}));
  }
  constexpr int64_t kTooMany = int64_t{1} << 31;
  const Error e =
      expect_error(Code::kOutOfRange, [&] { resolve_options({}, *tiny_.model, pool(kTooMany)); });
  EXPECT_EQ(e.key, "num_blocks");
  EXPECT_EQ(resolve_options({}, *tiny_.model, pool(kTooMany - 1)).num_blocks, kTooMany - 1);
}

TEST_F(EngineSetup, APoolMustBeThereAndOfTheModelsShape) {
  expect_error(Code::kInternal, [&] {
    resolve_options({}, *tiny_.model, {tiny_.model->kv_shape(), nullptr, 9});
  });
  const TinyModel other(TinyModel::fixture("llama"), Dtype::kF32, 1, 32);
  expect_error(Code::kInternal, [&] { resolve_options({}, *other.model, pool(9)); });
}

}  // namespace
}  // namespace rl::testing
