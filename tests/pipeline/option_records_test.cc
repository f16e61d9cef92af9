// The records that options become: each field from its own option, the values that follow from
// several, and what a record refuses.
#include <gtest/gtest.h>

#include "device/cpu/executors.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/runtime_options.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using Texts = std::vector<std::string>;

Settings with(const Texts& assignments) {
  OptionSet options;
  for (const std::string& text : assignments) options.set_assignment(text);
  return options;
}

TEST(OptionRecords, SamplingHasEachOptionInItsField) {
  const SamplingParams p =
      sampling_from(with({"sampling.temperature=0.5", "sampling.top_p=0.75", "sampling.min_p=0.25",
                          "sampling.top_k=9", "sampling.repetition_penalty=1.5",
                          "sampling.presence_penalty=0.5", "sampling.frequency_penalty=-0.25",
                          "sampling.logit_bias=3:2", "sampling.allowed_token_ids=3,5",
                          "sampling.logprobs=4", "eval.temperature=2", "eval.top_p=0.125"}));
  EXPECT_EQ(p.temperature, 0.5f);
  EXPECT_EQ(p.top_p, 0.75f);
  EXPECT_EQ(p.min_p, 0.25f);
  EXPECT_EQ(p.top_k, 9);
  EXPECT_EQ(p.repetition_penalty, 1.5f);
  EXPECT_EQ(p.presence_penalty, 0.5f);
  EXPECT_EQ(p.frequency_penalty, -0.25f);
  ASSERT_EQ(p.logit_bias.size(), 1u);
  EXPECT_EQ(p.logit_bias[0].id, 3);
  EXPECT_EQ(p.allowed_token_ids, (std::vector<int32_t>{3, 5}));
  EXPECT_EQ(p.top_logprobs, 4);
}

TEST(OptionRecords, ARequestHasTheSeedsStopsAndLengthsOfItsOptions) {
  const Texts texts = {"sampling.max_new_tokens=40",
                       "sampling.min_new_tokens=7",
                       "sampling.stop_token_ids=8,6",
                       "sampling.ignore_eos=true",
                       "sampling.stop=ab,c",
                       "runtime.seed=11",
                       "sampling.seed=12",
                       "eval.samples_per_prompt=3",
                       "eval.temperature=0.5",
                       "eval.top_p=0.25",
                       "sampling.top_k=4"};
  const Request r = request_from(with(texts));
  EXPECT_EQ(r.max_new_tokens, 40);
  EXPECT_EQ(r.min_new_tokens, 7);
  EXPECT_EQ(r.stop_token_ids, (std::vector<int32_t>{8, 6}));
  EXPECT_TRUE(r.ignore_eos);
  EXPECT_EQ(r.stop_strings, (std::vector<std::string>{"ab", "c"}));
  EXPECT_EQ(r.seed, 11u);
  EXPECT_EQ(r.own_seed, 12);
  EXPECT_EQ(r.num_samples, 1);
  EXPECT_EQ(r.sampling.top_k, 4);
  EXPECT_EQ(r.purpose, Purpose::kTrain);
  Request e = eval_request_from(with(texts));
  EXPECT_EQ(e.max_new_tokens, 40) << "eval.max_new_tokens is 0";
  EXPECT_EQ(e.min_new_tokens, 0);
  EXPECT_EQ(e.num_samples, 3);
  EXPECT_EQ(e.purpose, Purpose::kEval);
  EXPECT_EQ(e.sampling.temperature, 0.5f);
  EXPECT_EQ(e.sampling.top_p, 0.25f);
  EXPECT_EQ(e.sampling.top_k, 0);
  EXPECT_EQ(e.stop_token_ids, (std::vector<int32_t>{8, 6}));
  e = eval_request_from(with({"eval.max_new_tokens=1", "sampling.max_new_tokens=40"}));
  EXPECT_EQ(e.max_new_tokens, 1);
}

TEST(OptionRecords, TurnEndsStopUnlessEndsAreIgnored) {
  Request r;
  r.stop_token_ids = {5};
  add_turn_stops(r, {7, 6});
  EXPECT_EQ(r.stop_token_ids, (std::vector<int32_t>{5, 7, 6}));
  r.ignore_eos = true;
  add_turn_stops(r, {9});
  EXPECT_EQ(r.stop_token_ids, (std::vector<int32_t>{5, 7, 6}));
}

TEST(OptionRecords, AnEngineHasEachOptionInItsField) {
  const EngineOptions e = engine_options_from(
      with({"engine.max_num_seqs=3", "engine.max_num_batched_tokens=50",
            "engine.chunked_prefill=false", "engine.prefill_chunk=6", "engine.prefix_caching=false",
            "engine.kv_watermark=0.25", "engine.scheduling_policy=priority",
            "engine.keep_kv_on_publish=true", "pipeline.partial_rollout_max_aborts=2",
            "engine.stats_interval_ns=9", "engine.max_model_len=70"}),
      44);
  EXPECT_EQ(e.max_num_seqs, 3);
  EXPECT_EQ(e.max_num_batched_tokens, 50);
  EXPECT_EQ(e.max_model_len, 44);
  EXPECT_FALSE(e.chunked_prefill);
  EXPECT_EQ(e.prefill_chunk, 6);
  EXPECT_FALSE(e.prefix_caching);
  EXPECT_EQ(e.kv_watermark, 0.25);
  EXPECT_EQ(e.policy, SchedulingPolicy::kPriority);
  EXPECT_TRUE(e.keep_kv);
  EXPECT_EQ(e.max_aborts, 2);
  EXPECT_EQ(e.stats_interval_ns, 9);
  EXPECT_EQ(e.trace_lane, TraceLane::kEngine);
  const EngineOptions plain = engine_options_from(with({}), 1);
  EXPECT_EQ(plain.policy, SchedulingPolicy::kFcfs);
  EXPECT_TRUE(plain.chunked_prefill);
  EXPECT_TRUE(plain.prefix_caching);
  EXPECT_FALSE(plain.keep_kv);
}

TEST(OptionRecords, KeysAndValuesAreOfTheComputeTypeUnlessNamed) {
  const auto dtype = [](const char* text, Dtype compute) {
    return kv_format_of(with({text}), compute).dtype;
  };
  EXPECT_EQ(dtype("engine.kv_dtype=auto", Dtype::kF32), Dtype::kF32);
  EXPECT_EQ(dtype("engine.kv_dtype=auto", Dtype::kBf16), Dtype::kBf16);
  EXPECT_EQ(dtype("engine.kv_dtype=bf16", Dtype::kF32), Dtype::kBf16);
  EXPECT_EQ(dtype("engine.kv_dtype=fp32", Dtype::kBf16), Dtype::kF32);
  EXPECT_EQ(kv_format_of(with({"engine.block_size=64"}), Dtype::kF32).block_size, 64);
}

TEST(OptionRecords, BatchRulesHaveEachOptionInItsField) {
  const Texts texts = {"trainer.global_batch_size=24",
                       "trainer.num_minibatches=5",
                       "trainer.micro_batch_size=9",
                       "trainer.logprob_max_tokens_per_device=1100",
                       "reference.forward_max_tokens_per_device=1200",
                       "trainer.oversize=alone",
                       "trainer.shared_prefix=false",
                       "trainer.sequence_packing=false",
                       "trainer.seq_len=77",
                       "trainer.pad_to_multiple_of=16",
                       "trainer.balance=flops"};
  const BatchRules b = batch_rules_from(with(texts));
  EXPECT_EQ(b.global_batch_size, 24);
  EXPECT_EQ(b.num_minibatches, 5);
  EXPECT_EQ(b.micro_batch_size, 0) << "micro-batches are cut by tokens";
  EXPECT_EQ(b.step_samples, 0);
  EXPECT_EQ(b.forward_max_tokens, 1100);
  EXPECT_EQ(b.reference_max_tokens, 1200);
  EXPECT_TRUE(b.oversize_alone);
  EXPECT_FALSE(b.shared_prefix);
  EXPECT_FALSE(b.packed);
  EXPECT_EQ(b.seq_len, 77);
  EXPECT_EQ(b.pad_to, 16);
  EXPECT_EQ(b.balance, BalanceCost::kFlops);
  Texts counted = texts;
  counted.push_back("trainer.dynamic_batching=false");
  EXPECT_EQ(batch_rules_from(with(counted)).micro_batch_size, 9);
  const BatchRules plain = batch_rules_from(with({}));
  EXPECT_FALSE(plain.oversize_alone);
  EXPECT_TRUE(plain.shared_prefix);
  EXPECT_TRUE(plain.packed);
}

const Texts kStep = {"trainer.logprob_chunk_tokens=7",
                     "trainer.mlp_chunk_tokens=1024",
                     "trainer.epochs=3",
                     "algo.loss_agg=seq_mean_token_sum_norm",
                     "algo.loss_scale_factor=50",
                     "optimizer.beta1=0.5",
                     "optimizer.beta2=0.75",
                     "optimizer.eps=0.125",
                     "optimizer.weight_decay=0.25",
                     "optimizer.grad_clip=4",
                     "optimizer.lr=0.5",
                     "schedule.name=cosine",
                     "schedule.warmup_steps=2",
                     "schedule.total_steps=30",
                     "schedule.min_lr=0.0625",
                     "trainer.logprob_max_tokens_per_device=1100",
                     "reference.forward_max_tokens_per_device=1200",
                     "reward.forward_max_tokens_per_device=1300",
                     "critic.forward_max_tokens_per_device=1400"};

Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What policy, critic and reward model share.
void expect_step(const StepOptions& s) {
  EXPECT_EQ(s.logprob_chunk_tokens, 7);
  EXPECT_EQ(s.mlp_chunk_tokens, 1024);
  EXPECT_EQ(s.epochs, 3);
  EXPECT_EQ(s.loss_agg, LossAgg::kSeqMeanTokenSumNorm);
  EXPECT_EQ(s.loss_scale_factor, 50);
  EXPECT_EQ(s.adamw.beta1, 0.5);
  EXPECT_EQ(s.adamw.beta2, 0.75);
  EXPECT_EQ(s.adamw.eps, 0.125);
  EXPECT_EQ(s.schedule.kind, ScheduleKind::kCosine);
  EXPECT_EQ(s.schedule.warmup_steps, 2);
  EXPECT_EQ(s.schedule.total_steps, 30);
}

TEST(OptionRecords, ATrainerHasEachOptionInItsField) {
  const TrainerOptions t = trainer_options_from(
      with(kStep + Texts{"model.freeze=a,b", "runtime.seed=17"}), 640, 320, 48);
  expect_step(t);
  EXPECT_EQ(t.adamw.weight_decay, 0.25);
  EXPECT_EQ(t.grad_clip, 4);
  EXPECT_EQ(t.schedule.lr, 0.5);
  EXPECT_EQ(t.schedule.min_lr, 0.0625);
  EXPECT_EQ(t.max_tokens, 640);
  EXPECT_EQ(t.max_sequence, 320);
  EXPECT_EQ(t.batch.step_samples, 48);
  EXPECT_EQ(t.batch.forward_max_tokens, 1100);
  EXPECT_EQ(t.batch.reference_max_tokens, 1200);
  EXPECT_EQ(t.trainable.freeze, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(t.trainable.train_only.empty());
  EXPECT_EQ(trainable_from(with({"model.train_only=c"})).train_only,
            (std::vector<std::string>{"c"}));
  EXPECT_EQ(t.seed, 17u);
  EXPECT_STREQ(t.keys.forward_max_tokens, "trainer.logprob_max_tokens_per_device");
}

TEST(OptionRecords, AnOptimizerHasEachOptionInItsField) {
  const Texts texts = {"optimizer.no_decay=norms,*.x",
                       "optimizer.ema=0.875",
                       "optimizer.state_dtype=int8",
                       "trainer.grad_dtype=bf16",
                       "trainer.free_grad_buffers_on_publish=true",
                       "optimizer.cpu_offload=true",
                       "optimizer.cpu_offload_fraction=0.25",
                       "optimizer.overlap_d2h_h2d=false",
                       "runtime.seed=17"};
  const OptimizerOptions o = trainer_options_from(with(texts), 640, 320).optimizer;
  EXPECT_EQ(o.kind, OptimizerKind::kAdamw);
  EXPECT_EQ(o.no_decay, (std::vector<std::string>{"norms", "*.x"}));
  EXPECT_FALSE(o.no_decay_may_miss);
  EXPECT_EQ(o.ema, 0.875);
  EXPECT_EQ(o.state_dtype, StateDtype::kInt8);
  EXPECT_EQ(o.grad_dtype, GradDtype::kBf16);
  EXPECT_TRUE(o.frees_gradients);
  EXPECT_EQ(o.offload, (OffloadOptions{true, 0.25, false}));
  EXPECT_EQ(o.seed, 17u);
  const Texts muon = {"optimizer.name=muon", "optimizer.muon_momentum=0.5",
                      "optimizer.muon_ns_steps=3"};
  const OptimizerOptions m = trainer_options_from(with(muon), 640, 320).optimizer;
  EXPECT_EQ(m.kind, OptimizerKind::kMuon);
  EXPECT_EQ(m.muon.momentum, 0.5);
  EXPECT_EQ(m.muon.ns_steps, 3);
  EXPECT_EQ(m.state_dtype, StateDtype::kF32);
  EXPECT_EQ(m.grad_dtype, GradDtype::kF32);
  EXPECT_FALSE(m.frees_gradients);
  EXPECT_FALSE(m.offload.on);
  Texts critic = texts;
  critic.push_back("algo.advantage=gae");
  const OptimizerOptions c = critic_options_from(with(critic), 640, 320).optimizer;
  EXPECT_EQ(c.state_dtype, StateDtype::kInt8);
  EXPECT_EQ(c.grad_dtype, GradDtype::kBf16);
  EXPECT_TRUE(c.no_decay_may_miss);
  EXPECT_EQ(c.ema, 0) << "averages are the policy's";
  EXPECT_NE(c.stream, o.stream) << "it rounds by other numbers";
}

TEST(OptionRecords, StoredLogProbsAreCheckedWhereTheyAreUsed) {
  const auto checks = [](const Texts& texts) {
    return trainer_options_from(with(texts), 64, 32).check_logprobs;
  };
  EXPECT_TRUE(checks({}));
  EXPECT_TRUE(checks({"algo.objective=distill"}));
  EXPECT_FALSE(checks({"trainer.check_logprobs=false"}));
  for (const char* text :
       {"algo.objective=sft", "algo.objective=dpo", "algo.objective=reward_model"}) {
    EXPECT_FALSE(checks({text})) << text;
  }
}

TEST(OptionRecords, ARewardModelTrainsOnTheRowOfTheLastToken) {
  for (const char* objective : {"rl", "sft", "dpo", "distill"}) {
    const Settings s = with({str("algo.objective=", objective)});
    EXPECT_EQ(last_rows(s), 0) << objective;
    EXPECT_EQ(trained_head(s), ModelHead::kLogits) << objective;
    EXPECT_EQ(trainer_options_from(s, 64, 32).max_sequence, 32) << objective;
  }
  const Settings s = with({"algo.objective=reward_model"});
  EXPECT_EQ(last_rows(s), 1);
  EXPECT_EQ(trained_head(s), ModelHead::kScalar);
  EXPECT_EQ(trainer_options_from(s, 64, 32).max_sequence, 33);
}

TEST(OptionRecords, ARewardModelHasItsOwnForwardBudget) {
  const StepOptions s = reward_options_from(with(kStep), 640, 320, 48);
  expect_step(s);
  EXPECT_EQ(s.max_tokens, 640);
  EXPECT_EQ(s.max_sequence, 321) << "the last token of a sample is a row too";
  EXPECT_EQ(s.batch.step_samples, 48);
  EXPECT_EQ(s.batch.forward_max_tokens, 1300);
  EXPECT_EQ(s.batch.reference_max_tokens, 0);
  EXPECT_STREQ(s.keys.forward_max_tokens, "reward.forward_max_tokens_per_device");
  EXPECT_FALSE(has_reward_model(with({"model.critic_path=x", "model.teacher_path=y"})));
  EXPECT_TRUE(has_reward_model(with({"model.reward_path=x"})));
}

TEST(OptionRecords, ACriticHasItsOwnSizesAndThoseOfThePolicyOtherwise) {
  const Texts base = kStep + Texts{"algo.advantage=gae", "algo.value_clip=0.25",
                                   "trainer.seq_len=77", "trainer.pad_to_multiple_of=16"};
  const auto critic = [&](const Texts& more) {
    return critic_options_from(with(base + more), 640, 320, 48);
  };
  const CriticOptions c = critic({});
  expect_step(c);
  EXPECT_EQ(c.max_tokens, 2 * 640);
  EXPECT_EQ(c.max_sequence, 320);
  EXPECT_EQ(c.batch.step_samples, 48);
  EXPECT_EQ(c.batch.forward_max_tokens, 1400);
  EXPECT_EQ(c.batch.reference_max_tokens, 0);
  EXPECT_EQ(c.batch.seq_len, 0);
  EXPECT_EQ(c.batch.pad_to, 1);
  EXPECT_EQ(c.batch.micro_batch_size, 0);
  EXPECT_EQ(c.value_clip, 0.25);
  EXPECT_EQ(c.adamw.weight_decay, 0.25);
  EXPECT_EQ(c.grad_clip, 4);
  EXPECT_EQ(critic({"critic.max_tokens_per_device=99"}).max_tokens, 99);
  const Texts counted = {"trainer.dynamic_batching=false", "trainer.micro_batch_size=5"};
  EXPECT_EQ(critic(counted).max_tokens, 640);
  EXPECT_EQ(critic(counted).batch.micro_batch_size, 10);
  EXPECT_EQ(critic(counted + Texts{"critic.micro_batch_size=3"}).batch.micro_batch_size, 3);
  EXPECT_EQ(critic({"critic.micro_batch_size=3"}).batch.micro_batch_size, 0);
  EXPECT_EQ(critic({"critic.optimizer.grad_clip=0"}).grad_clip, 0);
  EXPECT_EQ(critic({"critic.optimizer.grad_clip=9"}).grad_clip, 9);
  EXPECT_EQ(critic({"critic.optimizer.grad_clip=9"}).adamw.weight_decay, 0.25);
}

// 0.0625 of 0.5 is an eighth of the rate; never above the rate itself.
TEST(OptionRecords, TheLeastRateOfACriticKeepsItsRatio) {
  const auto schedule = [](const Texts& texts) {
    return critic_options_from(with(kStep + Texts{"algo.advantage=gae"} + texts), 64, 32).schedule;
  };
  EXPECT_EQ(schedule({"critic.optimizer.lr=2"}).lr, 2);
  EXPECT_EQ(schedule({"critic.optimizer.lr=2"}).min_lr, 0.25);
  EXPECT_EQ(schedule({"critic.optimizer.lr=2"}).total_steps, 30);
  const Texts still = {"optimizer.lr=0", "schedule.min_lr=0", "critic.optimizer.lr=2"};
  EXPECT_EQ(schedule(still).min_lr, 0);
  EXPECT_EQ(schedule({"schedule.min_lr=0.5", "critic.optimizer.lr=0.3"}).min_lr, 0.3);
}

TEST(OptionRecords, ThePromptsOfAStepHaveAsManyAttemptsAsTheObjectiveSays) {
  struct Case {
    Texts texts;
    int64_t attempts, units;
  };
  for (const Case& c : std::vector<Case>{{{}, 5, 35},
                                         {{"algo.advantage=remax"}, 6, 35},
                                         {{"algo.objective=distill"}, 5, 35},
                                         {{"algo.objective=sft"}, 1, 7},
                                         {{"algo.objective=dpo"}, 2, 7},
                                         {{"algo.objective=reward_model"}, 2, 7}}) {
    const Settings s =
        with(c.texts + Texts{"pipeline.samples_per_prompt=5", "pipeline.prompts_per_step=7"});
    SCOPED_TRACE(c.texts.empty() ? "rl" : c.texts[0]);
    EXPECT_EQ(attempts_per_prompt(s), c.attempts);
    EXPECT_EQ(trained_units(s), c.units);
  }
}

TEST(OptionRecords, OutputsLieInTheDirectoryOfTheExperiment) {
  struct Case {
    const char *dir, *experiment, *root;
  };
  for (const Case& c :
       std::vector<Case>{{"", "", ""}, {"d", "", "d"}, {"", "e", "e"}, {"d", "e", "d/e"}}) {
    const Settings s =
        with({str("runtime.output_dir=", c.dir), str("runtime.experiment=", c.experiment)});
    const std::string root = c.root;
    EXPECT_EQ(output_root(s), root);
    EXPECT_EQ(output_path(s, "f"), root.empty() ? "f" : root + "/f");
    EXPECT_EQ(output_path(s, "/f"), "/f");
    EXPECT_EQ(output_path(s, ""), "");
  }
}

TEST(OptionRecords, TheLongestSequenceIsAtMostThatOfTheModel) {
  EXPECT_EQ(effective_model_len(with({}), 100), 100);
  EXPECT_EQ(effective_model_len(with({"engine.max_model_len=99"}), 100), 99);
  EXPECT_EQ(effective_model_len(with({"engine.max_model_len=100"}), 100), 100);
  const Error e = expect_error(
      Code::kOutOfRange, [] { effective_model_len(with({"engine.max_model_len=101"}), 100); });
  EXPECT_EQ(e.key, "engine.max_model_len");
  EXPECT_EQ(e.expected, "0..100");
  EXPECT_TRUE(contains(e.message, "is 101"));
}

TEST(OptionRecords, TheMarginIsTakenFromTheBudget) {
  const auto budget = [](const char* bytes, const char* margin) {
    return with(
        {str("runtime.memory_budget_bytes=", bytes), str("runtime.memory_margin_bytes=", margin)});
  };
  EXPECT_EQ(usable_budget(budget("100", "30")), 70u);
  EXPECT_EQ(usable_budget(budget("100", "0")), 100u);
  EXPECT_EQ(usable_budget(budget("30", "100")), 0u);
  EXPECT_EQ(budget_text(budget("100", "0")), "runtime.memory_budget_bytes is 100");
  EXPECT_EQ(budget_text(budget("100", "30")),
            "runtime.memory_budget_bytes is 100, of which runtime.memory_margin_bytes = 30 stay "
            "free");
  EXPECT_EQ(thread_count_of(with({"runtime.threads=3"})), 3);
  EXPECT_EQ(thread_count_of(with({})), usable_cores());
  EXPECT_EQ(thread_count_of(with({"runtime.cpus=4,5,6"})), 3);
  EXPECT_EQ(thread_count_of(with({"runtime.cpus=4,5,6", "runtime.threads=2"})), 2);
}

}  // namespace
}  // namespace rl
