/* store.h: a store of a Go host as rl_store. user_data is a cgo.Handle as a number. librl ends it,
 * as rl.h promises: exactly once. */
#pragma once
#include <stdint.h>

#include "rl.h"

rl_status rl_go_buffer_create_stored(const rl_options* options, uint64_t max_samples,
                                     uintptr_t store, rl_buffer** out, rl_error** err);

rl_status rl_go_pipeline_create_stored(rl_model* model, const rl_options* options, uintptr_t store,
                                       rl_pipeline** out, rl_error** err);

/* Hands a group or the book to librl. */
int32_t rl_go_store_found(rl_store_found_fn found, void* context, const char* token,
                          size_t token_len, const void* data, uint64_t size);
