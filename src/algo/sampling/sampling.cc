// Parameter checks and argmax.
#include "algo/sampling/sampling.h"

#include <algorithm>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr float kMaxPenalty = 2, kMaxBias = 100;

[[noreturn]] void fail_not_finite() {
  throw Error(Code::kNonFinite, "a logit of the row to sample from is not finite")
      .with_key("logits");
}

void require_penalty(std::string_view key, float value) {
  require_value(value >= -kMaxPenalty && value <= kMaxPenalty, key, value, "-2..2");
}

void require_id(std::string_view key, int32_t id) {
  require_value(id >= 0, key, id, "an id of at least 0");
}

void check_bias(const std::vector<LogitBias>& bias) {
  constexpr std::string_view kKey = "sampling.logit_bias";
  std::vector<int32_t> ids;
  for (const LogitBias& b : bias) {
    require_id(kKey, b.id);
    require_value(b.bias >= -kMaxBias && b.bias <= kMaxBias, kKey, b.bias, "a bias of -100..100");
    ids.push_back(b.id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice == ids.end()) return;
  throw Error(Code::kInvalidArgument, str(kKey, " names token id ", *twice, " twice"))
      .with_key(std::string(kKey))
      .with_expected("each id once");
}

}  // namespace

void validate(const SamplingParams& p) {
  const bool greedy = p.temperature == 0;
  require_value(greedy || (p.temperature >= 1e-6f && std::isfinite(p.temperature)),
                "sampling.temperature", p.temperature,
                "0 (greedy) or a finite value of at least 1e-6");
  require_value(p.top_p > 0 && p.top_p <= 1, "sampling.top_p", p.top_p, "above 0, at most 1");
  require_value(p.min_p >= 0 && p.min_p <= 1, "sampling.min_p", p.min_p, "0..1");
  require_value(p.repetition_penalty > 0 && std::isfinite(p.repetition_penalty),
                "sampling.repetition_penalty", p.repetition_penalty, "a finite value above 0");
  require_value(p.top_k >= 0, "sampling.top_k", p.top_k, "at least 0 (0 = off)");
  require_penalty("sampling.presence_penalty", p.presence_penalty);
  require_penalty("sampling.frequency_penalty", p.frequency_penalty);
  require_value(p.top_logprobs >= 0 && p.top_logprobs <= kMaxTopLogprobs, "sampling.logprobs",
                p.top_logprobs, "0..20");
  check_bias(p.logit_bias);
  for (const int32_t id : p.allowed_token_ids) require_id("sampling.allowed_token_ids", id);
}

bool has_logit_rules(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0 ||
         !p.logit_bias.empty() || !p.allowed_token_ids.empty();
}

bool is_plain(const SamplingParams& p) {
  return p.temperature > 0 && p.top_p == 1 && p.min_p == 0 && p.top_k == 0 && !has_logit_rules(p);
}

int32_t greedy_token(std::span<const float> logits) {
  float best = -HUGE_VALF;
  bool bad = logits.empty();
  for (const float v : logits) {
    bad |= std::isnan(v);
    best = std::max(best, v);
  }
  if (bad || !std::isfinite(best)) fail_not_finite();
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), best) - logits.begin());
}

}  // namespace rl
