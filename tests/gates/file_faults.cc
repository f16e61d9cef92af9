// Every call on a file fails in turn while a model is loaded, trained and saved, samples are
// written and read, and a run with checkpoints is made and resumed. A play then ends with an error
// or a report that names the file, or as if nothing had failed; the next one, in what the failed
// one left, works and ends with the weights of a run in which nothing failed.
//
// usage: gate_file_faults MODEL DIRECTORY [PLAY]
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "gates/file_hooks.h"
#include "gates/linked_api.h"
#include "gates/plays.h"

namespace {

using gates::FileOp;

constexpr unsigned kHangSeconds = 600;
constexpr double kSecondsOfPlay = 4;  // without RL_LONG; then every n-th call is tried

struct Fault {
  FileOp op;
  int error;
};
constexpr Fault kFaults[] = {{FileOp::kOpen, EMFILE},
                             {FileOp::kOpen, EIO},
                             {FileOp::kRead, EIO},
                             {FileOp::kRead, EINTR},
                             {FileOp::kRead, gates::kShort},
                             {FileOp::kWrite, ENOSPC},
                             {FileOp::kWrite, EIO},
                             {FileOp::kWrite, EINTR},
                             {FileOp::kWrite, gates::kShort},
                             {FileOp::kSync, EIO},
                             {FileOp::kRename, EIO},
                             {FileOp::kTruncate, EIO},
                             {FileOp::kMakeDirectory, ENOSPC},
                             {FileOp::kClose, EIO}};

struct Result {
  std::optional<gates::Failure> failure;
  uint64_t digest = 0;
};

struct Counts {
  size_t calls = 0, tried = 0, told = 0, survived = 0, problems = 0;
};

Result play_once(const gates::Api& rl, const gates::Play& play, const gates::Place& place) {
  Result out;
  try {
    out.digest = play.run(rl, place);
  } catch (const gates::Failure& failure) {
    out.failure = failure;
  }
  return out;
}

// The directory as the first play finds it: a model and the rows of data.
void begin(const gates::Place& place, const std::string& model) {
  std::filesystem::remove_all(place.dir);
  gates::prepare(place);
  std::filesystem::copy_file(model, place.model);
}

std::string describe(const gates::Play& play, const Fault& fault, uint64_t call) {
  const char* const what = fault.error > 0 ? strerrorname_np(fault.error) : "short";
  return std::string(play.name) + ", " + gates::name_of(fault.op) + " " + std::to_string(call) +
         " " + what;
}

bool must_be_survived(const Fault& fault) {
  return fault.error == gates::kShort || fault.error == EINTR;
}

class Trial {
 public:
  Trial(const gates::Api& rl, const gates::Play& play, const gates::Place& place,
        const std::string& model)
      : rl_(rl), play_(play), place_(place), model_(model) {}

  Counts run() {
    begin(place_, model_);
    gates::watch_files(place_.dir);
    expected_ = play_.run(rl_, place_);
    begin(place_, model_);
    gates::arm_file(FileOp::kOpen, 0, 0);
    const auto start = std::chrono::steady_clock::now();
    play_.run(rl_, place_);
    const std::chrono::duration<double> one = std::chrono::steady_clock::now() - start;
    std::vector<std::pair<Fault, uint64_t>> all;
    for (const Fault& fault : kFaults) {
      for (uint64_t n = 1; n <= gates::calls_of(fault.op); ++n) all.push_back({fault, n});
    }
    counts_.calls = all.size();
    size_t stride = 1;
    if (std::getenv("RL_LONG") == nullptr) {
      stride = size_t(3 * one.count() * double(all.size()) / kSecondsOfPlay) + 1;
    }
    for (size_t i = 0; i < all.size(); i += stride) try_one(all[i].first, all[i].second);
    return counts_;
  }

 private:
  void complain(const std::string& text) {
    std::printf("%s: %s\n", now_.c_str(), text.c_str());
    std::fflush(stdout);
    ++counts_.problems;
  }

  void try_one(const Fault& fault, uint64_t call) {
    now_ = describe(play_, fault, call);
    alarm(kHangSeconds);
    begin(place_, model_);
    gates::arm_file(fault.op, fault.error, call);
    const Result result = play_once(rl_, play_, place_);
    ++counts_.tried;
    if (!gates::disarm_file()) return alarm(0), void();
    now_ += " of " + gates::failed_file();
    judge(fault, result);
    const Result next = play_once(rl_, play_, place_);
    if (next.failure.has_value()) {
      complain("the next play: " + next.failure->function + ": " + next.failure->text);
    } else if (next.digest != expected_) {
      complain("the next play ends with other weights");
    }
    alarm(0);
  }

  // A report is written without the files that cannot be read, and says which.
  bool told_on_page() const {
    std::ifstream page(place_.dir + "/report.html");
    const std::string text(std::istreambuf_iterator<char>(page), {});
    const std::string name = std::filesystem::path(gates::failed_file()).filename();
    return text.find(name + " could not be read") != std::string::npos;
  }

  void judge(const Fault& fault, const Result& result) {
    if (!result.failure.has_value()) {
      ++counts_.survived;
      if (!must_be_survived(fault) && !told_on_page()) complain("nobody was told");
      if (result.digest != expected_) complain("the play went on and computed something else");
      return;
    }
    ++counts_.told;
    const std::string told = result.failure->function + " says " + result.failure->text;
    if (must_be_survived(fault)) complain("no failure at all: " + told);
    if (result.failure->status != RL_IO) complain(told);
    if (told.find(place_.dir) == std::string::npos) complain("no path: " + told);
  }

  const gates::Api& rl_;
  const gates::Play& play_;
  const gates::Place& place_;
  const std::string& model_;
  uint64_t expected_ = 0;
  std::string now_;
  Counts counts_;
};

int run(const std::string& model, const std::string& dir, const std::string& name) {
  const gates::Place place{dir + "/model.gguf", dir};
  const gates::Api rl = gates::linked_api();
  size_t problems = 0;
  for (const gates::Play& play : gates::plays()) {
    if (play.run == gates::play_hello || play.run == gates::play_generate) continue;
    if (!name.empty() && name != play.name) continue;
    const Counts c = Trial(rl, play, place, model).run();
    std::printf("%s: %zu of %zu faults: %zu errors told, %zu did without, %zu problems\n",
                play.name, c.tried, c.calls, c.told, c.survived, c.problems);
    std::fflush(stdout);
    problems += c.problems + (c.told == 0 ? 1 : 0);
  }
  return problems == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return gates::reported([&] { return run(argv[1], argv[2], argc > 3 ? argv[3] : ""); });
}
