// pipeline.record_path and pipeline.replay_path: a replay has the bits of its run, whatever made
// that run what it was, and a record of another run is refused with the event that differs.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/log.h"
#include "late_scorer.h"
#include "pipeline/schedule/schedule_file.h"
#include "run_rig.h"
#include "scored_model.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::LateScorer;
using testing::low_id_reward;
using testing::options_with;
using testing::Rig;
using testing::RunLog;
using testing::score_unless_late;
using Texts = std::vector<std::string>;

// Publications come while samples are generated: a step has several micro-batches.
const Texts kAsync = {"pipeline.mode=async",        "model.compute_copies=2",
                      "pipeline.max_staleness=3",   "pipeline.partial_rollout=true",
                      "sampling.max_new_tokens=24", "trainer.max_tokens_per_device=48",
                      "pipeline.total_steps=6"};

Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Outcome {
  std::string metrics;
  uint64_t digest = 0;
  LedgerCounts books;
  int64_t dropped = 0;
};

// Metrics but for times and refused scores, of which a replay has none.
std::string metrics_of(const RunLog& log) {
  std::string out;
  for (const MetricList& m : log.steps) {
    for (const Metric& metric : m.without_times()) {
      if (metric.name != "pipeline/refused_scores")
        out += str(metric.name, " ", metric.value, "\n");
    }
  }
  return out;
}

Outcome outcome_of(Rig& rig, const RunLog& log) {
  return {metrics_of(log), rig.model().weight_digest(), rig.pipeline().status().ledger,
          static_cast<int64_t>(log.dropped.size())};
}

void expect_same(const Outcome& run, const Outcome& replay) {
  EXPECT_EQ(run.digest, replay.digest);
  EXPECT_EQ(run.metrics, replay.metrics);
  EXPECT_EQ(run.dropped, replay.dropped);
  EXPECT_EQ(run.books.prompts_trained, replay.books.prompts_trained);
  EXPECT_EQ(run.books.prompts_dropped, replay.books.prompts_dropped);
  EXPECT_EQ(run.books.tokens_generated, replay.books.tokens_generated);
}

OptionSet recording(OptionSet o, const std::string& path) {
  o.set_string("pipeline.record_path", path);
  return o;
}

OptionSet replaying(OptionSet o, const std::string& path, int64_t threads = 1) {
  o.unset("pipeline.record_path");
  o.set_string("pipeline.replay_path", path);
  o.set_i64("runtime.threads", threads);
  return o;
}

// A run whose scores come late; `prepare` may change what its host does.
Outcome record(const OptionSet& o, const std::function<void(Rig&)>& prepare = {}) {
  Rig rig(o);
  LateScorer scorer(rig);
  if (prepare) prepare(rig);
  const RunLog log = rig.start_and_serve();
  return outcome_of(rig, log);
}

Outcome replay(const OptionSet& o) {
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  EXPECT_TRUE(log.samples.empty()) << "the host is asked for scores";
  return outcome_of(rig, log);
}

std::vector<ScheduledEvent> events_of(const std::string& path) {
  ScheduleReader reader(real_fs(), path);
  std::vector<ScheduledEvent> events;
  while (reader.peek() != nullptr) events.push_back(reader.take());
  return events;
}

bool has(const std::vector<ScheduledEvent>& events, ScheduledKind kind) {
  return std::ranges::any_of(events, [&](const auto& e) { return e.kind == kind; });
}

TEST(ScheduleReplay, HasTheBitsOfItsRunAtAnyThreadCount) {
  const TempDir dir;
  for (const char* staleness : {"1", "3"}) {
    SCOPED_TRACE(staleness);
    OptionSet o = options_with(dir, kAsync);
    o.set_text("pipeline.max_staleness", staleness);
    const std::string path = dir.file(str("schedule_", staleness));
    const Outcome run = record(recording(o, path));
    for (const int64_t threads : {1, 2, 4}) expect_same(run, replay(replaying(o, path, threads)));
  }
}

TEST(ScheduleReplay, HasFailuresAndMissedDeadlines) {
  const TempDir dir;
  const Texts filtered = {"pipeline.reward_timeout_ns=80ms", "pipeline.filter=spread",
                          "pipeline.filter_spread=0.05", "pipeline.max_off_policy_steps=1"};
  const OptionSet o = options_with(dir, kAsync + filtered);
  const std::string path = dir.file("schedule");
  const Outcome run = record(recording(o, path), [](Rig& rig) {
    rig.on_score = [late = rig.on_score](Pipeline& p, const SamplePtr& s) {
      if (s->ordinal % 5 == 2 && s->slot == 1) return;  // nobody scores it
      if (s->ordinal % 5 != 4) return late(p, s);
      try {
        p.fail(s->id, "the judge is down");
      } catch (const Error& e) {
        EXPECT_EQ(e.code, Code::kLate) << e.message;
      }
    };
  });
  const auto dropped = [&](DropReason reason) {
    return run.books.prompts_dropped[static_cast<size_t>(reason)];
  };
  EXPECT_GT(dropped(DropReason::kRewardTimeout), 0);
  EXPECT_GT(dropped(DropReason::kRewardError), 0);
  EXPECT_GT(dropped(DropReason::kFiltered), 0);
  const Outcome again = replay(replaying(o, path));
  expect_same(run, again);
}

TEST(ScheduleReplay, SyncWithMissedDeadlinesRepeatsToo) {
  const TempDir dir;
  const OptionSet o = options_with(dir, {"pipeline.reward_timeout_ns=50ms"});
  for (const char* mode : {"sync", "one_step_off"}) {
    SCOPED_TRACE(mode);
    OptionSet in_mode = o;
    in_mode.set_text("pipeline.mode", mode);
    if (std::string(mode) != "sync") in_mode.set_i64("model.compute_copies", 2);
    const std::string path = dir.file(mode);
    const Outcome run = record(recording(in_mode, path), [](Rig& rig) {
      rig.on_score = [](Pipeline& p, const SamplePtr& s) {
        if (s->ordinal % 3 != 1) score_unless_late(p, s);
      };
    });
    EXPECT_GT(run.dropped, 0);
    expect_same(run, replay(replaying(in_mode, path, 2)));
  }
}

TEST(ScheduleReplay, SyncAndOneStepOffNeedNone) {
  const TempDir dir;
  for (const Texts& mode : {Texts{"pipeline.mode=sync"},
                            Texts{"pipeline.mode=one_step_off", "model.compute_copies=2"}}) {
    std::vector<uint64_t> digests;
    for (const char* threads : {"1", "2", "4"}) {
      Rig rig(options_with(dir, mode + Texts{str("runtime.threads=", threads)}));
      LateScorer scorer(rig);
      rig.start_and_serve();
      digests.push_back(rig.model().weight_digest());
    }
    EXPECT_EQ(digests[0], digests[1]);
    EXPECT_EQ(digests[0], digests[2]);
  }
}

// A child process, which ends itself as kill -9 does.
void run_until_killed(const OptionSet& o, uint64_t step) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Rig rig(o);
    LateScorer scorer(rig);
    rig.on_step = [&](Pipeline&, const StepEvent& e) {
      if (e.step == step) raise(SIGKILL);
    };
    rig.start_and_serve();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

class LogLines final : public LogSink {
 public:
  void write(const LogRecord& record) override { lines.push_back(std::string(record.message)); }
  std::vector<std::string> lines;
};

// The log has the text once the pipeline is made.
void expect_told(const OptionSet& o, const std::string& text) {
  RuntimeSeams seams;
  seams.executor = make_thread_executor(1);
  const auto runtime = std::make_shared<Runtime>(o, std::move(seams));
  const auto log = std::make_shared<LogLines>();
  runtime->logger().set_sink(log);
  const Pipeline pipeline(LoadedModel::open(runtime, o, PlanUse::kPipeline), o);
  std::string all;
  for (const std::string& line : log->lines) all += line + "\n";
  EXPECT_NE(all.find(text), std::string::npos) << all;
  runtime->logger().set_sink(nullptr);
}

TEST(ScheduleReplay, ARecordOfAKilledRunRepeatsUpToItsEnd) {
  const TempDir dir;
  const OptionSet o = options_with(dir, kAsync);
  const std::string path = dir.file("schedule");
  run_until_killed(recording(o, path), 3);
  const ScheduleExtent extent = ScheduleReader(real_fs(), path).extent();
  EXPECT_TRUE(extent.torn);
  EXPECT_GE(extent.steps, 3u);
  const Outcome whole = replay(replaying(o, path));
  EXPECT_GE(whole.books.prompts_trained, 12);

  // A frame that was not written to its end is left out.
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  const ScheduleExtent shorter = ScheduleReader(real_fs(), path).extent();
  EXPECT_LT(shorter.events, extent.events);
  EXPECT_GT(shorter.cut_bytes, 0u);
  expect_told(replaying(o, path), str(shorter.events, " events are kept, up to step ",
                                      shorter.steps, ", and ", shorter.cut_bytes, " bytes"));
  Rig rig(replaying(o, path, 2));
  const RunLog log = rig.start_and_serve();
  EXPECT_GE(log.steps.size(), shorter.steps);
}

// The record with one event changed.
struct Change {
  ScheduledKind kind;
  size_t number;  // of the event
  const char* named;
};

void change(const std::string& from, const std::string& to, const Change& change) {
  ScheduleReader reader(real_fs(), from);
  ScheduleWriter writer(real_fs(), to, reader.info());
  bool changed = false;
  while (reader.peek() != nullptr) {
    ScheduledEvent e = reader.take();
    if (e.kind == change.kind && !std::exchange(changed, true)) ++e.numbers.at(change.number);
    writer.append(std::move(e));
  }
  writer.close();
  EXPECT_TRUE(changed) << change.named;
}

TEST(ScheduleReplay, AChangedEventIsNamed) {
  const TempDir dir;
  const OptionSet o = options_with(dir, kAsync + Texts{"pipeline.total_steps=3"});
  const std::string path = dir.file("schedule");
  record(recording(o, path));
  const Change kChanges[] = {{ScheduledKind::kDraw, 2, "draw ("},
                             {ScheduledKind::kForward, 0, "forward ("},
                             {ScheduledKind::kSample, 2, "finished sample ("},
                             {ScheduledKind::kBatch, 1, "batch ("},
                             {ScheduledKind::kPublish, 3, "publication ("},
                             {ScheduledKind::kScore, 0, "score ("}};
  for (const Change& c : kChanges) {
    SCOPED_TRACE(c.named);
    const std::string other = dir.file("changed");
    change(path, other, c);
    Rig rig(replaying(o, other));
    rig.ends_with = Code::kIncompatible;
    rig.start_and_serve();
    const Error& e = *rig.pipeline().failure();
    EXPECT_EQ(e.code, Code::kIncompatible);
    EXPECT_NE(e.message.find(str("expected ", c.named)), std::string::npos) << e.message;
    EXPECT_NE(e.message.find(", seen "), std::string::npos) << e.message;
    EXPECT_TRUE(e.location.starts_with(other + " event ")) << e.location;
  }
}

// A reward that was changed is a run that goes another way.
TEST(ScheduleReplay, AChangedRewardIsADifferenceInWhatFollows) {
  const TempDir dir;
  const OptionSet o = options_with(dir, kAsync + Texts{"pipeline.total_steps=3"});
  const std::string path = dir.file("schedule"), other = dir.file("changed");
  record(recording(o, path));
  ScheduleReader reader(real_fs(), path);
  {
    ScheduleWriter writer(real_fs(), other, reader.info());
    while (reader.peek() != nullptr) {
      ScheduledEvent e = reader.take();
      if (e.kind == ScheduledKind::kScore) e.numbers[1] = bits_of(double(e.numbers[0] % 3));
      writer.append(std::move(e));
    }
    writer.close();
  }
  Rig rig(replaying(o, other));
  rig.ends_with = Code::kIncompatible;
  rig.start_and_serve();
  EXPECT_NE(rig.pipeline().failure()->message.find("expected publication (step 1,"),
            std::string::npos)
      << rig.pipeline().failure()->message;
}

TEST(ScheduleReplay, GoesThroughAResumption) {
  const TempDir dir;
  OptionSet o = options_with(dir, kAsync + Texts{"checkpoint.every_steps=2", "eval.every_steps=2"});
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(3));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_string("checkpoint.resume", "auto");
  const std::string path = dir.file("schedule");
  run_until_killed(recording(o, path), 5);
  OptionSet longer = o;  // a run may be made longer where it resumes
  longer.set_i64("pipeline.total_steps", 7);
  Rig rig(recording(longer, path));
  LateScorer scorer(rig);
  EXPECT_EQ(rig.pipeline().status().step, 4u);
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps.size(), 3u);
  EXPECT_TRUE(has(events_of(path), ScheduledKind::kResume));
  const uint64_t digest = rig.model().weight_digest();

  OptionSet plain = replaying(o, path, 2);
  plain.unset("checkpoint.dir");
  plain.unset("checkpoint.every_steps");
  plain.unset("checkpoint.resume");
  {
    Rig whole(plain);
    const RunLog again = whole.start_and_serve();
    EXPECT_EQ(again.steps.size(), 7u);
    EXPECT_EQ(whole.model().weight_digest(), digest);
    EXPECT_EQ(again.steps[6].get("training/weight_version"), 7);
  }
  const std::string steps = dir.file("checkpoints/step_00000");
  {
    OptionSet behind = plain;
    behind.set_i64("pipeline.total_steps", 7);
    behind.set_string("checkpoint.resume", steps + "4");
    Rig last(behind);
    EXPECT_EQ(last.start_and_serve().steps.size(), 3u);
    EXPECT_EQ(last.model().weight_digest(), digest);
  }
  plain.set_string("checkpoint.resume", steps + "2");
  const Error e = expect_error(Code::kNotFound, [&] { Rig not_resumed(plain); });
  EXPECT_EQ(e.key, "pipeline.replay_path");
}

TEST(ScheduleReplay, ARecordThatEndsBeforeTheCheckpointIsNotGoneOnIn) {
  const TempDir dir;
  OptionSet o = options_with(dir, kAsync + Texts{"checkpoint.every_steps=2"});
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_string("checkpoint.resume", "auto");
  const std::string path = dir.file("schedule");
  record(recording(o, path));
  {
    ScheduleReader whole(real_fs(), path);
    ScheduleWriter begun(real_fs(), dir.file("begun"), whole.info());
    begun.append(whole.take());
    begun.sync();
  }
  std::filesystem::rename(dir.file("begun"), path);
  const Error e = expect_error(Code::kDataLoss, [&] { Rig rig(recording(o, path)); });
  EXPECT_EQ(e.key, "pipeline.record_path");
  EXPECT_NE(e.message.find("ends with step 0, so a run that resumes at step 6"), std::string::npos)
      << e.message;
}

TEST(ScheduleReplay, HasChangedOptionsAndTheStop) {
  const TempDir dir;
  const OptionSet o = options_with(dir, kAsync + Texts{"pipeline.total_steps=50"});
  const std::string path = dir.file("schedule");
  const Outcome run = record(recording(o, path), [&](Rig& rig) {
    rig.on_step = [&](Pipeline& p, const StepEvent& e) {
      if (e.step == 2) {
        OptionSet next = recording(o, path);
        next.set_f64("optimizer.lr", 1e-2);
        next.set_i64("pipeline.max_staleness", 1);
        p.set_options(next);
      }
      if (e.step == 5) p.stop(0);
    };
  });
  const std::vector<ScheduledEvent> events = events_of(path);
  EXPECT_TRUE(has(events, ScheduledKind::kOptions));
  EXPECT_TRUE(has(events, ScheduledKind::kStop));
  EXPECT_EQ(events.back().kind, ScheduledKind::kEnd);
  expect_same(run, replay(replaying(o, path, 2)));
}

TEST(ScheduleReplay, HasEvaluationsAndTheirScores) {
  const TempDir dir;
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(3));
  OptionSet o = options_with(dir, kAsync + Texts{"eval.every_steps=2"});
  o.set_string("eval.path", dir.file("eval.jsonl"));
  const std::string path = dir.file("schedule");
  std::vector<double> rewards[2];
  for (const bool again : {false, true}) {
    Rig rig(again ? replaying(o, path) : recording(o, path));
    std::optional<LateScorer> scorer;
    if (!again) scorer.emplace(rig);
    rig.on_step = [](Pipeline& p, const StepEvent& e) {
      if (e.step == 1) p.request_eval();
    };
    const RunLog log = rig.start_and_serve();
    for (const auto& e : log.evals) rewards[again].push_back(e->mean_reward);
  }
  // A request that comes late is one with the scheduled evaluation of that step.
  EXPECT_GE(rewards[0].size(), 3u);
  EXPECT_TRUE(has(events_of(path), ScheduledKind::kRequest));
  EXPECT_EQ(rewards[0], rewards[1]);
}

TEST(ScheduleReplay, TheHostHasNoPartInIt) {
  const TempDir dir;
  const OptionSet o = options_with(dir, kAsync);
  const std::string path = dir.file("schedule");
  record(recording(o, path));
  const Error twice = expect_error(Code::kAlreadyExists, [&] { Rig rig(recording(o, path)); });
  EXPECT_EQ(twice.key, "pipeline.record_path");
  Rig rig(replaying(o, path));
  const auto refused = [&](const std::function<void()>& call) {
    EXPECT_EQ(expect_error(Code::kFailedPrecondition, call).key, "pipeline.replay_path");
  };
  refused([&] { rig.pipeline().score(Score{.sample_id = 1, .reward = 1}); });
  refused([&] { rig.pipeline().fail(1, "no"); });
  refused([&] { rig.pipeline().set_options(replaying(o, path)); });
  OptionSet other = replaying(o, path);
  other.set_i64("pipeline.queue_size", 2);
  const Error e = expect_error(Code::kIncompatible, [&] { Rig run(other); });
  EXPECT_EQ(e.key, "pipeline.queue_size");
  EXPECT_EQ(e.expected, "1");
}

// Nobody waits for a reward model, so no time decides anything, and its scores are no inputs.
TEST(ScheduleReplay, ARunWithARewardModelNeedsNone) {
  const TempDir dir;
  OptionSet o = options_with(dir, kAsync);
  o.set_string("model.reward_path", testing::scored_model(dir));
  const std::string path = dir.file("schedule");
  std::vector<Outcome> runs;
  for (const char* threads : {"1", "2", "4"}) {
    OptionSet one = std::string(threads) == "1" ? recording(o, path) : o;
    one.set_text("runtime.threads", threads);
    Rig rig(one);
    const RunLog log = rig.start_and_serve();
    EXPECT_TRUE(log.samples.empty()) << "the host is asked for scores";
    EXPECT_GT(log.series("pipeline/staleness/max").back(), 0);
    EXPECT_EQ(rig.pipeline().status().ledger.attempts_in_flight, 0);
    EXPECT_EQ(rig.pipeline().status().ledger.prompts_trained, 6 * 4);
    runs.push_back(outcome_of(rig, log));
  }
  for (const Outcome& run : runs) expect_same(runs[0], run);
  EXPECT_FALSE(has(events_of(path), ScheduledKind::kScore));
  expect_same(runs[0], replay(replaying(o, path, 2)));
}

TEST(ScheduleReplay, AnEarlyStopOfTheHostEndsIt) {
  const TempDir dir;
  const OptionSet o = options_with(dir, kAsync);
  const std::string path = dir.file("schedule");
  record(recording(o, path));
  Rig rig(replaying(o, path));
  rig.on_step = [](Pipeline& p, const StepEvent& e) {
    if (e.step == 2) p.stop(0);
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_GE(log.steps.size(), 2u);
  EXPECT_LE(log.steps.size(), 4u);
}

}  // namespace
}  // namespace rl
