//! The numbers of `rl.h` as enums. A library newer than this package may know more of them: these
//! are `Other`, or bits without a name.
use crate::records::Copied;
use crate::sys;
use std::ops::BitOr;

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($case:ident = $value:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($case,)*
            Other(i32),
        }

        impl $name {
            pub fn from_raw(raw: i32) -> Self {
                match raw {
                    $(sys::$value => Self::$case,)*
                    other => Self::Other(other),
                }
            }

            pub fn raw(self) -> i32 {
                match self {
                    $(Self::$case => sys::$value,)*
                    Self::Other(other) => other,
                }
            }
        }

        impl Copied<i32> for $name {
            fn copied(raw: i32) -> Self {
                Self::from_raw(raw)
            }
        }
    };
}

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$flag_doc:meta])* $flag:ident = $value:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(u64);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self(sys::$value);)*

            /// The flags of these bits, also of such as this package does not know.
            pub const fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            pub const fn bits(self) -> u64 {
                self.0
            }

            /// Whether all of these are set.
            pub const fn contains(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }
        }

        impl BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl Copied<u64> for $name {
            fn copied(raw: u64) -> Self {
                Self(raw)
            }
        }
    };
}

flags!(
    /// How texts become token ids and back; the default is none of them.
    TextFlags {
        /// Encoding adds what the tokenizer puts around a text, such as bos.
        ADD_SPECIAL = RL_TEXT_ADD_SPECIAL,
        /// Special tokens spelled out in a text become their ids.
        ALLOW_SPECIAL = RL_TEXT_ALLOW_SPECIAL,
        /// Decoding leaves special tokens out.
        SKIP_SPECIAL = RL_TEXT_SKIP_SPECIAL,
        /// A chat ends with the start of an assistant turn.
        GENERATION_PROMPT = RL_TEXT_GENERATION_PROMPT,
    }
);

flags!(
    /// What the values of an option may be, and what follows from them.
    OptionFlags {
        HAS_MIN = RL_OPTION_HAS_MIN,
        /// The bound itself is excluded.
        MIN_OPEN = RL_OPTION_MIN_OPEN,
        HAS_MAX = RL_OPTION_HAS_MAX,
        /// The bound itself is excluded.
        MAX_OPEN = RL_OPTION_MAX_OPEN,
        POWER_OF_TWO = RL_OPTION_POWER_OF_TWO,
        /// The bits of a run depend on the option.
        DETERMINISM = RL_OPTION_DETERMINISM,
        NEEDS_GPU = RL_OPTION_NEEDS_GPU,
        NOT_EMPTY = RL_OPTION_NOT_EMPTY,
    }
);

codes!(
    /// What a call came to. Treat `Other` as a failure.
    Status {
        Ok = RL_OK,
        Timeout = RL_TIMEOUT,
        Done = RL_DONE,
        Interrupted = RL_INTERRUPTED,
        WouldBlock = RL_WOULD_BLOCK,
        Idle = RL_IDLE,
        Paused = RL_PAUSED,
        InvalidArgument = RL_INVALID_ARGUMENT,
        OutOfRange = RL_OUT_OF_RANGE,
        NotFound = RL_NOT_FOUND,
        AlreadyExists = RL_ALREADY_EXISTS,
        FailedPrecondition = RL_FAILED_PRECONDITION,
        ResourceExhausted = RL_RESOURCE_EXHAUSTED,
        OutOfMemory = RL_OUT_OF_MEMORY,
        Unsupported = RL_UNSUPPORTED,
        Busy = RL_BUSY,
        Cancelled = RL_CANCELLED,
        Internal = RL_INTERNAL,
        DataLoss = RL_DATA_LOSS,
        Io = RL_IO,
        StaleHandle = RL_STALE_HANDLE,
        WrongHandle = RL_WRONG_HANDLE,
        WrongThread = RL_WRONG_THREAD,
        Incompatible = RL_INCOMPATIBLE,
        Forked = RL_FORKED,
        UnknownOption = RL_UNKNOWN_OPTION,
        WrongType = RL_WRONG_TYPE,
        NotInBuild = RL_NOT_IN_BUILD,
        NotChangeable = RL_NOT_CHANGEABLE,
        Conflict = RL_CONFLICT,
        Late = RL_LATE,
        Duplicate = RL_DUPLICATE,
        NonFinite = RL_NON_FINITE,
        DeviceLost = RL_DEVICE_LOST,
        RankLost = RL_RANK_LOST,
    }
);

impl Status {
    /// The name in `rl.h`, such as "RL_OUT_OF_RANGE".
    pub fn name(self) -> &'static str {
        // SAFETY: the name is the library's, which is never unloaded.
        unsafe { crate::text::terminated(sys::rl_status_name(self.raw())) }
    }
}

codes!(
    /// The type of an option.
    OptionType {
        Bool = RL_OPTION_BOOL,
        I64 = RL_OPTION_I64,
        U64 = RL_OPTION_U64,
        F64 = RL_OPTION_F64,
        String = RL_OPTION_STRING,
        Enum = RL_OPTION_ENUM,
        DurationNs = RL_OPTION_DURATION_NS,
        Bytes = RL_OPTION_BYTES,
        StringList = RL_OPTION_STRING_LIST,
        I64List = RL_OPTION_I64_LIST,
    }
);

codes!(
    /// When an option may change.
    When {
        Create = RL_WHEN_CREATE,
        BetweenSteps = RL_WHEN_BETWEEN_STEPS,
        AnyTime = RL_WHEN_ANY_TIME,
    }
);

codes!(
    /// What the value of a field of the log is.
    FieldKind {
        Text = RL_FIELD_TEXT,
        Number = RL_FIELD_NUMBER,
    }
);

codes!(
    /// What a path names.
    FileKind {
        Absent = RL_FILE_ABSENT,
        Regular = RL_FILE_REGULAR,
        Directory = RL_FILE_DIRECTORY,
    }
);

codes!(
    /// The level of a line of the log.
    LogLevel {
        Off = RL_LOG_OFF,
        Error = RL_LOG_ERROR,
        Warn = RL_LOG_WARN,
        Info = RL_LOG_INFO,
        Debug = RL_LOG_DEBUG,
    }
);

codes!(
    /// What a model's memory is for.
    Use {
        Model = RL_USE_MODEL,
        Generate = RL_USE_GENERATE,
        Train = RL_USE_TRAIN,
        Pipeline = RL_USE_PIPELINE,
        Parts = RL_USE_PARTS,
        Forward = RL_USE_FORWARD,
    }
);

codes!(
    /// What a forward computes.
    Output {
        Logprobs = RL_OUTPUT_LOGPROBS,
        Hidden = RL_OUTPUT_HIDDEN,
        Scores = RL_OUTPUT_SCORES,
        Entropies = RL_OUTPUT_ENTROPIES,
        Values = RL_OUTPUT_VALUES,
        Logits = RL_OUTPUT_LOGITS,
    }
);

codes!(
    /// An element type.
    Dtype {
        F32 = RL_DTYPE_F32,
        Bf16 = RL_DTYPE_BF16,
        I32 = RL_DTYPE_I32,
    }
);

codes!(
    /// What memory a tensor lies in.
    Device {
        Cpu = RL_DEVICE_CPU,
        Cuda = RL_DEVICE_CUDA,
    }
);

codes!(
    /// An array of a sample.
    SampleArray {
        Ids = RL_SAMPLE_IDS,
        Logprobs = RL_SAMPLE_LOGPROBS,
        LogprobsSampled = RL_SAMPLE_LOGPROBS_SAMPLED,
        TopIds = RL_SAMPLE_TOP_IDS,
        TopLogprobs = RL_SAMPLE_TOP_LOGPROBS,
    }
);

codes!(
    /// What a plan's item is.
    PlanKind {
        Arena = RL_PLAN_ARENA,
        Part = RL_PLAN_PART,
        Outside = RL_PLAN_OUTSIDE,
        Phase = RL_PLAN_PHASE,
    }
);

codes!(
    /// What turning a knob changes.
    KnobEffect {
        Speed = RL_KNOB_SPEED,
        Rounding = RL_KNOB_ROUNDING,
        Run = RL_KNOB_RUN,
    }
);

codes!(
    /// What a sample is for.
    Purpose {
        Train = RL_PURPOSE_TRAIN,
        Eval = RL_PURPOSE_EVAL,
    }
);

codes!(
    /// Why generation ended.
    Finish {
        None = RL_FINISH_NONE,
        StopToken = RL_FINISH_STOP_TOKEN,
        StopString = RL_FINISH_STOP_STRING,
        Length = RL_FINISH_LENGTH,
        Aborted = RL_FINISH_ABORTED,
    }
);

codes!(
    /// What an event tells.
    EventKind {
        Score = RL_EVENT_SCORE,
        Turn = RL_EVENT_TURN,
        Step = RL_EVENT_STEP,
        Eval = RL_EVENT_EVAL,
        Checkpoint = RL_EVENT_CHECKPOINT,
        GroupDropped = RL_EVENT_GROUP_DROPPED,
        EngineStats = RL_EVENT_ENGINE_STATS,
        Group = RL_EVENT_GROUP,
        Finished = RL_EVENT_FINISHED,
        Tokens = RL_EVENT_TOKENS,
        EngineFailed = RL_EVENT_ENGINE_FAILED,
        Groups = RL_EVENT_GROUPS,
        Published = RL_EVENT_PUBLISHED,
        CheckpointFailed = RL_EVENT_CHECKPOINT_FAILED,
    }
);

codes!(
    /// Why a group was dropped.
    DropReason {
        None = RL_DROP_NONE,
        Stale = RL_DROP_STALE,
        Aborted = RL_DROP_ABORTED,
        RewardError = RL_DROP_REWARD_ERROR,
        RewardTimeout = RL_DROP_REWARD_TIMEOUT,
        NonFinite = RL_DROP_NON_FINITE,
        Filtered = RL_DROP_FILTERED,
        Overlong = RL_DROP_OVERLONG,
        Poisoned = RL_DROP_POISONED,
        Rollback = RL_DROP_ROLLBACK,
        Cancelled = RL_DROP_CANCELLED,
        Shutdown = RL_DROP_SHUTDOWN,
    }
);

codes!(
    /// Where a pipeline stands.
    State {
        Idle = RL_STATE_IDLE,
        Fetching = RL_STATE_FETCHING,
        Generating = RL_STATE_GENERATING,
        Scoring = RL_STATE_SCORING,
        Training = RL_STATE_TRAINING,
        Publishing = RL_STATE_PUBLISHING,
        Evaluating = RL_STATE_EVALUATING,
        Checkpointing = RL_STATE_CHECKPOINTING,
        Paused = RL_STATE_PAUSED,
        Stopping = RL_STATE_STOPPING,
        Done = RL_STATE_DONE,
        Failed = RL_STATE_FAILED,
    }
);
