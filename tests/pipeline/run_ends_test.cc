// How runs end and what they wait for: exceptions of the host's functions, stops in an evaluation,
// rows that replace groups, and texts of the responses that are kept.
#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>

#include "profile/kept_response.h"
#include "run_rig.h"
#include "support/expect_error.h"
#include "tokenized_model.h"
#include "turns.h"

namespace rl {
namespace {

using testing::id_rows;
using testing::low_id_reward;
using testing::options_with;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::wait_until_true;
using testing::write_lines;

// A run whose advantages throw, and the events until its end.
Error failure_of(const CustomAdvantage& advantage) {
  const TempDir dir;
  Rig rig(options_with(dir, {"algo.advantage=custom", "pipeline.total_steps=1"}));
  rig.pipeline().set_custom_advantage(advantage);
  std::vector<std::string> dropped;
  rig.on_event = [&](const Event& event) {
    if (event.kind() != static_cast<int32_t>(EventKind::kGroupDropped)) return;
    const auto& e = static_cast<const GroupDroppedEvent&>(event);
    EXPECT_EQ(e.reason, DropReason::kAborted);
    dropped.push_back(e.message);
  };
  std::optional<Error> thrown;
  try {
    rig.start_and_serve();
  } catch (const Error& e) {
    thrown = e;
  }
  EXPECT_EQ(dropped, std::vector<std::string>(4, "the step ended: aborted"));
  EXPECT_EQ(rig.pipeline().status().state, PipelineState::kFailed);
  const LedgerCounts c = rig.pipeline().status().ledger;
  EXPECT_EQ(c.attempts_discarded[static_cast<size_t>(DropReason::kAborted)], 16);
  EXPECT_EQ(c.attempts_in_flight, 0);
  return thrown.value_or(Error(Code::kOk, "nothing was thrown"));
}

TEST(RunEnds, AnExceptionOfTheHostsFunctionIsTheFailure) {
  using Span = std::span<double>;
  Error e = failure_of([](const AlgoArrays&, Span) { throw std::runtime_error("a surprise"); });
  EXPECT_EQ(e.code, Code::kInternal);
  EXPECT_EQ(e.message, "the pipeline failed: a surprise");
  e = failure_of([](const AlgoArrays&, Span) { throw 7; });
  EXPECT_EQ(e.code, Code::kInternal);
  EXPECT_EQ(e.message, "the pipeline failed for an unknown reason");
  e = failure_of([](const AlgoArrays&, Span) { throw std::bad_alloc(); });
  EXPECT_EQ(e.code, Code::kOutOfMemory);
  EXPECT_EQ(e.message, "out of memory");
  e = failure_of([](const AlgoArrays&, Span) {
    throw Error(Code::kNonFinite, "no advantage").with_key("sample 3");
  });
  EXPECT_EQ(e.code, Code::kNonFinite);
  EXPECT_EQ(e.message, "no advantage");
  EXPECT_EQ(e.key, "sample 3");
}

TEST(RunEnds, AStopInAnEvaluationEndsItWithoutAnEvent) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  write_lines(dir.file("eval.jsonl"), id_rows(3));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  Rig rig(o);
  rig.pipeline().request_eval();
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    EXPECT_EQ(s->purpose, Purpose::kEval);
    p.stop(0);
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_TRUE(log.evals.empty());
  EXPECT_TRUE(log.steps.empty());
  ASSERT_EQ(log.dropped.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(log.dropped[i]->purpose, Purpose::kEval);
    EXPECT_EQ(log.dropped[i]->ordinal, i);
    EXPECT_EQ(log.dropped[i]->data_row, static_cast<int64_t>(i));
    EXPECT_EQ(log.dropped[i]->reason, DropReason::kShutdown);
    EXPECT_EQ(log.dropped[i]->message, "the step ended: shutdown");
  }
  EXPECT_EQ(rig.pipeline().status().state, PipelineState::kDone);
  EXPECT_EQ(rig.pipeline().status().unscored, 0);
  EXPECT_EQ(rig.pipeline().status().ledger, LedgerCounts{}) << "that of the steps";
}

OptionSet fed_and_filtered(const TempDir& dir) {
  OptionSet o = options_with(dir, {"pipeline.filter=mean", "pipeline.total_steps=1"});
  o.set_text("data.path", "");
  return o;
}

// The first two groups have no signal.
void score_from_the_third_on(Pipeline& p, const SamplePtr& s) {
  p.score(s->id, s->ordinal < 2 ? 1.0 : 0.25 * s->slot);
}

TEST(RunEnds, AStepWaitsForFedRowsThatReplaceItsGroups) {
  const TempDir dir;
  Rig rig(fed_and_filtered(dir));
  Pipeline& p = rig.pipeline();
  int fed = 0;
  const auto feed = [&] { EXPECT_TRUE(p.feed_ids({1, 2, 30 + fed++}, "")); };
  for (int i = 0; i < 4; ++i) feed();
  rig.on_score = score_from_the_third_on;
  rig.on_event = [&](const Event& event) {
    if (event.kind() != static_cast<int32_t>(EventKind::kGroupDropped)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the loop waits by now
    feed();
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.steps[0].get("training/samples"), 16.0);
  EXPECT_EQ(log.steps[0].get("pipeline/groups_filtered/score"), 2.0);
  EXPECT_EQ(log.steps[0].get("pipeline/groups_filtered/not_replaced"), 0.0);
  EXPECT_EQ(log.steps[0].get("pipeline/prompts_drawn"), 6.0);
}

TEST(RunEnds, AStopEndsTheWaitForSuchRows) {
  const TempDir dir;
  Rig rig(fed_and_filtered(dir));
  Pipeline& p = rig.pipeline();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(p.feed_ids({1, 2, 30 + i}, ""));
  rig.on_score = score_from_the_third_on;
  rig.on_event = [&](const Event& event) {
    if (event.kind() != static_cast<int32_t>(EventKind::kGroupDropped)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    p.stop(0);
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_TRUE(log.steps.empty());
  ASSERT_EQ(log.dropped.size(), 4u);
  const LedgerCounts c = p.status().ledger;
  EXPECT_EQ(c.prompts_dropped[static_cast<size_t>(DropReason::kFiltered)], 2);
  EXPECT_EQ(c.prompts_dropped[static_cast<size_t>(DropReason::kShutdown)], 2);
  EXPECT_EQ(c.prompts_open, 0);
}

// Special tokens stand in the text of a prompt, not in that of a response.
TEST(RunEnds, ResponsesAreKeptAsText) {
  const TempDir dir;
  OptionSet o = options_with(
      dir, {"pipeline.total_steps=1", "sampling.allowed_token_ids=0,1,41", "optimizer.lr=0"});
  o.set_string("model.path", testing::with_small_tokenizer(dir));
  o.set_string("metrics.samples", dir.file("samples.jsonl"));
  write_lines(dir.file("data.jsonl"), {R"({"ids": [40, 0]})"});
  Rig(o).start_and_serve();
  int64_t kept = 0;
  std::ifstream lines(dir.file("samples.jsonl"));
  for (std::string line; std::getline(lines, line); ++kept) {
    const auto response = parse_kept_response(line);
    ASSERT_TRUE(response.has_value()) << line;
    EXPECT_EQ(response->prompt, "<s>a");
    EXPECT_EQ(response->response.find_first_not_of("ab"), std::string::npos) << response->response;
  }
  EXPECT_EQ(kept, 2) << "the best and the worst";
}

TEST(RunEnds, APipelineTellsItsParts) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  EXPECT_EQ(&rig.pipeline().model(), &rig.model());
  EXPECT_EQ(rig.pipeline().event_fd(), rig.pipeline().event_queue()->fd());
  EXPECT_GE(rig.pipeline().event_fd(), 0);
}

// A start that waits for another object's computation, beside which the host calls.
void start_behind(Rig& rig, const std::function<void()>& start, const std::function<void()>& call) {
  auto other = std::make_unique<ComputeLease>(rig.runtime(), "another object");
  std::jthread waits(start);
  const bool waiting =
      wait_until_true([&] { return rig.runtime().compute_queue().num_waiting() == 1; });
  EXPECT_TRUE(waiting);
  call();
  other.reset();  // before the thread is joined
}

TEST(RunEnds, AStartWaitsUntilOthersHaveComputed) {
  const TempDir dir;
  Rig rig(options_with(dir, {"runtime.busy_timeout_ns=1h", "pipeline.total_steps=1"}));
  start_behind(
      rig, [&] { rig.pipeline().start(); },
      [&] { EXPECT_EQ(rig.pipeline().status().state, PipelineState::kIdle); });
  EXPECT_EQ(rig.serve().steps.size(), 1u);
}

// Meanwhile a second start waits for the first, and everything else for nothing.
TEST(RunEnds, APipelineIsStoppedWhileItsStartWaits) {
  const TempDir dir;
  Rig rig(options_with(dir, {"runtime.busy_timeout_ns=1h", "checkpoint.dir=" + dir.file("saved")}));
  const auto refused = [&] {
    expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().start(); });
  };
  std::jthread second;
  start_behind(rig, refused, [&] {
    second = std::jthread(refused);
    rig.pipeline().set_custom_loss({});
    EXPECT_NE(rig.pipeline().checkpoint(0), "");
    EXPECT_TRUE(rig.pipeline().stop(-1));
    second.join();
    EXPECT_EQ(rig.runtime().compute_queue().num_waiting(), 0);
  });
  EXPECT_EQ(rig.serve().steps.size(), 0u);
}

}  // namespace
}  // namespace rl
