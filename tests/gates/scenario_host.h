// A host of the library for gates: RAII handles, and calls whose failure is thrown as a Failure.
#pragma once
#include <span>
#include <string>
#include <utility>

#include "gates/gate_scenarios.h"

namespace gates {

// Ends its handle when it goes out of scope.
template <typename T>
class Handle {
 public:
  explicit Handle(void (*end)(T*)) : end_(end) {}
  ~Handle() { end_(value_); }
  Handle(const Handle&) = delete;
  operator T*() const { return value_; }
  T** out() {
    end_(std::exchange(value_, nullptr));
    return &value_;
  }

 private:
  void (*end_)(T*);
  T* value_ = nullptr;
};

class Host {
 public:
  explicit Host(const Api& rl) : rl_(rl), options(rl.rl_options_destroy) {}

  // Calls fn with err as the last argument; a failure is thrown, a result is returned.
  template <typename... Parameters, typename... Arguments>
  rl_status call(const char* name, rl_status (*fn)(Parameters...),
                 const Arguments&... arguments) const {
    rl_error* err = nullptr;
    const rl_status status = fn(arguments..., &err);
    const bool failed = status >= RL_INVALID_ARGUMENT;
    if (!failed && err == nullptr) return status;
    Failure failure{status, name, rl_.rl_error_text(err, RL_ERROR_SUMMARY, nullptr)};
    if (rl_.rl_error_code(err) != status) failure = {RL_INTERNAL, name, "status and error differ"};
    rl_.rl_error_release(err);
    throw failure;
  }

  void set(const char* key, const std::string& text) const {
    call("rl_options_set_text", rl_.rl_options_set_text, options, key, RL_NUL_TERMINATED,
         text.c_str(), text.size());
  }

 private:
  const Api& rl_;

 public:
  Handle<rl_options> options;
};

// A call in a function that has `rl` and `host`.
#define CALL(function, ...) host.call(#function, rl.function __VA_OPT__(, ) __VA_ARGS__)

// The error text of a call; "" if it worked.
template <typename... Parameters, typename... Arguments>
std::string error_text(const Host& host, rl_status (*fn)(Parameters...),
                       const Arguments&... arguments) {
  try {
    host.call("", fn, arguments...);
    return "";
  } catch (const Failure& failure) {
    return failure.text;
  }
}

// Generates two samples of a prompt to their end.
void generate(const Api& rl, const Host& host, rl_engine* engine, Handle<rl_batch>& batch,
              std::span<const int32_t> prompt);

// run_grpo with these options.
uint64_t run_loop(const Api& rl, const Host& host, const Place& place);

// Sets the options of a scenario on single objects, and of run_grpo.
void small_options(const Api& rl, Host& host, const Place& place);
void grpo_options(const Api& rl, Host& host, const Place& place);

}  // namespace gates
