// Checkpoints of a host's trainer: a trainer that goes on from one has the bits of one that was
// never interrupted, whichever file operation a save died in; and checkpoints that do not belong
// are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "host_batch.h"
#include "host_model.h"
#include "pipeline/session/engine_session.h"
#include "plan_arenas.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"

namespace rl {
namespace {

using testing::host_batch;
using Texts = std::vector<std::string>;

// A process of its own: runtime, model and trainer.
class Process : public testing::HostModel {
 public:
  explicit Process(const Texts& texts = {}, FileSystem* fs = nullptr)
      : HostModel(texts, fs), trainer(std::make_unique<TrainerSession>(model, options)) {}
  // A step on samples that follow from its number.
  std::string step(uint64_t n) {
    std::vector<SamplePtr> batch = host_batch(*trainer);
    for (const SamplePtr& s : batch) s->reward = static_cast<double>((s->id * (n + 3)) % 5);
    return trainer->step(batch).without_times().to_json();
  }

  const std::unique_ptr<TrainerSession> trainer;
};

void expect_same_future(Process& a, Process& b, uint64_t first) {
  for (uint64_t n = first; n < first + 2; ++n) EXPECT_EQ(a.step(n), b.step(n));
  EXPECT_EQ(a.model->weight_digest(), b.model->weight_digest());
  EXPECT_EQ(a.model->version(), b.model->version());
}

TEST(TrainerCheckpoint, ATrainerGoesOnBitForBit) {
  const Texts cases[] = {
      {},
      {"schedule.name=cosine", "schedule.total_steps=6"},
      {"algo.kl.where=loss", "algo.kl.controller=adaptive", "algo.kl.horizon=10"},
      {"algo.advantage=gae", "algo.critic_warmup_steps=1"},
      {"model.freeze=*norm.weight"},
      {"trainer.epochs=2", "trainer.num_minibatches=2"}};
  for (const Texts& texts : cases) {
    SCOPED_TRACE(texts.empty() ? "defaults" : texts.front());
    const TempDir dir;
    Process whole(texts), resumed(texts);
    for (uint64_t n = 1; n <= 3; ++n) whole.step(n);
    const std::string path = whole.trainer->save({dir.file("c"), "row 17", 0, false});
    EXPECT_EQ(path, dir.file("c/step_000003"));
    const TrainerState state = resumed.trainer->load(dir.file("c"));
    EXPECT_EQ(state.host, "row 17");
    EXPECT_EQ(state.steps, 3u);
    EXPECT_EQ(resumed.model->version(), whole.model->version());
    EXPECT_EQ(resumed.trainer->trained_version(), whole.trainer->trained_version());
    expect_same_future(whole, resumed, 4);
  }
}

TEST(TrainerCheckpoint, AFreshTrainerWouldNotGoOnTheSame) {
  Process whole;
  for (uint64_t n = 1; n <= 2; ++n) whole.step(n);
  const TempDir dir;
  whole.model->save(dir.file("model"), Dtype::kF32, false);
  Process same({str("model.path=", dir.file("model"))});
  EXPECT_EQ(same.model->weight_digest(), whole.model->weight_digest());
  whole.step(3);
  same.step(3);
  EXPECT_NE(same.model->weight_digest(), whole.model->weight_digest()) << "moments are lost";
}

TEST(TrainerCheckpoint, OptionsThatWereChangedArePartOfIt) {
  const TempDir dir;
  Process changed;
  changed.step(1);
  OptionSet slower = changed.options;
  slower.set_assignment("optimizer.lr=1e-4");
  changed.trainer->set_options(slower);
  changed.step(2);
  changed.trainer->save({dir.file("c"), "", 0, false});
  Process first, same({"optimizer.lr=1e-4"});
  const Error e = expect_error(Code::kIncompatible, [&] { first.trainer->load(dir.file("c")); });
  EXPECT_EQ(e.key, "optimizer.lr");
  const std::string then = slower.get_text("optimizer.lr");
  EXPECT_EQ(e.expected, then);
  EXPECT_TRUE(contains(e.message, "optimizer.lr is ") && contains(e.message, "it was " + then))
      << e.message;
  same.trainer->load(dir.file("c"));
  expect_same_future(changed, same, 3);
}

// As a process that dies in the operation: no later one happens.
TEST(TrainerCheckpoint, ASaveThatDiesLeavesTheLastCompleteState) {
  FaultFs fs;
  Process p({}, &fs);
  p.step(1);
  const TempDir first_dir;
  p.trainer->save({first_dir.file("c"), "first", 0, false});
  const uint64_t first_digest = p.model->weight_digest();
  p.step(2);
  const uint64_t second_digest = p.model->weight_digest();
  Process loader;
  bool finished = false;
  for (int64_t at = 1; !finished; ++at) {
    SCOPED_TRACE(at);
    ASSERT_LT(at, 1000);
    const TempDir dir;
    std::filesystem::copy(first_dir.path(), dir.path(), std::filesystem::copy_options::recursive);
    fs.arm({.at = at, .for_ever = true, .partial_bytes = 100});
    bool complete = true;
    try {
      p.trainer->save({dir.file("c"), "second", 1, false});
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kIo);
      complete = false;
    }
    finished = fs.operations() < at;
    fs.arm({});
    const TrainerState state = loader.trainer->load(dir.file("c"));
    if (complete) {
      EXPECT_EQ(state.host, "second");
    }
    const bool second = state.host == "second";
    EXPECT_EQ(state.steps, second ? 2u : 1u);
    EXPECT_EQ(loader.model->weight_digest(), second ? second_digest : first_digest);
  }
  EXPECT_EQ(p.model->weight_digest(), second_digest);
}

// A loss that cancels the step between its two minibatches.
CustomLoss loss_of(bool& cancels, TrainerSession& trainer) {
  return [&cancels, &trainer](const AlgoArrays& in, std::span<const double> weights,
                              std::span<double> gradient) {
    double loss = 0;
    for (size_t t = 0; t < weights.size(); ++t) {
      loss -= weights[t] * in.advantages[t];
      gradient[t] -= weights[t] * in.advantages[t];
    }
    if (cancels) trainer.cancel();
    return loss;
  };
}

TEST(TrainerCheckpoint, AnEarlierOneEndsAHalfTrainedModel) {
  const TempDir dir;
  const Texts texts = {"algo.policy_loss=custom", "trainer.num_minibatches=2"};
  Process p(texts), other(texts);
  bool cancels = false;
  bool never = false;
  p.trainer->set_custom_loss(loss_of(cancels, *p.trainer));
  other.trainer->set_custom_loss(loss_of(never, *other.trainer));
  p.step(1);
  other.step(1);
  p.trainer->save({dir.file("c"), "", 0, false});
  cancels = true;
  expect_error(Code::kCancelled, [&] { p.step(2); });
  ASSERT_TRUE(p.model->half_trained());
  expect_error(Code::kFailedPrecondition, [&] { p.trainer->save({dir.file("d"), "", 0, false}); });
  cancels = false;
  p.trainer->load(dir.file("c"));
  EXPECT_FALSE(p.model->half_trained());
  expect_same_future(p, other, 2);
}

// trainer.weights_backup: a step that ends half-way has changed nothing, whatever states there are.
TEST(WeightsBackup, AStepThatEndsHalfWayIsUndone) {
  const Texts cases[] = {{"optimizer.ema=0.9"},
                         {"optimizer.state_dtype=int8", "trainer.grad_dtype=bf16"},
                         {"optimizer.cpu_offload=true", "optimizer.cpu_offload_fraction=0.5"},
                         {"model.freeze=*norm.weight", "trainer.backward_weights=resident"}};
  for (Texts texts : cases) {
    SCOPED_TRACE(texts.front());
    texts.insert(texts.end(), {"algo.policy_loss=custom", "trainer.num_minibatches=2",
                               "trainer.weights_backup=true"});
    Process p(texts), other(texts);
    bool cancels = false, never = false;
    p.trainer->set_custom_loss(loss_of(cancels, *p.trainer));
    other.trainer->set_custom_loss(loss_of(never, *other.trainer));
    EXPECT_EQ(p.step(1), other.step(1));
    const uint64_t digest = p.model->weight_digest(), version = p.model->version();
    cancels = true;
    const Error e = expect_error(Code::kCancelled, [&] { p.step(2); });
    EXPECT_TRUE(contains(e.message, "cancelled and undone")) << e.message;
    EXPECT_FALSE(p.model->half_trained());
    EXPECT_EQ(p.model->weight_digest(), digest);
    EXPECT_EQ(p.model->version(), version);
    cancels = false;
    expect_same_future(p, other, 2);
  }
}

// Of a policy and its critic.
TEST(WeightsBackup, AnErrorOfALossIsUndoneToo) {
  const Texts texts = {"algo.policy_loss=custom", "trainer.num_minibatches=2",
                       "trainer.weights_backup=true", "algo.advantage=gae"};
  Process p(texts), other(texts);
  int fails_in = -1;
  const auto loss = [&fails_in](const AlgoArrays& in, std::span<const double> weights,
                                std::span<double> gradient) {
    if (fails_in >= 0 && fails_in-- == 0) throw Error(Code::kIo, "no loss");
    double sum = 0;
    for (size_t t = 0; t < weights.size(); ++t) {
      sum -= weights[t] * in.advantages[t];
      gradient[t] -= weights[t] * in.advantages[t];
    }
    return sum;
  };
  p.trainer->set_custom_loss(loss);
  EXPECT_NE(p.step(1), "");
  fails_in = -1;
  other.trainer->set_custom_loss(loss);
  other.step(1);
  const uint64_t digest = p.model->weight_digest();
  fails_in = 1;  // in the second minibatch, after the first optimizer step
  expect_error(Code::kIo, [&] { p.step(2); });
  EXPECT_FALSE(p.model->half_trained());
  EXPECT_EQ(p.model->weight_digest(), digest);
  fails_in = -1;
  expect_same_future(p, other, 2);
}

TEST(WeightsBackup, IsAnArenaOfWhatAnUpdateChanges) {
  const auto bytes = [](const Texts& texts) {
    const Process p(texts);
    const MemoryPlan plan = plan_memory(p.options, real_fs(), PlanUse::kTrain);
    EXPECT_EQ(testing::live(p.model->runtime()), testing::planned(plan));
    return std::pair(plan.bytes_of(kWeightsBackup), plan.total_bytes);
  };
  const auto [none, without] = bytes({});
  const auto [all, with] = bytes({"trainer.weights_backup=true"});
  EXPECT_EQ(none, 0u);
  EXPECT_EQ(with - without, all);
  const auto [small, total] = bytes({"trainer.weights_backup=true", "optimizer.state_dtype=int8"});
  EXPECT_LT(small, all * 6 / 10);
}

TEST(TrainerCheckpoint, NamesAreThoseOfSteps) {
  const TempDir dir;
  Process p;
  const TrainerSession::Checkpoint plain{dir.file("c"), "", 2, false};
  TrainerSession::Checkpoint replacing = plain;
  replacing.replace_existing = true;
  p.trainer->save(plain);  // before the first step
  EXPECT_EQ(expect_error(Code::kAlreadyExists, [&] { p.trainer->save(plain); }).location,
            dir.file("c/step_000000"));
  for (uint64_t n = 1; n <= 3; ++n) {
    p.step(n);
    p.trainer->save(plain);
  }
  EXPECT_FALSE(real_fs().exists(dir.file("c/step_000001"))) << "two are kept";
  EXPECT_TRUE(real_fs().exists(dir.file("c/step_000002")));
  // A trainer that goes on from an earlier one is on another way.
  p.trainer->load(dir.file("c/step_000002"));
  EXPECT_EQ(expect_error(Code::kAlreadyExists, [&] { p.trainer->save(plain); }).location,
            dir.file("c/step_000003"));
  p.trainer->save(replacing);
  EXPECT_FALSE(real_fs().exists(dir.file("c/step_000003")));
  EXPECT_TRUE(real_fs().exists(dir.file("c/step_000003.abandoned")));
  EXPECT_EQ(p.trainer->load(dir.file("c")).steps, 2u);
}

TEST(TrainerCheckpoint, WhatDoesNotBelongIsRefused) {
  const TempDir dir;
  Process p;
  p.step(1);
  const std::string path = p.trainer->save({dir.file("c"), "", 0, false});
  const auto refused = [&](Code code, const Texts& texts) {
    Process other(texts);
    const uint64_t before = other.model->weight_digest();
    expect_error(code, [&] { other.trainer->load(path); });
    EXPECT_EQ(other.model->weight_digest(), before);
    other.step(1);
  };
  refused(Code::kIncompatible, {"optimizer.lr=1e-3"});
  refused(Code::kIncompatible, {"model.freeze=*norm.weight"});
  refused(Code::kIncompatible, {"trainer.max_tokens_per_device=64"});
  refused(Code::kIncompatible, {"algo.advantage=gae"});
  expect_error(Code::kNotFound, [&] { p.trainer->load(dir.file("none")); });
  p.step(2);
  const uint64_t digest = p.model->weight_digest();
  std::filesystem::resize_file(path + "/masters.safetensors", 100);
  expect_error(Code::kDataLoss, [&] { p.trainer->load(path); });
  EXPECT_EQ(p.model->weight_digest(), digest);
  p.step(3);
}

// Relative paths, other mounts and other machines.
TEST(TrainerCheckpoint, TheModelMayBeElsewhereAndMaySampleOtherwise) {
  const TempDir dir, elsewhere;
  Process p;
  const std::string path = p.options.get_string("model.path"), moved = elsewhere.file("moved");
  std::filesystem::copy(path, moved, std::filesystem::copy_options::recursive);
  p.step(1);
  p.trainer->save({dir.file("c"), "", 0, false});
  Process other({str("model.path=", moved), "sampling.temperature=0.5", "sampling.top_k=7"});
  other.trainer->load(dir.file("c"));
  expect_same_future(p, other, 2);
}

TEST(TrainerCheckpoint, EveryOptionThatDiffersIsNamed) {
  const TempDir dir;
  Process p;
  p.step(1);
  p.trainer->save({dir.file("c"), "", 0, false});
  Process other({"optimizer.beta1=0.8", "trainer.epochs=2", "sampling.top_k=7"});
  const Error e = expect_error(Code::kIncompatible, [&] { other.trainer->load(dir.file("c")); });
  ASSERT_EQ(e.parts.size(), 2u) << e.message;
  EXPECT_EQ(e.parts[0].key, "optimizer.beta1");
  EXPECT_EQ(e.parts[1].key, "trainer.epochs");
  EXPECT_EQ(e.parts[1].expected, "1");
  EXPECT_EQ(e.parts[1].message, str("trainer.epochs is 2, but it was 1 in the trainer that saved ",
                                    dir.file("c/step_000001")));
  EXPECT_EQ(e.parts[1].location, dir.file("c/step_000001"));
}

// The weights of a frozen reference are in no checkpoint.
TEST(TrainerCheckpoint, AReferenceCountsByItsPath) {
  const TempDir dir, elsewhere;
  const std::string kl = "algo.kl.where=loss";
  Process p({kl});
  const std::string path = p.options.get_string("model.path"), moved = elsewhere.file("moved");
  std::filesystem::copy(path, moved, std::filesystem::copy_options::recursive);
  p.step(1);
  p.trainer->save({dir.file("c"), "", 0, false});
  Process other({kl, str("model.path=", moved)});
  const Error e = expect_error(Code::kIncompatible, [&] { other.trainer->load(dir.file("c")); });
  EXPECT_EQ(e.key, "model.reference_path");
  EXPECT_EQ(e.expected, path);
  Process same({kl, str("model.path=", moved), str("model.reference_path=", path)});
  same.trainer->load(dir.file("c"));
  expect_same_future(p, same, 2);
}

TEST(TrainerIdentity, AnOptionThatIsNotStoredHasItsDefault) {
  require_same_identity({}, {{"trainer.epochs", "1"}}, "c");
  EXPECT_EQ(expect_error(Code::kIncompatible,
                         [] {
                           require_same_identity({}, {{"trainer.epochs", "2"}}, "c");
                         })
                .key,
            "trainer.epochs");
  EXPECT_EQ(expect_error(Code::kIncompatible,
                         [] {
                           require_same_identity({{"trainer.of_later", "2"}}, {}, "c");
                         })
                .message,
            "trainer.of_later is empty, but it was 2 in the trainer that saved c");
}

TEST(TrainerCheckpoint, NothingElseUsesTheWeightsMeanwhile) {
  const TempDir dir;
  Process p({"model.compute_copies=2"});
  p.step(1);
  const TrainerSession::Checkpoint to{dir.file("c"), "", 0, false};
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { p.trainer->save(to); }).code,
            Code::kFailedPrecondition)
      << "not published";
  p.trainer->publish();
  const std::string path = p.trainer->save(to);
  EngineSession engine(p.model, p.options);
  Request r = request_from(p.options);
  r.prompt = {1, 2, 3};
  engine.submit(r);
  expect_error(Code::kBusy, [&] { p.trainer->load(path); });
  engine.run();
  engine.take_finished();
  p.trainer->load(path);
  {
    const LoadedModel::WriteLease lease(*p.model, 0);
    expect_error(Code::kBusy, [&] { p.trainer->save(to); });
  }
}

TEST(TrainerState, HasAFormOfItsOwn) {
  for (const TrainerState& state :
       {TrainerState{}, TrainerState{7, 0.25, "a \"text\"\n"},
        TrainerState{1, {}, "x", {{"optimizer.lr", "0.1"}, {"model.freeze", ""}}}}) {
    const TrainerState read = parse_trainer_state(render_trainer_state(state), "m");
    EXPECT_EQ(read.steps, state.steps);
    EXPECT_EQ(read.kl_coef, state.kl_coef);
    EXPECT_EQ(read.host, state.host);
    EXPECT_EQ(read.identity, state.identity);
  }
  const auto refused = [](Code code, const char* text) {
    EXPECT_EQ(expect_error(code, [&] { parse_trainer_state(text, "m"); }).location.substr(0, 1),
              "m")
        << text;
  };
  refused(Code::kIncompatible, R"({"trainer_format": 2, "steps": 1, "host": "", "options": {}})");
  refused(Code::kDataLoss, R"({"steps": 1, "host": "", "options": {}})");
  refused(Code::kDataLoss, R"({"trainer_format": 1, "steps": -1, "host": "", "options": {}})");
  refused(Code::kDataLoss, R"({"trainer_format": 1, "steps": 1, "host": 2, "options": {}})");
  refused(Code::kDataLoss,
          R"({"trainer_format": 1, "steps": 1, "host": "", "kl_coef": -1, "options": {}})");
  refused(Code::kDataLoss,
          R"({"trainer_format": 1, "steps": 1, "host": "", "more": 1, "options": {}})");
  refused(Code::kDataLoss, R"({"trainer_format": 1, "steps": 1, "host": ""})");
  refused(Code::kDataLoss, R"({"trainer_format": 1, "steps": 1, "host": "", "options": [1]})");
  refused(Code::kDataLoss, R"({"trainer_format": 1, "steps": 1, "host": "", "options": {"a": 1}})");
  refused(Code::kDataLoss, R"([1])");
}

}  // namespace
}  // namespace rl
