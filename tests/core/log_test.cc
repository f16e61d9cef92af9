// The log is silent without a sink, filters by level and survives a failing sink.
#include "core/log.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "options/options.h"
#include "support/expect_error.h"

namespace rl {
namespace {

class Lines final : public LogSink {
 public:
  void write(LogLevel level, std::string_view component, std::string_view message) override {
    lines.push_back(str(log_level_name(level), " ", component, ": ", message));
  }
  std::vector<std::string> lines;
};

class Throwing final : public LogSink {
 public:
  void write(LogLevel, std::string_view, std::string_view) override {
    throw std::runtime_error("disk full");
  }
};

TEST(Logger, IsSilentWithoutASink) {
  Logger logger;
  EXPECT_FALSE(logger.enabled(LogLevel::kError));
  logger.log(LogLevel::kError, "core", "nobody hears");
  const auto sink = std::make_shared<Lines>();
  logger.set_sink(sink);
  EXPECT_TRUE(sink->lines.empty());
}

TEST(Logger, WritesLevelComponentAndMessageUpToItsLevel) {
  Logger logger;
  const auto sink = std::make_shared<Lines>();
  logger.set_sink(sink);
  logger.log(LogLevel::kInfo, "engine", "admitted ", 3, " of ", 4);
  logger.log(LogLevel::kDebug, "engine", "too fine");
  logger.set_level(LogLevel::kWarn);
  logger.log(LogLevel::kInfo, "engine", "too fine now");
  logger.log(LogLevel::kError, "trainer", "failed");
  logger.set_level(LogLevel::kOff);
  logger.log(LogLevel::kError, "trainer", "off");
  EXPECT_EQ(sink->lines,
            (std::vector<std::string>{"info engine: admitted 3 of 4", "error trainer: failed"}));
  logger.set_level(LogLevel::kInfo);
  logger.set_sink(nullptr);
  logger.log(LogLevel::kError, "trainer", "gone");
  EXPECT_EQ(sink->lines.size(), 2u);
}

TEST(Logger, SurvivesASinkThatThrows) {
  Logger logger;
  logger.set_sink(std::make_shared<Throwing>());
  logger.log(LogLevel::kError, "core", "lost");
}

TEST(Logger, TakesMessagesFromManyThreads) {
  Logger logger;
  const auto sink = std::make_shared<Lines>();
  logger.set_sink(sink);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&logger] {
      for (int i = 0; i < 100; ++i) logger.log(LogLevel::kInfo, "core", i);
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
