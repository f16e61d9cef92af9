// Every key of trainer.* that cuts a batch acts on a trainer made from options, none of them
// changes a log-prob, and what cannot act is refused by name.
#include <algorithm>
#include <cmath>

#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::tiny_options;

// Four groups of four, prompts of 5 to 8 tokens, responses of 3 to 18.
std::vector<SamplePtr> batch_of_groups(TrainerSession& trainer) {
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
    trainer_ = std::make_unique<TrainerSession>(model_, testing::for_session(options_));
  }
  TrainerSession& trainer() { return *trainer_; }
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
  std::unique_ptr<TrainerSession> trainer_;
};

MetricList step_with(const std::vector<const char*>& assignments) {
  return Bench(assignments).step();
}

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
  EXPECT_EQ(value(once, "training/computed_rows"),
            value(each, "training/tokens") - 3 * (5 + 6 + 7 + 8));
}

TEST(TrainerKeys, GlobalBatchSizeSetsTheMinibatches) {
  EXPECT_EQ(value(step_with({"trainer.global_batch_size=4"}), "training/optimizer_steps"), 4);
  EXPECT_EQ(value(step_with({"trainer.global_batch_size=7"}), "training/optimizer_steps"), 3);
  EXPECT_EQ(value(step_with({"trainer.global_batch_size=16"}), "training/optimizer_steps"), 1);
  // The same minibatches under either name.
  const MetricList by_size = step_with({"trainer.global_batch_size=8"});
  const MetricList by_count = step_with({"trainer.num_minibatches=2"});
  EXPECT_EQ(by_size.without_times().to_json(), by_count.without_times().to_json());
}

TEST(TrainerKeys, EpochsRepeatTheBatch) {
  const MetricList twice = step_with({"trainer.epochs=2"});
  EXPECT_EQ(value(twice, "training/optimizer_steps"), 2);
  EXPECT_EQ(value(twice, "training/tokens"), 2 * value(step_with({}), "training/tokens"));
}

// Each against the whole batch in one micro-batch: another cut of the same step.
TEST(TrainerKeys, MicroBatchesAreCutByTokensOrBySequences) {
  const MetricList whole = step_with({});
  EXPECT_EQ(value(whole, "training/micro_batches"), 1);
  const std::vector<std::pair<std::vector<const char*>, double>> cuts = {
      // Groups of 19, 36, 53 and 70 rows; sequences of 34, 54, 74 and 94.
      {{"trainer.max_tokens_per_device=80"}, 3},
      {{"trainer.max_tokens_per_device=80", "trainer.shared_prefix=false"}, 4},
      {{"trainer.dynamic_batching=false"}, 16},
      {{"trainer.dynamic_batching=false", "trainer.micro_batch_size=5"}, 4},
      {{"trainer.dynamic_batching=false", "trainer.micro_batch_size=16"}, 1},
      {{"trainer.dynamic_batching=false", "trainer.micro_batch_size=3",
        "trainer.sequence_packing=false"},
       6},
  };
  for (const auto& [assignments, micro_batches] : cuts) {
    SCOPED_TRACE(assignments.back());
    const MetricList cut = step_with(assignments);
    EXPECT_EQ(value(cut, "training/micro_batches"), micro_batches);
    expect_same_step(cut, whole);
  }
}

TEST(TrainerKeys, PaddingAddsRowsAndNothingElse) {
  const MetricList whole = step_with({});
  const double rows = value(whole, "training/computed_rows");
  const auto rows_with = [&](const std::vector<const char*>& assignments) {
    const MetricList padded = step_with(assignments);
    expect_same_step(padded, whole);
    return value(padded, "training/computed_rows");
  };
  EXPECT_EQ(rows_with({"trainer.pad_to_multiple_of=128"}), std::ceil(rows / 128) * 128);
  // The micro-batches of a budget of 80 tokens, each of exactly as many rows.
  EXPECT_EQ(rows_with({"trainer.seq_len=80"}), 3 * 80);
  // Sixteen sequences as long as the longest, which has 8 + 18 - 1 rows, and no shared prompt.
  EXPECT_EQ(rows_with({"trainer.sequence_packing=false"}), 16 * 25);
  EXPECT_EQ(rows_with({"trainer.sequence_packing=false", "trainer.pad_to_multiple_of=16"}),
            16 * 32);
  EXPECT_EQ(rows_with({"trainer.sequence_packing=false", "trainer.seq_len=31"}), 16 * 31);
}

TEST(TrainerKeys, BalanceSharesOutTheWork) {
  const MetricList whole = step_with({});
  for (const char* balance :
       {"trainer.balance=none", "trainer.balance=tokens", "trainer.balance=flops"}) {
    const MetricList cut = step_with({"trainer.max_tokens_per_device=100", balance});
    expect_same_step(cut, whole);
    EXPECT_GE(value(cut, "training/micro_batches"), 2) << balance;
    EXPECT_LE(value(cut, "training/micro_batches"), 3) << balance;
  }
}

TEST(TrainerKeys, ASampleAboveABudgetGoesAloneOrIsRefused) {
  const MetricList whole = step_with({});
  const MetricList alone =
      step_with({"trainer.max_tokens_per_device=16", "trainer.oversize=alone"});
  expect_same_step(alone, whole);
  EXPECT_GT(value(alone, "training/micro_batches"), 10);
  expect_same_step(step_with({"trainer.seq_len=16", "trainer.oversize=alone"}), whole);
  expect_same_step(
      step_with({"trainer.logprob_max_tokens_per_device=16", "trainer.oversize=alone"}), whole);
}

uint64_t planned_workspace(const std::vector<const char*>& assignments) {
  TempDir dir;
  OptionSet o = tiny_options(dir);
  for (const char* text : assignments) o.set_assignment(text);
  return plan_memory(o, real_fs(), PlanUse::kTrain).train_workspace_bytes;
}

TEST(TrainerKeys, MemoryIsPlannedForTheLargestMicroBatch) {
  const auto of = [](const char* size) {
    return planned_workspace({"trainer.dynamic_batching=false", size});
  };
  const uint64_t one = of("trainer.micro_batch_size=1"), two = of("trainer.micro_batch_size=2");
  EXPECT_GT(two, one);
  // The head's chunk of tokens is full before eight samples are.
  EXPECT_GE(of("trainer.micro_batch_size=8") - one, 4 * (two - one));
  // A sample of 32 tokens goes alone, one of 16 in the other plan.
  EXPECT_GT(planned_workspace({"trainer.max_tokens_per_device=8", "trainer.oversize=alone"}),
            planned_workspace({"trainer.max_tokens_per_device=8", "trainer.oversize=alone",
                               "engine.max_model_len=16"}));
}

TEST(TrainerKeys, TheForwardBudgetIsItsOwn) {
  EXPECT_GT(planned_workspace({"trainer.logprob_max_tokens_per_device=100000"}),
            planned_workspace({"trainer.logprob_max_tokens_per_device=64"}));
  // The reference scores in micro-batches of that size; nothing else follows from it.
  const std::vector<const char*> kl = {"algo.kl.where=loss", "algo.kl.coef=0.1"};
  std::vector<const char*> narrow = kl;
  narrow.push_back("trainer.logprob_max_tokens_per_device=40");
  EXPECT_EQ(step_with(kl).without_times().to_json(), step_with(narrow).without_times().to_json());
}

struct Refused {
  std::vector<const char*> assignments;
  const char *key, *other;
};

// A function of the host gets arrays of samples that were checked.
TEST(TrainerKeys, ASampleThatCannotBeTrainedOnIsRefusedBeforeTheHostsFunctionIsCalled) {
  Bench bench({"algo.advantage=custom"});
  int calls = 0;
  bench.trainer().set_custom_advantage([&](const AlgoArrays&, std::span<double>) { ++calls; });
  const std::pair<const char*, void (*)(Sample&)> spoilers[] = {
      {"ids", [](Sample& s) { s.ids.back() = 256; }},
      {"logprobs", [](Sample& s) { s.logprobs.push_back(-1); }},
      {"versions", [](Sample& s) { s.versions.pop_back(); }},
      {"loss_mask", [](Sample& s) { s.loss_mask.push_back(1); }},
      {"loss_mask", [](Sample& s) { s.loss_mask[0] = 2; }},
      {"temperature", [](Sample& s) { s.temperature = 0; }},
      {"purpose", [](Sample& s) { s.purpose = Purpose::kEval; }}};
  for (const auto& [key, spoil] : spoilers) {
    const std::vector<SamplePtr> batch = batch_of_groups(bench.trainer());
    spoil(*batch[9]);
    try {
      bench.trainer().step(batch);
      ADD_FAILURE() << key << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.key, key) << e.message;
      EXPECT_TRUE(contains(e.message, "sample 10:"));
    }
    EXPECT_EQ(calls, 0) << key;
  }
  bench.trainer().step(batch_of_groups(bench.trainer()));
  EXPECT_EQ(calls, 1);
}

TEST(TrainerKeys, SizesThatDoNotGoTogetherAreNamed) {
  const std::vector<Refused> cases = {
      {{"trainer.max_tokens_per_device=30"},
       "trainer.max_tokens_per_device",
       "engine.max_model_len"},
      {{"trainer.seq_len=30"}, "trainer.seq_len", "engine.max_model_len"},
      {{"trainer.logprob_max_tokens_per_device=30"},
       "trainer.logprob_max_tokens_per_device",
       "engine.max_model_len"},
      {{"trainer.max_tokens_per_device=40", "trainer.pad_to_multiple_of=48"},
       "trainer.pad_to_multiple_of",
       "trainer.max_tokens_per_device"},
      {{"trainer.max_tokens_per_device=40", "trainer.seq_len=48", "trainer.sequence_packing=false"},
       "trainer.seq_len",
       "trainer.max_tokens_per_device"},
      {{"trainer.global_batch_size=5"}, "trainer.global_batch_size", "pipeline.samples_per_prompt"},
  };
  for (const Refused& c : cases) {
    TempDir dir;
    OptionSet o = tiny_options(dir);
    for (const char* text : c.assignments) o.set_assignment(text);
    try {
      plan_memory(o, real_fs(), PlanUse::kPipeline);
      ADD_FAILURE() << c.assignments.back() << " is planned";
    } catch (const Error& error) {
      EXPECT_EQ(error.code, Code::kConflict) << error.message;
      EXPECT_EQ(error.key, c.key) << error.message;
      EXPECT_EQ(error.other_key, c.other) << error.message;
    }
  }
  // A pipeline has so many samples in a step; a trainer of its own has those that it is given.
  TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_assignment("trainer.global_batch_size=5");
  plan_memory(o, real_fs(), PlanUse::kTrain);
  // Samples are counted, not prompts: 16 of 4 prompts.
  o.set_assignment("trainer.global_batch_size=8");
  plan_memory(o, real_fs(), PlanUse::kPipeline);
}

}  // namespace
}  // namespace rl
