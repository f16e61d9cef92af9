// Every key of trainer.* that cuts a batch acts on a trainer made from options, none of them
// changes a log-prob, and what cannot act is refused by name.
#include <algorithm>
#include <cmath>

#include "core/violations.h"
#include "pipeline/trainer_part.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::tiny_options;

// Four groups of four, prompts of 5 to 8 tokens, answers of 3 to 18.
std::vector<SamplePtr> batch_of_groups(TrainerPart& trainer) {
  std::vector<SamplePtr> out;
  for (int32_t i = 0; i < 16; ++i) {
    const int32_t group = i / 4, prompt = 5 + group;
    auto s = std::make_shared<Sample>();
    s->id = static_cast<uint64_t>(i) + 1;
    s->ordinal = static_cast<uint64_t>(group);
    s->slot = static_cast<uint32_t>(i % 4);
    for (int32_t t = 0; t < prompt; ++t) s->ids.push_back(10 * group + t);
    for (int32_t t = 0; t < 3 + i; ++t) s->ids.push_back((31 * i + 7 * t) % 256);
    s->prompt_tokens = prompt;
    s->logprobs = trainer.logprobs(s->ids, prompt, 1.0f);
    s->versions.assign(s->logprobs.size(), 0);
    s->loss_mask.assign(s->logprobs.size(), 1);
    s->reward = i % 3;
    s->scored = true;
    out.push_back(std::move(s));
  }
  return out;
}

// A trainer of options that differ from tiny_options by assignments.
class Bench {
 public:
  explicit Bench(const std::vector<const char*>& assignments) : options_(tiny_options(dir_)) {
    for (const char* text : assignments) options_.set_assignment(text);
    runtime_ = std::make_shared<Runtime>(options_);
    model_ = LoadedModel::open(runtime_, options_, PlanUse::kTrain);
    trainer_ = std::make_unique<TrainerPart>(model_, options_);
  }
  TrainerPart& trainer() { return *trainer_; }
  MetricList step() {
    const MetricList metrics = trainer_->step(batch_of_groups(*trainer_));
    EXPECT_EQ(metrics.get("training/logprob_max_abs_diff"), 0.0);
    return metrics;
  }

 private:
  TempDir dir_;
  OptionSet options_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<LoadedModel> model_;
  std::unique_ptr<TrainerPart> trainer_;
};

MetricList step_with(const std::vector<const char*>& assignments) { return Bench(assignments).step(); }

double value(const MetricList& metrics, const char* name) { return metrics.get(name).value(); }

// What no cut of a batch changes; sums in double differ by their order only.
void expect_same_step(const MetricList& a, const MetricList& b) {
  for (const char* name : {"training/tokens", "training/loss_tokens", "training/samples",
                           "training/optimizer_steps", "training/logprob_compared_tokens"}) {
    EXPECT_EQ(value(a, name), value(b, name)) << name;
  }
  for (const char* name : {"actor/loss", "actor/entropy", "actor/ratio_max"})
    EXPECT_NEAR(value(a, name), value(b, name), 1e-12) << name;
  EXPECT_NEAR(value(a, "actor/grad_norm"), value(b, "actor/grad_norm"),
              1e-6 * value(b, "actor/grad_norm"));  // N4
}

TEST(TrainerKeys, SharedPrefixComputesAPromptOnce) {
  const MetricList once = step_with({}), each = step_with({"trainer.shared_prefix=false"});
  expect_same_step(once, each);
  EXPECT_EQ(value(each, "training/computed_rows"), value(each, "training/tokens"));
  // Three of four samples go without the rows of their prompt of 5, 6, 7 and 8 tokens.
  EXPECT_EQ(value(once, "training/computed_rows"), value(each, "training/tokens") - 3 * (5 + 6 + 7 + 8));
}

}  // namespace
}  // namespace rl
