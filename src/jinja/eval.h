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
  // What strftime_now() takes for the present; without it the function is not defined, so that
  // templates which ask for it use their own fixed date.
  std::optional<std::string> now;
};

// An error is located at "name:line:column" of the construct that failed. raise_exception() is
// Error(kInvalidArgument) with the template's text, a passed limit Error(kResourceExhausted).
MarkedText render(const Program& program, const Variables& variables, JinjaBudget& budget);

}  // namespace rl::jinja
