// Training again on the recorded batches of a run.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "device/cpu/executors.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/session/buffer_session.h"
#include "pipeline/update/trainer_session.h"
#include "session_options.h"

namespace rl::testing {

// A fresh trainer on the weights that a run begins with.
class Replay {
 public:
  explicit Replay(OptionSet o) : options_(std::move(o)) {
    RuntimeSeams seams;
    seams.executor = make_thread_executor(thread_count_of(options_));
    model_ = LoadedModel::open(std::make_shared<Runtime>(options_, std::move(seams)), options_,
                               PlanUse::kTrain);
    trainer_ = std::make_unique<TrainerSession>(model_, for_session(options_));
    buffer_ = std::make_unique<BufferSession>(options_, 1000);
  }
  // Returns the number of samples trained on.
  size_t step(const std::string& path) {
    buffer_->load(path, model_.get());
    const std::vector<SamplePtr> batch = buffer_->take(1000);
    EXPECT_EQ(buffer_->num_samples(), 0);
    if (!batch.empty()) metrics.push_back(trainer_->step(batch));
    return batch.size();
  }
  uint64_t digest() const { return model_->weight_digest(); }
  uint64_t version() const { return model_->version(); }

  std::vector<MetricList> metrics;

 private:
  OptionSet options_;
  std::shared_ptr<LoadedModel> model_;
  std::unique_ptr<TrainerSession> trainer_;
  std::unique_ptr<BufferSession> buffer_;
};

}  // namespace rl::testing
