// What an object refuses of its options before it is made, in addition to the registry's rules.
#pragma once
#include <vector>

#include "core/error.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

class LoadedModel;

// Everything that a step of the run would refuse later, or that nothing in the run would read:
// what the option records themselves check, stops that the model or its tokenizer does not know,
// an invalid experiment name, options of an engine that is never made. Errors name the key.
std::vector<Error> run_violations(const Settings& settings, const LoadedModel& model);
// What the option records of a policy update refuse, of options that pass the registry's rules.
std::vector<Error> update_violations(const Settings& settings);
// Options that only act in a pipeline, for an object of a host's own loop: part is "an engine" or
// "a trainer".
std::vector<Error> session_violations(const OptionSet& options, const char* part);

}  // namespace rl
