// Generated from abi/options.yml by tools/gen_options.py; edit the former and run the latter.
//
// Options as typed fields: settings.algo.kl.coef is the value of algo.kl.coef. Objects are made
// with Settings and read its fields; only the conversion from an OptionSet names keys. No field is
// changed by itself: to change an option, change a copy of `set` and convert that.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "algo/advantages/advantage.h"
#include "algo/advantages/kl_controller.h"
#include "algo/advantages/returns.h"
#include "algo/batching/balance.h"
#include "algo/losses/correction.h"
#include "algo/losses/kl.h"
#include "algo/losses/loss_agg.h"
#include "algo/losses/objective.h"
#include "algo/losses/policy_loss.h"
#include "algo/optimizers/schedule.h"
#include "core/log.h"
#include "options/options.h"

namespace rl {

enum class AlgoAdvStdScope : uint8_t { kGroup, kBatch };
enum class AlgoCorrectionDenominator : uint8_t { kKept, kAll };
enum class AlgoDistillKl : uint8_t { kSampled, kForward, kReverse, kMixed };
enum class AlgoGspoGradient : uint8_t { kToken, kSequence };
enum class AlgoKlRatio : uint8_t { kNone, kGradient, kFull };
enum class AlgoKlSpread : uint8_t { kSample, kToken };
enum class AlgoKlWhere : uint8_t { kNone, kReward, kLoss };
enum class AlgoRewardClipAt : uint8_t { kReward, kAdvantage };
enum class AlgoWhiten : uint8_t { kAuto, kNone, kEps, kFloor };
enum class BufferPolicy : uint8_t { kFifo, kNewest };
enum class CheckpointMetricGoal : uint8_t { kHighest, kLowest };
enum class CheckpointOnFailure : uint8_t { kStop, kContinue };
enum class CommBackend : uint8_t { kLocal, kGloo, kNccl, kHost };
enum class CommReductionOrder : uint8_t { kRanks, kBackend };
enum class CriticRecomputeGranularity : uint8_t { kPolicy, kNone, kSelective, kFull };
enum class EngineKvDtype : uint8_t { kAuto, kBf16, kFp32 };
enum class EnginePreemption : uint8_t { kRecompute, kSwap };
enum class EngineSchedulingPolicy : uint8_t { kFcfs, kPriority };
enum class EvalWeights : uint8_t { kTrained, kEma };
enum class ModelDtype : uint8_t { kAuto, kBf16, kFp32 };
enum class OptimizerName : uint8_t { kAdamw, kMuon };
enum class OptimizerStateDtype : uint8_t { kFp32, kBf16, kInt8 };
enum class ParallelBackwardPrefetch : uint8_t { kNone, kPre, kPost };
enum class ParallelContextKind : uint8_t { kAllGather, kUlysses, kRing };
enum class PipelineColocate : uint8_t { kAll, kActorRef, kCriticReward, kNone };
enum class PipelineFilter : uint8_t { kNone, kMean, kSpread };
enum class PipelineMode : uint8_t { kSync, kOneStepOff, kAsync };
enum class PipelinePlacement : uint8_t { kPack, kSpread, kStrictPack, kStrictSpread };
enum class PipelineRole : uint8_t { kBoth, kRollout, kTrain };
enum class PipelineSampleLanes : uint8_t { kIndividual, kGroup };
enum class PipelineScoreEvents : uint8_t { kSample, kGroup };
enum class PipelineTurns : uint8_t { kNone, kStopString, kAlways };
enum class ReferenceWeights : uint8_t { kInitial, kEma };
enum class RuntimeDevice : uint8_t { kCpu, kCuda };
enum class TrainerBackwardWeights : uint8_t { kByLayer, kResident };
enum class TrainerGradDtype : uint8_t { kFp32, kBf16 };
enum class TrainerOversize : uint8_t { kError, kAlone, kCut };
enum class TrainerRecomputeGranularity : uint8_t { kNone, kSelective, kFull };
enum class TrainerRecomputeMethod : uint8_t { kNone, kUniform, kBlock };

// algo.correction.*
struct AlgoCorrectionSettings {
  explicit AlgoCorrectionSettings(const OptionSet& options);

  bool batch_normalize;
  bool decoupled;
  AlgoCorrectionDenominator denominator;
  double high;
  CorrectionLevel is;
  double log_clamp;
  double low;
  CorrectionMode mode;
  double opsm_delta;
  std::vector<std::string> rs;
  std::vector<std::string> rs_bounds;
  double veto;
};

// algo.distill.*
struct AlgoDistillSettings {
  explicit AlgoDistillSettings(const OptionSet& options);

  double beta;
  double coef;
  AlgoDistillKl kl;
  bool rewards;
};

// algo.dpo.*
struct AlgoDpoSettings {
  explicit AlgoDpoSettings(const OptionSet& options);

  double beta;
  bool ipo;
  double label_smoothing;
  double nll_coef;
};

// algo.kl.*
struct AlgoKlSettings {
  explicit AlgoKlSettings(const OptionSet& options);

  double coef;
  KlControl controller;
  KlEstimator estimator;
  double horizon;  // samples
  AlgoKlRatio ratio;
  double ratio_cap;
  AlgoKlSpread spread;
  double target;
  double value_clamp;
  AlgoKlWhere where;
};

// algo.reward.*
struct AlgoRewardSettings {
  explicit AlgoRewardSettings(const OptionSet& options);

  AlgoRewardClipAt clip_at;
  double clip_high;
  double clip_low;
  bool normalize;
  int64_t overlong_buffer;  // tokens
  double overlong_penalty;
  double truncation_penalty;
};

// algo.*
struct AlgoSettings {
  explicit AlgoSettings(const OptionSet& options);

  int64_t adv_ddof;  // degrees of freedom
  double adv_eps;
  bool adv_norm_std;
  AdvSingleton adv_singleton;
  AlgoAdvStdScope adv_std_scope;
  Advantage advantage;
  double clip_cov_high;
  double clip_cov_low;
  double clip_high;
  double clip_low;
  double cov_ratio;
  int64_t critic_warmup_steps;  // steps
  double dro_beta;
  double dual_clip;
  double entropy_coef;
  MaskedTokens gae_masked;
  double gamma;
  std::vector<std::string> gdpo_weights;
  AlgoGspoGradient gspo_gradient;
  double kl_cov_coef;
  double lambda;
  LossAgg loss_agg;
  double loss_scale_factor;  // tokens
  Objective objective;
  PolicyLoss policy_loss;
  double ratio_cap;
  double ratio_log_clamp;
  double sapo_tau_neg;
  double sapo_tau_pos;
  double value_clip;
  AlgoWhiten whiten;
  AlgoCorrectionSettings correction;
  AlgoDistillSettings distill;
  AlgoDpoSettings dpo;
  AlgoKlSettings kl;
  AlgoRewardSettings reward;
};

// buffer.*
struct BufferSettings {
  explicit BufferSettings(const OptionSet& options);

  int64_t compression_level;
  int64_t max_staleness;  // versions
  int64_t num_storage_units;  // directories
  BufferPolicy policy;
  std::string record_dir;
  std::string spill_path;
  int64_t store_lease_ns;  // nanoseconds
  std::string store_path;
};

// checkpoint.*
struct CheckpointSettings {
  explicit CheckpointSettings(const OptionSet& options);

  bool async;
  std::vector<std::string> contents;
  std::string dir;
  int64_t every_steps;  // steps
  int64_t keep_best;  // checkpoints
  int64_t keep_last;  // checkpoints
  std::string metric;
  CheckpointMetricGoal metric_goal;
  CheckpointOnFailure on_failure;
  std::string resume;
};

// comm.*
struct CommSettings {
  explicit CommSettings(const OptionSet& options);

  CommBackend backend;
  bool memory_check;
  uint64_t memory_check_threshold_bytes;  // bytes
  int64_t rank;
  CommReductionOrder reduction_order;
  std::string rendezvous;
  int64_t timeout_ns;  // nanoseconds
};

// critic.optimizer.*
struct CriticOptimizerSettings {
  explicit CriticOptimizerSettings(const OptionSet& options);

  double grad_clip;
  double lr;
  double weight_decay;
};

// critic.*
struct CriticSettings {
  explicit CriticSettings(const OptionSet& options);

  int64_t forward_max_tokens_per_device;  // tokens
  int64_t max_tokens_per_device;  // tokens
  int64_t micro_batch_size;  // samples
  CriticRecomputeGranularity recompute_granularity;
  CriticOptimizerSettings optimizer;
};

// data.*
struct DataSettings {
  explicit DataSettings(const OptionSet& options);

  std::string path;
  int64_t preprocess_workers;  // threads
  bool shuffle;
  uint64_t shuffle_seed;
  bool streaming;
  int64_t streaming_buffer_size;  // rows
};

// engine.*
struct EngineSettings {
  explicit EngineSettings(const OptionSet& options);

  int64_t block_size;  // tokens
  bool chunked_prefill;
  std::vector<int64_t> graph_batch_sizes;  // sequences
  bool keep_kv_on_publish;
  EngineKvDtype kv_dtype;
  double kv_watermark;
  int64_t max_model_len;  // tokens
  int64_t max_num_batched_tokens;  // tokens
  int64_t max_num_seqs;  // sequences
  double memory_fraction;
  int64_t num_engines;  // engines
  EnginePreemption preemption;
  int64_t prefill_chunk;  // tokens
  bool prefix_caching;
  EngineSchedulingPolicy scheduling_policy;
  int64_t stats_interval_ns;  // nanoseconds
  int64_t stream_tokens;  // tokens
  uint64_t swap_space_bytes;  // bytes
  int64_t tensor_parallel_size;  // ranks
  bool thread;
};

// eval.*
struct EvalSettings {
  explicit EvalSettings(const OptionSet& options);

  int64_t every_steps;  // steps
  int64_t max_new_tokens;  // tokens
  int64_t max_prompts;  // prompts
  std::string path;
  int64_t samples_per_prompt;  // samples
  double temperature;
  double top_p;
  EvalWeights weights;
};

// metrics.*
struct MetricsSettings {
  explicit MetricsSettings(const OptionSet& options);

  std::string eval_jsonl;
  int64_t interval_steps;  // steps
  std::string jsonl;
  int64_t max_samples;  // responses
  std::string samples;
  bool tensorboard;
};

// model.*
struct ModelSettings {
  explicit ModelSettings(const OptionSet& options);

  std::string chat_template_path;
  int64_t compute_copies;  // copies
  std::string critic_path;
  ModelDtype dtype;
  std::vector<std::string> freeze;
  std::string path;
  std::string reference_path;
  std::string reward_path;
  std::string teacher_path;
  std::vector<std::string> train_only;
};

// optimizer.*
struct OptimizerSettings {
  explicit OptimizerSettings(const OptionSet& options);

  double beta1;
  double beta2;
  bool cpu_offload;
  double cpu_offload_fraction;
  double ema;
  double eps;
  double grad_clip;
  double lr;
  double muon_momentum;
  int64_t muon_ns_steps;  // steps
  OptimizerName name;
  std::vector<std::string> no_decay;
  bool overlap_d2h_h2d;
  OptimizerStateDtype state_dtype;
  double weight_decay;
};

// parallel.devices.*
struct ParallelDevicesSettings {
  explicit ParallelDevicesSettings(const OptionSet& options);

  std::vector<int64_t> critic;
  std::vector<int64_t> engine;
  std::vector<int64_t> reference;
  std::vector<int64_t> reward;
  std::vector<int64_t> trainer;
};

// parallel.*
struct ParallelSettings {
  explicit ParallelSettings(const OptionSet& options);

  ParallelBackwardPrefetch backward_prefetch;
  int64_t context;  // ranks
  ParallelContextKind context_kind;
  bool context_zigzag;
  int64_t data;  // ranks
  bool forward_prefetch;
  bool overlap_grad_reduce;
  bool overlap_param_gather;
  int64_t pipeline;  // stages
  int64_t pipeline_first_layers;  // layers
  int64_t pipeline_last_layers;  // layers
  int64_t reduction_parts;  // parts
  bool sequence_parallel;
  int64_t tensor;  // ranks
  int64_t zero_group;  // ranks
  int64_t zero_stage;
  ParallelDevicesSettings devices;
};

// pipeline.*
struct PipelineSettings {
  explicit PipelineSettings(const OptionSet& options);

  PipelineColocate colocate;
  bool discard_zero_advantage;
  PipelineFilter filter;
  double filter_high;
  double filter_low;
  int64_t filter_max_rounds;  // rounds
  double filter_spread;
  bool free_lane_after_generation;
  bool mask_off_policy_tokens;
  int64_t max_concurrent_prompts_per_engine;  // prompts
  int64_t max_off_policy_steps;  // steps
  int64_t max_staleness;  // versions
  int64_t max_turns;  // turns
  PipelineMode mode;
  int64_t over_sampling_prompts;  // prompts
  bool overlong_filter;
  bool partial_rollout;
  int64_t partial_rollout_max_aborts;  // aborts
  PipelinePlacement placement;
  bool prompt_prefetch;
  int64_t prompt_prefetch_size;  // prompts
  int64_t prompts_per_step;  // prompts
  int64_t queue_size;  // batches
  std::string record_path;
  double repetition_filter;
  int64_t repetition_ngram;  // tokens
  std::string replay_path;
  int64_t reply_timeout_ns;  // nanoseconds
  int64_t reward_timeout_ns;  // nanoseconds
  PipelineRole role;
  int64_t rollout_turns;  // forwards
  PipelineSampleLanes sample_lanes;
  int64_t samples_per_prompt;  // samples
  PipelineScoreEvents score_events;
  int64_t total_steps;  // steps
  int64_t train_turns;  // micro-batches
  PipelineTurns turns;
  std::string weights_dir;
};

// profiler.timeline.*
struct ProfilerTimelineSettings {
  explicit ProfilerTimelineSettings(const OptionSet& options);

  std::string dir;
  bool enable;
};

// profiler.*
struct ProfilerSettings {
  explicit ProfilerSettings(const OptionSet& options);

  ProfilerTimelineSettings timeline;
};

// reference.*
struct ReferenceSettings {
  explicit ReferenceSettings(const OptionSet& options);

  int64_t forward_max_tokens_per_device;  // tokens
  int64_t micro_batch_size;  // samples
  bool offload;
  ReferenceWeights weights;
};

// reward.*
struct RewardSettings {
  explicit RewardSettings(const OptionSet& options);

  int64_t forward_max_tokens_per_device;  // tokens
  int64_t micro_batch_size;  // samples
};

// runtime.*
struct RuntimeSettings {
  explicit RuntimeSettings(const OptionSet& options);

  int64_t busy_timeout_ns;  // nanoseconds
  std::vector<int64_t> cpus;
  RuntimeDevice device;
  int64_t device_index;
  std::string experiment;
  bool gpu_ranges;
  uint64_t host_memory_budget_bytes;  // bytes
  uint64_t instance;
  LogLevel log_level;
  uint64_t memory_budget_bytes;  // bytes
  uint64_t memory_margin_bytes;  // bytes
  std::string output_dir;
  uint64_t seed;
  int64_t threads;  // threads
};

// sampling.*
struct SamplingSettings {
  explicit SamplingSettings(const OptionSet& options);

  std::vector<int64_t> allowed_token_ids;
  double frequency_penalty;
  bool ignore_eos;
  std::vector<std::string> logit_bias;
  int64_t logprobs;  // tokens
  int64_t max_new_tokens;  // tokens
  int64_t min_new_tokens;  // tokens
  double min_p;
  double presence_penalty;
  bool prompt_logprobs;
  double repetition_penalty;
  int64_t seed;
  std::vector<std::string> stop;
  std::vector<int64_t> stop_token_ids;
  double temperature;
  int64_t top_k;  // tokens
  double top_p;
};

// schedule.*
struct ScheduleSettings {
  explicit ScheduleSettings(const OptionSet& options);

  double min_lr;
  ScheduleKind name;
  int64_t total_steps;  // optimizer steps
  int64_t warmup_steps;  // optimizer steps
};

// sync.*
struct SyncSettings {
  explicit SyncSettings(const OptionSet& options);

  uint64_t bucket_bytes;  // bytes
};

// trainer.*
struct TrainerSettings {
  explicit TrainerSettings(const OptionSet& options);

  bool activation_offload;
  TrainerBackwardWeights backward_weights;
  BalanceCost balance;
  bool balance_groups;
  bool check_logprobs;
  bool dynamic_batching;
  int64_t epochs;  // passes
  bool free_grad_buffers_on_publish;
  int64_t global_batch_size;  // samples
  TrainerGradDtype grad_dtype;
  int64_t logprob_chunk_tokens;  // tokens
  int64_t logprob_max_tokens_per_device;  // tokens
  int64_t max_tokens_per_device;  // tokens
  int64_t micro_batch_size;  // sequences
  int64_t mlp_chunk_tokens;  // tokens
  int64_t num_minibatches;  // optimizer steps
  TrainerOversize oversize;
  int64_t pad_to_multiple_of;  // tokens
  TrainerRecomputeGranularity recompute_granularity;
  bool recompute_loss;
  TrainerRecomputeMethod recompute_method;
  std::vector<std::string> recompute_modules;
  int64_t recompute_num_layers;  // layers
  int64_t seq_len;  // tokens
  bool sequence_packing;
  bool shared_prefix;
  bool weights_backup;
};

// All options of an object.
struct Settings {
  // Implicit, so that an option set can be given to whatever reads settings.
  Settings(const OptionSet& options);

  OptionSet set;  // the values by key: for texts, digests and comparisons
  AlgoSettings algo;
  BufferSettings buffer;
  CheckpointSettings checkpoint;
  CommSettings comm;
  CriticSettings critic;
  DataSettings data;
  EngineSettings engine;
  EvalSettings eval;
  MetricsSettings metrics;
  ModelSettings model;
  OptimizerSettings optimizer;
  ParallelSettings parallel;
  PipelineSettings pipeline;
  ProfilerSettings profiler;
  ReferenceSettings reference;
  RewardSettings reward;
  RuntimeSettings runtime;
  SamplingSettings sampling;
  ScheduleSettings schedule;
  SyncSettings sync;
  TrainerSettings trainer;
};

}  // namespace rl
