// fields() lists every field once, for both reading and writing.
#include "pipeline/loop/run_state.h"

#include "core/encoding/strict_json.h"
#include "core/error.h"

namespace rl {
namespace {

using nlohmann::json;
constexpr int64_t kFormat = 1;
constexpr uint64_t kMaxBytes = 1 << 20;
constexpr const char* kKlCoef = "kl_coef";
constexpr const char* kOpenOrdinals = "open_ordinals";

// visit(name, value) for every scalar of the state.
template <typename State, typename Visit>
void fields(State& s, Visit visit) {
  visit("step", s.step);
  visit("cursor", s.cursor);
  visit("next_eval_ordinal", s.next_eval_ordinal);
  visit("seed", s.seed);
  visit("max_tokens", s.max_tokens);
  auto& c = s.ledger;
  visit("attempts_started", c.attempts_started);
  visit("attempts_trained", c.attempts_trained);
  visit("tokens_generated", c.tokens_generated);
  visit("tokens_trained", c.tokens_trained);
  visit("tokens_discarded", c.tokens_discarded);
  visit("prompts_drawn", c.prompts_drawn);
  visit("prompts_trained", c.prompts_trained);
  visit("late_scores", c.late_scores);
  visit("duplicate_scores", c.duplicate_scores);
  visit("unknown_scores", c.unknown_scores);
  visit("nonfinite_scores", c.nonfinite_scores);
  for (size_t i = 1; i < kNumDropReasons; ++i) {
    const std::string reason = drop_reason_name(static_cast<DropReason>(i));
    visit("attempts_discarded_" + reason, c.attempts_discarded[i]);
    visit("prompts_dropped_" + reason, c.prompts_dropped[i]);
  }
}

template <typename T>
void read_field(const json& object, const std::string& name, const std::string& location, T& out) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) {
    throw Error(Code::kDataLoss,
                str(location, ": \"", name, "\" is missing or is not a non-negative integer"))
        .with_location(location);
  }
  const auto value = found->get<uint64_t>();
  if (!std::in_range<T>(value)) {
    throw Error(Code::kDataLoss,
                str(location, ": \"", name, "\" is ", value, ", which is too large"))
        .with_location(location);
  }
  out = static_cast<T>(value);
}

// Ascending, and all before the cursor.
std::vector<uint64_t> open_ordinals_of(const json& list, uint64_t cursor,
                                       const std::string& location) {
  std::vector<uint64_t> out;
  const auto refuse = [&] {
    throw Error(Code::kDataLoss, str(location, ": \"", kOpenOrdinals,
                                     "\" is not a list of ascending ordinals below ", cursor))
        .with_location(location);
  };
  if (!list.is_array() || list.empty()) refuse();
  for (const json& item : list) {
    if (!item.is_number_unsigned()) refuse();
    const auto ordinal = item.get<uint64_t>();
    if (ordinal >= cursor || (!out.empty() && ordinal <= out.back())) refuse();
    out.push_back(ordinal);
  }
  return out;
}

}  // namespace

std::vector<uint64_t> resumption(const RunState& state) {
  std::vector<uint64_t> numbers = {state.step, state.cursor, state.next_eval_ordinal};
  numbers.insert(numbers.end(), state.open_ordinals.begin(), state.open_ordinals.end());
  return numbers;
}

std::string render_run_state(const RunState& state) {
  json object = {{"format", kFormat}};
  fields(state, [&](const std::string& name, const auto& value) { object[name] = value; });
  if (state.kl_coef) object[kKlCoef] = *state.kl_coef;
  if (!state.open_ordinals.empty()) object[kOpenOrdinals] = state.open_ordinals;
  return object.dump();
}

RunState parse_run_state(const std::string& text, const std::string& location) {
  const json object = parse_strict_json(text, location, kMaxBytes);
  if (!object.is_object()) {
    throw Error(Code::kDataLoss, str(location, ": the pipeline's state is not a JSON object"))
        .with_location(location);
  }
  int64_t format = 0;
  read_field(object, "format", location, format);
  if (format != kFormat) {
    throw Error(Code::kIncompatible, str(location, ": pipeline state of format ", format,
                                         "; this library reads ", kFormat))
        .with_location(location);
  }
  RunState s;
  size_t count = 1;
  fields(s, [&](const std::string& name, auto& value) {
    read_field(object, name, location, value);
    ++count;
  });
  if (const auto found = object.find(kKlCoef); found != object.end()) {
    if (!found->is_number() || !(found->get<double>() >= 0)) {
      throw Error(Code::kDataLoss, str(location, ": \"kl_coef\" is not a valid coefficient"))
          .with_location(location);
    }
    s.kl_coef = found->get<double>();
    ++count;
  }
  if (const auto found = object.find(kOpenOrdinals); found != object.end()) {
    s.open_ordinals = open_ordinals_of(*found, s.cursor, location);
    ++count;
  }
  if (object.size() != count) {
    throw Error(Code::kDataLoss, str(location, ": the pipeline's state has unknown keys"))
        .with_location(location);
  }
  return s;
}

}  // namespace rl
