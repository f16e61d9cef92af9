// The work of the four example programs on a tiny model, as functions that throw when a call
// fails: hello, generate, train_step and grpo. Whatever happens, a scenario has ended all its
// handles when it returns.
#pragma once
#include <cstdio>
#include <exception>
#include <span>
#include <string>

#include "gates/api.h"

namespace gates {

// Where a scenario finds its model (a GGUF file with a tokenizer) and may write; dir exists.
struct Place {
  std::string model, dir;
};

// The first call that failed; text is the error's summary.
struct Failure {
  rl_status status;
  std::string function, text;
};

// Returns a digest of what the library computed; throws Failure.
using ScenarioFn = uint64_t (*)(const Api&, const Place&);

uint64_t run_hello(const Api& rl, const Place& place);
uint64_t run_generate(const Api& rl, const Place& place);
// Generate, put, save and load a buffer file, take, train, publish, save the model.
uint64_t run_train_step(const Api& rl, const Place& place);
// Two steps of the loop with evaluation, metrics, trace, checkpoints and report; resumes from the
// newest checkpoint of place.dir if there is one.
uint64_t run_grpo(const Api& rl, const Place& place);
// The same with checkpoint.async. It is not among scenarios(): the order of its calls on the heap
// and on files differs from run to run.
uint64_t run_grpo_async(const Api& rl, const Place& place);

struct Scenario {
  const char* name;
  ScenarioFn run;
};
std::span<const Scenario> scenarios();

// Empties the directory and writes the data files that run_grpo reads.
void prepare(const Place& place);

// The result of main: body's, or 1 after printing what it threw.
template <typename Body>
int reported(Body body) {
  try {
    return body();
  } catch (const Failure& failure) {
    std::printf("%s: %s\n", failure.function.c_str(), failure.text.c_str());
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
  }
  return 1;
}

}  // namespace gates
