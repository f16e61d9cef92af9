// What a host learns of a run beside its metrics: whose group was dropped, in event views of either
// size, and whether the files of the run were closed.
#include <cstddef>
#include <cstring>
#include <fstream>
#include <vector>

#include "abi/host.h"
#include "support/temp_dir.h"

namespace abi_test {
namespace {

// A pipeline of its own on the host's model, with files in a directory of the test.
struct FileRun {
  FileRun() {
    rl_pipeline_destroy(host.pipeline);
    host.pipeline = nullptr;
  }
  void create() {
    EXPECT_RL_OK(rl_pipeline_create(host.model, host.options, &host.pipeline, &err));
  }
  void feed(int rows) {
    const int32_t ids[] = {1, 2};
    for (int i = 0; i < rows; ++i) {
      EXPECT_RL_OK(abi_test::feed(host.pipeline, ids, 2, &err));
    }
    EXPECT_RL_OK(rl_pipeline_finish_feed(host.pipeline, &err));
  }
  // Starts and answers until the end; the last status.
  rl_status serve() {
    EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
    rl_event* event = nullptr;
    rl_status status;
    while ((status = rl_pipeline_next(host.pipeline, 10'000'000'000, &event, nullptr)) == RL_OK) {
      answer(event);
      rl_event_release(event);
    }
    return status;
  }
  // Rewards the first training group and fails all others.
  void answer(const rl_event* event) {
    rl_event_view view;
    rl_event_view_init(&view, sizeof view);
    EXPECT_RL_OK(rl_event_get_view(event, &view, &err));
    if (view.kind == RL_EVENT_GROUP_DROPPED) dropped.push_back(view);
    if (view.kind != RL_EVENT_SCORE) return;
    rl_sample_view sample;
    rl_sample_view_init(&sample, sizeof sample);
    EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
    EXPECT_EQ(view.purpose, sample.purpose);
    if (sample.purpose == RL_PURPOSE_TRAIN && sample.ordinal == 0) {
      EXPECT_RL_OK(score(host.pipeline, sample.sample_id, sample.slot, &err));
    } else {
      // The group may be gone by the failure of another sample of it.
      rl_score none = score_of(sample.sample_id, 0);
      none.failure = "no judge";
      none.failure_len = RL_NUL_TERMINATED;
      rl_pipeline_score(host.pipeline, &none, 1, nullptr, nullptr);
    }
  }

  Host host;
  const rl::TempDir dir;
  std::vector<rl_event_view> dropped;
};

TEST(Outcome, DroppedGroupsNameTheirPurpose) {
  FileRun run;
  std::ofstream(run.dir.file("eval.jsonl")) << "{\"ids\": [1, 2]}\n";
  set(run.host.options, "eval.path", run.dir.file("eval.jsonl"));
  run.create();
  EXPECT_RL_OK(rl_pipeline_evaluate(run.host.pipeline, &err));
  run.feed(2);
  EXPECT_EQ(run.serve(), RL_DONE);
  ASSERT_EQ(run.dropped.size(), 2u);
  std::map<int32_t, uint64_t> ordinals;
  for (const rl_event_view& view : run.dropped) {
    ordinals[view.purpose] = view.ordinal;
    EXPECT_EQ(view.reason, RL_DROP_REWARD_ERROR);
  }
  EXPECT_EQ(ordinals, (std::map<int32_t, uint64_t>{{RL_PURPOSE_TRAIN, 1}, {RL_PURPOSE_EVAL, 0}}));
}

TEST(Outcome, AnUnwrittenTraceIsReportedAfterTheRunWhichIsDone) {
  FileRun run;
  set(run.host.options, "profiler.timeline.enable", "true");
  set(run.host.options, "profiler.timeline.dir", run.dir.file("trace"));
  run.create();
  EXPECT_EQ(rl_pipeline_close_result(run.host.pipeline, nullptr), RL_FAILED_PRECONDITION);
  run.feed(1);
  // A directory that is not empty stands in the way of the rename.
  std::filesystem::create_directories(run.dir.file("trace/trace.json/full"));
  EXPECT_EQ(run.serve(), RL_DONE);
  for (int again = 0; again < 2; ++again) {
    rl_error* err = nullptr;
    EXPECT_EQ(rl_pipeline_close_result(run.host.pipeline, &err), RL_IO);
    EXPECT_NE(text_of(err, RL_ERROR_SUMMARY).find("trace.json"), std::string::npos)
        << text_of(err, RL_ERROR_SUMMARY);
    rl_error_release(err);
  }
}

TEST(Outcome, FilesThatWereWrittenAreAClosedRun) {
  FileRun run;
  set(run.host.options, "profiler.timeline.enable", "true");
  set(run.host.options, "profiler.timeline.dir", run.dir.file("trace"));
  set(run.host.options, "metrics.jsonl", run.dir.file("metrics.jsonl"));
  run.create();
  run.feed(1);
  EXPECT_EQ(run.serve(), RL_DONE);
  EXPECT_RL_OK(rl_pipeline_close_result(run.host.pipeline, &err));
  EXPECT_TRUE(std::filesystem::exists(run.dir.file("trace/trace.json")));
}

}  // namespace
}  // namespace abi_test
