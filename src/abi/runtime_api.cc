// Runtimes and their log.
#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/user_data.h"

using namespace rl;
using namespace rl::abi;

namespace {

class HostLog final : public LogSink {
 public:
  HostLog(rl_log_fn fn, UserData user) : fn_(fn), user_(std::move(user)) {}
  void write(LogLevel level, std::string_view component, std::string_view message) override {
    const std::string component_text(component), message_text(message);
    const CallbackScope scope;
    fn_(user_.data(), static_cast<int32_t>(level), component_text.c_str(), component_text.size(),
        message_text.c_str(), message_text.size());
  }

 private:
  rl_log_fn fn_;
  UserData user_;
};

// Before 1.0 each minor version is an interface of its own; from 1.0 on a library serves the minor
// versions before it too.
bool serves(uint32_t major, uint32_t minor) {
  if (major != RL_ABI_MAJOR) return false;
  return RL_ABI_MAJOR == 0 ? minor == RL_ABI_MINOR : minor <= RL_ABI_MINOR;
}

void check_header(uint32_t header_abi) {
  const uint32_t major = header_abi >> 16, minor = header_abi & 0xffff;
  if (serves(major, minor)) return;
  throw Error(Code::kIncompatible,
              str("parameter header_abi: the program was compiled for interface ", major, ".",
                  minor, ", the library offers ", RL_ABI_MAJOR, ".", RL_ABI_MINOR,
                  "; is an old librl.so found first?"))
      .with_key("header_abi");
}

}  // namespace

extern "C" {

rl_status rl_runtime_create(uint32_t header_abi, const rl_options* options, rl_runtime** out,
                            rl_error** err) {
  clear(out);
  return guarded(err, nullptr, [&] {
    check_header(header_abi);
    const OptionSet set = options_or(options, OptionSet());
    require(out, "out");
    *out = issue<rl_runtime>(std::make_shared<Runtime>(set));
  });
}

void rl_runtime_destroy(rl_runtime* runtime) { destroy(runtime); }

rl_status rl_runtime_set_log(rl_runtime* runtime, rl_log_fn fn, void* user_data,
                             rl_destroy_fn destroy, rl_error** err) {
  UserData user(user_data, destroy);
  return guarded(err, runtime, [&] {
    const auto target = use(runtime, "runtime");
    std::shared_ptr<LogSink> sink;
    if (fn != nullptr) sink = std::make_shared<HostLog>(fn, std::move(user));
    target->logger().set_sink(std::move(sink));
  });
}

rl_status rl_runtime_threads(const rl_runtime* runtime, int64_t* out, rl_error** err) {
  clear(out);
  return guarded(err, runtime, [&] {
    const auto source = use(runtime, "runtime");
    require(out, "out");
    *out = source->num_threads();
  });
}

rl_status rl_runtime_reserved_bytes(const rl_runtime* runtime, uint64_t* out, rl_error** err) {
  clear(out);
  return guarded(err, runtime, [&] {
    const auto source = use(runtime, "runtime");
    require(out, "out");
    *out = source->ledger().bytes();
  });
}

}  // extern "C"
