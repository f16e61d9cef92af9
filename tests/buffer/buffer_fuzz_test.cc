// Mutations of the golden file; those of a recorded one are in tests/pipeline/replay_test.cc.
#include "support/buffer_mutation.h"

namespace rl::testing {
namespace {

std::string golden() {
  return read_text_file(real_fs(), std::string(RL_FIXTURES) + "/buffer/version_1.rlbuf", 1 << 20);
}

TEST(BufferFuzz, MutatedFilesLoadOrAreNamedErrors) {
  BufferMutation outcome;
  const int rounds = test::fuzz_rounds(1000);
  outcome.mutate_file(golden(), rounds);
  EXPECT_GT(outcome.refused, rounds / 2);
}

TEST(BufferFuzz, MutatedDocumentsInGoodFramesLoadOrAreNamedErrors) {
  BufferMutation outcome;
  const int rounds = test::fuzz_rounds(1000);
  outcome.mutate_documents(golden(), rounds);
  // Both happen: a changed token is still a token, a changed offset is not an offset.
  EXPECT_GT(outcome.refused, rounds / 10);
  EXPECT_GT(outcome.loaded, rounds / 50);
}

}  // namespace
}  // namespace rl::testing
