// The median is an actual step: with an even number of steps, the shorter of the middle two.
#include "profile/step_timeline.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"

namespace rl {
namespace {

constexpr int64_t kFineness = 400;  // gaps below this fraction of a step are merged

const TraceSpan* median_step(std::span<const TraceSpan> spans) {
  std::vector<const TraceSpan*> steps;
  for (const TraceSpan& s : spans) {
    if (s.lane >= kFirstHostLane || s.end_ns <= s.start_ns) continue;
    if (s.name == std::string_view(kStepSpan)) steps.push_back(&s);
  }
  if (steps.empty()) return nullptr;
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>((steps.size() - 1) / 2);
  std::nth_element(steps.begin(), middle, steps.end(), [](const TraceSpan* a, const TraceSpan* b) {
    const int64_t x = a->end_ns - a->start_ns, y = b->end_ns - b->start_ns;
    return x != y ? x < y : a->start_ns < b->start_ns;
  });
  return *middle;
}

void add_work(StepTimeline::Lane& lane, const StepTimeline::Work& work, int64_t fineness) {
  if (!lane.work.empty()) {
    StepTimeline::Work& last = lane.work.back();
    if (last.name == work.name && work.begin_ns - last.end_ns < fineness) {
      last.end_ns = std::max(last.end_ns, work.end_ns);
      last.busy_ns += work.busy_ns;
      ++last.count;
      return;
    }
  }
  lane.work.push_back(work);
}

}  // namespace

StepTimeline typical_step(std::span<const TraceSpan> spans,
                          const std::map<uint32_t, std::string>& lane_names) {
  StepTimeline out;
  const TraceSpan* const step = median_step(spans);
  if (step == nullptr) return out;
  out.step = step->arg_value;
  out.length_ns = step->end_ns - step->start_ns;
  std::vector<const TraceSpan*> inside;
  for (const TraceSpan& s : spans) {
    if (&s == step || s.start_ns < step->start_ns || s.end_ns > step->end_ns) continue;
    if (s.lane >= kFirstSampleLane) continue;
    if (s.end_ns > s.start_ns) inside.push_back(&s);
  }
  std::stable_sort(inside.begin(), inside.end(), [](const TraceSpan* a, const TraceSpan* b) {
    return a->lane != b->lane ? a->lane < b->lane : a->start_ns < b->start_ns;
  });
  uint32_t lane = 0;
  for (const TraceSpan* s : inside) {
    if (out.lanes.empty() || s->lane != lane) {
      const auto name = lane_names.find(s->lane);
      out.lanes.push_back({name != lane_names.end() ? name->second : str("lane ", s->lane), {}});
      lane = s->lane;
    }
    const int64_t begin = s->start_ns - step->start_ns, end = s->end_ns - step->start_ns;
    add_work(out.lanes.back(), {s->name, begin, end, end - begin, 1}, out.length_ns / kFineness);
  }
  return out;
}

}  // namespace rl
