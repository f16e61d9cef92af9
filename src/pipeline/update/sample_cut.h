// trainer.oversize = cut: samples of more than trainer.seq_len rows are trained on as if they had
// ended there. Their rewards stay; token rewards of the tokens cut off do not count.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/config/settings.gen.h"
#include "pipeline/update/batch_preparation.h"
#include "profile/metrics.h"

namespace rl {

class SampleCut {
 public:
  explicit SampleCut(const Settings& settings);

  // A batch, with copies of the samples that were cut.
  struct Batch {
    ScoredSamples whole;
    std::vector<SamplePtr> samples;  // empty: none was cut, nor are token rewards
    std::vector<std::vector<double>> token_rewards;
    int64_t cut_samples = 0, cut_tokens = 0;
    ScoredSamples view() const;
  };
  // A sample whose arrays do not match is left to the checks that refuse it.
  Batch apply(const ScoredSamples& batch) const;
  // training/cut_samples and training/cut_tokens; nothing without the option.
  void count(const Batch& batch, MetricList& metrics) const;

 private:
  bool is_too_long(const SamplePtr& sample) const;

  int64_t max_tokens_;  // 0: nothing is cut
};

}  // namespace rl
