// Runs a chat template over data. A run is a pure function of program, variables and limits; it
// reads no clock and nothing else of the machine. Many threads may run one program.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/marked_text.h"

namespace rl::jinja {

struct Variables {
  std::vector<std::pair<std::string, Value>> values;
  // The current time for strftime_now(); without it the function is undefined, so that templates
  // which test for it use their own fixed date.
  std::optional<std::string> now;
};

// Errors are located at "name:line:column" of the construct that failed. raise_exception() is
// Error(kInvalidArgument) with the template's text, an exceeded limit Error(kResourceExhausted).
MarkedText render(const Program& program, const Variables& variables, JinjaBudget& budget);

}  // namespace rl::jinja
