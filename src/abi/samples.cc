// Views of samples and samples from views; see samples.h.
#include "abi/samples.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "abi/arguments.h"

namespace rl::abi {
namespace {

constexpr size_t kMaxTokens = std::numeric_limits<int32_t>::max();

template <typename T>
const T* data_or_null(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

void check_shape(const rl_sample_view& view, size_t least_generated) {
  array_arg(view.ids, view.num_ids, "sample.ids");
  if (view.num_ids > kMaxTokens) {
    throw Error(Code::kOutOfRange,
                str("parameter sample.num_ids is ", view.num_ids, "; at most ", kMaxTokens))
        .with_key("sample.num_ids");
  }
  if (view.num_prompt == 0 || view.num_prompt > view.num_ids ||
      view.num_ids - view.num_prompt < least_generated) {
    throw Error(Code::kOutOfRange, str("parameter sample.num_prompt is ", view.num_prompt, " of ",
                                       view.num_ids, " ids; a sample has at least one prompt token",
                                       least_generated > 0 ? " and one generated token" : ""))
        .with_key("sample.num_prompt");
  }
}

void check_scalars(const rl_sample_view& view) {
  bool_arg(view.scored, "sample.scored");
  if (view.purpose != RL_PURPOSE_TRAIN) {
    refuse("sample.purpose", str("is ", view.purpose, "; only training samples can be put"));
  }
  if (view.finish < RL_FINISH_NONE || view.finish > RL_FINISH_ABORTED) {
    refuse("sample.finish", str("is ", view.finish, ", which is not a finish reason"));
  }
  if (!(view.temperature > 0) || !std::isfinite(view.temperature)) {
    throw Error(Code::kOutOfRange,
                str("parameter sample.temperature is ", view.temperature, "; it must be > 0"))
        .with_key("sample.temperature");
  }
}

void check_logprobs(const std::vector<float>& values, const char* field) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw Error(Code::kNonFinite, str("parameter ", field, "[", i, "] is not finite"))
        .with_key(field);
  }
}

template <typename T>
std::vector<T> copy_or(const T* data, size_t count, T fallback) {
  if (data == nullptr) return std::vector<T>(count, fallback);
  return {data, data + count};
}

void take_top(Sample& sample, const rl_sample_view& view) {
  if (view.num_top == 0) return;
  const size_t generated = view.num_ids - view.num_prompt;
  if (view.num_top > kMaxTokens / std::max<size_t>(generated, 1)) {
    throw Error(Code::kOutOfRange, str("parameter sample.num_top is ", view.num_top, " for ",
                                       generated, " tokens; at most ", kMaxTokens, " in all"))
        .with_key("sample.num_top");
  }
  sample.num_top = static_cast<uint32_t>(view.num_top);
  const size_t entries = generated * view.num_top;
  const auto ids = array_arg(view.top_ids, entries, "sample.top_ids");
  const auto logprobs = array_arg(view.top_logprobs, entries, "sample.top_logprobs");
  sample.top_ids.assign(ids.begin(), ids.end());
  sample.top_logprobs.assign(logprobs.begin(), logprobs.end());
  check_logprobs(sample.top_logprobs, "sample.top_logprobs");
  for (size_t i = 0; i < entries; ++i) {
    if (ids[i] >= -1) continue;
    throw Error(Code::kOutOfRange, str("parameter sample.top_ids[", i, "] is ", ids[i]))
        .with_key("sample.top_ids");
  }
}

void take_tokens(Sample& sample, const rl_sample_view& view) {
  const size_t generated = view.num_ids - view.num_prompt;
  sample.ids.assign(view.ids, view.ids + view.num_ids);
  sample.prompt_tokens = static_cast<int32_t>(view.num_prompt);
  take_top(sample, view);
  if (view.prompt_logprobs != nullptr) {
    const std::vector<float> given(view.prompt_logprobs, view.prompt_logprobs + view.num_prompt);
    check_logprobs(given, "sample.prompt_logprobs");
    sample.prompt_logprobs = std::make_shared<const std::vector<float>>(given);
  }
  if (generated == 0) return;
  if (view.logprobs != nullptr) {
    sample.logprobs.assign(view.logprobs, view.logprobs + generated);
    sample.logprobs_sampled = view.logprobs_sampled != nullptr
                                  ? copy_or(view.logprobs_sampled, generated, 0.0f)
                                  : sample.logprobs;
  } else if (view.logprobs_sampled != nullptr) {
    refuse("sample.logprobs", "is NULL but sample.logprobs_sampled is not");
  }
  sample.versions = copy_or(view.versions, generated, kUnknownVersion);
  sample.loss_mask = copy_or(view.loss_mask, generated, uint8_t{1});
  check_logprobs(sample.logprobs, "sample.logprobs");
  check_logprobs(sample.logprobs_sampled, "sample.logprobs_sampled");
  if (view.mixed_kv != nullptr) sample.mixed_kv = copy_or(view.mixed_kv, generated, uint8_t{0});
  for (const uint8_t mask : sample.loss_mask) bool_arg(mask, "sample.loss_mask");
  for (const uint8_t mixed : sample.mixed_kv) bool_arg(mixed, "sample.mixed_kv");
}

}  // namespace

std::vector<double> reward_parts_arg(const double* parts, size_t count, const char* parameter) {
  if (count > kMaxRewardParts) {
    refuse(parameter, str("has ", count, " entries, expected at most ", kMaxRewardParts));
  }
  return finite_arg(parts, count, parameter);
}

std::vector<double> token_rewards_arg(const double* rewards, size_t count, const Sample& sample,
                                      const char* parameter) {
  const auto tokens = static_cast<size_t>(sample.generated());
  if (count != 0 && count != tokens) {
    refuse(parameter, str("has ", count, " entries, but ", sample_name(sample), " has ", tokens,
                          " tokens after its prompt"));
  }
  return finite_arg(rewards, count, parameter);
}

std::vector<double> finite_arg(const double* values, size_t count, const char* parameter) {
  const auto given = array_arg(values, count, parameter);
  for (size_t i = 0; i < given.size(); ++i) {
    if (std::isfinite(given[i])) continue;
    throw Error(Code::kNonFinite, str("parameter ", parameter, "[", i, "] is ", given[i]))
        .with_key(parameter);
  }
  return {given.begin(), given.end()};
}

void fill_sample(rl_sample_view& view, const Sample& sample) {
  view.sample_id = sample.id;
  view.ordinal = sample.ordinal;
  view.slot = sample.slot;
  view.attempt = sample.attempt;
  view.data_row = sample.data_row;
  view.purpose = static_cast<int32_t>(sample.purpose);
  view.finish = static_cast<int32_t>(sample.finish);
  view.ids = data_or_null(sample.ids);
  view.num_ids = sample.ids.size();
  view.num_prompt = static_cast<size_t>(sample.prompt_tokens);
  view.logprobs = data_or_null(sample.logprobs);
  view.logprobs_sampled = data_or_null(sample.logprobs_sampled);
  view.versions = data_or_null(sample.versions);
  view.loss_mask = data_or_null(sample.loss_mask);
  view.num_top = sample.num_top;
  view.top_ids = data_or_null(sample.top_ids);
  view.top_logprobs = data_or_null(sample.top_logprobs);
  view.reward = sample.reward;
  view.temperature = sample.temperature;
  view.scored = sample.scored ? 1 : 0;
  view.tag = sample.tag.c_str();
  view.tag_len = sample.tag.size();
  view.prompt_text = view.text = "";
  view.submitted_ns = sample.submitted_ns;
  view.first_token_ns = sample.first_token_ns;
  view.finished_ns = sample.finished_ns;
  view.num_aborts = sample.num_aborts;
  view.admitted_ns = sample.admitted_ns;
  view.preemptions = sample.preemptions;
  view.mixed_kv = data_or_null(sample.mixed_kv);
  view.num_reward_parts = sample.reward_parts.size();
  view.reward_parts = data_or_null(sample.reward_parts);
  view.token_rewards = data_or_null(sample.token_rewards);
  view.prompt_logprobs =
      sample.prompt_logprobs != nullptr ? data_or_null(*sample.prompt_logprobs) : nullptr;
}

void fill_rewards(rl_sample_view& view, const SampleRewards& rewards) {
  view.scored = rewards.scored ? 1 : 0;
  view.reward = rewards.reward;
  view.num_reward_parts = rewards.parts.size();
  view.reward_parts = data_or_null(rewards.parts);
  view.token_rewards = data_or_null(rewards.token_rewards);
}

const EventSample& event_sample(const Event& event, size_t index) {
  const auto* const group = dynamic_cast<const GroupEvent*>(&event);
  if (group != nullptr) {
    check_index(index, group->samples.size());
    return group->samples[index];
  }
  const auto* const one = dynamic_cast<const EventSample*>(&event);
  if (one == nullptr) {
    throw Error(Code::kFailedPrecondition,
                str("parameter event is of kind ", event.kind(), ", which has no sample"))
        .with_key("event");
  }
  check_index(index, 1);
  return *one;
}

namespace {

SamplePtr checked_sample(const rl_sample_view& view, size_t least_generated) {
  check_shape(view, least_generated);
  check_scalars(view);
  auto sample = std::make_shared<Sample>();
  take_tokens(*sample, view);
  sample->id = view.sample_id;
  sample->ordinal = view.ordinal;
  sample->slot = view.slot;
  sample->attempt = view.attempt;
  sample->data_row = view.data_row;
  sample->tag = text_arg(view.tag, field_len(view.tag, view.tag_len), "sample.tag");
  sample->finish = static_cast<FinishReason>(view.finish);
  sample->temperature = view.temperature;
  sample->scored = view.scored == 1;
  sample->reward = view.reward;
  sample->reward_parts =
      reward_parts_arg(view.reward_parts, view.num_reward_parts, "sample.reward_parts");
  if (view.token_rewards != nullptr) {
    sample->token_rewards =
        finite_arg(view.token_rewards, view.num_ids - view.num_prompt, "sample.token_rewards");
  }
  sample->submitted_ns = view.submitted_ns;
  sample->first_token_ns = view.first_token_ns;
  sample->finished_ns = view.finished_ns;
  sample->num_aborts = view.num_aborts;
  sample->admitted_ns = view.admitted_ns;
  sample->preemptions = view.preemptions;
  return sample;
}

}  // namespace

std::vector<SamplePtr> scored_copies(const BatchBox& batch) {
  const std::vector<SampleRewards> rewards = batch.rewards();
  std::vector<SamplePtr> copies;
  for (size_t i = 0; i < rewards.size(); ++i) {
    copies.push_back(with_rewards(*batch.samples[i], rewards[i]));
  }
  return copies;
}

void name_place(SampleError& error, const BatchBox& batch, const char* name) {
  auto found = std::ranges::find(batch.samples, error.sample, &SamplePtr::get);
  if (found == batch.samples.end()) {  // a sample that was completed for the step is a copy
    found = std::ranges::find_if(batch.samples, [&](const SamplePtr& s) {
      return s->id == error.id && s->ordinal == error.ordinal && s->slot == error.slot;
    });
  }
  if (found == batch.samples.end()) return;
  const std::string place = str(name, "[", found - batch.samples.begin(), "]");
  error.message = str(place, ", ", error.message);
  if (!error.field.empty()) error.key = str(place, ".", error.field);
}

EngineSession::Naming naming_from(uint64_t ordinal, uint64_t sample_id, uint64_t count,
                                  const char* parameter) {
  constexpr uint64_t kEnd = uint64_t{1} << 63;
  EngineSession::Naming naming;
  if (ordinal != UINT64_MAX) naming.ordinal = ordinal;
  if (sample_id == 0) return naming;
  if (sample_id >= kEnd || count > kEnd - sample_id) {
    throw Error(Code::kOutOfRange, str("parameter ", parameter, ".sample_id is ", sample_id,
                                       "; expected ids below ", kEnd))
        .with_key(str(parameter, ".sample_id"));
  }
  naming.sample_id = sample_id;
  return naming;
}

SamplePtr sample_from(const rl_sample_view& view) { return checked_sample(view, 1); }

SamplePtr resumable_sample(const rl_sample_view& view) {
  if (view.num_ids > view.num_prompt) require(view.logprobs, "sample.logprobs");
  return checked_sample(view, 0);
}

}  // namespace rl::abi
