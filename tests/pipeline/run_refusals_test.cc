// What a pipeline refuses, by key and place: calls, rows that are fed or evaluated, and scores.
#include <algorithm>
#include <cmath>

#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::id_rows;
using testing::options_with;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::write_lines;

OptionSet fed_options(const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  o.set_text("data.path", "");
  return o;
}

TEST(RunRefusals, CallsThatNeedAnOptionNameIt) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  Pipeline& p = rig.pipeline();
  Error e = expect_error(Code::kFailedPrecondition, [&] { p.checkpoint(0); });
  EXPECT_EQ(e.key, "checkpoint.dir");
  EXPECT_EQ(e.message, "checkpoint.dir is empty, so no checkpoint can be written");
  e = expect_error(Code::kFailedPrecondition, [&] { p.request_eval(); });
  EXPECT_EQ(e.key, "eval.path");
  EXPECT_EQ(e.message, "eval.path is empty, so there is nothing to evaluate");
  for (const auto& feed :
       std::vector<std::function<void()>>{[&] {
                                            p.feed_ids({1, 2}, "");
                                          },
                                          [&] { p.feed_line("no json"); }, [&] { p.end_feed(); }}) {
    e = expect_error(Code::kFailedPrecondition, feed);
    EXPECT_EQ(e.key, "data.path");
    EXPECT_EQ(e.message, "prompts come from data.path, so none can be fed");
  }
  expect_error(Code::kFailedPrecondition,
               [&] { p.save_critic(dir.file("c"), Dtype::kF32, false); });
  EXPECT_FALSE(real_fs().exists(dir.file("c")));
}

TEST(RunRefusals, AFeedEndsOnce) {
  const TempDir dir;
  Rig rig(fed_options(dir));
  Pipeline& p = rig.pipeline();
  EXPECT_EQ(p.status().feed_capacity, 16) << "four steps of four";
  p.end_feed();
  for (const auto& feed : std::vector<std::function<void()>>{
           [&] {
             p.feed_ids({1, 2}, "");
           },
           [&] { p.feed_line(R"({"ids": [1]})"); }, [&] { p.end_feed(); }}) {
    EXPECT_EQ(expect_error(Code::kFailedPrecondition, feed).message, "the feed has ended");
  }
}

// A row that is refused takes no number.
TEST(RunRefusals, ARowThatIsTooLongIsRefusedWhenItIsFed) {
  const TempDir dir;
  Rig rig(fed_options(dir));
  const auto refused = [&](const char* location) {
    const Error e = expect_error(Code::kOutOfRange,
                                 [&] { rig.pipeline().feed_ids(std::vector<int32_t>(25, 7), ""); });
    EXPECT_EQ(e.key, "engine.max_model_len");
    EXPECT_EQ(e.expected, "at least 33");
    EXPECT_EQ(e.location, location);
  };
  refused("feed:1");
  refused("feed:1");
  EXPECT_TRUE(rig.pipeline().feed_ids(std::vector<int32_t>(24, 7), ""));
  refused("feed:2");
}

TEST(RunRefusals, FedRowsKeepTheirTagsAndNumbers) {
  const TempDir dir;
  OptionSet o = fed_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  Rig rig(o);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(rig.pipeline().feed_ids({1, 2, 30 + i}, str("tag ", i)));
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.samples.size(), 16u);
  EXPECT_EQ(log.series("training/epoch"), std::vector<double>{0}) << "a feed has no epochs";
  for (const SamplePtr& s : log.samples) {
    EXPECT_EQ(s->data_row, static_cast<int64_t>(s->ordinal));
    EXPECT_EQ(s->tag, str("tag ", s->ordinal));
    EXPECT_EQ(s->ids[2], 30 + static_cast<int32_t>(s->ordinal));
    EXPECT_EQ(s->id, 1 + 4 * s->ordinal + s->slot);
  }
}

TEST(RunRefusals, ACustomAlgorithmThatIsNotSetIsNamed) {
  const TempDir dir;
  Rig rig(options_with(dir, {"algo.advantage=custom", "algo.policy_loss=custom"}));
  Pipeline& p = rig.pipeline();
  Error e = expect_error(Code::kFailedPrecondition, [&] { p.start(); });
  EXPECT_EQ(e.key, "algo.advantage");
  EXPECT_EQ(e.message, "algo.advantage = custom, but no advantage function has been set");
  p.set_custom_advantage([](const AlgoArrays&, std::span<double>) {});
  e = expect_error(Code::kFailedPrecondition, [&] { p.start(); });
  EXPECT_EQ(e.key, "algo.policy_loss");
  EXPECT_EQ(e.message, "algo.policy_loss = custom, but no loss function has been set");
  EXPECT_EQ(p.status().state, PipelineState::kIdle);
}

TEST(RunRefusals, FilesAreClosedWhenTheLoopEnds) {
  const TempDir dir;
  Rig rig(options_with(dir, {"pipeline.total_steps=1"}));
  const Error e = expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().require_closed(); });
  EXPECT_EQ(e.message, "the pipeline closes its files when its loop ends; its state is idle");
  rig.start_and_serve();
  EXPECT_NO_THROW(rig.pipeline().require_closed());
}

TEST(RunRefusals, OfManyScoresEachRefusedOneIsNamed) {
  const TempDir dir;
  Rig rig(options_with(dir, {"pipeline.total_steps=1"}));
  std::vector<Score> scores;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    scores.push_back({s->id, 0.25 * s->slot});
    if (scores.size() < 16) return;
    const uint64_t first = scores[0].sample_id;
    p.score(first, 0.5);
    scores.insert(scores.begin() + 1, {999'999, 1.0});
    const Error e =
        expect_error(Code::kDuplicate, [&] { p.score_many(scores, [](size_t, Code) {}); });
    EXPECT_EQ(e.key, "scores[0]");
    EXPECT_EQ(e.message, str("2 of 17 scores were refused; the first: sample ", first,
                             " already has a score, 0.5"));
    ASSERT_NE(e.cause, nullptr);
    EXPECT_EQ(e.cause->code, Code::kDuplicate);
    ASSERT_EQ(e.parts.size(), 2u);
    EXPECT_EQ(e.parts[0].key, "scores[0]");
    EXPECT_EQ(e.parts[1].key, "scores[1]");
    EXPECT_EQ(e.parts[1].code, Code::kNotFound);
  };
  EXPECT_EQ(rig.start_and_serve().steps.size(), 1u);
}

TEST(RunRefusals, AStepCountsDuplicateAndLateScoresToo) {
  const TempDir dir;
  Rig rig(options_with(dir, {"pipeline.total_steps=1"}));
  std::vector<SamplePtr> waiting;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    waiting.push_back(s);
    if (waiting.size() < 16) return;
    bool failed = false;
    std::vector<uint64_t> others;
    for (const SamplePtr& w : waiting) {
      if (w->ordinal != 3) {
        others.push_back(w->id);
      } else if (failed) {
        expect_error(Code::kLate, [&] { p.score(w->id, 1); });
      } else {
        p.fail(w->id, "broken");
        failed = true;
      }
    }
    for (size_t i = 0; i + 1 < others.size(); ++i) {
      p.score(others[i], static_cast<double>(i % 4));
      if (i < 5) expect_error(Code::kDuplicate, [&] { p.score(others[i], 1); });
    }
    p.score(others.back(), 1);
  };
  EXPECT_EQ(rig.start_and_serve().series("pipeline/refused_scores"), std::vector<double>{3 + 5});
  const LedgerCounts c = rig.pipeline().status().ledger;
  EXPECT_EQ(c.late_scores, 3);
  EXPECT_EQ(c.duplicate_scores, 5);
}

TEST(RunRefusals, ARewardHasThePartsThatAreWeighted) {
  const TempDir dir;
  OptionSet o =
      options_with(dir, {"algo.advantage=gdpo", "algo.gdpo_weights=1,1", "pipeline.total_steps=1"});
  write_lines(dir.file("eval.jsonl"), id_rows(1));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_text("eval.every_steps", "1");
  Rig rig(o);
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    if (s->purpose == Purpose::kEval) return p.score(s->id, 0.5);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{3}}) {
      const std::vector<double> parts(count, 1);
      const Error e = expect_error(Code::kInvalidArgument, [&] { p.score(s->id, 1, parts); });
      EXPECT_EQ(e.key, "algo.gdpo_weights");
      EXPECT_EQ(e.message, str("the reward of sample ", s->id, " has ", count,
                               " parts, but algo.gdpo_weights has 2 entries"));
    }
    const double parts[] = {0.25 * s->slot, 1};
    p.score(s->id, 1, parts);
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.series("training/samples"), std::vector<double>{16});
  ASSERT_EQ(log.evals.size(), 1u);
  EXPECT_EQ(log.evals[0]->num_scored, 1);
}

TEST(RunRefusals, AGroupOfEqualRewardsSaysWhichSpreadItLacks) {
  const TempDir dir;
  Rig rig(options_with(dir, {"pipeline.filter=spread", "pipeline.filter_spread=0.25",
                             "pipeline.filter_max_rounds=1", "pipeline.total_steps=1"}));
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    p.score(s->id, s->ordinal % 2 == 0 ? 1.0 : 0.25 * s->slot);
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.dropped.size(), 3u);
  for (const auto& d : log.dropped) {
    EXPECT_EQ(d->message, "its rewards spread no more than pipeline.filter_spread = 0.25");
    EXPECT_EQ(d->reason, DropReason::kFiltered);
    EXPECT_EQ(d->purpose, Purpose::kTrain);
  }
}

TEST(RunRefusals, ARowOfAnEvaluationFitsWithItsOwnNewTokens) {
  const TempDir dir;
  std::string ids = "1";
  for (int i = 2; i <= 30; ++i) ids += str(", ", i);
  const auto with = [&](const char* new_tokens) {
    OptionSet o = options_with(dir, {"eval.every_steps=1", "pipeline.total_steps=1",
                                     str("eval.max_new_tokens=", new_tokens)});
    write_lines(dir.file("eval.jsonl"), {"{\"ids\": [" + ids + "]}"});
    o.set_string("eval.path", dir.file("eval.jsonl"));
    return o;
  };
  {
    Rig rig(with("2"));
    const RunLog log = rig.start_and_serve();
    ASSERT_EQ(log.evals.size(), 1u);
    EXPECT_EQ(log.evals[0]->metrics.get("eval/response_length/mean"), 2.0);
  }
  Rig rig(with("3"));
  const Error e = expect_error(Code::kOutOfRange, [&] { rig.start_and_serve(); });
  EXPECT_EQ(e.location, dir.file("eval.jsonl") + ":1");
  EXPECT_TRUE(contains(e.message, "a prompt of 30 tokens and 3 new tokens"));
}

TEST(RunRefusals, AnEvaluationHasNoMoreRowsThanItsFile) {
  const TempDir dir;
  for (const auto& [most, expected] : {std::pair("0", 3), {"2", 2}, {"3", 3}, {"9", 3}}) {
    OptionSet o = options_with(
        dir, {"eval.every_steps=1", "pipeline.total_steps=1", str("eval.max_prompts=", most)});
    write_lines(dir.file("eval.jsonl"), id_rows(3));
    o.set_string("eval.path", dir.file("eval.jsonl"));
    Rig rig(o);
    const RunLog log = rig.start_and_serve();
    ASSERT_EQ(log.evals.size(), 1u);
    EXPECT_EQ(log.evals[0]->num_scored, expected) << most;
  }
}

class LogLines final : public LogSink {
 public:
  void write(const LogRecord& record) override { lines.emplace_back(record.message); }
  std::vector<std::string> lines;
};

// The rows of the step are 0, 1, 2 and 3; the id 26 is in row 2 alone.
TEST(RunRefusals, LogitsThatAreNotFiniteLoseTheirGroup) {
  const TempDir dir;
  Rig rig(options_with(
      dir, {"data.shuffle=false", "pipeline.total_steps=1", "sampling.allowed_token_ids=3,5,8"}));
  const auto log = std::make_shared<LogLines>();
  rig.runtime().logger().set_sink(log);
  Model& model = rig.model().model();
  const int64_t hidden = model.config().hidden;
  std::fill_n(model.master() + model.layout().embedding() + 26 * hidden, hidden, NAN);
  model.publish();
  const RunLog run = rig.start_and_serve();
  ASSERT_EQ(run.dropped.size(), 1u);
  EXPECT_EQ(run.dropped[0]->ordinal, 2u);
  EXPECT_EQ(run.dropped[0]->data_row, 2);
  EXPECT_EQ(run.dropped[0]->reason, DropReason::kNonFinite);
  const std::string& message = run.dropped[0]->message;
  EXPECT_TRUE(message.starts_with("the logits of sample ")) << message;
  EXPECT_TRUE(message.ends_with(" were not finite")) << message;
  EXPECT_FALSE(log->lines.empty()) << "the engine's errors are logged";
  for (const SamplePtr& s : run.samples) EXPECT_NE(s->ordinal, 2u);
  EXPECT_EQ(run.samples.size(), 12u);
  EXPECT_EQ(run.series("training/samples"), std::vector<double>{12});
}

}  // namespace
}  // namespace rl
