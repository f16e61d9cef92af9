#include "pipeline/schedule/run_schedule.h"

#include <utility>

#include "core/error.h"

namespace rl {

void RunSchedule::replay(std::unique_ptr<ScheduleReader> reader, Apply apply) {
  reader_ = std::move(reader);
  apply_ = std::move(apply);
  find_end();
}

ScheduledEvent RunSchedule::made(ScheduledKind kind, std::vector<uint64_t> numbers,
                                 std::string text) const {
  return {kind, looks_, std::move(numbers), std::move(text)};
}

void RunSchedule::input(ScheduledKind kind, std::vector<uint64_t> numbers, std::string text) {
  if (keeps_inputs_) return kept_.push_back(made(kind, std::move(numbers), std::move(text)));
  if (writer_ == nullptr || ended_) return;
  writer_->append(made(kind, std::move(numbers), std::move(text)));
}

void RunSchedule::look() {
  if (reader_ != nullptr && !halts()) {
    next_outcome();
    for (const Pending& input : std::exchange(pending_, {})) {
      apply(input.event, input.index);
      applied_ = true;
    }
    find_end();
  }
  ++looks_;
}

// After the inputs before it, which are for the next look. Null: there is none.
const ScheduledEvent* RunSchedule::next_outcome() {
  const ScheduledEvent* next = reader_->peek();
  while (next != nullptr && is_input(*next) && next->look <= looks_) {
    const uint64_t index = reader_->index();
    pending_.push_back({reader_->take(), index});
    next = reader_->peek();
  }
  return next;
}

void RunSchedule::find_end() {
  const ScheduledEvent* const next = reader_->peek();
  used_up_ = next == nullptr;
  resumes_ = next != nullptr && next->kind == ScheduledKind::kResume;
}

void RunSchedule::apply(const ScheduledEvent& event, uint64_t index) {
  try {
    apply_(event);
  } catch (const Error& e) {
    diverge(index, describe(event), str("a run that refuses it: ", e.message));
  }
}

void RunSchedule::diverge(uint64_t index, const std::string& expected,
                          const std::string& seen) const {
  const std::string place = str(reader_->path(), " event ", index);
  throw Error(Code::kIncompatible, str("the replay differs from ", reader_->path(), " at event ",
                                       index, ": expected ", expected, ", seen ", seen))
      .with_key("pipeline.replay_path")
      .with_expected(expected)
      .with_location(place);
}

void RunSchedule::note(ScheduledKind kind, std::vector<uint64_t> numbers, std::string text) {
  if (ended_) return;
  if (writer_ != nullptr) {
    writer_->append(made(kind, std::move(numbers), std::move(text)));
    return;
  }
  if (reader_ == nullptr || halts()) return;
  const ScheduledEvent seen = made(kind, std::move(numbers), std::move(text));
  const ScheduledEvent* const expected = next_outcome();
  if (expected != nullptr && *expected != seen) {
    diverge(reader_->index(), describe(*expected), describe(seen));
  }
  if (expected != nullptr) reader_->take();
  find_end();
}

std::optional<ScheduledEvent> RunSchedule::take(ScheduledKind kind) {
  if (reader_ == nullptr || halts() || ended_) return std::nullopt;
  const ScheduledEvent* const next = next_outcome();
  if (next == nullptr || next->kind != kind || next->look != looks_) return std::nullopt;
  ScheduledEvent event = reader_->take();
  find_end();
  return event;
}

bool RunSchedule::stops(bool requested) {
  if (take(ScheduledKind::kStop)) stopped_ = true;
  if (requested && !std::exchange(stopped_, true) && writer_ != nullptr) {
    note(ScheduledKind::kStop);
  }
  return stopped_ || halts();
}

void RunSchedule::check_waiting() {
  if (reader_ == nullptr || halts() || ended_ || !pending_.empty()) return;
  if (std::exchange(applied_, false)) return;  // the recorded run looked again as well
  const ScheduledEvent* const next = next_outcome();
  if (next == nullptr || is_input(*next) || next->kind < ScheduledKind::kDraw) return;
  if (pending_.empty()) diverge(reader_->index(), describe(*next), "a run that waits");
}

std::string RunSchedule::resume(std::vector<uint64_t> numbers, std::string options) {
  looks_ = 0;
  applied_ = false;
  pending_.clear();
  if (reader_ == nullptr) {
    note(ScheduledKind::kResume, std::move(numbers), std::move(options));
    return {};
  }
  const ScheduledEvent& expected = *reader_->peek();
  const ScheduledEvent seen = made(ScheduledKind::kResume, std::move(numbers), {});
  if (expected.numbers != seen.numbers) {
    diverge(reader_->index(), describe(expected), describe(seen));
  }
  std::string recorded = reader_->take().text;
  find_end();
  return recorded;
}

std::string RunSchedule::skip_to(const std::vector<uint64_t>& numbers) {
  while (const ScheduledEvent* next = reader_->peek()) {
    if (next->kind == ScheduledKind::kResume && next->numbers == numbers) return resume(numbers);
    reader_->take();
  }
  const ScheduledEvent wanted{ScheduledKind::kResume, 0, numbers, {}};
  throw Error(Code::kNotFound,
              str(reader_->path(), " has no ", describe(wanted),
                  ": a replay resumes from a checkpoint only where the recorded run did"))
      .with_key("pipeline.replay_path")
      .with_location(reader_->path());
}

void RunSchedule::detach() {
  if (reader_ != nullptr) ended_ = used_up_ = true;
}

void RunSchedule::sync() {
  if (writer_ != nullptr && !ended_) writer_->sync();
}

void RunSchedule::finish() {
  if (ended_) return;
  look();  // what came last is in the books of both runs
  note(ScheduledKind::kEnd);
  ended_ = true;
  if (writer_ != nullptr) writer_->close();
}

void RunSchedule::abandon() {
  if (ended_) return;
  ended_ = true;
  if (writer_ != nullptr) writer_->flush();
}

}  // namespace rl
