// Whole runs and the parts of a host's own loop on a device whose memory the host cannot touch. All
// that they tell is compared with the reference device: steps, weights, tensors, checkpoints.
#include <gtest/gtest.h>

#include "guarded_device.h"
#include "host_parts.h"
#include "pipeline/plan_arenas.h"
#include "pipeline/scenarios.h"
#include "pipeline/scored_model.h"
#include "pipeline/session/machine_probe.h"
#include "pipeline/session/model_forward.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

struct Outcome {
  std::string steps;
  uint64_t digest = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const OptionSet& options, const Device& device, const Scenario& scenario = {}) {
  Rig rig(options, seams_of(device));
  if (scenario.on_score) rig.on_score = scenario.on_score;
  EXPECT_EQ(live(rig.runtime()), planned(rig.pipeline().plan()));
  const RunLog log = rig.start_and_serve();
  EXPECT_FALSE(log.steps.empty());
  return {log.fingerprint(), rig.model().weight_digest()};
}

TEST(GuardedRun, EveryScenarioHasTheBitsOfTheReference) {
  for (const Scenario& scenario : scenarios()) {
    if (scenario.timed || scenario.part) continue;
    SCOPED_TRACE(scenario.name);
    const TempDir dir;
    const OptionSet options = options_of(scenario, dir);
    const Outcome got = run(options, guarded_device(), scenario),
                  want = run(options, reference_device(), scenario);
    EXPECT_EQ(got.steps, want.steps);
    EXPECT_EQ(got.digest, want.digest);
  }
}

TEST(GuardedRun, ARewardModelInTheHostsPlaceHasTheBitsOfTheReference) {
  const TempDir dir;
  OptionSet options = tiny_options(dir);
  options.set_string("model.reward_path", scored_model(dir));
  EXPECT_EQ(run(options, guarded_device()), run(options, reference_device()));
}

// Two steps and a checkpoint on one device, two more on another.
uint64_t digest_of_two(const Device& first, const Device& second, bool async) {
  const TempDir dir;
  OptionSet options = options_with(dir, {"pipeline.total_steps=2", "checkpoint.every_steps=2",
                                         "algo.advantage=gae", "model.freeze=*norm.weight"});
  options.set_string("checkpoint.dir", dir.file("checkpoints"));
  options.set_bool("checkpoint.async", async);
  options.set_text("checkpoint.contents", "model,optimizer,extra,hf_model");
  run(options, first);
  options.set_i64("pipeline.total_steps", 4);
  options.set_string("checkpoint.resume", "auto");
  return run(options, second).digest;
}

TEST(GuardedRun, ACheckpointGoesOnOnEitherDevice) {
  std::vector<uint64_t> digests;
  for (const Device* first : {&guarded_device(), &reference_device()}) {
    for (const Device* second : {&guarded_device(), &reference_device()}) {
      for (const bool async : {false, true})
        digests.push_back(digest_of_two(*first, *second, async));
    }
  }
  for (const uint64_t digest : digests) EXPECT_EQ(digest, digests.front());
}

TEST(GuardedRun, TheCopyOfACheckpointIsInTheHostsMemory) {
  const TempDir dir;
  OptionSet options = options_with(dir, {"checkpoint.async=true"});
  options.set_string("checkpoint.dir", dir.file("checkpoints"));
  Rig rig(options, seams_of(guarded_device()));
  EXPECT_EQ(live(rig.runtime()), planned(rig.pipeline().plan()));
  EXPECT_EQ(rig.pipeline().plan().arena_bytes_in(MemorySpace::kHost),
            rig.pipeline().plan().bytes_of("checkpoint copy"));
  int64_t found = 0;
  for (const ArenaLedger::Entry& e : rig.runtime().ledger().entries()) {
    if (e.name != "checkpoint copy") continue;
    EXPECT_EQ(e.space, MemorySpace::kHost);
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST(GuardedRun, ThePlanTellsMemoryOfTheDeviceFromTheHosts) {
  const TempDir dir;
  OptionSet options = tiny_options(dir);
  options.set_text("engine.preemption", "swap");
  options.set_text("engine.swap_space_bytes", "65536");
  options.set_i64("engine.num_engines", 2);
  Rig guarded(options, seams_of(guarded_device())),
      reference(options, seams_of(reference_device()));
  const MemoryPlan &apart = guarded.pipeline().plan(), &one = reference.pipeline().plan();
  EXPECT_EQ(one.arena_bytes_in(MemorySpace::kDevice), 0u);
  EXPECT_EQ(one.bytes_of("swap space"), 0u);
  const uint64_t swap = apart.arena_bytes_in(MemorySpace::kHost);
  EXPECT_EQ(swap, 2 * apart.bytes_of("swap space"));
  EXPECT_GT(swap, 0u);
  EXPECT_LE(swap, 2 * 65536u);
  EXPECT_EQ(apart.arena_bytes, swap + apart.arena_bytes_in(MemorySpace::kDevice));
  for (Rig* rig : {&guarded, &reference})
    EXPECT_EQ(live(rig->runtime()), planned(rig->pipeline().plan()));
  for (const ArenaLedger::Entry& e : guarded.runtime().ledger().entries()) {
    EXPECT_EQ(e.space, e.name == "swap space" ? MemorySpace::kHost : MemorySpace::kDevice)
        << e.name;
  }
}

TEST(GuardedParts, TheyTellWhatThoseOfTheReferenceTell) {
  for (const Texts& texts :
       {Texts{}, Texts{"model.compute_copies=2"}, Texts{"model.freeze=*embed_tokens.weight"},
        Texts{"model.dtype=bf16", "trainer.max_tokens_per_device=64"}}) {
    SCOPED_TRACE(texts.empty() ? "defaults" : texts.front());
    EXPECT_EQ(story_of(guarded_device(), texts), story_of(reference_device(), texts));
  }
}

TEST(GuardedParts, TensorsAreMemoryOfTheHost) {
  Parts parts(guarded_device(), {});
  const TensorPtr before = lend_weight(parts.model, Parts::kNorm);
  const float first = *static_cast<const float*>(before->data());
  parts.set_norm();
  EXPECT_EQ(*static_cast<const float*>(before->data()), first) << "a copy, not the masters";
  EXPECT_EQ(*static_cast<const float*>(lend_weight(parts.model, Parts::kNorm)->data()),
            1.5f * first);
}

TEST(GuardedParts, ForwardsWithoutATrainerHaveItsBits) {
  const TempDir dir;
  const OptionSet options = host_options(dir, {});
  const auto runtime = std::make_shared<Runtime>(options, seams_of(guarded_device()));
  const auto served = LoadedModel::open(runtime, options, PlanUse::kForward);
  EXPECT_EQ(live(*runtime), planned(served->plan()));
  Parts parts(guarded_device(), {});
  const std::vector<SamplePtr> batch = host_batch(*parts.trainer);
  for (const ForwardOutput output : {ForwardOutput::kLogprobs, ForwardOutput::kHidden}) {
    const TensorPtr a = served->forward({output, batch}),
                    b = parts.trainer->forward({output, batch});
    ASSERT_EQ(a->num_bytes(), b->num_bytes());
    EXPECT_EQ(std::memcmp(a->data(), b->data(), a->num_bytes()), 0);
  }
}

TEST(GuardedParts, TheMachineIsProbedInMemoryOfTheDevice) {
  const TempDir dir;
  Runtime runtime(host_options(dir, {}), seams_of(guarded_device()));
  const MachineRates rates = probe_machine(runtime);
  EXPECT_GT(rates.f32_flops, 0);
  EXPECT_GT(rates.read_bytes_per_s, 0);
  EXPECT_GT(rates.copy_bytes_per_s, 0);
}

}  // namespace
}  // namespace rl::testing
