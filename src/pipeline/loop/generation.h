// Generates the samples of groups: submits their prompts, runs the engine, and hands what it has
// finished to Scoring. The loop's thread alone uses it, in runs that have an engine.
#pragma once
#include <cstdint>

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

  // Opens a group of a step.
  void submit(const Prompt& prompt, uint64_t ordinal);
  // Opens a group of an evaluation; request: all of it but the prompt.
  void submit_eval(Request request, const Prompt& prompt, uint64_t ordinal);
  // Runs the engine until it is idle, with the loop in this state. False if the loop is to end
  // first. steps_done: for the events of engine intervals.
  bool run(PipelineState state, Purpose purpose, uint64_t steps_done);

 private:
  void open(Request& request, const Prompt& prompt, uint64_t ordinal);
  void submit_greedy(Request request);
  void step_engine(uint64_t steps_done);

  Control& control_;
  LoadedModel& model_;
  const PhaseArena& phases_;
  Scoring& scoring_;
  RunFiles& files_;
};

}  // namespace rl
