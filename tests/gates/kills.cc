// A short run with checkpoints is killed (SIGKILL) at a random moment, once or twice, and started
// again: it resumes from the newest checkpoint and ends with the weights of a run that nobody
// killed. Moments are spread over the time that the run takes, start-up included; half of the runs
// write their checkpoints on a thread of their own (checkpoint.async).
//
// usage: gate_kills MODEL DIRECTORY [KILLS]
//        gate_kills MODEL DIRECTORY run SYNC_OR_ASYNC
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <utility>

#include "gates/child.h"
#include "gates/linked_api.h"
#include "gates/scenario_host.h"

namespace {

constexpr int kKills = 20, kLongKills = 200;
constexpr uint32_t kSeed = 7;

// The part of a child: writes the digest of its weights to standard output.
int run(const gates::Place& place, const std::string& how) {
  return gates::reported([&] {
    const gates::Api rl = gates::linked_api();
    gates::Host host(rl);
    gates::grpo_options(rl, host, place);
    host.set("pipeline.total_steps", "10");
    host.set("checkpoint.keep_last", "2");
    if (how == "async") host.set("checkpoint.async", "true");
    std::printf("%016llx\n", static_cast<unsigned long long>(gates::run_loop(rl, host, place)));
    return 0;
  });
}

using gates::Child;
using gates::seconds;

// Runs in `dir`; killed after so many seconds, unless it has ended.
Child start(const std::string& self, const std::string& model, const std::string& dir,
            const std::string& how, double kill_after) {
  return gates::run_child({self, model, dir, "run", how}, dir + ".out", kill_after);
}

struct Counts {
  int killed = 0, too_late = 0, with_checkpoint = 0, problems = 0;
};

class Trial {
 public:
  Trial(std::string self, std::string model, std::string dir)
      : self_(std::move(self)), model_(std::move(model)), dir_(std::move(dir)) {}

  // The run that nobody kills; false if it fails.
  bool measure(const std::string& how) {
    gates::prepare({"", dir_});
    const double begin = seconds();
    const Child whole = start(self_, model_, dir_, how, -1);
    duration_ = seconds() - begin;
    if (!whole.good) std::printf("the run fails: %s", whole.output.c_str());
    if (expected_.empty()) expected_ = whole.output;
    if (whole.good && whole.output != expected_) std::printf("%s: other weights\n", how.c_str());
    return whole.good && whole.output == expected_;
  }

  void kill_some(const std::string& how, int times) {
    gates::prepare({"", dir_});
    for (int i = 0; i < times; ++i) {
      const double after = std::uniform_real_distribution(0.0, duration_)(random_);
      const Child child = start(self_, model_, dir_, how, after);
      (child.killed ? counts_.killed : counts_.too_late) += 1;
      if (!child.killed && !child.good) complain(how, "before the kill: " + child.output);
    }
    counts_.with_checkpoint += gates::has_checkpoint(dir_);
    const Child last = start(self_, model_, dir_, how, -1);
    if (!last.good) return complain(how, last.output);
    if (last.output != expected_) complain(how, "it ends with other weights");
  }

  const Counts& counts() const { return counts_; }
  double duration() const { return duration_; }

 private:
  void complain(const std::string& how, const std::string& text) {
    std::printf("%s, kill %d: %s\n", how.c_str(), counts_.killed, text.c_str());
    ++counts_.problems;
  }

  const std::string self_, model_, dir_;
  std::string expected_;
  double duration_ = 0;
  std::mt19937 random_{kSeed};
  Counts counts_;
};

int try_kills(const std::string& self, const std::string& model, const std::string& dir,
              int kills) {
  std::filesystem::create_directories(std::filesystem::path(dir).parent_path());
  Trial trial(self, model, dir);
  int goal = 0;
  for (const char* how : {"sync", "async"}) {
    if (!trial.measure(how)) return 1;
    goal += kills / 2;
    for (int i = 0; trial.counts().killed < goal && i < 2 * kills; ++i)
      trial.kill_some(how, 1 + i % 2);
    std::printf(
        "%s: a run takes %.2f s; %d kills so far, %d too late, %d runs with a checkpoint, "
        "%d problems\n",
        how, trial.duration(), trial.counts().killed, trial.counts().too_late,
        trial.counts().with_checkpoint, trial.counts().problems);
    std::fflush(stdout);
  }
  const Counts& counts = trial.counts();
  return counts.problems == 0 && counts.killed >= goal && counts.with_checkpoint > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (argc > 4) return run({argv[1], argv[2]}, argv[4]);
  const int usual = std::getenv("RL_LONG") == nullptr ? kKills : kLongKills;
  return try_kills(argv[0], argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : usual);
}
