"""Structs, callbacks and prototypes of the C interface.

Written by tools/gen_python.py from include/rl.h; not edited by hand.
"""
import ctypes
from ctypes import (POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_int8, c_size_t,
                    c_uint32, c_uint64, c_uint8, c_void_p)
from typing import Any

ABI_MAJOR, ABI_MINOR = 0, 3
ABI_VERSION = ABI_MAJOR << 16 | ABI_MINOR
SONAME = "librl.so.2"


class Struct(ctypes.Structure):
    """A struct of rl.h, with struct_size set and all else 0."""

    def __init__(self) -> None:
        super().__init__(struct_size=ctypes.sizeof(self))


class rl_device_info(Struct):
    _fields_ = [("struct_size", c_size_t), ("name", c_void_p), ("memory_bytes", c_uint64),
        ("architecture_major", c_int32), ("architecture_minor", c_int32)]


class rl_option_info(Struct):
    _fields_ = [("struct_size", c_size_t), ("key", c_void_p), ("default_text", c_void_p),
        ("unit", c_void_p), ("doc", c_void_p), ("since", c_void_p), ("source", c_void_p),
        ("unsupported_reason", c_void_p), ("type", c_int32), ("when", c_int32), ("flags", c_uint64),
        ("min_i64", c_int64), ("max_i64", c_int64), ("min_u64", c_uint64), ("max_u64", c_uint64),
        ("min_f64", c_double), ("max_f64", c_double), ("num_choices", c_size_t)]


class rl_option_value(Struct):
    _fields_ = [("struct_size", c_size_t), ("type", c_int32), ("is_default", c_uint32),
        ("i64", c_int64), ("u64", c_uint64), ("f64", c_double), ("num_items", c_uint64)]


class rl_log_record(Struct):
    _fields_ = [("struct_size", c_size_t), ("level", c_int32), ("reserved", c_uint32),
        ("time_ns", c_int64), ("unix_ns", c_int64), ("component", c_void_p),
        ("component_len", c_size_t), ("message", c_void_p), ("message_len", c_size_t),
        ("num_fields", c_size_t), ("field_names", c_void_p), ("field_values", c_void_p),
        ("field_kinds", c_void_p)]


class rl_runtime_info(Struct):
    _fields_ = [("struct_size", c_size_t), ("reserved_bytes", c_uint64), ("threads", c_int64),
        ("rank", c_uint32), ("num_ranks", c_uint32)]


class rl_plan_info(Struct):
    _fields_ = [("struct_size", c_size_t), ("total_bytes", c_uint64), ("arena_bytes", c_uint64),
        ("baseline_bytes", c_uint64), ("budget_bytes", c_uint64), ("max_model_len", c_int64),
        ("max_tokens", c_int64), ("kv_blocks", c_int64), ("threads", c_int64), ("dtype", c_int32),
        ("reserved", c_int32), ("least_bytes", c_uint64)]


class rl_plan_item(Struct):
    _fields_ = [("struct_size", c_size_t), ("name", c_void_p), ("phase", c_void_p),
        ("bytes", c_uint64), ("kind", c_int32), ("device", c_int32), ("device_index", c_int32),
        ("reserved", c_int32), ("role", c_void_p)]


class rl_knob(Struct):
    _fields_ = [("struct_size", c_size_t), ("key", c_void_p), ("value", c_void_p),
        ("proposed", c_void_p), ("saved_bytes", c_uint64), ("time_ratio", c_double),
        ("effect", c_int32), ("reserved", c_int32)]


class rl_machine(Struct):
    _fields_ = [("struct_size", c_size_t), ("f32_flops", c_double), ("bf16_flops", c_double),
        ("read_bytes_per_s", c_double), ("copy_bytes_per_s", c_double), ("threads", c_int64)]


class rl_step_time(Struct):
    _fields_ = [("struct_size", c_size_t), ("total_s", c_double), ("rollout_s", c_double),
        ("logprob_s", c_double), ("train_s", c_double), ("update_s", c_double),
        ("publish_s", c_double)]


class rl_model_info(Struct):
    _fields_ = [("struct_size", c_size_t), ("family", c_void_p), ("vocab", c_int64),
        ("hidden", c_int64), ("layers", c_int64), ("heads", c_int64), ("kv_heads", c_int64),
        ("head_dim", c_int64), ("ffn", c_int64), ("max_position", c_int64), ("bos_id", c_int64),
        ("pad_id", c_int64), ("num_eos_ids", c_uint64), ("dtype", c_int32),
        ("has_tokenizer", c_uint32), ("tied_head", c_uint32), ("reserved", c_uint32)]


class rl_sample_view(Struct):
    _fields_ = [("struct_size", c_size_t), ("sample_id", c_uint64), ("ordinal", c_uint64),
        ("slot", c_uint32), ("attempt", c_uint32), ("data_row", c_int64), ("purpose", c_int32),
        ("finish", c_int32), ("ids", c_void_p), ("num_ids", c_size_t), ("num_prompt", c_size_t),
        ("logprobs", c_void_p), ("logprobs_sampled", c_void_p), ("versions", c_void_p),
        ("loss_mask", c_void_p), ("reward", c_double), ("temperature", c_float),
        ("scored", c_uint32), ("tag", c_void_p), ("tag_len", c_size_t), ("prompt_text", c_void_p),
        ("prompt_text_len", c_size_t), ("text", c_void_p), ("text_len", c_size_t),
        ("submitted_ns", c_int64), ("first_token_ns", c_int64), ("finished_ns", c_int64),
        ("num_top", c_size_t), ("top_ids", c_void_p), ("top_logprobs", c_void_p),
        ("num_aborts", c_uint32), ("preemptions", c_uint32), ("admitted_ns", c_int64),
        ("mixed_kv", c_void_p), ("num_reward_parts", c_size_t), ("reward_parts", c_void_p),
        ("token_rewards", c_void_p), ("prompt_logprobs", c_void_p)]


class rl_score(Struct):
    _fields_ = [("struct_size", c_size_t), ("sample_id", c_uint64), ("reward", c_double),
        ("parts", c_void_p), ("num_parts", c_size_t), ("failure", c_void_p),
        ("failure_len", c_size_t), ("token_rewards", c_void_p), ("num_token_rewards", c_size_t)]


class rl_event_view(Struct):
    _fields_ = [("struct_size", c_size_t), ("kind", c_int32), ("reason", c_int32),
        ("step", c_uint64), ("version", c_uint64), ("ordinal", c_uint64), ("data_row", c_int64),
        ("value", c_double), ("count", c_uint64), ("num_metrics", c_size_t), ("text", c_void_p),
        ("text_len", c_size_t), ("purpose", c_int32), ("reserved", c_int32), ("source", c_uint64)]


class rl_pipeline_stats(Struct):
    _fields_ = [("struct_size", c_size_t), ("state", c_int32), ("reserved", c_int32),
        ("step", c_uint64), ("version", c_uint64), ("unscored", c_uint64),
        ("attempts_started", c_uint64), ("attempts_trained", c_uint64),
        ("attempts_discarded", c_uint64), ("attempts_in_flight", c_uint64),
        ("tokens_generated", c_uint64), ("tokens_trained", c_uint64),
        ("tokens_discarded", c_uint64), ("tokens_in_flight", c_uint64), ("prompts_drawn", c_uint64),
        ("prompts_trained", c_uint64), ("prompts_dropped", c_uint64), ("prompts_open", c_uint64),
        ("late_scores", c_uint64), ("duplicate_scores", c_uint64), ("unknown_scores", c_uint64),
        ("nonfinite_scores", c_uint64), ("feed_size", c_uint64), ("feed_capacity", c_uint64),
        ("unreplied", c_uint64)]


class rl_reply(Struct):
    _fields_ = [("struct_size", c_size_t), ("sample_id", c_uint64), ("turn", c_uint64),
        ("ids", c_void_p), ("num_ids", c_size_t), ("text", c_void_p), ("text_len", c_size_t),
        ("flags", c_uint64), ("finish", c_uint32), ("reserved", c_uint32)]


class rl_feed_row(Struct):
    _fields_ = [("struct_size", c_size_t), ("json", c_void_p), ("json_len", c_size_t),
        ("ids", c_void_p), ("num_ids", c_size_t), ("tag", c_void_p), ("tag_len", c_size_t)]


class rl_batch_part(Struct):
    _fields_ = [("struct_size", c_size_t), ("batch", c_void_p), ("indices", c_void_p),
        ("num_indices", c_size_t)]


class rl_request(Struct):
    _fields_ = [("struct_size", c_size_t), ("prompt", c_void_p), ("num_prompt", c_size_t),
        ("num_samples", c_uint64), ("sampling", c_void_p), ("priority", c_int64),
        ("resume", c_void_p), ("tag", c_void_p), ("tag_len", c_size_t), ("ordinal", c_uint64),
        ("sample_id", c_uint64), ("slot", c_uint32), ("reserved", c_uint32)]


class rl_engine_stats(Struct):
    _fields_ = [("struct_size", c_size_t), ("running", c_uint64), ("waiting", c_uint64),
        ("blocks_in_use", c_uint64), ("blocks_total", c_uint64), ("prefill_tokens", c_uint64),
        ("decode_tokens", c_uint64), ("forwards", c_uint64), ("nonfinite", c_uint64),
        ("prefill_ns", c_int64), ("decode_ns", c_int64), ("started", c_uint64),
        ("blocks_peak", c_uint64), ("busy_ns", c_int64), ("generated_tokens", c_uint64),
        ("admitted", c_uint64), ("finished", c_uint64), ("aborted", c_uint64),
        ("queue_ns", c_int64), ("longest_queue_ns", c_int64), ("first_tokens", c_uint64),
        ("first_token_ns", c_int64), ("longest_first_token_ns", c_int64), ("preemptions", c_uint64),
        ("swapped_blocks", c_uint64), ("looked_up_tokens", c_uint64), ("cached_tokens", c_uint64),
        ("mixed_kv_tokens", c_uint64)]


class rl_conversation_info(Struct):
    _fields_ = [("struct_size", c_size_t), ("sample_id", c_uint64), ("ordinal", c_uint64),
        ("slot", c_uint32), ("generating", c_uint32), ("num_ids", c_uint64),
        ("num_turns", c_uint64), ("finish", c_int32), ("reserved", c_int32)]


class rl_content(Struct):
    _fields_ = [("struct_size", c_size_t), ("ids", c_void_p), ("num_ids", c_size_t),
        ("tag", c_void_p), ("tag_len", c_size_t), ("ordinal", c_uint64), ("sample_id", c_uint64)]


class rl_turn(Struct):
    _fields_ = [("struct_size", c_size_t), ("sampling", c_void_p), ("priority", c_int64)]


class rl_take(Struct):
    _fields_ = [("struct_size", c_size_t), ("min_groups", c_uint64), ("max_groups", c_uint64),
        ("version", c_uint64), ("step", c_uint64)]


class rl_drop(Struct):
    _fields_ = [("struct_size", c_size_t), ("ordinals", c_void_p), ("num_ordinals", c_size_t),
        ("below_version", c_uint64), ("incomplete_only", c_uint32), ("reserved", c_uint32)]


class rl_buffer_stats(Struct):
    _fields_ = [("struct_size", c_size_t), ("samples", c_uint64), ("groups", c_uint64),
        ("whole_groups", c_uint64), ("put", c_uint64), ("taken", c_uint64), ("dropped", c_uint64),
        ("stale", c_uint64), ("stored", c_uint64), ("acknowledged_groups", c_uint64),
        ("duplicate_groups", c_uint64), ("damaged_groups", c_uint64), ("spilled_groups", c_uint64)]


class rl_buffer_file_info(Struct):
    _fields_ = [("struct_size", c_size_t), ("step", c_uint64), ("group_size", c_uint64),
        ("max_tokens_per_device", c_uint64), ("options_identity", c_uint64),
        ("weight_version", c_uint64), ("weight_digest", c_uint64), ("vocab", c_uint64),
        ("has_model", c_uint32), ("reserved", c_uint32)]


class rl_step(Struct):
    _fields_ = [("struct_size", c_size_t), ("batch", c_void_p), ("advantages", c_void_p),
        ("num_advantages", c_size_t), ("total_tokens", c_uint64), ("total_sequences", c_uint64)]


class rl_checkpoint(Struct):
    _fields_ = [("struct_size", c_size_t), ("dir", c_void_p), ("dir_len", c_size_t),
        ("state", c_void_p), ("state_len", c_size_t), ("keep_last", c_uint64), ("flags", c_uint64)]


class rl_forward(Struct):
    _fields_ = [("struct_size", c_size_t), ("output", c_int32), ("reserved", c_int32),
        ("batch", c_void_p), ("ids", c_void_p), ("num_ids", c_size_t), ("num_prompt", c_size_t),
        ("temperature", c_float), ("reserved2", c_uint32), ("rows", c_void_p),
        ("num_rows", c_size_t)]


class rl_algo_tokens(Struct):
    _fields_ = [("struct_size", c_size_t), ("lengths", c_void_p), ("num_sequences", c_size_t),
        ("num_tokens", c_size_t), ("groups", c_void_p), ("mask", c_void_p), ("truncated", c_void_p),
        ("logprobs", c_void_p), ("old_logprobs", c_void_p), ("rollout_logprobs", c_void_p),
        ("ref_logprobs", c_void_p), ("advantages", c_void_p), ("rewards", c_void_p),
        ("baselines", c_void_p), ("sample_ids", c_void_p), ("num_reward_parts", c_size_t),
        ("reward_parts", c_void_p), ("token_rewards", c_void_p), ("values", c_void_p),
        ("old_values", c_void_p), ("returns", c_void_p), ("entropies", c_void_p),
        ("weights", c_void_p), ("total_tokens", c_uint64), ("total_sequences", c_uint64)]


class rl_algo_loss(Struct):
    _fields_ = [("struct_size", c_size_t), ("loss", c_double), ("policy_loss", c_double),
        ("kl_loss", c_double), ("kl", c_double), ("ppo_kl", c_double), ("ppo_kl_k3", c_double),
        ("clip_fraction", c_double), ("dual_clip_fraction", c_double), ("ratio_max", c_double),
        ("num_tokens", c_uint64), ("num_rejected", c_uint64)]


class rl_algo_packing(Struct):
    _fields_ = [("struct_size", c_size_t), ("max_tokens", c_uint64), ("min_bins", c_uint64),
        ("divisor", c_uint64), ("group_size", c_uint64), ("hidden", c_uint64),
        ("oversize_alone", c_uint32), ("reserved", c_uint32)]


class rl_tensor_info(Struct):
    _fields_ = [("struct_size", c_size_t), ("data", c_void_p), ("shape", c_void_p),
        ("strides", c_void_p), ("num_dims", c_uint64), ("num_elements", c_uint64),
        ("dtype", c_int32), ("device", c_int32), ("read_only", c_uint32), ("device_index", c_int32)]


class rl_tensor_request(Struct):
    _fields_ = [("struct_size", c_size_t), ("flags", c_uint64), ("device", c_int32),
        ("device_index", c_int32), ("stream", c_void_p)]


class rl_weight(Struct):
    _fields_ = [("struct_size", c_size_t), ("name", c_void_p), ("name_len", c_size_t),
        ("tensor", c_void_p)]


class rl_files(Struct):
    _fields_ = [("struct_size", c_size_t), ("user_data", c_void_p), ("destroy", c_void_p),
        ("prefix", c_void_p), ("prefix_len", c_size_t), ("open", c_void_p), ("create", c_void_p),
        ("read", c_void_p), ("write", c_void_p), ("sync", c_void_p), ("close", c_void_p),
        ("kind", c_void_p), ("list", c_void_p), ("make_directories", c_void_p),
        ("rename", c_void_p), ("remove", c_void_p), ("sync_directory", c_void_p),
        ("describe", c_void_p)]


class rl_allocator(Struct):
    _fields_ = [("struct_size", c_size_t), ("user_data", c_void_p), ("destroy", c_void_p),
        ("allocate", c_void_p), ("release", c_void_p), ("decommit", c_void_p)]


class rl_store(Struct):
    _fields_ = [("struct_size", c_size_t), ("user_data", c_void_p), ("destroy", c_void_p),
        ("put", c_void_p), ("claim", c_void_p), ("recover", c_void_p), ("acknowledge", c_void_p),
        ("set_aside", c_void_p), ("read_book", c_void_p), ("write_book", c_void_p),
        ("describe", c_void_p)]


class rl_exchange(Struct):
    _fields_ = [("struct_size", c_size_t), ("channel", c_uint64), ("num_out", c_size_t),
        ("out_ranks", c_void_p), ("out_data", c_void_p), ("out_sizes", c_void_p),
        ("num_in", c_size_t), ("in_ranks", c_void_p), ("in_data", c_void_p), ("in_sizes", c_void_p),
        ("received", c_void_p), ("timeout_ns", c_int64), ("lost_rank", c_int32),
        ("reserved", c_uint32)]


class rl_transport(Struct):
    _fields_ = [("struct_size", c_size_t), ("user_data", c_void_p), ("destroy", c_void_p),
        ("rank", c_uint32), ("num_ranks", c_uint32), ("exchange", c_void_p), ("abandon", c_void_p),
        ("describe", c_void_p)]


class rl_host(Struct):
    _fields_ = [("struct_size", c_size_t), ("files", c_void_p), ("allocator", c_void_p),
        ("transport", c_void_p)]


class rl_clock(Struct):
    _fields_ = [("struct_size", c_size_t), ("steady_ns", c_int64), ("unix_ns", c_int64)]


class rl_span(Struct):
    _fields_ = [("struct_size", c_size_t), ("lane", c_void_p), ("lane_len", c_size_t),
        ("name", c_void_p), ("name_len", c_size_t), ("start_ns", c_int64), ("end_ns", c_int64),
        ("arg_name", c_void_p), ("arg_name_len", c_size_t), ("arg_value", c_int64)]


# Arrays that structs point to: element type, and length as the comment has it.
ARRAYS: dict[str, dict[str, tuple[Any, Any]]] = {
    "rl_log_record": {
        "field_kinds": (c_int32, "num_fields"),
    },
    "rl_sample_view": {
        "ids": (c_int32, None),
        "logprobs": (c_float, None),
        "logprobs_sampled": (c_float, None),
        "versions": (c_uint64, None),
        "loss_mask": (c_uint8, None),
        "top_ids": (c_int32, "G * num_top"),
        "top_logprobs": (c_float, "G * num_top"),
        "mixed_kv": (c_uint8, None),
        "reward_parts": (c_double, "num_reward_parts"),
        "token_rewards": (c_double, None),
        "prompt_logprobs": (c_float, "num_prompt"),
    },
    "rl_score": {
        "parts": (c_double, "num_parts"),
        "token_rewards": (c_double, "num_token_rewards"),
    },
    "rl_reply": {
        "ids": (c_int32, "num_ids"),
    },
    "rl_feed_row": {
        "ids": (c_int32, "num_ids"),
    },
    "rl_batch_part": {
        "indices": (c_size_t, "num_indices"),
    },
    "rl_request": {
        "prompt": (c_int32, "num_prompt"),
    },
    "rl_content": {
        "ids": (c_int32, "num_ids"),
    },
    "rl_drop": {
        "ordinals": (c_uint64, "num_ordinals"),
    },
    "rl_step": {
        "advantages": (c_double, "num_advantages"),
    },
    "rl_forward": {
        "ids": (c_int32, "num_ids"),
        "rows": (c_uint64, "num_rows"),
    },
    "rl_algo_tokens": {
        "lengths": (c_int32, "num_sequences"),
        "groups": (c_uint64, "num_sequences"),
        "mask": (c_uint8, "num_tokens"),
        "truncated": (c_uint8, "num_sequences"),
        "logprobs": (c_float, "num_tokens"),
        "old_logprobs": (c_float, "num_tokens"),
        "rollout_logprobs": (c_float, "num_tokens"),
        "ref_logprobs": (c_float, "num_tokens"),
        "advantages": (c_float, "num_tokens"),
        "rewards": (c_double, "num_sequences"),
        "baselines": (c_double, "num_sequences"),
        "sample_ids": (c_uint64, "num_sequences"),
        "reward_parts": (c_double, "num_sequences * num_reward_parts"),
        "token_rewards": (c_double, "num_tokens"),
        "values": (c_float, "num_tokens"),
        "old_values": (c_float, "num_tokens"),
        "returns": (c_float, "num_tokens"),
        "entropies": (c_float, "num_tokens"),
        "weights": (c_double, "num_tokens"),
    },
    "rl_tensor_info": {
        "shape": (c_int64, "num_dims"),
        "strides": (c_int64, "num_dims"),
    },
    "rl_exchange": {
        "out_ranks": (c_uint32, "num_out"),
        "out_sizes": (c_uint64, "num_out"),
        "in_ranks": (c_uint32, "num_in"),
        "in_sizes": (c_uint64, "num_in"),
        "received": (c_uint64, "num_in"),
    },
}


# Types of functions that librl calls.
rl_log_fn = ctypes.CFUNCTYPE(None, c_void_p, POINTER(rl_log_record))
rl_destroy_fn = ctypes.CFUNCTYPE(None, c_void_p)
rl_advantage_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(rl_algo_tokens), c_void_p)
rl_loss_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(rl_algo_tokens), c_void_p, c_void_p,
    c_void_p)
rl_file_open_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p)
rl_file_create_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, c_uint32, c_void_p)
rl_file_read_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_uint64, c_void_p, c_uint64)
rl_file_write_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_uint64)
rl_file_sync_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)
rl_file_close_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_uint32)
rl_file_kind_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, c_void_p)
rl_file_found_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t)
rl_file_list_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, rl_file_found_fn,
    c_void_p)
rl_file_path_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t)
rl_file_rename_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t)
rl_file_describe_fn = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_void_p, c_size_t)
rl_allocate_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, c_uint64, c_void_p)
rl_memory_fn = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)
rl_store_found_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64)
rl_store_put_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, c_void_p, c_uint64)
rl_store_claim_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, rl_store_found_fn, c_void_p)
rl_store_recover_fn = ctypes.CFUNCTYPE(c_int32, c_void_p)
rl_store_token_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t)
rl_store_read_book_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, rl_store_found_fn, c_void_p)
rl_store_write_book_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_uint64)
rl_store_describe_fn = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_void_p, c_size_t)
rl_exchange_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(rl_exchange))
rl_abandon_fn = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_size_t)
rl_transport_describe_fn = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_void_p, c_size_t)

# Result and parameters of every function.
FUNCTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "rl_abi_version": (c_uint32, {}),
    "rl_version_string": (c_void_p, {}),
    "rl_build_info": (c_int32, {"out": c_void_p, "err": c_void_p}),
    "rl_feature": (c_int32, {"name": c_char_p, "name_len": c_size_t, "available": c_void_p,
        "reason": c_void_p, "err": c_void_p}),
    "rl_feature_name": (c_void_p, {"index": c_size_t}),
    "rl_device_info_init": (None, {"info": POINTER(rl_device_info), "size": c_size_t}),
    "rl_device_count": (c_int32, {"count": c_void_p, "err": c_void_p}),
    "rl_device_get": (c_int32, {"index": c_size_t, "info": POINTER(rl_device_info), "err":
        c_void_p}),
    "rl_status_name": (c_void_p, {"status": c_int32}),
    "rl_constant": (c_int32, {"name": c_char_p, "name_len": c_size_t, "value": c_void_p, "err":
        c_void_p}),
    "rl_bytes_data": (c_void_p, {"bytes": c_void_p}),
    "rl_bytes_size": (c_size_t, {"bytes": c_void_p}),
    "rl_bytes_release": (None, {"bytes": c_void_p}),
    "rl_error_code": (c_int32, {"error": c_void_p}),
    "rl_error_text": (c_void_p, {"error": c_void_p, "field": c_int32, "len": c_void_p}),
    "rl_error_nearest": (c_void_p, {"error": c_void_p, "index": c_size_t}),
    "rl_error_system_code": (c_int32, {"error": c_void_p}),
    "rl_error_cause": (c_void_p, {"error": c_void_p}),
    "rl_error_part": (c_void_p, {"error": c_void_p, "index": c_size_t}),
    "rl_error_release": (None, {"error": c_void_p}),
    "rl_option_info_init": (None, {"info": POINTER(rl_option_info), "size": c_size_t}),
    "rl_option_count": (c_size_t, {}),
    "rl_option_at": (c_int32, {"index": c_size_t, "info": POINTER(rl_option_info), "err":
        c_void_p}),
    "rl_option_find": (c_int32, {"key": c_char_p, "key_len": c_size_t, "info":
        POINTER(rl_option_info), "err": c_void_p}),
    "rl_option_choice": (c_int32, {"key": c_char_p, "key_len": c_size_t, "index": c_size_t, "name":
        c_void_p, "doc": c_void_p, "err": c_void_p}),
    "rl_options_create": (c_int32, {"out": c_void_p, "err": c_void_p}),
    "rl_options_clone": (c_int32, {"options": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_options_destroy": (None, {"options": c_void_p}),
    "rl_options_set_bool": (c_int32, {"options": c_void_p, "key": c_char_p, "key_len": c_size_t,
        "value": c_uint32, "err": c_void_p}),
    "rl_options_set_i64": (c_int32, {"options": c_void_p, "key": c_char_p, "key_len": c_size_t,
        "value": c_int64, "err": c_void_p}),
    "rl_options_set_u64": (c_int32, {"options": c_void_p, "key": c_char_p, "key_len": c_size_t,
        "value": c_uint64, "err": c_void_p}),
    "rl_options_set_f64": (c_int32, {"options": c_void_p, "key": c_char_p, "key_len": c_size_t,
        "value": c_double, "err": c_void_p}),
    "rl_options_set_string": (c_int32, {"options": c_void_p, "key": c_char_p, "key_len": c_size_t,
        "value": c_char_p, "value_len": c_size_t, "err": c_void_p}),
    "rl_options_set_string_list": (c_int32, {"options": c_void_p, "key": c_char_p, "key_len":
        c_size_t, "values": c_void_p, "lens": c_void_p, "count": c_size_t, "err": c_void_p}),
    "rl_options_set_i64_list": (c_int32, {"options": c_void_p, "key": c_char_p, "key_len": c_size_t,
        "values": c_void_p, "count": c_size_t, "err": c_void_p}),
    "rl_options_set_text": (c_int32, {"options": c_void_p, "key": c_char_p, "key_len": c_size_t,
        "text": c_char_p, "text_len": c_size_t, "err": c_void_p}),
    "rl_option_value_init": (None, {"value": POINTER(rl_option_value), "size": c_size_t}),
    "rl_options_get": (c_int32, {"options": c_void_p, "key": c_char_p, "key_len": c_size_t, "value":
        POINTER(rl_option_value), "text": c_void_p, "err": c_void_p}),
    "rl_options_unset": (c_int32, {"options": c_void_p, "key": c_char_p, "key_len": c_size_t, "err":
        c_void_p}),
    "rl_options_apply_preset": (c_int32, {"options": c_void_p, "name": c_char_p, "name_len":
        c_size_t, "err": c_void_p}),
    "rl_preset_count": (c_size_t, {}),
    "rl_preset_at": (c_int32, {"index": c_size_t, "name": c_void_p, "doc": c_void_p, "err":
        c_void_p}),
    "rl_options_validate": (c_int32, {"options": c_void_p, "err": c_void_p}),
    "rl_options_export": (c_int32, {"options": c_void_p, "format": c_int32, "only_changed":
        c_uint32, "out": c_void_p, "err": c_void_p}),
    "rl_options_import": (c_int32, {"options": c_void_p, "format": c_int32, "data": c_void_p,
        "size": c_size_t, "err": c_void_p}),
    "rl_options_identity": (c_int32, {"options": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_log_record_init": (None, {"record": POINTER(rl_log_record), "size": c_size_t}),
    "rl_runtime_create": (c_int32, {"header_abi": c_uint32, "options": c_void_p, "out": c_void_p,
        "err": c_void_p}),
    "rl_runtime_destroy": (None, {"runtime": c_void_p}),
    "rl_runtime_options": (c_int32, {"runtime": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_runtime_set_log": (c_int32, {"runtime": c_void_p, "fn": rl_log_fn, "user_data": c_void_p,
        "destroy": rl_destroy_fn, "err": c_void_p}),
    "rl_runtime_info_init": (None, {"info": POINTER(rl_runtime_info), "size": c_size_t}),
    "rl_runtime_get_info": (c_int32, {"runtime": c_void_p, "info": POINTER(rl_runtime_info), "err":
        c_void_p}),
    "rl_runtime_create_rank": (c_int32, {"runtime": c_void_p, "rank": c_uint32, "out": c_void_p,
        "err": c_void_p}),
    "rl_plan_info_init": (None, {"info": POINTER(rl_plan_info), "size": c_size_t}),
    "rl_plan_item_init": (None, {"item": POINTER(rl_plan_item), "size": c_size_t}),
    "rl_plan_create": (c_int32, {"options": c_void_p, "use": c_int32, "out": c_void_p, "err":
        c_void_p}),
    "rl_plan_release": (None, {"plan": c_void_p}),
    "rl_plan_options": (c_int32, {"plan": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_plan_get_info": (c_int32, {"plan": c_void_p, "info": POINTER(rl_plan_info), "err":
        c_void_p}),
    "rl_plan_at": (c_int32, {"plan": c_void_p, "index": c_size_t, "item": POINTER(rl_plan_item),
        "err": c_void_p}),
    "rl_plan_count": (c_size_t, {"plan": c_void_p}),
    "rl_plan_text": (c_int32, {"plan": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_knob_init": (None, {"knob": POINTER(rl_knob), "size": c_size_t}),
    "rl_plan_knob_at": (c_int32, {"plan": c_void_p, "index": c_size_t, "knob": POINTER(rl_knob),
        "err": c_void_p}),
    "rl_plan_knob_count": (c_size_t, {"plan": c_void_p}),
    "rl_error_knob_at": (c_int32, {"error": c_void_p, "index": c_size_t, "knob": POINTER(rl_knob),
        "err": c_void_p}),
    "rl_error_knob_count": (c_size_t, {"error": c_void_p}),
    "rl_machine_init": (None, {"machine": POINTER(rl_machine), "size": c_size_t}),
    "rl_runtime_probe": (c_int32, {"runtime": c_void_p, "machine": POINTER(rl_machine), "err":
        c_void_p}),
    "rl_step_time_init": (None, {"time": POINTER(rl_step_time), "size": c_size_t}),
    "rl_plan_fit": (c_int32, {"runtime": c_void_p, "options": c_void_p, "use": c_int32, "machine":
        POINTER(rl_machine), "effect": c_int32, "time": POINTER(rl_step_time), "out": c_void_p,
        "err": c_void_p}),
    "rl_model_info_init": (None, {"info": POINTER(rl_model_info), "size": c_size_t}),
    "rl_model_open": (c_int32, {"runtime": c_void_p, "options": c_void_p, "use": c_int32, "out":
        c_void_p, "err": c_void_p}),
    "rl_model_destroy": (None, {"model": c_void_p}),
    "rl_model_options": (c_int32, {"model": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_model_save": (c_int32, {"model": c_void_p, "dir": c_char_p, "dir_len": c_size_t, "dtype":
        c_int32, "flags": c_uint64, "err": c_void_p}),
    "rl_model_encode": (c_int32, {"model": c_void_p, "text": c_char_p, "text_len": c_size_t,
        "flags": c_uint64, "ids": c_void_p, "err": c_void_p}),
    "rl_model_decode": (c_int32, {"model": c_void_p, "ids": c_void_p, "num_ids": c_size_t, "flags":
        c_uint64, "text": c_void_p, "err": c_void_p}),
    "rl_model_encode_chat": (c_int32, {"model": c_void_p, "chat": c_char_p, "chat_len": c_size_t,
        "flags": c_uint64, "ids": c_void_p, "err": c_void_p}),
    "rl_model_render_chat": (c_int32, {"model": c_void_p, "chat": c_char_p, "chat_len": c_size_t,
        "flags": c_uint64, "text": c_void_p, "err": c_void_p}),
    "rl_model_get_info": (c_int32, {"model": c_void_p, "info": POINTER(rl_model_info), "err":
        c_void_p}),
    "rl_model_eos_ids": (c_int32, {"model": c_void_p, "ids": c_void_p, "err": c_void_p}),
    "rl_model_version": (c_int32, {"model": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_model_digest": (c_int32, {"model": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_sample_view_init": (None, {"view": POINTER(rl_sample_view), "size": c_size_t}),
    "rl_score_init": (None, {"score": POINTER(rl_score), "size": c_size_t}),
    "rl_event_view_init": (None, {"view": POINTER(rl_event_view), "size": c_size_t}),
    "rl_event_kind": (c_int32, {"event": c_void_p}),
    "rl_event_get_view": (c_int32, {"event": c_void_p, "view": POINTER(rl_event_view), "err":
        c_void_p}),
    "rl_event_sample": (c_int32, {"event": c_void_p, "index": c_size_t, "view":
        POINTER(rl_sample_view), "err": c_void_p}),
    "rl_event_metric": (c_int32, {"event": c_void_p, "index": c_size_t, "name": c_void_p, "value":
        c_void_p, "err": c_void_p}),
    "rl_event_metric_named": (c_int32, {"event": c_void_p, "name": c_char_p, "name_len": c_size_t,
        "value": c_void_p, "err": c_void_p}),
    "rl_event_release": (None, {"event": c_void_p}),
    "rl_event_queue_create": (c_int32, {"out": c_void_p, "err": c_void_p}),
    "rl_event_queue_next": (c_int32, {"queue": c_void_p, "timeout_ns": c_int64, "out": c_void_p,
        "err": c_void_p}),
    "rl_event_queue_interrupt": (c_int32, {"queue": c_void_p, "err": c_void_p}),
    "rl_event_queue_fd": (c_int32, {"queue": c_void_p}),
    "rl_event_queue_size": (c_size_t, {"queue": c_void_p}),
    "rl_event_queue_release": (None, {"queue": c_void_p}),
    "rl_pipeline_stats_init": (None, {"stats": POINTER(rl_pipeline_stats), "size": c_size_t}),
    "rl_pipeline_create": (c_int32, {"model": c_void_p, "options": c_void_p, "out": c_void_p, "err":
        c_void_p}),
    "rl_pipeline_destroy": (None, {"pipeline": c_void_p}),
    "rl_pipeline_start": (c_int32, {"pipeline": c_void_p, "err": c_void_p}),
    "rl_pipeline_next": (c_int32, {"pipeline": c_void_p, "timeout_ns": c_int64, "out": c_void_p,
        "err": c_void_p}),
    "rl_pipeline_interrupt": (c_int32, {"pipeline": c_void_p, "err": c_void_p}),
    "rl_pipeline_queue": (c_int32, {"pipeline": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_pipeline_score": (c_int32, {"pipeline": c_void_p, "scores": POINTER(rl_score), "count":
        c_size_t, "results": c_void_p, "err": c_void_p}),
    "rl_reply_init": (None, {"reply": POINTER(rl_reply), "size": c_size_t}),
    "rl_pipeline_reply": (c_int32, {"pipeline": c_void_p, "replies": POINTER(rl_reply), "count":
        c_size_t, "results": c_void_p, "err": c_void_p}),
    "rl_feed_row_init": (None, {"row": POINTER(rl_feed_row), "size": c_size_t}),
    "rl_pipeline_feed": (c_int32, {"pipeline": c_void_p, "row": POINTER(rl_feed_row), "timeout_ns":
        c_int64, "err": c_void_p}),
    "rl_pipeline_finish_feed": (c_int32, {"pipeline": c_void_p, "err": c_void_p}),
    "rl_pipeline_pause": (c_int32, {"pipeline": c_void_p, "err": c_void_p}),
    "rl_pipeline_unpause": (c_int32, {"pipeline": c_void_p, "err": c_void_p}),
    "rl_pipeline_stop": (c_int32, {"pipeline": c_void_p, "timeout_ns": c_int64, "err": c_void_p}),
    "rl_pipeline_checkpoint": (c_int32, {"pipeline": c_void_p, "timeout_ns": c_int64, "path":
        c_void_p, "err": c_void_p}),
    "rl_pipeline_save_critic": (c_int32, {"pipeline": c_void_p, "dir": c_char_p, "dir_len":
        c_size_t, "dtype": c_int32, "flags": c_uint64, "err": c_void_p}),
    "rl_pipeline_evaluate": (c_int32, {"pipeline": c_void_p, "err": c_void_p}),
    "rl_pipeline_set_options": (c_int32, {"pipeline": c_void_p, "options": c_void_p, "err":
        c_void_p}),
    "rl_pipeline_options": (c_int32, {"pipeline": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_pipeline_get_stats": (c_int32, {"pipeline": c_void_p, "stats": POINTER(rl_pipeline_stats),
        "err": c_void_p}),
    "rl_pipeline_plan": (c_int32, {"pipeline": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_pipeline_close_result": (c_int32, {"pipeline": c_void_p, "err": c_void_p}),
    "rl_pipeline_resumed_from": (c_int32, {"pipeline": c_void_p, "path": c_void_p, "err":
        c_void_p}),
    "rl_pipeline_write_report": (c_int32, {"pipeline": c_void_p, "profiler": c_void_p, "path":
        c_char_p, "path_len": c_size_t, "err": c_void_p}),
    "rl_batch_create": (c_int32, {"samples": POINTER(rl_sample_view), "num_samples": c_size_t,
        "out": c_void_p, "err": c_void_p}),
    "rl_batch_part_init": (None, {"part": POINTER(rl_batch_part), "size": c_size_t}),
    "rl_batch_select": (c_int32, {"parts": POINTER(rl_batch_part), "num_parts": c_size_t, "out":
        c_void_p, "err": c_void_p}),
    "rl_batch_export": (c_int32, {"batch": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_batch_import": (c_int32, {"data": c_void_p, "size": c_size_t, "out": c_void_p, "err":
        c_void_p}),
    "rl_batch_count": (c_size_t, {"batch": c_void_p}),
    "rl_batch_sample": (c_int32, {"batch": c_void_p, "index": c_size_t, "view":
        POINTER(rl_sample_view), "err": c_void_p}),
    "rl_batch_score": (c_int32, {"batch": c_void_p, "first": c_size_t, "scores": POINTER(rl_score),
        "count": c_size_t, "err": c_void_p}),
    "rl_batch_release": (None, {"batch": c_void_p}),
    "rl_request_init": (None, {"request": POINTER(rl_request), "size": c_size_t}),
    "rl_engine_stats_init": (None, {"stats": POINTER(rl_engine_stats), "size": c_size_t}),
    "rl_engine_create": (c_int32, {"model": c_void_p, "options": c_void_p, "out": c_void_p, "err":
        c_void_p}),
    "rl_engine_destroy": (None, {"engine": c_void_p}),
    "rl_engine_submit": (c_int32, {"engine": c_void_p, "request": POINTER(rl_request),
        "first_sample_id": c_void_p, "err": c_void_p}),
    "rl_engine_step": (c_int32, {"engine": c_void_p, "err": c_void_p}),
    "rl_engine_run": (c_int32, {"engine": c_void_p, "err": c_void_p}),
    "rl_engine_pause": (c_int32, {"engine": c_void_p, "err": c_void_p}),
    "rl_engine_unpause": (c_int32, {"engine": c_void_p, "err": c_void_p}),
    "rl_engine_drain": (c_int32, {"engine": c_void_p, "timeout_ns": c_int64, "err": c_void_p}),
    "rl_engine_set_queue": (c_int32, {"engine": c_void_p, "queue": c_void_p, "source": c_uint64,
        "err": c_void_p}),
    "rl_engine_options": (c_int32, {"engine": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_engine_take": (c_int32, {"engine": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_engine_abort": (c_int32, {"engine": c_void_p, "flags": c_uint64, "num_spared": c_void_p,
        "err": c_void_p}),
    "rl_engine_abort_request": (c_int32, {"engine": c_void_p, "sample_id": c_uint64, "err":
        c_void_p}),
    "rl_engine_sleep": (c_int32, {"engine": c_void_p, "level": c_int32, "err": c_void_p}),
    "rl_engine_wake": (c_int32, {"engine": c_void_p, "err": c_void_p}),
    "rl_engine_get_stats": (c_int32, {"engine": c_void_p, "replica": c_int64, "period": c_int32,
        "stats": POINTER(rl_engine_stats), "err": c_void_p}),
    "rl_conversation_info_init": (None, {"info": POINTER(rl_conversation_info), "size": c_size_t}),
    "rl_content_init": (None, {"content": POINTER(rl_content), "size": c_size_t}),
    "rl_turn_init": (None, {"turn": POINTER(rl_turn), "size": c_size_t}),
    "rl_conversation_create": (c_int32, {"engine": c_void_p, "prompt": POINTER(rl_content), "out":
        c_void_p, "err": c_void_p}),
    "rl_conversation_fork": (c_int32, {"conversation": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_conversation_destroy": (None, {"conversation": c_void_p}),
    "rl_conversation_append": (c_int32, {"conversation": c_void_p, "content": POINTER(rl_content),
        "err": c_void_p}),
    "rl_conversation_generate": (c_int32, {"conversation": c_void_p, "turn": POINTER(rl_turn),
        "err": c_void_p}),
    "rl_conversation_get_info": (c_int32, {"conversation": c_void_p, "info":
        POINTER(rl_conversation_info), "err": c_void_p}),
    "rl_conversation_sample": (c_int32, {"conversation": c_void_p, "out": c_void_p, "err":
        c_void_p}),
    "rl_buffer_create": (c_int32, {"options": c_void_p, "max_samples": c_uint64, "out": c_void_p,
        "err": c_void_p}),
    "rl_buffer_destroy": (None, {"buffer": c_void_p}),
    "rl_buffer_put": (c_int32, {"buffer": c_void_p, "sample": POINTER(rl_sample_view), "err":
        c_void_p}),
    "rl_buffer_put_batch": (c_int32, {"buffer": c_void_p, "batch": c_void_p, "err": c_void_p}),
    "rl_take_init": (None, {"take": POINTER(rl_take), "size": c_size_t}),
    "rl_buffer_take": (c_int32, {"buffer": c_void_p, "take": POINTER(rl_take), "timeout_ns":
        c_int64, "out": c_void_p, "err": c_void_p}),
    "rl_buffer_acknowledge": (c_int32, {"buffer": c_void_p, "step": c_uint64, "err": c_void_p}),
    "rl_buffer_resume": (c_int32, {"buffer": c_void_p, "step": c_uint64, "err": c_void_p}),
    "rl_drop_init": (None, {"drop": POINTER(rl_drop), "size": c_size_t}),
    "rl_buffer_drop": (c_int32, {"buffer": c_void_p, "drop": POINTER(rl_drop), "num_samples":
        c_void_p, "err": c_void_p}),
    "rl_buffer_set_queue": (c_int32, {"buffer": c_void_p, "queue": c_void_p, "source": c_uint64,
        "err": c_void_p}),
    "rl_buffer_options": (c_int32, {"buffer": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_buffer_stats_init": (None, {"stats": POINTER(rl_buffer_stats), "size": c_size_t}),
    "rl_buffer_get_stats": (c_int32, {"buffer": c_void_p, "stats": POINTER(rl_buffer_stats), "err":
        c_void_p}),
    "rl_buffer_save": (c_int32, {"buffer": c_void_p, "path": c_char_p, "path_len": c_size_t,
        "model": c_void_p, "flags": c_uint64, "err": c_void_p}),
    "rl_buffer_load": (c_int32, {"buffer": c_void_p, "path": c_char_p, "path_len": c_size_t,
        "model": c_void_p, "num_samples": c_void_p, "err": c_void_p}),
    "rl_buffer_file_info_init": (None, {"info": POINTER(rl_buffer_file_info), "size": c_size_t}),
    "rl_buffer_get_file_info": (c_int32, {"path": c_char_p, "path_len": c_size_t, "info":
        POINTER(rl_buffer_file_info), "err": c_void_p}),
    "rl_trainer_create": (c_int32, {"model": c_void_p, "options": c_void_p, "out": c_void_p, "err":
        c_void_p}),
    "rl_trainer_destroy": (None, {"trainer": c_void_p}),
    "rl_step_init": (None, {"step": POINTER(rl_step), "size": c_size_t}),
    "rl_trainer_step": (c_int32, {"trainer": c_void_p, "step": POINTER(rl_step), "out": c_void_p,
        "err": c_void_p}),
    "rl_trainer_backward": (c_int32, {"trainer": c_void_p, "step": POINTER(rl_step), "err":
        c_void_p}),
    "rl_trainer_apply": (c_int32, {"trainer": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_trainer_cancel": (c_int32, {"trainer": c_void_p, "err": c_void_p}),
    "rl_trainer_set_queue": (c_int32, {"trainer": c_void_p, "queue": c_void_p, "source": c_uint64,
        "err": c_void_p}),
    "rl_trainer_options": (c_int32, {"trainer": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_trainer_set_options": (c_int32, {"trainer": c_void_p, "options": c_void_p, "err":
        c_void_p}),
    "rl_checkpoint_init": (None, {"checkpoint": POINTER(rl_checkpoint), "size": c_size_t}),
    "rl_trainer_save": (c_int32, {"trainer": c_void_p, "checkpoint": POINTER(rl_checkpoint), "path":
        c_void_p, "err": c_void_p}),
    "rl_trainer_load": (c_int32, {"trainer": c_void_p, "path": c_char_p, "path_len": c_size_t,
        "state": c_void_p, "err": c_void_p}),
    "rl_forward_init": (None, {"forward": POINTER(rl_forward), "size": c_size_t}),
    "rl_trainer_forward": (c_int32, {"trainer": c_void_p, "forward": POINTER(rl_forward), "out":
        c_void_p, "err": c_void_p}),
    "rl_model_forward": (c_int32, {"model": c_void_p, "forward": POINTER(rl_forward), "out":
        c_void_p, "err": c_void_p}),
    "rl_trainer_save_critic": (c_int32, {"trainer": c_void_p, "dir": c_char_p, "dir_len": c_size_t,
        "dtype": c_int32, "flags": c_uint64, "err": c_void_p}),
    "rl_trainer_publish": (c_int32, {"trainer": c_void_p, "version": c_void_p, "err": c_void_p}),
    "rl_trainer_sleep": (c_int32, {"trainer": c_void_p, "err": c_void_p}),
    "rl_trainer_wake": (c_int32, {"trainer": c_void_p, "err": c_void_p}),
    "rl_algo_tokens_init": (None, {"tokens": POINTER(rl_algo_tokens), "size": c_size_t}),
    "rl_algo_loss_init": (None, {"loss": POINTER(rl_algo_loss), "size": c_size_t}),
    "rl_algo_advantages": (c_int32, {"options": c_void_p, "tokens": POINTER(rl_algo_tokens),
        "advantages": c_void_p, "num_advantages": c_size_t, "returns": c_void_p, "num_returns":
        c_size_t, "err": c_void_p}),
    "rl_algo_policy_loss": (c_int32, {"options": c_void_p, "tokens": POINTER(rl_algo_tokens),
        "gradient": c_void_p, "num_gradient": c_size_t, "out": POINTER(rl_algo_loss), "err":
        c_void_p}),
    "rl_algo_value_loss": (c_int32, {"options": c_void_p, "tokens": POINTER(rl_algo_tokens),
        "gradient": c_void_p, "num_gradient": c_size_t, "out": POINTER(rl_algo_loss), "err":
        c_void_p}),
    "rl_algo_entropy_loss": (c_int32, {"options": c_void_p, "tokens": POINTER(rl_algo_tokens),
        "gradient": c_void_p, "num_gradient": c_size_t, "out": POINTER(rl_algo_loss), "err":
        c_void_p}),
    "rl_algo_packing_init": (None, {"packing": POINTER(rl_algo_packing), "size": c_size_t}),
    "rl_algo_pack": (c_int32, {"options": c_void_p, "lengths": c_void_p, "num_lengths": c_size_t,
        "packing": POINTER(rl_algo_packing), "bins": c_void_p, "num_bins": c_size_t, "count":
        c_void_p, "err": c_void_p}),
    "rl_algo_corrections": (c_int32, {"options": c_void_p, "tokens": POINTER(rl_algo_tokens),
        "weights": c_void_p, "num_weights": c_size_t, "keep": c_void_p, "num_keep": c_size_t, "err":
        c_void_p}),
    "rl_algo_weights": (c_int32, {"options": c_void_p, "tokens": POINTER(rl_algo_tokens), "weights":
        c_void_p, "num_weights": c_size_t, "err": c_void_p}),
    "rl_algo_kl": (c_int32, {"options": c_void_p, "tokens": POINTER(rl_algo_tokens), "values":
        c_void_p, "num_values": c_size_t, "gradient": c_void_p, "num_gradient": c_size_t, "err":
        c_void_p}),
    "rl_pipeline_set_advantage": (c_int32, {"pipeline": c_void_p, "fn": rl_advantage_fn,
        "user_data": c_void_p, "destroy": rl_destroy_fn, "err": c_void_p}),
    "rl_pipeline_set_loss": (c_int32, {"pipeline": c_void_p, "fn": rl_loss_fn, "user_data":
        c_void_p, "destroy": rl_destroy_fn, "err": c_void_p}),
    "rl_trainer_set_advantage": (c_int32, {"trainer": c_void_p, "fn": rl_advantage_fn, "user_data":
        c_void_p, "destroy": rl_destroy_fn, "err": c_void_p}),
    "rl_trainer_set_loss": (c_int32, {"trainer": c_void_p, "fn": rl_loss_fn, "user_data": c_void_p,
        "destroy": rl_destroy_fn, "err": c_void_p}),
    "rl_tensor_request_init": (None, {"request": POINTER(rl_tensor_request), "size": c_size_t}),
    "rl_tensor_info_init": (None, {"info": POINTER(rl_tensor_info), "size": c_size_t}),
    "rl_tensor_get_info": (c_int32, {"tensor": c_void_p, "info": POINTER(rl_tensor_info), "err":
        c_void_p}),
    "rl_tensor_retain": (c_int32, {"tensor": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_tensor_release": (None, {"tensor": c_void_p}),
    "rl_tensor_import_dlpack": (c_int32, {"runtime": c_void_p, "managed": c_void_p,
        "producer_stream": c_void_p, "flags": c_uint64, "out": c_void_p, "err": c_void_p}),
    "rl_tensor_export_dlpack": (c_int32, {"tensor": c_void_p, "consumer_stream": c_void_p, "out":
        c_void_p, "err": c_void_p}),
    "rl_model_weight_count": (c_size_t, {"model": c_void_p}),
    "rl_model_weight_name": (c_int32, {"model": c_void_p, "index": c_size_t, "name": c_void_p,
        "err": c_void_p}),
    "rl_model_weight": (c_int32, {"model": c_void_p, "name": c_char_p, "name_len": c_size_t,
        "request": POINTER(rl_tensor_request), "out": c_void_p, "err": c_void_p}),
    "rl_trainer_gradient": (c_int32, {"trainer": c_void_p, "name": c_char_p, "name_len": c_size_t,
        "request": POINTER(rl_tensor_request), "out": c_void_p, "err": c_void_p}),
    "rl_weight_init": (None, {"weight": POINTER(rl_weight), "size": c_size_t}),
    "rl_model_set_weights": (c_int32, {"model": c_void_p, "weights": POINTER(rl_weight),
        "num_weights": c_size_t, "producer_stream": c_void_p, "as_version": c_uint64, "version":
        c_void_p, "err": c_void_p}),
    "rl_batch_tensor": (c_int32, {"batch": c_void_p, "index": c_size_t, "array": c_int32, "request":
        POINTER(rl_tensor_request), "out": c_void_p, "err": c_void_p}),
    "rl_event_tensor": (c_int32, {"event": c_void_p, "index": c_size_t, "array": c_int32, "request":
        POINTER(rl_tensor_request), "out": c_void_p, "err": c_void_p}),
    "rl_profiler_create": (c_int32, {"runtime": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_profiler_destroy": (None, {"profiler": c_void_p}),
    "rl_profiler_write_trace": (c_int32, {"profiler": c_void_p, "path": c_char_p, "path_len":
        c_size_t, "err": c_void_p}),
    "rl_profiler_count": (c_int32, {"profiler": c_void_p, "num_records": c_void_p, "num_dropped":
        c_void_p, "err": c_void_p}),
    "rl_profiler_summary": (c_int32, {"profiler": c_void_p, "out": c_void_p, "err": c_void_p}),
    "rl_files_init": (None, {"files": POINTER(rl_files), "size": c_size_t}),
    "rl_allocator_init": (None, {"allocator": POINTER(rl_allocator), "size": c_size_t}),
    "rl_store_init": (None, {"store": POINTER(rl_store), "size": c_size_t}),
    "rl_buffer_create_stored": (c_int32, {"options": c_void_p, "max_samples": c_uint64, "store":
        POINTER(rl_store), "out": c_void_p, "err": c_void_p}),
    "rl_pipeline_create_stored": (c_int32, {"model": c_void_p, "options": c_void_p, "store":
        POINTER(rl_store), "out": c_void_p, "err": c_void_p}),
    "rl_exchange_init": (None, {"exchange": POINTER(rl_exchange), "size": c_size_t}),
    "rl_transport_init": (None, {"transport": POINTER(rl_transport), "size": c_size_t}),
    "rl_host_init": (None, {"host": POINTER(rl_host), "size": c_size_t}),
    "rl_runtime_create_hosted": (c_int32, {"header_abi": c_uint32, "options": c_void_p, "host":
        POINTER(rl_host), "out": c_void_p, "err": c_void_p}),
    "rl_plan_create_hosted": (c_int32, {"runtime": c_void_p, "options": c_void_p, "use": c_int32,
        "out": c_void_p, "err": c_void_p}),
    "rl_buffer_set_runtime": (c_int32, {"buffer": c_void_p, "runtime": c_void_p, "err": c_void_p}),
    "rl_buffer_get_hosted_file_info": (c_int32, {"runtime": c_void_p, "path": c_char_p, "path_len":
        c_size_t, "info": POINTER(rl_buffer_file_info), "err": c_void_p}),
    "rl_clock_init": (None, {"clock": POINTER(rl_clock), "size": c_size_t}),
    "rl_runtime_get_clock": (c_int32, {"runtime": c_void_p, "clock": POINTER(rl_clock), "err":
        c_void_p}),
    "rl_span_init": (None, {"span": POINTER(rl_span), "size": c_size_t}),
    "rl_runtime_trace_span": (c_int32, {"runtime": c_void_p, "span": POINTER(rl_span), "err":
        c_void_p}),
}

# The function that ends a handle.
ENDS = {
    "rl_batch": "rl_batch_release",
    "rl_buffer": "rl_buffer_destroy",
    "rl_bytes": "rl_bytes_release",
    "rl_conversation": "rl_conversation_destroy",
    "rl_engine": "rl_engine_destroy",
    "rl_error": "rl_error_release",
    "rl_event": "rl_event_release",
    "rl_event_queue": "rl_event_queue_release",
    "rl_model": "rl_model_destroy",
    "rl_options": "rl_options_destroy",
    "rl_pipeline": "rl_pipeline_destroy",
    "rl_plan": "rl_plan_release",
    "rl_profiler": "rl_profiler_destroy",
    "rl_runtime": "rl_runtime_destroy",
    "rl_tensor": "rl_tensor_release",
    "rl_trainer": "rl_trainer_destroy",
}
