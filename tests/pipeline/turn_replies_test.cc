// Turns in a pipeline: what a sample has after a reply, that the time and the order of replies
// change no bit, which turns ask, and what is refused.
#include "pipeline/loop/turn_replies.h"

#include <algorithm>
#include <map>
#include <set>

#include "replay_rig.h"
#include "support/expect_error.h"
#include "tokenized_model.h"
#include "turn_rig.h"

namespace rl {
namespace {

using testing::answer;
using testing::finish;
using testing::first_turns;
using testing::kTurnSamples;
using testing::Rig;
using testing::RunLog;
using testing::turn_options;
using testing::use_tool;

TEST(TurnReplies, ASampleHasTheReplyBetweenItsTurns) {
  const TempDir dir;
  Rig rig(turn_options(dir));
  std::map<uint64_t, SamplePtr> asked;  // by id: the sample of the first turn's event
  rig.on_turn = [&](Pipeline& p, const TurnEvent& e) {
    EXPECT_EQ(e.sample->generated(), e.turn == 1 ? 4 : 10);
    EXPECT_EQ(e.sample->finish, FinishReason::kLength);
    EXPECT_FALSE(e.sample->tag.empty());
    asked.emplace(e.sample->id, e.sample);
    use_tool(p, e);
  };
  const uint64_t start = rig.model().weight_digest();
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.num_turns, 2 * 2 * static_cast<int64_t>(kTurnSamples));
  ASSERT_EQ(log.samples.size(), 2 * kTurnSamples);
  EXPECT_NE(rig.model().weight_digest(), start);
  for (const SamplePtr& s : log.samples) {
    const SamplePtr& first = asked.at(s->id);
    ASSERT_EQ(first->generated(), 4) << "the sample of an event does not change";
    EXPECT_TRUE(std::equal(first->ids.begin(), first->ids.end(), s->ids.begin()));
    const auto reply = static_cast<size_t>(s->prompt_tokens) + 4;
    EXPECT_EQ(s->ids[reply], 100 + s->ids[reply - 1] % 8);
    EXPECT_EQ(s->ids[reply + 1], 9);
    const std::vector<uint8_t> mask = {1, 1, 1, 1, 0, 0, 1, 1, 1, 1};
    EXPECT_EQ(s->loss_mask, mask);
    for (size_t t = 0; t < mask.size(); ++t) {
      EXPECT_EQ(s->versions[t] == kUnknownVersion, mask[t] == 0) << t;
      EXPECT_EQ(s->logprobs[t] == 0, mask[t] == 0) << t;
    }
  }
  for (const MetricList& m : log.steps) {
    EXPECT_EQ(m.get("training/logprob_max_abs_diff"), 0.0);
    EXPECT_EQ(m.get("training/logprob_compared_tokens"), 8.0 * kTurnSamples);
    EXPECT_GT(m.get("actor/grad_norm").value(), 0);
  }
  EXPECT_EQ(rig.pipeline().status().unreplied, 0);
}

// Answers the turns of a step when all have come, the newest first.
void answer_backwards(Rig& rig) {
  std::vector<std::shared_ptr<TurnEvent>> waiting;
  rig.on_turn = [&waiting](Pipeline& p, const TurnEvent& e) {
    waiting.push_back(std::make_shared<TurnEvent>(e));
    if (waiting.size() < kTurnSamples) return;
    EXPECT_EQ(p.status().unreplied, static_cast<int64_t>(kTurnSamples));
    for (auto turn = waiting.rbegin(); turn != waiting.rend(); ++turn) use_tool(p, **turn);
    waiting.clear();
  };
  rig.start_and_serve();
}

TEST(TurnReplies, TheTimeAndOrderOfRepliesChangeNothing) {
  const TempDir dir;
  Rig at_once(turn_options(dir)), backwards(turn_options(dir));
  at_once.on_turn = use_tool;
  EXPECT_EQ(at_once.start_and_serve().steps.size(), 2u);
  answer_backwards(backwards);
  EXPECT_EQ(backwards.model().weight_digest(), at_once.model().weight_digest());
}

TEST(TurnReplies, ASmallPoolAndSeveralEnginesChangeNothing) {
  const TempDir dir;
  Rig wide(turn_options(dir)),
      narrow(turn_options(dir, {"engine.max_num_seqs=2", "engine.num_engines=2"}));
  wide.on_turn = narrow.on_turn = use_tool;
  wide.start_and_serve();
  narrow.start_and_serve();
  EXPECT_EQ(narrow.model().weight_digest(), wide.model().weight_digest());
}

TEST(TurnReplies, OneTurnIsARunWithoutTurns) {
  const TempDir dir;
  Rig one(turn_options(dir, {"pipeline.max_turns=1"})),
      none(turn_options(dir, {"pipeline.turns=none"}));
  const RunLog log = one.start_and_serve(), expected = none.start_and_serve();
  EXPECT_EQ(log.num_turns, 0);
  EXPECT_EQ(log.fingerprint(), expected.fingerprint());
  EXPECT_EQ(one.model().weight_digest(), none.model().weight_digest());
}

TEST(TurnReplies, TheLastTurnsAreThoseWithoutRoomForAnother) {
  const TempDir dir;
  Rig rig(turn_options(dir, {"engine.max_model_len=12", "pipeline.total_steps=1"}));
  rig.on_turn = [](Pipeline& p, const TurnEvent& e) { answer(p, e.sample->id, {9}); };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.samples.size(), kTurnSamples);
  // 3 ids of the prompt, 4 sampled, 1 reply, 4 sampled.
  for (const SamplePtr& s : log.samples) EXPECT_EQ(s->ids.size(), 12u);
  EXPECT_EQ(log.num_turns, static_cast<int64_t>(kTurnSamples));
}

TEST(TurnReplies, ATurnIsCutToTheRoomThatIsLeft) {
  const TempDir dir;
  Rig rig(turn_options(dir, {"engine.max_model_len=12", "pipeline.total_steps=1"}));
  rig.on_turn = [](Pipeline& p, const TurnEvent& e) { answer(p, e.sample->id, {9, 8, 7}); };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.samples.size(), kTurnSamples);
  for (const SamplePtr& s : log.samples) {
    EXPECT_EQ(s->ids.size(), 12u);
    EXPECT_EQ(s->loss_mask, (std::vector<uint8_t>{1, 1, 1, 1, 0, 0, 0, 1, 1}));
  }
}

TEST(TurnReplies, RemaxHasAGreedySampleWithTurnsOfItsOwn) {
  const TempDir dir;
  Rig rig(turn_options(dir, {"algo.advantage=remax", "pipeline.total_steps=1"}));
  rig.on_turn = use_tool;
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.samples.size(), 6u);
  for (const SamplePtr& s : log.samples) EXPECT_EQ(s->generated(), 10);
}

TEST(TurnReplies, SamplesOfEvaluationsHaveTurnsToo) {
  const TempDir dir;
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(3));
  OptionSet o = turn_options(dir, {"eval.max_new_tokens=4"});
  o.set_string("eval.path", dir.file("eval.jsonl"));
  Rig rig(o);
  rig.pipeline().request_eval();
  rig.on_turn = use_tool;
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 1u);
  EXPECT_EQ(log.evals[0]->num_scored, 3);
  EXPECT_EQ(log.evals[0]->metrics.get("eval/response_length/mean"), 10.0);
}

TEST(TurnReplies, RecordedBatchesGiveTheSameWeightsAgain) {
  const TempDir dir;
  OptionSet o = turn_options(dir);
  o.set_string("buffer.record_dir", dir.file("record"));
  Rig rig(o);
  rig.on_turn = use_tool;
  rig.start_and_serve();
  testing::Replay replay(o);
  for (const char* name : {"record/step_000001.rlbuf", "record/step_000002.rlbuf"}) {
    EXPECT_EQ(replay.step(dir.file(name)), kTurnSamples);
  }
  EXPECT_EQ(replay.digest(), rig.model().weight_digest());
}

// A turn that ends with the text of a call asks, any other one does not.
TEST(TurnReplies, AStopStringIsACallOfATool) {
  const TempDir dir;
  OptionSet o = turn_options(
      dir, {"pipeline.turns=stop_string", "sampling.stop=b", "sampling.allowed_token_ids=0,1",
            "pipeline.total_steps=1", "pipeline.prompts_per_step=8"});
  o.set_string("model.path", testing::with_small_tokenizer(dir));
  testing::write_lines(dir.file("data.jsonl"), {R"({"ids": [40, 0]})"});
  Rig rig(o);
  std::set<uint64_t> called;
  rig.on_turn = [&](Pipeline& p, const TurnEvent& e) {
    EXPECT_EQ(e.sample->finish, FinishReason::kStopString);
    EXPECT_TRUE(e.turn_text.ends_with("b")) << e.turn_text;
    EXPECT_TRUE(e.text.ends_with(e.turn_text)) << e.text;
    EXPECT_EQ(e.prompt_text, "<s>a");
    if (e.turn > 1) return finish(p, e.sample->id);
    called.insert(e.sample->id);
    answer(p, Reply{.sample_id = e.sample->id, .text = "cd"});
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.samples.size(), 16u);
  EXPECT_FALSE(called.empty());
  for (const SamplePtr& s : log.samples) {
    const auto response = s->ids.begin() + s->prompt_tokens;
    const auto turn = response + std::min<int64_t>(4, s->generated());
    EXPECT_EQ(std::find(response, turn, 1) != turn, called.contains(s->id));
    EXPECT_EQ(std::count(s->loss_mask.begin(), s->loss_mask.end(), 0), called.contains(s->id))
        << "\"cd\" is one token";
  }
}

class TurnRefusals : public ::testing::Test {
 protected:
  void begin(const std::vector<std::string>& more = {}) {
    rig_ = std::make_unique<Rig>(turn_options(dir_, more));
    rig_->pipeline().start();
    samples_ = first_turns(rig_->pipeline());
  }
  Error refused(Code code, const Reply& reply) {
    std::vector<Code> seen;
    const Error e = expect_error(code, [&] {
      rig_->pipeline().reply_many({&reply, 1}, [&](size_t, Code c) { seen.push_back(c); });
    });
    EXPECT_EQ(seen, std::vector<Code>{code});
    EXPECT_EQ(e.key, "replies[0]");
    return e;
  }
  // Serves the rest of the run.
  RunLog finish_run() {
    rig_->on_turn = use_tool;
    for (const SamplePtr& s : samples_) answer(rig_->pipeline(), s->id, {9});
    return rig_->serve();
  }

  const TempDir dir_;
  const std::vector<int32_t> ids_ = {3, 4};
  std::unique_ptr<Rig> rig_;
  std::vector<SamplePtr> samples_;
};

TEST_F(TurnRefusals, AReplyIsForATurnThatWaits) {
  begin();
  const uint64_t id = samples_[0]->id;
  refused(Code::kNotFound, {.sample_id = 0, .ids = ids_});
  refused(Code::kNotFound, {.sample_id = 999, .ids = ids_});
  refused(Code::kNotFound, {.sample_id = id, .turn = 2, .ids = ids_});
  answer(rig_->pipeline(), id, ids_);
  refused(Code::kDuplicate, {.sample_id = id, .turn = 1, .ids = ids_});
  samples_.erase(samples_.begin());
  EXPECT_EQ(finish_run().end, Code::kDone);
  refused(Code::kDuplicate, {.sample_id = id, .ids = ids_});
}

TEST_F(TurnRefusals, AReplyHasTokensOrFinishes) {
  begin();
  const uint64_t id = samples_[0]->id;
  refused(Code::kInvalidArgument, {.sample_id = id});
  refused(Code::kInvalidArgument, {.sample_id = id, .ids = ids_, .finish = true});
  const std::vector<int32_t> outside = {256}, below = {-1}, long_one(26, 1);
  refused(Code::kOutOfRange, {.sample_id = id, .ids = outside});
  refused(Code::kOutOfRange, {.sample_id = id, .ids = below});
  const Error e = refused(Code::kOutOfRange, {.sample_id = id, .ids = long_one});
  EXPECT_TRUE(contains(e.message, "engine.max_model_len 32"));
  refused(Code::kFailedPrecondition, {.sample_id = id, .text = "a"});
  EXPECT_EQ(rig_->pipeline().status().unreplied, static_cast<int64_t>(kTurnSamples))
      << "a refused reply leaves the sample waiting";
  EXPECT_EQ(finish_run().end, Code::kDone);
}

TEST_F(TurnRefusals, ASampleThatWaitsForAReplyTakesNoScore) {
  begin();
  expect_error(Code::kNotFound, [&] { rig_->pipeline().score(samples_[0]->id, 1); });
  EXPECT_EQ(finish_run().end, Code::kDone);
}

TEST_F(TurnRefusals, SeveralRefusalsAreParts) {
  begin();
  const Reply replies[] = {{.sample_id = samples_[0]->id, .ids = ids_},
                           {.sample_id = 999, .ids = ids_},
                           {.sample_id = samples_[0]->id, .turn = 1, .ids = ids_}};
  std::vector<Code> codes;
  const Error e = expect_error(Code::kNotFound, [&] {
    rig_->pipeline().reply_many(replies, [&](size_t, Code c) { codes.push_back(c); });
  });
  EXPECT_EQ(codes, (std::vector<Code>{Code::kOk, Code::kNotFound, Code::kDuplicate}));
  ASSERT_EQ(e.parts.size(), 2u);
  EXPECT_EQ(e.parts[1].key, "replies[2]");
  samples_.erase(samples_.begin());
  EXPECT_EQ(finish_run().end, Code::kDone);
}

TEST(TurnReplies, WithoutTurnsNothingIsReplied) {
  const TempDir dir;
  Rig rig(turn_options(dir, {"pipeline.turns=none"}));
  const Error e = expect_error(Code::kFailedPrecondition, [&] { answer(rig.pipeline(), 1, {1}); });
  EXPECT_TRUE(contains(e.message, "pipeline.turns is none"));
}

}  // namespace
}  // namespace rl
