// Writes to the results of this program which ops its tests ran. tools/check_kernels.py reads it.
#include <gtest/gtest.h>

#include <string>

#include "cuda/counted_ranges.h"

namespace rl::testing {
namespace {

class OpsRun : public ::testing::Environment {
  void TearDown() override {
    std::string names;
    for (const auto& [name, count] : range_counts().pushed) {
      names += (names.empty() ? "" : " ") + name;
    }
    ::testing::Test::RecordProperty("ops_run", names);
  }
};

const auto* const kOpsRun = ::testing::AddGlobalTestEnvironment(new OpsRun);

}  // namespace
}  // namespace rl::testing
