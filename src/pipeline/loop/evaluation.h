// The evaluations of a run, between two steps: responses to the rows of eval.path, scored by the
// host like any sample and never trained on; or, if the trained model is a reward model, pairs that
// it scores itself. Ordinals count on over the whole run, so an evaluation never repeats the random
// numbers of an earlier one. The loop's thread alone uses it.
#pragma once
#include <cstdint>
#include <span>

#include "pipeline/loop/checkpoints.h"
#include "pipeline/loop/events.h"
#include "pipeline/loop/generation.h"
#include "pipeline/loop/prompt_supply.h"

namespace rl {

// How long a run waits for a host that saves or digests its weights.
inline constexpr int64_t kReaderWaitNs = int64_t{600} * 1'000'000'000;

// The parts of a run that its evaluations and its updates use.
struct RunParts {
  Control& control;
  LoadedModel& model;
  const PhaseArena& phases;
  const PromptSupply& prompts;
  Scoring& scoring;
  Generation& generation;
  RunFiles& files;
  Checkpoints& checkpoints;
  RunProgress& progress;
};

class Evaluation {
 public:
  explicit Evaluation(const RunParts& run) : run_(run) {}
  const RunParts& run_parts() const { return run_; }

  // One evaluation. False if the loop is to end before it is done.
  bool run();

 private:
  struct Begun {
    int64_t start_ns = 0;
    int64_t dropped = 0;  // groups of earlier evaluations
  };
  bool evaluate();
  void exchange_averages();
  Begun begin();
  void finish(const Begun& begun);
  void score_pairs();
  void send(EvalEvent event, std::span<const SamplePtr> scored);
  int64_t now() const { return run_.model.runtime().clock().now_ns(); }

  const RunParts run_;
};

}  // namespace rl
