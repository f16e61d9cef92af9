// Fails every test that leaves a report of the emulated GPU behind. Linked into each program that
// uses the emulation.
#include <gtest/gtest.h>

#include "cuda_host/emulator.h"

namespace rl::emulated {
namespace {

class ReportListener : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo&) override {
    for (const Report& left : take_reports()) ADD_FAILURE() << "emulated GPU: " << left.text;
  }
};

const bool added = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new ReportListener);
  return true;
}();

}  // namespace
}  // namespace rl::emulated
