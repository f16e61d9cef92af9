// Memory plans.
#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"
#include "pipeline/plan/fit.h"
#include "pipeline/session/machine_probe.h"

using namespace rl;
using namespace rl::abi;

namespace {

const std::vector<PlanEntry>& entries_of(const PlanBox& box, int32_t kind) {
  switch (kind) {
    case RL_PLAN_ARENA:
      return box.plan.arenas;
    case RL_PLAN_PART:
      return box.plan.parts;
    case RL_PLAN_OUTSIDE:
      return box.plan.outside;
    default:
      return box.phases;
  }
}

size_t count_items(const PlanBox& box) {
  size_t count = 0;
  for (int32_t kind = RL_PLAN_ARENA; kind <= RL_PLAN_PHASE; ++kind) {
    count += entries_of(box, kind).size();
  }
  return count;
}

void fill_knob(rl_knob& out, const std::vector<Knob>& knobs, size_t index) {
  check_index(index, knobs.size());
  const Knob& knob = knobs[index];
  out.key = knob.key.c_str();
  out.value = knob.value.c_str();
  out.proposed = knob.proposed.c_str();
  out.saved_bytes = knob.saved_bytes;
  out.time_ratio = knob.time_ratio;
  out.effect = static_cast<int32_t>(knob.effect);
}

KnobEffect effect_arg(int32_t effect) {
  if (effect < RL_KNOB_SPEED || effect > RL_KNOB_RUN) {
    throw Error(Code::kInvalidArgument, str("effect is ", effect))
        .with_key("effect")
        .with_expected("RL_KNOB_SPEED, RL_KNOB_ROUNDING or RL_KNOB_RUN");
  }
  return static_cast<KnobEffect>(effect);
}

double rate_arg(double rate, const char* name) {
  constexpr double kMost = 1e18;
  if (!(rate > 0 && rate <= kMost)) {
    throw Error(Code::kInvalidArgument, str("machine: ", name, " is ", rate))
        .with_key("machine")
        .with_expected("above 0, at most 1e18");
  }
  return rate;
}

MachineRates rates_arg(const rl_machine* machine) {
  constexpr int64_t kMostThreads = 65536;
  const rl_machine m = input_struct(machine, "machine");
  if (m.threads < 1 || m.threads > kMostThreads) {
    throw Error(Code::kInvalidArgument, str("machine: threads is ", m.threads))
        .with_key("machine")
        .with_expected(str("1..", kMostThreads));
  }
  return {rate_arg(m.f32_flops, "f32_flops"), rate_arg(m.bf16_flops, "bf16_flops"),
          rate_arg(m.read_bytes_per_s, "read_bytes_per_s"),
          rate_arg(m.copy_bytes_per_s, "copy_bytes_per_s"), static_cast<int>(m.threads)};
}

}  // namespace

extern "C" {

void rl_plan_info_init(rl_plan_info* info, size_t size) { init_struct(info, size, sizeof(*info)); }
void rl_plan_item_init(rl_plan_item* item, size_t size) { init_struct(item, size, sizeof(*item)); }

rl_status rl_plan_create(const rl_options* options, int32_t use_kind, rl_plan** out,
                         rl_error** err) {
  clear(out);
  return guarded(err, options, [&] {
    const OptionSet set = use(options, "options")->copy();
    const PlanUse wanted = plan_use_arg(use_kind);
    require(out, "out");
    *out = issue<rl_plan>(std::make_shared<const PlanBox>(plan_memory(set, real_fs(), wanted)));
  });
}

rl_status rl_plan_create_hosted(const rl_runtime* runtime, const rl_options* options,
                                int32_t use_kind, rl_plan** out, rl_error** err) {
  clear(out);
  return guarded(err, runtime, [&] {
    const auto owner = use(runtime, "runtime");
    const OptionSet set = options_or(options, owner->options());
    const PlanUse wanted = plan_use_arg(use_kind);
    require(out, "out");
    *out = issue<rl_plan>(std::make_shared<const PlanBox>(plan_memory(set, owner->fs(), wanted)));
  });
}

void rl_plan_release(rl_plan* plan) { drop(plan); }

rl_status rl_plan_get_info(const rl_plan* plan, rl_plan_info* info, rl_error** err) {
  clear_result(info);
  return guarded(err, plan, [&] {
    const auto box = use(plan, "plan");
    const MemoryPlan& source = box->plan;
    rl_plan_info& out = result_struct(info, "info");
    out.total_bytes = source.total_bytes;
    out.arena_bytes = source.arena_bytes;
    out.baseline_bytes = source.baseline_bytes;
    out.budget_bytes = Settings(source.options).runtime.memory_budget_bytes;
    out.least_bytes = source.least_bytes;
    out.max_model_len = source.max_model_len;
    out.max_tokens = source.max_tokens;
    out.kv_blocks = source.kv_bytes != 0 ? source.engine.num_blocks : 0;
    out.threads = source.threads;
    out.dtype = static_cast<int32_t>(source.compute);
  });
}

rl_status rl_plan_at(const rl_plan* plan, size_t index, rl_plan_item* item, rl_error** err) {
  clear_result(item);
  return guarded(err, plan, [&] {
    const auto box = use(plan, "plan");
    rl_plan_item& out = result_struct(item, "item");
    check_index(index, count_items(*box));
    int32_t kind = RL_PLAN_ARENA;
    for (; index >= entries_of(*box, kind).size(); ++kind) index -= entries_of(*box, kind).size();
    const PlanEntry& entry = entries_of(*box, kind)[index];
    out.name = entry.name.c_str();
    out.phase = entry.phase.c_str();
    out.bytes = entry.bytes;
    out.kind = kind;
    out.device = entry.device.kind;
    out.device_index = entry.device.index;
    out.role = entry.role.c_str();
  });
}

size_t rl_plan_count(const rl_plan* plan) {
  const auto source = use_if_live(plan);
  return source != nullptr ? count_items(*source) : 0;
}

rl_status rl_plan_text(const rl_plan* plan, rl_bytes** out, rl_error** err) {
  clear(out);
  return guarded(err, plan, [&] {
    const auto source = use(plan, "plan");
    require(out, "out");
    *out = make_bytes(render_plan(source->plan));
  });
}

void rl_knob_init(rl_knob* knob, size_t size) { init_struct(knob, size, sizeof(*knob)); }

rl_status rl_plan_knob_at(const rl_plan* plan, size_t index, rl_knob* knob, rl_error** err) {
  clear_result(knob);
  return guarded(err, plan, [&] {
    const auto box = use(plan, "plan");
    fill_knob(result_struct(knob, "knob"), box->knobs(), index);
  });
}

size_t rl_plan_knob_count(const rl_plan* plan) {
  try {
    const auto box = use_if_live(plan);
    return box != nullptr ? box->knobs().size() : 0;
  } catch (const std::exception&) {
    return 0;  // no memory
  }
}

rl_status rl_error_knob_at(const rl_error* error, size_t index, rl_knob* knob, rl_error** err) {
  clear_result(knob);
  return guarded(err, error, [&] {
    const auto record = use(error, "error");
    fill_knob(result_struct(knob, "knob"), record->knobs, index);
  });
}

size_t rl_error_knob_count(const rl_error* error) {
  const auto record = use_if_live(error);
  return record != nullptr ? record->knobs.size() : 0;
}

void rl_machine_init(rl_machine* machine, size_t size) {
  init_struct(machine, size, sizeof(*machine));
}
void rl_step_time_init(rl_step_time* time, size_t size) { init_struct(time, size, sizeof(*time)); }

rl_status rl_runtime_probe(rl_runtime* runtime, rl_machine* machine, rl_error** err) {
  clear_result(machine);
  return guarded(err, runtime, [&] {
    const auto owner = use(runtime, "runtime");
    rl_machine& out = result_struct(machine, "machine");
    const MachineRates rates = probe_machine(*owner);
    out.f32_flops = rates.f32_flops;
    out.bf16_flops = rates.bf16_flops;
    out.read_bytes_per_s = rates.read_bytes_per_s;
    out.copy_bytes_per_s = rates.copy_bytes_per_s;
    out.threads = rates.threads;
  });
}

rl_status rl_plan_fit(rl_runtime* runtime, const rl_options* options, int32_t use_kind,
                      const rl_machine* machine, int32_t effect, rl_step_time* time, rl_plan** out,
                      rl_error** err) {
  clear(out);
  clear_result(time);
  return guarded(err, runtime, [&] {
    const auto owner = use(runtime, "runtime");
    const OptionSet set = options_or(options, owner->options());
    const PlanUse wanted = plan_use_arg(use_kind);
    require(out, "out");
    if (time != nullptr) result_struct(time, "time");
    const KnobEffect most = effect_arg(effect);
    const FitRules rules{machine != nullptr ? rates_arg(machine) : probe_machine(*owner), most};
    const PlanFit fit = fit_plan(set, owner->fs(), wanted, rules);
    *out = issue<rl_plan>(std::make_shared<const PlanBox>(fit.plan));
    if (time == nullptr) return;
    time->total_s = fit.seconds.total();
    time->rollout_s = fit.seconds.rollout;
    time->logprob_s = fit.seconds.logprob;
    time->train_s = fit.seconds.train;
    time->update_s = fit.seconds.update;
    time->publish_s = fit.seconds.publish;
  });
}

}  // extern "C"
