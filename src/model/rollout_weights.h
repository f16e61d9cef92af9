// The weights that the engine of a rank reads if it generates alone with a model that ranks divide:
// packed weights of all parts and stages, as one rank with the same parts has them, and so with the
// same bits. They are a model of their own, without masters. Ranks that divide the trained model
// fill them together when it is published: each gives the others what it has packed, first those
// of a stage, then the stages, in buckets of bounded size.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "model/model.h"
#include "model/ranks/bucket_exchange.h"

namespace rl {

inline constexpr const char* kPublicationBuffer = "publication buffer";

class RolloutWeights {
 public:
  // Reads the weights of the source. `trained` has packed its own, and outlives it; its options are
  // those that it was made with.
  RolloutWeights(const WeightSource& source, const Model& trained, const ModelOptions& options);
  RolloutWeights(const RolloutWeights&) = delete;
  ~RolloutWeights();

  const Model& model() const { return *model_; }
  // Takes what the ranks have packed last, as the given version. They call it together.
  void take(uint64_t version);

  // The configuration of such a model; config: of all stages, and of any of the parts.
  static ModelConfig config_of(ModelConfig config);
  // Of the buffer, which is the same on all ranks. whole: of all stages, divided into parts.
  static uint64_t buffer_bytes(const Device& device, const ModelConfig& whole, const StageCut& cut,
                               Dtype compute, uint64_t bucket_bytes, int64_t slice_width = 0);

 private:
  void take_parts();
  void take_stages();
  void exchange(const std::vector<BytePieces>& of_ranks, int rank, GatherPieces gather);

  const Model& trained_;
  const uint64_t bucket_bytes_;
  std::unique_ptr<Model> model_;
  Arena buffer_;
  BytePieces own_;                  // in the trained model
  std::vector<BytePieces> parts_;   // here, of each rank that has a part of this stage
  std::vector<BytePieces> stages_;  // and of each stage
};

}  // namespace rl
