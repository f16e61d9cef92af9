// Engines of ranks that divide a model only to train it, in a host's own loop: each has requests of
// its own, and computes with what was published last, in whatever way.
#include <gtest/gtest.h>

#include "../pipeline/option_looks.h"
#include "../pipeline/rank_rig.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/session/weight_tensors.h"

namespace rl::testing {
namespace {

OptionSet divided(const TempDir& dir) {
  return options_with(dir, {"parallel.tensor=2", "parallel.reduction_parts=2",
                            "engine.tensor_parallel_size=1", "sync.bucket_bytes=64KiB"});
}
OptionSet undivided(const TempDir& dir) {
  return options_with(dir, {"parallel.reduction_parts=2"});
}

// Engine and trainer of a rank.
struct Parts {
  explicit Parts(const std::shared_ptr<Runtime>& runtime)
      : rank(runtime->ranks().rank()),
        options(for_session(runtime->options())),
        model(LoadedModel::open(runtime, runtime->options(), PlanUse::kParts)),
        engine(model, options),
        trainer(model, options) {}

  // What the engine samples of prompts of these lengths.
  std::string generate(std::initializer_list<int32_t> lengths) {
    for (const int32_t length : lengths) {
      std::vector<int32_t> prompt;
      for (int32_t i = 0; i < length; ++i) prompt.push_back((length + 7 * i) % 256);
      Request request = request_of(options, prompt, 3, 8);
      engine.submit(request, {static_cast<uint64_t>(length), std::nullopt});
    }
    engine.run();
    std::string out;
    for (const SamplePtr& s : engine.take_finished()) {
      out += text_of(*s);
      for (const float lp : s->logprobs) out += str(" ", lp);
      for (const uint64_t version : s->versions) EXPECT_EQ(version, model->version());
    }
    return out;
  }
  void step() { trainer.step(host_batch(trainer)); }

  const int rank;
  const OptionSet options;
  const std::shared_ptr<LoadedModel> model;
  EngineSession engine;
  TrainerSession trainer;
};

using Texts = std::vector<std::string>;

// The texts of all ranks.
Texts on_parts(const OptionSet& options, const std::function<std::string(Parts&)>& work) {
  std::vector<std::shared_ptr<Runtime>> ranks = make_ranks(options);
  Texts out(ranks.size());
  run_ranks(std::move(ranks), [&](std::shared_ptr<Runtime> runtime) {
    Parts parts(runtime);
    out[static_cast<size_t>(parts.rank)] = work(parts);
  });
  return out;
}

// Before a step one rank generates, after it the other one.
TEST(WholeEngineSessions, GenerateWithoutTheOthers) {
  const TempDir dir;
  const Texts two = on_parts(divided(dir), [](Parts& parts) {
    std::string out = parts.rank == 0 ? parts.generate({20, 3}) : "";
    parts.step();
    return parts.rank == 1 ? parts.generate({9, 17}) : out;
  });
  const Texts one = on_parts(undivided(dir), [](Parts& parts) {
    const std::string before = parts.generate({20, 3});
    parts.step();
    return before + parts.generate({9, 17});
  });
  EXPECT_FALSE(two[0].empty());
  EXPECT_EQ(two[0] + two[1], one[0]);
}

TEST(WholeEngineSessions, ComputeWithALoadedCheckpoint) {
  const TempDir dir;
  std::string path;
  const auto save = [&](Parts& parts) {
    parts.step();
    const std::string saved = parts.trainer.save(
        {.dir = dir.file("saved"), .host = "", .keep_last = 0, .replace_existing = false});
    if (parts.rank == 0) path = saved;
    return parts.generate({20, 3});
  };
  const Texts saved = on_parts(divided(dir), save);
  const auto load = [&](Parts& parts) {
    parts.step();
    parts.step();
    parts.trainer.load(path);
    return parts.generate({20, 3});
  };
  EXPECT_EQ(on_parts(divided(dir), load), saved);
  EXPECT_EQ(on_parts(undivided(dir), load)[0], saved[0]);
  EXPECT_EQ(saved[1], saved[0]);
}

// Each rank sets the pieces that it has.
TEST(WholeEngineSessions, ComputeWithWeightsThatTheHostSets) {
  const TempDir dir;
  const auto set = [](Parts& parts) {
    std::vector<NamedTensor> weights;
    for (const char* const part : {"part0", "part1"}) {
      const std::string name = str("model.layers.1.mlp.up_proj.weight.", part);
      const auto& all = parts.model->model().layout().parameters();
      if (std::ranges::find(all, name, &Parameter::name) == all.end()) continue;
      const TensorPtr values = copy_weight(*parts.model, name);
      const auto* const from = static_cast<const float*>(values->data());
      const OwnedTensor tripled = make_tensor(ElementType::kF32, values->shape());
      for (int64_t i = 0; i < values->num_elements(); ++i)
        reinterpret_cast<float*>(tripled.data)[i] = -3 * from[i];
      weights.push_back({name, tripled.tensor});
    }
    set_weights(*parts.model, weights);
    return parts.generate({20, 3});
  };
  const Texts two = on_parts(divided(dir), set);
  EXPECT_EQ(two[1], two[0]);
  EXPECT_EQ(on_parts(undivided(dir), set)[0], two[0]);
  EXPECT_NE(two[0], on_parts(undivided(dir), [](Parts& parts) {
              return parts.generate({20, 3});
            })[0]);
}

// What engines read stays, at either level.
TEST(WholeEngineSessions, SleepAndWakeAlone) {
  const TempDir dir;
  const auto work = [](Parts& parts, int level) {
    parts.step();
    if (parts.rank == 1 || level == 2) {
      parts.engine.sleep(level);
      parts.engine.wake();
    }
    const std::string before = parts.generate({20});
    parts.step();
    return before + parts.generate({20});
  };
  const std::string one = on_parts(undivided(dir), [&](Parts& parts) { return work(parts, 1); })[0];
  for (const int level : {1, 2}) {
    for (const std::string& rank :
         on_parts(divided(dir), [&](Parts& parts) { return work(parts, level); }))
      EXPECT_EQ(rank, one) << level;
  }
}

}  // namespace
}  // namespace rl::testing
