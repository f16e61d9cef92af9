// Lookup is linear: a step has a few dozen metrics.
#include "profile/metrics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace rl {

void MetricList::set(std::string_view name, double value) {
  for (Metric& m : items_) {
    if (m.name != name) continue;
    m.value = value;
    return;
  }
  items_.push_back({std::string(name), value});
}

void MetricList::append(const MetricList& other) {
  for (const Metric& m : other) set(m.name, m.value);
}

std::optional<double> MetricList::get(std::string_view name) const {
  for (const Metric& m : items_) {
    if (m.name == name) return m.value;
  }
  return std::nullopt;
}

std::string MetricList::to_json() const {
  constexpr double kExact = 9007199254740992.0;  // integers up to here are written as integers
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const Metric& m : items_) {
    if (!std::isfinite(m.value)) {
      object[m.name] = nullptr;
    } else if (m.value == std::trunc(m.value) && std::fabs(m.value) < kExact) {
      object[m.name] = static_cast<int64_t>(m.value);
    } else {
      object[m.name] = m.value;
    }
  }
  return object.dump();
}

MetricList MetricList::without_times() const {
  MetricList rest;
  for (const Metric& m : items_) {
    if (m.name.starts_with("timing_") || m.name.starts_with("perf/")) continue;
    rest.items_.push_back(m);
  }
  return rest;
}

}  // namespace rl
