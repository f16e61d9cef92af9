// The options of objects, as sets of their own.
#include <utility>

#include "abi/arguments.h"
#include "abi/guard.h"

using namespace rl;
using namespace rl::abi;

namespace {

// Writes a copy of get(the object) to out.
template <typename Handle, typename F>
rl_status options_of(const Handle* handle, const char* parameter, rl_options** out, rl_error** err,
                     F&& get) {
  clear(out);
  return guarded(err, handle, [&] {
    const auto object = use(handle, parameter);
    require(out, "out");
    *out = issue<rl_options>(std::make_shared<OptionsBox>(get(*object)));
  });
}

}  // namespace

extern "C" {

rl_status rl_runtime_options(const rl_runtime* runtime, rl_options** out, rl_error** err) {
  return options_of(runtime, "runtime", out, err, [](const Runtime& r) { return r.options(); });
}

rl_status rl_plan_options(const rl_plan* plan, rl_options** out, rl_error** err) {
  return options_of(plan, "plan", out, err, [](const PlanBox& p) { return p.plan.options; });
}

rl_status rl_model_options(const rl_model* model, rl_options** out, rl_error** err) {
  return options_of(model, "model", out, err, [](const LoadedModel& m) { return m.options(); });
}

rl_status rl_pipeline_options(const rl_pipeline* pipeline, rl_options** out, rl_error** err) {
  return options_of(pipeline, "pipeline", out, err, [](const Pipeline& p) { return p.options(); });
}

rl_status rl_engine_options(const rl_engine* engine, rl_options** out, rl_error** err) {
  return options_of(engine, "engine", out, err, [](const EngineBox& e) { return e.settings.set; });
}

rl_status rl_buffer_options(const rl_buffer* buffer, rl_options** out, rl_error** err) {
  return options_of(buffer, "buffer", out, err, [](const BufferSession& b) { return b.options(); });
}

rl_status rl_trainer_options(const rl_trainer* trainer, rl_options** out, rl_error** err) {
  return options_of(trainer, "trainer", out, err,
                    [](const TrainerSession& t) { return t.options(); });
}

}  // extern "C"
