/* Layout of the public structs. A struct grows at its end only: the offsets and sizes here are
 * those of the first release with the present soname and never change under it, so that programs
 * compiled against that release continue to work. */
#include <stddef.h>

#include "rl.h"

#define RL_ASSERT(name, condition) typedef char rl_assert_##name[(condition) ? 1 : -1]
#define RL_AT(type, field, offset) RL_ASSERT(type##_##field, offsetof(type, field) == (offset))
#define RL_AT_LEAST(type, size) RL_ASSERT(type##_size, sizeof(type) >= (size))

RL_ASSERT(pointers, sizeof(void*) == 8);
RL_ASSERT(sizes, sizeof(size_t) == 8);

RL_AT(rl_option_info, struct_size, 0);
RL_AT(rl_option_info, key, 8);
RL_AT(rl_option_info, unsupported_reason, 56);
RL_AT(rl_option_info, type, 64);
RL_AT(rl_option_info, when, 68);
RL_AT(rl_option_info, flags, 72);
RL_AT(rl_option_info, min_i64, 80);
RL_AT(rl_option_info, max_u64, 104);
RL_AT(rl_option_info, max_f64, 120);
RL_AT(rl_option_info, num_choices, 128);
RL_AT_LEAST(rl_option_info, 136);

RL_AT(rl_option_value, struct_size, 0);
RL_AT(rl_option_value, type, 8);
RL_AT(rl_option_value, is_default, 12);
RL_AT(rl_option_value, i64, 16);
RL_AT(rl_option_value, num_items, 40);
RL_AT_LEAST(rl_option_value, 48);

RL_AT(rl_device_info, struct_size, 0);
RL_AT(rl_device_info, name, 8);
RL_AT(rl_device_info, memory_bytes, 16);
RL_AT(rl_device_info, architecture_major, 24);
RL_AT(rl_device_info, architecture_minor, 28);
RL_AT_LEAST(rl_device_info, 32);

RL_AT(rl_runtime_info, struct_size, 0);
RL_AT(rl_runtime_info, reserved_bytes, 8);
RL_AT(rl_runtime_info, threads, 16);
RL_AT(rl_runtime_info, rank, 24);
RL_AT(rl_runtime_info, num_ranks, 28);
RL_AT_LEAST(rl_runtime_info, 32);

RL_AT(rl_score, struct_size, 0);
RL_AT(rl_score, sample_id, 8);
RL_AT(rl_score, reward, 16);
RL_AT(rl_score, parts, 24);
RL_AT(rl_score, failure, 40);
RL_AT(rl_score, token_rewards, 56);
RL_AT_LEAST(rl_score, 72);

RL_AT(rl_reply, struct_size, 0);
RL_AT(rl_reply, sample_id, 8);
RL_AT(rl_reply, turn, 16);
RL_AT(rl_reply, ids, 24);
RL_AT(rl_reply, text, 40);
RL_AT(rl_reply, flags, 56);
RL_AT(rl_reply, finish, 64);
RL_AT_LEAST(rl_reply, 72);

RL_AT(rl_feed_row, struct_size, 0);
RL_AT(rl_feed_row, json, 8);
RL_AT(rl_feed_row, ids, 24);
RL_AT(rl_feed_row, tag, 40);
RL_AT_LEAST(rl_feed_row, 56);

RL_AT(rl_plan_info, struct_size, 0);
RL_AT(rl_plan_info, total_bytes, 8);
RL_AT(rl_plan_info, budget_bytes, 32);
RL_AT(rl_plan_info, max_model_len, 40);
RL_AT(rl_plan_info, threads, 64);
RL_AT(rl_plan_info, dtype, 72);
RL_AT(rl_plan_info, least_bytes, 80);
RL_AT_LEAST(rl_plan_info, 88);

RL_AT(rl_plan_item, struct_size, 0);
RL_AT(rl_plan_item, name, 8);
RL_AT(rl_plan_item, bytes, 24);
RL_AT(rl_plan_item, kind, 32);
RL_AT(rl_plan_item, device, 36);
RL_AT(rl_plan_item, device_index, 40);
RL_AT(rl_plan_item, role, 48);
RL_AT_LEAST(rl_plan_item, 56);

RL_AT(rl_knob, struct_size, 0);
RL_AT(rl_knob, key, 8);
RL_AT(rl_knob, value, 16);
RL_AT(rl_knob, proposed, 24);
RL_AT(rl_knob, saved_bytes, 32);
RL_AT(rl_knob, time_ratio, 40);
RL_AT(rl_knob, effect, 48);
RL_AT_LEAST(rl_knob, 56);

RL_AT(rl_machine, struct_size, 0);
RL_AT(rl_machine, f32_flops, 8);
RL_AT(rl_machine, bf16_flops, 16);
RL_AT(rl_machine, read_bytes_per_s, 24);
RL_AT(rl_machine, copy_bytes_per_s, 32);
RL_AT(rl_machine, threads, 40);
RL_AT_LEAST(rl_machine, 48);

RL_AT(rl_step_time, struct_size, 0);
RL_AT(rl_step_time, total_s, 8);
RL_AT(rl_step_time, rollout_s, 16);
RL_AT(rl_step_time, logprob_s, 24);
RL_AT(rl_step_time, train_s, 32);
RL_AT(rl_step_time, update_s, 40);
RL_AT(rl_step_time, publish_s, 48);
RL_AT_LEAST(rl_step_time, 56);

RL_AT(rl_model_info, struct_size, 0);
RL_AT(rl_model_info, family, 8);
RL_AT(rl_model_info, vocab, 16);
RL_AT(rl_model_info, bos_id, 80);
RL_AT(rl_model_info, num_eos_ids, 96);
RL_AT(rl_model_info, dtype, 104);
RL_AT(rl_model_info, tied_head, 112);
RL_AT_LEAST(rl_model_info, 120);

RL_AT(rl_sample_view, struct_size, 0);
RL_AT(rl_sample_view, sample_id, 8);
RL_AT(rl_sample_view, slot, 24);
RL_AT(rl_sample_view, data_row, 32);
RL_AT(rl_sample_view, purpose, 40);
RL_AT(rl_sample_view, ids, 48);
RL_AT(rl_sample_view, num_prompt, 64);
RL_AT(rl_sample_view, logprobs, 72);
RL_AT(rl_sample_view, loss_mask, 96);
RL_AT(rl_sample_view, reward, 104);
RL_AT(rl_sample_view, temperature, 112);
RL_AT(rl_sample_view, scored, 116);
RL_AT(rl_sample_view, tag, 120);
RL_AT(rl_sample_view, prompt_text, 136);
RL_AT(rl_sample_view, text, 152);
RL_AT(rl_sample_view, finished_ns, 184);
RL_AT_LEAST(rl_sample_view, 272);
RL_AT(rl_sample_view, num_top, 192);
RL_AT(rl_sample_view, num_aborts, 216);
RL_AT(rl_sample_view, token_rewards, 256);
RL_AT(rl_sample_view, prompt_logprobs, 264);

RL_AT(rl_event_view, struct_size, 0);
RL_AT(rl_event_view, kind, 8);
RL_AT(rl_event_view, reason, 12);
RL_AT(rl_event_view, step, 16);
RL_AT(rl_event_view, data_row, 40);
RL_AT(rl_event_view, value, 48);
RL_AT(rl_event_view, num_metrics, 64);
RL_AT(rl_event_view, text_len, 80);
RL_AT(rl_event_view, source, 96);
RL_AT_LEAST(rl_event_view, 104);
RL_AT(rl_event_view, purpose, 88);

RL_AT(rl_pipeline_stats, struct_size, 0);
RL_AT(rl_pipeline_stats, state, 8);
RL_AT(rl_pipeline_stats, step, 16);
RL_AT(rl_pipeline_stats, unscored, 32);
RL_AT(rl_pipeline_stats, attempts_started, 40);
RL_AT(rl_pipeline_stats, tokens_generated, 72);
RL_AT(rl_pipeline_stats, prompts_drawn, 104);
RL_AT(rl_pipeline_stats, late_scores, 136);
RL_AT(rl_pipeline_stats, nonfinite_scores, 160);
RL_AT(rl_pipeline_stats, feed_capacity, 176);
RL_AT(rl_pipeline_stats, unreplied, 184);
RL_AT_LEAST(rl_pipeline_stats, 192);

RL_AT(rl_request, struct_size, 0);
RL_AT(rl_request, prompt, 8);
RL_AT(rl_request, num_samples, 24);
RL_AT(rl_request, sampling, 32);
RL_AT(rl_request, priority, 40);
RL_AT(rl_request, tag, 56);
RL_AT(rl_request, ordinal, 72);
RL_AT(rl_request, sample_id, 80);
RL_AT(rl_request, slot, 88);
RL_AT_LEAST(rl_request, 96);

RL_AT(rl_engine_stats, struct_size, 0);
RL_AT(rl_engine_stats, running, 8);
RL_AT(rl_engine_stats, blocks_total, 32);
RL_AT(rl_engine_stats, forwards, 56);
RL_AT(rl_engine_stats, decode_ns, 80);
RL_AT_LEAST(rl_engine_stats, 224);
RL_AT(rl_engine_stats, started, 88);

RL_AT(rl_batch_part, struct_size, 0);
RL_AT(rl_batch_part, batch, 8);
RL_AT(rl_batch_part, indices, 16);
RL_AT(rl_batch_part, num_indices, 24);
RL_AT_LEAST(rl_batch_part, 32);

RL_AT(rl_take, struct_size, 0);
RL_AT(rl_take, min_groups, 8);
RL_AT(rl_take, max_groups, 16);
RL_AT(rl_take, version, 24);
RL_AT(rl_take, step, 32);
RL_AT_LEAST(rl_take, 40);

RL_AT(rl_drop, struct_size, 0);
RL_AT(rl_drop, ordinals, 8);
RL_AT(rl_drop, below_version, 24);
RL_AT(rl_drop, incomplete_only, 32);
RL_AT_LEAST(rl_drop, 40);

RL_AT(rl_buffer_stats, struct_size, 0);
RL_AT(rl_buffer_stats, samples, 8);
RL_AT(rl_buffer_stats, put, 32);
RL_AT(rl_buffer_stats, stale, 56);
RL_AT(rl_buffer_stats, stored, 64);
RL_AT(rl_buffer_stats, damaged_groups, 88);
RL_AT(rl_buffer_stats, spilled_groups, 96);
RL_AT_LEAST(rl_buffer_stats, 104);

RL_AT(rl_buffer_file_info, struct_size, 0);
RL_AT(rl_buffer_file_info, step, 8);
RL_AT(rl_buffer_file_info, options_identity, 32);
RL_AT(rl_buffer_file_info, vocab, 56);
RL_AT(rl_buffer_file_info, has_model, 64);
RL_AT_LEAST(rl_buffer_file_info, 72);

RL_AT(rl_conversation_info, struct_size, 0);
RL_AT(rl_conversation_info, sample_id, 8);
RL_AT(rl_conversation_info, slot, 24);
RL_AT(rl_conversation_info, num_ids, 32);
RL_AT(rl_conversation_info, finish, 48);
RL_AT_LEAST(rl_conversation_info, 56);

RL_AT(rl_content, struct_size, 0);
RL_AT(rl_content, ids, 8);
RL_AT(rl_content, num_ids, 16);
RL_AT(rl_content, tag, 24);
RL_AT(rl_content, ordinal, 40);
RL_AT(rl_content, sample_id, 48);
RL_AT_LEAST(rl_content, 56);

RL_AT(rl_turn, struct_size, 0);
RL_AT(rl_turn, sampling, 8);
RL_AT(rl_turn, priority, 16);
RL_AT_LEAST(rl_turn, 24);

RL_AT(rl_step, struct_size, 0);
RL_AT(rl_step, batch, 8);
RL_AT(rl_step, advantages, 16);
RL_AT(rl_step, num_advantages, 24);
RL_AT(rl_step, total_tokens, 32);
RL_AT(rl_step, total_sequences, 40);
RL_AT_LEAST(rl_step, 48);

RL_AT(rl_checkpoint, struct_size, 0);
RL_AT(rl_checkpoint, dir, 8);
RL_AT(rl_checkpoint, dir_len, 16);
RL_AT(rl_checkpoint, state, 24);
RL_AT(rl_checkpoint, state_len, 32);
RL_AT(rl_checkpoint, keep_last, 40);
RL_AT(rl_checkpoint, flags, 48);
RL_AT_LEAST(rl_checkpoint, 56);

RL_AT(rl_forward, struct_size, 0);
RL_AT(rl_forward, output, 8);
RL_AT(rl_forward, batch, 16);
RL_AT(rl_forward, ids, 24);
RL_AT(rl_forward, num_prompt, 40);
RL_AT(rl_forward, temperature, 48);
RL_AT(rl_forward, rows, 56);
RL_AT(rl_forward, num_rows, 64);
RL_AT_LEAST(rl_forward, 72);

RL_AT(rl_algo_tokens, struct_size, 0);
RL_AT(rl_algo_tokens, lengths, 8);
RL_AT(rl_algo_tokens, num_tokens, 24);
RL_AT(rl_algo_tokens, mask, 40);
RL_AT(rl_algo_tokens, logprobs, 56);
RL_AT(rl_algo_tokens, ref_logprobs, 80);
RL_AT(rl_algo_tokens, baselines, 104);
RL_AT(rl_algo_tokens, token_rewards, 136);
RL_AT(rl_algo_tokens, weights, 176);
RL_AT(rl_algo_tokens, total_sequences, 192);
RL_AT_LEAST(rl_algo_tokens, 200);

RL_AT(rl_algo_packing, struct_size, 0);
RL_AT(rl_algo_packing, max_tokens, 8);
RL_AT(rl_algo_packing, hidden, 40);
RL_AT(rl_algo_packing, oversize_alone, 48);
RL_AT_LEAST(rl_algo_packing, 56);
RL_AT(rl_algo_tokens, sample_ids, 112);
RL_AT(rl_algo_tokens, reward_parts, 128);

RL_AT(rl_algo_loss, struct_size, 0);
RL_AT(rl_algo_loss, loss, 8);
RL_AT(rl_algo_loss, kl, 32);
RL_AT(rl_algo_loss, ratio_max, 72);
RL_AT(rl_algo_loss, num_rejected, 88);
RL_AT_LEAST(rl_algo_loss, 96);

RL_AT(rl_tensor_info, struct_size, 0);
RL_AT(rl_tensor_info, data, 8);
RL_AT(rl_tensor_info, strides, 24);
RL_AT(rl_tensor_info, num_elements, 40);
RL_AT(rl_tensor_info, dtype, 48);
RL_AT(rl_tensor_info, read_only, 56);
RL_AT(rl_tensor_info, device_index, 60);
RL_AT_LEAST(rl_tensor_info, 64);

RL_AT(rl_log_record, struct_size, 0);
RL_AT(rl_log_record, level, 8);
RL_AT(rl_log_record, time_ns, 16);
RL_AT(rl_log_record, component, 32);
RL_AT(rl_log_record, message, 48);
RL_AT(rl_log_record, num_fields, 64);
RL_AT(rl_log_record, field_names, 72);
RL_AT(rl_log_record, field_kinds, 88);
RL_AT_LEAST(rl_log_record, 96);

RL_AT(rl_clock, struct_size, 0);
RL_AT(rl_clock, steady_ns, 8);
RL_AT(rl_clock, unix_ns, 16);
RL_AT_LEAST(rl_clock, 24);

RL_AT(rl_span, struct_size, 0);
RL_AT(rl_span, lane, 8);
RL_AT(rl_span, name, 24);
RL_AT(rl_span, start_ns, 40);
RL_AT(rl_span, end_ns, 48);
RL_AT(rl_span, arg_name, 56);
RL_AT(rl_span, arg_value, 72);
RL_AT_LEAST(rl_span, 80);

RL_AT(rl_files, struct_size, 0);
RL_AT(rl_files, user_data, 8);
RL_AT(rl_files, destroy, 16);
RL_AT(rl_files, prefix, 24);
RL_AT(rl_files, open, 40);
RL_AT(rl_files, read, 56);
RL_AT(rl_files, close, 80);
RL_AT(rl_files, list, 96);
RL_AT(rl_files, rename, 112);
RL_AT(rl_files, describe, 136);
RL_AT_LEAST(rl_files, 144);

RL_AT(rl_host, struct_size, 0);
RL_AT(rl_host, files, 8);
RL_AT(rl_host, allocator, 16);
RL_AT(rl_host, transport, 24);
RL_AT_LEAST(rl_host, 32);

RL_AT(rl_allocator, struct_size, 0);
RL_AT(rl_allocator, user_data, 8);
RL_AT(rl_allocator, destroy, 16);
RL_AT(rl_allocator, allocate, 24);
RL_AT(rl_allocator, release, 32);
RL_AT(rl_allocator, decommit, 40);
RL_AT_LEAST(rl_allocator, 48);

RL_AT(rl_store, struct_size, 0);
RL_AT(rl_store, user_data, 8);
RL_AT(rl_store, destroy, 16);
RL_AT(rl_store, put, 24);
RL_AT(rl_store, claim, 32);
RL_AT(rl_store, recover, 40);
RL_AT(rl_store, acknowledge, 48);
RL_AT(rl_store, set_aside, 56);
RL_AT(rl_store, read_book, 64);
RL_AT(rl_store, write_book, 72);
RL_AT(rl_store, describe, 80);
RL_AT_LEAST(rl_store, 88);

RL_AT(rl_exchange, struct_size, 0);
RL_AT(rl_exchange, channel, 8);
RL_AT(rl_exchange, num_out, 16);
RL_AT(rl_exchange, out_ranks, 24);
RL_AT(rl_exchange, out_data, 32);
RL_AT(rl_exchange, out_sizes, 40);
RL_AT(rl_exchange, num_in, 48);
RL_AT(rl_exchange, in_ranks, 56);
RL_AT(rl_exchange, in_data, 64);
RL_AT(rl_exchange, in_sizes, 72);
RL_AT(rl_exchange, received, 80);
RL_AT(rl_exchange, timeout_ns, 88);
RL_AT(rl_exchange, lost_rank, 96);
RL_AT(rl_exchange, reserved, 100);
RL_AT_LEAST(rl_exchange, 104);

RL_AT(rl_transport, struct_size, 0);
RL_AT(rl_transport, user_data, 8);
RL_AT(rl_transport, destroy, 16);
RL_AT(rl_transport, rank, 24);
RL_AT(rl_transport, num_ranks, 28);
RL_AT(rl_transport, exchange, 32);
RL_AT(rl_transport, abandon, 40);
RL_AT(rl_transport, describe, 48);
RL_AT_LEAST(rl_transport, 56);

RL_AT(rl_tensor_request, struct_size, 0);
RL_AT(rl_tensor_request, flags, 8);
RL_AT(rl_tensor_request, device, 16);
RL_AT(rl_tensor_request, stream, 24);
RL_AT_LEAST(rl_tensor_request, 32);

RL_AT(rl_weight, struct_size, 0);
RL_AT(rl_weight, name, 8);
RL_AT(rl_weight, tensor, 24);
RL_AT_LEAST(rl_weight, 32);
