// Files of schedules (pipeline.record_path): frames of events, in order. A file that a killed run
// left ends with its last whole frame. Not thread-safe.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/fs.h"
#include "data/frame.h"
#include "pipeline/schedule/schedule_document.h"

namespace rl {

// How much of a file there is.
struct ScheduleExtent {
  uint64_t events = 0;
  uint64_t steps = 0;      // whole ones: the step of the last publication
  bool torn = false;       // the run was killed, or failed
  uint64_t cut_bytes = 0;  // of a frame that is not whole, which is left out
};

// Where a resumed run goes on: what came after these many steps and evaluations is given up.
struct ScheduleCut {
  uint64_t steps_done = 0, next_eval_ordinal = 0;
};

class ScheduleReader {
 public:
  // Reads the whole file once. Error(kDataLoss) naming path and offset.
  ScheduleReader(FileSystem& fs, const std::string& path);
  ScheduleReader(const ScheduleReader&) = delete;

  const std::string& path() const { return file_->path(); }
  const ScheduleInfo& info() const { return info_; }
  const ScheduleExtent& extent() const { return extent_; }
  // The next event; null after the last one. Valid until take().
  const ScheduledEvent* peek();
  ScheduledEvent take();
  uint64_t index() const { return index_; }  // of the next event, from 0

 private:
  std::vector<ScheduledEvent> next_frame();
  void restart();
  void measure();

  std::unique_ptr<InputFile> file_;
  std::unique_ptr<FrameReader> frames_;
  ScheduleInfo info_;
  ScheduleExtent extent_;
  std::deque<ScheduledEvent> ahead_;  // read and not taken
  uint64_t index_ = 0;
};

class ScheduleWriter {
 public:
  // A new file, which replaces one of this path.
  ScheduleWriter(FileSystem& fs, const std::string& path, const ScheduleInfo& info);
  // Goes on in the file of this path, which then has what came before the cut. Until that is
  // complete the file is as it was. Error(kDataLoss) if it ends before the cut.
  static std::unique_ptr<ScheduleWriter> go_on(FileSystem& fs, const std::string& path,
                                               const ScheduleCut& cut);
  ScheduleWriter(const ScheduleWriter&) = delete;

  // An input is kept until an outcome comes, for only the loop may write.
  void append(ScheduledEvent event);
  // Writes what is kept as a frame.
  void flush();
  // The same, and makes it durable.
  void sync();
  // The run has ended as a whole: the file gets its closing record.
  void close();

 private:
  void keep_before(ScheduleReader& old, uint64_t num_events);

  std::unique_ptr<OutputFile> file_;
  std::unique_ptr<FrameWriter> frames_;
  std::vector<ScheduledEvent> kept_;
};

}  // namespace rl
