// An engine that tells of its samples through a queue, on the host's thread and on its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "pipeline/config/run_options.h"
#include "pipeline/session/conversation.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/session/weight_tensors.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "support/resident_memory.h"
#include "tokenized_model.h"

namespace rl {
namespace {

using testing::for_session;
using testing::kSecond;
using testing::tiny_options;

constexpr uint64_t kSource = 42;

class EngineEventsTest : public ::testing::Test {
 protected:
  void open(const std::vector<std::string>& more = {}, bool tokenized = false) {
    options_ = for_session(tiny_options(dir_));
    for (const std::string& text : more) options_.set_assignment(text);
    if (tokenized) options_.set_string("model.path", testing::with_small_tokenizer(dir_));
    model_ = LoadedModel::open(std::make_shared<Runtime>(options_), options_, PlanUse::kTrain);
    engine_ = std::make_shared<EngineSession>(model_, options_);
    engine_->set_queue(queue_, kSource);
  }
  Request request(int64_t samples = 1, int64_t tokens = 8) const {
    Request r = request_from(options_);
    r.prompt = {1, 2, 3};
    r.num_samples = samples;
    r.max_new_tokens = tokens;
    return r;
  }
  // The events that have come.
  std::vector<std::shared_ptr<Event>> taken() {
    std::vector<std::shared_ptr<Event>> all;
    for (;;) {
      EventQueue::Popped got = queue_->pop(0);
      if (got.status != Code::kOk) return all;
      all.push_back(std::move(got.event));
    }
  }
  // Waits for the next event.
  std::shared_ptr<Event> next() {
    EventQueue::Popped got = queue_->pop(60 * kSecond);
    EXPECT_EQ(got.status, Code::kOk);
    return got.event;
  }
  SamplePtr next_finished() {
    const auto event = next();
    if (event == nullptr) return nullptr;
    EXPECT_EQ(event->kind(), static_cast<int32_t>(EventKind::kFinished));
    return std::static_pointer_cast<FinishedEvent>(event)->sample;
  }

  const TempDir dir_;
  const std::shared_ptr<EventQueue> queue_ = std::make_shared<EventQueue>();
  OptionSet options_;
  std::shared_ptr<LoadedModel> model_;
  std::shared_ptr<EngineSession> engine_;
};

TEST_F(EngineEventsTest, EachFinishedSampleIsToldOnce) {
  open();
  engine_->submit(request(3));
  EXPECT_TRUE(taken().empty());
  engine_->run();
  std::map<uint64_t, SamplePtr> told;
  for (const auto& event : taken()) {
    const auto& of = static_cast<const FinishedEvent&>(*event);
    EXPECT_EQ(of.source, kSource);
    EXPECT_TRUE(told.emplace(of.sample->id, of.sample).second);
  }
  const auto samples = engine_->take_finished();
  ASSERT_EQ(samples.size(), 3u);
  ASSERT_EQ(told.size(), 3u);
  for (const SamplePtr& s : samples) EXPECT_EQ(told.at(s->id), s);
  engine_->run();
  EXPECT_TRUE(taken().empty());
}

TEST_F(EngineEventsTest, AbortedSamplesAreToldAtOnce) {
  open();
  const uint64_t first = engine_->submit(request(2));
  engine_->step();
  engine_->abort_request(first);
  EXPECT_EQ(taken().size(), 2u);
  engine_->submit(request());
  engine_->abort_all();
  ASSERT_EQ(queue_->size(), 1u);
  EXPECT_EQ(next_finished()->finish, FinishReason::kAborted);
}

TEST_F(EngineEventsTest, WithoutAQueueNothingIsTold) {
  open();
  engine_->set_queue(nullptr, 0);
  engine_->submit(request());
  engine_->run();
  engine_->set_queue(queue_, 1);
  EXPECT_TRUE(taken().empty()) << "what had finished before is not told";
  EXPECT_EQ(engine_->take_finished().size(), 1u);
}

TEST_F(EngineEventsTest, AClosedQueueDropsEvents) {
  open();
  queue_->close();
  engine_->submit(request());
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  EXPECT_EQ(engine_->take_finished().size(), 1u);
}

TEST_F(EngineEventsTest, TokensComeInPiecesOfTheirSamples) {
  open({"engine.stream_tokens=3"});
  engine_->submit(request(2));
  std::map<uint64_t, std::vector<int32_t>> ids;
  std::map<uint64_t, std::vector<float>> logprobs;
  std::map<uint64_t, std::vector<size_t>> sizes;
  engine_->run();
  std::map<uint64_t, SamplePtr> told;
  for (const auto& event : taken()) {
    if (event->kind() == static_cast<int32_t>(EventKind::kFinished)) {
      const SamplePtr s = static_cast<const FinishedEvent&>(*event).sample;
      told[s->id] = s;
      continue;
    }
    const auto& of = static_cast<const TokensEvent&>(*event);
    const Sample& piece = *of.sample;
    EXPECT_EQ(of.source, kSource);
    EXPECT_EQ(piece.prompt_tokens, 0);
    EXPECT_FALSE(told.contains(piece.id)) << "tokens come first";
    EXPECT_EQ(piece.versions.size(), piece.ids.size());
    sizes[piece.id].push_back(piece.ids.size());
    ids[piece.id].insert(ids[piece.id].end(), piece.ids.begin(), piece.ids.end());
    logprobs[piece.id].insert(logprobs[piece.id].end(), piece.logprobs.begin(),
                              piece.logprobs.end());
  }
  ASSERT_EQ(told.size(), 2u);
  for (const auto& [id, s] : told) {
    EXPECT_EQ(sizes[id], (std::vector<size_t>{3, 3, 2}));
    EXPECT_EQ(ids[id], std::vector<int32_t>(s->ids.begin() + 3, s->ids.end()));
    EXPECT_EQ(logprobs[id], s->logprobs);
  }
}

TEST_F(EngineEventsTest, TheTextOfPiecesIsThatOfTheResponse) {
  open({"engine.stream_tokens=1"}, true);
  Request r = request(4, 16);
  r.sampling.allowed_token_ids = {0, 1, 20, 21};  // two of them are halves of a character
  engine_->submit(r);
  engine_->run();
  std::map<uint64_t, std::string> texts;
  std::map<uint64_t, SamplePtr> told;
  for (const auto& event : taken()) {
    if (event->kind() == static_cast<int32_t>(EventKind::kTokens)) {
      const auto& of = static_cast<const TokensEvent&>(*event);
      texts[of.sample->id] += of.text;
    } else {
      const SamplePtr s = static_cast<const FinishedEvent&>(*event).sample;
      told[s->id] = s;
    }
  }
  ASSERT_EQ(told.size(), 4u);
  for (const auto& [id, s] : told) {
    const std::span<const int32_t> response = std::span(s->ids).subspan(3);
    EXPECT_EQ(texts[id], model_->decode_sampled(response, true));
  }
}

// Bytes that stay on the heap after refused requests, each with ids of its own.
class RefusedRequests : public EngineEventsTest {
 protected:
  int64_t bytes_left_by(int64_t count, const Request& refused) {
    const int64_t before = testing::heap_bytes();
    for (int64_t i = 0; i < count; ++i) {
      const EngineSession::Naming naming{.ordinal = 0, .sample_id = 1 + next_id_++};
      expect_error(Code::kOutOfRange, [&] { engine_->submit(refused, naming); });
    }
    return testing::heap_bytes() - before;
  }

 private:
  uint64_t next_id_ = 0;
};

TEST_F(RefusedRequests, LeaveNoStreamOfTokens) {
  if (!testing::kProcessIsMeasurable) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  constexpr int64_t kMostBytes = 4096;  // what the first refusal leaves in caches of libraries
  open({"engine.stream_tokens=3"});
  EXPECT_LT(bytes_left_by(1, request(1'000'000)), kMostBytes);
  Request too_long = request();
  too_long.max_new_tokens = 1'000'000;
  EXPECT_LT(bytes_left_by(1000, too_long), kMostBytes);
  engine_->submit(request(1, 4));
  engine_->run();
  EXPECT_EQ(taken().size(), 3u) << "two pieces and the end of the one that was accepted";
}

// The conversation appends to the sample of its turn, which the event still shows as it was.
TEST_F(EngineEventsTest, TurnsOfConversationsAreToldWithACopy) {
  open({"engine.stream_tokens=8"});
  Conversation talk(engine_, std::vector<int32_t>{1, 2, 3});
  talk.generate(request_from(options_));
  engine_->run();
  const auto tokens = next();
  EXPECT_EQ(tokens->kind(), static_cast<int32_t>(EventKind::kTokens));
  const SamplePtr told = next_finished();
  ASSERT_EQ(told->ids.size(), 11u);
  talk.append(std::vector<int32_t>{7, 7});
  talk.generate(request_from(options_));
  engine_->run();
  EXPECT_EQ(told->ids.size(), 11u);
  const auto more = next();
  EXPECT_EQ(static_cast<const TokensEvent&>(*more).sample->generated(), 8)
      << "what the host appended is no token of the engine";
  EXPECT_EQ(next_finished()->ids.size(), 21u);
  EXPECT_TRUE(engine_->take_finished().empty());
}

class EngineThreadTest : public EngineEventsTest {
 protected:
  void open_thread(std::vector<std::string> more = {}) {
    more.push_back("engine.thread=true");
    open(more);
  }
};

TEST_F(EngineThreadTest, ItComputesAsSoonAsThereAreRequests) {
  open();
  engine_->submit(request(3));
  engine_->run();
  std::map<uint64_t, std::vector<int32_t>> expected;
  for (const SamplePtr& s : engine_->take_finished()) expected[s->id] = s->ids;
  taken();
  open_thread();
  engine_->submit(request(3));
  for (int i = 0; i < 3; ++i) {
    const SamplePtr s = next_finished();
    ASSERT_NE(s, nullptr);
    EXPECT_EQ(s->ids, expected.at(s->id));
  }
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  EXPECT_EQ(engine_->take_finished().size(), 3u);
  engine_->submit(request());
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  EXPECT_EQ(engine_->take_finished().size(), 1u);
}

TEST_F(EngineThreadTest, AStepOfTheHostIsRefused) {
  open_thread();
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { engine_->step(); }).key, "engine.thread");
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
}

TEST_F(EngineThreadTest, PauseDrainAndUnpauseHold) {
  open_thread();
  engine_->pause();
  engine_->submit(request(2));
  EXPECT_EQ(engine_->run(), EngineStep::kPaused);
  EXPECT_EQ(engine_->stats().forwards, 0);
  EXPECT_EQ(engine_->drain(0), EngineStep::kIdle) << "nothing has started";
  engine_->unpause();
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  EXPECT_EQ(engine_->take_finished().size(), 2u);
  EXPECT_EQ(engine_->drain(-1), EngineStep::kIdle);
  engine_->submit(request());
  EXPECT_EQ(queue_->size(), 2u);
  EXPECT_EQ(engine_->stats().waiting, 1) << "a drain starts nothing";
  engine_->unpause();
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
}

TEST_F(EngineThreadTest, ASleepingEngineWakesAndGoesOn) {
  open_thread();
  engine_->run();
  engine_->sleep(1);
  engine_->submit(request());
  expect_error(Code::kFailedPrecondition, [&] { engine_->run(); });
  EXPECT_EQ(engine_->stats().forwards, 0);
  engine_->wake();
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  EXPECT_EQ(engine_->take_finished().size(), 1u);
}

TEST_F(EngineThreadTest, ItEndsWithRequestsUnderWay) {
  open_thread();
  engine_->submit(request(4, 20));
  next_finished();
  engine_->submit(request(4, 20));
  engine_->close();
  engine_->close();
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  expect_error(Code::kFailedPrecondition, [&] { engine_->submit(request()); });
  engine_.reset();
}

// The thread waits for whatever else computes on the runtime.
TEST_F(EngineThreadTest, ItWaitsForATrainerWithOneCopyAndRunsBesideOneWithTwo) {
  for (const char* copies : {"1", "2"}) {
    SCOPED_TRACE(copies);
    open_thread({std::string("model.compute_copies=") + copies});
    TrainerSession trainer(model_, options_);
    engine_->submit(request(4));
    engine_->run();
    std::vector<SamplePtr> batch = engine_->take_finished();
    for (const SamplePtr& s : batch) {
      s->scored = true;
      s->reward = s->slot;
    }
    if (model_->published_apart()) engine_->submit(request(4, 20));
    trainer.step(batch);
    EXPECT_EQ(trainer.publish(), 1u);
    engine_->submit(request());
    EXPECT_EQ(engine_->run(), EngineStep::kIdle);
    EXPECT_EQ(engine_->take_finished().back()->versions.back(), 1u);
    taken();
  }
}

// Weights are set while the thread generates: what engine.thread and two compute copies are for.
TEST_F(EngineThreadTest, WeightsChangeWhileItGenerates) {
  open_thread({"model.compute_copies=2"});
  engine_->submit(request(8, 20));
  const char* name = "model.norm.weight";
  const std::vector<NamedTensor> same = {{name, copy_weight(*model_, name)}};
  for (uint64_t version = 10; version < 15; ++version) {
    EXPECT_EQ(set_weights(*model_, same, version), version);
  }
  EXPECT_EQ(engine_->run(), EngineStep::kIdle);
  for (const SamplePtr& s : engine_->take_finished()) {
    EXPECT_TRUE(std::is_sorted(s->versions.begin(), s->versions.end()));
    EXPECT_LE(s->versions.back(), 14u);
  }
}

// The weights become half-trained after the request was accepted.
TEST_F(EngineThreadTest, AFailedStepPausesItAndSaysWhy) {
  open_thread();
  engine_->pause();
  engine_->submit(request());
  model_->note_failed_step({model_->model().published().release(), 1, 2});
  engine_->unpause();
  const auto event = next();
  ASSERT_NE(event, nullptr);
  ASSERT_EQ(event->kind(), static_cast<int32_t>(EventKind::kEngineFailed));
  const auto& failed = static_cast<const EngineFailedEvent&>(*event);
  EXPECT_EQ(failed.source, kSource);
  EXPECT_TRUE(contains(failed.message, "half-trained"));
  EXPECT_EQ(engine_->run(), EngineStep::kPaused);
  EXPECT_EQ(engine_->stats().waiting, 1) << "the request is still there";
}

}  // namespace
}  // namespace rl
