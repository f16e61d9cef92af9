// What a run leaves for its next one and for people: checkpoints that are named, records that are
// checked, a report and a trace that tell the numbers of the run.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::id_rows;
using testing::low_id_reward;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;
using testing::write_lines;

// Checkpoints after every step, and an evaluation.
OptionSet saving_options(const TempDir& dir) {
  OptionSet o = tiny_options(dir);
  for (const char* text :
       {"checkpoint.every_steps=1", "pipeline.total_steps=2", "runtime.log_level=info"}) {
    o.set_assignment(text);
  }
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  write_lines(dir.file("eval.jsonl"), id_rows(3));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_text("eval.every_steps", "1");
  return o;
}

TEST(RunTraces, CheckpointsOfAnEarlierRunAreNamed) {
  const TempDir dir;
  OptionSet o = saving_options(dir);
  {
    Rig rig(o);
    const RunLog log = rig.start_and_serve();
    ASSERT_EQ(log.checkpoints.size(), 2u);
    for (uint64_t i = 0; i < 2; ++i) {
      EXPECT_EQ(log.checkpoints[i]->step, i + 1);
      EXPECT_EQ(log.checkpoints[i]->path, dir.file(str("checkpoints/step_00000", i + 1)));
    }
  }
  const std::string last = dir.file("checkpoints/step_000002");
  const Error e = expect_error(Code::kAlreadyExists, [&] { Rig rig(o); });
  EXPECT_EQ(e.key, "checkpoint.dir");
  EXPECT_EQ(e.location, last);
  EXPECT_TRUE(e.message.starts_with(str("checkpoint.dir contains ", last, " of an earlier run")));
  // Other data, as many rows of it: another run.
  o.set_text("checkpoint.resume", "auto");
  std::vector<std::string> rows = id_rows(10);
  std::swap(rows[0], rows[9]);
  write_lines(dir.file("data.jsonl"), rows);
  expect_error(Code::kIncompatible, [&] { Rig rig(o); });
  write_lines(dir.file("data.jsonl"), id_rows(10));
  EXPECT_EQ(Rig(o).pipeline().resumed_from(), last);
}

TEST(RunTraces, AResumeChecksEveryFileOfRecords) {
  const TempDir dir;
  OptionSet o = saving_options(dir);
  { Rig(o).start_and_serve(); }
  o.set_text("checkpoint.resume", "auto");
  write_lines(dir.file("broken.jsonl"), {"no json"});
  for (const char* key : {"metrics.jsonl", "metrics.eval_jsonl", "metrics.samples"}) {
    OptionSet broken = o;
    broken.set_string(key, dir.file("broken.jsonl"));
    const Error e = expect_error(Code::kDataLoss, [&] { Rig rig(broken); });
    EXPECT_TRUE(e.location.starts_with(dir.file("broken.jsonl"))) << key << ": " << e.location;
  }
}

class LogLines final : public LogSink {
 public:
  void write(const LogRecord& record) override { lines.emplace_back(record.message); }
  std::vector<std::string> lines;
};

TEST(RunTraces, AResumeIsLoggedAndReported) {
  const TempDir dir;
  OptionSet o = saving_options(dir);
  o.set_i64("runtime.threads", 2);
  Rig rig(o);
  rig.start_and_serve();
  const auto log = std::make_shared<LogLines>();
  rig.runtime().logger().set_sink(log);
  o.set_text("checkpoint.resume", "auto");
  const Pipeline again(rig.shared_model(), o);
  const std::string last = dir.file("checkpoints/step_000002");
  EXPECT_EQ(std::ranges::count(log->lines, str("resumed from ", last, " at step 2")), 1);
  EXPECT_EQ(again.status().step, 2u);
  again.write_report(dir.file("report.html"), nullptr, {{"Host", "mine"}});
  const std::string page = read_text_file(real_fs(), dir.file("report.html"), 1 << 24);
  const MemoryPlan& plan = again.plan();
  const std::pair<const char*, std::string> rows[] = {
      {"Model", "llama"},
      {"Weights, version", str(rig.model().version())},
      {"State", "idle"},
      {"Seed", "7"},
      {"Compute dtype", "fp32"},
      {"Threads", str(plan.threads)},
      {"Longest sequence", str(plan.max_model_len, " tokens")},
      {"Micro-batch", str(plan.max_tokens, " tokens")},
      {"KV blocks", str(plan.engine.num_blocks)},
      {"Engines", str(plan.num_engines)},
      {"Resumed from", "step_000002"},
      {"Host", "mine"},
      {"data.path", "data.jsonl"},
      {"model.path", "llama"},
      {"pipeline.total_steps", "2"},
  };
  size_t at = 0;
  for (const auto& [name, value] : rows) {
    const std::string row = str("<th scope=\"row\">", name, "</th><td>", value, "</td>");
    EXPECT_NE(page.find(row), std::string::npos) << row;
    if (std::string_view(name) == "Host") {
      EXPECT_GT(page.find(row), at) << "behind the pipeline's own";
    }
    if (std::string_view(name) == "Engines") at = page.find(row);
  }
  EXPECT_FALSE(contains(page, "<th scope=\"row\">optimizer.beta1</th>")) << "a default";
}

TEST(RunTraces, SpansOfATraceTellTheirNumbers) {
  const TempDir dir;
  OptionSet o = saving_options(dir);
  o.set_text("profiler.timeline.enable", "true");
  o.set_string("profiler.timeline.dir", dir.file("trace"));
  Rig rig(o);
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    if (s->purpose == Purpose::kEval && s->data_row == 1) return p.fail(s->id, "broken");
    p.score(s->id, low_id_reward(*s));
  };
  const RunLog log = rig.start_and_serve();
  std::map<std::string, std::vector<int>> numbers;
  std::vector<double> waits_us;
  const auto trace =
      nlohmann::json::parse(read_text_file(real_fs(), dir.file("trace/trace.json"), 1 << 24));
  for (const auto& e : trace.at("traceEvents")) {
    if (e.at("name") == "reward.wait") waits_us.push_back(e.at("dur").get<double>());
    for (const auto& [name, arg] :
         {std::pair("pipeline.step", "step"), {"pipeline.eval", "prompts"}}) {
      if (e.at("name") == name) numbers[name].push_back(e.at("args").at(arg).get<int>());
    }
  }
  EXPECT_EQ(numbers["pipeline.step"], (std::vector<int>{1, 2}));
  EXPECT_EQ(numbers["pipeline.eval"], (std::vector<int>{3, 3})) << "with the one that failed";
  const std::vector<double> seconds = log.series("timing_s/reward");
  ASSERT_EQ(waits_us.size(), seconds.size());
  // The span ends with the filters, which the metric does not count.
  for (size_t i = 0; i < seconds.size(); ++i) {
    EXPECT_GE(waits_us[i], 1e6 * seconds[i] - 0.01);
    EXPECT_LE(waits_us[i], 1e6 * seconds[i] + 1e6);
  }
}

// The first step needs two blocks a sample, the second one.
TEST(RunTraces, ThePeakOfBlocksIsThatOfTheStep) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_text("data.shuffle", "false");
  o.set_text("pipeline.total_steps", "2");
  std::vector<std::string> rows;
  for (int i = 0; i < 8; ++i) {
    std::string ids = str(30 + i);
    for (int k = 1; i < 4 && k < 20; ++k) ids += str(", ", 40 + k);
    rows.push_back("{\"ids\": [" + ids + "]}");
  }
  write_lines(dir.file("data.jsonl"), rows);
  const std::vector<double> peaks = Rig(o).start_and_serve().series("perf/engine/kv_use_peak");
  ASSERT_EQ(peaks.size(), 2u);
  EXPECT_GT(peaks[1], 0);
  EXPECT_LT(peaks[1], peaks[0]);
}

}  // namespace
}  // namespace rl
