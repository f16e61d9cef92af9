// Ranks that divide a model on a device that is not the CPU: training, sampling, outputs of
// forwards, distillation over whole rows and published weights have the bits of one rank there too.
#include <gtest/gtest.h>

#include "guarded_device.h"
#include "model/rollout_weights.h"
#include "model/weight_pieces.h"
#include "ops/device_bytes.h"
#include "reference_device.h"
#include "tensor/tensor_outcome.h"

namespace rl::testing {
namespace {

class DividedModels : public ::testing::TestWithParam<const Device*> {
 protected:
  const Device& device_ = *GetParam();
};
INSTANTIATE_TEST_SUITE_P(Devices, DividedModels,
                         ::testing::Values(&reference_device(), &guarded_device()),
                         [](const auto& info) { return std::string(info.param->name()); });

TEST_P(DividedModels, TrainAsOneRank) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    SCOPED_TRACE(dtype_name(dtype));
    const LayeredSource source(twelve_heads(true));
    const RigOptions rig{.compute = dtype, .device = device_, .source = &source};
    expect_same_as_one(train_on({4, 2}, rig), train_on({4, 1}, rig)[0]);
  }
}

TEST_P(DividedModels, SampleAsOneRank) {
  const LayeredSource source(twelve_heads(false));
  TrainerOptions options = options_of();
  options.max_tokens = 128;
  const auto samples = [&](const Division& d) {
    std::vector<std::vector<Sample>> out(static_cast<size_t>(d.ranks));
    on_ranks(d, {.device = device_, .source = &source}, options, [&](TrainRig& rig, int rank) {
      out[static_cast<size_t>(rank)] = sampled_and_computed(rig);
    });
    return out;
  };
  const std::vector<Sample> one = samples({4, 1})[0];
  for (const std::vector<Sample>& rank : samples({4, 2})) expect_same_samples(rank, one);
}

// Log-probs, entropies and whole rows of logits.
TEST_P(DividedModels, HaveTheOutputsOfOneRank) {
  const auto outputs = [&](const Division& d) {
    std::vector<std::vector<float>> out(static_cast<size_t>(d.ranks));
    on_ranks(d, {.device = device_}, options_of(), [&](TrainRig& rig, int rank) {
      out[static_cast<size_t>(rank)] = forward_outputs(rig);
    });
    return out;
  };
  const std::vector<float> one = outputs({2, 1})[0];
  for (const std::vector<float>& rank : outputs({2, 2})) EXPECT_TRUE(same_bits(rank, one));
}

TEST_P(DividedModels, DistillWholeRowsAsOneRank) {
  const auto trained = [&](const Division& d) {
    std::vector<std::vector<float>> out(static_cast<size_t>(d.ranks));
    TrainerOptions o = options_of();
    o.objective = Objective::kDistill;
    o.distill = {true, {DistillKl::kForward, 0.25}, 1};
    o.vocabulary_ranks = d.ranks;
    on_ranks(d, {.model = "llama", .teacher = "smollm2", .device = device_}, o,
             [&](TrainRig& rig, int rank) {
               std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 11);
               store_logprobs(rig, samples);
               rig.trainer->step(with_advantages(samples));
               out[static_cast<size_t>(rank)] = all_weights(rig.model(), WholeTensors(rig.model()));
             });
    return out;
  };
  const std::vector<float> one = trained({2, 1})[0];
  for (const std::vector<float>& rank : trained({2, 2})) EXPECT_TRUE(same_bits(rank, one));
}

// What a forward reads, in the order of the pieces of one rank.
std::vector<std::byte> bytes_read(const Model& model) {
  std::vector<std::byte> out;
  for (const WeightPiece& piece :
       weight_pieces(model.compute().device(), model.config(), model.compute_dtype())) {
    const std::span<std::byte> place = place_of(piece, model.published(), model.config());
    out.resize(out.size() + place.size());
    DeviceBytes(model.compute(), place.data(), place.size())
        .read(std::span(out).last(place.size()));
  }
  return out;
}

TEST_P(DividedModels, PublishTheWeightsOfOneRank) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    SCOPED_TRACE(dtype_name(dtype));
    const LayeredSource source(twelve_heads(false));
    const auto model = [&](const ModelOptions& options) {
      return TinyModel(source, {make_thread_executor(1), device_}, dtype, options);
    };
    const TinyModel one = model({.block_size = 16, .split = {4, 0, 4}});
    const std::vector<std::byte> want = bytes_read(*one.model);
    run_local_ranks(2, [&](std::shared_ptr<Transport> transport) {
      const std::unique_ptr<Compute> copies =
          one.compute->device().make_compute(*one.executor, dtype, nullptr);
      comm::Group group(transport, {.timeout_ns = kLongNs, .staging = staging_of(*copies)});
      const TinyModel tiny = model({.block_size = 16,
                                    .split = {4, 2 * group.rank(), 2},
                                    .tensor = TensorRanks(group),
                                    .rollout_bucket_bytes = 5000});
      tiny.model->mark_masters_changed();
      tiny.model->publish();
      EXPECT_TRUE(bytes_read(tiny.model->rollout()) == want);
    });
  }
}

}  // namespace
}  // namespace rl::testing
