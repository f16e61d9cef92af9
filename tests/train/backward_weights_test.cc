// The backward's packed weights, by layer and resident: equal bits, and the bytes that are planned.
#include "model/backward_weights.h"

#include <gtest/gtest.h>

#include "ops/compute.h"
#include "support/compute_dtypes.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

class BackwardWeightsTest : public ::testing::TestWithParam<std::tuple<std::string, Dtype>> {
 protected:
  void SetUp() override {
    if (std::get<Dtype>(GetParam()) == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  static RigOptions rig_options() {
    return {.model = std::get<std::string>(GetParam()),
            .compute = std::get<Dtype>(GetParam()),
            .threads = 2};
  }
  static TrainerOptions options(BackwardPacking packing) {
    TrainerOptions o;
    o.max_tokens = 64;  // several micro-batches
    o.logprob_chunk_tokens = 16;
    o.backward_packing = packing;
    return o;
  }
};

struct Trained {
  std::vector<float> gradients, masters;
  int64_t micro_batches = 0;
};

// Two steps: the second packs what the first has changed.
Trained train(TrainRig& rig) {
  std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 3);
  Trained out;
  for (int step = 0; step < 2; ++step) {
    store_logprobs(rig, samples);
    out.micro_batches = rig.trainer->step(with_advantages(samples)).micro_batches;
  }
  out.gradients = rig.gradients();
  out.masters = rig.masters();
  return out;
}

TEST_P(BackwardWeightsTest, HaveTheSameBitsByLayerAndResident) {
  TrainRig by_layer(rig_options(), options(BackwardPacking::kByLayer));
  TrainRig resident(rig_options(), options(BackwardPacking::kResident));
  const std::vector<float> before = by_layer.masters();
  const Trained a = train(by_layer), b = train(resident);
  EXPECT_GE(a.micro_batches, 3);
  EXPECT_FALSE(same_bits(a.masters, before));
  EXPECT_TRUE(same_bits(a.gradients, b.gradients));
  EXPECT_TRUE(same_bits(a.masters, b.masters));
}

TEST_P(BackwardWeightsTest, ByLayerTakeTheLargestLayerOrPartOfTheHead) {
  const TrainRig by_layer(rig_options(), options(BackwardPacking::kByLayer));
  const TrainRig resident(rig_options(), options(BackwardPacking::kResident));
  const PackedShapes shapes = by_layer.tiny.model->backward_shapes();
  EXPECT_EQ(resident.sizes.packed_backward, packed_bytes(shapes));
  EXPECT_LT(by_layer.sizes.packed_backward, resident.sizes.packed_backward);
  for (const PackedShape& part : shapes.head_parts)
    EXPECT_GE(by_layer.sizes.packed_backward, part.bytes);
  for (const PackedShapes::Layer& l : shapes.layers) {
    EXPECT_GE(by_layer.sizes.packed_backward,
              l.qkv.bytes + l.o.bytes + l.gate_up.bytes + l.down.bytes);
  }
  EXPECT_EQ(by_layer.trainer->memory().back().size(), by_layer.sizes.packed_backward);
  EXPECT_EQ(resident.trainer->memory().back().size(), resident.sizes.packed_backward);
}

INSTANTIATE_TEST_SUITE_P(Models, BackwardWeightsTest,
                         ::testing::Combine(::testing::Values("llama", "smollm2", "qwen2",
                                                              "gemma3"),
                                            ::testing::ValuesIn(compute_dtypes())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  dtype_name(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace rl::testing
