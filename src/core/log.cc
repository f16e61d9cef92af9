// Delivers log messages to a runtime's sink.
#include "core/log.h"

#include <vector>

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

void Logger::log_error(LogLevel level, std::string_view component, const Error& error) {
  if (!enabled(level)) return;
  std::vector<LogField> fields = {{"code", code_name(error.code)}};
  if (!error.key.empty()) fields.emplace_back("key", error.key);
  if (!error.location.empty()) fields.emplace_back("location", error.location);
  if (error.system_code != 0) fields.emplace_back("system_code", error.system_code);
  write(level, component, fields, error.message);
}

void Logger::write(LogLevel level, std::string_view component, std::span<const LogField> fields,
                   std::string_view message) {
  const std::lock_guard lock(mutex_);
  if (sink_ == nullptr) return;
  try {
    sink_->write({level, component, message, fields, clock_.now_ns(), clock_.unix_ns()});
  } catch (...) {
    // A sink that fails loses its message, never the operation that logged it.
  }
}

}  // namespace rl
