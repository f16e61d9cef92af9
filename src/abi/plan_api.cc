// Memory plans.
#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"

using namespace rl;
using namespace rl::abi;

namespace {

size_t count_items(const MemoryPlan& plan) {
  return plan.arenas.size() + plan.parts.size() + plan.outside.size();
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
    *out = issue<rl_plan>(std::make_shared<const MemoryPlan>(plan_memory(set, real_fs(), wanted)));
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
    *out =
        issue<rl_plan>(std::make_shared<const MemoryPlan>(plan_memory(set, owner->fs(), wanted)));
  });
}

void rl_plan_release(rl_plan* plan) { drop(plan); }

rl_status rl_plan_get_info(const rl_plan* plan, rl_plan_info* info, rl_error** err) {
  clear_result(info);
  return guarded(err, plan, [&] {
    const auto source = use(plan, "plan");
    rl_plan_info& out = result_struct(info, "info");
    out.total_bytes = source->total_bytes;
    out.arena_bytes = source->arena_bytes;
    out.baseline_bytes = source->baseline_bytes;
    out.budget_bytes = source->budget_bytes;
    out.max_model_len = source->max_model_len;
    out.max_tokens = source->max_tokens;
    out.kv_blocks = source->kv_bytes != 0 ? source->engine.num_blocks : 0;
    out.threads = source->threads;
    out.dtype = static_cast<int32_t>(source->compute);
  });
}

rl_status rl_plan_at(const rl_plan* plan, size_t index, rl_plan_item* item, rl_error** err) {
  clear_result(item);
  return guarded(err, plan, [&] {
    const auto source = use(plan, "plan");
    rl_plan_item& out = result_struct(item, "item");
    check_index(index, count_items(*source));
    const auto fill = [&](const std::vector<PlanEntry>& entries, int32_t kind) {
      if (index >= entries.size()) {
        index -= entries.size();
        return false;
      }
      out.name = entries[index].name.c_str();
      out.phase = entries[index].phase.c_str();
      out.bytes = entries[index].bytes;
      out.kind = kind;
      out.device = RL_DEVICE_CPU;
      return true;
    };
    if (fill(source->arenas, RL_PLAN_ARENA) || fill(source->parts, RL_PLAN_PART)) return;
    fill(source->outside, RL_PLAN_OUTSIDE);
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
    *out = make_bytes(render_plan(*source));
  });
}

}  // extern "C"
