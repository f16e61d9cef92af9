// The log. A Logger belongs to one runtime and is silent until the host gives it a sink. Messages
// are built only when they will be written. Thread-safe.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "core/error.h"

namespace rl {

// Numbers are part of the ABI; names are the choices of runtime.log_level.
enum class LogLevel : int32_t { kOff = 0, kError = 1, kWarn = 2, kInfo = 3, kDebug = 4 };

const char* log_level_name(LogLevel level);
// kOutOfRange for any other name.
LogLevel parse_log_level(std::string_view name);

// Where messages go. write is called by any thread, one call at a time. An exception from it is
// dropped: logging never fails an operation.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void write(LogLevel level, std::string_view component, std::string_view message) = 0;
};

class Logger {
 public:
  // Null silences the log. On return, the previous sink is no longer called.
  void set_sink(std::shared_ptr<LogSink> sink);
  void set_level(LogLevel level);
  LogLevel level() const { return level_.load(std::memory_order_relaxed); }

  bool enabled(LogLevel level) const {
    return has_sink_.load(std::memory_order_relaxed) && level <= this->level();
  }
  // logger.log(LogLevel::kInfo, "engine", "admitted ", n, " sequences")
  template <typename... Ts>
  void log(LogLevel level, std::string_view component, const Ts&... parts) {
    if (enabled(level)) write(level, component, str(parts...));
  }

 private:
  void write(LogLevel level, std::string_view component, std::string_view message);

  std::atomic<bool> has_sink_{false};
  std::atomic<LogLevel> level_{LogLevel::kInfo};
  std::mutex mutex_;
  std::shared_ptr<LogSink> sink_;
};

}  // namespace rl
