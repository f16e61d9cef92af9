"""What librl reports, as data classes.

Written by tools/gen_python.py from include/rl.h; not edited by hand.
"""
from dataclasses import dataclass

from ._record import Record
from .constants import (DType, Device, DropReason, EventKind, Finish, KnobEffect, OptionFlags,
                        OptionType, PlanKind, Purpose, State, When)


@dataclass(frozen=True)
class DeviceInfo(Record):
    """The fields of rl_device_info that are numbers and texts."""

    name: str
    memory_bytes: int
    # the compute capability, such as 9.0
    architecture_major: int
    architecture_minor: int


@dataclass(frozen=True)
class OptionInfo(Record):
    """The fields of rl_option_info that are numbers and texts."""

    key: str
    # the default, in the form of rl_options_set_text
    default_text: str
    # unit of a number; empty when it has none
    unit: str
    doc: str
    # release that introduced the option
    since: str
    # where the option's meaning comes from
    source: str
    # if not empty, only the default is accepted, for this reason
    unsupported_reason: str
    # RL_OPTION_BOOL ...
    type: OptionType
    # RL_WHEN_CREATE ...
    when: When
    # RL_OPTION_HAS_MIN ...
    flags: OptionFlags
    # bounds of I64 and DURATION_NS, and of each element of I64_LIST
    min_i64: int
    # bounds of I64 and DURATION_NS, and of each element of I64_LIST
    max_i64: int
    # bounds of U64 and BYTES
    min_u64: int
    # bounds of U64 and BYTES
    max_u64: int
    # bounds of F64
    min_f64: float
    # bounds of F64
    max_f64: float
    # number of choices of an ENUM; rl_option_choice names them
    num_choices: int


@dataclass(frozen=True)
class RuntimeInfo(Record):
    """The fields of rl_runtime_info that are numbers and texts."""

    # held now, in the memory of whichever device, by the arenas of all objects made from the
    # runtime; rl_plan_info calls them arena_bytes. Other runtimes of the process are not counted
    reserved_bytes: int
    # compute threads, the calling thread included
    threads: int
    # which rank of its run it is, from 0; see rl_runtime_create_rank
    rank: int
    # of the run
    num_ranks: int


@dataclass(frozen=True)
class PlanInfo(Record):
    """The fields of rl_plan_info that are numbers and texts."""

    # what runtime.memory_budget_bytes bounds: on the CPU all arenas, but those of activations that
    # trainer.activation_offload moves, and baseline_bytes; on a GPU the arenas in its memory
    total_bytes: int
    # sum of all arenas, exact
    arena_bytes: int
    # estimate of memory of the host outside arenas
    baseline_bytes: int
    # the budget; 0: no limit
    budget_bytes: int
    # longest sequence, in tokens
    max_model_len: int
    # rows of a training micro-batch, from which the size of forwards follows; 0 without a trainer
    # and forwards
    max_tokens: int
    # blocks in the KV pool of each engine; 0 without an engine
    kv_blocks: int
    # compute threads, the calling thread included
    threads: int
    # compute dtype, RL_DTYPE_F32 or RL_DTYPE_BF16
    dtype: DType
    # total_bytes of the smallest plan of these options, which a budget less its margin must hold
    least_bytes: int


@dataclass(frozen=True)
class PlanItem(Record):
    """The fields of rl_plan_item that are numbers and texts."""

    name: str
    # phase that uses the bytes: "always", "shared" (by the phases of a pipeline), "rollout", "log-
    # prob", "train", "critic", "reward" or "teacher"; of RL_PLAN_PHASE "start-up", "rollout", "log-
    # prob", "train", "publish" or "checkpoint"
    phase: str
    # size of the item
    bytes: int
    # RL_PLAN_ARENA, RL_PLAN_PART, RL_PLAN_OUTSIDE or RL_PLAN_PHASE
    kind: PlanKind
    # whose memory it is: RL_DEVICE_CPU or RL_DEVICE_CUDA
    device: Device
    # number of the device among those of its kind; 0 for RL_DEVICE_CPU
    device_index: int
    # model that it is for: "policy", "reference", "critic", "reward", "teacher" or "rollout";
    # empty: not for one of them alone
    role: str


@dataclass(frozen=True)
class Knob(Record):
    """The fields of rl_knob that are numbers and texts."""

    # the option; the owner of all texts is the plan or the error
    key: str
    # its present value, as text
    value: str
    # the value to set, as text (rl_options_set_text)
    proposed: str
    # by which the smallest plan shrinks; 0 for a knob that helps only together with the next, or
    # that gives the same bytes to another use
    saved_bytes: int
    # estimated time of a step with the knob turned, divided by that before; 1.1: 10 percent longer
    time_ratio: float
    # RL_KNOB_SPEED, RL_KNOB_ROUNDING or RL_KNOB_RUN
    effect: KnobEffect


@dataclass(frozen=True)
class Machine(Record):
    """The fields of rl_machine that are numbers and texts."""

    # of matrix products in fp32, per second; a multiply-add is two
    f32_flops: float
    # of those in bf16
    bf16_flops: float
    # of memory, beyond the caches
    read_bytes_per_s: float
    # of memory, by bytes written
    copy_bytes_per_s: float
    # that all rates are for; 1 to 65536
    threads: int


@dataclass(frozen=True)
class StepTime(Record):
    """The fields of rl_step_time that are numbers and texts."""

    total_s: float
    # prompts and decoding
    rollout_s: float
    # forwards of reference, critic, reward model and teacher
    logprob_s: float
    # forwards and backwards, of the critic too
    train_s: float
    # the optimizer
    update_s: float
    # new weights to the engine
    publish_s: float


@dataclass(frozen=True)
class ModelInfo(Record):
    """The fields of rl_model_info that are numbers and texts."""

    # "llama", "qwen2", "qwen3", "mistral" or "gemma3"
    family: str
    # size of the vocabulary: rows of the embedding
    vocab: int
    # width of a hidden state, and of a row of the embedding
    hidden: int
    # number of transformer blocks
    layers: int
    # number of query heads
    heads: int
    # number of heads of keys and values
    kv_heads: int
    # width of a head
    head_dim: int
    # inner width of the feed-forward layers
    ffn: int
    # longest sequence by the model's configuration, in tokens
    max_position: int
    # id of the token; -1 when there is none
    bos_id: int
    # id of the token; -1 when there is none
    pad_id: int
    # number of ids that rl_model_eos_ids returns
    num_eos_ids: int
    # compute dtype, RL_DTYPE_F32 or RL_DTYPE_BF16
    dtype: DType
    # 1: rl_model_encode and rl_model_decode work
    has_tokenizer: bool
    # 1: the head shares the embedding's weights
    tied_head: bool


@dataclass(frozen=True)
class SampleFields(Record):
    """The fields of rl_sample_view that are numbers and texts."""

    # unique in a pipeline, and among the engines of a runtime; from bit 48 on it is
    # runtime.instance, so those of other processes differ. rl_pipeline_score takes it. In an input,
    # where ordinal and slot say which sample it is, librl only returns it and names it in errors:
    # it may be 0, and several samples may have the same; for rl_request.resume see rl_engine_submit
    sample_id: int
    # ordinal of the group: number of the prompt in the run, or of the request
    ordinal: int
    # number of the sample within its group, from 0
    slot: int
    attempt: int
    # row of the data file or the feed; -1 for none
    data_row: int
    # RL_PURPOSE_TRAIN ...
    purpose: Purpose
    # RL_FINISH_STOP_TOKEN ...
    finish: Finish
    # P + G
    num_ids: int
    # P; in an input at least 1
    num_prompt: int
    # finite; valid if scored is 1, else 0
    reward: float
    # temperature of logprobs; 1 for greedy samples
    temperature: float
    # 1: the sample has a reward
    scored: bool
    # the tag that the host gave the data row or the request, returned unread
    tag: str
    # in events of a model with a tokenizer, else empty; includes special tokens
    prompt_text: str
    # the response without special tokens, present like prompt_text
    text: str
    # when its request was submitted; this time and the next two are by rl_clock.steady_ns, 0 if
    # unknown
    submitted_ns: int
    # when its first token was there
    first_token_ns: int
    # when its last token was there
    finished_ns: int
    # number of most probable ids kept per token (sampling.logprobs); in an input 0 for none
    num_top: int
    # how often the sample was aborted; it may have been resumed since
    num_aborts: int
    # how often the sample gave up its KV blocks and waited again
    preemptions: int
    # when its request first ran; all times belong to its last request
    admitted_ns: int
    # number of reward parts in addition to reward; 0 for none
    num_reward_parts: int


@dataclass(frozen=True)
class EventView(Record):
    """The fields of rl_event_view that are numbers and texts."""

    # RL_EVENT_SCORE ...
    kind: EventKind
    # RL_DROP_ABORTED ...
    reason: DropReason
    # training steps done, including this one even if it applied no optimizer step; from
    # rl_trainer_step, the steps of its trainer
    step: int
    # version of the weights after the step
    version: int
    # ordinal of the group
    ordinal: int
    # row of the data file or the feed; -1 for none
    data_row: int
    # of an evaluation
    value: float
    # as its kind says; of a step, a checkpoint, a dropped group or a publication: number of events
    # that its sender left out before it (rl_trainer_set_queue)
    count: int
    # number of metrics; rl_event_metric reads them
    num_metrics: int
    text: str
    # RL_PURPOSE_TRAIN ...; evaluations count their ordinals separately
    purpose: Purpose
    # number of the engine, buffer or trainer that sent it (rl_engine_set_queue); 0 for pipelines,
    # and in events that calls of a trainer return
    source: int


@dataclass(frozen=True)
class PipelineStats(Record):
    """The fields of rl_pipeline_stats that are numbers and texts."""

    # RL_STATE_IDLE ...
    state: State
    # training steps done
    step: int
    # version of the weights
    version: int
    # samples that wait for a reward from the host
    unscored: int
    # samples
    attempts_started: int
    # samples
    attempts_trained: int
    # samples
    attempts_discarded: int
    # samples
    attempts_in_flight: int
    tokens_generated: int
    tokens_trained: int
    tokens_discarded: int
    tokens_in_flight: int
    # groups
    prompts_drawn: int
    # groups
    prompts_trained: int
    # groups
    prompts_dropped: int
    # groups
    prompts_open: int
    # refused rewards
    late_scores: int
    # refused rewards
    duplicate_scores: int
    # refused rewards
    unknown_scores: int
    # refused rewards
    nonfinite_scores: int
    # rows in the feed now, and the most it can hold
    feed_size: int
    # rows in the feed now, and the most it can hold
    feed_capacity: int
    # samples that wait for a reply from the host
    unreplied: int


@dataclass(frozen=True)
class EngineStats(Record):
    """The fields of rl_engine_stats that are numbers and texts."""

    # samples now
    running: int
    # samples now
    waiting: int
    # KV blocks now
    blocks_in_use: int
    # KV blocks now
    blocks_total: int
    # rows computed
    prefill_tokens: int
    # rows computed
    decode_tokens: int
    # forwards computed
    forwards: int
    # samples that ended because logits were not finite
    nonfinite: int
    # time of forwards with prefill, and of pure decoding
    prefill_ns: int
    # time of forwards with prefill, and of pure decoding
    decode_ns: int
    # samples now that run, or ran before a preemption; a drain waits for these
    started: int
    # most KV blocks in use at once; over replicas, the sum of their peaks
    blocks_peak: int
    # time with work to do, up to the last forward
    busy_ns: int
    # tokens generated
    generated_tokens: int
    # samples that started to run for the first time
    admitted: int
    # samples that ended; those of them that were aborted
    finished: int
    # samples that ended; those of them that were aborted
    aborted: int
    # submission to first run: sum and maximum over `admitted`
    queue_ns: int
    # submission to first run: sum and maximum over `admitted`
    longest_queue_ns: int
    # samples that got their first token
    first_tokens: int
    # submission to first token: sum and maximum
    first_token_ns: int
    # submission to first token: sum and maximum
    longest_first_token_ns: int
    # preemptions of samples; KV blocks copied to swap space
    preemptions: int
    # preemptions of samples; KV blocks copied to swap space
    swapped_blocks: int
    # tokens of samples that started to run; those of them whose KV was found in the prefix cache
    looked_up_tokens: int
    # tokens of samples that started to run; those of them whose KV was found in the prefix cache
    cached_tokens: int
    # those of generated_tokens that were generated from keys and values of older weights
    mixed_kv_tokens: int


@dataclass(frozen=True)
class ConversationInfo(Record):
    """The fields of rl_conversation_info that are numbers and texts."""

    # id of the sample, the same in all turns
    sample_id: int
    # ordinal of its group: the conversations forked from one another
    ordinal: int
    # number of the conversation within its group, from 0
    slot: int
    # 1: a turn is being generated, and the fields below are as before it
    generating: bool
    # tokens so far, the prompt included
    num_ids: int
    # turns of the model that ended
    num_turns: int
    # why the last of these turns ended, RL_FINISH_STOP_TOKEN ...
    finish: Finish


@dataclass(frozen=True)
class BufferStats(Record):
    """The fields of rl_buffer_stats that are numbers and texts."""

    # now; groups includes incomplete ones
    samples: int
    # now; groups includes incomplete ones
    groups: int
    # now; groups includes incomplete ones
    whole_groups: int
    # samples put, loaded or claimed from a store
    put: int
    # by rl_buffer_take
    taken: int
    # by rl_buffer_drop
    dropped: int
    # removed by rl_buffer_take because of buffer.max_staleness
    stale: int
    # given to a store
    stored: int
    # trained by steps that are durable; this and the next two are groups of a store
    acknowledged_groups: int
    # delivered again, and dropped
    duplicate_groups: int
    # set aside because they could not be read
    damaged_groups: int
    # now, those that wait in files of buffer.spill_path
    spilled_groups: int


@dataclass(frozen=True)
class BufferFileInfo(Record):
    """The fields of rl_buffer_file_info that are numbers and texts."""

    # number of the training step, from 1, whose batch the file holds; 0: none
    step: int
    # samples of a complete group
    group_size: int
    # token budget of a micro-batch in its run, planned or given; a replay's trainer must use it
    max_tokens_per_device: int
    # rl_options_identity of its run
    options_identity: int
    # version of the weights that training on it starts from
    weight_version: int
    # rl_model_digest of these weights
    weight_digest: int
    # vocabulary of the model; all ids are below it
    vocab: int
    # 1: weight_version, weight_digest and vocab are valid
    has_model: bool


@dataclass(frozen=True)
class AlgoLoss(Record):
    """The fields of rl_algo_loss that are numbers and texts."""

    # policy_loss + kl_loss, without the entropy bonus
    loss: float
    # aggregated as algo.loss_agg says
    policy_loss: float
    # algo.kl.coef times the KL, likewise; 0 unless algo.kl.where = loss
    kl_loss: float
    # mean of algo.kl.estimator
    kl: float
    # mean of old - current log-prob, nats
    ppo_kl: float
    # mean of r - 1 - log r
    ppo_kl_k3: float
    # 0..1
    clip_fraction: float
    # 0..1
    dual_clip_fraction: float
    # the largest ratio
    ratio_max: float
    # tokens that carry loss
    num_tokens: int
    # tokens that algo.correction.* rejected
    num_rejected: int


@dataclass(frozen=True)
class Clock(Record):
    """The fields of rl_clock that are numbers and texts."""

    # of a clock that is never set, as all times of librl
    steady_ns: int
    # since 1970-01-01 00:00 UTC
    unix_ns: int
