// Both exchanges take places in the copy that engines read: a stage's are whole once its parts have
// come.
#include "model/rollout_weights.h"

#include <algorithm>

#include "core/error.h"
#include "model/weight_pieces.h"
#include "model/whole_tensors.h"

namespace rl {
namespace {

// How ranks divide a model, and the sizes of what they have of it.
class Division {
 public:
  // whole: of all stages, with the parts of any rank.
  Division(const Device& device, const ModelConfig& whole, const StageCut& cut, Dtype compute,
           int64_t slice_width)
      : device_(device), whole_(whole), cut_(cut), compute_(compute), slice_width_(slice_width) {}

  int part_ranks() const { return static_cast<int>(whole_.split.ranks()); }
  int stages() const { return static_cast<int>(cut_.stages); }
  // No other rank but the first, which has the norms, has more of a stage.
  int rank_with_most_tokens() const {
    return static_cast<int>(with_most_tokens(whole_).split.first / whole_.split.count);
  }
  std::vector<WeightPiece> of_part(int stage, int rank) const {
    const int64_t count = whole_.split.count;
    return of(stage, rank * count, count);
  }
  std::vector<WeightPiece> of_stage(int stage) const { return of(stage, 0, whole_.split.parts); }

 private:
  std::vector<WeightPiece> of(int stage, int64_t first, int64_t count) const {
    return weight_pieces(device_, with_stage(with_parts(whole_, first, count), cut_, stage),
                         compute_, slice_width_);
  }

  const Device& device_;
  const ModelConfig& whole_;
  const StageCut& cut_;
  const Dtype compute_;
  const int64_t slice_width_;
};

BytePieces places_of(const std::vector<WeightPiece>& pieces, const ComputeCopy& copy,
                     const ModelConfig& config) {
  BytePieces out;
  for (const WeightPiece& piece : pieces) out.push_back(place_of(piece, copy, config));
  return out;
}

ModelOptions rollout_options(ModelOptions options, const TensorSplit& split) {
  options.rollout_bucket_bytes = 0;
  options.compute_copies = 1;
  options.frozen = true;
  options.split = split;
  options.tensor = {};
  options.cut = {};
  options.stages = {};
  options.masters = {};
  options.master_ranks = {};
  return options;
}

}  // namespace

ModelConfig RolloutWeights::config_of(ModelConfig config) {
  const int64_t parts = config.split.parts;
  return with_parts(std::move(config), 0, parts);
}

uint64_t RolloutWeights::buffer_bytes(const Device& device, const ModelConfig& whole,
                                      const StageCut& cut, Dtype compute, uint64_t bucket_bytes,
                                      int64_t slice_width) {
  const Division division(device, whole, cut, compute, slice_width);
  uint64_t most_part = 0, most_stage = 0;
  for (int s = 0; s < division.stages(); ++s) {
    most_stage = std::max(most_stage, bytes_of(division.of_stage(s)));
    for (const int r : {0, division.rank_with_most_tokens()})
      most_part = std::max(most_part, bytes_of(division.of_part(s, r)));
  }
  uint64_t bytes = 0;
  if (division.part_ranks() > 1)
    bytes = bucket_buffer_bytes(bucket_bytes, division.part_ranks(), most_part);
  if (division.stages() > 1)
    bytes = std::max(bytes, bucket_buffer_bytes(bucket_bytes, division.stages(), most_stage));
  return bytes;
}

RolloutWeights::RolloutWeights(const WeightSource& source, const Model& trained,
                               const ModelOptions& options)
    : trained_(trained),
      bucket_bytes_(options.rollout_bucket_bytes),
      model_(std::make_unique<Model>(
          source, trained.compute(),
          rollout_options(options, config_of(trained.whole_config()).split))),
      buffer_(kPublicationBuffer,
              buffer_bytes(trained.compute().device(), trained.whole_config(), trained.stage_cut(),
                           trained.compute_dtype(), bucket_bytes_, options.slice_width),
              Touch::kLater, trained.compute().memory()) {
  const Division division(trained.compute().device(), trained.whole_config(), trained.stage_cut(),
                          trained.compute_dtype(), options.slice_width);
  const ComputeCopy& copy = model_->trained();
  const int stage = trained.stage_ranks().rank();
  own_ = places_of(division.of_part(stage, trained.tensor_ranks().rank()), trained.trained(),
                   trained.config());
  for (int r = 0; r < division.part_ranks(); ++r)
    parts_.push_back(places_of(division.of_part(stage, r), copy, model_->config()));
  for (int s = 0; s < division.stages(); ++s)
    stages_.push_back(places_of(division.of_stage(s), copy, model_->config()));
}
RolloutWeights::~RolloutWeights() = default;

void RolloutWeights::take(uint64_t version) {
  model_->replace_packed(version, [&] {
    take_parts();
    take_stages();
  });
}

// What this rank has is copied first.
void RolloutWeights::take_parts() {
  const TensorRanks& ranks = trained_.tensor_ranks();
  const BytePieces& here = parts_[static_cast<size_t>(ranks.rank())];
  RL_CHECK(bytes_of(here) == bytes_of(own_));
  for (size_t i = 0; i < here.size(); ++i) {
    copy_bytes(trained_.compute(), {own_[i].data(), here[i].data(), here[i].size()});
  }
  if (ranks.size() == 1) return;
  exchange(parts_, ranks.rank(), [&](std::span<std::byte> all, const Pieces& pieces) {
    ranks.gather_weights(all, pieces, trained_.compute().space());
  });
}

void RolloutWeights::take_stages() {
  const StageRanks& stages = trained_.stage_ranks();
  if (stages.alone()) return;
  exchange(stages_, stages.rank(), [&](std::span<std::byte> all, const Pieces& pieces) {
    stages.gather_weights(all, pieces);
  });
}

void RolloutWeights::exchange(const std::vector<BytePieces>& of_ranks, int rank,
                              GatherPieces gather) {
  uint64_t most = 0;
  for (const BytePieces& pieces : of_ranks) most = std::max(most, bytes_of(pieces));
  const uint64_t bytes =
      bucket_buffer_bytes(bucket_bytes_, static_cast<int>(of_ranks.size()), most);
  const std::span<std::byte> buffer = buffer_.span().first(static_cast<size_t>(bytes));
  exchange_in_buckets({trained_.compute(), of_ranks, rank, buffer}, gather);
}

}  // namespace rl
