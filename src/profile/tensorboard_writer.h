// TensorBoard event files, written by hand: records in TFRecord framing (length, masked CRC-32C of
// the length, data, masked CRC-32C of the data), each one protobuf message Event. Invariant: every
// record is in the file when write returns, so TensorBoard can follow a live run.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/fs.h"
#include "profile/metrics.h"

namespace rl {

// CRC-32C (Castagnoli), and its masked form in TFRecord files, which often hold CRCs of CRCs.
uint32_t crc32c(std::span<const std::byte> data);
uint32_t masked_crc32c(std::span<const std::byte> data);

class TensorBoardWriter {
 public:
  // Creates a new file in directory, events.out.tfevents.SECONDS.librl; the name contains the time
  // and nothing of the machine. done_steps > 0 continues a resumed run: TensorBoard then drops the
  // later steps of older files in the directory.
  TensorBoardWriter(FileSystem& fs, const std::string& directory, const Clock& clock,
                    uint64_t done_steps);
  ~TensorBoardWriter();

  // One event with a scalar per metric, except the step itself.
  void write(uint64_t step, const MetricList& metrics);
  // Makes the events durable and ends writing.
  void close();
  const std::string& path() const { return path_; }

 private:
  void append_record(std::string_view event);

  const Clock& clock_;
  std::string path_;
  std::unique_ptr<OutputFile> file_;
};

}  // namespace rl
