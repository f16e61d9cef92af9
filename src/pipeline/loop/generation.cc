// The loop takes a pause or a stop between two forwards.
#include "pipeline/loop/generation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "pipeline/config/run_options.h"
#include "pipeline/loop/events.h"
#include "pipeline/update/engine_metrics.h"

namespace rl {

void Generation::open(Request& r, const Prompt& prompt, uint64_t ordinal, int64_t steps_done) {
  r.prompt = prompt.ids;
  add_turn_stops(r, prompt.stop_ids);
  r.ordinal = ordinal;
  r.first_sample_id = scoring_.sample_id(r.purpose, ordinal, 0);
  scoring_.open(r.purpose, ordinal, prompt, steps_done);
  phases_.engine()->submit(r);
  if (control_.settings().pipeline.turns != PipelineTurns::kNone) requests_[ordinal] = r;
}

void Generation::submit(const Prompt& prompt, uint64_t ordinal, int64_t steps_done) {
  const Settings& settings = control_.settings();
  Request r = request_from(settings);
  r.num_samples = settings.pipeline.samples_per_prompt;
  open(r, prompt, ordinal, steps_done);
  if (settings.algo.advantage == Advantage::kRemax) submit_greedy(std::move(r));
}

// Submits the group's request again for its greedy response, in the slot after the others.
void Generation::submit_greedy(Request r) {
  const auto slot = static_cast<uint32_t>(r.num_samples);
  r.sampling.temperature = 0;
  r.num_samples = 1;
  r.first_sample_id = scoring_.sample_id(r.purpose, r.ordinal, slot);
  phases_.engine()->submit(r);
}

void Generation::submit_eval(Request r, const Prompt& prompt, uint64_t ordinal) {
  open(r, prompt, ordinal, 0);
}

bool Generation::can_advance() const {
  const EngineSet* const engine = phases_.engine();
  return engine != nullptr && (!engine->nothing_runnable() || scoring_.has_replies());
}

bool Generation::active() const {
  const EngineSet* const engine = phases_.engine();
  return engine != nullptr && (!engine->idle() || scoring_.has_turns(Purpose::kTrain));
}

bool Generation::advance(uint64_t steps_done) {
  if (!control_.enter(PipelineState::kGenerating)) return false;
  submit_turns(Purpose::kTrain);
  if (!phases_.engine()->nothing_runnable()) {
    step_engine(steps_done);
    scoring_.deliver(Purpose::kTrain);
  }
  scoring_.push_dropped();
  return true;
}

void Generation::forget_requests() {
  std::erase_if(requests_, [&](const auto& item) { return !scoring_.is_open(item.first); });
}

bool Generation::run(PipelineState state, Purpose purpose, uint64_t steps_done) {
  const EngineSet& engine = *phases_.engine();
  while (!engine.idle() || scoring_.has_turns(purpose)) {
    if (!control_.enter(state)) return false;
    submit_turns(purpose);
    if (engine.idle()) {
      scoring_.await_reply(purpose);
    } else {
      step_engine(steps_done);
      scoring_.deliver(purpose);
    }
    scoring_.push_dropped();
  }
  requests_.clear();
  return true;
}

void Generation::submit_turns(Purpose purpose) {
  for (SamplePtr& sample : scoring_.take_replies(purpose)) submit_turn(std::move(sample));
}

// The request of the group again, for one sample from where it is. Its tokens are bounded by what
// is left of the longest sequence, too.
void Generation::submit_turn(SamplePtr sample) {
  Request r = requests_.at(sample->ordinal);
  const bool greedy = sample->slot >= static_cast<uint64_t>(r.num_samples);
  if (greedy) r.sampling.temperature = 0;
  r.prompt.clear();
  r.num_samples = 1;
  r.first_slot = sample->slot;
  r.first_sample_id = sample->id;
  const int64_t room = scoring_.max_model_len() - static_cast<int64_t>(sample->ids.size());
  r.max_new_tokens = std::min(r.max_new_tokens, room);
  r.resume = std::move(sample);
  phases_.engine()->submit(r);
}

void Generation::note_forward(const EngineSet& engine) {
  const Control::Lock lock = control_.lock();
  RunSchedule& schedule = control_.schedule(lock);
  if (!schedule.active()) return;
  schedule.note(ScheduledKind::kForward,
                {model_.version(), static_cast<uint64_t>(engine.num_begun()),
                 static_cast<uint64_t>(engine.stats().generated_tokens)});
}

// One forward, and the metrics of the engine interval that ends with it. Their line in the metrics
// file belongs to the step in progress: a resume that repeats the step removes it.
void Generation::step_engine(uint64_t steps_done) {
  EngineSet& engine = *phases_.engine();
  engine.step();
  note_forward(engine);
  const auto interval = engine.take_interval();
  if (!interval) return;
  auto event = std::make_shared<EngineStatsEvent>();
  event->step = steps_done;
  event->version = model_.version();
  event->engine = interval->first;
  event->metrics = interval_metrics(interval->first, interval->second);
  files_.records().write_engine(event->step + 1, event->metrics);
  control_.push(std::move(event));
}

}  // namespace rl
