// What sessions tell of themselves: counts of each engine, lent and copied weights, hidden states,
// the settings that a conversation stores, and the header of a file of groups.
#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/config/run_options.h"
#include "pipeline/session/buffer_session.h"
#include "pipeline/session/conversation.h"
#include "pipeline/session/weight_tensors.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/tiny_model.h"

namespace rl {
namespace {

using testing::for_session;
using testing::tiny_options;
using Texts = std::vector<std::string>;

OptionSet session_options(const TempDir& dir, const Texts& texts = {}) {
  OptionSet o = for_session(tiny_options(dir));
  for (const std::string& text : texts) o.set_assignment(text);
  return o;
}

std::shared_ptr<LoadedModel> open(const OptionSet& o, PlanUse use) {
  return LoadedModel::open(std::make_shared<Runtime>(o), o, use);
}

Request request_of(const OptionSet& o, int64_t tokens) {
  Request r = request_from(o);
  r.prompt = {1, 2, 3};
  r.max_new_tokens = tokens;
  return r;
}

TEST(SessionFigures, EachEngineCountsItsOwn) {
  const TempDir dir;
  const OptionSet o = session_options(dir, {"engine.num_engines=2"});
  EngineSession engine(open(o, PlanUse::kGenerate), o);
  EXPECT_EQ(engine.num_engines(), 2);
  EXPECT_TRUE(engine.idle());
  for (int i = 0; i < 4; ++i) engine.submit(request_of(o, 4));
  EXPECT_FALSE(engine.idle());
  EXPECT_EQ(engine.run(), EngineStep::kIdle);
  EXPECT_TRUE(engine.idle());
  EXPECT_EQ(engine.stats().finished, 4);
  EXPECT_EQ(engine.stats().generated_tokens, 16);
  EXPECT_EQ(engine.stats(0).finished + engine.stats(1).finished, 4);
  EXPECT_EQ(engine.stats(0).generated_tokens, 4 * engine.stats(0).finished);
  EXPECT_EQ(engine.max_model_len(), 32);
  EXPECT_EQ(engine.vocab(), 256);
}

TEST(SessionFigures, ALentWeightIsReadOnlyAndACopyIsNot) {
  const TempDir dir;
  const auto model = open(session_options(dir), PlanUse::kModel);
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const TensorPtr lent = lend_weight(model, name), copy = copy_weight(*model, name);
  EXPECT_TRUE(lent->read_only());
  EXPECT_FALSE(copy->read_only());
  EXPECT_NE(lent->data(), copy->data());
  for (const TensorPtr& t : {lent, copy}) {
    EXPECT_EQ(t->type(), ElementType::kF32);
    EXPECT_EQ(t->shape(), (std::vector<int64_t>{96, 64}));
  }
  const auto values = [](const Tensor& t) {
    const auto* begin = static_cast<const float*>(t.data());
    return std::vector<float>(begin, begin + t.num_elements());
  };
  EXPECT_EQ(values(*lent), values(*copy));
}

TEST(SessionFigures, HiddenStatesHaveARowForEachId) {
  const TempDir dir;
  const OptionSet o = session_options(dir);
  TrainerSession trainer(open(o, PlanUse::kTrain), o);
  const TensorPtr three = trainer.hidden(std::vector<int32_t>{1, 2, 3});
  const TensorPtr two = trainer.hidden(std::vector<int32_t>{1, 2});
  EXPECT_EQ(three->shape(), (std::vector<int64_t>{3, 64}));
  EXPECT_EQ(two->shape(), (std::vector<int64_t>{2, 64}));
  const auto *a = static_cast<const float*>(three->data()),
             *b = static_cast<const float*>(two->data());
  EXPECT_TRUE(std::equal(b, b + 2 * 64, a)) << "a row does not depend on those behind it";
  EXPECT_FALSE(std::equal(a, a + 64, a + 64));
}

TEST(SessionFigures, HiddenStatesAreThoseOfAForwardOfAllIds) {
  const TempDir dir;
  const OptionSet o = session_options(dir);
  TrainerSession trainer(open(o, PlanUse::kTrain), o);
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5};
  const testing::TinyModel tiny(testing::fixture_model("llama"));
  const testing::TrainingBatch batch(tiny, {ids});
  forward(*tiny.model, batch.batch(), batch.pool, *batch.buffers, nullptr);
  const auto floats = [](const void* first) {
    const auto* begin = static_cast<const float*>(first);
    return std::vector<float>(begin, begin + 5 * 64);
  };
  EXPECT_EQ(floats(trainer.hidden(ids)->data()), floats(batch.buffers->hidden));
}

TEST(SessionFigures, LogProbsAreAtTheGivenTemperature) {
  const TempDir dir;
  const OptionSet o = session_options(dir);
  TrainerSession trainer(open(o, PlanUse::kTrain), o);
  const std::vector<int32_t> ids = {1, 2, 3, 4};
  const std::vector<float> all = trainer.logprobs(ids, 1, 1), last = trainer.logprobs(ids, 3, 1);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(last, std::vector<float>{all[2]});
  EXPECT_NE(trainer.logprobs(ids, 1, 0.5f), all);
}

// A greedy turn stores log-probs of temperature 1.
TEST(SessionFigures, AConversationStoresTheSettingsOfItsFirstTurn) {
  const TempDir dir;
  const OptionSet o = session_options(dir);
  const auto engine = std::make_shared<EngineSession>(open(o, PlanUse::kGenerate), o);
  Conversation talk(engine, std::vector<int32_t>{1, 2});
  talk.append(std::vector<int32_t>{3});
  EXPECT_EQ(talk.sample()->num_top, 0u);
  Request greedy = request_of(o, 2);
  greedy.sampling.temperature = 0;
  greedy.sampling.top_logprobs = 3;
  talk.generate(greedy);
  engine->run();
  const SamplePtr s = talk.sample();
  EXPECT_EQ(s->temperature, 1.0f);
  EXPECT_EQ(s->num_top, 3u);
  EXPECT_EQ(s->top_ids.size(), 3u * (1 + 2));
  EXPECT_EQ(s->top_logprobs.size(), 3u * (1 + 2));
  EXPECT_EQ(s->top_logprobs[2], 0.0f);
  EXPECT_EQ(s->top_ids[2], -1);
  EXPECT_GE(s->top_ids[3], 0);
  EXPECT_EQ(talk.info().turns, 1);
  EXPECT_FALSE(s->scored);
}

SamplePtr stored_sample(uint32_t slot) {
  auto s = std::make_shared<Sample>();
  s->id = slot + 1;
  s->slot = slot;
  s->ids = {1, 2, 3};
  s->prompt_tokens = 2;
  s->logprobs = s->logprobs_sampled = {-1};
  s->versions = {0};
  s->loss_mask = {1};
  s->scored = true;
  return s;
}

TEST(SessionFigures, AFileNamesItsOptionsAndTheSizeOfItsGroups) {
  const std::pair<Texts, int64_t> cases[] = {
      {{"pipeline.samples_per_prompt=2"}, 2},
      {{"pipeline.samples_per_prompt=2", "algo.advantage=remax"}, 3}};
  for (const auto& [texts, size] : cases) {
    const TempDir dir;
    const OptionSet o = session_options(dir, texts);
    BufferSession buffer(o, 16);
    for (int64_t i = 0; i < size; ++i) {
      EXPECT_EQ(buffer.num_whole_groups(), 0);
      buffer.put(stored_sample(static_cast<uint32_t>(i)));
    }
    EXPECT_EQ(buffer.num_samples(), size);
    EXPECT_EQ(buffer.num_whole_groups(), 1);
    const std::string path = dir.file("groups");
    buffer.save(path, nullptr, false);
    expect_error(Code::kAlreadyExists, [&] { buffer.save(path, nullptr, false); });
    buffer.save(path, nullptr, true);
    const BufferInfo info = BufferSession::file_info(path);
    EXPECT_EQ(info.group_size, size);
    EXPECT_EQ(info.options_identity, o.identity());
    EXPECT_EQ(info.options, o.dump(true));
    EXPECT_FALSE(info.model);
    const auto model = open(o, PlanUse::kModel);
    buffer.save(path, model.get(), true);
    EXPECT_EQ(BufferSession::file_info(path).model, model->identity());
    BufferSession other(o, 16);
    EXPECT_EQ(other.load(path, model.get()), size);
    EXPECT_EQ(other.take(5).size(), static_cast<size_t>(size));
  }
}

}  // namespace
}  // namespace rl
