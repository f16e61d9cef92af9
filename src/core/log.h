// The log. A Logger belongs to one runtime and is silent until the host gives it a sink. Messages
// are built only when they will be written. A message is for people; its fields hold the same facts
// for programs. Thread-safe.
#pragma once
#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <variant>

#include "core/clock.h"
#include "core/error.h"

namespace rl {

// Numbers are part of the ABI; names are the choices of runtime.log_level.
enum class LogLevel : int32_t { kOff = 0, kError = 1, kWarn = 2, kInfo = 3, kDebug = 4 };

const char* log_level_name(LogLevel level);
// kOutOfRange for any other name.
LogLevel parse_log_level(std::string_view name);

// A named fact of a message, such as {"step", 7}. It refers to its texts, and allocates nothing.
class LogField {
 public:
  template <std::integral T>
  LogField(const char* name, T value) : name_(name), value_(static_cast<int64_t>(value)) {}
  LogField(const char* name, std::string_view value) : name_(name), value_(value) {}
  LogField(const char* name, const std::string& value) : name_(name), value_(value) {}
  LogField(const char* name, const char* value) : name_(name), value_(std::string_view(value)) {}

  const char* name() const { return name_; }
  bool is_number() const { return std::holds_alternative<int64_t>(value_); }
  std::string text() const {
    return is_number() ? str(std::get<int64_t>(value_))
                       : std::string(std::get<std::string_view>(value_));
  }

 private:
  const char* name_;
  std::variant<int64_t, std::string_view> value_;
};

struct LogRecord {
  LogLevel level;
  std::string_view component, message;
  std::span<const LogField> fields;
  int64_t time_ns, unix_ns;  // of the two clocks
};

// Where messages go. write is called by any thread, one call at a time. An exception from it is
// dropped: logging never fails an operation.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void write(const LogRecord& record) = 0;
};

class Logger {
 public:
  explicit Logger(const Clock& clock = real_clock()) : clock_(clock) {}
  Logger(const Logger&) = delete;

  // Null silences the log. On return, the previous sink is no longer called.
  void set_sink(std::shared_ptr<LogSink> sink);
  void set_level(LogLevel level);
  LogLevel level() const { return level_.load(std::memory_order_relaxed); }

  bool enabled(LogLevel level) const {
    return has_sink_.load(std::memory_order_relaxed) && level <= this->level();
  }
  // logger.log(LogLevel::kInfo, "engine", {{"sequences", n}}, "admitted ", n, " sequences")
  template <typename... Ts>
  void log(LogLevel level, std::string_view component, std::initializer_list<LogField> fields,
           const Ts&... parts) {
    if (enabled(level)) write(level, component, {fields.begin(), fields.size()}, str(parts...));
  }
  // The message of an error, with its code and what it names as fields.
  void log_error(LogLevel level, std::string_view component, const Error& error);

 private:
  void write(LogLevel level, std::string_view component, std::span<const LogField> fields,
             std::string_view message);

  const Clock& clock_;
  std::atomic<bool> has_sink_{false};
  std::atomic<LogLevel> level_{LogLevel::kInfo};
  std::mutex mutex_;
  std::shared_ptr<LogSink> sink_;
};

}  // namespace rl
