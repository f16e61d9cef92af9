// Which rank is at fault, from what ranks say of their calls.
#include "comm/watch/calls_of_ranks.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr uint64_t kTensor = 0, kData = 2;

// A rank in one call, the first with each partner.
RankCalls in_call(uint64_t channel, const std::vector<int>& partners) {
  RankCalls out;
  RunningCall call{channel, {}};
  for (const int partner : partners) {
    out.begun[{partner, channel}] = 1;
    call.partners.push_back({partner, 1});
  }
  out.running.push_back(std::move(call));
  return out;
}

TEST(CallsOfRanks, TheRankInNoCallIsAtFault) {
  // 0 waits for 1 on the tensor axis, 1 for 3 on the data axis; 3 is in no call.
  const CallsOfRanks calls{in_call(kTensor, {1}), in_call(kData, {3}), RankCalls(), RankCalls()};
  const Culprit culprit = find_culprit(calls, 0, calls[0]->running[0]);
  EXPECT_EQ(culprit.rank, 3);
  EXPECT_EQ(culprit.kind, Culprit::kAbsent);
}

TEST(CallsOfRanks, ARankThatCameAndWentOnIsNotAwaited) {
  CallsOfRanks calls{in_call(kTensor, {1, 2}), RankCalls(), RankCalls()};
  calls[1]->begun[{0, kTensor}] = 1;  // came, and is done
  EXPECT_EQ(awaited(calls, 0, calls[0]->running[0]), std::vector<int>{2});
  EXPECT_EQ(find_culprit(calls, 0, calls[0]->running[0]).rank, 2);
}

TEST(CallsOfRanks, ARankThatDoesNotAnswerIsAtFault) {
  const CallsOfRanks calls{in_call(kTensor, {1}), in_call(kData, {2}), std::nullopt};
  const Culprit culprit = find_culprit(calls, 0, calls[0]->running[0]);
  EXPECT_EQ(culprit.rank, 2);
  EXPECT_EQ(culprit.kind, Culprit::kSilent);
}

TEST(CallsOfRanks, RanksInACircleAreToldSo) {
  const CallsOfRanks calls{in_call(kTensor, {1}), in_call(kData, {0})};
  EXPECT_EQ(find_culprit(calls, 0, calls[0]->running[0]).kind, Culprit::kCircle);
  EXPECT_EQ(find_culprit(calls, 1, calls[1]->running[0]).rank, 0);
}

TEST(CallsOfRanks, ACallThatAllHaveComeToIsSlow) {
  const CallsOfRanks calls{in_call(kTensor, {1}), in_call(kTensor, {0})};
  EXPECT_EQ(find_culprit(calls, 0, calls[0]->running[0]).kind, Culprit::kSlow);
}

TEST(CallsOfRanks, PackedAndUnpackedAreEqual) {
  RankCalls calls = in_call(kData, {1, 4});
  calls.begun[{7, kTensor}] = uint64_t{1} << 40;
  const std::string bytes = calls.packed();
  EXPECT_EQ(RankCalls::unpack(bytes).packed(), bytes);
  EXPECT_EQ(RankCalls::unpack(bytes).begun_with(7, kTensor), uint64_t{1} << 40);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    expect_error(Code::kDataLoss, [&] { RankCalls::unpack(bytes.substr(0, cut)); });
  }
}

TEST(CallsOfRanks, ACountBeyondReasonIsRefused) {
  expect_error(Code::kDataLoss, [] { RankCalls::unpack(std::string(8, '\xff')); });
}

}  // namespace
}  // namespace rl
