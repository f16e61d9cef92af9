// One check per field.
#include "train/batch/sample_check.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "data/sample_error.h"

namespace rl {
namespace {

[[noreturn]] void fail(const Sample& s, Code code, const char* field, const std::string& what,
                       const std::string& expected) {
  SampleError error(code, s, str(": ", field, " ", what, ", expected ", expected));
  error.key = error.field = field;
  error.expected = expected;
  throw error;
}

void check_length(const Sample& s, const SampleLimits& limits) {
  const auto tokens = static_cast<int64_t>(s.ids.size());
  const auto too_long = [&](const char* key, int64_t limit) {
    SampleError error(Code::kOutOfRange, s,
                      str(" has ", tokens, " tokens, but ", key, " allows ", limit));
    error.key = key;
    error.expected = str("at most ", limit, " tokens");
    throw error;
  };
  if (tokens > limits.max_sample) too_long(limits.sample_key, limits.max_sample);
  if (tokens - 1 > limits.max_rows) too_long(limits.rows_key, limits.max_rows + 1);
  if (tokens - 1 > limits.max_positions) too_long("engine.max_model_len", limits.max_positions + 1);
}

[[noreturn]] void fail_pair(Objective objective, const Sample& s, const std::string& what) {
  throw Error(
      Code::kFailedPrecondition,
      str(sample_name(s), " ", what, "; algo.objective = ", objective_name(objective),
          " needs a chosen response in slot 0 and a rejected one in slot 1 of each ordinal"))
      .with_key("algo.objective");
}

void check_pair(Objective objective, const Sample& chosen, const Sample& rejected) {
  const auto prompt = [](const Sample& s) { return std::span(s.ids).first(s.prompt_tokens); };
  if (!std::ranges::equal(prompt(chosen), prompt(rejected)))
    fail_pair(objective, rejected, str("has a different prompt than sample ", chosen.id));
  for (const Sample* s : {&chosen, &rejected}) {
    if (std::ranges::count(s->loss_mask, 1) == 0)
      fail_pair(objective, *s, "has no token that carries loss");
  }
}

}  // namespace

void check_pairs(Objective objective, std::span<const Sample* const> samples) {
  std::vector<const Sample*> ordered(samples.begin(), samples.end());
  std::ranges::stable_sort(ordered, {},
                           [](const Sample* s) { return std::tuple(s->ordinal, s->slot); });
  for (size_t i = 0; i < ordered.size(); i += 2) {
    const Sample& chosen = *ordered[i];
    if (chosen.slot > 1) fail_pair(objective, chosen, "is not part of a pair");
    const bool whole = i + 1 < ordered.size() && ordered[i + 1]->ordinal == chosen.ordinal;
    if (!whole || chosen.slot != 0) fail_pair(objective, chosen, "is the only sample of its pair");
    if (ordered[i + 1]->slot != 1) fail_pair(objective, *ordered[i + 1], "is not part of a pair");
    check_pair(objective, chosen, *ordered[i + 1]);
  }
}

void check_token_array(const Sample& s, const char* field, size_t size) {
  if (size == static_cast<size_t>(s.generated())) return;
  fail(s, Code::kInvalidArgument, field, str("has ", size, " entries"),
       str(s.generated(), ", one per generated token"));
}

void check_sequence(const Sample& s, const SampleLimits& limits) {
  if (s.prompt_tokens < 1 || s.generated() < 0) {
    fail(s, Code::kOutOfRange, "prompt_tokens", str("is ", s.prompt_tokens),
         str("1..", s.ids.size(), ", the number of tokens"));
  }
  if (!(s.temperature > 0) || !std::isfinite(inverse_temperature(s.temperature)) ||
      !(inverse_temperature(s.temperature) > 0)) {
    fail(s, Code::kOutOfRange, "temperature", str("is ", s.temperature),
         "a value above 0 with a finite inverse");
  }
  for (size_t i = 0; i < s.ids.size(); ++i) {
    if (s.ids[i] >= 0 && s.ids[i] < limits.vocab) continue;
    fail(s, Code::kOutOfRange, "ids", str("holds ", s.ids[i], " at index ", i),
         str("0..", limits.vocab - 1));
  }
  check_length(s, limits);
}

void check_trainable(const Sample& s, const SampleLimits& limits) {
  check_sequence(s, limits);
  if (s.purpose != Purpose::kTrain)
    fail(s, Code::kInvalidArgument, "purpose", "is eval",
         "train: evaluation samples are not trained on");
  if (!lacks_logprobs(s)) check_token_array(s, "logprobs", s.logprobs.size());
  check_token_array(s, "versions", s.versions.size());
  check_token_array(s, "loss_mask", s.loss_mask.size());
  for (size_t g = 0; g < s.loss_mask.size(); ++g) {
    if (s.loss_mask[g] <= 1) continue;
    fail(s, Code::kOutOfRange, "loss_mask",
         str("holds ", static_cast<int>(s.loss_mask[g]), " at index ", g), "0 or 1");
  }
}

}  // namespace rl
