#include "pipeline/groups/board_schedule.h"

#include <utility>
#include <vector>

#include "core/error.h"
#include "core/hash.h"

namespace rl {
namespace {

uint64_t digest_of(std::span<const int32_t> ids) { return digest64(std::as_bytes(ids)); }

// Of what a step reads.
uint64_t digest_of(const Sample& s) {
  Digest64 digest;
  digest.update(std::as_bytes(std::span(s.ids)));
  digest.update(std::as_bytes(std::span(s.logprobs)));
  digest.update(std::as_bytes(std::span(s.logprobs_sampled)));
  digest.update(std::as_bytes(std::span(s.versions)));
  digest.update(std::as_bytes(std::span(s.loss_mask)));
  digest.update(std::as_bytes(std::span(s.mixed_kv)));
  return digest.value();
}

SampleRewards rewards_of(const ScheduledEvent& score) {
  constexpr size_t kFixed = 3;  // sample, reward, number of parts
  const std::vector<uint64_t>& n = score.numbers;
  if (n.size() < kFixed || n[2] > n.size() - kFixed) {
    throw Error(Code::kDataLoss, "the event is not a score");
  }
  const auto real = [&](size_t i) { return std::bit_cast<double>(n[i]); };
  SampleRewards rewards{.scored = true, .reward = real(1), .parts = {}, .token_rewards = {}};
  const size_t end_of_parts = kFixed + static_cast<size_t>(n[2]);
  for (size_t i = kFixed; i < end_of_parts; ++i) rewards.parts.push_back(real(i));
  for (size_t i = end_of_parts; i < n.size(); ++i) rewards.token_rewards.push_back(real(i));
  return rewards;
}

}  // namespace

void BoardSchedule::scored(uint64_t sample_id, const SampleRewards& rewards) {
  if (!schedule_.takes_inputs()) return;
  std::vector<uint64_t> numbers = {sample_id, bits_of(rewards.reward), rewards.parts.size()};
  for (const double part : rewards.parts) numbers.push_back(bits_of(part));
  for (const double reward : rewards.token_rewards) numbers.push_back(bits_of(reward));
  schedule_.input(ScheduledKind::kScore, std::move(numbers));
}

void BoardSchedule::failed(uint64_t sample_id, std::string_view reason) {
  schedule_.input(ScheduledKind::kFail, {sample_id}, std::string(reason));
}

void BoardSchedule::expired(uint64_t first_sample_id, const std::string& why) {
  schedule_.input(ScheduledKind::kExpire, {first_sample_id}, why);
}

void BoardSchedule::drawn(uint64_t first_sample_id, int64_t steps_done,
                          std::span<const int32_t> prompt) {
  if (!schedule_.active()) return;
  schedule_.note(ScheduledKind::kDraw,
                 {first_sample_id, static_cast<uint64_t>(steps_done), digest_of(prompt)});
}

void BoardSchedule::finished(const Sample& sample) {
  if (!schedule_.active()) return;
  schedule_.note(ScheduledKind::kSample,
                 {sample.id, static_cast<uint64_t>(sample.generated()), digest_of(sample)});
}

// Those that an input drops are inputs.
void BoardSchedule::dropped(uint64_t first_sample_id, DropReason reason) {
  if (reason == DropReason::kRewardError || reason == DropReason::kRewardTimeout) return;
  schedule_.note(ScheduledKind::kDrop, {first_sample_id, static_cast<uint64_t>(reason)});
}

void BoardSchedule::taken(uint64_t step, std::span<const SamplePtr> batch) {
  if (!schedule_.active()) return;
  std::vector<uint64_t> numbers = {step};
  for (size_t i = 0; i < batch.size(); ++i) {
    if (i == 0 || batch[i]->ordinal != batch[i - 1]->ordinal) numbers.push_back(batch[i]->ordinal);
  }
  schedule_.note(ScheduledKind::kBatch, std::move(numbers));
}

void apply_input(ScoreBoard& board, const ScheduledEvent& input) {
  constexpr int64_t kNoTime = 0;  // a replay has no deadlines
  if (input.numbers.empty()) throw Error(Code::kDataLoss, "the event names no sample");
  const uint64_t sample = input.numbers[0];
  switch (input.kind) {
    case ScheduledKind::kScore:
      return board.score(sample, rewards_of(input), kNoTime);
    case ScheduledKind::kFail:
      return board.fail(sample, input.text, kNoTime);
    case ScheduledKind::kExpire:
      return board.drop(board.ordinal_of(sample), DropReason::kRewardTimeout, input.text);
    default:
      throw Error(Code::kInternal, "the event is no input of a board");
  }
}

}  // namespace rl
