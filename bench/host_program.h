// The command line of bench programs that are hosts of librl: they know rl.h alone.
//
//   NAME --model PATH --out FILE [--quick]
#pragma once
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "rl.h"

namespace rl::bench {

inline void check(rl_status status, rl_error* error) {
  const std::unique_ptr<rl_error, decltype(&rl_error_release)> owner(error, rl_error_release);
  if (status != RL_OK) throw std::runtime_error(rl_error_text(error, RL_ERROR_SUMMARY, nullptr));
}

// Calls with the arguments and a place for the error, which is thrown.
template <typename F, typename... Args>
void call(F* function, Args... args) {
  rl_error* error = nullptr;
  const rl_status status = function(args..., &error);
  check(status, error);
}

// run(model, out, quick) measures and writes the file; what it throws is printed.
template <typename Run>
int host_program(const char* name, int argc, char** argv, const Run& run) {
  std::string model, out;
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--quick")
      quick = true;
    else if (argument == "--model" && i + 1 < argc)
      model = argv[++i];
    else if (argument == "--out" && i + 1 < argc)
      out = argv[++i];
  }
  if (model.empty() || out.empty()) {
    std::fprintf(stderr, "usage: %s --model PATH --out FILE [--quick]\n", name);
    return 2;
  }
  try {
    run(model, out, quick);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
  return 0;
}

}  // namespace rl::bench
