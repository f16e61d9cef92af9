// Trainers for a host's own loop, and the profiler.
#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"
#include "abi/model_parts.h"

using namespace rl;
using namespace rl::abi;

namespace {

// Uses the rewards as they are when the call begins.
TrainedStep train(TrainerSession& trainer, const BatchBox& box, const double* advantages,
                  size_t num_advantages) {
  const auto given = array_arg(advantages, num_advantages, "advantages");
  if (advantages == nullptr) return trainer.step(box.samples, box.rewards());
  if (given.size() != box.samples.size()) {
    refuse("num_advantages",
           str("is ", given.size(), " but the batch has ", box.samples.size(), " samples"));
  }
  return trainer.step_with_advantages(box.samples, box.rewards(), given);
}

}  // namespace

extern "C" {

rl_status rl_trainer_create(rl_model* model, const rl_options* options, rl_trainer** out,
                            rl_error** err) {
  return create_on_model<TrainerSession>(model, options, out, err);
}

void rl_trainer_destroy(rl_trainer* trainer) { destroy(trainer); }

rl_status rl_trainer_step(rl_trainer* trainer, const rl_batch* batch, const double* advantages,
                          size_t num_advantages, rl_event** out, rl_error** err) {
  clear(out);
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    const auto box = use(batch, "batch");
    require(out, "out");
    Reserved<rl_event> place;
    const auto event = std::make_shared<StepEvent>();
    TrainedStep done = train(*target, *box, advantages, num_advantages);
    event->step = done.step;
    event->version = done.version;
    event->metrics = std::move(done);
    *out = place.fill(event);
  });
}

rl_status rl_trainer_logprobs(rl_trainer* trainer, const int32_t* ids, size_t num_ids,
                              size_t num_prompt, float temperature, float* out, size_t num_out,
                              rl_error** err) {
  if (out != nullptr && num_out <= num_ids) std::fill_n(out, num_out, 0.0f);
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    const auto sequence = array_arg(ids, num_ids, "ids");
    if (num_prompt == 0 || num_prompt >= num_ids) {
      refuse("num_prompt", str("is ", num_prompt, " of ", num_ids, " ids"));
    }
    require(out, "out");
    if (num_out != num_ids - num_prompt) {
      refuse("num_out",
             str("is ", num_out, ", but there are ", num_ids - num_prompt, " log-probs"));
    }
    const std::vector<float> values =
        target->logprobs(sequence, static_cast<int64_t>(num_prompt), temperature);
    RL_CHECK(values.size() == num_out);
    std::copy(values.begin(), values.end(), out);
  });
}

rl_status rl_trainer_scores(rl_trainer* trainer, const rl_batch* batch, float* out, size_t num_out,
                            rl_error** err) {
  clear_array(out, num_out);
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    const auto box = use(batch, "batch");
    require(out, "out");
    if (num_out != box->samples.size()) {
      refuse("num_out",
             str("is ", num_out, " but the batch has ", box->samples.size(), " samples"));
    }
    std::ranges::copy(target->scores(box->samples), out);
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

rl_status rl_profiler_write_report(const rl_pipeline* pipeline, const rl_profiler* profiler,
                                   const char* path, size_t path_len, rl_error** err) {
  return guarded(err, pipeline, [&] {
    const auto run = use(pipeline, "pipeline");
    const auto recorded = profiler != nullptr ? use(profiler, "profiler") : nullptr;
    run->write_report(path_arg(path, path_len, "path"),
                      recorded != nullptr ? &recorded->recorder() : nullptr,
                      {{"librl", RL_VERSION_TEXT}});
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
