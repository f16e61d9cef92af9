#include "pipeline/flow/flow.h"

namespace rl {

void Flow::run() {
  while (turn()) {
  }
}

// Changes are counted before anybody looks, so that none is missed between the look and the wait.
bool Flow::turn() {
  const uint64_t seen = ports_.waits.num_changes();
  const Turn trained = consumer_.advance(ending_);
  if (trained == Turn::kEnd) return false;
  const Turn produced = ending_ ? Turn::kNothing : producer_.advance(ports_.update.progress());
  ending_ = ending_ || produced == Turn::kEnd;
  if (!ending_ && trained == Turn::kNothing && produced == Turn::kNothing) {
    if (consumer_.starves()) return false;
    ending_ = ports_.waits.wait(seen) == Turn::kEnd;
  }
  return !ending_ || consumer_.training();
}

}  // namespace rl
