// An option to turn when memory is short, and the error that names those which help.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace rl {

// What turning a knob changes. Numbers are part of the ABI.
enum class KnobEffect : int32_t {
  kSpeed = 1,     // time alone: samples, log-probs and gradients have the same bits
  kRounding = 2,  // how numbers are rounded, and so the bits of gradients, samples or both
  kRun = 3,       // what is computed: shorter sequences, fewer evaluations, no KL
};

struct Knob {
  std::string key;
  std::string value;     // the present one
  std::string proposed;  // to set
  // By which the smallest plan shrinks when this knob is turned after all before it in its list.
  uint64_t saved_bytes = 0;
  double time_ratio = 1;  // estimated time of a step with the knob turned, by that before
  KnobEffect effect = KnobEffect::kSpeed;
};

// Memory is short: Code::kResourceExhausted for a budget, kOutOfMemory for the system's.
class MemoryError : public Error {
 public:
  MemoryError(Error error, std::vector<Knob> knobs)
      : Error(std::move(error)), knobs(std::move(knobs)) {}

  std::vector<Knob> knobs;  // in the order to turn them
};

}  // namespace rl
