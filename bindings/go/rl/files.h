/* files.h: files of a Go host as rl_files. user_data and the tokens of open files are cgo.Handles
 * as numbers. librl ends user_data, as rl.h promises: exactly once. */
#pragma once
#include <stdint.h>

#include "rl.h"

rl_status rl_go_runtime_create_hosted(const rl_options* options, uintptr_t files,
                                      const char* prefix, size_t prefix_len, rl_runtime** out,
                                      rl_error** err);

/* Hands a name of a directory to librl. */
int32_t rl_go_file_found(rl_file_found_fn found, void* context, const char* name, size_t name_len);
