// Converts settings to the records that lower layers take. Pure functions; the options are valid.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/kv_pool.h"
#include "model/masters.h"
#include "pipeline/config/settings.gen.h"
#include "rollout/engine.h"
#include "train/critic.h"
#include "train/options/trainer_options.h"

namespace rl {

// compute: the compute dtype, which engine.kv_dtype = auto stands for.
KvFormat kv_format_of(const Settings& settings, Dtype compute);
// How a batch is split.
BatchRules batch_rules_from(const Settings& settings);
SamplingParams sampling_from(const Settings& settings);
// Evaluations have eval.* in place of sampling.*, and no logit rules.
SamplingParams eval_sampling_from(const Settings& settings);
// The token ids of a list.
std::vector<int32_t> ids_from(const std::vector<int64_t>& numbers);
// Everything in a request except prompt, keys and number of samples.
Request request_from(const Settings& settings);
// The same for an evaluation: eval.samples_per_prompt samples and no minimum length.
Request eval_request_from(const Settings& settings);
// The ids that end a turn in the chat format also end a response; sampling.ignore_eos ignores
// them.
void add_turn_stops(Request& request, const std::vector<int32_t>& turn_ends);
// What model.freeze and model.train_only leave to train of the policy.
TrainableRule trainable_from(const Settings& settings);
// What a rank, one of those that parallel.zero_stage divides states among, has of the masters of a
// model with this configuration, of which `trainable` is trained.
MasterCut master_cut_from(const Settings& settings, const ModelConfig& config,
                          const TrainableRule& trainable, int rank);
// Without num_blocks and swap_blocks, which the plan chooses. max_model_len is the effective one.
EngineOptions engine_options_from(const Settings& settings, int64_t max_model_len);
// Rows of a trained sample that predict nothing: 1 for a reward model, which reads the row of the
// last token, else 0.
int64_t last_rows(const Settings& settings);
// How ranks divide the rows of micro-batches, and the tokens that all of them have if each has so
// many.
ContextRule context_rule_from(const Settings& settings);
int64_t of_all_ranks(const Settings& settings, int64_t tokens_per_device);
// step_samples: samples of a step, if known (MemoryPlan::step_samples). max_tokens: of a
// micro-batch, which ranks may divide.
TrainerOptions trainer_options_from(const Settings& settings, int64_t max_tokens,
                                    int64_t max_sequence, int64_t step_samples = 0);
// Tokens of the longest sample that is trained on: trainer.oversize = cut makes it shorter than the
// longest sequence.
int64_t trained_length(const Settings& settings, int64_t max_sequence);
// Of a model that only computes forwards, by the budgets of a trainer. Nothing is cut there.
StepOptions forward_options_from(const Settings& settings, int64_t max_tokens,
                                 int64_t max_sequence);
// checkpoint.contents; kInvalidArgument naming an entry that is unknown or there twice, or that
// there is none.
CheckpointContents checkpoint_contents_from(const Settings& settings);
bool has_critic(const Settings& settings);
// max_tokens is the policy's.
CriticOptions critic_options_from(const Settings& settings, int64_t max_tokens,
                                  int64_t max_sequence, int64_t step_samples = 0);
bool has_reward_model(const Settings& settings);
// max_tokens is the policy's.
StepOptions reward_options_from(const Settings& settings, int64_t max_tokens, int64_t max_sequence,
                                int64_t step_samples = 0);
// Samples per group: pipeline.samples_per_prompt, and with remax one more, the greedy response;
// with given responses one, or two for pairs.
int64_t attempts_per_prompt(const Settings& settings);
// pipeline.mode: whether samples of later steps are generated while a step trains, and whether each
// of their groups goes its own way.
bool generates_ahead(const Settings& settings);
bool flows_by_group(const Settings& settings);
// "both", "rollout" or "train".
const char* role_name(PipelineRole role);
// Most groups that a pipeline has complete and not in training, and most that it has at all.
int64_t most_complete_groups(const Settings& settings);
int64_t most_groups(const Settings& settings);
// What trainer.global_batch_size counts in a step of a pipeline: samples, or pairs.
int64_t trained_units(const Settings& settings);
// The directory that relative output paths start from, and the path that the value of an output
// option means; empty if the value is.
std::string output_root(const Settings& settings);
std::string output_path(const Settings& settings, const std::string& path);
// engine.max_model_len, or the model's own limit; kOutOfRange if it exceeds that limit.
int64_t effective_model_len(const Settings& settings, int64_t model_limit);

// Rows of a trace.
struct TraceLane {
  static constexpr uint32_t kPipeline = 0;
  static constexpr uint32_t kEngine = 1;
  static constexpr uint32_t kReward = 2;
  static constexpr uint32_t kTrain = 3;
};

}  // namespace rl
