"""Constants of the C interface.

Written by tools/gen_python.py from include/rl.h; not edited by hand.
"""
import enum

from ._open import OpenEnum


class Code(OpenEnum):
    """Status codes of rl.h."""
    # done
    OK = 0
    # what the call waits for did not come within its timeout
    TIMEOUT = 1
    # nothing more will come; sticky
    DONE = 2
    # rl_pipeline_interrupt or rl_event_queue_interrupt ended the call
    INTERRUPTED = 3
    # there is nothing yet: call again later. The call itself never waits
    WOULD_BLOCK = 4
    # there is nothing to do until new work is given
    IDLE = 5
    # the engine is paused
    PAUSED = 6
    # NULL, malformed text, a struct too small, unknown flags
    INVALID_ARGUMENT = 16
    # a value outside its range; nothing is ever clamped
    OUT_OF_RANGE = 17
    # no such file, sample or name
    NOT_FOUND = 18
    # a file or directory exists and replacing it was not requested
    ALREADY_EXISTS = 19
    # the state of the object does not allow this
    FAILED_PRECONDITION = 20
    # a budget or a limit of librl is exceeded
    RESOURCE_EXHAUSTED = 21
    # the system had no memory left
    OUT_OF_MEMORY = 22
    # known, but librl does not support it
    UNSUPPORTED = 23
    # another call is using what this one needs; try again later
    BUSY = 24
    # ended at the host's request
    CANCELLED = 25
    # a bug in librl; the handle can only be destroyed from now on
    INTERNAL = 26
    # a file is damaged, truncated or does not match its header
    DATA_LOSS = 27
    # the system failed to read or write; see rl_error_system_code
    IO = 28
    # the handle was destroyed or never issued
    STALE_HANDLE = 29
    # a handle of another kind
    WRONG_HANDLE = 30
    # not allowed on this thread or inside a callback
    WRONG_THREAD = 31
    # header and library, or checkpoint and configuration, do not match
    INCOMPATIBLE = 32
    # the handle belongs to the parent process
    FORKED = 33
    # no option has this key; see rl_error_nearest
    UNKNOWN_OPTION = 40
    # the option has another type; nothing is converted
    WRONG_TYPE = 41
    # not in this build of the library
    NOT_IN_BUILD = 42
    # the option cannot be changed now
    NOT_CHANGEABLE = 43
    # options contradict one another
    CONFLICT = 44
    # the sample's group was dropped before its reward came
    LATE = 50
    # the sample was scored or put before
    DUPLICATE = 51
    # NaN or an infinity where a number is needed
    NON_FINITE = 52
    # a fault ended the GPU for this process; only destroying works
    DEVICE_LOST = 60
    # a rank failed, left or came too late; the ranks cannot go on
    RANK_LOST = 61


class ErrorField(OpenEnum):
    """The texts of an error. All except the message may be empty."""
    # one sentence: what failed, the limit and the value seen
    MESSAGE = 1
    # the option key, parameter or tensor concerned
    KEY = 2
    # the valid type, range or choices
    EXPECTED = 3
    # file and byte offset, line and column, or JSON pointer
    LOCATION = 4
    # all of these with status name, nearest names and causes, for a log
    SUMMARY = 5
    # the second option of a conflict
    OTHER_KEY = 6


class OptionType(OpenEnum):
    """Types of options."""
    BOOL = 1
    I64 = 2
    U64 = 3
    F64 = 4
    STRING = 5
    # a string, one of the option's choices
    ENUM = 6
    # an i64
    DURATION_NS = 7
    # a u64
    BYTES = 8
    STRING_LIST = 9
    I64_LIST = 10


class When(OpenEnum):
    """When the value of an option may change."""
    # fixed when the object is created
    CREATE = 1
    # between steps: rl_pipeline_set_options
    BETWEEN_STEPS = 2
    ANY_TIME = 3


class OptionFormat(OpenEnum):
    """Forms of a set as a whole."""
    # lines "key=value" in key order, with the texts of rl_options_get
    TEXT = 1
    # {"library_version": "...", "options": {KEY: VALUE, ...}}
    JSON = 2
    # abi/schemas/options.fbs
    FLATBUFFER = 3


class LogLevel(OpenEnum):
    """Levels of the log, least important last."""
    OFF = 0
    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4


class FieldKind(OpenEnum):
    """What the value of a field of the log is."""
    # a text
    TEXT = 1
    # an integer, in decimal
    NUMBER = 2


class Use(OpenEnum):
    """What the planned memory is used for, and so what a model that is opened for it may have.
    Anything else is RL_FAILED_PRECONDITION with the key "use" and the uses that allow it in
    RL_ERROR_EXPECTED."""
    # a model, for its text functions
    MODEL = 1
    # a model and an engine
    GENERATE = 2
    # a model and a trainer
    TRAIN = 3
    # a pipeline: engine and trainer share their working memory. The host may create engines and
    # trainers beside it, which the plan does not count
    PIPELINE = 4
    # an engine and a trainer with working memory of their own
    PARTS = 5
    # a model and its forwards (rl_model_forward)
    FORWARD = 6


class Device(OpenEnum):
    """Kinds of devices, each with memory of its own. The numbers are those of DLPack."""
    CPU = 1
    CUDA = 2


class DType(OpenEnum):
    """Element types."""
    F32 = 0
    BF16 = 1
    I32 = 2


class PlanKind(OpenEnum):
    """Kinds of plan items."""
    # an arena; all of them add up to arena_bytes
    ARENA = 1
    # a part of the working memory of rollout or training
    PART = 2
    # an estimate of memory outside arenas; these add up to baseline_bytes
    OUTSIDE = 3
    # what a phase uses of total_bytes: arenas held throughout, its working memory, and on the CPU
    # memory outside arenas. Phases exclude one another, so none exceeds total_bytes
    PHASE = 4


class KnobEffect(OpenEnum):
    """What turning a knob changes."""
    # time alone: samples, log-probs and gradients have the same bits
    SPEED = 1
    # how numbers are rounded, and so the bits of what is computed
    ROUNDING = 2
    # what is computed: shorter sequences, no KL, fewer evaluations
    RUN = 3


class Purpose(OpenEnum):
    """What a sample is used for."""
    # a training step; also every sample of a host's own engine
    TRAIN = 0
    # an evaluation of a pipeline
    EVAL = 1


class Finish(OpenEnum):
    """Why generation of a sample ended."""
    # it has not ended, or it is not known
    NONE = 0
    # an end token of the model, or one of sampling.stop_token_ids
    STOP_TOKEN = 1
    # a text of sampling.stop
    STOP_STRING = 2
    # sampling.max_new_tokens was reached
    LENGTH = 3
    # rl_engine_abort, rl_engine_abort_request, or logits not finite
    ABORTED = 4


class EventKind(OpenEnum):
    """Kinds of events, and the fields of rl_event_view and other getters that each kind uses."""
    # a sample (rl_event_sample) waits for its reward: rl_pipeline_score
    SCORE = 1
    # a sample (rl_event_sample) waits for a reply to the model's turn (pipeline.turns):
    # rl_pipeline_reply. count = number of the turn, from 1; text = what the model generated in it
    TURN = 2
    # a training step ended: step, version, metrics, count
    STEP = 3
    # an evaluation ended: step, version, value = mean reward, count = samples scored, metrics
    EVAL = 4
    # a checkpoint is on disk: step, text = its path, count
    CHECKPOINT = 5
    # a group was dropped: ordinal, data_row, purpose, reason, text = why, count
    GROUP_DROPPED = 6
    # an engine's interval of engine.stats_interval_ns ended: step, version, count = number of the
    # engine, metrics
    ENGINE_STATS = 7
    # all samples of a group wait for their rewards, for judges that compare them
    # (pipeline.score_events): count = number of samples, rl_event_sample in the order of their
    # slots
    GROUP = 8
    # a sample (rl_event_sample) of an engine has finished (rl_engine_set_queue); rl_engine_take
    # returns it too, unless it is a turn of a conversation
    FINISHED = 9
    # an engine has sampled tokens (engine.stream_tokens): the ids of rl_event_sample, whose
    # num_prompt is 0, and its text; they come before the sample's RL_EVENT_FINISHED
    TOKENS = 10
    # a step on an engine's own thread (engine.thread) failed, and the engine is paused: text = why.
    # rl_engine_unpause tries again
    ENGINE_FAILED = 11
    # complete groups wait in a buffer (rl_buffer_set_queue): count = number of them as the event
    # was taken from its queue
    GROUPS = 12
    # engines read the weights of a trainer from now on (rl_trainer_set_queue): step, version, count
    PUBLISHED = 13
    # a checkpoint could not be written, and the run goes on (checkpoint.on_failure): step, text =
    # why
    CHECKPOINT_FAILED = 14


class DropReason(OpenEnum):
    """Why a group was dropped."""
    NONE = 0
    # older than buffer.max_staleness or pipeline.max_staleness allows
    STALE = 1
    # the run failed
    ABORTED = 2
    # the host scored a sample with a failure
    REWARD_ERROR = 3
    # a reward did not come within pipeline.reward_timeout_ns, or a reply within
    # pipeline.reply_timeout_ns
    REWARD_TIMEOUT = 4
    # logits, or the update of the whole step, were not finite
    NON_FINITE = 5
    # by pipeline.filter or pipeline.discard_zero_advantage; or no token of the whole step carried
    # loss, as with pipeline.overlong_filter
    FILTERED = 6
    # reserved
    OVERLONG = 7
    # reserved
    POISONED = 8
    # reserved
    ROLLBACK = 9
    # rl_buffer_drop, or pipeline.max_off_policy_steps
    CANCELLED = 10
    # the run was stopped
    SHUTDOWN = 11


class State(OpenEnum):
    """States of a pipeline."""
    IDLE = 0
    # takes prompts from the data or from the feed
    FETCHING = 1
    GENERATING = 2
    SCORING = 3
    TRAINING = 4
    PUBLISHING = 5
    EVALUATING = 6
    CHECKPOINTING = 7
    PAUSED = 8
    STOPPING = 9
    DONE = 10
    FAILED = 11


class Period(OpenEnum):
    """The periods of rl_engine_get_stats."""
    # from the creation of the engine to now
    TOTAL = 1
    # the last interval of engine.stats_interval_ns, a stretch of busy time that ends with the first
    # forward after which it is long enough; busy_ns is its length
    INTERVAL = 2


class Output(OpenEnum):
    """What a forward computes. Tokens are those after the prompt, samples of a batch one after the
    other; rows are ids of the input, of a batch likewise one sample after the other."""
    # [tokens], RL_DTYPE_F32, nats: log softmax(logits / temperature)[id] of every token, given the
    # ids before it
    LOGPROBS = 1
    # [rows, hidden] in the model's compute dtype: the output of the last norm for the id, from
    # which the head computes the log-probs of the next one
    HIDDEN = 2
    # [samples], RL_DTYPE_F32, with a scalar head: the value at the last token of each; a model that
    # rl_model_save writes scores the same through model.reward_path
    SCORES = 3
    # [tokens], RL_DTYPE_F32, nats: of the distributions that RL_OUTPUT_LOGPROBS is of
    ENTROPIES = 4
    # [tokens], RL_DTYPE_F32: the value of the ids before each token, by the critic of a trainer
    # with algo.advantage = gae, or by a scalar head
    VALUES = 5
    # [rows, vocab], RL_DTYPE_F32: of the id after the row, before temperature
    LOGITS = 6


class SampleArray(OpenEnum):
    """Arrays of a sample, for rl_batch_tensor and rl_event_tensor; see rl_sample_view."""
    # [num_ids], RL_DTYPE_I32
    IDS = 1
    # [num_ids - num_prompt], RL_DTYPE_F32
    LOGPROBS = 2
    # as RL_SAMPLE_LOGPROBS
    LOGPROBS_SAMPLED = 3
    # [num_ids - num_prompt, num_top], RL_DTYPE_I32
    TOP_IDS = 4
    # as RL_SAMPLE_TOP_IDS, RL_DTYPE_F32
    TOP_LOGPROBS = 5


class FileKind(OpenEnum):
    """What a path names."""
    # nothing
    ABSENT = 0
    # a file
    REGULAR = 1
    # a directory
    DIRECTORY = 2


class OptionFlags(enum.IntFlag):
    """Flags of an OptionInfo."""
    # min_* of the option's type applies
    HAS_MIN = 1
    # the bound itself is excluded
    MIN_OPEN = 2
    HAS_MAX = 4
    MAX_OPEN = 8
    # only powers of two are valid
    POWER_OF_TWO = 16
    # the bits of a run depend on the option
    DETERMINISM = 32
    NEEDS_GPU = 64
    # an empty text is not valid
    NOT_EMPTY = 128


class AbortFlags(enum.IntFlag):
    """Flags of rl_engine_abort."""
    SPARE = 1


class TextFlags(enum.IntFlag):
    """Flags of the text functions of a Model."""
    ADD_SPECIAL = 1
    ALLOW_SPECIAL = 2
    SKIP_SPECIAL = 4
    GENERATION_PROMPT = 8


class SaveFlags(enum.IntFlag):
    """Flags of functions that write files."""
    REPLACE = 1


class TensorFlags(enum.IntFlag):
    """Flags of functions that return a tensor."""
    COPY = 1


# Codes that are results, not failures.
RESULTS = frozenset({Code.OK, Code.TIMEOUT, Code.DONE, Code.INTERRUPTED, Code.WOULD_BLOCK,
    Code.IDLE, Code.PAUSED})
