// The event file, read back by a small reader of its own that shares no code with the writer but
// the CRC, which is checked against published values first.
#include "profile/tensorboard_writer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "profile/metrics_writer.h"
#include "support/fake_clock.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

struct Event {
  double wall_time = 0;
  uint64_t step = 0;
  std::string version, session_log;
  std::map<std::string, float> scalars;
};

// A protobuf message, field by field.
class Message {
 public:
  explicit Message(std::string_view data) : data_(data) {}
  bool more() const { return at_ < data_.size(); }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(data_.at(at_++));
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  template <typename T>
  T fixed() {
    T value;
    const std::string_view part = bytes(sizeof value);
    std::memcpy(&value, part.data(), sizeof value);
    return value;
  }
  std::string_view bytes(uint64_t size) {
    if (size > data_.size() - at_) throw std::out_of_range("a field leaves its message");
    const std::string_view part = data_.substr(at_, size);
    at_ += size;
    return part;
  }

 private:
  std::string_view data_;
  size_t at_ = 0;
};

constexpr int64_t kTime = 1'700'000'000'250'000'000;

constexpr uint64_t key(uint64_t field, uint64_t wire) { return field << 3 | wire; }

void read_scalar(std::string_view data, Event& event) {
  Message m(data);
  std::string tag;
  while (m.more()) {
    const uint64_t k = m.varint();
    if (k == key(1, 2)) {
      tag = m.bytes(m.varint());
    } else if (k == key(2, 5)) {
      event.scalars[tag] = m.fixed<float>();
    } else {
      ADD_FAILURE() << "unknown field of a value: " << k;
      return;
    }
  }
}

Event read_event(std::string_view data) {
  Message m(data);
  Event event;
  while (m.more()) {
    const uint64_t k = m.varint();
    if (k == key(1, 1)) {
      event.wall_time = m.fixed<double>();
    } else if (k == key(2, 0)) {
      event.step = m.varint();
    } else if (k == key(3, 2)) {
      event.version = m.bytes(m.varint());
    } else if (k == key(7, 2)) {
      event.session_log = m.bytes(m.varint());
    } else if (k == key(5, 2)) {
      Message summary(m.bytes(m.varint()));
      while (summary.more()) {
        EXPECT_EQ(summary.varint(), key(1, 2));
        read_scalar(summary.bytes(summary.varint()), event);
      }
    } else {
      ADD_FAILURE() << "unknown field of an event: " << k;
      break;
    }
  }
  return event;
}

std::vector<Event> read_events(const std::string& path) {
  const std::string text = read_text_file(real_fs(), path, 1 << 20);
  std::vector<Event> events;
  Message file(text);
  while (file.more()) {
    const std::string_view head = file.bytes(8);
    uint64_t length;
    std::memcpy(&length, head.data(), 8);
    EXPECT_EQ(file.fixed<uint32_t>(), masked_crc32c(bytes_of(head)));
    const std::string_view data = file.bytes(length);
    EXPECT_EQ(file.fixed<uint32_t>(), masked_crc32c(bytes_of(data)));
    events.push_back(read_event(data));
  }
  return events;
}

MetricList metrics(uint64_t step, double reward) {
  MetricList m;
  m.set(kStepMetric, static_cast<double>(step));
  m.set("critic/rewards/mean", reward);
  m.set("actor/lr", 1e-5);
  return m;
}

TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);  // the check value of CRC-32C
  EXPECT_EQ(crc32c(bytes_of("")), 0u);
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xFF'))), 0x62A8AB43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising.push_back(c);
  EXPECT_EQ(crc32c(bytes_of(rising)), 0x46DD794Eu);
}

TEST(Crc32c, TheMaskRotatesAndAdds) {
  const uint32_t c = 0xE3069283u;
  EXPECT_EQ(masked_crc32c(bytes_of("123456789")), ((c >> 15) | (c << 17)) + 0xA282EAD8u);
}

TEST(TensorBoardWriter, WritesOneEventAStep) {
  const TempDir dir;
  FakeClock clock;
  clock.advance(kTime);
  TensorBoardWriter writer(real_fs(), dir.path(), clock, 0);
  writer.write(1, metrics(1, 0.25));
  writer.write(300, metrics(300, std::nan("")));
  writer.close();
  const std::vector<Event> events = read_events(writer.path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(events[0].scalars.empty());
  EXPECT_EQ(events[1].step, 1u);
  EXPECT_DOUBLE_EQ(events[1].wall_time, static_cast<double>(clock.unix_ns()) * 1e-9);
  const std::map<std::string, float> expected = {{"actor/lr", 1e-5f},
                                                 {"critic/rewards/mean", 0.25f}};
  EXPECT_EQ(events[1].scalars, expected);
  EXPECT_EQ(events[2].step, 300u);
  EXPECT_TRUE(std::isnan(events[2].scalars.at("critic/rewards/mean")));
}

TEST(TensorBoardWriter, EveryEventIsOnDiskWhenWriteReturns) {
  const TempDir dir;
  FakeClock clock;
  clock.advance(kTime);
  TensorBoardWriter writer(real_fs(), dir.path(), clock, 0);
  for (uint64_t step = 1; step <= 3; ++step) {
    writer.write(step, metrics(step, 0));
    EXPECT_EQ(read_events(writer.path()).size(), step + 1);
  }
}

TEST(TensorBoardWriter, AResumeHasAFileOfItsOwnThatBeginsASession) {
  const TempDir dir;
  FakeClock clock;
  clock.advance(kTime);
  TensorBoardWriter first(real_fs(), dir.path(), clock, 0);
  first.write(1, metrics(1, 0));
  TensorBoardWriter second(real_fs(), dir.path(), clock, 7);
  EXPECT_NE(first.path(), second.path());
  EXPECT_LT(first.path(), second.path()) << "TensorBoard reads files in order of their names";
  const std::vector<Event> events = read_events(second.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].step, 8u);
  EXPECT_EQ(events[1].session_log, std::string("\x08\x01"));
  EXPECT_EQ(read_events(first.path()).size(), 2u) << "the older file is left alone";
}

TEST(TensorBoardWriter, TheNameHoldsTheTimeAndNothingOfTheMachine) {
  const TempDir dir;
  FakeClock clock;
  clock.advance(kTime);
  const TensorBoardWriter writer(real_fs(), dir.path(), clock, 0);
  EXPECT_EQ(writer.path(), dir.file("events.out.tfevents.1700000000.librl"));
}

}  // namespace
}  // namespace rl
