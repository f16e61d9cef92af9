// One template run over variables given as JSON.
#pragma once
#include <string>

#include "core/encoding/strict_json.h"
#include "jinja/eval.h"
#include "jinja/parser.h"

namespace rl::test {

inline std::string run_template(std::string_view text, const nlohmann::ordered_json& variables,
                                const JinjaLimits& limits = {}) {
  JinjaBudget budget(limits);
  const auto program = jinja::parse(text, "t", limits);
  jinja::Variables in;
  for (const auto& [name, value] : variables.items()) {
    in.values.emplace_back(name, jinja::from_json(value, budget));
  }
  return jinja::render(*program, in, budget).bytes();
}

}  // namespace rl::test
