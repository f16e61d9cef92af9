// A sample takes the first empty lane, so that few lanes are used.
#include "rollout/slot_lanes.h"

#include <algorithm>

#include "core/error.h"

namespace rl {

void SlotLanes::scheduled(std::span<Sequence* const> running, int64_t now_ns) {
  if (!traced()) return forget();
  for (Lane& lane : lanes_) {
    if (lane.sequence == nullptr || lane.sequence->state == SequenceState::kRunning) continue;
    lane.sequence->waits_since_ns = now_ns;
    leave(lane, now_ns);
  }
  for (Sequence* s : running) {
    if (s->lane < 0) enter(*s, now_ns);
  }
}

void SlotLanes::sampled_token(const Sequence& sequence, int64_t now_ns) {
  if (sequence.lane < 0) return;
  Lane& lane = lanes_[static_cast<size_t>(sequence.lane)];
  if (lane.decode_ns >= 0) return;
  lane.decode_ns = now_ns;
  lane.length = sequence.length();
}

void SlotLanes::ended(Sequence& sequence, int64_t now_ns) {
  if (sequence.lane >= 0) leave(lanes_[static_cast<size_t>(sequence.lane)], now_ns);
}

// The trace has ended: running samples take new lanes when there is another one.
void SlotLanes::forget() {
  for (Lane& lane : lanes_) {
    if (lane.sequence != nullptr) lane.sequence->lane = -1;
  }
  lanes_.clear();
}

uint32_t SlotLanes::number(const Lane& lane) const {
  return first_ + static_cast<uint32_t>(&lane - lanes_.data());
}

void SlotLanes::enter(Sequence& s, int64_t now_ns) {
  auto lane = std::find_if(lanes_.begin(), lanes_.end(),
                           [](const Lane& l) { return l.sequence == nullptr; });
  if (lane == lanes_.end()) lane = lanes_.insert(lane, Lane{});
  s.lane = static_cast<int32_t>(lane - lanes_.begin());
  tracer_->lane_name(number(*lane), str("engine ", engine_, " slot ", s.lane));
  const char* const wait = s.admitted ? "sample.preempted" : "sample.queued";
  const int64_t since = std::max(lane->begin_ns, s.waits_since_ns);
  if (s.waits_since_ns >= 0 && since < now_ns) {
    tracer_->span({wait, number(*lane), since, now_ns, "waited_ns", now_ns - s.waits_since_ns});
  }
  s.waits_since_ns = -1;
  *lane = {&s, now_ns, -1, s.computed, 0};
}

void SlotLanes::leave(Lane& lane, int64_t now_ns) {
  Sequence& s = *lane.sequence;
  const uint32_t n = number(lane);
  const bool sampled = lane.decode_ns >= 0;
  tracer_->span({"sample", n, lane.begin_ns, now_ns, "id", static_cast<int64_t>(s.sample->id)});
  tracer_->span({"sample.prefill", n, lane.begin_ns, sampled ? lane.decode_ns : now_ns,
                 "cached_tokens", lane.cached});
  if (sampled && s.length() > lane.length) {
    tracer_->span({"sample.decode", n, lane.decode_ns, now_ns, "tokens", s.length() - lane.length});
  }
  s.lane = -1;
  lane = {nullptr, now_ns, -1, 0, 0};
}

}  // namespace rl
