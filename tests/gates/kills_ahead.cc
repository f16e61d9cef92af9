// A run that generates ahead of its training (pipeline.mode async) is killed (SIGKILL) at random
// moments and started again, until it has ended. Its books close after each step; the recorded
// batches of its steps have every sample of the first prompts once, as many as the steps need, so
// nothing was lost or trained on twice; and a replay of its schedule, with all its resumptions,
// ends with its weights.
//
// usage: gate_kills_ahead MODEL DIRECTORY [KILLS]
//        gate_kills_ahead MODEL DIRECTORY run|replay SEED
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gates/child.h"
#include "gates/linked_api.h"
#include "gates/scenario_host.h"

namespace {

constexpr int kKills = 10, kLongKills = 100;
constexpr int kSteps = 10, kPrompts = 2, kSamples = 2;
constexpr uint32_t kSeed = 11;

using gates::Api;
using gates::Child;
using gates::Failure;
using gates::Handle;
using gates::Host;
using gates::seconds;

// The part of a child.
class Run {
 public:
  Run(const Api& rl, gates::Place place, uint32_t seed)
      : rl_(rl), place_(std::move(place)), host_(rl), random_(seed) {
    gates::grpo_options(rl, host_, place_);
    host_.set("eval.every_steps", "3");
    host_.set("pipeline.total_steps", std::to_string(kSteps));
    host_.set("pipeline.prompts_per_step", std::to_string(kPrompts));
    host_.set("pipeline.samples_per_prompt", std::to_string(kSamples));
    host_.set("pipeline.mode", "async");
    host_.set("model.compute_copies", "2");
    host_.set("pipeline.max_staleness", "2");
    host_.set("pipeline.queue_size", "1");
    host_.set("pipeline.partial_rollout", "true");
    host_.set("checkpoint.keep_last", "2");
  }

  uint64_t record() {
    host_.set("pipeline.record_path", place_.dir + "/schedule");
    host_.set("buffer.record_dir", place_.dir + "/batches");
    const uint64_t digest = weights();
    check_batches();
    return digest;
  }
  // In a directory of its own, beside that of the run.
  uint64_t replay(const std::string& recorded) {
    host_.set("data.path", recorded + "/train.jsonl");
    host_.set("eval.path", recorded + "/eval.jsonl");
    host_.set("pipeline.replay_path", recorded + "/schedule");
    return weights();
  }

 private:
  template <typename... Parameters, typename... Arguments>
  rl_status call(const char* name, rl_status (*fn)(Parameters...),
                 const Arguments&... arguments) const {
    return host_.call(name, fn, arguments...);
  }

  uint64_t weights() {
    Handle<rl_runtime> runtime(rl_.rl_runtime_destroy);
    Handle<rl_model> model(rl_.rl_model_destroy);
    Handle<rl_pipeline> pipeline(rl_.rl_pipeline_destroy);
    call("create", rl_.rl_runtime_create, RL_ABI_VERSION, host_.options, runtime.out());
    call("open", rl_.rl_model_open, runtime, host_.options, RL_USE_PIPELINE, model.out());
    call("pipeline", rl_.rl_pipeline_create, model, host_.options, pipeline.out());
    call("start", rl_.rl_pipeline_start, pipeline);
    while (take_event(pipeline)) {
    }
    call("close", rl_.rl_pipeline_close_result, pipeline);
    uint64_t digest = 0;
    call("digest", rl_.rl_model_digest, model, &digest);
    return digest;
  }

  // Scores come in any order: one that is due waits by chance for some that follow, or for a
  // millisecond in which nothing happens.
  bool take_event(rl_pipeline* pipeline) {
    Handle<rl_event> event(rl_.rl_event_release);
    const int64_t wait_ns = waiting_.empty() ? -1 : 1'000'000;
    const rl_status status = call("next", rl_.rl_pipeline_next, pipeline, wait_ns, event.out());
    if (status == RL_DONE) return false;
    if (status == RL_TIMEOUT) {
      score_all(pipeline);
      return true;
    }
    const int32_t kind = rl_.rl_event_kind(event);
    if (kind == RL_EVENT_STEP) check_books(event);
    if (kind != RL_EVENT_SCORE) return true;
    rl_sample_view sample;
    rl_.rl_sample_view_init(&sample, sizeof sample);
    call("sample", rl_.rl_event_sample, event, size_t{0}, &sample);
    waiting_.push_back(gates::score_of(rl_, sample.sample_id, double(sample.slot)));
    if (random_() % 2 == 0) score_all(pipeline);
    return true;
  }

  void score_all(rl_pipeline* pipeline) {
    while (!waiting_.empty()) {
      std::swap(waiting_[random_() % waiting_.size()], waiting_.back());
      const rl_score score = waiting_.back();
      waiting_.pop_back();
      try {
        call("score", rl_.rl_pipeline_score, pipeline, &score, size_t{1},
             static_cast<rl_status*>(nullptr));
      } catch (const Failure& failure) {
        // Of a run that has ended meanwhile.
        if (failure.status != RL_LATE && failure.status != RL_FAILED_PRECONDITION) throw;
      }
    }
  }

  double metric(const rl_event* event, const char* name) const {
    double value = 0;
    call(name, rl_.rl_event_metric_named, event, name, size_t{RL_NUL_TERMINATED}, &value);
    return value;
  }

  void check_books(const rl_event* event) const {
    const double drawn = metric(event, "pipeline/prompts_drawn");
    const double ended =
        metric(event, "pipeline/prompts_trained") + metric(event, "pipeline/prompts_dropped");
    const double open =
        metric(event, "pipeline/groups_in_flight") + metric(event, "pipeline/groups_queued");
    if (drawn == ended + open) return;
    throw Failure{RL_INTERNAL, "books",
                  std::to_string(drawn) + " prompts were drawn, " + std::to_string(ended) +
                      " have ended, " + std::to_string(open) + " are open"};
  }

  void check_batches() const {
    std::set<std::pair<uint64_t, uint32_t>> trained;
    for (int step = 1; step <= kSteps; ++step) {
      const size_t before = trained.size();
      take_batch(step, trained);
      if (trained.size() - before == size_t{kPrompts * kSamples}) continue;
      throw Failure{RL_INTERNAL, "batches",
                    "step " + std::to_string(step) + " has " +
                        std::to_string(trained.size() - before) +
                        " samples of the first prompts that no step before has"};
    }
  }

  // What is in the batch but not in `trained` is added to it.
  void take_batch(int step, std::set<std::pair<uint64_t, uint32_t>>& trained) const {
    char name[32];
    std::snprintf(name, sizeof name, "/batches/step_%06d.rlbuf", step);
    const std::string path = place_.dir + name;
    Handle<rl_buffer> buffer(rl_.rl_buffer_destroy);
    Handle<rl_batch> batch(rl_.rl_batch_release);
    uint64_t count = 0;
    call("buffer", rl_.rl_buffer_create, host_.options, uint64_t{64}, buffer.out());
    call("load", rl_.rl_buffer_load, buffer, path.c_str(), path.size(),
         static_cast<const rl_model*>(nullptr), &count);
    call("take", rl_.rl_buffer_take, buffer, static_cast<const rl_take*>(nullptr), int64_t{0},
         batch.out());
    for (size_t i = 0; i < rl_.rl_batch_count(batch); ++i) {
      rl_sample_view sample;
      rl_.rl_sample_view_init(&sample, sizeof sample);
      call("sample", rl_.rl_batch_sample, batch, i, &sample);
      if (sample.ordinal < uint64_t{kSteps * kPrompts})
        trained.emplace(sample.ordinal, sample.slot);
    }
  }

  const Api& rl_;
  const gates::Place place_;
  Host host_;
  std::mt19937 random_;
  std::vector<rl_score> waiting_;
};

int run(const gates::Place& place, const std::string& what, uint32_t seed) {
  return gates::reported([&] {
    const Api rl = gates::linked_api();
    uint64_t digest = 0;
    if (what == "run") {
      digest = Run(rl, place, seed).record();
    } else {
      const gates::Place beside{place.model, place.dir + ".replay"};
      gates::prepare(beside);
      digest = Run(rl, beside, seed).replay(place.dir);
    }
    std::printf("%016llx\n", static_cast<unsigned long long>(digest));
    return 0;
  });
}

struct Counts {
  int killed = 0, runs = 0, resumed = 0, problems = 0;
};

class Trial {
 public:
  Trial(std::string self, std::string model, std::string dir)
      : self_(std::move(self)), model_(std::move(model)), dir_(std::move(dir)) {}

  // The time of a run that nobody kills; false if it fails.
  bool measure() {
    gates::prepare({"", dir_});
    const double begin = seconds();
    const Child whole = start("run", -1);
    duration_ = seconds() - begin;
    if (!whole.good) std::printf("the run fails: %s", whole.output.c_str());
    return whole.good;
  }

  // A run that is killed so often and then ends.
  void kill_some(int times) {
    gates::prepare({"", dir_});
    for (int i = 0; i < times; ++i) {
      const double after = std::uniform_real_distribution(0.0, duration_)(random_);
      const Child child = start("run", after);
      counts_.killed += child.killed;
      if (!child.killed && !child.good) complain("before the kill: " + child.output);
      if (!child.killed) break;  // it has ended
    }
    const Child last = start("run", -1);
    if (!last.good) return complain(last.output);
    const Child replay = start("replay", -1);
    if (!replay.good || replay.output != last.output) {
      complain("its replay ends with " + replay.output + "and not with " + last.output);
    }
    ++counts_.runs;
  }

  const Counts& counts() const { return counts_; }
  double duration() const { return duration_; }

 private:
  Child start(const char* what, double kill_after) {
    counts_.resumed += std::string(what) == "run" && gates::has_checkpoint(dir_);
    return gates::run_child({self_, model_, dir_, what, std::to_string(random_())}, dir_ + ".out",
                            kill_after);
  }
  void complain(const std::string& text) {
    std::printf("kill %d: %s\n", counts_.killed, text.c_str());
    ++counts_.problems;
  }

  const std::string self_, model_, dir_;
  double duration_ = 0;
  std::mt19937 random_{kSeed};
  Counts counts_;
};

int try_kills(const std::string& self, const std::string& model, const std::string& dir,
              int kills) {
  std::filesystem::create_directories(std::filesystem::path(dir).parent_path());
  Trial trial(self, model, dir);
  if (!trial.measure()) return 1;
  for (int i = 0; trial.counts().killed < kills && i < 2 * kills; ++i) trial.kill_some(1 + i % 4);
  const Counts& counts = trial.counts();
  std::printf("a run takes %.2f s; %d kills in %d runs, %d starts with a checkpoint, %d problems\n",
              trial.duration(), counts.killed, counts.runs, counts.resumed, counts.problems);
  return counts.problems == 0 && counts.killed >= kills && counts.resumed > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (argc > 4) return run({argv[1], argv[2]}, argv[3], uint32_t(std::atoll(argv[4])));
  const int usual = std::getenv("RL_LONG") == nullptr ? kKills : kLongKills;
  return try_kills(argv[0], argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : usual);
}
