// Records are added rule by rule; a second one of an id is merged into the first.
#include "ops/cuda/sampling_edits.h"

#include <cmath>

#include "core/error.h"

namespace rl::cuda {
namespace {

// What tempers a number that a rule adds to a tempered logit.
float tempering(const SamplingParams& params) {
  return params.temperature == 0 ? 1.0f : 1.0f / params.temperature;
}

bool has_penalty(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.frequency_penalty != 0 || p.presence_penalty != 0;
}

}  // namespace

bool is_unfiltered(const SampleRow& row) {
  const SamplingParams& params = *row.params;
  if (!row.forbidden_ids.empty()) return false;
  return is_plain(params) || (params.temperature == 0 && !has_logit_rules(params));
}

void EditMerge::add(const char* what, const LogitEdit& edit, std::vector<LogitEdit>& edits) {
  if (edit.id < 0 || static_cast<size_t>(edit.id) >= place_.size()) {
    throw Error(Code::kOutOfRange,
                str(what, " ", edit.id, " is outside the row of ", place_.size(), " logits"))
        .with_key(what);
  }
  int32_t& place = place_[static_cast<size_t>(edit.id)];
  if (place == kNone) {
    place = static_cast<int32_t>(edits.size());
    edits.push_back(edit);
    return;
  }
  LogitEdit& known = edits[static_cast<size_t>(place)];
  known.kinds |= edit.kinds;
  known.bias += edit.bias;
  known.generated += edit.generated;
}

void EditMerge::add_previous(const SampleRow& row, std::vector<LogitEdit>& edits) {
  RL_CHECK(row.num_generated <= row.previous_ids.size());
  const size_t prompt = row.previous_ids.size() - row.num_generated;
  for (size_t i = 0; i < row.previous_ids.size(); ++i)
    add("previous_ids", {row.previous_ids[i], LogitEdit::kOccurred, 0, i < prompt ? 0 : 1}, edits);
}

void EditMerge::append(const SampleRow& row, std::vector<LogitEdit>& edits) {
  const SamplingParams& params = *row.params;
  const size_t first = edits.size();
  for (const int32_t id : params.allowed_token_ids)
    add("allowed_token_ids", {id, LogitEdit::kAllowed, 0, 0}, edits);
  for (const int32_t id : row.forbidden_ids)
    add("forbidden_ids", {id, LogitEdit::kForbidden, 0, 0}, edits);
  for (const LogitBias& b : params.logit_bias)
    add("logit_bias", {b.id, LogitEdit::kBiased, b.bias * tempering(params), 0}, edits);
  if (has_penalty(params)) add_previous(row, edits);
  for (size_t i = first; i < edits.size(); ++i) place_[static_cast<size_t>(edits[i].id)] = kNone;
}

FilteredRequest filtered_request(const SampleRow& row) {
  const SamplingParams& params = *row.params;
  return {.row = row.row,
          .u = row.u,
          .token = 0,
          .first_edit = 0,
          .num_edits = 0,
          .only_allowed = params.allowed_token_ids.empty() ? 0 : 1,
          .greedy = params.temperature == 0 ? 1 : 0,
          .top_k = params.top_k,
          .repetition = params.repetition_penalty,
          .frequency = params.frequency_penalty,
          .presence = params.presence_penalty,
          .scale = tempering(params),
          .dropped = 1.0 - params.top_p,
          .least = params.min_p > 0 ? std::log(static_cast<double>(params.min_p)) : -HUGE_VAL};
}

}  // namespace rl::cuda
