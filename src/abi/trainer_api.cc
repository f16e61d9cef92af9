// Trainers for a host's own loop, and the profiler.
#include <cmath>
#include <cstring>
#include <limits>

#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"
#include "abi/model_parts.h"

using namespace rl;
using namespace rl::abi;

namespace {

// Uses the rewards as they are when the call begins.
TrainedStep train(TrainerSession& trainer, const rl_step& step) {
  const auto box = use(step.batch, "step.batch");
  const auto given = array_arg(step.advantages, step.num_advantages, "step.advantages");
  if (step.advantages == nullptr) return trainer.step(box->samples, box->rewards());
  if (given.size() != box->samples.size()) {
    refuse("step.num_advantages",
           str("is ", given.size(), " but the batch has ", box->samples.size(), " samples"));
  }
  return trainer.step_with_advantages(box->samples, box->rewards(), given);
}

void refuse_range(const char* field, std::string message) {
  throw Error(Code::kOutOfRange, str("parameter ", field, " ", message)).with_key(field);
}

// The sequence of ids as a sample.
SamplePtr sequence_of(const rl_forward& in) {
  const auto ids = array_arg(in.ids, in.num_ids, "forward.ids");
  if (ids.empty()) refuse("forward.num_ids", "is 0");
  if (ids.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    refuse_range("forward.num_ids", str("is ", ids.size()));
  }
  const bool cut = in.output == RL_OUTPUT_LOGPROBS;
  if (cut && (in.num_prompt == 0 || in.num_prompt >= in.num_ids)) {
    refuse_range("forward.num_prompt", str("is ", in.num_prompt, " of ", in.num_ids, " ids"));
  }
  if (cut && (!(in.temperature > 0) || !std::isfinite(in.temperature))) {
    refuse_range("forward.temperature", str("is ", in.temperature, "; it must be > 0"));
  }
  auto sample = std::make_shared<Sample>();
  sample->ids.assign(ids.begin(), ids.end());
  sample->prompt_tokens = cut ? static_cast<int32_t>(in.num_prompt) : 1;
  sample->temperature = cut ? in.temperature : 1;
  return sample;
}

std::vector<SamplePtr> sequences_of(const rl_forward& in) {
  if (in.batch == nullptr) return {sequence_of(in)};
  if (in.ids != nullptr || in.num_ids != 0) refuse("forward.ids", "is given beside forward.batch");
  return use(in.batch, "forward.batch")->samples;
}

TensorPtr tensor_of(const std::vector<float>& values) {
  const OwnedTensor out = make_tensor(ElementType::kF32, {static_cast<int64_t>(values.size())});
  std::memcpy(out.data, values.data(), values.size() * sizeof(float));
  return out.tensor;
}

TensorPtr forward_output(TrainerSession& trainer, const rl_forward& in) {
  switch (in.output) {
    case RL_OUTPUT_LOGPROBS:
      return tensor_of(trainer.logprobs(sequences_of(in)));
    case RL_OUTPUT_SCORES:
      return tensor_of(trainer.scores(sequences_of(in)));
    case RL_OUTPUT_HIDDEN:
      break;
    default:
      refuse("forward.output",
             str("is ", in.output, ", expected RL_OUTPUT_LOGPROBS to RL_OUTPUT_SCORES"));
  }
  const std::vector<SamplePtr> sequences = sequences_of(in);
  if (in.batch != nullptr) {
    throw Error(Code::kUnsupported,
                "parameter forward.batch is given, but hidden states are those of forward.ids")
        .with_key("forward.batch");
  }
  return trainer.hidden(sequences.front()->ids);
}

}  // namespace

extern "C" {

rl_status rl_trainer_create(rl_model* model, const rl_options* options, rl_trainer** out,
                            rl_error** err) {
  return create_on_model<TrainerSession>(model, options, out, err);
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
    const auto event = std::make_shared<StepEvent>();
    TrainedStep done = train(*target, input);
    event->step = done.step;
    event->version = done.version;
    event->metrics = std::move(done);
    *out = place.fill(event);
  });
}

void rl_forward_init(rl_forward* forward, size_t size) {
  if (!init_struct(forward, size, sizeof(*forward))) return;
  forward->output = RL_OUTPUT_LOGPROBS;
  forward->temperature = 1;
}

rl_status rl_trainer_forward(rl_trainer* trainer, const rl_forward* forward, rl_tensor** out,
                             rl_error** err) {
  clear(out);
  return guarded(err, trainer, [&] {
    const auto target = use(trainer, "trainer");
    const rl_forward input = input_struct(forward, "forward");
    require(out, "out");
    *out = issue<rl_tensor>(forward_output(*target, input));
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
