// What an object refuses of its options before it is made, beside the rules of the registry.
#pragma once
#include <vector>

#include "core/error.h"
#include "options/options.h"

namespace rl {

class LoadedModel;

// Everything that a run would refuse later, in a step, or that nothing in it would read: what the
// records themselves check, stops that the model or its tokenizer does not know, an experiment that
// is no name, options of an engine that is never made. Errors name the key.
std::vector<Error> run_violations(const OptionSet& options, const LoadedModel& model);
// Options that act in a pipeline only, for an object of a host's own loop: "an engine", "a
// trainer".
std::vector<Error> part_violations(const OptionSet& options, const char* part);

}  // namespace rl
