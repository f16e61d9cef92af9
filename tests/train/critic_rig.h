// A critic on a fixture model, and the arrays that its steps learn from.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "formats/open/open_weight_source.h"
#include "train/critic.h"
#include "train_rig.h"

namespace rl::testing {

class CriticRig {
 public:
  CriticRig(const RigOptions& rig, const CriticOptions& options)
      : ranks_(rig.ranks),
        executor_(make_thread_executor(rig.threads)),
        compute_(rig.device.make_compute(*executor_, rig.compute, nullptr)) {
    const auto source =
        open_weight_source(real_fs(), TrainRig::path_of(rig.model), ModelHead::kScalar);
    ModelOptions model_options;
    model_options.block_size = 16;
    model_options.masters = cut_of(*source, rig, options);
    model_options.master_ranks = rig.master_ranks;
    model_ = std::make_unique<Model>(*source, *compute_, model_options);
    sizes = Critic::plan(model_->config(), model_->kv_shape(), options, compute_->num_threads(),
                         rig.device);
    workspace_ = Arena("test critic workspace", sizes.workspace, Touch::kNow, place_on(*compute_));
    fill_bytes(*compute_, workspace_, 0x7f);  // nothing may rely on zeros
    host_workspace_ = Arena("test critic host workspace", sizes.host_workspace);
    critic = std::make_unique<Critic>(
        *model_, options, workspace_.data(),
        TrainerTools{
            .host_workspace = host_workspace_.data(), .ranks = rig.ranks, .context = rig.context});
  }
  Model& model() { return *model_; }
  std::vector<float> masters() {
    if (model().master_cut().divides()) return all_masters(model(), ranks_);
    return values_on(*compute_, model().master(), model().layout().total());
  }
  std::vector<float> gradients() {
    const auto g = critic->gradients();
    return {g.begin(), g.end()};
  }
  std::vector<std::vector<float>> values(const std::vector<Sample>& samples) {
    std::vector<std::vector<float>> values(samples.size());
    std::vector<const Sample*> in;
    std::vector<std::span<float>> out;
    for (size_t i = 0; i < samples.size(); ++i) {
      values[i].resize(static_cast<size_t>(samples[i].generated()));
      in.push_back(&samples[i]);
      out.emplace_back(values[i]);
    }
    critic->values(in, out);
    return values;
  }
  void fill_head(unsigned seed) { testing::fill_head(model(), seed); }

  TrainerSizes sizes;
  std::unique_ptr<Critic> critic;

 private:
  const DataRanks ranks_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Compute> compute_;
  std::unique_ptr<Model> model_;
  Arena workspace_, host_workspace_;
};

// Returns near the values, so that some tokens are clipped and some are not.
struct CriticData {
  CriticData(CriticRig& rig, const std::vector<Sample>& samples, unsigned seed)
      : old_values(rig.values(samples)), returns(old_values) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    for (size_t i = 0; i < samples.size(); ++i) {
      for (float& v : returns[i]) v += normal(rng);
      for (float& v : old_values[i]) v += 0.4f * normal(rng);
      batch.push_back({&samples[i], old_values[i], returns[i]});
    }
  }
  std::vector<std::vector<float>> old_values, returns;
  std::vector<CriticSample> batch;
};

}  // namespace rl::testing
