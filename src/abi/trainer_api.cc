// Trainers for a host's own loop, and the profiler.
#include <limits>
#include <optional>
#include <utility>

#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"
#include "abi/model_parts.h"
#include "abi/samples.h"

using namespace rl;
using namespace rl::abi;

namespace {

// The advantages of a step, one per sample; none if they follow from the rewards.
std::optional<std::span<const double>> advantages_of(const rl_step& step, size_t num_samples) {
  const auto given = array_arg(step.advantages, step.num_advantages, "step.advantages");
  if (step.advantages == nullptr) return std::nullopt;
  if (given.size() != num_samples) {
    refuse("step.num_advantages",
           str("is ", given.size(), " but the batch has ", num_samples, " samples"));
  }
  return given;
}

void refuse_total(const char* field, uint64_t total) {
  if (total == 0) return;
  refuse(field, str("is ", total, ", but a step trains on a whole batch; use rl_trainer_backward"));
}

// Uses the rewards as they are when the call begins.
TrainedStep train(TrainerSession& trainer, const rl_step& step) {
  const auto box = use(step.batch, "step.batch");
  const auto given = advantages_of(step, box->samples.size());
  refuse_total("step.total_tokens", step.total_tokens);
  refuse_total("step.total_sequences", step.total_sequences);
  if (box->samples.empty()) refuse("step.batch", "has no samples; a step trains on at least one");
  return with_places(*box, "step.batch", [&] {
    if (!given) return trainer.step(box->samples, box->rewards());
    return trainer.step_with_advantages(box->samples, box->rewards(), *given);
  });
}

void compute_gradients(TrainerSession& trainer, const rl_step& step) {
  const auto box = use(step.batch, "step.batch");
  const std::vector<SampleRewards> rewards = box->rewards();
  const TrainerSession::Part part{box->samples,
                                  rewards,
                                  advantages_of(step, box->samples.size()),
                                  {.num_tokens = static_cast<double>(step.total_tokens),
                                   .num_sequences = static_cast<double>(step.total_sequences)}};
  with_places(*box, "step.batch", [&] { trainer.backward(part); });
}

std::shared_ptr<StepEvent> event_of(TrainedStep done) {
  auto event = std::make_shared<StepEvent>();
  event->step = done.step;
  event->version = done.version;
  event->metrics = std::move(done);
  return event;
}

TrainerSession::Checkpoint checkpoint_of(const rl_checkpoint& in) {
  TrainerSession::Checkpoint out;
  out.dir = path_arg(in.dir, in.dir_len, "checkpoint.dir");
  out.host = text_arg(in.state, field_len(in.state, in.state_len), "checkpoint.state");
  if (in.keep_last > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    refuse("checkpoint.keep_last", str("is ", in.keep_last));
  }
  out.keep_last = static_cast<int64_t>(in.keep_last);
  flags_arg(in.flags, RL_SAVE_REPLACE, "checkpoint.flags");
  out.replace_existing = (in.flags & RL_SAVE_REPLACE) != 0;
  return out;
}

}  // namespace

extern "C" {

rl_status rl_trainer_create(rl_model* model, const rl_options* options, rl_trainer** out,
                            rl_error** err) {
  return create_on_model<TrainerSession>(model, options, PlanUse::kTrain, out, err);
}

void rl_trainer_destroy(rl_trainer* trainer) { destroy(trainer); }

void rl_step_init(rl_step* step, size_t size) { init_struct(step, size, sizeof(*step)); }

rl_status rl_trainer_step(rl_trainer* trainer, const rl_step* step, rl_event** out,
                          rl_error** err) {
  clear(out);
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    const rl_step input = input_struct(step, "step");
    require(out, "out");
    Reserved<rl_event> place;
    *out = place.fill(event_of(train(*target, input)));
  });
}

rl_status rl_trainer_backward(rl_trainer* trainer, const rl_step* step, rl_error** err) {
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    compute_gradients(*target, input_struct(step, "step"));
  });
}

rl_status rl_trainer_apply(rl_trainer* trainer, rl_event** out, rl_error** err) {
  clear(out);
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    require(out, "out");
    Reserved<rl_event> place;
    *out = place.fill(event_of(target->apply()));
  });
}

rl_status rl_trainer_cancel(rl_trainer* trainer, rl_error** err) {
  return guarded(err, trainer, [&] { use(trainer, "trainer")->cancel(); });
}

rl_status rl_trainer_set_options(rl_trainer* trainer, const rl_options* options, rl_error** err) {
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    target->set_options(use(options, "options")->copy());
  });
}

rl_status rl_trainer_set_queue(rl_trainer* trainer, rl_event_queue* queue, uint64_t source,
                               rl_error** err) {
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    target->set_queue(queue != nullptr ? use(queue, "queue") : nullptr, source);
  });
}

void rl_checkpoint_init(rl_checkpoint* checkpoint, size_t size) {
  if (!init_struct(checkpoint, size, sizeof(*checkpoint))) return;
  checkpoint->dir_len = checkpoint->state_len = RL_NUL_TERMINATED;
}

rl_status rl_trainer_save(rl_trainer* trainer, const rl_checkpoint* checkpoint, rl_bytes** path,
                          rl_error** err) {
  clear(path);
  return guarded(err, trainer, [&] {
    const auto source = use(trainer, "trainer");
    const rl_checkpoint input = input_struct(checkpoint, "checkpoint");
    const TrainerSession::Checkpoint to = checkpoint_of(input);
    require(path, "path");
    Reserved<rl_bytes> place;
    *path = place.fill(aligned_bytes(source->save(to)));
  });
}

rl_status rl_trainer_load(rl_trainer* trainer, const char* path, size_t path_len, rl_bytes** state,
                          rl_error** err) {
  clear(state);
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    const std::string from = path_arg(path, path_len, "path");
    require(state, "state");
    Reserved<rl_bytes> place;
    *state = place.fill(aligned_bytes(target->load(from).host));
  });
}

rl_status rl_trainer_save_critic(rl_trainer* trainer, const char* dir, size_t dir_len,
                                 int32_t dtype, uint64_t flags, rl_error** err) {
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    const SaveArgs to = save_args(dir, dir_len, dtype, flags);
    target->save_critic(to.dir, to.dtype, to.replace);
  });
}

rl_status rl_trainer_publish(rl_trainer* trainer, uint64_t* version, rl_error** err) {
  clear(version);
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    require(version, "version");
    *version = target->publish();
  });
}

rl_status rl_trainer_sleep(rl_trainer* trainer, rl_error** err) {
  return guarded(err, trainer, [&] { use(trainer, "trainer")->sleep(); });
}

rl_status rl_trainer_wake(rl_trainer* trainer, rl_error** err) {
  return guarded(err, trainer, [&] { use(trainer, "trainer")->wake(); });
}

rl_status rl_profiler_create(rl_runtime* runtime, rl_profiler** out, rl_error** err) {
  clear(out);
  return guarded(err, runtime, [&] {
    const auto owner = use(runtime, "runtime");
    require(out, "out");
    *out = issue<rl_profiler>(std::make_shared<ProfilerSession>(owner));
  });
}

void rl_profiler_destroy(rl_profiler* profiler) { destroy(profiler); }

rl_status rl_profiler_write_trace(const rl_profiler* profiler, const char* path, size_t path_len,
                                  rl_error** err) {
  return guarded(err, profiler, [&] {
    const auto source = use(profiler, "profiler");
    source->write(path_arg(path, path_len, "path"));
  });
}

rl_status rl_profiler_count(const rl_profiler* profiler, uint64_t* num_records,
                            uint64_t* num_dropped, rl_error** err) {
  clear(num_records);
  clear(num_dropped);
  return guarded(err, profiler, [&] {
    const auto source = use(profiler, "profiler");
    require(num_records, "num_records");
    require(num_dropped, "num_dropped");
    *num_records = source->recorder().num_records();
    *num_dropped = source->recorder().num_dropped();
  });
}

rl_status rl_profiler_summary(const rl_profiler* profiler, rl_bytes** out, rl_error** err) {
  clear(out);
  return guarded(err, profiler, [&] {
    const auto source = use(profiler, "profiler");
    require(out, "out");
    std::string text;
    for (const auto& span : source->recorder().summary()) {
      text += str(span.name, " ", span.count, " ", span.total_ns, " ", span.longest_ns, "\n");
    }
    *out = make_bytes(std::move(text));
  });
}

}  // extern "C"
