// The messages are those of tensorflow/core/util/event.proto and framework/summary.proto, as far as
// scalars need them; field numbers are noted at each use.
#include "profile/tensorboard_writer.h"

#include <array>
#include <bit>
#include <concepts>

#include "core/error.h"
#include "profile/metrics_writer.h"

namespace rl {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  constexpr uint32_t kPolynomial = 0x82F63B78u;  // 0x1EDC6F41 with its bits reversed
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? kPolynomial : 0);
    table[i] = c;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

// Fixed-width numbers are little-endian in protobuf and in TFRecord alike.
template <std::unsigned_integral T>
void put_fixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

enum class Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_key(std::string& out, uint32_t field, Wire wire) {
  put_varint(out, field << 3 | static_cast<uint32_t>(wire));
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

// Event: wall_time = 1 (double), step = 2 (int64).
std::string event_head(const Clock& clock, uint64_t step) {
  std::string out;
  put_key(out, 1, Wire::kFixed64);
  put_fixed(out, std::bit_cast<uint64_t>(static_cast<double>(clock.unix_ns()) * 1e-9));
  put_key(out, 2, Wire::kVarint);
  put_varint(out, step);
  return out;
}

// Summary.Value: tag = 1, simple_value = 2 (float).
std::string scalar(const Metric& m) {
  std::string out;
  put_bytes(out, 1, m.name);
  put_key(out, 2, Wire::kFixed32);
  put_fixed(out, std::bit_cast<uint32_t>(static_cast<float>(m.value)));
  return out;
}

// TensorBoard sorts files by name, so a file of a later second sorts later; within one second the
// first free number is used.
std::string free_path(FileSystem& fs, const std::string& directory, const Clock& clock) {
  const std::string first =
      str(directory, "/events.out.tfevents.", clock.unix_ns() / int64_t{1'000'000'000}, ".librl");
  std::string path = first;
  for (int i = 2; fs.exists(path); ++i) path = str(first, ".", i);
  return path;
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> data) {
  uint32_t c = ~0u;
  for (const std::byte b : data) c = kCrcTable[(c ^ static_cast<uint8_t>(b)) & 0xFF] ^ (c >> 8);
  return ~c;
}

uint32_t masked_crc32c(std::span<const std::byte> data) {
  return std::rotr(crc32c(data), 15) + 0xA282EAD8u;
}

TensorBoardWriter::TensorBoardWriter(FileSystem& fs, const std::string& directory,
                                     const Clock& clock, uint64_t done_steps)
    : clock_(clock), path_(free_path(fs, directory, clock)), file_(fs.create(path_)) {
  std::string version = event_head(clock, 0);
  put_bytes(version, 3, "brain.Event:2");  // Event: file_version = 3
  append_record(version);
  if (done_steps == 0) return;
  std::string start = event_head(clock, done_steps + 1);
  put_bytes(start, 7, "\x08\x01");  // Event: session_log = 7; SessionLog: status = 1 is START = 1
  append_record(start);
}

TensorBoardWriter::~TensorBoardWriter() = default;

void TensorBoardWriter::write(uint64_t step, const MetricList& metrics) {
  std::string summary;
  for (const Metric& m : metrics) {
    if (m.name != kStepMetric) put_bytes(summary, 1, scalar(m));  // Summary: value = 1
  }
  std::string event = event_head(clock_, step);
  put_bytes(event, 5, summary);  // Event: summary = 5
  append_record(event);
}

void TensorBoardWriter::append_record(std::string_view event) {
  const auto crc = [](std::string_view text) {
    return masked_crc32c(std::as_bytes(std::span(text)));
  };
  std::string record;
  put_fixed(record, static_cast<uint64_t>(event.size()));
  put_fixed(record, crc(record));
  record.append(event);
  put_fixed(record, crc(event));
  file_->append(std::as_bytes(std::span(record)));
}

void TensorBoardWriter::close() {
  try {
    file_->sync();
  } catch (const Error&) {
    file_->close();  // what was written is still of use
    throw;
  }
  file_->close();
}

}  // namespace rl
