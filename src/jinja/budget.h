// Limits of a template: on its size when it is parsed, and on its cost when it runs. Exceeding a
// limit is Error(kResourceExhausted) naming it and its value.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/error.h"

namespace rl {

struct JinjaLimits {
  uint64_t max_template_bytes = uint64_t{1} << 20;
  uint64_t max_nodes = 100'000;                  // of the syntax tree
  uint64_t max_parse_depth = 100;                // nested constructs
  uint64_t max_steps = 20'000'000;               // nodes run; 8 per element, 1 per 4 bytes written
  uint64_t max_call_depth = 250;                 // open constructs, macros included
  uint64_t max_text_bytes = uint64_t{16} << 20;  // of the output, and of each intermediate text
  uint64_t max_value_depth = 100;                // nested lists and dicts
};

// Counts what one run has used. Every loop whose length the template controls spends from it.
class JinjaBudget {
 public:
  explicit JinjaBudget(const JinjaLimits& limits) : limits_(limits) {}

  void spend(uint64_t steps) {
    steps_ += steps;
    if (steps_ > limits_.max_steps) exceeded("steps", limits_.max_steps);
  }
  // Call before `count` elements are put into a list or visited one by one.
  void spend_items(uint64_t count) { spend(8 * count); }
  // Call before a text grows to `size` bytes, of which `added` are new.
  void spend_text(uint64_t size, uint64_t added) {
    if (size > limits_.max_text_bytes) exceeded("bytes of text", limits_.max_text_bytes);
    spend(added / 4);
  }
  void check_value_depth(uint64_t depth) const {
    if (depth > limits_.max_value_depth) exceeded("levels of nested data", limits_.max_value_depth);
  }
  uint64_t steps() const { return steps_; }
  const JinjaLimits& limits() const { return limits_; }

  // Held while a construct runs.
  class Level {
   public:
    explicit Level(JinjaBudget& budget) : budget_(budget) {
      if (budget_.depth_ >= budget_.limits_.max_call_depth) {
        exceeded("levels of nested constructs and macro calls", budget_.limits_.max_call_depth);
      }
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    JinjaBudget& budget_;
  };

 private:
  [[noreturn]] static void exceeded(const char* what, uint64_t limit) {
    throw Error(Code::kResourceExhausted,
                str("the chat template needs more than ", limit, " ", what))
        .with_expected(str("at most ", limit, " ", what));
  }
  const JinjaLimits limits_;
  uint64_t steps_ = 0;
  uint64_t depth_ = 0;
};

}  // namespace rl
