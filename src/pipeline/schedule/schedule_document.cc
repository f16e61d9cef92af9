#include "pipeline/schedule/schedule_document.h"

#include <schemas/schedule_generated.h>

#include "core/error.h"
#include "data/frame.h"

namespace rl {
namespace {

[[noreturn]] void fail(const std::string& place, const std::string& what) {
  throw Error(Code::kDataLoss, str(place, ": ", what)).with_location(place);
}

std::vector<std::byte> bytes_of(const flatbuffers::FlatBufferBuilder& builder) {
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {data, data + builder.GetSize()};
}

// The root, after FlatBuffers' verifier has passed it.
const fb::ScheduleDocument& verified(std::span<const std::byte> document,
                                     const std::string& place) {
  constexpr flatbuffers::uoffset_t kMaxDepth = 8, kMaxTables = 1 << 20;
  const auto* data = reinterpret_cast<const uint8_t*>(document.data());
  flatbuffers::Verifier verifier(data, document.size(), kMaxDepth, kMaxTables);
  if (!verifier.VerifyBuffer<fb::ScheduleDocument>(std::string(kScheduleKind).c_str())) {
    fail(place, str("the document of ", document.size(), " bytes is not a valid ", kScheduleKind,
                    " FlatBuffer"));
  }
  return *flatbuffers::GetRoot<fb::ScheduleDocument>(data);
}

// budget: bytes that the vectors of the document may still have. They may share bytes, so a small
// document could cause large allocations otherwise.
ScheduledEvent event_of(const fb::ScheduleEvent& from, size_t& budget, const std::string& place) {
  if (!is_schedule_kind(from.kind())) {
    fail(place, str("an event of the unknown kind ", +from.kind()));
  }
  ScheduledEvent event{static_cast<ScheduledKind>(from.kind()), from.look(), {}, {}};
  const size_t numbers = from.numbers() != nullptr ? from.numbers()->size() : 0;
  const size_t chars = from.text() != nullptr ? from.text()->size() : 0;
  const size_t bytes = numbers * sizeof(uint64_t) + chars;
  if (bytes > budget) fail(place, "the events are larger than their document");
  budget -= bytes;
  if (numbers > 0) event.numbers.assign(from.numbers()->begin(), from.numbers()->end());
  if (chars > 0) event.text.assign(from.text()->begin(), from.text()->end());
  return event;
}

}  // namespace

std::vector<std::byte> encode_schedule_info(const ScheduleInfo& info) {
  flatbuffers::FlatBufferBuilder builder;
  const auto digest = builder.CreateString(info.config_digest);
  const auto options = builder.CreateString(info.options);
  builder.Finish(fb::CreateScheduleDocument(builder, digest, options),
                 std::string(kScheduleKind).c_str());
  return bytes_of(builder);
}

std::vector<std::byte> encode_schedule_events(std::span<const ScheduledEvent> events) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fb::ScheduleEvent>> offsets;
  offsets.reserve(events.size());
  for (const ScheduledEvent& e : events) {
    const auto numbers = builder.CreateVector(e.numbers);
    const auto text =
        builder.CreateVector(reinterpret_cast<const uint8_t*>(e.text.data()), e.text.size());
    offsets.push_back(
        fb::CreateScheduleEvent(builder, static_cast<uint8_t>(e.kind), e.look, numbers, text));
  }
  const auto all = builder.CreateVector(offsets);
  builder.Finish(fb::CreateScheduleDocument(builder, 0, 0, all),
                 std::string(kScheduleKind).c_str());
  return bytes_of(builder);
}

ScheduleInfo decode_schedule_info(std::span<const std::byte> document, const std::string& place) {
  const fb::ScheduleDocument& from = verified(document, place);
  if (from.config_digest() == nullptr || from.options() == nullptr) {
    fail(place, "the first document does not name the run");
  }
  return {from.config_digest()->str(), from.options()->str()};
}

std::vector<ScheduledEvent> decode_schedule_events(std::span<const std::byte> document,
                                                   const std::string& place) {
  const fb::ScheduleDocument& from = verified(document, place);
  if (from.events() == nullptr) fail(place, "the document has no events");
  size_t budget = document.size();
  std::vector<ScheduledEvent> events;
  for (const fb::ScheduleEvent* e : *from.events()) {
    events.push_back(event_of(*e, budget, place));
  }
  return events;
}

}  // namespace rl
