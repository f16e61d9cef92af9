// What a trainer, an engine, a conversation and the weights of a host refuse, by name, place and
// number; and how they number what they make.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "host_batch.h"
#include "host_model.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/conversation.h"
#include "pipeline/session/weight_tensors.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "tokenized_model.h"

namespace rl {
namespace {

using testing::fixture_model;
using testing::host_batch;
using Texts = std::vector<std::string>;

// A model, and parts of a host's loop on it.
class Bench : public testing::HostModel {
 public:
  explicit Bench(const Texts& texts = {}) : HostModel(texts) {}
  TrainerSession& trainer() {
    if (trainer_ == nullptr) trainer_ = std::make_unique<TrainerSession>(model, options);
    return *trainer_;
  }
  std::shared_ptr<EngineSession> engine() {
    if (engine_ == nullptr) engine_ = std::make_shared<EngineSession>(model, options);
    return engine_;
  }
  Request request(int64_t samples = 1) const {
    Request r = request_from(options);
    r.prompt = {1, 2, 3};
    r.num_samples = samples;
    r.max_new_tokens = 4;
    return r;
  }

 private:
  std::unique_ptr<TrainerSession> trainer_;
  std::shared_ptr<EngineSession> engine_;
};

TEST(PartsRefusals, ASampleThatIsMissingIsNamedByItsPlace) {
  Bench b;
  const std::vector<double> one(8, 1.0);
  std::vector<SamplePtr> batch = host_batch(b.trainer());
  batch[1] = nullptr;
  const auto refused = [](auto&& call) {
    EXPECT_EQ(expect_error(Code::kInvalidArgument, call).message, "sample 1 of the batch is null");
  };
  refused([&] { b.trainer().step(batch); });
  refused([&] { b.trainer().step(batch, std::vector<SampleRewards>(8)); });
  refused([&] { b.trainer().step_with_advantages(batch, one); });
  refused([&] { b.trainer().step_with_advantages(batch, std::vector<SampleRewards>(8), one); });
  Bench scores({"algo.objective=reward_model"});
  refused([&] { scores.trainer().scores(batch); });
}

TEST(PartsRefusals, ASampleWithoutARewardIsNamedByItsId) {
  Bench b;
  const std::vector<SamplePtr> batch = host_batch(b.trainer());
  batch[6]->scored = batch[3]->scored = false;
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { b.trainer().step(batch); }).message,
            "sample 4 of the batch is not scored");
  // Rewards that are given beside the samples are the ones that count.
  std::vector<SampleRewards> rewards;
  for (int i = 0; i < 8; ++i) rewards.push_back({true, static_cast<double>(i), {}});
  const TrainedStep step = b.trainer().step(batch, rewards);
  EXPECT_EQ(step.get("critic/score/mean"), 3.5);
  EXPECT_EQ(step.get("critic/score/max"), 7.0);
  rewards[2].scored = false;
  EXPECT_EQ(
      expect_error(Code::kFailedPrecondition, [&] { b.trainer().step(batch, rewards); }).message,
      "sample 3 of the batch is not scored");
}

TEST(PartsRefusals, StepsAndVersionsAreNumbered) {
  Bench b;
  EXPECT_EQ(b.trainer().trained_version(), 0u);
  for (uint64_t n = 1; n <= 2; ++n) {
    const TrainedStep step = b.trainer().step(host_batch(b.trainer()));
    EXPECT_EQ(step.step, n);
    EXPECT_EQ(step.version, n);
    EXPECT_EQ(b.trainer().trained_version(), n);
    EXPECT_EQ(b.model->version(), n);
  }
  Bench apart({"model.compute_copies=2"});
  EXPECT_EQ(apart.trainer().step(host_batch(apart.trainer())).version, 1u);
  EXPECT_EQ(apart.model->version(), 0u);
}

TEST(PartsRefusals, AdvantagesAreOnePerSampleOfAPolicy) {
  Bench b;
  const std::vector<SamplePtr> batch = host_batch(b.trainer());
  for (const size_t count : {7, 9}) {
    const Error e = expect_error(Code::kInvalidArgument, [&] {
      b.trainer().step_with_advantages(batch, std::vector<double>(count, 1.0));
    });
    EXPECT_EQ(e.key, "step.advantages");
    EXPECT_EQ(e.message, str(count, " advantages for 8 samples"));
  }
  Bench given({"algo.objective=sft"});
  const Error e = expect_error(Code::kConflict, [&] {
    given.trainer().step_with_advantages(batch, std::vector<double>(8, 1.0));
  });
  EXPECT_EQ(e.key, "step.advantages");
  EXPECT_EQ(e.other_key, "algo.objective");
  EXPECT_TRUE(contains(e.message, "algo.objective = sft ignores them"));
}

TEST(PartsRefusals, LogProbsBeginBehindAPrompt) {
  Bench b;
  const std::vector<int32_t> ids = {1, 2, 3};
  for (const int64_t prompt : {-1, 0, 4}) {
    const Error e = expect_error(Code::kOutOfRange, [&] { b.trainer().logprobs(ids, prompt, 1); });
    EXPECT_EQ(e.key, "prompt_tokens");
    EXPECT_EQ(e.expected, "1..3");
    EXPECT_EQ(e.message, str("prompt_tokens is ", prompt, " of 3 ids"));
  }
  EXPECT_EQ(b.trainer().logprobs(ids, 1, 1).size(), 2u);
  EXPECT_EQ(b.trainer().logprobs(ids, 2, 1).size(), 1u);
}

TEST(PartsRefusals, AHostsAlgorithmThatIsNotSetIsNamed) {
  Bench advantage({"algo.advantage=custom"}), loss({"algo.policy_loss=custom"});
  for (const auto& [bench, key] :
       {std::pair(&advantage, "algo.advantage"), {&loss, "algo.policy_loss"}}) {
    const std::vector<SamplePtr> batch = host_batch(bench->trainer());
    const uint64_t before = bench->model->weight_digest();
    EXPECT_EQ(expect_error(Code::kFailedPrecondition,
                           [&, bench = bench] { bench->trainer().step(batch); })
                  .key,
              key);
    EXPECT_EQ(bench->model->weight_digest(), before);
    EXPECT_FALSE(bench->model->half_trained());
  }
}

TEST(PartsRefusals, RequestsAndConversationsShareTheirNumbers) {
  Bench b;
  const auto engine = b.engine();
  EXPECT_EQ(engine->submit(b.request(3)), 1u);
  const auto talk = std::make_shared<Conversation>(engine, std::vector<int32_t>{1, 2});
  const auto fork = talk->fork();
  EXPECT_EQ(talk->info().sample_id, 4u);
  EXPECT_EQ(talk->info().ordinal, 1u);
  EXPECT_EQ(talk->info().slot, 0u);
  EXPECT_EQ(fork->info().sample_id, 5u);
  EXPECT_EQ(fork->info().ordinal, 1u);
  EXPECT_EQ(fork->info().slot, 1u);
  EXPECT_EQ(fork->fork()->info().slot, 2u);
  EXPECT_EQ(engine->submit(b.request()), 7u);
  engine->run();
  const auto samples = engine->take_finished();
  ASSERT_EQ(samples.size(), 4u);
  for (const SamplePtr& s : samples) EXPECT_EQ(s->ordinal, s->id == 7 ? 2u : 0u);
}

// A request that is refused takes no number and leaves the weights free.
TEST(PartsRefusals, ARefusedRequestLeavesNoTrace) {
  Bench b;
  const auto engine = b.engine();
  Request bad = b.request();
  bad.prompt = {1, 256};
  expect_error(Code::kOutOfRange, [&] { engine->submit(bad); });
  EXPECT_TRUE(engine->idle());
  { const LoadedModel::WriteLease free(*b.model, 0); }
  EXPECT_EQ(engine->submit(b.request()), 1u);
}

TEST(PartsRefusals, AnEngineNamesWhatItDoesNotHave) {
  Bench b;
  const auto engine = b.engine();
  EXPECT_EQ(engine->submit(b.request()), 1u);
  const Error unknown = expect_error(Code::kNotFound, [&] { engine->abort_request(2); });
  EXPECT_EQ(unknown.key, "sample_id");
  EXPECT_TRUE(contains(unknown.message, "has sample_id 2"));
  for (const int level : {0, 3}) {
    const Error e = expect_error(Code::kOutOfRange, [&] { engine->sleep(level); });
    EXPECT_EQ(e.expected, "1 or 2");
    EXPECT_TRUE(contains(e.message, str("level is ", level)));
  }
  engine->close();
  EXPECT_EQ(engine->take_finished().at(0)->finish, FinishReason::kAborted);
  EXPECT_TRUE(contains(
      expect_error(Code::kFailedPrecondition, [&] { engine->submit(b.request()); }).message,
      "destroyed"));
  const LoadedModel::WriteLease free(*b.model, 0);
}

TEST(PartsRefusals, WhatAConversationHasNoRoomForIsCounted) {
  Bench b;
  Conversation talk(b.engine(), std::vector<int32_t>(30, 5));
  const Error e = expect_error(Code::kOutOfRange, [&] {
    talk.append(std::vector<int32_t>{1, 2, 3});
  });
  EXPECT_EQ(e.expected, "at most 2 tokens");
  EXPECT_TRUE(contains(e.message, "3 tokens after 30 exceed engine.max_model_len 32"));
  talk.append(std::vector<int32_t>{1, 2});
  EXPECT_EQ(talk.info().num_ids, 32);
  const Error start = expect_error(Code::kOutOfRange,
                                   [&] { Conversation(b.engine(), std::vector<int32_t>(33, 5)); });
  EXPECT_EQ(start.expected, "at most 32 tokens");
  Conversation whole(b.engine(), std::vector<int32_t>(32, 5));
  // A sample is a copy: what is done to it is not done to the conversation.
  talk.sample()->ids.clear();
  EXPECT_EQ(talk.sample()->ids.size(), 32u);
  EXPECT_EQ(talk.sample()->prompt_tokens, 30);
}

NamedTensor floats(std::string name, std::vector<int64_t> shape, float last = 1) {
  const OwnedTensor made = make_tensor(ElementType::kF32, std::move(shape));
  auto* values = reinterpret_cast<float*>(made.data);
  const int64_t count = made.tensor->num_elements();
  for (int64_t i = 0; i < count; ++i) values[i] = i + 1 == count ? last : 1;
  return {std::move(name), made.tensor};
}

TEST(PartsRefusals, AWeightThatDoesNotFitIsToldWhy) {
  Bench b;
  const char* norm = "model.norm.weight";
  const uint64_t before = b.model->weight_digest();
  const auto refused = [&](Code code, const std::vector<NamedTensor>& weights) {
    const Error e = expect_error(code, [&] { set_weights(*b.model, weights); });
    EXPECT_EQ(b.model->weight_digest(), before);
    EXPECT_EQ(b.model->version(), 0u);
    return e;
  };
  const Error unknown = refused(Code::kNotFound, {floats("model.norm.weigh", {64})});
  EXPECT_EQ(unknown.key, "model.norm.weigh");
  ASSERT_FALSE(unknown.nearest.empty());
  EXPECT_EQ(unknown.nearest[0], norm);
  const Error twice = refused(Code::kDuplicate, {floats(norm, {64}), floats(norm, {64})});
  EXPECT_EQ(twice.message, "weight model.norm.weight: it is given twice");
  const Error shape = refused(Code::kIncompatible, {floats(norm, {63})});
  EXPECT_TRUE(contains(shape.message, "shape [63], expected [64]"));
  const Error bad = refused(Code::kNonFinite, {floats(norm, {64}, NAN)});
  EXPECT_EQ(bad.key, norm);
  EXPECT_TRUE(contains(bad.message, "value 63 in row-major order"));
  const Error own = refused(Code::kConflict, {{norm, lend_weight(b.model, norm)}});
  EXPECT_EQ(own.key, norm);
  EXPECT_EQ(expect_error(Code::kNotFound, [&] { lend_weight(b.model, "none"); }).key, "name");
  EXPECT_EQ(expect_error(Code::kNotFound, [&] { copy_weight(*b.model, "none"); }).key, "name");
  EXPECT_EQ(set_weights(*b.model, std::vector<NamedTensor>{floats(norm, {64}, 2)}), 1u);
  const TensorPtr copy = copy_weight(*b.model, norm);
  const auto* values = static_cast<const float*>(copy->data());
  EXPECT_EQ(values[62], 1.0f);
  EXPECT_EQ(values[63], 2.0f);
}

TEST(PartsRefusals, IdsWithoutATokenAreReplacedWhereTheyStand) {
  const TempDir dir;
  Bench b({"model.path=" + testing::with_small_tokenizer(dir)});
  const LoadedModel& m = *b.model;
  const std::string mark = "\xEF\xBF\xBD", a = m.decode(std::vector<int32_t>{0}, true),
                    c = m.decode(std::vector<int32_t>{2, 3}, true);
  EXPECT_EQ(a, "a");
  const auto decoded = [&](std::vector<int32_t> ids) { return m.decode_sampled(ids, true); };
  EXPECT_EQ(decoded({0, 250, 2, 3}), a + mark + c);
  EXPECT_EQ(decoded({250, 0, 251, 252}), mark + a + mark + mark);
  EXPECT_EQ(decoded({2, 3}), c);
  EXPECT_EQ(decoded({}), "");
  Bench bare;
  EXPECT_FALSE(bare.model->has_tokenizer());
  EXPECT_TRUE(
      contains(expect_error(Code::kFailedPrecondition, [&] { bare.model->tokenizer(); }).message,
               "the model " + fixture_model("llama") + " has no tokenizer"));
}

// The llama fixture with another number of positions.
std::string with_positions(const TempDir& dir, int positions) {
  const std::string path = dir.file(str("positions_", positions));
  std::filesystem::create_directory(path);
  std::filesystem::copy_file(fixture_model("llama") + "/model.safetensors",
                             path + "/model.safetensors");
  std::ifstream in(fixture_model("llama") + "/config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  config["max_position_embeddings"] = positions;
  std::ofstream(path + "/config.json") << config.dump();
  return path;
}

TEST(PartsRefusals, ATeacherHasThePositionsOfTheLongestSample) {
  const TempDir dir;
  const auto make = [&](int positions) {
    Bench b({"algo.objective=distill", "model.teacher_path=" + with_positions(dir, positions)});
    b.trainer();
  };
  const Error e = expect_error(Code::kIncompatible, [&] { make(31); });
  EXPECT_EQ(e.key, "model.teacher_path");
  EXPECT_EQ(e.other_key, "engine.max_model_len");
  EXPECT_EQ(e.expected, "at least 32 positions");
  EXPECT_EQ(e.location, dir.file("positions_31"));
  EXPECT_TRUE(contains(e.message, "the teacher "));
  EXPECT_TRUE(contains(e.message, "has 31 positions"));
  make(32);
}

TEST(PartsRefusals, AReferenceIsOfTheShapeOfThePolicy) {
  const Texts kl = {"algo.kl.where=loss", "algo.kl.coef=0.1"};
  const Error e = expect_error(Code::kIncompatible, [&] {
    Bench b({kl[0], kl[1], "model.reference_path=" + fixture_model("qwen2")});
    b.trainer();
  });
  EXPECT_EQ(e.key, "model.reference_path");
  EXPECT_EQ(e.location, fixture_model("qwen2"));
  EXPECT_EQ(e.expected,
            "llama with vocab 256, hidden 64, layers 2, heads 4, kv_heads 2, head_dim 16, ffn 96");
  EXPECT_TRUE(contains(e.message, "the reference model "));
}

}  // namespace
}  // namespace rl
