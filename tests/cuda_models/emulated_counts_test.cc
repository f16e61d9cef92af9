// What the emulated GPU counts, and a real one does not: what lives on the device, and copies.
#include <gtest/gtest.h>

#include "cuda/device_data.h"
#include "cuda_models/emulated_gpu.h"
#include "pipeline/run_rig.h"
#include "pipeline/session/device_tensors.h"
#include "reference/host_parts.h"

namespace rl::testing {
namespace {

class EmulatedCounts : public ::testing::Test {
 protected:
  EmulatedCounts() { emulated::restart(0); }
  ~EmulatedCounts() override { emulated::restart(0); }
};

TEST_F(EmulatedCounts, NothingIsLeftOnTheDeviceAfterARun) {
  const TempDir dir;
  OptionSet options = options_with(dir, {});
  options.set_i64("pipeline.total_steps", 1);
  {
    Rig rig(options, seams_on(emulated_gpu()));
    EXPECT_EQ(rig.start_and_serve().steps.size(), 1u);
  }
  const emulated::Live live = emulated::live();
  EXPECT_EQ(live.device_allocations + live.pinned_allocations, 0);
  EXPECT_EQ(live.streams + live.events, 0);
}

// The sum of squares crosses to the host, and the values go where the weight is: they are not
// looked at in the host's memory.
TEST_F(EmulatedCounts, FiniteValuesOfTheDeviceAreCopiedOnce) {
  Parts parts(emulated_gpu(), {});
  const char* const name = Parts::kNorm;
  const auto count = static_cast<size_t>(copy_weight(*parts.model, name)->num_elements());
  for (const float value : {1.0f, 3e38f}) {  // whose square is finite in double
    DeviceArray<float> array(std::vector<float>(count, value));
    const NamedTensor named{
        name, device_tensor(parts.model->shared_runtime(),
                            {.data = array.data(), .shape = {static_cast<int64_t>(count)}})};
    const int64_t before = emulated::calls("cudaMemcpyAsync");
    set_weights(*parts.model, {&named, 1});
    EXPECT_EQ(emulated::calls("cudaMemcpyAsync") - before, 2);
  }
}

}  // namespace
}  // namespace rl::testing
