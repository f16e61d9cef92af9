// What belongs to a process and not to a library in it: signals, environment, locale, rounding,
// limits, descriptors. A snapshot is a map from names to values, so that two can be compared.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace abi_test {

using State = std::map<std::string, std::string>;

// Everything but descriptors, which are the library's own while its objects live.
State process_state();
// Open descriptors and what they are.
State descriptors();
// Names and values that differ, a line each.
std::string difference(const State& before, const State& after);
// Threads of the process beside the main one that some signal could still interrupt.
std::string interruptible_threads();

}  // namespace abi_test
