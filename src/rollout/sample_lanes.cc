#include "rollout/sample_lanes.h"

namespace rl {
namespace {

int64_t group_size(const Sequence& s) { return static_cast<int64_t>(s.request->sequences.size()); }

}  // namespace

bool SampleLanes::counts(const Sequence& s) const {
  return rules_.lanes > 0 && s.request->request.purpose == Purpose::kTrain;
}

bool SampleLanes::has_room(const Sequence& s) const {
  if (!counts(s)) return true;
  if (!rules_.whole_groups) return taken_ < rules_.lanes;
  return s.request->has_lanes || taken_ + group_size(s) <= rules_.lanes;
}

void SampleLanes::take(Sequence& s) {
  if (!counts(s)) return;
  if (!rules_.whole_groups) {
    ++taken_;
  } else if (!s.request->has_lanes) {
    s.request->has_lanes = true;
    taken_ += group_size(s);
  }
}

void SampleLanes::leave(const Sequence& s) {
  if (!counts(s)) return;
  if (rules_.whole_groups) {
    if (s.request->unfinished == 0) taken_ -= group_size(s);
  } else if (rules_.until_freed) {
    held_.insert(s.sample->id);
  } else {
    --taken_;
  }
}

void SampleLanes::free_if(FunctionRef<bool(uint64_t sample_id)> may_be) {
  taken_ -= static_cast<int64_t>(std::erase_if(held_, may_be));
}

}  // namespace rl
