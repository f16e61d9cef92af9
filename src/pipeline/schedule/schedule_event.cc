// Names of fields are in one table; what comes after the named ones is a list.
#include "pipeline/schedule/schedule_event.h"

#include <array>
#include <span>
#include <string_view>

#include "core/error.h"
#include "core/hash.h"

namespace rl {
namespace {

enum class Form : uint8_t { kNumber, kReal, kDigest };

struct Field {
  const char* name = nullptr;  // null: there is none
  Form form = Form::kNumber;
};

struct Row {
  ScheduledKind kind;
  const char* name;
  std::array<Field, 4> fields;
  Field rest;  // of further numbers
};

constexpr Row kRows[] = {
    {ScheduledKind::kScore,
     "score",
     {{{"sample"}, {"reward", Form::kReal}, {"parts"}}},
     {"values", Form::kReal}},
    {ScheduledKind::kFail, "failed score", {{{"sample"}}}, {}},
    {ScheduledKind::kExpire, "missed deadline", {{{"first sample"}}}, {}},
    {ScheduledKind::kReply, "reply", {{{"sample"}}}, {"tokens"}},
    {ScheduledKind::kOptions, "options", {}, {}},
    {ScheduledKind::kStop, "stop", {}, {}},
    {ScheduledKind::kOutOfTime, "stop within an update", {}, {}},
    {ScheduledKind::kRequest, "request for an evaluation", {}, {}},
    {ScheduledKind::kDraw,
     "draw",
     {{{"first sample"}, {"steps done"}, {"prompt", Form::kDigest}}},
     {}},
    {ScheduledKind::kForward, "forward", {{{"version"}, {"samples"}, {"tokens so far"}}}, {}},
    {ScheduledKind::kSample,
     "finished sample",
     {{{"sample"}, {"tokens"}, {"digest", Form::kDigest}}},
     {}},
    {ScheduledKind::kDrop, "dropped group", {{{"first sample"}, {"reason"}}}, {}},
    {ScheduledKind::kBatch, "batch", {{{"step"}}}, {"groups"}},
    {ScheduledKind::kPublish,
     "publication",
     {{{"step"}, {"version"}, {"loss", Form::kReal}, {"gradient norm", Form::kReal}}},
     {}},
    {ScheduledKind::kEvaluate, "evaluation", {{{"steps done"}, {"next ordinal"}}}, {}},
    {ScheduledKind::kResume,
     "resumption",
     {{{"steps done"}, {"next ordinal"}, {"next evaluated ordinal"}}},
     {"open groups"}},
    {ScheduledKind::kEnd, "end of the run", {}, {}},
};

const Row* find_row(ScheduledKind kind) {
  for (const Row& row : kRows) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

std::string shown(uint64_t number, Form form) {
  switch (form) {
    case Form::kNumber:
      return str(number);
    case Form::kReal:
      return str(std::bit_cast<double>(number));
    case Form::kDigest:
      return hex64(number);
  }
  return {};
}

}  // namespace

bool is_schedule_kind(uint8_t kind) {
  return find_row(static_cast<ScheduledKind>(kind)) != nullptr;
}

bool is_input(const ScheduledEvent& event) { return event.kind < ScheduledKind::kOptions; }

std::string describe(const ScheduledEvent& event) {
  const Row* const row = find_row(event.kind);
  RL_CHECK(row != nullptr);
  std::string inside;
  size_t i = 0;
  for (const Field& field : row->fields) {
    if (field.name == nullptr || i == event.numbers.size()) break;
    inside +=
        str(inside.empty() ? "" : ", ", field.name, " ", shown(event.numbers[i++], field.form));
  }
  if (i < event.numbers.size()) {
    inside += str(inside.empty() ? "" : ", ", row->rest.name != nullptr ? row->rest.name : "more");
  }
  for (; i < event.numbers.size(); ++i) inside += str(" ", shown(event.numbers[i], row->rest.form));
  return str(row->name, " (", inside, inside.empty() ? "" : ", ", "look ", event.look, ")");
}

}  // namespace rl
