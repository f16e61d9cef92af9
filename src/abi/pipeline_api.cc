// Pipelines: the loop and its events.
#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"
#include "abi/model_parts.h"

using namespace rl;
using namespace rl::abi;

namespace {

// Runs call(Pipeline&).
template <typename F>
rl_status with_pipeline(const rl_pipeline* pipeline, rl_error** err, F&& call) {
  return guarded(err, pipeline, [&] {
    const auto target = use(pipeline, "pipeline");
    return call(*target);
  });
}

// Passes one event to a host's function; the event ends with the call.
bool hand_over(rl_event* handle, rl_event_fn fn, void* user_data) {
  const int32_t stop = fn(user_data, handle);
  drop(handle);
  return stop == 0;
}

}  // namespace

extern "C" {

rl_status rl_pipeline_create(rl_model* model, const rl_options* options, rl_pipeline** out,
                             rl_error** err) {
  return create_on_model<Pipeline>(model, options, out, err);
}

void rl_pipeline_destroy(rl_pipeline* pipeline) {
  const auto target = destroy(pipeline);
  // Other threads' calls may still use it: the end of the loop lets them return.
  if (target != nullptr) target->stop(-1);
}

rl_status rl_pipeline_start(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.start(); });
}

rl_status rl_pipeline_next(rl_pipeline* pipeline, int64_t timeout_ns, rl_event** out,
                           rl_error** err) {
  clear(out);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(out, "out");
    Reserved<rl_event> place;
    EventQueue::Popped popped = p.next(timeout_ns);
    if (popped.status == Code::kOk) *out = place.fill(std::move(popped.event));
    return static_cast<rl_status>(popped.status);
  });
}

rl_status rl_pipeline_dispatch(rl_pipeline* pipeline, int64_t timeout_ns, rl_event_fn fn,
                               void* user_data, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) -> rl_status {
    if (fn == nullptr) refuse("fn", "is NULL");
    for (bool first = true;; first = false) {
      Reserved<rl_event> place;
      EventQueue::Popped popped = p.next(first ? timeout_ns : 0);
      if (popped.status == Code::kInterrupted) return RL_INTERRUPTED;
      if (popped.status != Code::kOk) {
        return first ? static_cast<rl_status>(popped.status) : rl_status{RL_OK};
      }
      if (!hand_over(place.fill(std::move(popped.event)), fn, user_data)) return RL_INTERRUPTED;
      if (p.event_queue()->size() == 0) return RL_OK;
    }
  });
}

rl_status rl_pipeline_interrupt(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.interrupt(); });
}

rl_status rl_pipeline_queue(rl_pipeline* pipeline, rl_event_queue** out, rl_error** err) {
  clear(out);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(out, "out");
    *out = issue<rl_event_queue>(p.event_queue());
  });
}

rl_status rl_pipeline_score(rl_pipeline* pipeline, uint64_t sample_id, double reward,
                            rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.score(sample_id, reward); });
}

rl_status rl_pipeline_score_parts(rl_pipeline* pipeline, uint64_t sample_id, double reward,
                                  const double* parts, size_t num_parts, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    p.score(sample_id, reward, array_arg(parts, num_parts, "parts"));
  });
}

rl_status rl_pipeline_score_many(rl_pipeline* pipeline, const uint64_t* sample_ids,
                                 const double* rewards, size_t count, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    const auto ids = array_arg(sample_ids, count, "sample_ids");
    const auto values = array_arg(rewards, count, "rewards");
    std::vector<Score> scores(count);
    for (size_t i = 0; i < count; ++i) scores[i] = {ids[i], values[i]};
    p.score_many(scores);
  });
}

rl_status rl_pipeline_fail(rl_pipeline* pipeline, uint64_t sample_id, const char* reason,
                           size_t reason_len, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    p.fail(sample_id, text_arg(reason, reason_len, "reason"));
  });
}

rl_status rl_pipeline_feed(rl_pipeline* pipeline, const char* row, size_t row_len, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    return p.feed_line(text_arg(row, row_len, "row")) ? RL_OK : RL_TIMEOUT;
  });
}

rl_status rl_pipeline_feed_ids(rl_pipeline* pipeline, const int32_t* ids, size_t num_ids,
                               const char* tag, size_t tag_len, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    const auto prompt = array_arg(ids, num_ids, "ids");
    std::string text(text_arg(tag, tag_len, "tag"));
    return p.feed_ids({prompt.begin(), prompt.end()}, std::move(text)) ? RL_OK : RL_TIMEOUT;
  });
}

rl_status rl_pipeline_feed_capacity(const rl_pipeline* pipeline, uint64_t* out, rl_error** err) {
  clear(out);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(out, "out");
    *out = static_cast<uint64_t>(p.feed_capacity());
  });
}

rl_status rl_pipeline_finish_feed(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.end_feed(); });
}

rl_status rl_pipeline_pause(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.pause(); });
}

rl_status rl_pipeline_resume(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.resume(); });
}

rl_status rl_pipeline_stop(rl_pipeline* pipeline, int64_t timeout_ns, rl_error** err) {
  return with_pipeline(pipeline, err,
                       [&](Pipeline& p) { return p.stop(timeout_ns) ? RL_OK : RL_TIMEOUT; });
}

rl_status rl_pipeline_checkpoint(rl_pipeline* pipeline, int64_t timeout_ns, rl_bytes** path,
                                 rl_error** err) {
  clear(path);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(path, "path");
    *path = make_bytes(p.checkpoint(timeout_ns));
  });
}

rl_status rl_pipeline_save_critic(rl_pipeline* pipeline, const char* dir, size_t dir_len,
                                  int32_t dtype, uint64_t flags, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    const SaveArgs to = save_args(dir, dir_len, dtype, flags);
    p.save_critic(to.dir, to.dtype, to.replace);
  });
}

rl_status rl_pipeline_evaluate(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.request_eval(); });
}

rl_status rl_pipeline_set_options(rl_pipeline* pipeline, const rl_options* options,
                                  rl_error** err) {
  return with_pipeline(pipeline, err,
                       [&](Pipeline& p) { p.set_options(use(options, "options")->copy()); });
}

rl_status rl_pipeline_plan(const rl_pipeline* pipeline, rl_plan** out, rl_error** err) {
  clear(out);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(out, "out");
    *out = issue<rl_plan>(std::make_shared<const MemoryPlan>(p.plan()));
  });
}

rl_status rl_pipeline_close_result(const rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.require_closed(); });
}

rl_status rl_pipeline_resumed_from(const rl_pipeline* pipeline, rl_bytes** path, rl_error** err) {
  clear(path);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(path, "path");
    *path = make_bytes(p.resumed_from());
  });
}

}  // extern "C"
