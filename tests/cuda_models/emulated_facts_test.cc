// What the emulated GPU knows and a real one does not: what lives on the device, copies, and
// whether a handle is that of a stream.
#include <gtest/gtest.h>

#include "cuda/device_data.h"
#include "cuda_models/emulated_gpu.h"
#include "pipeline/run_rig.h"
#include "pipeline/session/device_tensors.h"
#include "reference/host_parts.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

class EmulatedFacts : public ::testing::Test {
 protected:
  EmulatedFacts() { emulated::restart(0); }
  ~EmulatedFacts() override { emulated::restart(0); }
};

TEST_F(EmulatedFacts, NothingIsLeftOnTheDeviceAfterARun) {
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
TEST_F(EmulatedFacts, FiniteValuesOfTheDeviceAreCopiedOnce) {
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

TEST_F(EmulatedFacts, AHandleOfNoStreamIsTheHostsMistake) {
  Parts parts(emulated_gpu(), {});
  int no_stream = 0;
  const Error error = expect_error(Code::kInvalidArgument,
                                   [&] { parts.model->runtime().compute().follow(&no_stream); });
  EXPECT_TRUE(contains(error.message, "the stream is none of device 0")) << error.message;
  parts.step();  // nothing is lost
}

}  // namespace
}  // namespace rl::testing
