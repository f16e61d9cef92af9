// Memory of activations, loss and batches in a whole trainer: for each setting the ledger is the
// plan, and gradients and weights have the bits of the default; what a plan refuses becomes one
// that fits by its knobs.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "host_batch.h"
#include "plan_arenas.h"
#include "support/expect_error.h"
#include "support/random_llama.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

using testing::host_batch;
using testing::live;
using testing::planned;
using Texts = std::vector<std::string>;

Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Five layers, wide enough for activations to matter.
class RecomputePlan : public ::testing::Test {
 protected:
  RecomputePlan() { testing::write_random_llama(dir_.file("five"), {.layers = 5, .scale = 0.1f}); }
  OptionSet options(const Texts& texts) const {
    OptionSet o;
    for (const char* text :
         {"runtime.threads=1", "runtime.seed=7", "model.dtype=fp32", "engine.max_model_len=32",
          "sampling.max_new_tokens=8", "optimizer.lr=3e-3"}) {
      o.set_assignment(text);
    }
    o.set_string("model.path", dir_.file("five"));
    for (const std::string& text : texts) o.set_assignment(text);
    return o;
  }

  struct Outcome {
    std::vector<float> gradients, weights;
    MetricList metrics;
    uint64_t host = 0, workspace = 0;  // bytes; the latter of training alone
  };
  // A step of a trainer whose ledger is what the plan says.
  Outcome train(const Texts& texts, bool with_logprobs = true) const {
    const OptionSet o = options(texts);
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kTrain);
    const auto runtime = std::make_shared<Runtime>(o);
    const auto model = LoadedModel::open(runtime, o, PlanUse::kTrain);
    const auto trainer = std::make_shared<TrainerSession>(model, o);
    EXPECT_EQ(live(*runtime), planned(plan));
    EXPECT_EQ(plan.total_bytes,
              plan.arena_bytes - plan.host_workspace_bytes() + plan.baseline_bytes);
    Outcome out;
    out.host = plan.host_workspace_bytes();
    for (const PlanEntry& part : plan.parts) {
      if (part.phase == "train" && part.name != "log-probs beyond training")
        out.workspace += part.bytes;
    }
    const std::vector<SamplePtr> batch = host_batch(*trainer, {.with_logprobs = with_logprobs});
    if (o.get_text("algo.advantage") == "grpo") {
      std::vector<SampleRewards> rewards;
      for (const SamplePtr& s : batch) rewards.push_back(rewards_of(*s));
      trainer->backward({batch, rewards, {}, {}});
      const TensorPtr g = TrainerSession::gradient(trainer, "");
      const auto* begin = static_cast<const float*>(g->data());
      out.gradients.assign(begin, begin + g->num_elements());
    }
    out.metrics = trainer->step(batch);
    const float* masters = model->model().master();
    out.weights.assign(masters, masters + model->model().layout().total());
    EXPECT_EQ(runtime->ledger().bytes(), plan.arena_bytes);
    return out;
  }

  const TempDir dir_;
};

Texts full(const char* method, int layers) {
  return {"trainer.recompute_granularity=full", str("trainer.recompute_method=", method),
          str("trainer.recompute_num_layers=", layers)};
}
const Texts kSelective = {"trainer.recompute_granularity=selective"};
const Texts kOffload = {"trainer.activation_offload=true"};
const Texts kLoss = {"trainer.recompute_loss=true"};

TEST_F(RecomputePlan, EverySettingHasItsLedgerAndTheBitsOfTheDefault) {
  const Outcome kept = train({});
  EXPECT_EQ(kept.host, 0u);
  const auto same = [&](const Texts& texts, bool saves = true) {
    SCOPED_TRACE(texts.back());
    const Outcome r = train(texts);
    EXPECT_EQ(r.gradients, kept.gradients);
    EXPECT_EQ(r.weights, kept.weights);
    EXPECT_EQ(r.metrics.get("training/logprob_max_abs_diff"), 0.0);
    EXPECT_EQ(r.workspace < kept.workspace, saves);
    return r;
  };
  ASSERT_FALSE(kept.gradients.empty());
  same(kSelective);
  same(kSelective + Texts{"trainer.recompute_modules=o_proj"});
  same(kSelective + Texts{"trainer.recompute_modules=mlp,qkv,core_attn,o_proj"});
  same(full("uniform", 1));
  same(full("uniform", 2));
  same(full("block", 3));
  same(kLoss, false);  // the head's buffers lie in those of the backward, which are larger here
  same(full("uniform", 1) + kLoss + Texts{"trainer.backward_weights=resident"});
  EXPECT_GT(same(kOffload).host, 0u);
  EXPECT_GT(same(full("uniform", 1) + kOffload + kLoss).host, 0u);
  EXPECT_GT(same(kSelective + kOffload + Texts{"algo.kl.where=loss", "algo.kl.coef=0"}).host, 0u);
}

TEST_F(RecomputePlan, ACriticHasARuleOfItsOwn) {
  const Texts gae = {"algo.advantage=gae", "critic.optimizer.lr=1e-2"};
  const Outcome kept = train(gae);
  for (const Texts& texts :
       {full("uniform", 1), full("block", 2) + Texts{"critic.recompute_granularity=selective"},
        kSelective + Texts{"critic.recompute_granularity=none"}, kSelective + kOffload}) {
    SCOPED_TRACE(texts.back());
    const Outcome r = train(gae + texts);
    EXPECT_EQ(r.weights, kept.weights);
    EXPECT_EQ(r.metrics.get("critic/vf_loss"), kept.metrics.get("critic/vf_loss"));
    EXPECT_EQ(r.metrics.get("critic/grad_norm"), kept.metrics.get("critic/grad_norm"));
  }
}

TEST_F(RecomputePlan, RefusesModulesThatTheModelsLack) {
  for (const auto& [module, why] : {std::pair("layernorm", "always computed again"),
                                    {"moe_act", "no experts"},
                                    {"moe", "no experts"},
                                    {"shared_experts", "no experts"},
                                    {"mla_up_proj", "no latent attention"},
                                    {"mlp2", "unknown"}}) {
    const OptionSet o =
        options(kSelective + Texts{str("trainer.recompute_modules=core_attn,", module)});
    const Error e =
        expect_error(Code::kInvalidArgument, [&] { plan_memory(o, real_fs(), PlanUse::kTrain); });
    EXPECT_EQ(e.key, "trainer.recompute_modules");
    EXPECT_EQ(e.location, "trainer.recompute_modules[1]");
    EXPECT_NE(e.message.find(why), std::string::npos) << e.message;
  }
}

TEST_F(RecomputePlan, RefusesMoreLayersThanThereAreAndOffloadOfNothing) {
  const auto refused = [&](const Texts& texts, Code code) {
    return expect_error(code, [&] { plan_memory(options(texts), real_fs(), PlanUse::kTrain); });
  };
  const Error layers = refused(full("block", 6), Code::kOutOfRange);
  EXPECT_EQ(layers.key, "trainer.recompute_num_layers");
  EXPECT_EQ(layers.expected, "1..5");
  EXPECT_EQ(refused(full("uniform", 3) + kOffload, Code::kConflict).key,
            "trainer.activation_offload");
  EXPECT_EQ(refused({"algo.advantage=gae", "critic.recompute_granularity=full",
                     "trainer.recompute_method=uniform", "trainer.recompute_num_layers=6"},
                    Code::kOutOfRange)
                .key,
            "trainer.recompute_num_layers");
}

TEST_F(RecomputePlan, HostMemoryHasABudgetOfItsOwn) {
  OptionSet o = options(kOffload);
  const uint64_t needed = plan_memory(o, real_fs(), PlanUse::kTrain).host_workspace_bytes();
  ASSERT_GT(needed, 0u);
  o.set_u64("runtime.host_memory_budget_bytes", needed);
  const MemoryPlan whole = plan_memory(o, real_fs(), PlanUse::kTrain);
  o.set_u64("runtime.host_memory_budget_bytes", needed - 1);
  const MemoryPlan smaller = plan_memory(o, real_fs(), PlanUse::kTrain);  // a micro-batch of less
  EXPECT_LT(smaller.max_tokens, whole.max_tokens);
  EXPECT_LT(smaller.host_workspace_bytes(), needed);
  o.set_u64("runtime.host_memory_budget_bytes", 1);
  const Error e =
      expect_error(Code::kResourceExhausted, [&] { plan_memory(o, real_fs(), PlanUse::kTrain); });
  EXPECT_EQ(e.key, "runtime.host_memory_budget_bytes");
}

// Samples as long as the context, and budgets below what the default needs.
TEST_F(RecomputePlan, KnobsInTheOrderGivenMakeARefusedPlanFit) {
  const Texts large = {"engine.max_model_len=128", "trainer.max_tokens_per_device=4096",
                       "trainer.logprob_max_tokens_per_device=4096"};
  OptionSet o = options(large);
  const auto refusal = [&]() -> std::optional<MemoryError> {
    try {
      plan_memory(o, real_fs(), PlanUse::kTrain);
      return std::nullopt;
    } catch (const MemoryError& e) {
      return e;
    }
  };
  const uint64_t most = plan_memory(o, real_fs(), PlanUse::kTrain).total_bytes;
  std::set<std::string> turned;
  for (int percent = 99; percent >= 90; percent -= 3) {
    o = options(large);
    o.set_u64("runtime.memory_budget_bytes", most / 100 * static_cast<uint64_t>(percent));
    const auto error = refusal();
    ASSERT_TRUE(error) << percent;
    ASSERT_FALSE(error->knobs.empty());
    for (const Knob& k : error->knobs) {
      o.set_text(k.key, k.proposed);
      turned.insert(k.key);
    }
    EXPECT_FALSE(refusal()) << percent;
  }
  EXPECT_TRUE(turned.contains("trainer.recompute_granularity")) << ::testing::PrintToString(turned);
  EXPECT_FALSE(turned.contains("trainer.activation_offload"));
}

// Of prompts of two tokens and responses of three, one response token is left.
TEST_F(RecomputePlan, CutSamplesEndAtTheLength) {
  const Texts cut = {"trainer.seq_len=2", "trainer.oversize=cut"};
  const Outcome r = train(cut, false);
  EXPECT_EQ(r.metrics.get("training/cut_samples"), 8.0);
  EXPECT_EQ(r.metrics.get("training/cut_tokens"), 16.0);
  EXPECT_EQ(r.metrics.get("training/loss_tokens"), 8.0);
  const Outcome whole = train({"trainer.seq_len=100", "trainer.oversize=cut"}, false);
  EXPECT_EQ(whole.metrics.get("training/cut_tokens"), 0.0);
  EXPECT_LT(r.workspace, whole.workspace);
  // As if the responses had ended there.
  const OptionSet o = options(cut);
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
  const auto trainer = std::make_shared<TrainerSession>(model, o);
  std::vector<SamplePtr> batch = host_batch(*trainer, {.with_logprobs = false});
  for (SamplePtr& s : batch) {
    s->ids.resize(3);
    s->versions.resize(1);
    s->loss_mask.resize(1);
  }
  EXPECT_EQ(trainer->step(batch).get("training/cut_tokens"), 0.0);
  const float* masters = model->model().master();
  EXPECT_TRUE(std::equal(r.weights.begin(), r.weights.end(), masters));
}

TEST_F(RecomputePlan, CutSamplesWithACriticAndAReference) {
  const Outcome r = train({"trainer.seq_len=3", "trainer.oversize=cut", "algo.advantage=gae",
                           "algo.kl.where=loss", "algo.kl.coef=0.1"},
                          false);
  EXPECT_EQ(r.metrics.get("training/cut_tokens"), 8.0);
  EXPECT_EQ(r.metrics.get("critic/optimizer_steps"), 1.0);
}

TEST_F(RecomputePlan, ABudgetBelowTheCutIsRefused) {
  const OptionSet o = options({"trainer.seq_len=20", "trainer.oversize=cut", "algo.kl.where=loss",
                               "algo.kl.coef=0.1", "reference.forward_max_tokens_per_device=19"});
  const Error e =
      expect_error(Code::kConflict, [&] { plan_memory(o, real_fs(), PlanUse::kTrain); });
  EXPECT_EQ(e.key, "reference.forward_max_tokens_per_device");
  EXPECT_EQ(e.other_key, "trainer.seq_len");
}

TEST_F(RecomputePlan, AReferenceMayCountSequences) {
  const Texts counted = {"trainer.dynamic_batching=false", "algo.kl.where=loss",
                         "algo.kl.coef=0.1"};
  const Outcome by_tokens = train(counted);
  for (const int sequences : {1, 3, 100}) {
    const Outcome r = train(counted + Texts{str("reference.micro_batch_size=", sequences)});
    EXPECT_EQ(r.weights, by_tokens.weights) << sequences;
  }
}

}  // namespace
}  // namespace rl
