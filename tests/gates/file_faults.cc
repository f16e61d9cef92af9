// Every call on a file fails in turn while a model is loaded, trained and saved, samples are
// written and read, and runs with checkpoints are made, which stand still or go on while one is
// written; then again in a directory with results, so that files are replaced and the run is
// resumed. Each scenario ends with an error or a report that names the file, or as if nothing had
// failed. Everything it left under a final name is complete, and the next scenario there works and
// ends with the weights of a run without failures.
//
// usage: gate_file_faults MODEL DIRECTORY [PLAY]
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "gates/file_hooks.h"
#include "gates/linked_api.h"
#include "gates/scenario_host.h"

namespace {

using gates::FileOp;

constexpr unsigned kHangSeconds = 600;

struct Fault {
  FileOp op;
  int error;
};
constexpr Fault kFaults[] = {{FileOp::kOpen, EIO},
                             {FileOp::kRead, EIO},
                             {FileOp::kRead, EINTR},
                             {FileOp::kRead, gates::kShort},
                             {FileOp::kWrite, ENOSPC},
                             {FileOp::kWrite, EINTR},
                             {FileOp::kWrite, gates::kShort},
                             {FileOp::kSync, EIO},
                             {FileOp::kRename, EIO},
                             {FileOp::kTruncate, EIO},
                             {FileOp::kMakeDirectory, ENOSPC},
                             {FileOp::kClose, EIO}};
constexpr Fault kMoreFaults[] = {{FileOp::kOpen, EMFILE}, {FileOp::kWrite, EIO}};  // with RL_LONG

// Call number `call` of its kind, which is on `file`.
struct Attempt {
  Fault fault;
  uint64_t call;
  std::string file;
};

struct Result {
  std::optional<gates::Failure> failure;
  uint64_t digest = 0;
};

struct Counts {
  size_t calls = 0, tried = 0, told = 0, survived = 0, problems = 0;
};

Result run_scenario(const gates::Api& rl, const gates::Scenario& scenario,
                    const gates::Place& place) {
  Result out;
  try {
    out.digest = scenario.run(rl, place);
  } catch (const gates::Failure& failure) {
    out.failure = failure;
  }
  return out;
}

// The digest of a saved model.
uint64_t saved_digest(const gates::Api& rl, const std::string& dir) {
  gates::Host host(rl);
  gates::Handle<rl_runtime> runtime(rl.rl_runtime_destroy);
  gates::Handle<rl_model> model(rl.rl_model_destroy);
  uint64_t digest = 0;
  CALL(rl_options_create, host.options.out());
  host.set("model.path", dir);
  host.set("runtime.threads", "1");
  CALL(rl_runtime_create, RL_ABI_VERSION, host.options, runtime.out());
  CALL(rl_model_open, runtime, host.options, RL_USE_MODEL, model.out());
  CALL(rl_model_digest, model, &digest);
  return digest;
}

// The number of samples in a buffer file.
uint64_t samples_in(const gates::Api& rl, const std::string& file) {
  gates::Host host(rl);
  gates::Handle<rl_buffer> buffer(rl.rl_buffer_destroy);
  uint64_t count = 0;
  CALL(rl_options_create, host.options.out());
  host.set("pipeline.samples_per_prompt", "2");
  CALL(rl_buffer_create, host.options, uint64_t{4}, buffer.out());
  CALL(rl_buffer_load, buffer, file.c_str(), file.size(), nullptr, &count);
  return count;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Among the files that appear by one rename (except checkpoints, which the next scenario reads):
// the first that differs from one of a scenario without failures, or that existed at the start and
// is gone. Throws the library's error for a file that it cannot read.
std::string spoilt_file(const gates::Api& rl, const std::string& dir, const std::string& start,
                        uint64_t expected_digest) {
  const auto is_whole = [&](const std::string& name) {
    const std::string path = dir + name;
    if (!std::filesystem::exists(path)) return !std::filesystem::exists(start + name);
    if (name == "/saved") return saved_digest(rl, path) == expected_digest;
    if (name == "/samples.rlbuf") return samples_in(rl, path) == 2;
    return text_of(path).ends_with(name == "/report.html" ? "</html>\n" : "]}\n");
  };
  for (const char* name : {"/saved", "/samples.rlbuf", "/report.html", "/trace/trace.json"}) {
    if (!is_whole(name)) return name;
  }
  return "";
}

// A later scenario finds what the first one left, except for the newest checkpoint: a run resumes
// from the one before it.
void take_newest_checkpoint_away(const std::string& dir) {
  if (!std::filesystem::exists(dir + "/checkpoints")) return;
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(dir + "/checkpoints")) {
    newest = std::max(newest, entry.path().string());
  }
  std::filesystem::remove_all(newest);
}

std::string describe(const gates::Scenario& scenario, const Fault& fault, uint64_t call) {
  const char* const what = fault.error > 0 ? strerrorname_np(fault.error) : "short";
  return std::string(scenario.name) + ", " + gates::name_of(fault.op) + " " + std::to_string(call) +
         " " + what;
}

bool must_be_survived(const Fault& fault) {
  return fault.error == gates::kShort || fault.error == EINTR;
}

// Without RL_LONG: only the last call on each file, when most of it has been written, and for
// faults that end a scenario the first one too, as the same file may be read for several reasons.
std::vector<Attempt> fewer(const std::vector<Attempt>& all) {
  std::vector<Attempt> out;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto same = [&](const Attempt& other) {
      return other.fault.op == all[i].fault.op && other.fault.error == all[i].fault.error &&
             other.file == all[i].file;
    };
    const auto here = all.begin() + ptrdiff_t(i);
    const bool first = std::none_of(all.begin(), here, same);
    const bool last = std::none_of(here + 1, all.end(), same);
    if (last || (first && !must_be_survived(all[i].fault))) out.push_back(all[i]);
  }
  return out;
}

// Each fault at each call of its kind that a scenario made.
std::vector<Attempt> attempts(std::span<const Fault> faults) {
  std::vector<Attempt> all;
  for (const Fault& fault : faults) {
    const std::vector<std::string> files = gates::files_of(fault.op);
    for (size_t i = 0; i < files.size(); ++i) all.push_back({fault, i + 1, files[i]});
  }
  return all;
}

class Trial {
 public:
  Trial(const gates::Api& rl, const gates::Scenario& scenario, const gates::Place& place)
      : rl_(rl), scenario_(scenario), place_(place), start_(start_of(place)) {}

  // First in a directory with only a model and data rows, then in one with results as well.
  void run(const std::string& model) {
    std::filesystem::remove_all(start_);
    std::filesystem::create_directories(start_);
    gates::prepare({"", start_});
    std::filesystem::copy_file(model, start_ + "/model.gguf");
    gates::watch_files(place_.dir);
    begin();
    expected_ = scenario_.run(rl_, place_);
    if (std::filesystem::exists(place_.dir + "/saved")) {
      saved_ = saved_digest(rl_, place_.dir + "/saved");
    }
    try_all("");
    begin();
    scenario_.run(rl_, place_);
    take_newest_checkpoint_away(place_.dir);
    std::filesystem::remove_all(start_);
    std::filesystem::rename(place_.dir, start_);
    try_all(" again");
  }
  bool good() const { return problems_ == 0; }

 private:
  // Next to the place, under a name that does not begin with the place's.
  static std::string start_of(const gates::Place& place) {
    const std::filesystem::path dir(place.dir);
    return dir.parent_path() / ("start_of_" + dir.filename().string());
  }

  void begin() {
    std::filesystem::remove_all(place_.dir);
    std::filesystem::copy(start_, place_.dir, std::filesystem::copy_options::recursive);
  }

  void try_all(const char* when) {
    counts_ = {};
    begin();
    gates::arm_file(FileOp::kOpen, 0, 0);
    if (scenario_.run(rl_, place_) != expected_) complain("it ends with other weights");
    std::vector<Attempt> all = attempts(kFaults);
    for (Attempt& more : attempts(kMoreFaults)) all.push_back(std::move(more));
    counts_.calls = all.size();
    if (std::getenv("RL_LONG") == nullptr) all = fewer(attempts(kFaults));
    for (const Attempt& attempt : all) {
      now_ = describe(scenario_, attempt.fault, attempt.call) + when;
      try_one(attempt);
    }
    std::printf("%s%s: %zu of %zu faults: %zu errors told, %zu did without, %zu problems\n",
                scenario_.name, when, counts_.tried, counts_.calls, counts_.told, counts_.survived,
                counts_.problems);
    std::fflush(stdout);
    problems_ += counts_.problems + (counts_.told == 0 ? 1 : 0);
  }

  void complain(const std::string& text) {
    std::printf("%s: %s\n", now_.c_str(), text.c_str());
    std::fflush(stdout);
    ++counts_.problems;
  }

  void try_one(const Attempt& attempt) {
    alarm(kHangSeconds);
    begin();
    gates::arm_file(attempt.fault.op, attempt.fault.error, attempt.call);
    const Result result = run_scenario(rl_, scenario_, place_);
    ++counts_.tried;
    if (!gates::disarm_file()) return alarm(0), void();
    now_ += " of " + gates::failed_file();
    judge(attempt.fault, result);
    look_at_files();
    const Result next = run_scenario(rl_, scenario_, place_);
    if (next.failure.has_value()) {
      complain("the next scenario: " + next.failure->function + ": " + next.failure->text);
    } else if (next.digest != expected_) {
      complain("the next scenario ends with other weights");
    }
    alarm(0);
  }

  void look_at_files() {
    try {
      const std::string spoilt = spoilt_file(rl_, place_.dir, start_, saved_);
      if (!spoilt.empty()) complain("it spoilt " + spoilt);
    } catch (const gates::Failure& failure) {
      complain("it left half a file: " + failure.function + " says " + failure.text);
    }
  }

  // A report is written without the files that cannot be read, and names them.
  bool told_on_page() const {
    const std::string text = text_of(place_.dir + "/report.html");
    const std::string name = std::filesystem::path(gates::failed_file()).filename();
    return text.find(name + " could not be read") != std::string::npos;
  }

  void judge(const Fault& fault, const Result& result) {
    if (!result.failure.has_value()) {
      ++counts_.survived;
      if (!must_be_survived(fault) && !told_on_page()) complain("nobody was told");
      if (result.digest != expected_) complain("the scenario went on and computed something else");
      return;
    }
    ++counts_.told;
    const std::string told = result.failure->function + " says " + result.failure->text;
    if (must_be_survived(fault)) complain("no failure at all: " + told);
    if (result.failure->status != RL_IO) complain(told);
    if (told.find(place_.dir) == std::string::npos) complain("no path: " + told);
  }

  const gates::Api& rl_;
  const gates::Scenario& scenario_;
  const gates::Place& place_;
  const std::string start_;
  uint64_t expected_ = 0, saved_ = 0;
  std::string now_;
  Counts counts_;
  size_t problems_ = 0;
};

int run(const std::string& model, const std::string& dir, const std::string& name) {
  const gates::Place place{dir + "/model.gguf", dir};
  const gates::Api rl = gates::linked_api();
  bool good = true;
  std::vector<gates::Scenario> all(gates::scenarios().begin(), gates::scenarios().end());
  all.push_back({"grpo_async", gates::run_grpo_async});
  for (const gates::Scenario& scenario : all) {
    if (scenario.run == gates::run_hello || scenario.run == gates::run_generate) continue;
    if (!name.empty() && name != scenario.name) continue;
    Trial trial(rl, scenario, place);
    trial.run(model);
    good = good && trial.good();
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return gates::reported([&] { return run(argv[1], argv[2], argc > 3 ? argv[3] : ""); });
}
