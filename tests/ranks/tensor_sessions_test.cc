// Ranks that divide a model, as a host has them: the calls of trainers and engines that they make
// together give what one rank with the same parts gives.
#include <gtest/gtest.h>

#include <fstream>
#include <span>

#include "../pipeline/option_looks.h"
#include "../pipeline/plan_arenas.h"
#include "../pipeline/rank_rig.h"
#include "core/hash.h"
#include "formats/open/open_weight_source.h"
#include "model/weights.h"
#include "pipeline/config/run_options.h"
#include "pipeline/plan/planner.h"
#include "support/expect_error.h"
#include "support/random_llama.h"

namespace rl::testing {
namespace {

OptionSet options_of(const TempDir& dir, int tensor, int data = 1,
                     const std::vector<std::string>& assignments = {}) {
  OptionSet o = tiny_options(dir);
  o.set_i64("parallel.reduction_parts", 2);
  o.set_i64("parallel.tensor", tensor);
  o.set_i64("parallel.data", data);
  for (const std::string& a : assignments) o.set_assignment(a);
  return o;
}

TEST(TensorSessions, TrainAsOneRankDoes) {
  const TempDir dir;
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"algo.advantage=gae", "critic.optimizer.lr=1e-3"},
      {"algo.kl.where=loss", "algo.kl.coef=0.1"},
      {"optimizer.ema=0.9", "optimizer.no_decay=norms,*.o_proj.weight",
       "optimizer.weight_decay=0.1"}};
  for (const auto& assignments : cases) {
    SCOPED_TRACE(assignments.empty() ? "" : assignments[0]);
    const std::string one = on_trainers(options_of(dir, 1, 1, assignments), two_steps_metrics)[0];
    for (const std::string& rank :
         on_trainers(options_of(dir, 2, 1, assignments), two_steps_metrics))
      EXPECT_EQ(rank, one);
  }
}

TEST(TensorSessions, GroupsOfRanksTrainTogether) {
  const TempDir dir;
  const std::string two = on_trainers(options_of(dir, 1, 2), two_steps_metrics)[0];
  const std::vector<std::string> four = on_trainers(options_of(dir, 2, 2), two_steps_metrics);
  ASSERT_EQ(four.size(), 4u);
  for (const std::string& rank : four) EXPECT_EQ(rank, two);
}

// The samples of engines that step together, of prompts of many lengths.
std::string generate_on(const std::shared_ptr<Runtime>& runtime) {
  const OptionSet& o = runtime->options();
  EngineSession engine(LoadedModel::open(runtime, o, PlanUse::kGenerate), for_session(o));
  for (const int32_t length : {20, 3, 17, 9}) {
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < length; ++i) prompt.push_back((length + 7 * i) % 256);
    engine.submit(request_of(o, prompt, 3, 12));
  }
  engine.run();
  std::string out;
  for (const SamplePtr& s : engine.take_finished()) out += text_of(*s);
  return out;
}

TEST(TensorSessions, GenerateAsOneRankDoes) {
  const TempDir dir;
  std::vector<std::vector<std::string>> texts;
  for (const int tensor : {1, 2}) {
    std::vector<std::string> out(static_cast<size_t>(tensor));
    run_ranks(make_ranks(options_of(dir, tensor)), [&](std::shared_ptr<Runtime> runtime) {
      out[static_cast<size_t>(runtime->ranks().rank())] = generate_on(runtime);
    });
    texts.push_back(out);
  }
  EXPECT_FALSE(texts[0][0].empty());
  EXPECT_EQ(texts[1][0], texts[0][0]);
  EXPECT_EQ(texts[1][1], texts[0][0]);
}

// Two ranks save after a step, one rank and two go on.
TEST(TensorSessions, ACheckpointIsTheSameForOneRankAndTwo) {
  const TempDir dir;
  std::string path;
  const auto save = [&](RankParts& parts) {
    parts.trainer.step(host_batch(parts.trainer));
    const std::string saved = parts.trainer.save(
        {.dir = dir.file("saved"), .host = "", .keep_last = 0, .replace_existing = false});
    if (parts.rank == 0) path = saved;
    return common_metrics(parts.trainer.step(host_batch(parts.trainer)));
  };
  const std::vector<std::string> uninterrupted = on_trainers(options_of(dir, 2), save);
  EXPECT_EQ(uninterrupted[1], uninterrupted[0]);
  const auto resume = [&](RankParts& parts) {
    parts.trainer.load(path);
    return common_metrics(parts.trainer.step(host_batch(parts.trainer)));
  };
  for (const int tensor : {1, 2}) {
    for (const std::string& rank : on_trainers(options_of(dir, tensor), resume))
      EXPECT_EQ(rank, uninterrupted[0]) << tensor;
  }
  OptionSet undivided = options_of(dir, 1);
  undivided.set_i64("parallel.reduction_parts", 1);
  const Error e = expect_error(Code::kIncompatible, [&] { on_trainers(undivided, resume); });
  EXPECT_TRUE(contains(e.message, "parallel.reduction_parts")) << e.message;
}

// What is frozen is compared piece by piece when a checkpoint is loaded.
TEST(TensorSessions, ACheckpointKnowsWhatIsFrozen) {
  const TempDir dir;
  const std::vector<std::vector<std::string>> cases = {
      {"model.freeze=model.embed_tokens.weight,*.k_proj.weight,*.down_proj.weight"},
      {"model.train_only=model.layers.1.*"}};
  for (const auto& assignments : cases) {
    SCOPED_TRACE(assignments[0]);
    std::string path;
    const auto save = [&](RankParts& parts) {
      parts.trainer.step(host_batch(parts.trainer));
      const std::string saved = parts.trainer.save(
          {.dir = dir.file("saved"), .host = "", .keep_last = 0, .replace_existing = true});
      if (parts.rank == 0) path = saved;
      return common_metrics(parts.trainer.step(host_batch(parts.trainer)));
    };
    const auto manifest = [&] {
      return read_text_file(real_fs(), path + "/manifest.json", 1 << 20);
    };
    const std::string one = on_trainers(options_of(dir, 1, 1, assignments), save)[0];
    const std::string whole = manifest();
    EXPECT_EQ(on_trainers(options_of(dir, 2, 1, assignments), save),
              (std::vector<std::string>{one, one}));
    EXPECT_EQ(manifest(), whole);
    const auto resume = [&](RankParts& parts) {
      parts.trainer.load(path);
      return common_metrics(parts.trainer.step(host_batch(parts.trainer)));
    };
    for (const int tensor : {1, 2}) {
      for (const std::string& rank : on_trainers(options_of(dir, tensor, 1, assignments), resume))
        EXPECT_EQ(rank, one) << tensor;
    }
    // Another value of the last piece: the rank that has it says so.
    std::string changed = manifest();
    const size_t last = changed.rfind('"', changed.find(']', changed.find("\"each\""))) - 1;
    changed[last] = changed[last] == '0' ? '1' : '0';
    std::ofstream(path + "/manifest.json", std::ios::binary) << changed;
    std::ofstream(path + "/manifest.xxh64", std::ios::binary)
        << hex64(digest64(std::as_bytes(std::span(changed))));
    const auto load = [&](RankParts& parts) -> std::string {
      try {
        parts.trainer.load(path);
        return "";
      } catch (const Error& e) {
        EXPECT_EQ(e.code, Code::kIncompatible) << e.message;
        return e.key;
      }
    };
    const std::vector<std::string> keys = on_trainers(options_of(dir, 2, 1, assignments), load);
    EXPECT_EQ(keys[0], "");
    EXPECT_TRUE(keys[1].ends_with(".part1")) << keys[1];
    const auto refused = [&](RankParts& parts) {
      const Error e = expect_error(Code::kIncompatible, [&] { parts.trainer.load(path); });
      return e.message;
    };
    for (const std::string& rank : on_trainers(options_of(dir, 2), refused))
      EXPECT_TRUE(contains(rank, "model.freeze")) << rank;
  }
}

TEST(TensorSessions, ABatchThatOneRankRefusesIsRefusedByAll) {
  const TempDir dir;
  expect_refused_by_all(options_of(dir, 2));
}

TEST(TensorSessions, ARankThatEndsIsNamed) {
  const TempDir dir;
  const auto work = [](RankParts& parts) { return step_without(parts, 1); };
  EXPECT_EQ(on_trainers(options_of(dir, 2), work), (std::vector<std::string>{"rank 1", ""}));
}

TEST(TensorSessions, ASizeThatDoesNotDivideThePartsIsRefusedWithTheValueToSet) {
  const TempDir dir;
  const Error e = expect_error(Code::kConflict, [&] { Runtime(options_of(dir, 3)); });
  EXPECT_EQ(e.key, "parallel.tensor");
  EXPECT_EQ(e.expected, "parallel.reduction_parts = 3");
  OptionSet o = options_of(dir, 1);
  o.set_i64("parallel.reduction_parts", 3);
  const auto runtime = std::make_shared<Runtime>(o);
  const Error heads =
      expect_error(Code::kIncompatible, [&] { LoadedModel::open(runtime, o, PlanUse::kTrain); });
  EXPECT_EQ(heads.key, "parallel.reduction_parts");
  EXPECT_TRUE(contains(heads.message, "4 attention heads")) << heads.message;
}

TEST(TensorSessions, EachRankPlansItsPart) {
  const TempDir dir;
  const auto arena = [&](int tensor, const char* name) {
    const MemoryPlan plan = plan_memory(options_of(dir, tensor), real_fs(), PlanUse::kTrain);
    const auto at = std::ranges::find(plan.arenas, std::string_view(name), &PlanEntry::name);
    return at == plan.arenas.end() ? 0 : at->bytes;
  };
  for (const char* name : {"master weights", "gradients", "optimizer states"}) {
    EXPECT_LT(arena(2, name), arena(1, name)) << name;
  }
}

// Of a vocabulary that two parts do not divide evenly all ranks have the plan of the one with more.
TEST(TensorSessions, ThePlanIsOfTheRankWithMostOfTheVocabulary) {
  const TempDir dir;
  const std::string path = write_random_llama(dir.file("uneven"), {.vocab = 280});
  const ModelConfig config = open_weight_source(real_fs(), path)->config();
  std::vector<uint64_t> masters;
  for (const int64_t rank : {0, 1}) {
    const WeightLayout layout(with_split(config, {2, rank, 1}));
    masters.push_back(static_cast<uint64_t>(layout.total()) * sizeof(float));
  }
  EXPECT_LT(masters[0], masters[1]);
  OptionSet o = options_of(dir, 2);
  o.set_string("model.path", path);
  EXPECT_EQ(plan_memory(o, real_fs(), PlanUse::kTrain).bytes_of("master weights"), masters[1]);
  const std::vector<std::string> ranks = on_trainers(o, two_steps_metrics);
  o.set_i64("parallel.tensor", 1);
  EXPECT_EQ(ranks[0], on_trainers(o, two_steps_metrics)[0]);
  EXPECT_EQ(ranks[1], ranks[0]);
}

TEST(TensorSessions, ThePlanEqualsTheLedger) {
  const TempDir dir;
  const std::string teacher = write_random_llama(dir.file("teacher"), {.hidden = 48, .heads = 3});
  const std::vector<std::vector<std::string>> cases = {
      {"algo.kl.where=loss", "algo.kl.coef=0.1"},
      {"parallel.sequence_parallel=true"},
      {"algo.objective=distill", "algo.distill.kl=reverse", "model.teacher_path=" + teacher}};
  for (const auto& assignments : cases) {
    SCOPED_TRACE(assignments[0]);
    const OptionSet o = options_of(dir, 2, 1, assignments);
    on_trainers(o, [&](RankParts& parts) -> std::string {
      const MemoryPlan plan = parts.model->plan_session(for_session(o), PlanUse::kTrain);
      parts.trainer.step(host_batch(parts.trainer));
      EXPECT_EQ(live(parts.model->runtime()), planned(plan));
      return "";
    });
  }
}

TEST(TensorSessions, MetricsCountWhatRanksExchange) {
  const TempDir dir;
  on_trainers(options_of(dir, 2), [](RankParts& parts) -> std::string {
    const TrainedStep step = parts.trainer.step(host_batch(parts.trainer));
    const ModelConfig& c = parts.model->config();
    const double sums =
        4 * step.get("training/computed_rows").value() * static_cast<double>(c.hidden);
    const double tensor = step.get("comm/tensor_bytes").value();
    // Each sum of two ranks sends as much as it has: of the embedding, and four of each layer.
    EXPECT_GE(tensor, sums * static_cast<double>(1 + 4 * c.layers));
    EXPECT_GE(step.get("comm/sent_bytes").value(), tensor);
    EXPECT_EQ(step.get("comm/gradient_bytes").value(), 0);
    return "";
  });
  on_trainers(options_of(dir, 1), [](RankParts& parts) -> std::string {
    EXPECT_FALSE(
        parts.trainer.step(host_batch(parts.trainer)).get("comm/tensor_bytes").has_value());
    return "";
  });
}

TEST(TensorSessions, RowsOfTheResidualMayBeDivided) {
  const TempDir dir;
  const std::string one = on_trainers(options_of(dir, 1), two_steps_metrics)[0];
  for (const std::string& rank :
       on_trainers(options_of(dir, 2, 1, {"parallel.sequence_parallel=true"}), two_steps_metrics))
    EXPECT_EQ(rank, one);
}

// Of whole rows, which need all logits of the student.
TEST(TensorSessions, ATeacherOfWholeRowsTeachesAsOnOneRank) {
  const TempDir dir;
  const std::string teacher = write_random_llama(dir.file("teacher"), {.hidden = 48, .heads = 3});
  const std::vector<std::string> assignments = {"algo.objective=distill", "algo.distill.kl=reverse",
                                                "model.teacher_path=" + teacher};
  const std::string one = on_trainers(options_of(dir, 1, 1, assignments), two_steps_metrics)[0];
  for (const std::string& rank : on_trainers(options_of(dir, 2, 1, assignments), two_steps_metrics))
    EXPECT_EQ(rank, one);
}

}  // namespace
}  // namespace rl::testing
