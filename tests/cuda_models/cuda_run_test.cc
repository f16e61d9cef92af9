// Whole runs on the GPU, which the runtime takes by its seam: memory is planned and
// counted, checkpoints resume on the GPU with the same bits, and pass between GPU and CPU.
#include <gtest/gtest.h>

#include "cuda_models/emulated_gpu.h"
#include "pipeline/plan_arenas.h"
#include "pipeline/run_rig.h"

namespace rl::testing {
namespace {

struct Outcome {
  std::string steps;
  size_t num_steps = 0;
  uint64_t resumed = 0, digest = 0;  // of the weights, when the run began and ended
};

Outcome run(const OptionSet& options, const Device& device) {
  Rig rig(options, seams_on(device));
  EXPECT_EQ(live(rig.runtime()), planned(rig.pipeline().plan()));
  Outcome out;
  out.resumed = rig.model().weight_digest();
  const RunLog log = rig.start_and_serve();
  for (const double difference : log.series("training/logprob_max_abs_diff"))
    EXPECT_EQ(difference, 0.0);
  out.steps = log.fingerprint();
  out.num_steps = log.steps.size();
  out.digest = rig.model().weight_digest();
  return out;
}

class CudaRun : public ::testing::Test {
 protected:
  void SetUp() override { emulated::restart(0); }
  void TearDown() override { emulated::restart(0); }

  OptionSet options(int64_t steps, const std::vector<std::string>& more = {}) const {
    OptionSet o = options_with(dir_, more);
    o.set_i64("pipeline.total_steps", steps);
    return o;
  }
  OptionSet saved(int64_t steps, const std::string& to) const {
    OptionSet o = options(steps, {"checkpoint.every_steps=1", "checkpoint.resume=auto"});
    o.set_string("checkpoint.dir", dir_.file(to));
    return o;
  }

 private:
  const TempDir dir_;
};

TEST_F(CudaRun, TwoStepsSampleAndTrainInEitherDtype) {
  for (const char* dtype : {"fp32", "bf16"}) {
    SCOPED_TRACE(dtype);
    const Outcome got = run(options(2, {std::string("model.dtype=") + dtype}), emulated_gpu());
    EXPECT_EQ(got.num_steps, 2u);
    EXPECT_NE(got.digest, got.resumed);
  }
}

TEST_F(CudaRun, NoOrderOfTheStreamsChangesAStep) {
  const Outcome want = run(options(1), emulated_gpu());
  for (uint64_t seed = 1; seed < 3; ++seed) {
    emulated::restart(seed);
    const Outcome got = run(options(1), emulated_gpu());
    EXPECT_EQ(got.steps, want.steps);
    EXPECT_EQ(got.digest, want.digest);
  }
}

TEST_F(CudaRun, AResumedRunHasTheBitsOfAWholeOne) {
  const Outcome whole = run(saved(2, "whole"), emulated_gpu()),
                first = run(saved(1, "parts"), emulated_gpu()),
                second = run(saved(2, "parts"), emulated_gpu());
  EXPECT_EQ(second.num_steps, 1u);
  EXPECT_EQ(whole.steps, first.steps + second.steps);
  EXPECT_EQ(whole.digest, second.digest);
}

TEST_F(CudaRun, ACheckpointPassesBetweenCpuAndGpu) {
  for (const auto& [before, after] :
       {std::pair{&cpu_device(), &emulated_gpu()}, std::pair{&emulated_gpu(), &cpu_device()}}) {
    SCOPED_TRACE(after->name());
    const std::string dir = std::string("to_") + after->name();
    const Outcome first = run(saved(1, dir), *before), second = run(saved(2, dir), *after);
    EXPECT_EQ(second.resumed, first.digest);
    EXPECT_EQ(second.num_steps, 1u);
    EXPECT_NE(second.digest, first.digest);
  }
}

TEST_F(CudaRun, OptimizersInFewerBitsTrain) {
  for (const char* more :
       {"optimizer.state_dtype=bf16", "optimizer.state_dtype=int8", "optimizer.name=muon",
        "trainer.grad_dtype=bf16", "trainer.free_grad_buffers_on_publish=true"}) {
    SCOPED_TRACE(more);
    const Outcome got = run(options(1, {more}), emulated_gpu());
    EXPECT_NE(got.digest, got.resumed);
  }
}

}  // namespace
}  // namespace rl::testing
