// A whole run on the reference device, which the runtime takes by its seam; and what a device
// promises the runtime.
#include <gtest/gtest.h>

#include "core/error.h"
#include "pipeline/plan_arenas.h"
#include "pipeline/run_rig.h"
#include "reference_device.h"

namespace rl::testing {
namespace {

RuntimeSeams with_reference() {
  RuntimeSeams seams;
  seams.executor = make_thread_executor(1);
  seams.device = &reference_device();
  return seams;
}

// In both compute dtypes on any machine: the device says which it has.
TEST(ReferenceRun, APipelineSamplesAndTrains) {
  for (const char* dtype : {"fp32", "bf16"}) {
    SCOPED_TRACE(dtype);
    const TempDir dir;
    OptionSet options = tiny_options(dir);
    options.set_text("model.dtype", dtype);
    Rig rig(options, with_reference());
    EXPECT_STREQ(rig.runtime().compute().device().name(), "reference");
    EXPECT_STREQ(dtype_name(rig.runtime().compute().dtype()), dtype);
    const RunLog log = rig.start_and_serve();
    ASSERT_EQ(log.steps.size(), 3u);
    for (const double difference : log.series("training/logprob_max_abs_diff"))
      EXPECT_EQ(difference, 0.0);
  }
}

TEST(ReferenceRun, ThePlanAsksTheDevice) {
  const TempDir dir;
  const OptionSet options = tiny_options(dir);
  Rig reference(options, with_reference());
  EXPECT_EQ(live(reference.runtime()), planned(reference.pipeline().plan()));
  EXPECT_EQ(reference.pipeline().plan().bytes_of("matmul workspace"), 0u);
  Rig cpu(options);
  EXPECT_GT(cpu.pipeline().plan().bytes_of("matmul workspace"), 0u);
}

class IncompleteCompute final : public Compute {
 public:
  explicit IncompleteCompute(const OpTable& ops)
      : Compute(ops, {reference_device(), Dtype::kF32, 1, nullptr}) {}
  bool exact() const override { return true; }
  const std::string& implementation() const override { return name_; }

 private:
  const std::string name_ = "incomplete";
};

TEST(ReferenceRun, AMissingOpIsNamedWhenTheComputeIsMade) {
  OpTable table = reference_ops();
  table.attend_backward = nullptr;
  try {
    const IncompleteCompute compute(table);
    FAIL() << "a device without attend_backward was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, Code::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("reference has no op attend_backward"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace rl::testing
