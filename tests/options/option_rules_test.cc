// The table of combinations: each rule has an example that violates it alone, and any mix of
// violations is reported at once with both names.
#include "options/option_rules.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/violations.h"
#include "options/options.h"
#include "support/expect_error.h"
#include "support/mutate.h"

namespace rl {
namespace {

using Names = std::pair<std::string, std::string>;  // of a violation: key and other key

struct Example {
  std::vector<const char*> assignments;
  Names names;
};

// One for each rule of abi/option_rules.yml.
const std::vector<Example>& examples() {
  static const auto* const kExamples = new std::vector<Example>{
      {{"algo.objective=sft", "algo.adv_ddof=0"}, {"algo.adv_ddof", "algo.objective"}},
      {{"algo.objective=sft", "algo.adv_eps=0.5"}, {"algo.adv_eps", "algo.objective"}},
      {{"algo.objective=sft", "algo.adv_norm_std=false"}, {"algo.adv_norm_std", "algo.objective"}},
      {{"algo.objective=sft", "algo.adv_singleton=zero"}, {"algo.adv_singleton", "algo.objective"}},
      {{"algo.objective=sft", "algo.adv_std_scope=batch"},
       {"algo.adv_std_scope", "algo.objective"}},
      {{"algo.objective=sft", "algo.advantage=rloo"}, {"algo.advantage", "algo.objective"}},
      {{"algo.objective=sft", "algo.clip_high=0.3"}, {"algo.clip_high", "algo.objective"}},
      {{"algo.objective=sft", "algo.clip_low=0.1"}, {"algo.clip_low", "algo.objective"}},
      {{"algo.objective=sft", "algo.correction.decoupled=true"},
       {"algo.correction.decoupled", "algo.objective"}},
      {{"algo.objective=sft", "algo.correction.opsm_delta=1"},
       {"algo.correction.opsm_delta", "algo.objective"}},
      {{"algo.objective=sft", "algo.correction.rs=token_k1"},
       {"algo.correction.rs", "algo.objective"}},
      {{"algo.objective=sft", "algo.correction.veto=0.1"},
       {"algo.correction.veto", "algo.objective"}},
      {{"algo.objective=sft", "pipeline.reward_timeout_ns=1s"},
       {"pipeline.reward_timeout_ns", "algo.objective"}},
      {{"algo.objective=reward_model", "eval.path=e", "pipeline.reward_timeout_ns=1s"},
       {"pipeline.reward_timeout_ns", "algo.objective"}},
      {{"algo.objective=sft", "pipeline.score_events=group"},
       {"pipeline.score_events", "algo.objective"}},
      {{"algo.objective=reward_model", "eval.path=e", "pipeline.score_events=group"},
       {"pipeline.score_events", "algo.objective"}},
      {{"algo.objective=sft", "pipeline.turns=always"}, {"pipeline.turns", "algo.objective"}},
      {{"algo.objective=reward_model", "eval.path=e", "pipeline.turns=always"},
       {"pipeline.turns", "algo.objective"}},
      {{"algo.objective=sft", "pipeline.mode=async", "model.compute_copies=2"},
       {"pipeline.mode", "algo.objective"}},
      {{"pipeline.mode=async"}, {"pipeline.mode", "model.compute_copies"}},
      {{"pipeline.mode=one_step_off"}, {"pipeline.mode", "model.compute_copies"}},
      {{"pipeline.mode=one_step_off", "model.compute_copies=2", "checkpoint.dir=x"},
       {"pipeline.mode", "checkpoint.dir"}},
      {{"pipeline.mode=one_step_off", "model.compute_copies=2", "eval.path=x", "eval.weights=ema",
        "optimizer.ema=0.9"},
       {"pipeline.mode", "eval.weights"}},
      {{"pipeline.mode=one_step_off", "model.compute_copies=2",
        "trainer.free_grad_buffers_on_publish=true"},
       {"pipeline.mode", "trainer.free_grad_buffers_on_publish"}},
      {{"pipeline.mode=async", "model.compute_copies=2", "pipeline.turns=always"},
       {"pipeline.mode", "pipeline.turns"}},
      {{"pipeline.mode=async", "model.compute_copies=2", "pipeline.filter=mean",
        "pipeline.filter_max_rounds=2"},
       {"pipeline.filter_max_rounds", "pipeline.mode"}},
      {{"pipeline.max_staleness=2"}, {"pipeline.max_staleness", "pipeline.mode"}},
      {{"pipeline.role=train"}, {"pipeline.role", "pipeline.mode"}},
      {{"pipeline.mode=async", "pipeline.role=train", "model.compute_copies=2"},
       {"pipeline.role", "model.compute_copies"}},
      {{"pipeline.mode=async", "pipeline.role=rollout", "parallel.data=2"},
       {"pipeline.role", "parallel.data"}},
      {{"pipeline.mode=async", "pipeline.role=rollout", "parallel.context=2"},
       {"pipeline.role", "parallel.context"}},
      {{"pipeline.mode=async", "pipeline.role=rollout", "parallel.tensor=2",
        "parallel.reduction_parts=2", "engine.tensor_parallel_size=1"},
       {"engine.tensor_parallel_size", "pipeline.role"}},
      {{"pipeline.mode=async", "pipeline.role=rollout", "parallel.pipeline=2",
        "engine.tensor_parallel_size=1"},
       {"engine.tensor_parallel_size", "pipeline.role"}},
      {{"pipeline.weights_dir=x"}, {"pipeline.weights_dir", "pipeline.role"}},
      {{"pipeline.queue_size=0"}, {"pipeline.queue_size", "pipeline.mode"}},
      {{"pipeline.mode=async", "model.compute_copies=2", "pipeline.queue_size=2"},
       {"pipeline.queue_size", "pipeline.max_staleness"}},
      {{"pipeline.over_sampling_prompts=1"}, {"pipeline.over_sampling_prompts", "pipeline.mode"}},
      {{"pipeline.mode=async", "model.compute_copies=2", "pipeline.over_sampling_prompts=1"},
       {"pipeline.over_sampling_prompts", "pipeline.queue_size"}},
      {{"pipeline.rollout_turns=2"}, {"pipeline.rollout_turns", "pipeline.mode"}},
      {{"pipeline.train_turns=2"}, {"pipeline.train_turns", "pipeline.mode"}},
      {{"pipeline.max_off_policy_steps=0"}, {"pipeline.max_off_policy_steps", "pipeline.mode"}},
      {{"pipeline.mode=async", "model.compute_copies=2", "pipeline.max_off_policy_steps=1"},
       {"pipeline.max_off_policy_steps", "pipeline.max_staleness"}},
      {{"pipeline.partial_rollout=true"}, {"pipeline.partial_rollout", "pipeline.mode"}},
      {{"pipeline.mask_off_policy_tokens=true"},
       {"pipeline.mask_off_policy_tokens", "pipeline.partial_rollout"}},
      {{"pipeline.sample_lanes=group"},
       {"pipeline.sample_lanes", "pipeline.max_concurrent_prompts_per_engine"}},
      {{"pipeline.free_lane_after_generation=false"},
       {"pipeline.free_lane_after_generation", "pipeline.max_concurrent_prompts_per_engine"}},
      {{"pipeline.max_concurrent_prompts_per_engine=1", "pipeline.turns=always"},
       {"pipeline.max_concurrent_prompts_per_engine", "pipeline.turns"}},
      {{"pipeline.max_concurrent_prompts_per_engine=1", "pipeline.sample_lanes=group",
        "pipeline.free_lane_after_generation=false"},
       {"pipeline.free_lane_after_generation", "pipeline.sample_lanes"}},
      {{"algo.objective=sft", "pipeline.max_concurrent_prompts_per_engine=1"},
       {"pipeline.max_concurrent_prompts_per_engine", "algo.objective"}},
      {{"pipeline.prompt_prefetch=true"}, {"pipeline.prompt_prefetch", "data.path"}},
      {{"buffer.num_storage_units=2"}, {"buffer.num_storage_units", "buffer.store_path"}},
      {{"buffer.spill_path=a", "buffer.store_path=b"}, {"buffer.spill_path", "buffer.store_path"}},
      {{"data.preprocess_workers=2"}, {"data.preprocess_workers", "data.path"}},
      {{"data.streaming=false"}, {"data.streaming", "data.path"}},
      {{"data.streaming_buffer_size=2"}, {"data.streaming_buffer_size", "data.path"}},
      {{"data.path=d", "data.streaming=false", "data.streaming_buffer_size=2"},
       {"data.streaming_buffer_size", "data.streaming"}},
      {{"data.path=d", "pipeline.prompt_prefetch_size=2"},
       {"pipeline.prompt_prefetch_size", "pipeline.prompt_prefetch"}},
      {{"pipeline.record_path=a"}, {"pipeline.record_path", "data.path"}},
      {{"pipeline.replay_path=a"}, {"pipeline.replay_path", "data.path"}},
      {{"pipeline.record_path=a", "data.path=d", "pipeline.turns=always"},
       {"pipeline.record_path", "pipeline.turns"}},
      {{"pipeline.replay_path=a", "data.path=d", "pipeline.turns=always"},
       {"pipeline.replay_path", "pipeline.turns"}},
      {{"pipeline.record_path=a", "data.path=d", "parallel.data=2"},
       {"pipeline.record_path", "parallel.data"}},
      {{"pipeline.replay_path=a", "data.path=d", "parallel.data=2"},
       {"pipeline.replay_path", "parallel.data"}},
      {{"pipeline.record_path=a", "data.path=d", "parallel.tensor=2"},
       {"pipeline.record_path", "parallel.tensor"}},
      {{"pipeline.record_path=a", "data.path=d", "parallel.pipeline=2"},
       {"pipeline.record_path", "parallel.pipeline"}},
      {{"pipeline.replay_path=a", "data.path=d", "parallel.pipeline=2"},
       {"pipeline.replay_path", "parallel.pipeline"}},
      {{"pipeline.replay_path=a", "data.path=d", "parallel.tensor=2"},
       {"pipeline.replay_path", "parallel.tensor"}},
      {{"pipeline.record_path=a", "pipeline.replay_path=b", "data.path=d"},
       {"pipeline.record_path", "pipeline.replay_path"}},
      {{"algo.objective=sft", "pipeline.record_path=a", "data.path=d"},
       {"pipeline.record_path", "algo.objective"}},
      {{"algo.objective=sft", "pipeline.replay_path=a", "data.path=d"},
       {"pipeline.replay_path", "algo.objective"}},
      {{"pipeline.turns=stop_string"}, {"pipeline.turns", "sampling.stop"}},
      {{"pipeline.turns=always", "algo.reward.overlong_buffer=8"},
       {"algo.reward.overlong_buffer", "pipeline.turns"}},
      {{"pipeline.max_turns=2"}, {"pipeline.max_turns", "pipeline.turns"}},
      {{"pipeline.reply_timeout_ns=1s"}, {"pipeline.reply_timeout_ns", "pipeline.turns"}},
      {{"algo.objective=dpo", "metrics.samples=s"}, {"metrics.samples", "algo.objective"}},
      {{"algo.objective=sft", "algo.dual_clip=3"}, {"algo.dual_clip", "algo.objective"}},
      {{"algo.objective=sft", "algo.entropy_coef=1"}, {"algo.entropy_coef", "algo.objective"}},
      {{"algo.objective=sft", "algo.kl.where=loss"}, {"algo.kl.where", "algo.objective"}},
      {{"algo.objective=sft", "algo.policy_loss=none"}, {"algo.policy_loss", "algo.objective"}},
      {{"algo.objective=sft", "algo.ratio_cap=3"}, {"algo.ratio_cap", "algo.objective"}},
      {{"algo.objective=sft", "algo.ratio_log_clamp=3"},
       {"algo.ratio_log_clamp", "algo.objective"}},
      {{"algo.objective=sft", "algo.reward.clip_high=1"},
       {"algo.reward.clip_high", "algo.objective"}},
      {{"algo.objective=sft", "algo.reward.clip_low=-1"},
       {"algo.reward.clip_low", "algo.objective"}},
      {{"algo.objective=sft", "algo.reward.normalize=true"},
       {"algo.reward.normalize", "algo.objective"}},
      {{"algo.objective=sft", "algo.reward.overlong_buffer=8"},
       {"algo.reward.overlong_buffer", "algo.objective"}},
      {{"algo.objective=sft", "algo.reward.truncation_penalty=0.5"},
       {"algo.reward.truncation_penalty", "algo.objective"}},
      {{"algo.objective=sft", "algo.whiten=eps"}, {"algo.whiten", "algo.objective"}},
      {{"algo.objective=sft", "pipeline.discard_zero_advantage=true"},
       {"pipeline.discard_zero_advantage", "algo.objective"}},
      {{"algo.objective=sft", "pipeline.filter=spread"}, {"pipeline.filter", "algo.objective"}},
      {{"algo.objective=sft", "pipeline.overlong_filter=true"},
       {"pipeline.overlong_filter", "algo.objective"}},
      {{"algo.objective=sft", "pipeline.repetition_filter=0.5"},
       {"pipeline.repetition_filter", "algo.objective"}},
      {{"algo.objective=sft", "pipeline.samples_per_prompt=4"},
       {"pipeline.samples_per_prompt", "algo.objective"}},
      {{"algo.objective=dpo", "algo.loss_agg=token_sum"}, {"algo.loss_agg", "algo.objective"}},
      {{"algo.objective=reward_model", "algo.loss_agg=token_sum"},
       {"algo.loss_agg", "algo.objective"}},
      {{"algo.objective=reward_model", "eval.path=e", "eval.max_new_tokens=8"},
       {"eval.max_new_tokens", "algo.objective"}},
      {{"algo.objective=reward_model", "eval.path=e", "eval.temperature=1"},
       {"eval.temperature", "algo.objective"}},
      {{"algo.objective=reward_model", "metrics.samples=s"}, {"metrics.samples", "algo.objective"}},
      {{"algo.objective=reward_model", "model.compute_copies=2"},
       {"model.compute_copies", "algo.objective"}},
      {{"algo.objective=reward_model", "trainer.logprob_chunk_tokens=64"},
       {"trainer.logprob_chunk_tokens", "algo.objective"}},
      {{"algo.distill.coef=2"}, {"algo.distill.coef", "algo.objective"}},
      {{"algo.distill.kl=forward"}, {"algo.distill.kl", "algo.objective"}},
      {{"algo.distill.rewards=false"}, {"algo.distill.rewards", "algo.objective"}},
      {{"algo.distill.beta=0.2"}, {"algo.distill.beta", "algo.distill.kl"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.adv_ddof=0"},
       {"algo.adv_ddof", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.adv_eps=0.5"},
       {"algo.adv_eps", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.adv_norm_std=false"},
       {"algo.adv_norm_std", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.adv_singleton=zero"},
       {"algo.adv_singleton", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.adv_std_scope=batch"},
       {"algo.adv_std_scope", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.advantage=rloo"},
       {"algo.advantage", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.reward.clip_high=1"},
       {"algo.reward.clip_high", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.reward.clip_low=-1"},
       {"algo.reward.clip_low", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.reward.normalize=true"},
       {"algo.reward.normalize", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.reward.overlong_buffer=8"},
       {"algo.reward.overlong_buffer", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.reward.truncation_penalty=0.5"},
       {"algo.reward.truncation_penalty", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.whiten=eps"},
       {"algo.whiten", "algo.distill.rewards"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.rewards=false",
        "algo.kl.where=reward"},
       {"algo.distill.rewards", "algo.kl.where"}},
      {{"model.teacher_path=x"}, {"model.teacher_path", "algo.objective"}},
      {{"algo.objective=distill"}, {"algo.objective", "model.teacher_path"}},
      {{"algo.objective=distill", "model.teacher_path=x", "pipeline.discard_zero_advantage=true"},
       {"pipeline.discard_zero_advantage", "algo.objective"}},
      {{"algo.dpo.beta=1"}, {"algo.dpo.beta", "algo.objective"}},
      {{"algo.dpo.ipo=true"}, {"algo.dpo.ipo", "algo.objective"}},
      {{"algo.dpo.label_smoothing=0.1"}, {"algo.dpo.label_smoothing", "algo.objective"}},
      {{"algo.dpo.nll_coef=1"}, {"algo.dpo.nll_coef", "algo.objective"}},
      {{"algo.objective=dpo", "algo.dpo.ipo=true", "algo.dpo.label_smoothing=0.1"},
       {"algo.dpo.label_smoothing", "algo.dpo.ipo"}},
      {{"algo.objective=sft", "trainer.global_batch_size=9"},
       {"trainer.global_batch_size", "pipeline.prompts_per_step"}},
      {{"algo.objective=dpo", "trainer.num_minibatches=9"},
       {"trainer.num_minibatches", "pipeline.prompts_per_step"}},
      {{"algo.adv_norm_std=false", "algo.adv_eps=0.5"}, {"algo.adv_eps", "algo.adv_norm_std"}},
      {{"algo.adv_norm_std=false", "algo.adv_ddof=0"}, {"algo.adv_ddof", "algo.adv_norm_std"}},
      {{"algo.advantage=rloo", "algo.adv_ddof=0"}, {"algo.adv_ddof", "algo.advantage"}},
      {{"algo.advantage=rloo", "algo.adv_eps=0.5"}, {"algo.adv_eps", "algo.advantage"}},
      {{"algo.advantage=opo", "algo.adv_norm_std=false"}, {"algo.adv_norm_std", "algo.advantage"}},
      {{"algo.advantage=remax", "algo.adv_singleton=zero"},
       {"algo.adv_singleton", "algo.advantage"}},
      {{"algo.advantage=custom", "algo.adv_singleton=zero"},
       {"algo.adv_singleton", "algo.advantage"}},
      {{"algo.adv_norm_std=false", "algo.adv_std_scope=batch"},
       {"algo.adv_std_scope", "algo.adv_norm_std"}},
      {{"algo.advantage=gpg", "algo.adv_std_scope=batch"},
       {"algo.adv_std_scope", "algo.advantage"}},
      {{"algo.critic_warmup_steps=1"}, {"algo.critic_warmup_steps", "algo.advantage"}},
      {{"algo.gae_masked=zero"}, {"algo.gae_masked", "algo.advantage"}},
      {{"algo.lambda=0.9"}, {"algo.lambda", "algo.advantage"}},
      {{"algo.value_clip=0"}, {"algo.value_clip", "algo.advantage"}},
      {{"critic.forward_max_tokens_per_device=64"},
       {"critic.forward_max_tokens_per_device", "algo.advantage"}},
      {{"critic.max_tokens_per_device=64"}, {"critic.max_tokens_per_device", "algo.advantage"}},
      {{"algo.advantage=gae", "trainer.dynamic_batching=false", "critic.max_tokens_per_device=64"},
       {"critic.max_tokens_per_device", "trainer.dynamic_batching"}},
      {{"trainer.dynamic_batching=false", "critic.micro_batch_size=2"},
       {"critic.micro_batch_size", "algo.advantage"}},
      {{"algo.advantage=gae", "critic.micro_batch_size=2"},
       {"critic.micro_batch_size", "trainer.dynamic_batching"}},
      {{"critic.optimizer.grad_clip=2"}, {"critic.optimizer.grad_clip", "algo.advantage"}},
      {{"critic.optimizer.lr=1"}, {"critic.optimizer.lr", "algo.advantage"}},
      {{"critic.optimizer.weight_decay=0"}, {"critic.optimizer.weight_decay", "algo.advantage"}},
      {{"model.critic_path=m"}, {"model.critic_path", "algo.advantage"}},
      {{"model.reward_path=m", "algo.objective=sft"}, {"model.reward_path", "algo.objective"}},
      {{"model.reward_path=m", "algo.advantage=gdpo", "algo.gdpo_weights=1,1"},
       {"model.reward_path", "algo.gdpo_weights"}},
      {{"reward.forward_max_tokens_per_device=64"},
       {"reward.forward_max_tokens_per_device", "model.reward_path"}},
      {{"model.reward_path=m", "pipeline.score_events=group"},
       {"pipeline.score_events", "model.reward_path"}},
      {{"model.reward_path=m", "pipeline.reward_timeout_ns=1s"},
       {"pipeline.reward_timeout_ns", "model.reward_path"}},
      {{"reference.forward_max_tokens_per_device=64"},
       {"reference.forward_max_tokens_per_device", "algo.kl.where"}},
      {{"reference.offload=true"}, {"reference.offload", "algo.kl.where"}},
      {{"reference.weights=ema", "optimizer.ema=0.9"}, {"reference.weights", "algo.kl.where"}},
      {{"reference.weights=ema", "algo.kl.where=loss"}, {"reference.weights", "optimizer.ema"}},
      {{"reference.weights=ema", "algo.kl.where=loss", "optimizer.ema=0.9",
        "model.reference_path=m"},
       {"reference.weights", "model.reference_path"}},
      {{"eval.weights=ema", "optimizer.ema=0.9"}, {"eval.weights", "eval.path"}},
      {{"eval.weights=ema", "eval.path=x"}, {"eval.weights", "optimizer.ema"}},
      {{"optimizer.muon_momentum=0.9"}, {"optimizer.muon_momentum", "optimizer.name"}},
      {{"optimizer.muon_ns_steps=4"}, {"optimizer.muon_ns_steps", "optimizer.name"}},
      {{"optimizer.cpu_offload_fraction=0.5"},
       {"optimizer.cpu_offload_fraction", "optimizer.cpu_offload"}},
      {{"optimizer.overlap_d2h_h2d=false"}, {"optimizer.overlap_d2h_h2d", "optimizer.cpu_offload"}},
      {{"optimizer.name=muon", "optimizer.cpu_offload=true"},
       {"optimizer.cpu_offload", "optimizer.name"}},
      {{"optimizer.name=muon", "optimizer.state_dtype=int8"},
       {"optimizer.state_dtype", "optimizer.name"}},
      {{"algo.advantage=gdpo"}, {"algo.advantage", "algo.gdpo_weights"}},
      {{"algo.advantage=gdpo", "algo.gdpo_weights=1,2", "algo.kl.where=reward"},
       {"algo.kl.where", "algo.advantage"}},
      {{"algo.gdpo_weights=1,2"}, {"algo.gdpo_weights", "algo.advantage"}},
      {{"algo.gamma=0.9"}, {"algo.gamma", "algo.advantage"}},
      {{"algo.kl.controller=adaptive"}, {"algo.kl.controller", "algo.kl.where"}},
      {{"algo.kl.where=loss", "algo.kl.horizon=5"}, {"algo.kl.horizon", "algo.kl.controller"}},
      {{"algo.kl.where=loss", "algo.kl.target=5"}, {"algo.kl.target", "algo.kl.controller"}},
      {{"algo.kl.value_clamp=10"}, {"algo.kl.value_clamp", "algo.kl.where"}},
      {{"algo.kl.where=reward", "algo.kl.ratio=full"}, {"algo.kl.ratio", "algo.kl.where"}},
      {{"algo.kl.where=loss", "algo.kl.ratio=full", "algo.kl.ratio_cap=10"},
       {"algo.kl.ratio_cap", "algo.kl.ratio"}},
      {{"algo.correction.denominator=all"}, {"algo.correction.denominator", "algo.correction.rs"}},
      {{"algo.correction.log_clamp=0"}, {"algo.correction.log_clamp", "algo.correction.is"}},
      {{"algo.kl.spread=token"}, {"algo.kl.spread", "algo.kl.where"}},
      {{"algo.kl.where=reward", "algo.kl.spread=token", "algo.advantage=remax"},
       {"algo.kl.spread", "algo.advantage"}},
      {{"algo.kl.where=reward", "algo.kl.spread=token", "algo.advantage=custom"},
       {"algo.kl.spread", "algo.advantage"}},
      {{"algo.reward.clip_high=1", "algo.reward.clip_at=advantage", "algo.advantage=custom"},
       {"algo.reward.clip_at", "algo.advantage"}},
      {{"algo.reward.clip_high=1", "algo.reward.clip_at=advantage", "algo.advantage=gdpo",
        "algo.gdpo_weights=1,1"},
       {"algo.reward.clip_at", "algo.advantage"}},
      {{"algo.reward.clip_at=advantage"}, {"algo.reward.clip_at", "algo.reward.clip_low"}},
      {{"algo.reward.clip_high=1", "algo.reward.clip_at=advantage", "algo.advantage=remax"},
       {"algo.reward.clip_at", "algo.advantage"}},
      {{"algo.reward.clip_low=1"}, {"algo.reward.clip_low", "algo.reward.clip_high"}},
      {{"algo.reward.overlong_penalty=2"},
       {"algo.reward.overlong_penalty", "algo.reward.overlong_buffer"}},
      {{"algo.reward.overlong_buffer=300"},
       {"algo.reward.overlong_buffer", "sampling.max_new_tokens"}},
      {{"pipeline.discard_zero_advantage=true", "algo.advantage=remax"},
       {"pipeline.discard_zero_advantage", "algo.advantage"}},
      {{"pipeline.discard_zero_advantage=true", "algo.advantage=custom"},
       {"pipeline.discard_zero_advantage", "algo.advantage"}},
      {{"model.freeze=*norm.weight", "model.train_only=lm_head.weight"},
       {"model.train_only", "model.freeze"}},
      {{"pipeline.filter_high=2"}, {"pipeline.filter_high", "pipeline.filter"}},
      {{"pipeline.filter_low=0.5"}, {"pipeline.filter_low", "pipeline.filter"}},
      {{"pipeline.filter=mean", "pipeline.filter_low=1"},
       {"pipeline.filter_low", "pipeline.filter_high"}},
      {{"pipeline.filter_max_rounds=2"}, {"pipeline.filter_max_rounds", "pipeline.filter"}},
      {{"pipeline.filter_spread=1"}, {"pipeline.filter_spread", "pipeline.filter"}},
      {{"pipeline.repetition_ngram=2"},
       {"pipeline.repetition_ngram", "pipeline.repetition_filter"}},
      {{"pipeline.samples_per_prompt=1"}, {"algo.advantage", "pipeline.samples_per_prompt"}},
      {{"algo.policy_loss=none", "algo.clip_high=0.3"}, {"algo.clip_high", "algo.policy_loss"}},
      {{"algo.policy_loss=none", "algo.clip_low=0.1"}, {"algo.clip_low", "algo.policy_loss"}},
      {{"algo.kl.coef=0.1"}, {"algo.kl.coef", "algo.kl.where"}},
      {{"algo.kl.estimator=k1"}, {"algo.kl.estimator", "algo.kl.where"}},
      {{"algo.clip_cov_high=6"}, {"algo.clip_cov_high", "algo.policy_loss"}},
      {{"algo.clip_cov_low=2"}, {"algo.clip_cov_low", "algo.policy_loss"}},
      {{"algo.policy_loss=clip_cov", "algo.clip_cov_low=5"},
       {"algo.clip_cov_low", "algo.clip_cov_high"}},
      {{"algo.correction.batch_normalize=true"},
       {"algo.correction.batch_normalize", "algo.correction.is"}},
      {{"algo.correction.high=3"}, {"algo.correction.high", "algo.correction.is"}},
      {{"algo.correction.low=0.5"}, {"algo.correction.low", "algo.correction.is"}},
      {{"algo.correction.mode=icepop"}, {"algo.correction.mode", "algo.correction.is"}},
      {{"algo.correction.rs_bounds=2"}, {"algo.correction.rs_bounds", "algo.correction.rs"}},
      {{"algo.correction.is=token"}, {"algo.correction.is", "algo.correction.decoupled"}},
      {{"algo.policy_loss=none", "algo.correction.is=token", "algo.correction.low=3"},
       {"algo.correction.low", "algo.correction.high"}},
      {{"algo.cov_ratio=0.1"}, {"algo.cov_ratio", "algo.policy_loss"}},
      {{"algo.dro_beta=0.2"}, {"algo.dro_beta", "algo.policy_loss"}},
      {{"algo.policy_loss=sapo", "algo.dual_clip=3"}, {"algo.dual_clip", "algo.policy_loss"}},
      {{"algo.gspo_gradient=sequence"}, {"algo.gspo_gradient", "algo.policy_loss"}},
      {{"algo.kl_cov_coef=0.1"}, {"algo.kl_cov_coef", "algo.policy_loss"}},
      {{"algo.loss_agg=seq_mean_token_sum_norm"}, {"algo.loss_agg", "algo.loss_scale_factor"}},
      {{"algo.loss_scale_factor=8"}, {"algo.loss_scale_factor", "algo.loss_agg"}},
      {{"algo.policy_loss=gspo", "algo.ratio_cap=3"}, {"algo.ratio_cap", "algo.policy_loss"}},
      {{"algo.policy_loss=custom", "algo.ratio_log_clamp=3"},
       {"algo.ratio_log_clamp", "algo.policy_loss"}},
      {{"algo.policy_loss=gmpo", "algo.ratio_log_clamp=3"},
       {"algo.ratio_log_clamp", "algo.policy_loss"}},
      {{"algo.sapo_tau_neg=2"}, {"algo.sapo_tau_neg", "algo.policy_loss"}},
      {{"algo.sapo_tau_pos=2"}, {"algo.sapo_tau_pos", "algo.policy_loss"}},
      {{"checkpoint.async=true"}, {"checkpoint.async", "checkpoint.dir"}},
      {{"checkpoint.contents=model"}, {"checkpoint.contents", "checkpoint.dir"}},
      {{"checkpoint.every_steps=1"}, {"checkpoint.every_steps", "checkpoint.dir"}},
      {{"checkpoint.dir=x", "checkpoint.metric=m", "checkpoint.keep_best=1"},
       {"checkpoint.keep_best", "checkpoint.keep_last"}},
      {{"checkpoint.dir=x", "checkpoint.keep_last=1", "checkpoint.keep_best=1"},
       {"checkpoint.keep_best", "checkpoint.metric"}},
      {{"checkpoint.keep_last=1"}, {"checkpoint.keep_last", "checkpoint.dir"}},
      {{"checkpoint.metric=m"}, {"checkpoint.metric", "checkpoint.dir"}},
      {{"checkpoint.dir=x", "checkpoint.metric_goal=lowest"},
       {"checkpoint.metric_goal", "checkpoint.keep_best"}},
      {{"checkpoint.on_failure=continue"}, {"checkpoint.on_failure", "checkpoint.dir"}},
      {{"checkpoint.resume=auto"}, {"checkpoint.resume", "checkpoint.dir"}},
      {{"data.shuffle=false"}, {"data.shuffle", "data.path"}},
      {{"data.shuffle_seed=1"}, {"data.shuffle_seed", "data.path"}},
      {{"data.path=x", "data.shuffle=false", "data.shuffle_seed=1"},
       {"data.shuffle_seed", "data.shuffle"}},
      {{"engine.max_num_seqs=2000"}, {"engine.max_num_seqs", "engine.max_num_batched_tokens"}},
      {{"engine.chunked_prefill=false", "engine.max_model_len=2048"},
       {"engine.chunked_prefill", "engine.max_num_batched_tokens"}},
      {{"engine.chunked_prefill=false", "engine.prefill_chunk=8"},
       {"engine.prefill_chunk", "engine.chunked_prefill"}},
      {{"engine.prefill_chunk=2000"}, {"engine.prefill_chunk", "engine.max_num_batched_tokens"}},
      {{"engine.keep_kv_on_publish=true", "model.compute_copies=2"},
       {"engine.keep_kv_on_publish", "engine.preemption"}},
      {{"engine.keep_kv_on_publish=true", "engine.preemption=swap",
        "engine.swap_space_bytes=1048576"},
       {"engine.keep_kv_on_publish", "model.compute_copies"}},
      {{"engine.preemption=swap"}, {"engine.preemption", "engine.swap_space_bytes"}},
      {{"engine.swap_space_bytes=1048576"}, {"engine.swap_space_bytes", "engine.preemption"}},
      {{"engine.graph_batch_sizes=1,8"}, {"engine.graph_batch_sizes", "runtime.device"}},
      {{"engine.tensor_parallel_size=2"}, {"engine.tensor_parallel_size", "parallel.tensor"}},
      {{"engine.tensor_parallel_size=2", "parallel.tensor=4", "parallel.reduction_parts=4"},
       {"engine.tensor_parallel_size", "parallel.tensor"}},
      {{"sync.bucket_bytes=65536", "parallel.tensor=2", "parallel.reduction_parts=2"},
       {"sync.bucket_bytes", "engine.tensor_parallel_size"}},
      {{"sync.bucket_bytes=65536", "engine.tensor_parallel_size=1"},
       {"sync.bucket_bytes", "parallel.tensor"}},
      {{"engine.graph_batch_sizes=1", "runtime.device=cuda"},
       {"engine.graph_batch_sizes", "runtime.device"}},
      {{"comm.timeout_ns=1s"}, {"comm.timeout_ns", "parallel.data"}},
      {{"trainer.balance_groups=true"}, {"trainer.balance_groups", "parallel.data"}},
      {{"comm.backend=host"}, {"comm.backend", "parallel.data"}},
      {{"comm.backend=nccl", "parallel.data=2", "comm.rendezvous=file:x"},
       {"comm.backend", "runtime.device"}},
      {{"comm.backend=nccl", "parallel.data=2", "runtime.device=cuda"},
       {"comm.backend", "comm.rendezvous"}},
      {{"comm.backend=gloo", "parallel.data=2"}, {"comm.backend", "comm.rendezvous"}},
      {{"comm.memory_check=true"}, {"comm.memory_check", "parallel.data"}},
      {{"comm.memory_check_threshold_bytes=1", "parallel.data=2"},
       {"comm.memory_check_threshold_bytes", "comm.memory_check"}},
      {{"comm.rank=1", "parallel.data=2"}, {"comm.rank", "comm.backend"}},
      {{"comm.rendezvous=file:x", "parallel.data=2"}, {"comm.rendezvous", "comm.backend"}},
      {{"comm.reduction_order=backend", "parallel.data=2"},
       {"comm.reduction_order", "comm.backend"}},
      {{"comm.reduction_order=backend", "parallel.pipeline=2", "runtime.device=cuda",
        "comm.backend=nccl", "comm.rendezvous=file:x"},
       {"comm.reduction_order", "parallel.data"}},
      {{"comm.reduction_order=backend", "parallel.data=2", "parallel.tensor=2",
        "parallel.reduction_parts=2", "runtime.device=cuda", "comm.backend=nccl",
        "comm.rendezvous=file:x"},
       {"comm.reduction_order", "parallel.tensor"}},
      {{"parallel.zero_stage=1"}, {"parallel.zero_stage", "parallel.data"}},
      {{"parallel.zero_group=2", "parallel.data=4"},
       {"parallel.zero_group", "parallel.zero_stage"}},
      {{"parallel.zero_group=1", "parallel.data=2", "parallel.zero_stage=1"},
       {"parallel.zero_group", "parallel.zero_stage"}},
      {{"parallel.overlap_grad_reduce=true"}, {"parallel.overlap_grad_reduce", "parallel.data"}},
      {{"parallel.overlap_grad_reduce=true", "parallel.data=2", "parallel.pipeline=2"},
       {"parallel.overlap_grad_reduce", "parallel.pipeline"}},
      {{"parallel.overlap_param_gather=true"},
       {"parallel.overlap_param_gather", "parallel.zero_stage"}},
      {{"parallel.overlap_param_gather=true", "parallel.data=2", "parallel.zero_stage=1",
        "model.compute_copies=2"},
       {"parallel.overlap_param_gather", "model.compute_copies"}},
      {{"parallel.zero_stage=3", "parallel.data=2", "model.compute_copies=2"},
       {"parallel.zero_stage", "model.compute_copies"}},
      {{"pipeline.record_path=s", "data.path=d", "parallel.context=2"},
       {"pipeline.record_path", "parallel.context"}},
      {{"pipeline.replay_path=s", "data.path=d", "parallel.context=2"},
       {"pipeline.replay_path", "parallel.context"}},
      {{"parallel.zero_stage=3", "parallel.data=2", "trainer.weights_backup=true"},
       {"parallel.zero_stage", "trainer.weights_backup"}},
      {{"parallel.zero_stage=1", "parallel.data=2", "optimizer.ema=0.9", "algo.kl.where=loss",
        "reference.weights=ema"},
       {"parallel.zero_stage", "reference.weights"}},
      {{"parallel.zero_stage=2", "parallel.data=2", "optimizer.ema=0.9", "eval.path=x",
        "eval.weights=ema"},
       {"parallel.zero_stage", "eval.weights"}},
      {{"parallel.zero_group=2", "parallel.data=4", "parallel.zero_stage=1", "runtime.device=cuda",
        "comm.backend=nccl", "comm.rendezvous=file:x"},
       {"parallel.zero_group", "comm.backend"}},
      {{"parallel.context=2", "pipeline.mode=async", "model.compute_copies=2"},
       {"parallel.context", "pipeline.mode"}},
      {{"parallel.sequence_parallel=true", "parallel.tensor=2", "parallel.reduction_parts=2",
        "parallel.pipeline=2"},
       {"parallel.sequence_parallel", "parallel.pipeline"}},
      {{"parallel.sequence_parallel=true", "parallel.tensor=2", "parallel.reduction_parts=2",
        "parallel.context=2"},
       {"parallel.sequence_parallel", "parallel.context"}},
      {{"parallel.context_zigzag=true"}, {"parallel.context_zigzag", "parallel.context"}},
      {{"parallel.context_kind=ulysses"}, {"parallel.context_kind", "parallel.context"}},
      {{"parallel.context_zigzag=true", "parallel.context_kind=ulysses", "parallel.context=2"},
       {"parallel.context_zigzag", "parallel.context_kind"}},
      {{"parallel.tensor=2", "model.compute_copies=2"},
       {"parallel.tensor", "model.compute_copies"}},
      {{"parallel.tensor=2", "engine.thread=true"}, {"parallel.tensor", "engine.thread"}},
      {{"parallel.reduction_parts=2", "optimizer.name=muon"},
       {"parallel.reduction_parts", "optimizer.name"}},
      {{"parallel.sequence_parallel=true"}, {"parallel.sequence_parallel", "parallel.tensor"}},
      {{"pipeline.colocate=none"}, {"pipeline.colocate", "runtime.device"}},
      {{"pipeline.colocate=actor_ref", "runtime.device=cuda"},
       {"pipeline.colocate", "runtime.device"}},
      {{"parallel.devices.engine=0"}, {"parallel.devices.engine", "pipeline.colocate"}},
      {{"parallel.devices.trainer=0"}, {"parallel.devices.trainer", "pipeline.colocate"}},
      {{"parallel.devices.critic=0"}, {"parallel.devices.critic", "pipeline.colocate"}},
      {{"parallel.devices.reference=0"}, {"parallel.devices.reference", "pipeline.colocate"}},
      {{"parallel.devices.reward=0"}, {"parallel.devices.reward", "pipeline.colocate"}},
      {{"parallel.pipeline_first_layers=1"},
       {"parallel.pipeline_first_layers", "parallel.pipeline"}},
      {{"parallel.pipeline_last_layers=1"}, {"parallel.pipeline_last_layers", "parallel.pipeline"}},
      {{"parallel.pipeline=2", "model.compute_copies=2"},
       {"parallel.pipeline", "model.compute_copies"}},
      {{"parallel.pipeline=2", "engine.thread=true"}, {"parallel.pipeline", "engine.thread"}},
      {{"parallel.pipeline=2", "engine.preemption=swap", "engine.swap_space_bytes=1MiB"},
       {"parallel.pipeline", "engine.preemption"}},
      {{"parallel.pipeline=2", "model.freeze=model.norm.weight"},
       {"parallel.pipeline", "model.freeze"}},
      {{"parallel.pipeline=2", "model.train_only=*norm.weight"},
       {"parallel.pipeline", "model.train_only"}},
      {{"parallel.pipeline=2", "optimizer.name=muon"}, {"parallel.pipeline", "optimizer.name"}},
      {{"parallel.pipeline=2", "optimizer.state_dtype=bf16"},
       {"parallel.pipeline", "optimizer.state_dtype"}},
      {{"parallel.pipeline=2", "trainer.grad_dtype=bf16"},
       {"parallel.pipeline", "trainer.grad_dtype"}},
      {{"parallel.pipeline=2", "trainer.activation_offload=true"},
       {"parallel.pipeline", "trainer.activation_offload"}},
      {{"parallel.pipeline=2", "algo.advantage=gae"}, {"parallel.pipeline", "algo.advantage"}},
      {{"parallel.pipeline=2", "algo.objective=reward_model"},
       {"parallel.pipeline", "algo.objective"}},
      {{"parallel.pipeline=2", "algo.objective=distill", "model.teacher_path=t"},
       {"parallel.pipeline", "algo.objective"}},
      {{"parallel.data=2", "pipeline.mode=async", "model.compute_copies=2"},
       {"parallel.data", "pipeline.mode"}},
      {{"runtime.device_index=1"}, {"runtime.device_index", "runtime.device"}},
      {{"runtime.gpu_ranges=true"}, {"runtime.gpu_ranges", "runtime.device"}},
      {{"engine.keep_kv_on_publish=true", "model.compute_copies=2"},
       {"engine.keep_kv_on_publish", "engine.preemption"}},
      {{"engine.keep_kv_on_publish=true", "engine.preemption=swap",
        "engine.swap_space_bytes=1048576"},
       {"engine.keep_kv_on_publish", "model.compute_copies"}},
      {{"engine.memory_fraction=0.5"}, {"engine.memory_fraction", "runtime.memory_budget_bytes"}},
      {{"eval.every_steps=1"}, {"eval.every_steps", "eval.path"}},
      {{"eval.max_new_tokens=1"}, {"eval.max_new_tokens", "eval.path"}},
      {{"eval.path=x", "eval.max_new_tokens=1000", "engine.max_model_len=1000"},
       {"eval.max_new_tokens", "engine.max_model_len"}},
      {{"eval.max_prompts=1"}, {"eval.max_prompts", "eval.path"}},
      {{"eval.temperature=1"}, {"eval.temperature", "eval.path"}},
      {{"eval.top_p=0.5"}, {"eval.top_p", "eval.temperature"}},
      {{"eval.path=x", "eval.samples_per_prompt=2"},
       {"eval.samples_per_prompt", "eval.temperature"}},
      {{"metrics.interval_steps=2"}, {"metrics.interval_steps", "metrics.jsonl"}},
      {{"runtime.experiment=x"}, {"runtime.experiment", "checkpoint.dir"}},
      {{"runtime.output_dir=x"}, {"runtime.output_dir", "checkpoint.dir"}},
      {{"runtime.memory_margin_bytes=1"},
       {"runtime.memory_margin_bytes", "runtime.memory_budget_bytes"}},
      {{"runtime.memory_budget_bytes=5", "runtime.memory_margin_bytes=5"},
       {"runtime.memory_margin_bytes", "runtime.memory_budget_bytes"}},
      {{"metrics.eval_jsonl=x"}, {"metrics.eval_jsonl", "eval.path"}},
      {{"metrics.max_samples=1", "metrics.samples=s"}, {"metrics.max_samples", "eval.path"}},
      {{"metrics.max_samples=1", "eval.path=e"}, {"metrics.max_samples", "metrics.samples"}},
      {{"metrics.tensorboard=true"}, {"metrics.tensorboard", "metrics.jsonl"}},
      {{"model.reference_path=x"}, {"model.reference_path", "algo.kl.where"}},
      {{"profiler.timeline.dir=x"}, {"profiler.timeline.dir", "profiler.timeline.enable"}},
      {{"profiler.timeline.enable=true"}, {"profiler.timeline.enable", "profiler.timeline.dir"}},
      {{"engine.max_model_len=256"}, {"sampling.max_new_tokens", "engine.max_model_len"}},
      {{"sampling.min_new_tokens=9", "sampling.max_new_tokens=8"},
       {"sampling.min_new_tokens", "sampling.max_new_tokens"}},
      {{"sampling.temperature=0", "sampling.min_p=0.5"},
       {"sampling.min_p", "sampling.temperature"}},
      {{"sampling.temperature=0", "sampling.top_k=5"}, {"sampling.top_k", "sampling.temperature"}},
      {{"sampling.temperature=0", "sampling.top_p=0.5"},
       {"sampling.top_p", "sampling.temperature"}},
      {{"schedule.min_lr=1e-7"}, {"schedule.min_lr", "schedule.name"}},
      {{"schedule.name=linear", "schedule.total_steps=5", "schedule.min_lr=1"},
       {"schedule.min_lr", "optimizer.lr"}},
      {{"schedule.name=cosine"}, {"schedule.name", "schedule.total_steps"}},
      {{"schedule.total_steps=10"}, {"schedule.total_steps", "schedule.name"}},
      {{"schedule.name=cosine", "schedule.total_steps=5", "schedule.warmup_steps=6"},
       {"schedule.warmup_steps", "schedule.total_steps"}},
      {{"trainer.dynamic_batching=false", "trainer.balance=flops"},
       {"trainer.balance", "trainer.dynamic_batching"}},
      {{"trainer.sequence_packing=false", "trainer.balance=tokens"},
       {"trainer.balance", "trainer.sequence_packing"}},
      {{"algo.objective=sft", "trainer.check_logprobs=false"},
       {"trainer.check_logprobs", "algo.objective"}},
      {{"trainer.dynamic_batching=false", "trainer.max_tokens_per_device=5000"},
       {"trainer.max_tokens_per_device", "trainer.dynamic_batching"}},
      {{"trainer.micro_batch_size=2"}, {"trainer.micro_batch_size", "trainer.dynamic_batching"}},
      {{"trainer.global_batch_size=64", "trainer.num_minibatches=2"},
       {"trainer.num_minibatches", "trainer.global_batch_size"}},
      {{"trainer.oversize=alone"}, {"trainer.oversize", "trainer.max_tokens_per_device"}},
      {{"trainer.max_tokens_per_device=5000", "trainer.oversize=cut"},
       {"trainer.oversize", "trainer.seq_len"}},
      {{"algo.objective=reward_model", "trainer.seq_len=5000", "trainer.oversize=cut"},
       {"trainer.oversize", "algo.objective"}},
      {{"trainer.recompute_method=uniform"},
       {"trainer.recompute_method", "trainer.recompute_granularity"}},
      {{"trainer.recompute_granularity=selective", "trainer.recompute_num_layers=2"},
       {"trainer.recompute_num_layers", "trainer.recompute_granularity"}},
      {{"trainer.recompute_modules=mlp"},
       {"trainer.recompute_modules", "trainer.recompute_granularity"}},
      {{"trainer.recompute_granularity=full", "trainer.recompute_num_layers=1"},
       {"trainer.recompute_granularity", "trainer.recompute_method"}},
      {{"trainer.recompute_granularity=full", "trainer.recompute_method=block"},
       {"trainer.recompute_granularity", "trainer.recompute_num_layers"}},
      {{"critic.recompute_granularity=none"}, {"critic.recompute_granularity", "algo.advantage"}},
      {{"algo.advantage=gae", "critic.recompute_granularity=full",
        "trainer.recompute_num_layers=1"},
       {"critic.recompute_granularity", "trainer.recompute_method"}},
      {{"algo.advantage=gae", "critic.recompute_granularity=full",
        "trainer.recompute_method=uniform"},
       {"critic.recompute_granularity", "trainer.recompute_num_layers"}},
      {{"trainer.weights_backup=true", "model.compute_copies=2"},
       {"trainer.weights_backup", "model.compute_copies"}},
      {{"algo.objective=reward_model", "trainer.recompute_loss=true"},
       {"trainer.recompute_loss", "algo.objective"}},
      {{"algo.objective=distill", "model.teacher_path=x", "algo.distill.kl=forward",
        "trainer.recompute_loss=true"},
       {"trainer.recompute_loss", "algo.distill.kl"}},
      {{"algo.kl.where=loss", "reference.micro_batch_size=2"},
       {"reference.micro_batch_size", "trainer.dynamic_batching"}},
      {{"trainer.dynamic_batching=false", "reference.micro_batch_size=2"},
       {"reference.micro_batch_size", "algo.kl.where"}},
      {{"algo.kl.where=loss", "trainer.dynamic_batching=false", "reference.micro_batch_size=2",
        "reference.forward_max_tokens_per_device=5000"},
       {"reference.micro_batch_size", "reference.forward_max_tokens_per_device"}},
      {{"model.reward_path=x", "reward.micro_batch_size=2"},
       {"reward.micro_batch_size", "trainer.dynamic_batching"}},
      {{"trainer.dynamic_batching=false", "reward.micro_batch_size=2"},
       {"reward.micro_batch_size", "model.reward_path"}},
      {{"model.reward_path=x", "trainer.dynamic_batching=false", "reward.micro_batch_size=2",
        "reward.forward_max_tokens_per_device=5000"},
       {"reward.micro_batch_size", "reward.forward_max_tokens_per_device"}},
      {{"trainer.seq_len=5000", "trainer.pad_to_multiple_of=8"},
       {"trainer.pad_to_multiple_of", "trainer.seq_len"}},
      {{"trainer.global_batch_size=65"},
       {"trainer.global_batch_size", "pipeline.samples_per_prompt"}},
      {{"trainer.seq_len=5000", "trainer.max_tokens_per_device=5000"},
       {"trainer.seq_len", "trainer.max_tokens_per_device"}},
      {{"trainer.seq_len=5000", "trainer.dynamic_batching=false"},
       {"trainer.seq_len", "trainer.dynamic_batching"}},
      {{"trainer.num_minibatches=65"}, {"trainer.num_minibatches", "pipeline.samples_per_prompt"}},
  };
  return *kExamples;
}

std::vector<Names> names_of(const std::vector<Error>& errors) {
  std::vector<Names> names;
  for (const Error& error : errors) names.emplace_back(error.key, error.other_key);
  return names;
}

// An option with a single choice cannot violate anything yet.
bool can_hold(const OptionCondition& condition) {
  const OptionInfo& info = require_option(condition.key);
  return condition.kind != OptionCondition::kChanged || info.num_choices != 1;
}

TEST(OptionRules, EveryRuleHasAnExampleThatViolatesItAlone) {
  std::set<Names> shown;
  for (const Example& example : examples()) {
    OptionSet set;
    for (const char* assignment : example.assignments) set.set_assignment(assignment);
    const std::vector<Error> errors = set.validate_all();
    ASSERT_EQ(names_of(errors), std::vector<Names>{example.names});
    EXPECT_EQ(errors[0].code, Code::kConflict);
    EXPECT_TRUE(contains(errors[0].message, example.names.first)) << errors[0].message;
    EXPECT_TRUE(contains(errors[0].message, example.names.second)) << errors[0].message;
    EXPECT_FALSE(contains(errors[0].message, "{")) << errors[0].message;
    const Error thrown = expect_error(Code::kConflict, [&] { set.validate(); });
    EXPECT_EQ(thrown.message, errors[0].message);
    EXPECT_TRUE(thrown.parts.empty());
    shown.insert(example.names);
  }
  const OptionRules rules = option_rules();
  for (size_t i = 0; i < rules.count; ++i) {
    const OptionRule& rule = rules.rows[i];
    bool possible = true;
    for (size_t c = 0; c < rule.num_conditions; ++c) possible &= can_hold(rule.conditions[c]);
    EXPECT_EQ(shown.count({rule.key, rule.other}), possible ? 1u : 0u)
        << rule.key << ", " << rule.other;
  }
}

// Both follow from the read_when of algo.adv_singleton, which lists the estimators of groups.
TEST(OptionRules, AnEstimatorEitherNeedsSeveralSamplesOfAPromptOrIgnoresTheSingletonPolicy) {
  const OptionInfo& info = require_option("algo.advantage");
  for (size_t i = 0; i < info.num_choices; ++i) {
    const std::string name = info.choices[i].name;
    SCOPED_TRACE(name);
    OptionSet set;
    set.set_text("algo.advantage", name);
    if (name == "gdpo") set.set_text("algo.gdpo_weights", "1,1");
    EXPECT_EQ(names_of(set.validate_all()), std::vector<Names>{});
    OptionSet single = set, policy = set;
    single.set_text("pipeline.samples_per_prompt", "1");
    policy.set_text("algo.adv_singleton", "zero");
    EXPECT_NE(single.validate_all().empty(), policy.validate_all().empty());
  }
}

// The conditions read once more, over texts and double.
bool holds(const OptionSet& set, const OptionCondition& c) {
  const auto number = [&](const char* key) { return std::stod(set.get_text(key)); };
  const std::string text = set.get_text(c.key);
  if (c.kind == OptionCondition::kChanged) return text != OptionSet().get_text(c.key);
  if (c.kind == OptionCondition::kIs) return text == c.value;
  if (c.kind == OptionCondition::kIsNot) return text != c.value;
  const double limit = number(c.other) * (*c.factor != '\0' ? number(c.factor) : 1);
  return c.kind == OptionCondition::kAbove ? number(c.key) > limit : number(c.key) >= limit;
}

std::vector<Names> violated(const OptionSet& set) {
  std::vector<Names> names;
  const OptionRules rules = option_rules();
  for (size_t i = 0; i < rules.count; ++i) {
    const OptionRule& rule = rules.rows[i];
    size_t met = 0;
    while (met < rule.num_conditions && holds(set, rule.conditions[met])) ++met;
    if (met == rule.num_conditions) names.emplace_back(rule.key, rule.other);
  }
  return names;
}

TEST(OptionRules, TwoHundredContradictoryConfigurationsGiveAllTheirViolationsAtOnce) {
  size_t most = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    test::MutationRng rng(seed);
    OptionSet set;
    std::map<std::string, std::string> values;
    for (size_t count = 2 + rng.below(8); count > 0; --count) {
      for (const std::string text : examples()[rng.below(examples().size())].assignments) {
        const size_t equals = text.find('=');
        values[text.substr(0, equals)] = text.substr(equals + 1);
      }
    }
    for (const auto& [key, value] : values) set.set_text(key, value);
    const std::vector<Names> expected = violated(set);
    EXPECT_EQ(names_of(set.validate_all()), expected) << "seed " << seed;
    most = std::max(most, expected.size());
    if (expected.size() < 2) continue;
    const Error thrown = expect_error(Code::kConflict, [&] { set.validate(); });
    EXPECT_EQ(names_of(thrown.parts), expected) << "seed " << seed;
    for (const Error& part : thrown.parts) {
      EXPECT_TRUE(contains(thrown.message, part.message)) << "seed " << seed;
    }
  }
  EXPECT_GT(most, 6u);
}

TEST(Violations, KeepTheirOrderAndShareACodeOnlyWhenTheyAgree) {
  Violations violations;
  violations.throw_any();
  violations.collect([] { throw Error(Code::kOutOfRange, "a is 1").with_key("a"); });
  violations.collect([] {});
  const Error one = expect_error(Code::kOutOfRange, [&] { Violations(violations).throw_any(); });
  EXPECT_EQ(one.message, "a is 1");
  violations.collect([] {
    throw joined_error({Error(Code::kConflict, "b").with_key("b"), Error(Code::kConflict, "c")});
  });
  const Error all = expect_error(Code::kInvalidArgument, [&] { violations.throw_any(); });
  EXPECT_EQ(all.message, "3 values are refused; a is 1; b; c");
  EXPECT_EQ(all.key, "a");
  ASSERT_EQ(all.parts.size(), 3u);
  EXPECT_EQ(all.parts[1].key, "b");
}

}  // namespace
}  // namespace rl
