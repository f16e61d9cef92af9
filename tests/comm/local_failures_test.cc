// The failures that every backend names (failure_suite.h), and those of local ranks alone.
#include "comm/failure_suite.h"
#include "comm/local_host.h"

namespace rl {
namespace {

using comm::Group;

INSTANTIATE_TEST_SUITE_P(Local, RankFailures, ::testing::Values(Backend(local_backend)));
INSTANTIATE_TEST_SUITE_P(Copying, RankFailures, ::testing::Values(Backend(copying_backend)));
INSTANTIATE_TEST_SUITE_P(Host, RankFailures, ::testing::Values(Backend(host_backend)));

TEST(LocalFailures, UnusedAndFailedTransportsEndInAnyOrder) {
  auto transports = make_local_transports(4);
  transports[2].reset();
  Group group(transports[0], {kLongNs});
  EXPECT_THROW(group.barrier(), RankError);
  transports[0].reset();
  transports[3].reset();
  EXPECT_THROW(Group(transports[1], {kLongNs}).barrier(), RankError);
  transports.clear();
  EXPECT_THROW(group.barrier(), RankError);
}

TEST(LocalFailures, AreKnownToARankThatExchangesNothing) {
  const auto transports = make_local_transports(3);
  transports[0]->check();
  transports[2]->fail("it has had enough");
  const Error error = expect_error(Code::kRankLost, [&] { transports[0]->check(); });
  EXPECT_EQ(error.location, "rank 2");
}

TEST(LocalFailures, ThereIsAtLeastOneRank) {
  expect_error(Code::kOutOfRange, [] { make_local_transports(0); });
}

}  // namespace
}  // namespace rl
