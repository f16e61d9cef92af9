// The files of a run and its report: what a pipeline writes beside the metrics, what a resume makes
// of it, and the page made from all of it.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "late_scorer.h"
#include "pipeline/loop/run_records.h"
#include "pipeline/run_rig.h"
#include "profile/metrics_writer.h"
#include "profile/trace_recorder.h"
#include "report/report_numbers.h"
#include "report/report_series.h"
#include "support/expect_error.h"
#include "support/xml_check.h"

namespace rl::testing {
namespace {

std::string text_of(const std::string& path) { return read_text_file(real_fs(), path, 1 << 24); }

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::vector<nlohmann::json> out;
  ReadNotes notes;
  for_each_line(real_fs(), path, notes,
                [&](size_t, std::string_view text) { out.push_back(nlohmann::json::parse(text)); });
  EXPECT_TRUE(notes.sentences().empty());
  return out;
}

constexpr size_t kPromptIds = 3;      // of a row of id_rows
constexpr int64_t kMaxNewTokens = 6;  // not as many as the prompt has

OptionSet recorded(const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  o.set_i64("sampling.max_new_tokens", kMaxNewTokens);
  write_lines(dir.file("eval.jsonl"), id_rows(6));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_i64("eval.every_steps", 1);
  o.set_string("metrics.jsonl", dir.file("metrics.jsonl"));
  o.set_string("metrics.eval_jsonl", dir.file("evals.jsonl"));
  o.set_string("metrics.samples", dir.file("samples.jsonl"));
  o.set_i64("metrics.max_samples", 4);
  o.set_bool("metrics.tensorboard", true);
  return o;
}

std::vector<std::string> event_files(const TempDir& dir) {
  std::vector<std::string> files;
  for (const std::string& name : real_fs().list(dir.path())) {
    if (name.starts_with("events.out.tfevents.")) files.push_back(dir.file(name));
  }
  return files;
}

TEST(RunRecords, AnEvaluationIsALineAndItsFirstResponsesAreKept) {
  const TempDir dir;
  Rig rig(recorded(dir));
  const RunLog log = rig.start_and_serve();
  const auto evals = lines_of(dir.file("evals.jsonl"));
  ASSERT_EQ(evals.size(), log.evals.size());
  for (size_t i = 0; i < evals.size(); ++i) {
    EXPECT_EQ(evals[i][kStepMetric], log.evals[i]->step);
    EXPECT_EQ(evals[i]["eval/rewards/mean"], log.evals[i]->mean_reward);
  }
  size_t evaluated = 0, best = 0, worst = 0;
  for (const auto& line : lines_of(dir.file("samples.jsonl"))) {
    const auto kept = parse_kept_response(line.dump());
    ASSERT_TRUE(kept.has_value()) << line;
    evaluated += kept->kind == ResponseKind::kEval;
    best += kept->kind == ResponseKind::kBest;
    worst += kept->kind == ResponseKind::kWorst;
    EXPECT_TRUE(kept->kind != ResponseKind::kEval || kept->data_row < 4);
    // Without a tokenizer ids stand for text.
    EXPECT_EQ(nlohmann::json::parse(kept->prompt).size(), kPromptIds);
    EXPECT_EQ(nlohmann::json::parse(kept->response).size(), static_cast<size_t>(kept->num_tokens));
    EXPECT_EQ(kept->num_tokens, kMaxNewTokens);
    EXPECT_EQ(kept->finish, "length");
  }
  EXPECT_EQ(evaluated, 4 * evals.size());
  EXPECT_EQ(best, 3u);
  EXPECT_EQ(worst, 3u);
  ASSERT_EQ(event_files(dir).size(), 1u);
  for (const char* name : {"actor/loss", "eval/rewards/mean"}) {
    EXPECT_TRUE(contains(text_of(event_files(dir)[0]), name)) << name;
  }
}

TEST(RunRecords, TheBestAndTheWorstAreThoseOfTheStep) {
  const TempDir dir;
  Rig rig(recorded(dir));
  const RunLog log = rig.start_and_serve();
  for (const auto& line : lines_of(dir.file("samples.jsonl"))) {
    if (line["kind"] == "eval") continue;
    const MetricList& step = log.steps.at(line[kStepMetric].get<size_t>() - 1);
    const char* const metric = line["kind"] == "best" ? "critic/rewards/max" : "critic/rewards/min";
    EXPECT_EQ(line["reward"].get<double>(), step.get(metric).value());
  }
}

TEST(RunRecords, NothingIsWrittenThatNoOptionNames) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("metrics.jsonl", dir.file("metrics.jsonl"));
  Rig(o).start_and_serve();
  EXPECT_EQ(real_fs().list(dir.path()), (std::vector<std::string>{"data.jsonl", "metrics.jsonl"}));
}

TEST(RunRecords, RecordingChangesNoSample) {
  const TempDir plain, full;
  OptionSet o = recorded(full), p = tiny_options(plain);
  p.set_string("eval.path", full.file("eval.jsonl"));
  p.set_i64("sampling.max_new_tokens", kMaxNewTokens);
  p.set_i64("eval.every_steps", 1);
  p.set_string("data.path", full.file("data.jsonl"));
  EXPECT_EQ(Rig(o).start_and_serve().fingerprint(), Rig(p).start_and_serve().fingerprint());
}

TEST(RunRecords, AResumedRunHasTheLinesOfAnUninterruptedOne) {
  const TempDir cut, whole;
  OptionSet o = recorded(cut);
  o.set_string("checkpoint.dir", cut.file("checkpoints"));
  o.set_i64("checkpoint.every_steps", 2);
  o.set_i64("pipeline.total_steps", 3);
  Rig(o).start_and_serve();  // one step beyond its checkpoint
  o.set_string("checkpoint.resume", "auto");
  o.set_i64("pipeline.total_steps", 4);
  Rig(o).start_and_serve();
  OptionSet w = recorded(whole);
  w.set_i64("pipeline.total_steps", 4);
  Rig(w).start_and_serve();
  EXPECT_EQ(text_of(cut.file("samples.jsonl")), text_of(whole.file("samples.jsonl")));
  const auto steps = [](const TempDir& dir) {
    std::vector<int> out;
    for (const auto& line : lines_of(dir.file("evals.jsonl"))) out.push_back(line[kStepMetric]);
    return out;
  };
  EXPECT_EQ(steps(cut), steps(whole));
  EXPECT_EQ(event_files(cut).size(), 2u) << "a resume has an event file of its own";
}

TEST(RunRecords, TwoFilesOfOneNameAreRefused) {
  const TempDir dir;
  const char* const keys[] = {"metrics.jsonl", "metrics.eval_jsonl", "metrics.samples"};
  for (const auto& [first, second] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)}) {
    OptionSet o = recorded(dir);
    o.set_string(keys[second], o.get_string(keys[first]));
    const Error e = expect_error(Code::kConflict, [&] { Rig rig(o); });
    EXPECT_TRUE(contains(e.message, str(keys[first], " and ", keys[second], " are the same file")));
  }
}

TEST(RunRecords, AFileWithoutItsReaderIsRefused) {
  const TempDir dir;
  for (const char* text :
       {"metrics.eval_jsonl=x", "metrics.max_samples=3", "metrics.tensorboard=true"}) {
    OptionSet o = tiny_options(dir);
    o.set_assignment(text);
    EXPECT_FALSE(o.validate_all().empty()) << text;
  }
}

class RunReport : public ::testing::Test {
 protected:
  // The report of a run, checked as far as every report has to be.
  std::string write(Rig& rig, const TraceRecorder* trace = nullptr) {
    rig.pipeline().write_report(dir_.file("report.html"), trace, {{"librl", "1.2.3"}});
    const std::string text = text_of(dir_.file("report.html"));
    const XmlPage page(text);
    EXPECT_EQ(page.problem(), "");
    EXPECT_FALSE(contains(text, dir_.path()));
    shown_ = page.shown();
    plots_ = 0;
    for (const XmlElement& e : page.elements()) {
      plots_ += e.name == "svg" && e.attributes.contains("role");
    }
    return text;
  }
  const TempDir dir_;
  std::string shown_;
  size_t plots_ = 0;
};

TEST_F(RunReport, HoldsEverythingOfAWholeRun) {
  OptionSet o = recorded(dir_);
  o.set_bool("profiler.timeline.enable", true);
  o.set_string("profiler.timeline.dir", dir_.path());
  Rig rig(o);
  rig.start_and_serve();
  write(rig);
  EXPECT_EQ(plots_, 14u);
  for (const char* part :
       {"3 steps are recorded", "Changed responses", "Best responses in training",
        "phase workspace", "engine.decode", "in detail", "1.2.3", "optimizer.lr", "metrics.samples",
        "Weights, digest"}) {
    EXPECT_TRUE(contains(shown_, part));
  }
  EXPECT_TRUE(contains(shown_, hex64(rig.model().weight_digest())));
  EXPECT_FALSE(contains(shown_, "Not in this report"));
}

TEST_F(RunReport, ShowsHowFarRolloutIsAheadAndWhatIsDropped) {
  OptionSet o = recorded(dir_);
  for (const char* text : {"pipeline.mode=async", "model.compute_copies=2",
                           "pipeline.partial_rollout=true", "pipeline.max_off_policy_steps=0",
                           "pipeline.total_steps=5", "trainer.max_tokens_per_device=48",
                           "sampling.max_new_tokens=24", "profiler.timeline.enable=true"}) {
    o.set_assignment(text);
  }
  o.set_string("profiler.timeline.dir", dir_.path());
  Rig rig(o);
  rig.on_score = score_unless_late;
  rig.start_and_serve();
  ASSERT_GT(rig.pipeline().status().ledger.dropped(), 0);
  write(rig);
  for (const char* part : {"Rollout ahead of training", "Age of samples", "Groups under way",
                           "trainer for a batch", "Groups dropped", "cancelled"}) {
    EXPECT_TRUE(contains(shown_, part)) << part;
  }
  std::map<std::string, int> count;
  const auto trace = nlohmann::json::parse(text_of(dir_.file("trace.json")));
  for (const auto& e : trace.at("traceEvents")) {
    ++count[str(e.at("ph").get<std::string>(), " ", e.at("name").get<std::string>())];
  }
  EXPECT_EQ(count["X pipeline.wait_for_batch"], 5);
  EXPECT_EQ(count["X pipeline.wait_for_rollout"], 5);
  for (const char* name : {"C pipeline.groups_in_flight", "C pipeline.groups_queued",
                           "C pipeline.dropped.cancelled"}) {
    EXPECT_GT(count[name], 0) << name;
  }
}

TEST_F(RunReport, OfARunThatDoesNotGenerateAheadHasNoSuchPart) {
  Rig rig(recorded(dir_));
  rig.start_and_serve();
  write(rig);
  EXPECT_FALSE(contains(shown_, "Rollout ahead of training"));
}

TEST_F(RunReport, SaysThatWeightsInTrainingHaveNoDigest) {
  Rig rig(tiny_options(dir_));
  const LoadedModel::WriteLease training(rig.model(), 0);
  write(rig);
  EXPECT_TRUE(contains(shown_, "not computed: the weights are being trained"));
}

TEST_F(RunReport, ListsTheOptionsOfTheRunAndNotThoseOfTheModel) {
  OptionSet o = tiny_options(dir_);
  const Rig rig(o);
  o.set_text("optimizer.weight_decay", "0.0625");
  Pipeline run(rig.shared_model(), o);
  run.write_report(dir_.file("report.html"), nullptr, {});
  const std::string shown = XmlPage(text_of(dir_.file("report.html"))).shown();
  EXPECT_TRUE(contains(shown, "optimizer.weight_decay"));
  EXPECT_TRUE(contains(shown, "0.0625"));
}

// A reference model has arenas of the same names as the policy.
TEST_F(RunReport, HoldsAllArenasOfOneNameTogether) {
  OptionSet o = tiny_options(dir_);
  o.set_text("algo.kl.where", "loss");
  Rig rig(o);
  write(rig);
  const std::string name = "packed weights, forward";
  uint64_t planned = 0;
  int count = 0;
  for (const PlanEntry& e : rig.pipeline().plan().arenas) {
    if (e.name != name) continue;
    planned += e.bytes;
    ++count;
  }
  EXPECT_EQ(count, 2);
  EXPECT_TRUE(contains(shown_, format_bytes(planned) + " as planned")) << format_bytes(planned);
}

TEST_F(RunReport, NamesWhatTheRunDidNotRecord) {
  Rig rig(tiny_options(dir_));
  write(rig);
  EXPECT_TRUE(contains(shown_, "No step has been recorded."));
  rig.start_and_serve();
  write(rig);
  for (const char* part : {"set metrics.jsonl", "set eval.path and metrics.eval_jsonl",
                           "set metrics.samples", "set profiler.timeline.enable"}) {
    EXPECT_TRUE(contains(shown_, part));
  }
}

TEST_F(RunReport, TakesTheTraceOfAProfilerOfTheHost) {
  Rig rig(recorded(dir_));
  TraceRecorder recorder;
  recorder.span({"host.work", 9, 0, 10, nullptr, 0});
  write(rig, &recorder);
  EXPECT_TRUE(contains(shown_, "host.work"));
}

TEST_F(RunReport, MayBeWrittenWhileTheRunGoesOn) {
  OptionSet o = recorded(dir_);
  o.set_bool("profiler.timeline.enable", true);
  o.set_string("profiler.timeline.dir", dir_.path());
  Rig rig(o);
  rig.on_step = [&](Pipeline&, const StepEvent& e) {
    write(rig);
    EXPECT_TRUE(contains(shown_, str("up to step ", e.step)) ||
                contains(shown_, str("up to step ", e.step + 1)) ||
                contains(shown_, str("up to step ", e.step + 2)));
  };
  rig.start_and_serve();
}

TEST_F(RunReport, ADirectoryThatIsMissingIsAnError) {
  Rig rig(tiny_options(dir_));
  expect_error(Code::kNotFound,
               [&] { rig.pipeline().write_report(dir_.file("none/report.html"), nullptr, {}); });
}

}  // namespace
}  // namespace rl::testing
