// Every option that is fixed at creation acts: for each there is a change that leaves a visible
// difference in a run, in an engine or a trainer of the host, in the plan, or in what is refused.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "option_looks.h"
#include "rank_rig.h"
#include "scored_model.h"
#include "support/random_llama.h"
#include "tokenized_model.h"

namespace rl {
namespace {

using testing::begin_to_take;
using testing::bytes_between_groups;
using testing::compute_twice;
using testing::crossings;
using testing::first_id;
using testing::generate;
using testing::generates_meanwhile;
using testing::held_lanes;
using testing::id_rows;
using testing::interrupt_twice;
using testing::join;
using testing::memory_of_error;
using testing::most_running;
using testing::overlapped_bytes;
using testing::parameter_bytes;
using testing::plan_of_dtype;
using testing::plan_text;
using testing::prefetched;
using testing::publish_midway;
using testing::put_two_groups;
using testing::repeat_run;
using testing::reported_options;
using testing::Rig;
using testing::run_again;
using testing::run_once;
using testing::save_buffer_file;
using testing::stepped;
using testing::take_one_group;
using testing::tiny_options;
using testing::train;
using testing::train_lengths;
using testing::train_on_ranks;
using testing::train_plan_text;
using testing::train_spoiled;
using testing::wait_for_rank;
using testing::write_lines;

using Texts = std::vector<std::string>;
using Look = std::string (*)(const OptionSet&);

// What is set besides in both cases, and in one of them; the latter sets the option first of all.
struct Change {
  Texts changed;
  Texts base = {};
  Look look = run_once;
};

Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The llama fixture after a step of training.
std::string other_weights(const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  o.set_text("pipeline.total_steps", "1");
  o.set_text("optimizer.lr", "0.1");
  Rig rig(o);
  rig.start_and_serve();
  rig.model().save(dir.file("trained"), Dtype::kF32, false);
  return dir.file("trained");
}

Texts response_rows(const char* form) {
  Texts rows;
  for (const int id : {3, 4, 5, 6}) {
    rows.push_back(
        std::string(form) == "pairs"
            ? str("{\"ids\": [1, ", id, "], \"chosen\": [", id, ", 9], \"rejected\": [8, 7]}")
            : str("{\"ids\": [1, ", id, "], \"response\": [", id, ", 9]}"));
  }
  return rows;
}

// Paths that assignments name by "@": files and models made in the directory of the run.
std::string place(const TempDir& dir, const std::string& name) {
  const auto rows = [&](const Texts& lines) {
    write_lines(dir.file(name + ".jsonl"), lines);
    return dir.file(name + ".jsonl");
  };
  if (name == "three" || name == "five") return rows(id_rows(name == "three" ? 3 : 5));
  if (name == "pairs" || name == "answers") return rows(response_rows(name.c_str()));
  if (name == "chat") return rows(Texts(4, R"({"messages": [{"role": "user", "content": "ab"}]})"));
  if (name == "plain" || name == "twice") {
    std::ofstream(dir.file(name)) << "{% for m in messages %}{{ m.content }}"
                                  << (name == "twice" ? "{{ m.content }}{% endfor %}"
                                                      : "{% endfor %}");
    return dir.file(name);
  }
  if (name == "tokenized") return testing::with_small_tokenizer(dir);
  if (name == "scored") return testing::scored_model(dir);
  if (name == "deep") return testing::write_random_llama(dir.file(name), {.layers = 5});
  if (name == "trained") return other_weights(dir);
  if (name == "qwen2" || name == "mistral" || name == "llama") return testing::fixture_model(name);
  return dir.file("out/" + name);
}

void assign(OptionSet& o, const TempDir& dir, const std::string& text) {
  const size_t equals = text.find('=');
  if (text.starts_with("blocks=")) {
    for (const std::string& t : testing::with_blocks(o, std::stoi(text.substr(equals + 1)))) {
      o.set_assignment(t);
    }
  } else if (text.find("=@") == equals) {
    o.set_string(text.substr(0, equals), place(dir, text.substr(equals + 2)));
  } else {
    o.set_assignment(text);
  }
}

const std::map<std::string, Change>& changes() {
  const Texts halves = {"parallel.tensor=2", "parallel.reduction_parts=2"};
  const Texts gae = {"algo.advantage=gae", "critic.optimizer.lr=0.1"};
  const Texts passes = {"trainer.epochs=3", "optimizer.lr=1e-3"};
  const Texts sampler = passes + Texts{"algo.policy_loss=none", "algo.correction.is=token"};
  const Texts rejects = {"algo.correction.rs=token_k1", "algo.correction.rs_bounds=0.9_1.1"};
  const Texts distill = {"algo.objective=distill", "model.teacher_path=@qwen2"};
  const Texts pairs = {"algo.objective=dpo", "data.path=@pairs"};
  const Texts kl_loss = {"algo.kl.where=loss", "algo.kl.coef=0.5"};
  const Texts two_steps = {"pipeline.total_steps=2"};
  const Texts ahead = {"pipeline.mode=async", "model.compute_copies=2", "pipeline.total_steps=4",
                       "trainer.max_tokens_per_device=48", "sampling.max_new_tokens=24"};
  const Texts kl_reward = two_steps + Texts{"algo.kl.where=reward", "algo.kl.coef=0.5"};
  const Texts kl_ema = kl_loss + Texts{"optimizer.ema=0.5", "optimizer.lr=0.01"};
  const Texts eval = {"eval.path=@three", "eval.every_steps=1"};
  const Texts linear = passes + Texts{"schedule.name=linear", "schedule.total_steps=2"};
  const Texts few = {"engine.max_num_seqs=8", "blocks=8"};
  const Texts swap = {"engine.preemption=swap", "engine.swap_space_bytes=1MiB"};
  const Texts chat = {"model.path=@tokenized", "data.path=@chat"};
  const Texts small = {"trainer.max_tokens_per_device=48"};
  const Texts full = {"trainer.recompute_granularity=full", "trainer.recompute_method=uniform",
                      "trainer.recompute_num_layers=1"};
  const Texts deep = {"model.path=@deep"};
  const Texts counted = {"trainer.dynamic_batching=false"};
  const Texts checkpoints = {"checkpoint.dir=@checkpoints", "checkpoint.every_steps=1"};
  const Texts traced = {"profiler.timeline.enable=true", "profiler.timeline.dir=@trace"};
  const Texts rewarded = {"model.reward_path=@scored"};
  const Texts generates = {"pipeline.mode=async", "optimizer.lr=1e-6", "buffer.store_path=@store"};
  const Texts clip = {"algo.reward.clip_high=0.2", "algo.reward.clip_low=-0.3"};
  static const auto* const kChanges = new std::map<std::string, Change>{
      {"algo.adv_singleton", {{"zero"}, {}, train}},
      {"algo.adv_std_scope", {{"batch"}}},
      {"algo.advantage", {{"rloo"}}},
      {"algo.correction.decoupled", {{"true"}, sampler}},
      {"algo.correction.is", {{"token"}, passes + Texts{"algo.policy_loss=none"}}},
      {"algo.correction.mode", {{"icepop"}, sampler + Texts{"algo.correction.high=1.0001"}}},
      {"algo.correction.rs", {{"token_k1", "algo.correction.rs_bounds=0.999_1.001"}, passes}},
      {"algo.correction.rs_bounds", {{"0.999_1.001"}, passes + rejects}},
      {"algo.critic_warmup_steps", {{"1"}, gae}},
      {"algo.distill.kl", {{"forward"}, distill}},
      {"algo.distill.rewards", {{"false"}, distill}},
      {"algo.dpo.ipo", {{"true"}, pairs}},
      {"algo.gae_masked", {{"zero"}, gae + Texts{"algo.gamma=0.5"}, train}},
      {"algo.gdpo_weights", {{"1,3"}, {"algo.advantage=gdpo", "algo.gdpo_weights=1,1"}}},
      {"algo.gspo_gradient",
       {{"sequence"}, kl_reward + Texts{"algo.kl.spread=token", "algo.policy_loss=gspo"}}},
      {"algo.kl.controller", {{"adaptive"}, two_steps + kl_loss}},
      {"algo.kl.estimator", {{"k1"}, kl_reward}},
      {"algo.kl.spread", {{"token"}, kl_reward}},
      {"algo.kl.where", {{"loss", "algo.kl.coef=0.5"}}},
      {"algo.loss_agg", {{"token_sum"}}},
      {"algo.objective", {{"distill", "model.teacher_path=@qwen2"}}},
      {"algo.policy_loss", {{"none"}, passes}},
      {"algo.reward.clip_at", {{"advantage"}, clip}},
      {"algo.whiten", {{"eps"}}},
      {"buffer.compression_level", {{"9"}, {"buffer.compression_level=1"}, save_buffer_file}},
      {"buffer.max_staleness", {{"8"}, {}, take_one_group}},
      {"buffer.num_storage_units", {{"2"}, {"buffer.store_path=@store"}, put_two_groups}},
      {"buffer.policy", {{"newest"}, {}, take_one_group}},
      {"buffer.record_dir", {{"@batches"}}},
      {"buffer.spill_path", {{"@spill"}, {}, put_two_groups}},
      {"buffer.store_lease_ns", {{"1s"}, {"buffer.store_path=@store"}, begin_to_take}},
      {"buffer.store_path", {{"@store"}, {}, put_two_groups}},
      {"checkpoint.async", {{"true"}, checkpoints, plan_text}},
      {"checkpoint.contents", {{"model"}, checkpoints}},
      {"checkpoint.dir", {{"@checkpoints", "checkpoint.every_steps=1"}}},
      {"checkpoint.resume", {{"auto"}, checkpoints, run_again}},
      {"critic.forward_max_tokens_per_device", {{"5000"}, gae, plan_text}},
      {"critic.max_tokens_per_device", {{"32"}, gae}},
      {"critic.micro_batch_size", {{"3"}, gae + counted}},
      {"critic.recompute_granularity", {{"selective"}, gae, plan_text}},
      {"data.path", {{"@five"}, {"data.path=@three", "data.shuffle=false"}}},
      {"data.preprocess_workers", {{"2"}}},
      {"data.shuffle", {{"false"}}},
      {"data.shuffle_seed", {{"5"}}},
      {"data.streaming", {{"false"}}},
      {"data.streaming_buffer_size", {{"2"}}},
      {"engine.block_size", {{"32"}, {}, generate}},
      {"engine.chunked_prefill", {{"false"}, {"engine.max_num_batched_tokens=32"}, generate}},
      {"engine.graph_batch_sizes", {{"1,8"}}},
      {"engine.keep_kv_on_publish",
       {{"true"}, swap + Texts{"model.compute_copies=2"}, publish_midway}},
      {"engine.kv_dtype", {{"bf16"}}},
      {"engine.kv_watermark", {{"0.6"}, few, generate}},
      {"engine.max_model_len", {{"16"}, {}, plan_text}},
      {"engine.max_num_batched_tokens", {{"16"}, {}, generate}},
      {"engine.max_num_seqs", {{"2"}, {}, generate}},
      {"engine.memory_fraction", {{"0.9"}, few, generate}},
      {"engine.num_engines", {{"2"}, {"engine.max_num_seqs=2"}, generate}},
      {"engine.preemption", {{"swap", "engine.swap_space_bytes=1MiB"}, few, generate}},
      {"engine.prefill_chunk", {{"4"}, {}, generate}},
      {"engine.prefix_caching", {{"false"}, {}, generate}},
      {"engine.scheduling_policy", {{"priority"}, {"engine.max_num_seqs=2"}, generate}},
      {"engine.stats_interval_ns", {{"1ns"}}},
      {"engine.stream_tokens", {{"2"}, {}, stepped}},
      {"engine.swap_space_bytes",
       {{"8KiB"}, few + Texts{"engine.preemption=swap", "engine.swap_space_bytes=1MiB"}, generate}},
      {"engine.tensor_parallel_size", {{"1"}, halves, plan_text}},
      {"engine.thread", {{"true"}, {}, stepped}},
      {"eval.path", {{"@three", "eval.every_steps=1"}}},
      {"eval.samples_per_prompt", {{"3"}, eval + Texts{"eval.temperature=1"}}},
      {"metrics.eval_jsonl", {{"@eval.jsonl"}, eval}},
      {"metrics.jsonl", {{"@steps.jsonl"}}},
      {"metrics.max_samples", {{"1"}, eval + Texts{"metrics.samples=@samples.jsonl"}}},
      {"metrics.samples", {{"@samples.jsonl"}}},
      {"metrics.tensorboard", {{"true"}, {"metrics.jsonl=@steps.jsonl"}}},
      {"model.chat_template_path", {{"@twice"}, chat + Texts{"model.chat_template_path=@plain"}}},
      {"model.compute_copies", {{"2"}, {}, publish_midway}},
      {"model.critic_path", {{"@scored"}, gae}},
      {"model.dtype", {{"bf16"}, {}, plan_of_dtype}},
      {"model.freeze", {{"model.layers.0.*"}}},
      {"model.path", {{"@mistral"}}},
      {"model.reference_path", {{"@trained"}, kl_loss}},
      {"model.reward_path", {{"@scored"}}},
      {"model.teacher_path", {{"@mistral"}, distill}},
      {"model.train_only", {{"*norm.weight"}}},
      {"optimizer.beta1", {{"0.5"}, passes}},
      {"optimizer.beta2", {{"0.5"}, passes}},
      {"optimizer.cpu_offload", {{"true"}, {}, plan_text}},
      {"optimizer.cpu_offload_fraction", {{"0.5"}, {"optimizer.cpu_offload=true"}, plan_text}},
      {"optimizer.ema", {{"0.9"}, {}, plan_text}},
      {"optimizer.eps", {{"1e-3"}}},
      {"optimizer.muon_momentum", {{"0.5"}, passes + Texts{"optimizer.name=muon"}}},
      {"optimizer.muon_ns_steps", {{"2"}, {"optimizer.name=muon"}}},
      {"optimizer.name", {{"muon"}}},
      {"optimizer.no_decay", {{"norms,*.o_proj.weight"}, {"optimizer.weight_decay=1"}}},
      {"optimizer.overlap_d2h_h2d", {{"false"}, {"optimizer.cpu_offload=true"}, plan_text}},
      {"optimizer.state_dtype", {{"int8"}, passes}},
      {"pipeline.filter", {{"mean", "pipeline.filter_high=0.1", "pipeline.filter_max_rounds=1"}}},
      {"pipeline.mask_off_policy_tokens",
       {{"true"}, ahead + Texts{"pipeline.partial_rollout=true"}, crossings}},
      {"pipeline.max_off_policy_steps",
       {{"0"}, ahead + Texts{"pipeline.partial_rollout=true"}, crossings}},
      {"pipeline.mode", {{"one_step_off", "model.compute_copies=2"}, {}, plan_text}},
      {"pipeline.role",
       {{"rollout", "pipeline.weights_dir=@followed"},
        generates + Texts{"model.compute_copies=1"},
        plan_text}},
      {"pipeline.weights_dir",
       {{"@followed"},
        generates + Texts{"pipeline.role=rollout", "pipeline.total_steps=1"},
        plan_text}},
      {"pipeline.over_sampling_prompts",
       {{"3"}, ahead + Texts{"pipeline.max_staleness=2"}, plan_text}},
      {"pipeline.partial_rollout", {{"true"}, ahead, crossings}},
      {"pipeline.colocate", {{"none"}}},
      {"pipeline.placement", {{"spread"}, {}, reported_options}},
      {"pipeline.rollout_turns",
       {{"1000000"}, ahead + Texts{"pipeline.partial_rollout=true"}, crossings}},
      {"pipeline.train_turns",
       {{"1000000"}, ahead + Texts{"pipeline.partial_rollout=true"}, generates_meanwhile}},
      {"pipeline.partial_rollout_max_aborts", {{"1"}, {}, interrupt_twice}},
      {"pipeline.prompts_per_step", {{"2"}}},
      {"pipeline.queue_size", {{"0"}, ahead, plan_text}},
      {"pipeline.free_lane_after_generation",
       {{"false"}, {"pipeline.max_concurrent_prompts_per_engine=1"}, held_lanes}},
      {"pipeline.max_concurrent_prompts_per_engine", {{"1"}, {}, most_running}},
      {"pipeline.sample_lanes",
       {{"group"}, {"pipeline.max_concurrent_prompts_per_engine=1"}, most_running}},
      {"pipeline.prompt_prefetch", {{"true"}}},
      {"pipeline.prompt_prefetch_size", {{"1"}, {"pipeline.prompt_prefetch=true"}, prefetched}},
      {"pipeline.record_path", {{"@schedule"}}},
      {"pipeline.replay_path", {{"@schedule"}, {}, repeat_run}},
      {"pipeline.samples_per_prompt", {{"2"}}},
      {"pipeline.turns", {{"always"}}},
      {"profiler.timeline.dir", {{"@trace_b"}, traced}},
      {"profiler.timeline.enable", {{"true", "profiler.timeline.dir=@trace"}}},
      {"reference.forward_max_tokens_per_device", {{"5000"}, kl_loss, plan_text}},
      {"reference.micro_batch_size", {{"3"}, kl_loss + counted, plan_text}},
      {"reference.offload", {{"true"}, kl_loss, plan_text}},
      {"reference.weights", {{"ema"}, two_steps + kl_ema}},
      {"reward.forward_max_tokens_per_device", {{"5000"}, rewarded, plan_text}},
      {"reward.micro_batch_size", {{"3"}, rewarded + counted, plan_text}},
      {"comm.backend", {{"gloo", "comm.rendezvous=here"}, {"parallel.data=2"}, join}},
      {"comm.rank",
       {{"1"},
        {"parallel.data=2", "comm.backend=gloo", "comm.rendezvous=tcp:192.0.2.1:29500",
         "comm.timeout_ns=1ms"},
        join}},
      {"comm.rendezvous",
       {{"there"}, {"parallel.data=2", "comm.backend=gloo", "comm.rendezvous=here"}, join}},
      {"comm.reduction_order", {{"backend"}}},  // needs NCCL: tests/cuda_models/cuda_nccl_test.cc
      {"comm.memory_check",
       {{"true"}, {"parallel.data=2", "comm.timeout_ns=1ms"}, memory_of_error}},
      {"comm.memory_check_threshold_bytes",
       {{"1048576TiB"},
        {"parallel.data=2", "comm.timeout_ns=1ms", "comm.memory_check=true"},
        memory_of_error}},
      {"comm.timeout_ns", {{"1ms"}, {"parallel.data=2"}, wait_for_rank}},
      {"parallel.context", {{"2"}, {}, plan_text}},
      {"parallel.context_kind", {{"ulysses"}, {"parallel.context=2"}, plan_text}},
      {"parallel.context_zigzag", {{"true"}, {"parallel.context=2"}, train_on_ranks}},
      {"parallel.data", {{"2"}, {}, train_on_ranks}},
      {"parallel.zero_stage", {{"1"}, {"parallel.data=2"}, parameter_bytes}},
      {"parallel.zero_group",
       {{"2"}, {"parallel.data=4", "parallel.zero_stage=1"}, bytes_between_groups}},
      {"parallel.overlap_grad_reduce", {{"true"}, {"parallel.data=2"}, overlapped_bytes}},
      {"parallel.overlap_param_gather",
       {{"true"}, {"parallel.data=2", "parallel.zero_stage=1"}, overlapped_bytes}},
      {"parallel.forward_prefetch", {{"true"}}},
      {"parallel.backward_prefetch", {{"pre"}}},
      {"parallel.devices.critic", {{"0"}}},
      {"parallel.devices.engine", {{"0"}}},
      {"parallel.devices.reference", {{"0"}}},
      {"parallel.devices.reward", {{"0"}}},
      {"parallel.devices.trainer", {{"0"}}},
      {"parallel.reduction_parts", {{"2"}, passes}},
      {"parallel.sequence_parallel",
       {{"true"}, {"parallel.tensor=2", "parallel.reduction_parts=2"}, plan_text}},
      {"parallel.tensor", {{"2"}, {"parallel.reduction_parts=2"}, plan_text}},
      {"parallel.pipeline", {{"2"}, {}, train_plan_text}},
      {"parallel.pipeline_first_layers",
       {{"1"},
        deep + Texts{"parallel.pipeline=3", "parallel.pipeline_last_layers=1"},
        train_plan_text}},
      {"parallel.pipeline_last_layers",
       {{"1"},
        deep + Texts{"parallel.pipeline=3", "parallel.pipeline_first_layers=1"},
        train_plan_text}},
      {"sync.bucket_bytes",
       {{"64KiB"}, halves + Texts{"engine.tensor_parallel_size=1"}, plan_text}},
      {"trainer.balance_groups", {{"true"}, {"parallel.data=3"}, train_on_ranks}},
      {"runtime.busy_timeout_ns", {{"1ns"}, {}, compute_twice}},
      {"runtime.cpus", {{"8191"}}},  // a CPU that no machine of ours has
      {"runtime.device", {{"cuda"}}},
      {"runtime.device_index", {{"1"}}},
      {"runtime.experiment", {{"e"}, {"runtime.output_dir=@runs", "metrics.jsonl=steps.jsonl"}}},
      {"runtime.gpu_ranges", {{"true"}}},
      {"runtime.host_memory_budget_bytes",
       {{"1KiB"}, deep + Texts{"trainer.activation_offload=true"}, plan_text}},
      {"runtime.instance", {{"3"}, {}, first_id}},
      {"runtime.memory_budget_bytes", {{"1KiB"}, {}, plan_text}},
      {"runtime.memory_margin_bytes",
       {{"1048575KiB"}, {"runtime.memory_budget_bytes=1GiB"}, plan_text}},
      {"runtime.output_dir", {{"@b"}, {"runtime.output_dir=@a", "metrics.jsonl=steps.jsonl"}}},
      {"runtime.seed", {{"8"}}},
      {"runtime.threads", {{"2"}, {}, plan_text}},
      {"sampling.seed", {{"5"}, {}, generate}},
      {"schedule.min_lr", {{"1e-3"}, linear}},
      {"schedule.name", {{"linear", "schedule.total_steps=4"}, passes}},
      {"schedule.total_steps", {{"9"}, linear}},
      {"schedule.warmup_steps", {{"3"}}},
      {"trainer.activation_offload", {{"true"}, deep, plan_text}},
      {"trainer.backward_weights", {{"resident"}, {}, plan_text}},
      {"trainer.balance", {{"tokens"}, small, train_lengths}},
      {"trainer.check_logprobs", {{"false"}, {}, train_spoiled}},
      {"trainer.dynamic_batching", {{"false"}}},
      {"trainer.epochs", {{"2"}}},
      {"trainer.free_grad_buffers_on_publish", {{"true"}, {}, plan_text}},
      {"trainer.global_batch_size", {{"4"}}},
      {"trainer.grad_dtype", {{"bf16"}}},
      {"trainer.logprob_chunk_tokens", {{"8"}, {}, plan_text}},
      {"trainer.logprob_max_tokens_per_device", {{"5000"}, {}, plan_text}},
      {"trainer.max_tokens_per_device", {{"48"}}},
      {"trainer.micro_batch_size", {{"3"}, counted}},
      {"trainer.mlp_chunk_tokens", {{"512"}, {"trainer.max_tokens_per_device=1024"}, plan_text}},
      {"trainer.num_minibatches", {{"2"}}},
      {"trainer.oversize", {{"alone"}, {"trainer.max_tokens_per_device=20"}}},
      {"trainer.pad_to_multiple_of", {{"128"}}},
      {"trainer.recompute_granularity", {{"selective"}, {}, plan_text}},
      {"trainer.recompute_loss", {{"true"}, {}, plan_text}},
      {"trainer.recompute_method", {{"block"}, full, plan_text}},
      {"trainer.recompute_modules",
       {{"core_attn"}, {"trainer.recompute_granularity=selective"}, plan_text}},
      {"trainer.recompute_num_layers", {{"2"}, full, plan_text}},
      {"trainer.seq_len", {{"200"}}},
      {"trainer.sequence_packing", {{"false"}}},
      {"trainer.shared_prefix", {{"false"}}},
      {"trainer.weights_backup", {{"true"}, {}, plan_text}},
  };
  return *kChanges;
}

struct Seen {
  std::string text;
  std::string refused;  // the option that a refusal names
};

// What the look shows, or the refusal, and the files that are left.
Seen look_at(const Texts& assignments, Look look) {
  const TempDir dir;
  std::filesystem::create_directory(dir.file("out"));
  Seen out;
  try {
    OptionSet o = tiny_options(dir);
    o.set_text("pipeline.total_steps", "1");
    for (const std::string& text : assignments) assign(o, dir, text);
    if (!is_rl(Settings(o).algo.objective)) {
      for (const char* key :
           {"pipeline.samples_per_prompt", "sampling.max_new_tokens", "sampling.ignore_eos",
            "engine.max_num_seqs", "engine.max_num_batched_tokens"}) {
        o.unset(key);
      }
    }
    out.text = look(o);
  } catch (const Error& e) {
    out.text = str("refused: ", e.message, "\n");
    out.refused = e.key;
  }
  out.text += testing::files_in(dir.file("out"));
  return out;
}

// Nothing is refused but for an option that the test sets: else a slip of the test would pass.
void expect_named(const Seen& seen, const Texts& assignments) {
  const auto sets = [&](const std::string& text) { return text.starts_with(seen.refused + "="); };
  EXPECT_TRUE(!seen.text.starts_with("refused") || std::ranges::any_of(assignments, sets))
      << seen.text;
}

TEST(CreateOptions, EveryOneActsOrIsRefused) {
  std::map<std::pair<Look, Texts>, Seen> bases;
  std::set<std::string> left;
  for (const auto& [key, change] : changes()) left.insert(key);
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    if (info.when != OptionWhen::kCreate) continue;
    SCOPED_TRACE(info.key);
    const auto found = changes().find(info.key);
    if (found == changes().end()) {
      EXPECT_EQ(info.num_choices, 1u) << "the test has no change of this option";
      continue;
    }
    left.erase(info.key);
    const auto& [changed, base, look] = found->second;
    Texts all = base + changed;
    all[base.size()] = str(info.key, "=", changed.front());
    const auto [before, is_new] = bases.try_emplace({look, base});
    if (is_new) before->second = look_at(base, look);
    const Seen after = look_at(all, look);
    expect_named(before->second, all);
    expect_named(after, all);
    EXPECT_NE(before->second.text, after.text) << "it did not act";
  }
  for (const std::string& key : left) ADD_FAILURE() << key << " is no option fixed at creation";
}

}  // namespace
}  // namespace rl
