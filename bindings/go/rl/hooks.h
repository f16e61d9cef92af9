/* hooks.h: functions of a Go host as callbacks of librl. user_data is a cgo.Handle as a number; 0
 * stands for no function. librl ends it with rl_go_drop, as rl.h promises: exactly once. */
#pragma once
#include <stdint.h>

#include "rl.h"

rl_status rl_go_set_log(rl_runtime* runtime, uintptr_t hook, rl_error** err);
rl_status rl_go_pipeline_set_advantage(rl_pipeline* pipeline, uintptr_t hook, rl_error** err);
rl_status rl_go_pipeline_set_loss(rl_pipeline* pipeline, uintptr_t hook, rl_error** err);
rl_status rl_go_trainer_set_advantage(rl_trainer* trainer, uintptr_t hook, rl_error** err);
rl_status rl_go_trainer_set_loss(rl_trainer* trainer, uintptr_t hook, rl_error** err);
