// The documents of a schedule's frames (abi/schemas/schedule.fbs).
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/schedule/schedule_event.h"

namespace rl {

inline constexpr std::string_view kScheduleKind = "RLSD";  // of the frame and of the document

// Which run it is of.
struct ScheduleInfo {
  std::string config_digest;  // as of a checkpoint
  std::string options;        // as JSON, those that differ from their default

  bool operator==(const ScheduleInfo&) const = default;
};

std::vector<std::byte> encode_schedule_info(const ScheduleInfo& info);
std::vector<std::byte> encode_schedule_events(std::span<const ScheduledEvent> events);
// Error(kDataLoss) naming place: file and offset.
ScheduleInfo decode_schedule_info(std::span<const std::byte> document, const std::string& place);
std::vector<ScheduledEvent> decode_schedule_events(std::span<const std::byte> document,
                                                   const std::string& place);

}  // namespace rl
