// Weights that a host sets while requests run on another compute copy, under versions that it
// names.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "pipeline/config/run_options.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/session/weight_tensors.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::for_session;
using testing::tiny_options;

constexpr const char* kNorm = "model.norm.weight";

class LiveWeights : public ::testing::Test {
 protected:
  void open(const char* copies = "2") {
    options_ = for_session(tiny_options(dir_));
    options_.set_text("model.compute_copies", copies);
    model_ = LoadedModel::open(std::make_shared<Runtime>(options_), options_, PlanUse::kTrain);
    engine_ = std::make_unique<EngineSession>(model_, options_);
    trainer_ = std::make_unique<TrainerSession>(model_, options_);
  }
  void submit(int64_t samples) {
    Request r = request_from(options_);
    r.prompt = {1, 2, 3};
    r.num_samples = samples;
    r.max_new_tokens = 20;
    engine_->submit(r);
  }
  // The last norm scaled by a factor.
  uint64_t scale(float factor, uint64_t as_version = 0) {
    const TensorPtr now = copy_weight(*model_, kNorm);
    const OwnedTensor made = make_tensor(ElementType::kF32, now->shape());
    for (int64_t i = 0; i < now->num_elements(); ++i) {
      reinterpret_cast<float*>(made.data)[i] = static_cast<const float*>(now->data())[i] * factor;
    }
    return set_weights(*model_, std::vector<NamedTensor>{{kNorm, made.tensor}}, as_version);
  }
  std::vector<float> logprobs(const Sample& s) {
    return trainer_->logprobs(s.ids, s.prompt_tokens, s.temperature);
  }

  const TempDir dir_;
  OptionSet options_;
  std::shared_ptr<LoadedModel> model_;
  std::unique_ptr<EngineSession> engine_;
  std::unique_ptr<TrainerSession> trainer_;
};

TEST_F(LiveWeights, RequestsGoOnUnderThemFromTheirNextToken) {
  open();
  submit(3);
  for (int i = 0; i < 10; ++i) engine_->step();
  EXPECT_EQ(scale(1.5f, 7), 7u);
  EXPECT_EQ(model_->version(), 7u);
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  const auto samples = engine_->take_finished();
  ASSERT_EQ(samples.size(), 3u);
  for (const SamplePtr& s : samples) {
    std::vector<uint64_t> versions(10, 0);
    versions.resize(20, 7);
    EXPECT_EQ(s->versions, versions);
    const std::vector<float> now = logprobs(*s);
    EXPECT_TRUE(std::equal(now.begin() + 10, now.end(), s->logprobs.begin() + 10));
    EXPECT_FALSE(std::equal(now.begin(), now.begin() + 10, s->logprobs.begin()));
  }
}

TEST_F(LiveWeights, VersionsThatAHostNamesGrow) {
  open();
  EXPECT_EQ(scale(2, 5), 5u);
  const uint64_t digest = model_->weight_digest();
  for (const uint64_t wrong : {uint64_t{5}, uint64_t{1}, kUnknownVersion}) {
    const Error e = expect_error(Code::kOutOfRange, [&] { scale(2, wrong); });
    EXPECT_EQ(e.key, "as_version");
  }
  EXPECT_EQ(model_->weight_digest(), digest);
  EXPECT_EQ(scale(0.5f), 6u);
  EXPECT_EQ(scale(1, 100), 100u);
}

TEST_F(LiveWeights, OneCopyIsBusyWhileRequestsRun) {
  open("1");
  submit(1);
  engine_->step();
  expect_error(Code::kBusy, [&] { scale(2); });
  engine_->run();
  EXPECT_EQ(scale(2, 3), 3u);
}

TEST_F(LiveWeights, AnEngineOfAnotherThreadReadsOneVersionPerToken) {
  open();
  submit(4);
  std::thread other([&] { engine_->run(); });
  uint64_t version = 0;
  for (int i = 0; i < 5; ++i) version = scale(i % 2 == 0 ? 1.25f : 0.8f);
  other.join();
  EXPECT_EQ(version, 5u);
  submit(1);
  engine_->run();
  const auto samples = engine_->take_finished();
  ASSERT_EQ(samples.size(), 5u);
  for (const SamplePtr& s : samples) {
    EXPECT_TRUE(std::is_sorted(s->versions.begin(), s->versions.end()));
  }
  EXPECT_EQ(samples.back()->versions.front(), 5u);
  EXPECT_EQ(logprobs(*samples.back()), samples.back()->logprobs);
}

}  // namespace
}  // namespace rl
