// The log is silent without a sink, filters by level and survives a failing sink.
#include "core/log.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "options/options.h"
#include "support/expect_error.h"
#include "support/fake_clock.h"

namespace rl {
namespace {

class Lines final : public LogSink {
 public:
  void write(const LogRecord& r) override {
    std::string line = str(log_level_name(r.level), " ", r.component, ": ", r.message);
    for (const LogField& f : r.fields) {
      line += str(" ", f.name(), "=", f.text(), f.is_number() ? " (number)" : "");
    }
    lines.push_back(line);
    times.emplace_back(r.time_ns, r.unix_ns);
  }
  std::vector<std::string> lines;
  std::vector<std::pair<int64_t, int64_t>> times;
};

class Throwing final : public LogSink {
 public:
  void write(const LogRecord&) override { throw std::runtime_error("disk full"); }
};

TEST(Logger, IsSilentWithoutASink) {
  Logger logger;
  EXPECT_FALSE(logger.enabled(LogLevel::kError));
  logger.log(LogLevel::kError, "core", {}, "nobody hears");
  const auto sink = std::make_shared<Lines>();
  logger.set_sink(sink);
  EXPECT_TRUE(sink->lines.empty());
}

TEST(Logger, WritesLevelComponentAndMessageUpToItsLevel) {
  Logger logger;
  const auto sink = std::make_shared<Lines>();
  logger.set_sink(sink);
  logger.log(LogLevel::kInfo, "engine", {}, "admitted ", 3, " of ", 4);
  logger.log(LogLevel::kDebug, "engine", {}, "too fine");
  logger.set_level(LogLevel::kWarn);
  logger.log(LogLevel::kInfo, "engine", {}, "too fine now");
  logger.log(LogLevel::kError, "trainer", {}, "failed");
  logger.set_level(LogLevel::kOff);
  logger.log(LogLevel::kError, "trainer", {}, "off");
  EXPECT_EQ(sink->lines,
            (std::vector<std::string>{"info engine: admitted 3 of 4", "error trainer: failed"}));
  logger.set_level(LogLevel::kInfo);
  logger.set_sink(nullptr);
  logger.log(LogLevel::kError, "trainer", {}, "gone");
  EXPECT_EQ(sink->lines.size(), 2u);
}

TEST(Logger, FieldsHoldTheFactsOfAMessageAndOfAnError) {
  FakeClock clock;
  Logger logger(clock);
  const auto sink = std::make_shared<Lines>();
  logger.set_sink(sink);
  const std::string path = "run/step_7";
  logger.log(LogLevel::kInfo, "pipeline", {{"path", path}, {"step", uint64_t{7}}}, "resumed");
  clock.advance(5);
  logger.log_error(
      LogLevel::kWarn, "engine",
      Error(Code::kIo, "cannot read").with_key("a.b").with_location("file").with_system_code(5));
  logger.log_error(LogLevel::kWarn, "engine", Error(Code::kInternal, "odd"));
  logger.log_error(LogLevel::kDebug, "engine", Error(Code::kInternal, "too fine"));
  EXPECT_EQ(sink->lines,
            (std::vector<std::string>{"info pipeline: resumed path=run/step_7 step=7 (number)",
                                      "warn engine: cannot read code=RL_IO key=a.b location=file "
                                      "system_code=5 (number)",
                                      "warn engine: odd code=RL_INTERNAL"}));
  EXPECT_EQ(sink->times[0], std::pair(clock.now_ns() - 5, clock.unix_ns() - 5));
  EXPECT_EQ(sink->times[1], std::pair(clock.now_ns(), clock.unix_ns()));
}

TEST(Logger, SurvivesASinkThatThrows) {
  Logger logger;
  logger.set_sink(std::make_shared<Throwing>());
  logger.log(LogLevel::kError, "core", {}, "lost");
}

TEST(Logger, TakesMessagesFromManyThreads) {
  Logger logger;
  const auto sink = std::make_shared<Lines>();
  logger.set_sink(sink);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&logger] {
      for (int i = 0; i < 100; ++i) logger.log(LogLevel::kInfo, "core", {}, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sink->lines.size(), 400u);
}

TEST(LogLevel, NamesAreTheChoicesOfTheOption) {
  const OptionInfo& info = require_option("runtime.log_level");
  ASSERT_EQ(info.num_choices, 5u);
  for (size_t i = 0; i < info.num_choices; ++i) {
    const LogLevel level = parse_log_level(info.choices[i].name);
    EXPECT_EQ(static_cast<size_t>(level), i);
    EXPECT_STREQ(log_level_name(level), info.choices[i].name);
  }
  expect_error(Code::kOutOfRange, [] { parse_log_level("loud"); });
}

}  // namespace
}  // namespace rl
