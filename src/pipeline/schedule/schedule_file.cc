// A frame ends with each publication and evaluation, so that a checkpoint never knows more than the
// file, and after kMaxFrameEvents.
#include "pipeline/schedule/schedule_file.h"

#include <utility>

#include "core/error.h"

namespace rl {
namespace {

constexpr int kLevel = 3;  // of zstd
constexpr size_t kMaxFrameEvents = 512;

bool ends_frame(ScheduledKind kind) {
  return kind == ScheduledKind::kPublish || kind == ScheduledKind::kEvaluate ||
         kind == ScheduledKind::kResume;
}

// Whether a checkpoint of the cut has the state after this event.
bool is_cut(const ScheduledEvent& event, const ScheduleCut& cut) {
  if (event.numbers.empty() || event.numbers[0] != cut.steps_done) return false;
  if (event.kind == ScheduledKind::kPublish) return true;
  return event.kind == ScheduledKind::kEvaluate && event.numbers.size() > 1 &&
         event.numbers[1] == cut.next_eval_ordinal;
}

}  // namespace

ScheduleReader::ScheduleReader(FileSystem& fs, const std::string& path) : file_(fs.open(path)) {
  restart();
  measure();
  restart();
}

void ScheduleReader::restart() {
  frames_ = std::make_unique<FrameReader>(*file_, FrameEnd::kMayBeTorn);
  const std::optional<Frame> first = frames_->next();
  const std::string place = str(path(), " offset ", first ? first->offset : 0);
  if (!first || first->kind_text() != kScheduleKind) {
    throw Error(Code::kDataLoss, str(place, ": the file does not begin with the name of a run"))
        .with_location(place);
  }
  info_ = decode_schedule_info(first->document, place);
}

void ScheduleReader::measure() {
  for (;;) {
    const std::vector<ScheduledEvent> events = next_frame();
    if (events.empty()) break;
    extent_.events += events.size();
    for (const ScheduledEvent& e : events) {
      if (e.kind == ScheduledKind::kPublish && !e.numbers.empty()) extent_.steps = e.numbers[0];
    }
  }
  extent_.torn = frames_->torn();
  extent_.cut_bytes = frames_->bytes_left();
}

// Empty after the last one.
std::vector<ScheduledEvent> ScheduleReader::next_frame() {
  const std::optional<Frame> frame = frames_->next();
  if (!frame) return {};
  const std::string place = str(path(), " offset ", frame->offset);
  std::vector<ScheduledEvent> events;
  if (frame->kind_text() == kScheduleKind) {
    events = decode_schedule_events(frame->document, place);
  }
  if (!events.empty()) return events;
  throw Error(Code::kDataLoss, str(place, ": the frame has no events of a schedule"))
      .with_location(place);
}

const ScheduledEvent* ScheduleReader::peek() {
  if (ahead_.empty()) {
    for (ScheduledEvent& e : next_frame()) ahead_.push_back(std::move(e));
  }
  return ahead_.empty() ? nullptr : &ahead_.front();
}

ScheduledEvent ScheduleReader::take() {
  RL_CHECK(peek() != nullptr);
  ScheduledEvent event = std::move(ahead_.front());
  ahead_.pop_front();
  ++index_;
  return event;
}

ScheduleWriter::ScheduleWriter(FileSystem& fs, const std::string& path, const ScheduleInfo& info)
    : file_(fs.create(path)), frames_(std::make_unique<FrameWriter>(*file_, kLevel)) {
  frames_->append(kScheduleKind, encode_schedule_info(info));
}

std::unique_ptr<ScheduleWriter> ScheduleWriter::go_on(FileSystem& fs, const std::string& path,
                                                      const ScheduleCut& cut) {
  uint64_t num_events = 0;
  ScheduleReader search(fs, path);
  while (const ScheduledEvent* event = search.peek()) {
    const bool found = is_cut(*event, cut);
    search.take();
    if (found) num_events = search.index();
  }
  if (num_events == 0 && cut.steps_done != 0) {
    throw Error(Code::kDataLoss,
                str(path, " ends with step ", search.extent().steps, ", so a run that resumes at ",
                    "step ", cut.steps_done, " cannot go on in it; use another path"))
        .with_key("pipeline.record_path")
        .with_location(path);
  }
  ScheduleReader old(fs, path);
  const std::string temporary = path + ".tmp";
  auto writer = std::make_unique<ScheduleWriter>(fs, temporary, old.info());
  writer->keep_before(old, num_events);
  writer->file_->sync();
  writer->file_->close();
  fs.rename(temporary, path);
  fs.sync_directory(parent_directory(path));
  writer->file_ = fs.append_to(path);
  writer->frames_->go_on(*writer->file_);
  return writer;
}

void ScheduleWriter::keep_before(ScheduleReader& old, uint64_t num_events) {
  while (old.index() < num_events) append(old.take());
  flush();
}

void ScheduleWriter::append(ScheduledEvent event) {
  const ScheduledKind kind = event.kind;
  const bool input = is_input(event);
  kept_.push_back(std::move(event));
  if (ends_frame(kind) || (!input && kept_.size() >= kMaxFrameEvents)) flush();
}

void ScheduleWriter::flush() {
  if (kept_.empty()) return;
  frames_->append(kScheduleKind, encode_schedule_events(kept_));
  kept_.clear();
}

void ScheduleWriter::sync() {
  flush();
  file_->sync();
}

void ScheduleWriter::close() {
  flush();
  frames_->close();
  file_->sync();
  file_->close();
}

}  // namespace rl
