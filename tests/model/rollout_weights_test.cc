// Packed weights that ranks which divide a model give each other: each then has those of one rank
// with the same parts, byte for byte, whatever the size of a bucket.
#include "model/rollout_weights.h"

#include <gtest/gtest.h>

#include <cstring>

#include "../comm/local_ranks.h"
#include "model/weight_pieces.h"
#include "support/compute_dtypes.h"
#include "support/expect_error.h"
#include "support/layered_model.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

struct Division {
  int64_t parts;
  int tensor, stages;
  int ranks() const { return tensor * stages; }
};

// Values that follow from the name of a tensor and the place in it.
void set_masters(Model& model) {
  model.mark_masters_changed();
  for (const Parameter& p : model.layout().parameters()) {
    const auto key = static_cast<int64_t>(fnv1a(p.tensor()) % 1000);
    for (int64_t i = 0; i < p.size; ++i) {
      const int64_t row = p.first_row + i / p.columns(), column = p.first_column + i % p.columns();
      model.master()[p.offset + i] =
          static_cast<float>((key + 31 * row + 17 * column) % 509 - 254) / 256.0f;
    }
  }
}

// All that a forward reads of a version, in the order of the pieces of one rank.
std::vector<std::byte> bytes_read(const Model& model) {
  std::vector<std::byte> out;
  for (const WeightPiece& piece :
       weight_pieces(model.compute().device(), model.config(), model.compute_dtype())) {
    const std::span<std::byte> place = place_of(piece, model.published(), model.config());
    out.insert(out.end(), place.begin(), place.end());
  }
  return out;
}

std::vector<std::byte> bytes_of_one_rank(const WeightSource& source, Dtype compute, int64_t parts) {
  const ModelOptions options{.block_size = 16, .split = {parts, 0, parts}};
  const TinyModel one(source, {make_thread_executor(1)}, compute, options);
  set_masters(*one.model);
  one.model->publish();
  return bytes_read(*one.model);
}

// Bytes of what forwards read of a rank's weights: its packed matrices, and its other parameters,
// of which norms are the first rank's.
uint64_t own_bytes(const Model& model) {
  uint64_t bytes = model.trained().packed().memory().size();
  for (const Parameter& p : model.layout().parameters()) {
    const bool packed = p.name.find("_proj.weight") != std::string::npos ||
                        p.name.starts_with("lm_head") || model.layout().is_copy(p.name);
    const bool first = model.tensor_ranks().rank() == 0 || p.part >= 0;
    if (!packed && first) bytes += static_cast<uint64_t>(p.size) * sizeof(float);
  }
  return bytes;
}

// What a rank knows of its model, and sends.
struct RankModel {
  const Model& model;
  const TensorRanks& tensor;
  const StageRanks& stages;
  std::function<uint64_t()> sent_weights;
};

void on_ranks(const WeightSource& source, Dtype compute, const Division& d, uint64_t bucket_bytes,
              const std::function<void(Model&, const RankModel&)>& work) {
  run_local_ranks(d.ranks(), [&](std::shared_ptr<Transport> transport) {
    const Mesh mesh({.tensor = d.tensor, .pipeline = d.stages}, d.ranks(), transport->rank());
    comm::Group group(transport, mesh, Axis::kTensor, {kLongNs});
    StageChannels channels(transport, mesh, [] { return GroupOptions{kLongNs}; });
    ModelOptions options{.block_size = 16, .rollout_bucket_bytes = bucket_bytes};
    const int64_t count = d.parts / d.tensor;
    options.split = {d.parts, group.rank() * count, count};
    options.cut = {d.stages};
    if (d.tensor > 1) options.tensor = TensorRanks(group);
    if (d.stages > 1) options.stages = StageRanks(channels);
    const TinyModel tiny(source, {make_thread_executor(1)}, compute, options);
    const auto sent = [&] {
      Traffic all = group.traffic();
      all += StageRanks(channels).traffic();
      return all.of(TrafficUse::kWeights).sent;
    };
    work(*tiny.model, {*tiny.model, options.tensor, options.stages, sent});
  });
}

void expect_bytes_of_one_rank(const WeightSource& source, Dtype compute, const Division& d) {
  SCOPED_TRACE(str(d.parts, " parts, ", d.tensor, " x ", d.stages, " ranks"));
  const std::vector<std::byte> one = bytes_of_one_rank(source, compute, d.parts);
  for (const uint64_t bucket : {uint64_t{5000}, uint64_t{1} << 24}) {
    on_ranks(source, compute, d, bucket, [&](Model& model, const RankModel& rank) {
      EXPECT_EQ(bytes_read(model.rollout()).size(), one.size());
      set_masters(model);
      model.publish();
      EXPECT_TRUE(bytes_read(model.rollout()) == one) << bucket;
      EXPECT_EQ(model.rollout().version(), model.version());
      const uint64_t own = own_bytes(model);
      uint64_t stage = 0;
      std::vector<uint64_t> all(static_cast<size_t>(d.tensor), own);
      rank.tensor.gather_bytes(std::as_writable_bytes(std::span(all)));
      for (const uint64_t bytes : all) stage += bytes;
      const auto tensor = static_cast<uint64_t>(d.tensor), stages = static_cast<uint64_t>(d.stages);
      EXPECT_EQ(rank.sent_weights(), (tensor - 1) * own + (stages - 1) * stage);
    });
  }
}

TEST(RolloutWeights, AreThoseOfOneRank) {
  const LayeredSource uniform(uniform_config()), normed(twelve_heads(true)),
      biased(twelve_heads(false)), layered(layered_normed_config());
  for (const Dtype compute : compute_dtypes()) {
    SCOPED_TRACE(dtype_name(compute));
    for (const Division& d : {Division{2, 2, 1}, {2, 1, 2}, {2, 2, 2}, {1, 1, 4}})
      expect_bytes_of_one_rank(uniform, compute, d);
    for (const Division& d : {Division{3, 3, 1}, {4, 2, 1}, {6, 3, 2}}) {
      expect_bytes_of_one_rank(normed, compute, d);
      expect_bytes_of_one_rank(biased, compute, d);
    }
    expect_bytes_of_one_rank(layered, compute, {1, 1, 2});
  }
}

TEST(RolloutWeights, AreReadFromTheFileBeforeTheFirstPublication) {
  const LayeredSource source(uniform_config());
  const TinyModel one(source, {make_thread_executor(1)}, Dtype::kF32,
                      {.block_size = 16, .split = {2, 0, 2}});
  on_ranks(source, Dtype::kF32, {2, 2, 1}, 1000, [&](Model& model, const RankModel& rank) {
    EXPECT_TRUE(bytes_read(model.rollout()) == bytes_read(*one.model));
    EXPECT_EQ(rank.sent_weights(), 0u);
  });
}

// Masters that are packed between two optimizer steps are sent once, when they are published.
TEST(RolloutWeights, ComeWithAPublicationAlone) {
  const LayeredSource source(uniform_config());
  on_ranks(source, Dtype::kF32, {2, 2, 1}, 1, [&](Model& model, const RankModel& rank) {
    const std::vector<std::byte> before = bytes_read(model.rollout());
    const uint64_t release = model.rollout().published().release();
    set_masters(model);
    model.repack();
    model.repack();
    EXPECT_TRUE(bytes_read(model.rollout()) == before);
    EXPECT_EQ(rank.sent_weights(), 0u);
    model.release_as(7);
    EXPECT_FALSE(bytes_read(model.rollout()) == before);
    EXPECT_EQ(model.rollout().version(), 7u);
    EXPECT_NE(model.rollout().published().release(), release);
    EXPECT_EQ(rank.sent_weights(), own_bytes(model));
  });
}

TEST(RolloutWeights, DoNotChangeUnderAReader) {
  const LayeredSource source(uniform_config());
  on_ranks(source, Dtype::kF32, {2, 1, 1}, 1000, [](Model& model, const RankModel&) {
    const WeightPin pin = model.rollout().pin();
    EXPECT_EQ(expect_error(Code::kBusy, [&] { model.publish(); }).key, "model.compute_copies");
    EXPECT_EQ(model.version(), 0u);
  });
}

TEST(RolloutWeights, NeedNoMoreThanABucketAtATime) {
  EXPECT_EQ(bucket_buffer_bytes(1000, 2, 10'000), 896u);  // two of seven lines
  EXPECT_EQ(bucket_buffer_bytes(1000, 3, 100), 384u);     // what they have, in whole lines
  EXPECT_EQ(bucket_buffer_bytes(1, 3, 10'000), 192u);     // a line each
  EXPECT_EQ(bucket_buffer_bytes(1000, 2, 0), 0u);
}

}  // namespace
}  // namespace rl::testing
