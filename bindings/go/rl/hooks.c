/* hooks.c: librl calls these functions, and they call Go. They have the signatures of rl.h to the
 * letter, which functions that cgo exports cannot have. */
#include "hooks.h"

#include "_cgo_export.h"

static void drop(void* user_data) { rlGoDrop((uintptr_t)user_data); }

static void log_line(void* user_data, const rl_log_record* record) {
  rlGoLog((uintptr_t)user_data, (rl_log_record*)record);
}

static int32_t advantage(void* user_data, const rl_algo_tokens* tokens, double* advantages) {
  return rlGoAdvantage((uintptr_t)user_data, (rl_algo_tokens*)tokens, advantages);
}

static int32_t policy_loss(void* user_data, const rl_algo_tokens* tokens, const double* weights,
                           double* loss, double* gradient) {
  return rlGoLoss((uintptr_t)user_data, (rl_algo_tokens*)tokens, (double*)weights, loss, gradient);
}

rl_status rl_go_set_log(rl_runtime* runtime, uintptr_t hook, rl_error** err) {
  if (hook == 0) return rl_runtime_set_log(runtime, NULL, NULL, NULL, err);
  return rl_runtime_set_log(runtime, log_line, (void*)hook, drop, err);
}

rl_status rl_go_pipeline_set_advantage(rl_pipeline* pipeline, uintptr_t hook, rl_error** err) {
  if (hook == 0) return rl_pipeline_set_advantage(pipeline, NULL, NULL, NULL, err);
  return rl_pipeline_set_advantage(pipeline, advantage, (void*)hook, drop, err);
}

rl_status rl_go_pipeline_set_loss(rl_pipeline* pipeline, uintptr_t hook, rl_error** err) {
  if (hook == 0) return rl_pipeline_set_loss(pipeline, NULL, NULL, NULL, err);
  return rl_pipeline_set_loss(pipeline, policy_loss, (void*)hook, drop, err);
}

rl_status rl_go_trainer_set_advantage(rl_trainer* trainer, uintptr_t hook, rl_error** err) {
  if (hook == 0) return rl_trainer_set_advantage(trainer, NULL, NULL, NULL, err);
  return rl_trainer_set_advantage(trainer, advantage, (void*)hook, drop, err);
}

rl_status rl_go_trainer_set_loss(rl_trainer* trainer, uintptr_t hook, rl_error** err) {
  if (hook == 0) return rl_trainer_set_loss(trainer, NULL, NULL, NULL, err);
  return rl_trainer_set_loss(trainer, policy_loss, (void*)hook, drop, err);
}
