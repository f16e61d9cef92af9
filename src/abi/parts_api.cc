// Engines for a host's own loop.
#include <algorithm>
#include <limits>

#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/model_parts.h"
#include "abi/samples.h"
#include "data/sample_document.h"

using namespace rl;
using namespace rl::abi;

namespace {

// A sample that goes on keeps its tag and its slot.
void name_request(Request& request, const rl_request& view) {
  const auto refuse_resumed = [&](const char* field, bool given) {
    if (view.resume != nullptr && given) refuse(field, "is given beside request.resume");
  };
  const std::string_view tag = text_arg(view.tag, field_len(view.tag, view.tag_len), "request.tag");
  refuse_resumed("request.tag", !tag.empty());
  refuse_resumed("request.ordinal", view.ordinal != UINT64_MAX);
  refuse_resumed("request.sample_id", view.sample_id != 0);
  refuse_resumed("request.slot", view.slot != 0);
  reserved_arg(view.reserved, "request.reserved");
  const uint64_t last = view.slot + std::clamp<uint64_t>(view.num_samples, 1, kMaxGroupSamples) - 1;
  if (view.slot > 0 && last >= kMaxGroupSamples) {
    throw Error(Code::kOutOfRange,
                str("parameter request.slot is ", view.slot, " for ", view.num_samples,
                    " samples; slots end at ", kMaxGroupSamples - 1))
        .with_key("request.slot");
  }
  request.tag = tag;
  request.first_slot = view.slot;
}

// An error names the field as one of request.resume.
SamplePtr sample_to_resume(const rl_sample_view& view) {
  try {
    return resumable_sample(view);
  } catch (Error& error) {
    rename_parameter(error, "sample.", "request.resume.");
    throw;
  }
}

Request request_from_view(const EngineBox& engine, const rl_request& view) {
  const auto prompt = array_arg(view.prompt, view.num_prompt, "request.prompt");
  if (view.num_samples > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw Error(Code::kOutOfRange, str("parameter request.num_samples is ", view.num_samples,
                                       "; expected 1..", kMaxGroupSamples))
        .with_key("request.num_samples");
  }
  Request request = request_from(
      view.sampling != nullptr ? use(view.sampling, "request.sampling")->copy() : engine.settings);
  request.prompt.assign(prompt.begin(), prompt.end());
  request.num_samples = static_cast<int64_t>(view.num_samples);
  request.priority = view.priority;
  if (view.resume != nullptr) {
    request.resume = sample_to_resume(input_struct(view.resume, "request.resume"));
  }
  name_request(request, view);
  return request;
}

rl_status status_of(EngineStep step) {
  switch (step) {
    case EngineStep::kComputed:
      return RL_OK;
    case EngineStep::kIdle:
      return RL_IDLE;
    case EngineStep::kPaused:
      return RL_PAUSED;
    case EngineStep::kTimedOut:
      return RL_TIMEOUT;
  }
  RL_CHECK(false);
}

// For a call that runs until there is nothing left to do.
rl_status status_of_whole(EngineStep end) {
  return end == EngineStep::kIdle ? RL_OK : status_of(end);
}

void fill(rl_engine_stats& out, const EngineStats& stats) {
  const auto count = [](int64_t v) { return static_cast<uint64_t>(v); };
  out.running = count(stats.running);
  out.waiting = count(stats.waiting);
  out.blocks_in_use = count(stats.blocks_in_use);
  out.blocks_total = count(stats.blocks_total);
  out.prefill_tokens = count(stats.prefill_tokens);
  out.decode_tokens = count(stats.decode_tokens);
  out.forwards = count(stats.forwards);
  out.nonfinite = count(stats.nonfinite);
  out.prefill_ns = stats.prefill_ns;
  out.decode_ns = stats.decode_ns;
  out.started = count(stats.started);
  out.blocks_peak = count(stats.blocks_peak);
  out.busy_ns = stats.busy_ns;
  out.generated_tokens = count(stats.generated_tokens);
  out.admitted = count(stats.admitted);
  out.finished = count(stats.finished);
  out.aborted = count(stats.aborted);
  out.queue_ns = stats.queue_ns;
  out.longest_queue_ns = stats.longest_queue_ns;
  out.first_tokens = count(stats.first_tokens);
  out.first_token_ns = stats.first_token_ns;
  out.longest_first_token_ns = stats.longest_first_token_ns;
  out.preemptions = count(stats.preemptions);
  out.swapped_blocks = count(stats.swapped_blocks);
  out.looked_up_tokens = count(stats.looked_up_tokens);
  out.cached_tokens = count(stats.cached_tokens);
  out.mixed_kv_tokens = count(stats.mixed_kv_tokens);
}

// Nothing before the first interval has ended.
std::optional<EngineStats> stats_over(const EngineBox& engine, int64_t replica, int32_t period) {
  if (period != RL_PERIOD_TOTAL && period != RL_PERIOD_INTERVAL) {
    refuse("period", str("is ", period, ", expected RL_PERIOD_TOTAL or RL_PERIOD_INTERVAL"));
  }
  if (replica == -1 && period == RL_PERIOD_TOTAL) return engine.stats();
  if (replica < 0 || replica >= engine.num_engines()) {
    throw Error(Code::kOutOfRange, str("parameter replica is ", replica, ", but the engine has ",
                                       engine.num_engines(), " replicas"))
        .with_key("replica");
  }
  if (period == RL_PERIOD_TOTAL) return engine.stats(replica);
  return engine.last_interval(replica);
}

}  // namespace

extern "C" {

void rl_request_init(rl_request* request, size_t size) {
  if (!init_struct(request, size, kFirstSize<rl_request>)) return;
  request->num_samples = 1;
  request->tag_len = RL_NUL_TERMINATED;
  request->ordinal = UINT64_MAX;
}

void rl_engine_stats_init(rl_engine_stats* stats, size_t size) {
  init_struct(stats, size, kFirstSize<rl_engine_stats>);
}

rl_status rl_engine_create(rl_model* model, const rl_options* options, rl_engine** out,
                           rl_error** err) {
  return create_on_model<EngineBox>(model, options, PlanUse::kGenerate, out, err);
}

void rl_engine_destroy(rl_engine* engine) {
  const auto target = destroy(engine);
  if (target == nullptr) return;
  // An rl_engine_run of another thread may still use it and then returns without requests. There
  // is no caller left to report a failure to, and the engine ends in any case.
  guarded(nullptr, nullptr, [&] { target->close(); });
}

rl_status rl_engine_submit(rl_engine* engine, const rl_request* request, uint64_t* first_sample_id,
                           rl_error** err) {
  clear(first_sample_id);
  return guarded(err, engine, [&] {
    const auto target = use(engine, "engine");
    const rl_request view = input_struct(request, "request");
    require(first_sample_id, "first_sample_id");
    const auto naming = naming_from(view.ordinal, view.sample_id, view.num_samples, "request");
    *first_sample_id = target->submit(request_from_view(*target, view), naming);
  });
}

rl_status rl_engine_step(rl_engine* engine, rl_error** err) {
  return guarded(err, engine, [&] { return status_of(use(engine, "engine")->step()); });
}

rl_status rl_engine_run(rl_engine* engine, rl_error** err) {
  return guarded(err, engine, [&] { return status_of_whole(use(engine, "engine")->run()); });
}

rl_status rl_engine_pause(rl_engine* engine, rl_error** err) {
  return guarded(err, engine, [&] { use(engine, "engine")->pause(); });
}

rl_status rl_engine_unpause(rl_engine* engine, rl_error** err) {
  return guarded(err, engine, [&] { use(engine, "engine")->unpause(); });
}

rl_status rl_engine_drain(rl_engine* engine, int64_t timeout_ns, rl_error** err) {
  return guarded(err, engine,
                 [&] { return status_of_whole(use(engine, "engine")->drain(timeout_ns)); });
}

rl_status rl_engine_set_queue(rl_engine* engine, rl_event_queue* queue, uint64_t source,
                              rl_error** err) {
  return guarded(err, engine, [&] {
    const auto target = use(engine, "engine");
    target->set_queue(queue != nullptr ? use(queue, "queue") : nullptr, source);
  });
}

rl_status rl_engine_take(rl_engine* engine, rl_batch** out, rl_error** err) {
  clear(out);
  return guarded(err, engine, [&]() -> rl_status {
    const auto source = use(engine, "engine");
    require(out, "out");
    Reserved<rl_batch> place;
    const auto box = std::make_shared<BatchBox>();
    box->samples = source->take_finished();
    if (box->samples.empty()) return source->idle() ? RL_IDLE : RL_WOULD_BLOCK;
    *out = place.fill(box);
    return RL_OK;
  });
}

rl_status rl_engine_abort(rl_engine* engine, uint64_t flags, uint64_t* num_spared, rl_error** err) {
  clear(num_spared);
  return guarded(err, engine, [&] {
    const auto target = use(engine, "engine");
    flags_arg(flags, RL_ABORT_SPARE, "flags");
    int64_t spared = 0;
    if ((flags & RL_ABORT_SPARE) != 0) {
      spared = target->abort_unspared();
    } else {
      target->abort_all();
    }
    if (num_spared != nullptr) *num_spared = static_cast<uint64_t>(spared);
  });
}

rl_status rl_engine_abort_request(rl_engine* engine, uint64_t sample_id, rl_error** err) {
  return guarded(err, engine, [&] { use(engine, "engine")->abort_request(sample_id); });
}

rl_status rl_engine_sleep(rl_engine* engine, int32_t level, rl_error** err) {
  return guarded(err, engine, [&] { use(engine, "engine")->sleep(level); });
}

rl_status rl_engine_wake(rl_engine* engine, rl_error** err) {
  return guarded(err, engine, [&] { use(engine, "engine")->wake(); });
}

rl_status rl_engine_get_stats(const rl_engine* engine, int64_t replica, int32_t period,
                              rl_engine_stats* stats, rl_error** err) {
  clear_result(stats);
  return guarded(err, engine, [&]() -> rl_status {
    const auto source = use(engine, "engine");
    bool known = false;
    write_result(stats, "stats", [&](rl_engine_stats& out) {
      const std::optional<EngineStats> found = stats_over(*source, replica, period);
      known = found.has_value();
      if (known) fill(out, *found);
    });
    return known ? RL_OK : RL_WOULD_BLOCK;
  });
}

}  // extern "C"
