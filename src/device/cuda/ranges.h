// Named ranges that a profiler of the GPU shows (NVTX). Without functions, which is the default, a
// range costs one branch.
#pragma once

namespace rl::cuda {

struct RangeFunctions {
  void (*push)(const char* name) = nullptr;
  void (*pop)() = nullptr;
};
// Those of NVTX.
RangeFunctions nvtx_functions();

class Range {
 public:
  Range(const RangeFunctions& functions, const char* name) : pop_(functions.pop) {
    if (functions.push != nullptr) functions.push(name);
  }
  ~Range() {
    if (pop_ != nullptr) pop_();
  }
  Range(const Range&) = delete;

 private:
  void (*pop_)();
};

}  // namespace rl::cuda
