// Drives producer and consumer of a run in turn on one thread: a micro-batch of training, then a
// forward of the engine, or as many of each as the rules say, whenever both have work. Which of
// them goes first changes no bit of a sample, for a sample depends on its prompt, its number and
// the weights alone.
#pragma once
#include "pipeline/flow/consumer.h"

namespace rl {

class Flow {
 public:
  struct Ports {
    RolloutPort& rollout;
    UpdatePort& update;
    WaitPort& waits;
  };
  // The rules may change between two steps.
  Flow(const FlowRules& rules, const Ports& ports)
      : rules_(rules),
        ports_(ports),
        producer_(rules, ports.rollout),
        consumer_(rules, producer_, ports.rollout, ports.update) {}
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // Until the last step, the end of the prompts, or the host's. A step that is training is finished
  // first.
  void run();
  // One turn of both; false once the run is over.
  bool turn();

 private:
  const FlowRules& rules_;
  Ports ports_;
  Producer producer_;
  Consumer consumer_;
  bool ending_ = false;  // the host ends the run
};

}  // namespace rl
