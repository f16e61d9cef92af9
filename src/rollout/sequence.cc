#include "rollout/sequence.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "rollout/sample_edit.h"

namespace rl {
namespace {

// A request goes before this many earlier submitted ones per step of priority. The bound keeps
// every request from starving.
constexpr int64_t kRequestsPerPriority = 4096;

// 0 for a fresh prompt. A sample that is continued has one turn, and one more for each stretch of
// tokens that an environment appended.
int64_t num_turns(const Request& r) {
  if (!r.resume) return 0;
  int64_t turns = 1;
  bool sampled = true;
  for (const uint8_t mask : r.resume->loss_mask) {
    if (mask == 0 && sampled) ++turns;
    sampled = mask != 0;
  }
  return turns;
}

int64_t rank_of(const Request& r, uint64_t number, SchedulingPolicy policy) {
  const auto order = static_cast<int64_t>(number);
  if (policy == SchedulingPolicy::kFcfs) return order;
  return order - (r.priority + num_turns(r)) * kRequestsPerPriority;
}

SamplePtr fresh_sample(const Request& r, uint32_t index) {
  auto sample = std::make_shared<Sample>();
  sample->id = r.first_sample_id + index;
  sample->ordinal = r.ordinal;
  sample->slot = r.first_slot + index;
  sample->attempt = r.attempt;
  sample->purpose = r.purpose;
  sample->tag = r.tag;
  sample->ids = r.prompt;
  sample->prompt_tokens = static_cast<int32_t>(r.prompt.size());
  sample->num_top = static_cast<uint32_t>(r.sampling.top_logprobs);
  sample->temperature = stored_temperature(r.sampling);
  return sample;
}

SamplePtr resumed_sample(const Request& r) {
  auto sample = std::make_shared<Sample>(*r.resume);
  sample->finish = FinishReason::kNone;
  sample->scored = false;
  sample->reward = 0;
  sample->reward_parts.clear();
  sample->token_rewards.clear();
  sample->admitted_ns = sample->first_token_ns = sample->finished_ns = 0;
  return sample;
}

}  // namespace

bool ActiveRequest::was_aborted(int64_t times) const {
  if (times == 0) return false;
  return std::any_of(sequences.begin(), sequences.end(), [&](const Sequence& s) {
    const Sample* sample = s.sample ? s.sample.get() : request.resume.get();
    return s.state != SequenceState::kFinished && sample != nullptr && sample->num_aborts >= times;
  });
}

namespace {

// Room for the log-probs of the prompt, if they are wanted and the sample has none.
std::shared_ptr<std::vector<float>> wanted_prompt_logprobs(const Request& r) {
  if (!r.prompt_logprobs || (r.resume && r.resume->prompt_logprobs != nullptr)) return nullptr;
  const auto tokens = r.resume ? static_cast<size_t>(r.resume->prompt_tokens) : r.prompt.size();
  return std::make_shared<std::vector<float>>(tokens);
}

}  // namespace

std::unique_ptr<ActiveRequest> make_active(const Request& request, uint64_t number,
                                           SchedulingPolicy policy) {
  auto active = std::make_unique<ActiveRequest>();
  active->request = request;
  active->number = number;
  active->rank = rank_of(request, number, policy);
  active->sequences.resize(static_cast<size_t>(request.num_samples));
  active->unfinished = request.num_samples;
  active->prompt_logprobs = wanted_prompt_logprobs(request);
  for (uint32_t i = 0; i < active->sequences.size(); ++i) {
    active->sequences[i].request = active.get();
    active->sequences[i].index = i;
  }
  return active;
}

int64_t positions_needed(const Request& request) {
  const size_t first = request.resume ? request.resume->ids.size() : request.prompt.size();
  return (CheckedI64(first) + CheckedI64(request.max_new_tokens) - CheckedI64(int64_t{1})).get();
}

int64_t response_begin(const Sample& sample) {
  size_t first = sample.loss_mask.size();
  while (first > 0 && sample.loss_mask[first - 1] != 0) --first;
  return sample.prompt_tokens + static_cast<int64_t>(first);
}

SamplePtr make_sample(const Sequence& sequence) {
  const ActiveRequest& active = *sequence.request;
  const Request& request = active.request;
  SamplePtr sample =
      request.resume ? resumed_sample(request) : fresh_sample(request, sequence.index);
  sample->submitted_ns = active.submitted_ns;
  return sample;
}

// The sample is set last: a sequence that has one is prepared.
void prepare_to_run(Sequence& sequence, const KvBlocks& blocks) {
  RL_CHECK(!sequence.sample);
  const Request& request = sequence.request->request;
  SamplePtr sample = make_sample(sequence);
  sequence.waits_since_ns = sample->submitted_ns;
  sequence.response_begin = response_begin(*sample);
  sequence.end = static_cast<int64_t>(sample->ids.size()) + request.max_new_tokens;
  reserve_tokens(*sample, static_cast<size_t>(sequence.end));
  const auto most = static_cast<size_t>(blocks.count(positions_needed(request)));
  sequence.blocks.reserve(most);
  sequence.swapped.reserve(most);
  sequence.stop.reserve(request.stop_strings);
  sequence.sample = std::move(sample);
}

}  // namespace rl
