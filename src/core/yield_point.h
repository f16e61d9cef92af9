// Where long work lets others have what it shares with them, such as the threads that compute.
#pragma once

namespace rl {

class YieldPoint {
 public:
  virtual ~YieldPoint() = default;
  // Called by whoever has its turn; returns once it has one again.
  virtual void yield() = 0;
};

}  // namespace rl
