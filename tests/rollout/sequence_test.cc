// What a request becomes in the engine: its rank among others, its sequences, and the samples that
// these begin with.
#include "rollout/sequence.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace rl {
namespace {

using Mask = std::vector<uint8_t>;

Request fresh(std::vector<int32_t> prompt, int64_t max_new_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_new_tokens = max_new_tokens;
  return r;
}

// Two prompt tokens, then one token per entry of the mask.
std::shared_ptr<Sample> sample_with(const Mask& mask) {
  auto s = std::make_shared<Sample>();
  s->prompt_tokens = 2;
  s->ids.assign(2 + mask.size(), 7);
  s->loss_mask = mask;
  return s;
}

Request resuming(std::shared_ptr<const Sample> sample, int64_t max_new_tokens = 4) {
  Request r = fresh({}, max_new_tokens);
  r.resume = std::move(sample);
  return r;
}

int64_t rank_of(Request r, int64_t priority, SchedulingPolicy policy) {
  r.priority = priority;
  return make_active(r, 20000, policy)->rank;
}

TEST(Sequence, PriorityAndTurnsOvertakeEach4096Requests) {
  constexpr int64_t kStep = 4096;
  const auto ranked = [](const Request& r, int64_t priority) {
    return rank_of(r, priority, SchedulingPolicy::kPriority);
  };
  const Request r = fresh({1, 2, 3}, 5);
  EXPECT_EQ(ranked(r, 0), 20000);
  EXPECT_EQ(ranked(r, 3), 20000 - 3 * kStep);
  EXPECT_EQ(ranked(r, -2), 20000 + 2 * kStep);
  const std::pair<Mask, int64_t> turns[] = {{{}, 1},     {{1, 1, 1}, 1},       {{1, 0}, 2},
                                            {{0, 1}, 2}, {{1, 1, 0, 0, 1}, 2}, {{1, 0, 1, 0}, 3}};
  for (const auto& [mask, count] : turns) {
    EXPECT_EQ(ranked(resuming(sample_with(mask)), 0), 20000 - count * kStep);
    EXPECT_EQ(ranked(resuming(sample_with(mask)), -1), 20000 - (count - 1) * kStep);
  }
}

TEST(Sequence, WithoutPrioritiesTheOrderIsThatOfSubmission) {
  EXPECT_EQ(rank_of(fresh({1}, 5), 3, SchedulingPolicy::kFcfs), 20000);
  EXPECT_EQ(rank_of(resuming(sample_with({1, 0})), 0, SchedulingPolicy::kFcfs), 20000);
}

TEST(Sequence, OrderIsRankThenSubmissionThenSlot) {
  Request pair = fresh({1}, 5);
  pair.num_samples = 2;
  const auto a = make_active(pair, 8, SchedulingPolicy::kFcfs);
  const auto b = make_active(pair, 9, SchedulingPolicy::kFcfs);
  const SchedulingOrder before;
  const auto expect_before = [&](const Sequence& x, const Sequence& y) {
    EXPECT_TRUE(before(&x, &y));
    EXPECT_FALSE(before(&y, &x));
  };
  expect_before(a->sequences[0], a->sequences[1]);
  expect_before(a->sequences[1], b->sequences[0]);
  b->rank = a->rank;
  expect_before(a->sequences[1], b->sequences[0]);
  b->rank = a->rank - 1;
  expect_before(b->sequences[1], a->sequences[0]);
  EXPECT_FALSE(before(&a->sequences[0], &a->sequences[0]));
}

TEST(Sequence, ARequestBecomesOneWaitingSequencePerSample) {
  Request r = fresh({1, 2, 3}, 5);
  r.num_samples = 3;
  const auto active = make_active(r, 12, SchedulingPolicy::kFcfs);
  EXPECT_EQ(active->number, 12u);
  EXPECT_EQ(active->unfinished, 3);
  EXPECT_EQ(active->leader, nullptr);
  EXPECT_EQ(active->request.prompt, r.prompt);
  ASSERT_EQ(active->sequences.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    const Sequence& s = active->sequences[i];
    EXPECT_EQ(s.index, i);
    EXPECT_EQ(s.request, active.get());
    EXPECT_EQ(s.state, SequenceState::kWaiting);
    EXPECT_FALSE(s.begun || s.admitted || s.follows || s.is_leader());
    EXPECT_EQ(s.sample, nullptr) << "samples are made when they first run";
  }
  active->leader = &active->sequences[1];
  EXPECT_FALSE(active->sequences[0].is_leader());
  EXPECT_TRUE(active->sequences[1].is_leader());
}

TEST(Sequence, TheLastTokenNeedsNoPosition) {
  EXPECT_EQ(positions_needed(fresh({1, 2, 3}, 10)), 12);
  EXPECT_EQ(positions_needed(fresh({1}, 1)), 1);
  EXPECT_EQ(positions_needed(resuming(sample_with({1, 1, 0}), 4)), 8);
  EXPECT_EQ(make_active(fresh({1, 2, 3}, 10), 0, SchedulingPolicy::kFcfs)->first_tokens(), 3);
  EXPECT_EQ(
      make_active(resuming(sample_with({1, 1, 0})), 0, SchedulingPolicy::kFcfs)->first_tokens(), 5);
}

TEST(Sequence, AResponseBeginsAfterThePromptOrTheLastGivenToken) {
  const std::pair<Mask, int64_t> cases[] = {{{}, 2},     {{1, 1}, 2},    {{1, 0}, 4},
                                            {{0, 1}, 3}, {{1, 0, 1}, 4}, {{1, 0, 0, 1, 1}, 5}};
  for (const auto& [mask, begin] : cases) EXPECT_EQ(response_begin(*sample_with(mask)), begin);
}

TEST(Sequence, GreedySamplesAreStoredAtTemperatureOne) {
  SamplingParams params;
  params.temperature = 0;
  EXPECT_EQ(stored_temperature(params), 1.0f);
  params.temperature = 0.25f;
  EXPECT_EQ(stored_temperature(params), 0.25f);
}

TEST(Sequence, AFreshSampleHasTheKeysOfItsRequestAndNothingElse) {
  Request r = fresh({4, 5, 6}, 8);
  r.num_samples = 3;
  r.first_slot = 10;
  r.first_sample_id = 500;
  r.ordinal = 77;
  r.attempt = 2;
  r.purpose = Purpose::kEval;
  r.sampling.temperature = 0.5f;
  r.sampling.top_logprobs = 3;
  const auto active = make_active(r, 1, SchedulingPolicy::kFcfs);
  active->submitted_ns = 42;
  const SamplePtr s = make_sample(active->sequences[2]);
  EXPECT_EQ(s->id, 502u);
  EXPECT_EQ(s->slot, 12u);
  EXPECT_EQ(s->ordinal, 77u);
  EXPECT_EQ(s->attempt, 2u);
  EXPECT_EQ(s->purpose, Purpose::kEval);
  EXPECT_EQ(s->ids, r.prompt);
  EXPECT_EQ(s->prompt_tokens, 3);
  EXPECT_EQ(s->num_top, 3u);
  EXPECT_EQ(s->temperature, 0.5f);
  EXPECT_EQ(s->submitted_ns, 42);
  EXPECT_EQ(s->admitted_ns + s->first_token_ns + s->finished_ns, 0);
  EXPECT_EQ(s->num_aborts + s->preemptions, 0u);
}

TEST(Sequence, AResumedSampleKeepsItsPastButNotItsEndScoreAndTimes) {
  auto past = sample_with({1, 1});
  past->id = 9;
  past->slot = 3;
  past->ordinal = 5;
  past->attempt = 1;
  past->data_row = 8;
  past->tag = "row";
  past->logprobs = {-1, -2};
  past->versions = {6, 7};
  past->num_aborts = 4;
  past->preemptions = 2;
  past->finish = FinishReason::kAborted;
  past->scored = true;
  past->reward = 1.5;
  past->submitted_ns = 1;
  past->admitted_ns = 2;
  past->first_token_ns = 3;
  past->finished_ns = 4;
  Request r = resuming(past);
  r.first_slot = 20;  // a resumed sample keeps its own keys
  r.first_sample_id = 30;
  r.ordinal = 40;
  const auto active = make_active(r, 1, SchedulingPolicy::kFcfs);
  active->submitted_ns = 99;
  const SamplePtr s = make_sample(active->sequences[0]);
  EXPECT_EQ(s->id, 9u);
  EXPECT_EQ(s->slot, 3u);
  EXPECT_EQ(s->ordinal, 5u);
  EXPECT_EQ(s->attempt, 1u);
  EXPECT_EQ(s->data_row, 8);
  EXPECT_EQ(s->tag, "row");
  EXPECT_EQ(s->ids, past->ids);
  EXPECT_EQ(s->logprobs, past->logprobs);
  EXPECT_EQ(s->versions, past->versions);
  EXPECT_EQ(s->num_aborts, 4u);
  EXPECT_EQ(s->preemptions, 2u);
  EXPECT_EQ(s->finish, FinishReason::kNone);
  EXPECT_FALSE(s->scored);
  EXPECT_EQ(s->reward, 0);
  EXPECT_EQ(s->submitted_ns, 99);
  EXPECT_EQ(s->admitted_ns, 0);
  EXPECT_EQ(s->first_token_ns, 0);
  EXPECT_EQ(s->finished_ns, 0);
  EXPECT_EQ(past->finish, FinishReason::kAborted) << "the given sample is not changed";
}

TEST(Sequence, APreparedSequenceKnowsItsEndAndHasRoomForEveryTokenAndBlock) {
  const KvBlocks blocks(8, 16, true);
  for (const bool resumes : {false, true}) {
    const Request r = resumes ? resuming(sample_with({1, 0, 1}), 28) : fresh({1, 2, 3, 4, 5}, 28);
    const auto active = make_active(r, 0, SchedulingPolicy::kFcfs);
    active->submitted_ns = 17;
    Sequence& s = active->sequences[0];
    prepare_to_run(s, blocks);
    ASSERT_NE(s.sample, nullptr);
    EXPECT_EQ(s.length(), 5);
    EXPECT_EQ(s.end, 33);
    EXPECT_EQ(s.response_begin, resumes ? 4 : 5);
    EXPECT_EQ(s.response_tokens(), resumes ? 1 : 0);
    EXPECT_EQ(s.waits_since_ns, 17);
    EXPECT_EQ(s.sample->submitted_ns, 17);
    EXPECT_GE(s.sample->ids.capacity(), 33u);
    EXPECT_GE(s.sample->logprobs.capacity(), resumes ? 31u : 28u);
    EXPECT_GE(s.blocks.capacity(), 2u);
    EXPECT_GE(s.swapped.capacity(), 2u);
    expect_error(Code::kInternal, [&] { prepare_to_run(s, blocks); });
  }
}

TEST(Sequence, ARequestWasAbortedOftenWhenAnUnfinishedSampleOfItWas) {
  auto past = sample_with({1});
  past->num_aborts = 2;
  const auto active = make_active(resuming(past), 0, SchedulingPolicy::kFcfs);
  EXPECT_FALSE(active->was_aborted(0)) << "0 protects nothing";
  EXPECT_TRUE(active->was_aborted(1));
  EXPECT_TRUE(active->was_aborted(2)) << "it never ran, but its past counts";
  EXPECT_FALSE(active->was_aborted(3));
  Sequence& s = active->sequences[0];
  s.sample = make_sample(s);
  s.sample->num_aborts = 3;
  EXPECT_TRUE(active->was_aborted(3));
  s.state = SequenceState::kFinished;
  EXPECT_FALSE(active->was_aborted(1));
  EXPECT_FALSE(make_active(fresh({1}, 2), 0, SchedulingPolicy::kFcfs)->was_aborted(1));
}

}  // namespace
}  // namespace rl
