// Layouts of ranks against one rank. To add a layout, add a line to layout_table.h.
#include "layout_runs.h"

namespace rl::testing {
namespace {

class Layouts : public ::testing::TestWithParam<LayoutRow> {
 protected:
  static void SetUpTestSuite() { runs_ = new LayoutRuns(on_local_ranks); }
  static void TearDownTestSuite() { delete runs_; }
  static inline LayoutRuns* runs_;
};

TEST_P(Layouts, TrainGenerateAndSaveAsOneRankDoes) { expect_as_one_rank(*runs_, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Of, Layouts, ::testing::ValuesIn(kLayouts), layout_test_name);

}  // namespace
}  // namespace rl::testing
