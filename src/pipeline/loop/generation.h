// Generates the samples of groups: submits their prompts, runs the engine, hands what it has
// finished to Scoring, and continues samples after the host's replies. Between the turns of a
// sample its keys and values stay in the engine's prefix cache as far as others leave room. The
// loop's thread alone uses it, in runs that have an engine.
#pragma once
#include <cstdint>
#include <map>

#include "pipeline/loop/control.h"
#include "pipeline/loop/phase_arena.h"
#include "pipeline/loop/run_files.h"
#include "pipeline/loop/scoring.h"

namespace rl {

class Generation {
 public:
  Generation(Control& control, LoadedModel& model, const PhaseArena& phases, Scoring& scoring,
             RunFiles& files)
      : control_(control), model_(model), phases_(phases), scoring_(scoring), files_(files) {}

  // Opens a group of a step. steps_done: when its prompt was drawn.
  void submit(const Prompt& prompt, uint64_t ordinal, int64_t steps_done);
  // Opens a group of an evaluation; request: all of it but the prompt.
  void submit_eval(Request request, const Prompt& prompt, uint64_t ordinal);
  // For steps. Whether a sample can be generated on, and whether one is generated or waits for a
  // reply.
  bool can_advance() const;
  bool active() const;
  // One forward, with the samples that were replied to; what it finishes is delivered. False if the
  // loop is to end first.
  bool advance(uint64_t steps_done);
  // Forgets the requests of groups that have ended.
  void forget_requests();
  // For evaluations: runs the engine until it is idle and no sample waits for a reply, with the
  // loop in this state. False if the loop is to end first. steps_done: for the events of engine
  // intervals.
  bool run(PipelineState state, Purpose purpose, uint64_t steps_done);

 private:
  void open(Request& request, const Prompt& prompt, uint64_t ordinal, int64_t steps_done);
  void submit_greedy(Request request);
  void step_engine(uint64_t steps_done);
  void note_forward(const EngineSet& engine);
  void submit_turns(Purpose purpose);
  void submit_turn(SamplePtr sample);

  Control& control_;
  LoadedModel& model_;
  const PhaseArena& phases_;
  Scoring& scoring_;
  RunFiles& files_;
  // Of the groups being generated, by ordinal, for turns: those of steps, or of an evaluation.
  std::map<uint64_t, Request> requests_;
};

}  // namespace rl
