// What include/rl.h declares, which documents it. Written by tools/gen_rust.py; not edited by hand.
use super::AnyThread;
use std::marker::{PhantomData, PhantomPinned};
use std::os::raw::{c_char, c_void};

pub type rl_status = i32;

pub const RL_OK: i32 = 0;
pub const RL_TIMEOUT: i32 = 1;
pub const RL_DONE: i32 = 2;
pub const RL_INTERRUPTED: i32 = 3;
pub const RL_WOULD_BLOCK: i32 = 4;
pub const RL_IDLE: i32 = 5;
pub const RL_PAUSED: i32 = 6;
pub const RL_INVALID_ARGUMENT: i32 = 16;
pub const RL_OUT_OF_RANGE: i32 = 17;
pub const RL_NOT_FOUND: i32 = 18;
pub const RL_ALREADY_EXISTS: i32 = 19;
pub const RL_FAILED_PRECONDITION: i32 = 20;
pub const RL_RESOURCE_EXHAUSTED: i32 = 21;
pub const RL_OUT_OF_MEMORY: i32 = 22;
pub const RL_UNSUPPORTED: i32 = 23;
pub const RL_BUSY: i32 = 24;
pub const RL_CANCELLED: i32 = 25;
pub const RL_INTERNAL: i32 = 26;
pub const RL_DATA_LOSS: i32 = 27;
pub const RL_IO: i32 = 28;
pub const RL_STALE_HANDLE: i32 = 29;
pub const RL_WRONG_HANDLE: i32 = 30;
pub const RL_WRONG_THREAD: i32 = 31;
pub const RL_INCOMPATIBLE: i32 = 32;
pub const RL_FORKED: i32 = 33;
pub const RL_UNKNOWN_OPTION: i32 = 40;
pub const RL_WRONG_TYPE: i32 = 41;
pub const RL_NOT_IN_BUILD: i32 = 42;
pub const RL_NOT_CHANGEABLE: i32 = 43;
pub const RL_CONFLICT: i32 = 44;
pub const RL_LATE: i32 = 50;
pub const RL_DUPLICATE: i32 = 51;
pub const RL_NON_FINITE: i32 = 52;
pub const RL_DEVICE_LOST: i32 = 60;
pub const RL_RANK_LOST: i32 = 61;
pub const RL_ERROR_MESSAGE: i32 = 1;
pub const RL_ERROR_KEY: i32 = 2;
pub const RL_ERROR_EXPECTED: i32 = 3;
pub const RL_ERROR_LOCATION: i32 = 4;
pub const RL_ERROR_SUMMARY: i32 = 5;
pub const RL_ERROR_OTHER_KEY: i32 = 6;
pub const RL_OPTION_BOOL: i32 = 1;
pub const RL_OPTION_I64: i32 = 2;
pub const RL_OPTION_U64: i32 = 3;
pub const RL_OPTION_F64: i32 = 4;
pub const RL_OPTION_STRING: i32 = 5;
pub const RL_OPTION_ENUM: i32 = 6;
pub const RL_OPTION_DURATION_NS: i32 = 7;
pub const RL_OPTION_BYTES: i32 = 8;
pub const RL_OPTION_STRING_LIST: i32 = 9;
pub const RL_OPTION_I64_LIST: i32 = 10;
pub const RL_WHEN_CREATE: i32 = 1;
pub const RL_WHEN_BETWEEN_STEPS: i32 = 2;
pub const RL_WHEN_ANY_TIME: i32 = 3;
pub const RL_FORMAT_TEXT: i32 = 1;
pub const RL_FORMAT_JSON: i32 = 2;
pub const RL_FORMAT_FLATBUFFER: i32 = 3;
pub const RL_LOG_OFF: i32 = 0;
pub const RL_LOG_ERROR: i32 = 1;
pub const RL_LOG_WARN: i32 = 2;
pub const RL_LOG_INFO: i32 = 3;
pub const RL_LOG_DEBUG: i32 = 4;
pub const RL_FIELD_TEXT: i32 = 1;
pub const RL_FIELD_NUMBER: i32 = 2;
pub const RL_USE_MODEL: i32 = 1;
pub const RL_USE_GENERATE: i32 = 2;
pub const RL_USE_TRAIN: i32 = 3;
pub const RL_USE_PIPELINE: i32 = 4;
pub const RL_USE_PARTS: i32 = 5;
pub const RL_USE_FORWARD: i32 = 6;
pub const RL_DEVICE_CPU: i32 = 1;
pub const RL_DEVICE_CUDA: i32 = 2;
pub const RL_DTYPE_F32: i32 = 0;
pub const RL_DTYPE_BF16: i32 = 1;
pub const RL_DTYPE_I32: i32 = 2;
pub const RL_PLAN_ARENA: i32 = 1;
pub const RL_PLAN_PART: i32 = 2;
pub const RL_PLAN_OUTSIDE: i32 = 3;
pub const RL_PLAN_PHASE: i32 = 4;
pub const RL_KNOB_SPEED: i32 = 1;
pub const RL_KNOB_ROUNDING: i32 = 2;
pub const RL_KNOB_RUN: i32 = 3;
pub const RL_PURPOSE_TRAIN: i32 = 0;
pub const RL_PURPOSE_EVAL: i32 = 1;
pub const RL_FINISH_NONE: i32 = 0;
pub const RL_FINISH_STOP_TOKEN: i32 = 1;
pub const RL_FINISH_STOP_STRING: i32 = 2;
pub const RL_FINISH_LENGTH: i32 = 3;
pub const RL_FINISH_ABORTED: i32 = 4;
pub const RL_EVENT_SCORE: i32 = 1;
pub const RL_EVENT_TURN: i32 = 2;
pub const RL_EVENT_STEP: i32 = 3;
pub const RL_EVENT_EVAL: i32 = 4;
pub const RL_EVENT_CHECKPOINT: i32 = 5;
pub const RL_EVENT_GROUP_DROPPED: i32 = 6;
pub const RL_EVENT_ENGINE_STATS: i32 = 7;
pub const RL_EVENT_GROUP: i32 = 8;
pub const RL_EVENT_FINISHED: i32 = 9;
pub const RL_EVENT_TOKENS: i32 = 10;
pub const RL_EVENT_ENGINE_FAILED: i32 = 11;
pub const RL_EVENT_GROUPS: i32 = 12;
pub const RL_EVENT_PUBLISHED: i32 = 13;
pub const RL_EVENT_CHECKPOINT_FAILED: i32 = 14;
pub const RL_DROP_NONE: i32 = 0;
pub const RL_DROP_STALE: i32 = 1;
pub const RL_DROP_ABORTED: i32 = 2;
pub const RL_DROP_REWARD_ERROR: i32 = 3;
pub const RL_DROP_REWARD_TIMEOUT: i32 = 4;
pub const RL_DROP_NON_FINITE: i32 = 5;
pub const RL_DROP_FILTERED: i32 = 6;
pub const RL_DROP_OVERLONG: i32 = 7;
pub const RL_DROP_POISONED: i32 = 8;
pub const RL_DROP_ROLLBACK: i32 = 9;
pub const RL_DROP_CANCELLED: i32 = 10;
pub const RL_DROP_SHUTDOWN: i32 = 11;
pub const RL_STATE_IDLE: i32 = 0;
pub const RL_STATE_FETCHING: i32 = 1;
pub const RL_STATE_GENERATING: i32 = 2;
pub const RL_STATE_SCORING: i32 = 3;
pub const RL_STATE_TRAINING: i32 = 4;
pub const RL_STATE_PUBLISHING: i32 = 5;
pub const RL_STATE_EVALUATING: i32 = 6;
pub const RL_STATE_CHECKPOINTING: i32 = 7;
pub const RL_STATE_PAUSED: i32 = 8;
pub const RL_STATE_STOPPING: i32 = 9;
pub const RL_STATE_DONE: i32 = 10;
pub const RL_STATE_FAILED: i32 = 11;
pub const RL_PERIOD_TOTAL: i32 = 1;
pub const RL_PERIOD_INTERVAL: i32 = 2;
pub const RL_OUTPUT_LOGPROBS: i32 = 1;
pub const RL_OUTPUT_HIDDEN: i32 = 2;
pub const RL_OUTPUT_SCORES: i32 = 3;
pub const RL_OUTPUT_ENTROPIES: i32 = 4;
pub const RL_OUTPUT_VALUES: i32 = 5;
pub const RL_OUTPUT_LOGITS: i32 = 6;
pub const RL_SAMPLE_IDS: i32 = 1;
pub const RL_SAMPLE_LOGPROBS: i32 = 2;
pub const RL_SAMPLE_LOGPROBS_SAMPLED: i32 = 3;
pub const RL_SAMPLE_TOP_IDS: i32 = 4;
pub const RL_SAMPLE_TOP_LOGPROBS: i32 = 5;
pub const RL_FILE_ABSENT: i32 = 0;
pub const RL_FILE_REGULAR: i32 = 1;
pub const RL_FILE_DIRECTORY: i32 = 2;
pub const RL_ABI_MAJOR: u32 = 0;
pub const RL_ABI_MINOR: u32 = 3;
pub const RL_ABI_VERSION: u32 = (RL_ABI_MAJOR << 16) | RL_ABI_MINOR;
pub const RL_NUL_TERMINATED: usize = usize::MAX;
pub const RL_OPTION_HAS_MIN: u64 = 1;
pub const RL_OPTION_MIN_OPEN: u64 = 2;
pub const RL_OPTION_HAS_MAX: u64 = 4;
pub const RL_OPTION_MAX_OPEN: u64 = 8;
pub const RL_OPTION_POWER_OF_TWO: u64 = 16;
pub const RL_OPTION_DETERMINISM: u64 = 32;
pub const RL_OPTION_NEEDS_GPU: u64 = 64;
pub const RL_OPTION_NOT_EMPTY: u64 = 128;
pub const RL_TEXT_ADD_SPECIAL: u64 = 1;
pub const RL_TEXT_ALLOW_SPECIAL: u64 = 2;
pub const RL_TEXT_SKIP_SPECIAL: u64 = 4;
pub const RL_TEXT_GENERATION_PROMPT: u64 = 8;
pub const RL_SAVE_REPLACE: u64 = 1;
pub const RL_ABORT_SPARE: u64 = 1;
pub const RL_TENSOR_COPY: u64 = 1;

#[repr(C)]
pub struct rl_batch {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_buffer {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_bytes {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_conversation {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_engine {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_error {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_event {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_event_queue {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_model {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_options {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_pipeline {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_plan {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_profiler {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_runtime {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_tensor {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct rl_trainer {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
pub struct DLManagedTensorVersioned {
    _data: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

// Every function of these handles has the thread tag "any".
unsafe impl AnyThread for rl_batch {}
unsafe impl AnyThread for rl_buffer {}
unsafe impl AnyThread for rl_bytes {}
unsafe impl AnyThread for rl_conversation {}
unsafe impl AnyThread for rl_engine {}
unsafe impl AnyThread for rl_error {}
unsafe impl AnyThread for rl_event {}
unsafe impl AnyThread for rl_event_queue {}
unsafe impl AnyThread for rl_model {}
unsafe impl AnyThread for rl_options {}
unsafe impl AnyThread for rl_pipeline {}
unsafe impl AnyThread for rl_plan {}
unsafe impl AnyThread for rl_profiler {}
unsafe impl AnyThread for rl_runtime {}
unsafe impl AnyThread for rl_tensor {}
unsafe impl AnyThread for rl_trainer {}

pub type rl_log_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        record: *const rl_log_record,
    ),
>;

pub type rl_destroy_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
    ),
>;

pub type rl_advantage_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        tokens: *const rl_algo_tokens,
        advantages: *mut f64,
    ) -> i32,
>;

pub type rl_loss_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        tokens: *const rl_algo_tokens,
        weights: *const f64,
        loss: *mut f64,
        gradient: *mut f64,
    ) -> i32,
>;

pub type rl_file_open_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        path: *const c_char,
        path_len: usize,
        file: *mut *mut c_void,
        size: *mut u64,
    ) -> i32,
>;

pub type rl_file_create_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        path: *const c_char,
        path_len: usize,
        append: u32,
        file: *mut *mut c_void,
    ) -> i32,
>;

pub type rl_file_read_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        file: *mut c_void,
        offset: u64,
        data: *mut c_void,
        size: u64,
    ) -> i32,
>;

pub type rl_file_write_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        file: *mut c_void,
        data: *const c_void,
        size: u64,
    ) -> i32,
>;

pub type rl_file_sync_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        file: *mut c_void,
    ) -> i32,
>;

pub type rl_file_close_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        file: *mut c_void,
        discard: u32,
    ) -> i32,
>;

pub type rl_file_kind_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        path: *const c_char,
        path_len: usize,
        kind: *mut i32,
    ) -> i32,
>;

pub type rl_file_found_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        name: *const c_char,
        name_len: usize,
    ) -> i32,
>;

pub type rl_file_list_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        path: *const c_char,
        path_len: usize,
        found: rl_file_found_fn,
        context: *mut c_void,
    ) -> i32,
>;

pub type rl_file_path_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        path: *const c_char,
        path_len: usize,
    ) -> i32,
>;

pub type rl_file_rename_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        from: *const c_char,
        from_len: usize,
        to: *const c_char,
        to_len: usize,
    ) -> i32,
>;

pub type rl_file_describe_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        code: i32,
        text: *mut c_char,
        text_size: usize,
    ),
>;

pub type rl_allocate_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        size: u64,
        alignment: u64,
        memory: *mut *mut c_void,
    ) -> i32,
>;

pub type rl_memory_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        memory: *mut c_void,
        size: u64,
    ),
>;

pub type rl_store_found_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        token: *const c_char,
        token_len: usize,
        data: *const c_void,
        size: u64,
    ) -> i32,
>;

pub type rl_store_put_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        name: *const c_char,
        name_len: usize,
        data: *const c_void,
        size: u64,
    ) -> i32,
>;

pub type rl_store_claim_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        max_groups: u64,
        found: rl_store_found_fn,
        context: *mut c_void,
    ) -> i32,
>;

pub type rl_store_recover_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
    ) -> i32,
>;

pub type rl_store_token_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        token: *const c_char,
        token_len: usize,
    ) -> i32,
>;

pub type rl_store_read_book_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        found: rl_store_found_fn,
        context: *mut c_void,
    ) -> i32,
>;

pub type rl_store_write_book_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        data: *const c_void,
        size: u64,
    ) -> i32,
>;

pub type rl_store_describe_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        code: i32,
        text: *mut c_char,
        text_size: usize,
    ),
>;

pub type rl_exchange_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        exchange: *mut rl_exchange,
    ) -> i32,
>;

pub type rl_abandon_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        rank: u32,
        why: *const c_char,
        why_len: usize,
    ),
>;

pub type rl_transport_describe_fn = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        code: i32,
        text: *mut c_char,
        text_size: usize,
    ),
>;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_device_info {
    pub struct_size: usize,
    pub name: *const c_char,
    pub memory_bytes: u64,
    pub architecture_major: i32,
    pub architecture_minor: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_option_info {
    pub struct_size: usize,
    pub key: *const c_char,
    pub default_text: *const c_char,
    pub unit: *const c_char,
    pub doc: *const c_char,
    pub since: *const c_char,
    pub source: *const c_char,
    pub unsupported_reason: *const c_char,
    pub type_: i32,
    pub when: i32,
    pub flags: u64,
    pub min_i64: i64,
    pub max_i64: i64,
    pub min_u64: u64,
    pub max_u64: u64,
    pub min_f64: f64,
    pub max_f64: f64,
    pub num_choices: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_option_value {
    pub struct_size: usize,
    pub type_: i32,
    pub is_default: u32,
    pub i64: i64,
    pub u64: u64,
    pub f64: f64,
    pub num_items: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_log_record {
    pub struct_size: usize,
    pub level: i32,
    pub reserved: u32,
    pub time_ns: i64,
    pub unix_ns: i64,
    pub component: *const c_char,
    pub component_len: usize,
    pub message: *const c_char,
    pub message_len: usize,
    pub num_fields: usize,
    pub field_names: *const *const c_char,
    pub field_values: *const *const c_char,
    pub field_kinds: *const i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_runtime_info {
    pub struct_size: usize,
    pub reserved_bytes: u64,
    pub threads: i64,
    pub rank: u32,
    pub num_ranks: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_plan_info {
    pub struct_size: usize,
    pub total_bytes: u64,
    pub arena_bytes: u64,
    pub baseline_bytes: u64,
    pub budget_bytes: u64,
    pub max_model_len: i64,
    pub max_tokens: i64,
    pub kv_blocks: i64,
    pub threads: i64,
    pub dtype: i32,
    pub reserved: i32,
    pub least_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_plan_item {
    pub struct_size: usize,
    pub name: *const c_char,
    pub phase: *const c_char,
    pub bytes: u64,
    pub kind: i32,
    pub device: i32,
    pub device_index: i32,
    pub reserved: i32,
    pub role: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_knob {
    pub struct_size: usize,
    pub key: *const c_char,
    pub value: *const c_char,
    pub proposed: *const c_char,
    pub saved_bytes: u64,
    pub time_ratio: f64,
    pub effect: i32,
    pub reserved: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_machine {
    pub struct_size: usize,
    pub f32_flops: f64,
    pub bf16_flops: f64,
    pub read_bytes_per_s: f64,
    pub copy_bytes_per_s: f64,
    pub threads: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_step_time {
    pub struct_size: usize,
    pub total_s: f64,
    pub rollout_s: f64,
    pub logprob_s: f64,
    pub train_s: f64,
    pub update_s: f64,
    pub publish_s: f64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_model_info {
    pub struct_size: usize,
    pub family: *const c_char,
    pub vocab: i64,
    pub hidden: i64,
    pub layers: i64,
    pub heads: i64,
    pub kv_heads: i64,
    pub head_dim: i64,
    pub ffn: i64,
    pub max_position: i64,
    pub bos_id: i64,
    pub pad_id: i64,
    pub num_eos_ids: u64,
    pub dtype: i32,
    pub has_tokenizer: u32,
    pub tied_head: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_sample_view {
    pub struct_size: usize,
    pub sample_id: u64,
    pub ordinal: u64,
    pub slot: u32,
    pub attempt: u32,
    pub data_row: i64,
    pub purpose: i32,
    pub finish: i32,
    pub ids: *const i32,
    pub num_ids: usize,
    pub num_prompt: usize,
    pub logprobs: *const f32,
    pub logprobs_sampled: *const f32,
    pub versions: *const u64,
    pub loss_mask: *const u8,
    pub reward: f64,
    pub temperature: f32,
    pub scored: u32,
    pub tag: *const c_char,
    pub tag_len: usize,
    pub prompt_text: *const c_char,
    pub prompt_text_len: usize,
    pub text: *const c_char,
    pub text_len: usize,
    pub submitted_ns: i64,
    pub first_token_ns: i64,
    pub finished_ns: i64,
    pub num_top: usize,
    pub top_ids: *const i32,
    pub top_logprobs: *const f32,
    pub num_aborts: u32,
    pub preemptions: u32,
    pub admitted_ns: i64,
    pub mixed_kv: *const u8,
    pub num_reward_parts: usize,
    pub reward_parts: *const f64,
    pub token_rewards: *const f64,
    pub prompt_logprobs: *const f32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_score {
    pub struct_size: usize,
    pub sample_id: u64,
    pub reward: f64,
    pub parts: *const f64,
    pub num_parts: usize,
    pub failure: *const c_char,
    pub failure_len: usize,
    pub token_rewards: *const f64,
    pub num_token_rewards: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_event_view {
    pub struct_size: usize,
    pub kind: i32,
    pub reason: i32,
    pub step: u64,
    pub version: u64,
    pub ordinal: u64,
    pub data_row: i64,
    pub value: f64,
    pub count: u64,
    pub num_metrics: usize,
    pub text: *const c_char,
    pub text_len: usize,
    pub purpose: i32,
    pub reserved: i32,
    pub source: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_pipeline_stats {
    pub struct_size: usize,
    pub state: i32,
    pub reserved: i32,
    pub step: u64,
    pub version: u64,
    pub unscored: u64,
    pub attempts_started: u64,
    pub attempts_trained: u64,
    pub attempts_discarded: u64,
    pub attempts_in_flight: u64,
    pub tokens_generated: u64,
    pub tokens_trained: u64,
    pub tokens_discarded: u64,
    pub tokens_in_flight: u64,
    pub prompts_drawn: u64,
    pub prompts_trained: u64,
    pub prompts_dropped: u64,
    pub prompts_open: u64,
    pub late_scores: u64,
    pub duplicate_scores: u64,
    pub unknown_scores: u64,
    pub nonfinite_scores: u64,
    pub feed_size: u64,
    pub feed_capacity: u64,
    pub unreplied: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_reply {
    pub struct_size: usize,
    pub sample_id: u64,
    pub turn: u64,
    pub ids: *const i32,
    pub num_ids: usize,
    pub text: *const c_char,
    pub text_len: usize,
    pub flags: u64,
    pub finish: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_feed_row {
    pub struct_size: usize,
    pub json: *const c_char,
    pub json_len: usize,
    pub ids: *const i32,
    pub num_ids: usize,
    pub tag: *const c_char,
    pub tag_len: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_batch_part {
    pub struct_size: usize,
    pub batch: *const rl_batch,
    pub indices: *const usize,
    pub num_indices: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_request {
    pub struct_size: usize,
    pub prompt: *const i32,
    pub num_prompt: usize,
    pub num_samples: u64,
    pub sampling: *const rl_options,
    pub priority: i64,
    pub resume: *const rl_sample_view,
    pub tag: *const c_char,
    pub tag_len: usize,
    pub ordinal: u64,
    pub sample_id: u64,
    pub slot: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_engine_stats {
    pub struct_size: usize,
    pub running: u64,
    pub waiting: u64,
    pub blocks_in_use: u64,
    pub blocks_total: u64,
    pub prefill_tokens: u64,
    pub decode_tokens: u64,
    pub forwards: u64,
    pub nonfinite: u64,
    pub prefill_ns: i64,
    pub decode_ns: i64,
    pub started: u64,
    pub blocks_peak: u64,
    pub busy_ns: i64,
    pub generated_tokens: u64,
    pub admitted: u64,
    pub finished: u64,
    pub aborted: u64,
    pub queue_ns: i64,
    pub longest_queue_ns: i64,
    pub first_tokens: u64,
    pub first_token_ns: i64,
    pub longest_first_token_ns: i64,
    pub preemptions: u64,
    pub swapped_blocks: u64,
    pub looked_up_tokens: u64,
    pub cached_tokens: u64,
    pub mixed_kv_tokens: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_conversation_info {
    pub struct_size: usize,
    pub sample_id: u64,
    pub ordinal: u64,
    pub slot: u32,
    pub generating: u32,
    pub num_ids: u64,
    pub num_turns: u64,
    pub finish: i32,
    pub reserved: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_content {
    pub struct_size: usize,
    pub ids: *const i32,
    pub num_ids: usize,
    pub tag: *const c_char,
    pub tag_len: usize,
    pub ordinal: u64,
    pub sample_id: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_turn {
    pub struct_size: usize,
    pub sampling: *const rl_options,
    pub priority: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_take {
    pub struct_size: usize,
    pub min_groups: u64,
    pub max_groups: u64,
    pub version: u64,
    pub step: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_drop {
    pub struct_size: usize,
    pub ordinals: *const u64,
    pub num_ordinals: usize,
    pub below_version: u64,
    pub incomplete_only: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_buffer_stats {
    pub struct_size: usize,
    pub samples: u64,
    pub groups: u64,
    pub whole_groups: u64,
    pub put: u64,
    pub taken: u64,
    pub dropped: u64,
    pub stale: u64,
    pub stored: u64,
    pub acknowledged_groups: u64,
    pub duplicate_groups: u64,
    pub damaged_groups: u64,
    pub spilled_groups: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_buffer_file_info {
    pub struct_size: usize,
    pub step: u64,
    pub group_size: u64,
    pub max_tokens_per_device: u64,
    pub options_identity: u64,
    pub weight_version: u64,
    pub weight_digest: u64,
    pub vocab: u64,
    pub has_model: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_step {
    pub struct_size: usize,
    pub batch: *const rl_batch,
    pub advantages: *const f64,
    pub num_advantages: usize,
    pub total_tokens: u64,
    pub total_sequences: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_checkpoint {
    pub struct_size: usize,
    pub dir: *const c_char,
    pub dir_len: usize,
    pub state: *const c_char,
    pub state_len: usize,
    pub keep_last: u64,
    pub flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_forward {
    pub struct_size: usize,
    pub output: i32,
    pub reserved: i32,
    pub batch: *const rl_batch,
    pub ids: *const i32,
    pub num_ids: usize,
    pub num_prompt: usize,
    pub temperature: f32,
    pub reserved2: u32,
    pub rows: *const u64,
    pub num_rows: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_algo_tokens {
    pub struct_size: usize,
    pub lengths: *const i32,
    pub num_sequences: usize,
    pub num_tokens: usize,
    pub groups: *const u64,
    pub mask: *const u8,
    pub truncated: *const u8,
    pub logprobs: *const f32,
    pub old_logprobs: *const f32,
    pub rollout_logprobs: *const f32,
    pub ref_logprobs: *const f32,
    pub advantages: *const f32,
    pub rewards: *const f64,
    pub baselines: *const f64,
    pub sample_ids: *const u64,
    pub num_reward_parts: usize,
    pub reward_parts: *const f64,
    pub token_rewards: *const f64,
    pub values: *const f32,
    pub old_values: *const f32,
    pub returns: *const f32,
    pub entropies: *const f32,
    pub weights: *const f64,
    pub total_tokens: u64,
    pub total_sequences: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_algo_loss {
    pub struct_size: usize,
    pub loss: f64,
    pub policy_loss: f64,
    pub kl_loss: f64,
    pub kl: f64,
    pub ppo_kl: f64,
    pub ppo_kl_k3: f64,
    pub clip_fraction: f64,
    pub dual_clip_fraction: f64,
    pub ratio_max: f64,
    pub num_tokens: u64,
    pub num_rejected: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_algo_packing {
    pub struct_size: usize,
    pub max_tokens: u64,
    pub min_bins: u64,
    pub divisor: u64,
    pub group_size: u64,
    pub hidden: u64,
    pub oversize_alone: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_tensor_info {
    pub struct_size: usize,
    pub data: *mut c_void,
    pub shape: *const i64,
    pub strides: *const i64,
    pub num_dims: u64,
    pub num_elements: u64,
    pub dtype: i32,
    pub device: i32,
    pub read_only: u32,
    pub device_index: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_tensor_request {
    pub struct_size: usize,
    pub flags: u64,
    pub device: i32,
    pub device_index: i32,
    pub stream: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_weight {
    pub struct_size: usize,
    pub name: *const c_char,
    pub name_len: usize,
    pub tensor: *mut rl_tensor,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_files {
    pub struct_size: usize,
    pub user_data: *mut c_void,
    pub destroy: rl_destroy_fn,
    pub prefix: *const c_char,
    pub prefix_len: usize,
    pub open: rl_file_open_fn,
    pub create: rl_file_create_fn,
    pub read: rl_file_read_fn,
    pub write: rl_file_write_fn,
    pub sync: rl_file_sync_fn,
    pub close: rl_file_close_fn,
    pub kind: rl_file_kind_fn,
    pub list: rl_file_list_fn,
    pub make_directories: rl_file_path_fn,
    pub rename: rl_file_rename_fn,
    pub remove: rl_file_path_fn,
    pub sync_directory: rl_file_path_fn,
    pub describe: rl_file_describe_fn,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_allocator {
    pub struct_size: usize,
    pub user_data: *mut c_void,
    pub destroy: rl_destroy_fn,
    pub allocate: rl_allocate_fn,
    pub release: rl_memory_fn,
    pub decommit: rl_memory_fn,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_store {
    pub struct_size: usize,
    pub user_data: *mut c_void,
    pub destroy: rl_destroy_fn,
    pub put: rl_store_put_fn,
    pub claim: rl_store_claim_fn,
    pub recover: rl_store_recover_fn,
    pub acknowledge: rl_store_token_fn,
    pub set_aside: rl_store_token_fn,
    pub read_book: rl_store_read_book_fn,
    pub write_book: rl_store_write_book_fn,
    pub describe: rl_store_describe_fn,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_exchange {
    pub struct_size: usize,
    pub channel: u64,
    pub num_out: usize,
    pub out_ranks: *const u32,
    pub out_data: *const *const c_void,
    pub out_sizes: *const u64,
    pub num_in: usize,
    pub in_ranks: *const u32,
    pub in_data: *const *mut c_void,
    pub in_sizes: *const u64,
    pub received: *mut u64,
    pub timeout_ns: i64,
    pub lost_rank: i32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_transport {
    pub struct_size: usize,
    pub user_data: *mut c_void,
    pub destroy: rl_destroy_fn,
    pub rank: u32,
    pub num_ranks: u32,
    pub exchange: rl_exchange_fn,
    pub abandon: rl_abandon_fn,
    pub describe: rl_transport_describe_fn,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_host {
    pub struct_size: usize,
    pub files: *const rl_files,
    pub allocator: *const rl_allocator,
    pub transport: *const rl_transport,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_clock {
    pub struct_size: usize,
    pub steady_ns: i64,
    pub unix_ns: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rl_span {
    pub struct_size: usize,
    pub lane: *const c_char,
    pub lane_len: usize,
    pub name: *const c_char,
    pub name_len: usize,
    pub start_ns: i64,
    pub end_ns: i64,
    pub arg_name: *const c_char,
    pub arg_name_len: usize,
    pub arg_value: i64,
}

extern "C" {
    pub fn rl_abi_version() -> u32;
    pub fn rl_version_string() -> *const c_char;
    pub fn rl_build_info(out: *mut *mut rl_bytes, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_feature(
        name: *const c_char,
        name_len: usize,
        available: *mut u32,
        reason: *mut *const c_char,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_feature_name(index: usize) -> *const c_char;
    pub fn rl_device_info_init(info: *mut rl_device_info, size: usize);
    pub fn rl_device_count(count: *mut usize, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_device_get(
        index: usize,
        info: *mut rl_device_info,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_status_name(status: rl_status) -> *const c_char;
    pub fn rl_constant(
        name: *const c_char,
        name_len: usize,
        value: *mut i64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_bytes_data(bytes: *const rl_bytes) -> *const c_void;
    pub fn rl_bytes_size(bytes: *const rl_bytes) -> usize;
    pub fn rl_bytes_release(bytes: *mut rl_bytes);
    pub fn rl_error_code(error: *const rl_error) -> rl_status;
    pub fn rl_error_text(error: *const rl_error, field: i32, len: *mut usize) -> *const c_char;
    pub fn rl_error_nearest(error: *const rl_error, index: usize) -> *const c_char;
    pub fn rl_error_system_code(error: *const rl_error) -> i32;
    pub fn rl_error_cause(error: *const rl_error) -> *mut rl_error;
    pub fn rl_error_part(error: *const rl_error, index: usize) -> *mut rl_error;
    pub fn rl_error_release(error: *mut rl_error);
    pub fn rl_option_info_init(info: *mut rl_option_info, size: usize);
    pub fn rl_option_count() -> usize;
    pub fn rl_option_at(
        index: usize,
        info: *mut rl_option_info,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_option_find(
        key: *const c_char,
        key_len: usize,
        info: *mut rl_option_info,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_option_choice(
        key: *const c_char,
        key_len: usize,
        index: usize,
        name: *mut *const c_char,
        doc: *mut *const c_char,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_create(out: *mut *mut rl_options, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_options_clone(
        options: *const rl_options,
        out: *mut *mut rl_options,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_destroy(options: *mut rl_options);
    pub fn rl_options_set_bool(
        options: *mut rl_options,
        key: *const c_char,
        key_len: usize,
        value: u32,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_set_i64(
        options: *mut rl_options,
        key: *const c_char,
        key_len: usize,
        value: i64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_set_u64(
        options: *mut rl_options,
        key: *const c_char,
        key_len: usize,
        value: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_set_f64(
        options: *mut rl_options,
        key: *const c_char,
        key_len: usize,
        value: f64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_set_string(
        options: *mut rl_options,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_set_string_list(
        options: *mut rl_options,
        key: *const c_char,
        key_len: usize,
        values: *const *const c_char,
        lens: *const usize,
        count: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_set_i64_list(
        options: *mut rl_options,
        key: *const c_char,
        key_len: usize,
        values: *const i64,
        count: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_set_text(
        options: *mut rl_options,
        key: *const c_char,
        key_len: usize,
        text: *const c_char,
        text_len: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_option_value_init(value: *mut rl_option_value, size: usize);
    pub fn rl_options_get(
        options: *const rl_options,
        key: *const c_char,
        key_len: usize,
        value: *mut rl_option_value,
        text: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_unset(
        options: *mut rl_options,
        key: *const c_char,
        key_len: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_apply_preset(
        options: *mut rl_options,
        name: *const c_char,
        name_len: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_preset_count() -> usize;
    pub fn rl_preset_at(
        index: usize,
        name: *mut *const c_char,
        doc: *mut *const c_char,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_validate(options: *const rl_options, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_options_export(
        options: *const rl_options,
        format: i32,
        only_changed: u32,
        out: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_import(
        options: *mut rl_options,
        format: i32,
        data: *const c_void,
        size: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_options_identity(
        options: *const rl_options,
        out: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_log_record_init(record: *mut rl_log_record, size: usize);
    pub fn rl_runtime_create(
        header_abi: u32,
        options: *const rl_options,
        out: *mut *mut rl_runtime,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_runtime_destroy(runtime: *mut rl_runtime);
    pub fn rl_runtime_options(
        runtime: *const rl_runtime,
        out: *mut *mut rl_options,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_runtime_set_log(
        runtime: *mut rl_runtime,
        fn_: rl_log_fn,
        user_data: *mut c_void,
        destroy: rl_destroy_fn,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_runtime_info_init(info: *mut rl_runtime_info, size: usize);
    pub fn rl_runtime_get_info(
        runtime: *const rl_runtime,
        info: *mut rl_runtime_info,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_runtime_create_rank(
        runtime: *const rl_runtime,
        rank: u32,
        out: *mut *mut rl_runtime,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_plan_info_init(info: *mut rl_plan_info, size: usize);
    pub fn rl_plan_item_init(item: *mut rl_plan_item, size: usize);
    pub fn rl_plan_create(
        options: *const rl_options,
        use_: i32,
        out: *mut *mut rl_plan,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_plan_release(plan: *mut rl_plan);
    pub fn rl_plan_options(
        plan: *const rl_plan,
        out: *mut *mut rl_options,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_plan_get_info(
        plan: *const rl_plan,
        info: *mut rl_plan_info,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_plan_at(
        plan: *const rl_plan,
        index: usize,
        item: *mut rl_plan_item,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_plan_count(plan: *const rl_plan) -> usize;
    pub fn rl_plan_text(
        plan: *const rl_plan,
        out: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_knob_init(knob: *mut rl_knob, size: usize);
    pub fn rl_plan_knob_at(
        plan: *const rl_plan,
        index: usize,
        knob: *mut rl_knob,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_plan_knob_count(plan: *const rl_plan) -> usize;
    pub fn rl_error_knob_at(
        error: *const rl_error,
        index: usize,
        knob: *mut rl_knob,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_error_knob_count(error: *const rl_error) -> usize;
    pub fn rl_machine_init(machine: *mut rl_machine, size: usize);
    pub fn rl_runtime_probe(
        runtime: *mut rl_runtime,
        machine: *mut rl_machine,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_step_time_init(time: *mut rl_step_time, size: usize);
    pub fn rl_plan_fit(
        runtime: *mut rl_runtime,
        options: *const rl_options,
        use_: i32,
        machine: *const rl_machine,
        effect: i32,
        time: *mut rl_step_time,
        out: *mut *mut rl_plan,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_info_init(info: *mut rl_model_info, size: usize);
    pub fn rl_model_open(
        runtime: *mut rl_runtime,
        options: *const rl_options,
        use_: i32,
        out: *mut *mut rl_model,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_destroy(model: *mut rl_model);
    pub fn rl_model_options(
        model: *const rl_model,
        out: *mut *mut rl_options,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_save(
        model: *const rl_model,
        dir: *const c_char,
        dir_len: usize,
        dtype: i32,
        flags: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_encode(
        model: *const rl_model,
        text: *const c_char,
        text_len: usize,
        flags: u64,
        ids: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_decode(
        model: *const rl_model,
        ids: *const i32,
        num_ids: usize,
        flags: u64,
        text: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_encode_chat(
        model: *const rl_model,
        chat: *const c_char,
        chat_len: usize,
        flags: u64,
        ids: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_render_chat(
        model: *const rl_model,
        chat: *const c_char,
        chat_len: usize,
        flags: u64,
        text: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_get_info(
        model: *const rl_model,
        info: *mut rl_model_info,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_eos_ids(
        model: *const rl_model,
        ids: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_version(
        model: *const rl_model,
        out: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_digest(
        model: *const rl_model,
        out: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_sample_view_init(view: *mut rl_sample_view, size: usize);
    pub fn rl_score_init(score: *mut rl_score, size: usize);
    pub fn rl_event_view_init(view: *mut rl_event_view, size: usize);
    pub fn rl_event_kind(event: *const rl_event) -> i32;
    pub fn rl_event_get_view(
        event: *const rl_event,
        view: *mut rl_event_view,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_event_sample(
        event: *const rl_event,
        index: usize,
        view: *mut rl_sample_view,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_event_metric(
        event: *const rl_event,
        index: usize,
        name: *mut *const c_char,
        value: *mut f64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_event_metric_named(
        event: *const rl_event,
        name: *const c_char,
        name_len: usize,
        value: *mut f64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_event_release(event: *mut rl_event);
    pub fn rl_event_queue_create(
        out: *mut *mut rl_event_queue,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_event_queue_next(
        queue: *mut rl_event_queue,
        timeout_ns: i64,
        out: *mut *mut rl_event,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_event_queue_interrupt(
        queue: *mut rl_event_queue,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_event_queue_fd(queue: *const rl_event_queue) -> i32;
    pub fn rl_event_queue_size(queue: *const rl_event_queue) -> usize;
    pub fn rl_event_queue_release(queue: *mut rl_event_queue);
    pub fn rl_pipeline_stats_init(stats: *mut rl_pipeline_stats, size: usize);
    pub fn rl_pipeline_create(
        model: *mut rl_model,
        options: *const rl_options,
        out: *mut *mut rl_pipeline,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_destroy(pipeline: *mut rl_pipeline);
    pub fn rl_pipeline_start(pipeline: *mut rl_pipeline, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_pipeline_next(
        pipeline: *mut rl_pipeline,
        timeout_ns: i64,
        out: *mut *mut rl_event,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_interrupt(pipeline: *mut rl_pipeline, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_pipeline_queue(
        pipeline: *mut rl_pipeline,
        out: *mut *mut rl_event_queue,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_score(
        pipeline: *mut rl_pipeline,
        scores: *const rl_score,
        count: usize,
        results: *mut rl_status,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_reply_init(reply: *mut rl_reply, size: usize);
    pub fn rl_pipeline_reply(
        pipeline: *mut rl_pipeline,
        replies: *const rl_reply,
        count: usize,
        results: *mut rl_status,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_feed_row_init(row: *mut rl_feed_row, size: usize);
    pub fn rl_pipeline_feed(
        pipeline: *mut rl_pipeline,
        row: *const rl_feed_row,
        timeout_ns: i64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_finish_feed(
        pipeline: *mut rl_pipeline,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_pause(pipeline: *mut rl_pipeline, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_pipeline_unpause(pipeline: *mut rl_pipeline, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_pipeline_stop(
        pipeline: *mut rl_pipeline,
        timeout_ns: i64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_checkpoint(
        pipeline: *mut rl_pipeline,
        timeout_ns: i64,
        path: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_save_critic(
        pipeline: *mut rl_pipeline,
        dir: *const c_char,
        dir_len: usize,
        dtype: i32,
        flags: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_evaluate(pipeline: *mut rl_pipeline, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_pipeline_set_options(
        pipeline: *mut rl_pipeline,
        options: *const rl_options,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_options(
        pipeline: *const rl_pipeline,
        out: *mut *mut rl_options,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_get_stats(
        pipeline: *const rl_pipeline,
        stats: *mut rl_pipeline_stats,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_plan(
        pipeline: *const rl_pipeline,
        out: *mut *mut rl_plan,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_close_result(
        pipeline: *const rl_pipeline,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_resumed_from(
        pipeline: *const rl_pipeline,
        path: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_write_report(
        pipeline: *const rl_pipeline,
        profiler: *const rl_profiler,
        path: *const c_char,
        path_len: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_batch_create(
        samples: *const rl_sample_view,
        num_samples: usize,
        out: *mut *mut rl_batch,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_batch_part_init(part: *mut rl_batch_part, size: usize);
    pub fn rl_batch_select(
        parts: *const rl_batch_part,
        num_parts: usize,
        out: *mut *mut rl_batch,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_batch_export(
        batch: *const rl_batch,
        out: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_batch_import(
        data: *const c_void,
        size: usize,
        out: *mut *mut rl_batch,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_batch_count(batch: *const rl_batch) -> usize;
    pub fn rl_batch_sample(
        batch: *const rl_batch,
        index: usize,
        view: *mut rl_sample_view,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_batch_score(
        batch: *mut rl_batch,
        first: usize,
        scores: *const rl_score,
        count: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_batch_release(batch: *mut rl_batch);
    pub fn rl_request_init(request: *mut rl_request, size: usize);
    pub fn rl_engine_stats_init(stats: *mut rl_engine_stats, size: usize);
    pub fn rl_engine_create(
        model: *mut rl_model,
        options: *const rl_options,
        out: *mut *mut rl_engine,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_engine_destroy(engine: *mut rl_engine);
    pub fn rl_engine_submit(
        engine: *mut rl_engine,
        request: *const rl_request,
        first_sample_id: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_engine_step(engine: *mut rl_engine, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_engine_run(engine: *mut rl_engine, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_engine_pause(engine: *mut rl_engine, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_engine_unpause(engine: *mut rl_engine, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_engine_drain(
        engine: *mut rl_engine,
        timeout_ns: i64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_engine_set_queue(
        engine: *mut rl_engine,
        queue: *mut rl_event_queue,
        source: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_engine_options(
        engine: *const rl_engine,
        out: *mut *mut rl_options,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_engine_take(
        engine: *mut rl_engine,
        out: *mut *mut rl_batch,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_engine_abort(
        engine: *mut rl_engine,
        flags: u64,
        num_spared: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_engine_abort_request(
        engine: *mut rl_engine,
        sample_id: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_engine_sleep(
        engine: *mut rl_engine,
        level: i32,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_engine_wake(engine: *mut rl_engine, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_engine_get_stats(
        engine: *const rl_engine,
        replica: i64,
        period: i32,
        stats: *mut rl_engine_stats,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_conversation_info_init(info: *mut rl_conversation_info, size: usize);
    pub fn rl_content_init(content: *mut rl_content, size: usize);
    pub fn rl_turn_init(turn: *mut rl_turn, size: usize);
    pub fn rl_conversation_create(
        engine: *mut rl_engine,
        prompt: *const rl_content,
        out: *mut *mut rl_conversation,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_conversation_fork(
        conversation: *const rl_conversation,
        out: *mut *mut rl_conversation,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_conversation_destroy(conversation: *mut rl_conversation);
    pub fn rl_conversation_append(
        conversation: *mut rl_conversation,
        content: *const rl_content,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_conversation_generate(
        conversation: *mut rl_conversation,
        turn: *const rl_turn,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_conversation_get_info(
        conversation: *const rl_conversation,
        info: *mut rl_conversation_info,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_conversation_sample(
        conversation: *const rl_conversation,
        out: *mut *mut rl_batch,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_create(
        options: *const rl_options,
        max_samples: u64,
        out: *mut *mut rl_buffer,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_destroy(buffer: *mut rl_buffer);
    pub fn rl_buffer_put(
        buffer: *mut rl_buffer,
        sample: *const rl_sample_view,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_put_batch(
        buffer: *mut rl_buffer,
        batch: *const rl_batch,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_take_init(take: *mut rl_take, size: usize);
    pub fn rl_buffer_take(
        buffer: *mut rl_buffer,
        take: *const rl_take,
        timeout_ns: i64,
        out: *mut *mut rl_batch,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_acknowledge(
        buffer: *mut rl_buffer,
        step: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_resume(
        buffer: *mut rl_buffer,
        step: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_drop_init(drop: *mut rl_drop, size: usize);
    pub fn rl_buffer_drop(
        buffer: *mut rl_buffer,
        drop: *const rl_drop,
        num_samples: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_set_queue(
        buffer: *mut rl_buffer,
        queue: *mut rl_event_queue,
        source: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_options(
        buffer: *const rl_buffer,
        out: *mut *mut rl_options,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_stats_init(stats: *mut rl_buffer_stats, size: usize);
    pub fn rl_buffer_get_stats(
        buffer: *const rl_buffer,
        stats: *mut rl_buffer_stats,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_save(
        buffer: *const rl_buffer,
        path: *const c_char,
        path_len: usize,
        model: *const rl_model,
        flags: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_load(
        buffer: *mut rl_buffer,
        path: *const c_char,
        path_len: usize,
        model: *const rl_model,
        num_samples: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_file_info_init(info: *mut rl_buffer_file_info, size: usize);
    pub fn rl_buffer_get_file_info(
        path: *const c_char,
        path_len: usize,
        info: *mut rl_buffer_file_info,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_create(
        model: *mut rl_model,
        options: *const rl_options,
        out: *mut *mut rl_trainer,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_destroy(trainer: *mut rl_trainer);
    pub fn rl_step_init(step: *mut rl_step, size: usize);
    pub fn rl_trainer_step(
        trainer: *mut rl_trainer,
        step: *const rl_step,
        out: *mut *mut rl_event,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_backward(
        trainer: *mut rl_trainer,
        step: *const rl_step,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_apply(
        trainer: *mut rl_trainer,
        out: *mut *mut rl_event,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_cancel(trainer: *mut rl_trainer, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_trainer_set_queue(
        trainer: *mut rl_trainer,
        queue: *mut rl_event_queue,
        source: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_options(
        trainer: *const rl_trainer,
        out: *mut *mut rl_options,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_set_options(
        trainer: *mut rl_trainer,
        options: *const rl_options,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_checkpoint_init(checkpoint: *mut rl_checkpoint, size: usize);
    pub fn rl_trainer_save(
        trainer: *mut rl_trainer,
        checkpoint: *const rl_checkpoint,
        path: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_load(
        trainer: *mut rl_trainer,
        path: *const c_char,
        path_len: usize,
        state: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_forward_init(forward: *mut rl_forward, size: usize);
    pub fn rl_trainer_forward(
        trainer: *mut rl_trainer,
        forward: *const rl_forward,
        out: *mut *mut rl_tensor,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_forward(
        model: *mut rl_model,
        forward: *const rl_forward,
        out: *mut *mut rl_tensor,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_save_critic(
        trainer: *mut rl_trainer,
        dir: *const c_char,
        dir_len: usize,
        dtype: i32,
        flags: u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_publish(
        trainer: *mut rl_trainer,
        version: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_sleep(trainer: *mut rl_trainer, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_trainer_wake(trainer: *mut rl_trainer, err: *mut *mut rl_error) -> rl_status;
    pub fn rl_algo_tokens_init(tokens: *mut rl_algo_tokens, size: usize);
    pub fn rl_algo_loss_init(loss: *mut rl_algo_loss, size: usize);
    pub fn rl_algo_advantages(
        options: *const rl_options,
        tokens: *const rl_algo_tokens,
        advantages: *mut f64,
        num_advantages: usize,
        returns: *mut f64,
        num_returns: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_algo_policy_loss(
        options: *const rl_options,
        tokens: *const rl_algo_tokens,
        gradient: *mut f64,
        num_gradient: usize,
        out: *mut rl_algo_loss,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_algo_value_loss(
        options: *const rl_options,
        tokens: *const rl_algo_tokens,
        gradient: *mut f64,
        num_gradient: usize,
        out: *mut rl_algo_loss,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_algo_entropy_loss(
        options: *const rl_options,
        tokens: *const rl_algo_tokens,
        gradient: *mut f64,
        num_gradient: usize,
        out: *mut rl_algo_loss,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_algo_packing_init(packing: *mut rl_algo_packing, size: usize);
    pub fn rl_algo_pack(
        options: *const rl_options,
        lengths: *const i32,
        num_lengths: usize,
        packing: *const rl_algo_packing,
        bins: *mut i32,
        num_bins: usize,
        count: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_algo_corrections(
        options: *const rl_options,
        tokens: *const rl_algo_tokens,
        weights: *mut f64,
        num_weights: usize,
        keep: *mut u8,
        num_keep: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_algo_weights(
        options: *const rl_options,
        tokens: *const rl_algo_tokens,
        weights: *mut f64,
        num_weights: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_algo_kl(
        options: *const rl_options,
        tokens: *const rl_algo_tokens,
        values: *mut f64,
        num_values: usize,
        gradient: *mut f64,
        num_gradient: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_set_advantage(
        pipeline: *mut rl_pipeline,
        fn_: rl_advantage_fn,
        user_data: *mut c_void,
        destroy: rl_destroy_fn,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_set_loss(
        pipeline: *mut rl_pipeline,
        fn_: rl_loss_fn,
        user_data: *mut c_void,
        destroy: rl_destroy_fn,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_set_advantage(
        trainer: *mut rl_trainer,
        fn_: rl_advantage_fn,
        user_data: *mut c_void,
        destroy: rl_destroy_fn,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_set_loss(
        trainer: *mut rl_trainer,
        fn_: rl_loss_fn,
        user_data: *mut c_void,
        destroy: rl_destroy_fn,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_tensor_request_init(request: *mut rl_tensor_request, size: usize);
    pub fn rl_tensor_info_init(info: *mut rl_tensor_info, size: usize);
    pub fn rl_tensor_get_info(
        tensor: *const rl_tensor,
        info: *mut rl_tensor_info,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_tensor_retain(
        tensor: *const rl_tensor,
        out: *mut *mut rl_tensor,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_tensor_release(tensor: *mut rl_tensor);
    pub fn rl_tensor_import_dlpack(
        runtime: *mut rl_runtime,
        managed: *mut DLManagedTensorVersioned,
        producer_stream: *mut c_void,
        flags: u64,
        out: *mut *mut rl_tensor,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_tensor_export_dlpack(
        tensor: *const rl_tensor,
        consumer_stream: *mut c_void,
        out: *mut *mut DLManagedTensorVersioned,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_weight_count(model: *const rl_model) -> usize;
    pub fn rl_model_weight_name(
        model: *const rl_model,
        index: usize,
        name: *mut *const c_char,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_model_weight(
        model: *const rl_model,
        name: *const c_char,
        name_len: usize,
        request: *const rl_tensor_request,
        out: *mut *mut rl_tensor,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_trainer_gradient(
        trainer: *mut rl_trainer,
        name: *const c_char,
        name_len: usize,
        request: *const rl_tensor_request,
        out: *mut *mut rl_tensor,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_weight_init(weight: *mut rl_weight, size: usize);
    pub fn rl_model_set_weights(
        model: *mut rl_model,
        weights: *const rl_weight,
        num_weights: usize,
        producer_stream: *mut c_void,
        as_version: u64,
        version: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_batch_tensor(
        batch: *const rl_batch,
        index: usize,
        array: i32,
        request: *const rl_tensor_request,
        out: *mut *mut rl_tensor,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_event_tensor(
        event: *const rl_event,
        index: usize,
        array: i32,
        request: *const rl_tensor_request,
        out: *mut *mut rl_tensor,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_profiler_create(
        runtime: *mut rl_runtime,
        out: *mut *mut rl_profiler,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_profiler_destroy(profiler: *mut rl_profiler);
    pub fn rl_profiler_write_trace(
        profiler: *const rl_profiler,
        path: *const c_char,
        path_len: usize,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_profiler_count(
        profiler: *const rl_profiler,
        num_records: *mut u64,
        num_dropped: *mut u64,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_profiler_summary(
        profiler: *const rl_profiler,
        out: *mut *mut rl_bytes,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_files_init(files: *mut rl_files, size: usize);
    pub fn rl_allocator_init(allocator: *mut rl_allocator, size: usize);
    pub fn rl_store_init(store: *mut rl_store, size: usize);
    pub fn rl_buffer_create_stored(
        options: *const rl_options,
        max_samples: u64,
        store: *const rl_store,
        out: *mut *mut rl_buffer,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_pipeline_create_stored(
        model: *mut rl_model,
        options: *const rl_options,
        store: *const rl_store,
        out: *mut *mut rl_pipeline,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_exchange_init(exchange: *mut rl_exchange, size: usize);
    pub fn rl_transport_init(transport: *mut rl_transport, size: usize);
    pub fn rl_host_init(host: *mut rl_host, size: usize);
    pub fn rl_runtime_create_hosted(
        header_abi: u32,
        options: *const rl_options,
        host: *const rl_host,
        out: *mut *mut rl_runtime,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_plan_create_hosted(
        runtime: *const rl_runtime,
        options: *const rl_options,
        use_: i32,
        out: *mut *mut rl_plan,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_set_runtime(
        buffer: *mut rl_buffer,
        runtime: *const rl_runtime,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_buffer_get_hosted_file_info(
        runtime: *const rl_runtime,
        path: *const c_char,
        path_len: usize,
        info: *mut rl_buffer_file_info,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_clock_init(clock: *mut rl_clock, size: usize);
    pub fn rl_runtime_get_clock(
        runtime: *const rl_runtime,
        clock: *mut rl_clock,
        err: *mut *mut rl_error,
    ) -> rl_status;
    pub fn rl_span_init(span: *mut rl_span, size: usize);
    pub fn rl_runtime_trace_span(
        runtime: *mut rl_runtime,
        span: *const rl_span,
        err: *mut *mut rl_error,
    ) -> rl_status;
}
