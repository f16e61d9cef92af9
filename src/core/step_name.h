// Names of what a run writes per step: "step_000123" plus a suffix. Other names do not belong to a
// run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rl {

std::string step_name(int64_t step, std::string_view suffix = "");
// The step of a name that step_name returns for this suffix; nullopt for any other name.
std::optional<int64_t> step_of(std::string_view name, std::string_view suffix = "");

}  // namespace rl
