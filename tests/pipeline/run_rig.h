// A pipeline on a tiny fixture model and a host that scores its samples. Every wait has a deadline,
// so a hang is a failure and not a stuck test.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/executors.h"
#include "ops/compute.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/loop/pipeline.h"
#include "session_options.h"
#include "support/temp_dir.h"

namespace rl::testing {

inline constexpr int64_t kSecond = 1'000'000'000;

inline std::string fixture_model(const std::string& name) {
  return std::string(RL_FIXTURES) + "/models/" + name;
}

inline void write_lines(const std::string& path, const std::vector<std::string>& lines) {
  std::ofstream out(path, std::ios::binary);
  for (const std::string& line : lines) out << line << '\n';
}

// Rows of token ids; the tag is the row's number.
inline std::vector<std::string> id_rows(int count) {
  std::vector<std::string> rows;
  for (int i = 0; i < count; ++i) {
    rows.push_back(str("{\"ids\": [1, ", 10 + i, ", ", 20 + 3 * i, "], \"tag\": \"", i, "\"}"));
  }
  return rows;
}

// Values of model.dtype that this processor computes in.
inline std::vector<const char*> computable_dtypes() {
  if (cpu_has_bf16_dot()) return {"fp32", "bf16"};
  return {"fp32"};
}

// A run of four groups of four short responses a step.
inline OptionSet tiny_options(const TempDir& dir, const std::string& model = "llama") {
  // Another run of the test that reads it goes on with what it was.
  write_lines(dir.file("data.written"), id_rows(10));
  std::filesystem::rename(dir.file("data.written"), dir.file("data.jsonl"));
  OptionSet o;
  for (const char* text :
       {"runtime.threads=1", "runtime.seed=7", "model.dtype=fp32", "engine.max_model_len=32",
        "engine.max_num_seqs=16", "engine.max_num_batched_tokens=64", "engine.block_size=16",
        "sampling.max_new_tokens=8", "sampling.ignore_eos=true", "pipeline.prompts_per_step=4",
        "pipeline.samples_per_prompt=4", "optimizer.lr=3e-3", "pipeline.total_steps=3"}) {
    o.set_assignment(text);
  }
  o.set_string("model.path", fixture_model(model));
  o.set_string("data.path", dir.file("data.jsonl"));
  return o;
}

// The same with these "key=value".
inline OptionSet options_with(const TempDir& dir, const std::vector<std::string>& assignments) {
  OptionSet o = tiny_options(dir);
  for (const std::string& text : assignments) o.set_assignment(text);
  return o;
}

// Share of generated ids in the lower quarter of the vocabulary.
inline double low_id_reward(const Sample& s) {
  double low = 0;
  for (int64_t i = s.prompt_tokens; i < static_cast<int64_t>(s.ids.size()); ++i) {
    low += s.ids[i] < 64;
  }
  return low / static_cast<double>(s.generated());
}

struct RunLog {
  std::vector<MetricList> steps;
  std::vector<std::shared_ptr<EvalEvent>> evals;
  std::vector<std::shared_ptr<GroupDroppedEvent>> dropped;
  std::vector<std::shared_ptr<CheckpointEvent>> checkpoints;
  std::vector<std::shared_ptr<CheckpointFailedEvent>> failed_checkpoints;
  std::vector<std::shared_ptr<EngineStatsEvent>> intervals;
  std::vector<SamplePtr> samples;
  int64_t num_groups = 0, num_turns = 0;  // events
  Code end = Code::kOk;

  std::vector<double> series(const std::string& name) const {
    std::vector<double> out;
    for (const MetricList& m : steps) out.push_back(m.get(name).value());
    return out;
  }
  // Metrics of all steps but for times, as text.
  std::string fingerprint() const {
    std::string out;
    for (const MetricList& m : steps) out += m.without_times().to_json() + "\n";
    return out;
  }
};

class Rig {
 public:
  // Plain threads, which ThreadSanitizer can follow, unless tbb is asked for.
  explicit Rig(const OptionSet& options, bool tbb = false, FileSystem* fs = nullptr)
      : Rig(options, with(options, tbb, fs)) {}
  Rig(const OptionSet& options, RuntimeSeams seams)
      : Rig(options, std::make_shared<Runtime>(options, std::move(seams))) {}
  Rig(const OptionSet& options, std::shared_ptr<Runtime> runtime)
      : options_(options),
        runtime_(std::move(runtime)),
        model_(LoadedModel::open(runtime_, options, PlanUse::kPipeline)),
        pipeline_(std::make_unique<Pipeline>(model_, options)) {}

  Pipeline& pipeline() { return *pipeline_; }
  LoadedModel& model() { return *model_; }
  Runtime& runtime() { return *runtime_; }
  const std::shared_ptr<LoadedModel>& shared_model() const { return model_; }

  // What the host does with a sample; the default scores it with low_id_reward.
  std::function<void(Pipeline&, const SamplePtr&)> on_score = [](Pipeline& p, const SamplePtr& s) {
    p.score(s->id, low_id_reward(*s));
  };
  // The default answers a sample's first turn with one token and finishes it after the second.
  std::function<void(Pipeline&, const TurnEvent&)> on_turn = [](Pipeline& p, const TurnEvent& e) {
    const std::vector<int32_t> ids = {5};
    Reply reply{.sample_id = e.sample->id, .turn = static_cast<uint64_t>(e.turn)};
    reply.finish = e.turn > 1;
    if (!reply.finish) reply.ids = ids;
    p.reply_many({&reply, 1}, [](size_t, Code) {});
  };
  std::function<void(Pipeline&, const StepEvent&)> on_step = [](Pipeline&, const StepEvent&) {};
  // Sees every event before the others do.
  std::function<void(const Event&)> on_event = [](const Event&) {};

  Code ends_with = Code::kDone;

  // Takes events until the run ends, or the deadline, which fails the test.
  RunLog serve() {
    RunLog log;
    for (;;) {
      EventQueue::Popped got;
      try {
        got = pipeline_->next(60 * kSecond);
      } catch (const Error& e) {
        if (e.code != ends_with) throw;
        got.status = e.code;
      }
      log.end = got.status;
      if (got.status != Code::kOk) break;
      on_event(*got.event);
      take(*got.event, got.event, log);
    }
    EXPECT_EQ(log.end, ends_with) << "state " << pipeline_state_name(pipeline_->status().state);
    return log;
  }
  RunLog start_and_serve() {
    pipeline_->start();
    return serve();
  }

 private:
  static RuntimeSeams with(const OptionSet& options, bool tbb, FileSystem* fs) {
    RuntimeSeams seams;
    seams.fs = fs;
    if (!tbb) seams.executor = make_thread_executor(thread_count_of(options));
    return seams;
  }
  void take(Event& event, const std::shared_ptr<Event>& owner, RunLog& log) {
    switch (static_cast<EventKind>(event.kind())) {
      case EventKind::kScore:
        log.samples.push_back(static_cast<ScoreEvent&>(event).sample);
        on_score(*pipeline_, log.samples.back());
        break;
      case EventKind::kTurn:
        ++log.num_turns;
        on_turn(*pipeline_, static_cast<TurnEvent&>(event));
        break;
      case EventKind::kGroup:
        ++log.num_groups;
        for (const EventSample& s : static_cast<GroupEvent&>(event).samples) {
          log.samples.push_back(s.sample);
          on_score(*pipeline_, s.sample);
        }
        break;
      case EventKind::kStep:
        log.steps.push_back(static_cast<StepEvent&>(event).metrics);
        on_step(*pipeline_, static_cast<StepEvent&>(event));
        break;
      case EventKind::kEval:
        log.evals.push_back(std::static_pointer_cast<EvalEvent>(owner));
        break;
      case EventKind::kCheckpoint:
        log.checkpoints.push_back(std::static_pointer_cast<CheckpointEvent>(owner));
        break;
      case EventKind::kCheckpointFailed:
        log.failed_checkpoints.push_back(std::static_pointer_cast<CheckpointFailedEvent>(owner));
        break;
      case EventKind::kGroupDropped:
        log.dropped.push_back(std::static_pointer_cast<GroupDroppedEvent>(owner));
        break;
      case EventKind::kEngineStats:
        log.intervals.push_back(std::static_pointer_cast<EngineStatsEvent>(owner));
        break;
      case EventKind::kFinished:
      case EventKind::kTokens:
      case EventKind::kEngineFailed:
      case EventKind::kGroups:
      case EventKind::kPublished:
        ADD_FAILURE() << "a pipeline sent the event of a part";
        break;
    }
  }

  OptionSet options_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<LoadedModel> model_;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace rl::testing
