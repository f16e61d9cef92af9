// Delivers log messages to a runtime's sink.
#include "core/log.h"

namespace rl {
namespace {
constexpr const char* kNames[] = {"off", "error", "warn", "info", "debug"};
}  // namespace

const char* log_level_name(LogLevel level) {
  const auto index = static_cast<size_t>(level);
  RL_CHECK(index < std::size(kNames));
  return kNames[index];
}

LogLevel parse_log_level(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<LogLevel>(i);
  }
  throw Error(Code::kOutOfRange, str("there is no log level \"", name, "\""))
      .with_key("runtime.log_level")
      .with_expected("one of off, error, warn, info, debug");
}

void Logger::set_sink(std::shared_ptr<LogSink> sink) {
  {
    const std::lock_guard lock(mutex_);
    has_sink_.store(sink != nullptr, std::memory_order_relaxed);
    sink_.swap(sink);
  }
  // The old sink is destroyed here, outside the lock: its destructor may log.
}

void Logger::set_level(LogLevel level) { level_.store(level, std::memory_order_relaxed); }

void Logger::write(LogLevel level, std::string_view component, std::string_view message) {
  const std::lock_guard lock(mutex_);
  if (sink_ == nullptr) return;
  try {
    sink_->write(level, component, message);
  } catch (...) {
    // A sink that fails loses its message, never the operation that logged it.
  }
}

}  // namespace rl
