// What each role refuses: every family of options that only the other one reads, one by one, and
// what would let the two wait for each other for ever. Nothing else of the registry is refused.
#include "pipeline/plan/role_check.h"

#include <algorithm>

#include "pipeline/plan/plan.h"
#include "role_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::fixture_model;
using testing::rollout_options;
using testing::train_options;
using Texts = std::vector<std::string>;

std::vector<Error> violations_of(const OptionSet& options) {
  Violations violations;
  check_role(options, violations);
  return violations.errors();
}

// One option that was set besides those of a run without a violation.
void expect_refused(OptionSet options, const std::string& assignment, Code code) {
  SCOPED_TRACE(assignment);
  EXPECT_TRUE(violations_of(options).empty());
  options.set_assignment(assignment);
  const std::vector<Error> found = violations_of(options);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, code) << found[0].message;
  EXPECT_EQ(found[0].key, assignment.substr(0, assignment.find('=')));
  EXPECT_EQ(found[0].other_key, "pipeline.role");
}

TEST(RoleCheck, TrainRefusesWhatOnlyRolloutReads) {
  const TempDir dir;
  for (const char* text : {"buffer.num_storage_units=2",
                           "data.path=x",
                           "data.shuffle=false",
                           "data.preprocess_workers=2",
                           "engine.num_engines=2",
                           "engine.max_num_seqs=3",
                           "engine.stats_interval_ns=1s",
                           "engine.prefix_caching=false",
                           "sampling.temperature=0.5",
                           "sampling.top_p=0.5",
                           "sampling.stop_token_ids=3",
                           "pipeline.free_lane_after_generation=false",
                           "pipeline.over_sampling_prompts=1",
                           "pipeline.max_concurrent_prompts_per_engine=1",
                           "pipeline.partial_rollout=true",
                           "pipeline.prompt_prefetch=true",
                           "pipeline.queue_size=0",
                           "pipeline.reward_timeout_ns=1s",
                           "pipeline.reply_timeout_ns=1s",
                           "pipeline.score_events=group",
                           "pipeline.turns=always"}) {
    expect_refused(train_options(dir), text, Code::kConflict);
  }
}

TEST(RoleCheck, RolloutRefusesWhatOnlyTrainReads) {
  const TempDir dir;
  for (const char* text : {"algo.clip_low=0.1",
                           "algo.kl.coef=0.5",
                           "algo.policy_loss=none",
                           "buffer.record_dir=x",
                           "buffer.store_lease_ns=1s",
                           "checkpoint.dir=x",
                           "checkpoint.resume=auto",
                           "critic.optimizer.lr=1",
                           "metrics.interval_steps=2",
                           "metrics.max_samples=2",
                           "metrics.samples=x",
                           "model.freeze=x",
                           "model.critic_path=x",
                           "model.reference_path=x",
                           "model.teacher_path=x",
                           "model.train_only=x",
                           "optimizer.lr=1",
                           "optimizer.name=muon",
                           "parallel.sequence_parallel=true",
                           "trainer.epochs=2",
                           "pipeline.discard_zero_advantage=true",
                           "pipeline.filter=spread",
                           "pipeline.overlong_filter=true",
                           "pipeline.repetition_filter=0.5",
                           "reference.offload=true",
                           "schedule.name=linear",
                           "trainer.max_tokens_per_device=64"}) {
    expect_refused(rollout_options(dir), text, Code::kConflict);
  }
}

TEST(RoleCheck, BothRefuseWhatIsOfAWholeRun) {
  const TempDir dir;
  for (const char* text : {"eval.path=x", "model.reward_path=x", "pipeline.max_off_policy_steps=0",
                           "pipeline.record_path=x", "pipeline.replay_path=x",
                           "pipeline.rollout_turns=2", "pipeline.train_turns=2"}) {
    expect_refused(train_options(dir), text, Code::kUnsupported);
    expect_refused(rollout_options(dir), text, Code::kUnsupported);
  }
}

TEST(RoleCheck, WhatBothReadIsRefusedByNone) {
  for (const char* key :
       {"algo.advantage", "algo.gdpo_weights", "engine.block_size", "engine.kv_dtype",
        "engine.max_model_len", "sampling.max_new_tokens", "buffer.store_path", "metrics.jsonl",
        "model.dtype", "pipeline.max_staleness", "pipeline.prompts_per_step",
        "pipeline.samples_per_prompt", "runtime.seed"}) {
    EXPECT_TRUE(is_read_in(PipelineRole::kTrain, key)) << key;
    EXPECT_TRUE(is_read_in(PipelineRole::kRollout, key)) << key;
  }
  for (size_t i = 0; i < option_count(); ++i) {
    EXPECT_TRUE(is_read_in(PipelineRole::kBoth, option_at(i).key));
  }
}

TEST(RoleCheck, ATrainerSavesBeforeItWaitsForGroups) {
  const TempDir dir;
  const Texts three = {"pipeline.max_staleness=2", "checkpoint.every_steps=3"};
  EXPECT_TRUE(violations_of(train_options(dir, three)).empty());
  OptionSet four = train_options(dir, three);
  four.set_text("checkpoint.every_steps", "4");
  const std::vector<Error> found = violations_of(four);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, "checkpoint.every_steps");
  EXPECT_EQ(found[0].other_key, "pipeline.max_staleness");
  EXPECT_EQ(found[0].expected, "at most 3");
}

TEST(RoleCheck, ATrainerSaves) {
  const TempDir dir;
  for (const char* text : {"checkpoint.every_steps=0", "checkpoint.on_failure=continue"}) {
    expect_refused(train_options(dir), text, Code::kConflict);
  }
}

TEST(RoleCheck, ALeaseLastsASecondAtLeast) {
  const TempDir dir;
  OptionSet options = train_options(dir, {"buffer.store_lease_ns=1s"});
  EXPECT_TRUE(violations_of(options).empty());
  options.set_text("buffer.store_lease_ns", "999999999");
  const std::vector<Error> found = violations_of(options);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, Code::kOutOfRange);
  EXPECT_EQ(found[0].key, "buffer.store_lease_ns");
  EXPECT_EQ(found[0].expected, "0 or at least 1000000000");
}

TEST(RoleCheck, ARolloutNeedsPromptsThatItCanDrawAgain) {
  const TempDir dir;
  OptionSet options = rollout_options(dir);
  options.unset("data.path");
  const std::vector<Error> found = violations_of(options);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, Code::kUnsupported);
  EXPECT_EQ(found[0].key, "data.path");
}

TEST(RoleCheck, ARolloutHasNoObjectiveOfItsOwn) {
  const TempDir dir;
  OptionSet options = rollout_options(dir, {"algo.objective=distill"});
  const std::vector<Error> found = violations_of(options);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, "algo.objective");
}

TEST(RoleCheck, StepsOfNoWeightsCannotBeCounted) {
  const TempDir dir;
  OptionSet options = rollout_options(dir);
  options.unset("pipeline.weights_dir");
  const std::vector<Error> found = violations_of(options);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, "pipeline.total_steps");
  EXPECT_EQ(found[0].other_key, "pipeline.weights_dir");
}

// Of a pipeline, or of the model that is opened for it.
Error refused(const OptionSet& options, Code code,
              const std::shared_ptr<ExperienceStore>& store = nullptr) {
  return expect_error(code, [&] {
    const auto runtime = std::make_shared<Runtime>(options);
    Pipeline(LoadedModel::open(runtime, options, PlanUse::kPipeline), options, store);
  });
}

class NoStore final : public ExperienceStore {
 public:
  void put(const GroupKey&, std::string_view) override {}
  std::vector<StoredGroup> claim(int64_t) override { return {}; }
  void recover() override {}
  void acknowledge(const std::string&) override {}
  void set_aside(const std::string&) override {}
  std::string read_book() override { return {}; }
  void write_book(std::string_view, FunctionRef<void()>) override {}
  std::string place(const std::string&) const override { return "group"; }
  std::string book_place() const override { return "book"; }
};

TEST(RoleCheck, ARoleNeedsOneStore) {
  const TempDir dir;
  for (OptionSet options : {rollout_options(dir), train_options(dir)}) {
    const auto store = std::make_shared<NoStore>();
    EXPECT_EQ(refused(options, Code::kConflict, store).key, "buffer.store_path");
    options.unset("buffer.store_path");
    EXPECT_EQ(refused(options, Code::kConflict).key, "buffer.store_path");
  }
  OptionSet alone = testing::tiny_options(dir);
  EXPECT_EQ(refused(alone, Code::kConflict, std::make_shared<NoStore>()).key, "pipeline.role");
  alone.set_string("buffer.store_path", dir.file("store"));
  EXPECT_EQ(refused(alone, Code::kConflict).key, "buffer.store_path");
}

TEST(RoleCheck, ARoleHasTheMemoryOfItsHalf) {
  const TempDir dir;
  const MemoryPlan rollout = plan_memory(rollout_options(dir), real_fs(), PlanUse::kPipeline),
                   train = plan_memory(train_options(dir), real_fs(), PlanUse::kPipeline);
  EXPECT_EQ(rollout.bytes_of("gradients"), 0u);
  EXPECT_EQ(rollout.bytes_of("optimizer states"), 0u);
  EXPECT_EQ(rollout.train_workspace_bytes, 0u);
  EXPECT_GT(rollout.kv_bytes, 0u);
  EXPECT_GT(train.bytes_of("gradients"), 0u);
  EXPECT_EQ(train.num_engines, 0);
  EXPECT_EQ(train.kv_bytes, 0u);
  for (const OptionSet& options : {rollout_options(dir), train_options(dir)}) {
    testing::Rig rig(options);
    EXPECT_EQ(rig.runtime().ledger().bytes(), rig.pipeline().plan().arena_bytes);
  }
}

TEST(RoleCheck, APipelineRefusesWhatItsRoleHasNot) {
  const TempDir dir;
  testing::Rig rollout(rollout_options(dir)), train(train_options(dir));
  EXPECT_EQ(expect_error(Code::kFailedPrecondition,
                         [&] { rollout.pipeline().set_custom_advantage(nullptr); })
                .key,
            "pipeline.role");
  EXPECT_EQ(
      expect_error(Code::kFailedPrecondition, [&] { rollout.pipeline().set_custom_loss(nullptr); })
          .key,
      "pipeline.role");
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { rollout.pipeline().checkpoint(0); }).key,
            "checkpoint.dir");
  EXPECT_EQ(expect_error(Code::kFailedPrecondition,
                         [&] { rollout.pipeline().save_critic(dir.file("c"), Dtype::kF32, false); })
                .key,
            "pipeline.role");
  for (testing::Rig* rig : {&rollout, &train}) {
    EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { rig->pipeline().request_eval(); }).key,
              "eval.path");
  }
  EXPECT_EQ(expect_error(Code::kFailedPrecondition,
                         [&] {
                           train.pipeline().feed_ids({1, 2}, "", 0);
                         })
                .key,
            "pipeline.role");
  expect_error(Code::kNotFound, [&] { train.pipeline().score(1, 0.5); });
}

}  // namespace
}  // namespace rl
