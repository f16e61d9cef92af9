// What generating while a step trains is good for, measured through rl.h alone: steps with scorers
// that take as long as a step computes, steps without such scorers, and rollouts of which one
// response of eight is eight times as long as the others. docs/benchmarks.md describes the figures.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/host_program.h"
#include "rl.h"

namespace {

using rl::bench::call;
using Texts = std::vector<std::pair<std::string, std::string>>;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Size {
  int prompts, samples, tokens;
  int steps;  // that are measured
};

// Of steps in the middle of a run. The first ones touch memory for the first time, and rollout gets
// ahead of training in them; and the last ones would find nothing left to generate.
struct Figures {
  double seconds_per_step = 0;
  double generating_s = 0, trained_tokens = 0;
};
constexpr int kStepsBefore = 2, kStepsAfter = 4;

constexpr int kPrompt = 8;   // tokens
constexpr int kLongest = 8;  // turns of the long response of a group

class Run {
 public:
  Run(const std::string& model, const Size& size, const Texts& more) : size_(size) {
    call(rl_options_create, &options_);
    set("model.path", model);
    set("engine.max_model_len", std::to_string(kPrompt + kLongest * (size.tokens + 1)));
    set("sampling.ignore_eos", "true");
    set("sampling.max_new_tokens", std::to_string(size.tokens));
    set("pipeline.prompts_per_step", std::to_string(size.prompts));
    set("pipeline.samples_per_prompt", std::to_string(size.samples));
    set("pipeline.total_steps", std::to_string(total_steps()));
    for (const auto& [key, value] : more) set(key, value);
    call(rl_runtime_create, RL_ABI_VERSION, options_, &runtime_);
    call(rl_model_open, runtime_, options_, uint64_t{RL_USE_PIPELINE}, &model_);
    call(rl_pipeline_create, model_, options_, &pipeline_);
  }
  ~Run() {
    if (feeder_.joinable()) feeder_.join();
    rl_pipeline_destroy(pipeline_);
    rl_model_destroy(model_);
    rl_runtime_destroy(runtime_);
    rl_options_destroy(options_);
  }
  Run(const Run&) = delete;

  // Every sample is scored so many seconds after its end, however many wait at once.
  Figures figures(double score_s) {
    call(rl_pipeline_start, pipeline_);
    feeder_ = std::thread([this] { feed(); });
    while (take_event(score_s)) {
    }
    if (steps_done_ < kStepsBefore + size_.steps) throw std::runtime_error("the run ended early");
    return sums_;
  }

 private:
  int total_steps() const { return kStepsBefore + size_.steps + kStepsAfter; }

  struct Due {
    double at_s;
    uint64_t sample;
    uint32_t slot;
  };

  void set(const std::string& key, const std::string& value) {
    call(rl_options_set_text, options_, key.c_str(), key.size(), value.c_str(), value.size());
  }

  void feed() {
    const int rows = size_.prompts * total_steps();
    for (int i = 0; i < rows; ++i) {
      const int32_t ids[kPrompt] = {1, 60 + i % 7, 67 + i % 5, 72 + i % 3, 75 + i % 2, 57, 58, 59};
      rl_feed_row row;
      rl_feed_row_init(&row, sizeof row);
      row.ids = ids;
      row.num_ids = kPrompt;
      rl_error* error = nullptr;
      if (rl_pipeline_feed(pipeline_, &row, int64_t{-1}, &error) != RL_OK) {
        rl_error_release(error);  // the run has ended, and its loop says why
        return;
      }
    }
  }

  // Takes the next event, or gives the scores that are due. False at the end.
  bool take_event(double score_s) {
    give_due();
    rl_event* event = nullptr;
    rl_error* error = nullptr;
    const int64_t wait_ns =
        due_.empty()
            ? 1'000'000'000
            : std::max<int64_t>(0, static_cast<int64_t>((due_.front().at_s - now_s()) * 1e9));
    const rl_status status = rl_pipeline_next(pipeline_, wait_ns, &event, &error);
    if (status == RL_TIMEOUT) return true;
    if (status == RL_DONE) return false;
    if (status != RL_OK) {
      const std::string text = rl_error_text(error, RL_ERROR_SUMMARY, nullptr);
      rl_error_release(error);
      throw std::runtime_error(text);
    }
    const std::unique_ptr<rl_event, decltype(&rl_event_release)> owner(event, rl_event_release);
    take(event, score_s);
    return true;
  }

  void take(const rl_event* event, double score_s) {
    const auto kind = rl_event_kind(event);
    if (kind == RL_EVENT_STEP) add_step(event);
    if (kind != RL_EVENT_SCORE && kind != RL_EVENT_TURN) return;
    rl_sample_view sample;
    rl_sample_view_init(&sample, sizeof sample);
    call(rl_event_sample, event, size_t{0}, &sample);
    if (kind == RL_EVENT_TURN) return reply(event, sample);
    due_.push_back({now_s() + score_s, sample.sample_id, sample.slot});
    give_due();
  }

  void add_step(const rl_event* event) {
    ++steps_done_;
    if (steps_done_ == kStepsBefore) start_s_ = now_s();
    if (steps_done_ <= kStepsBefore || steps_done_ > kStepsBefore + size_.steps) return;
    sums_.generating_s += metric(event, "timing_s/gen");
    sums_.trained_tokens += metric(event, "training/loss_tokens");
    if (steps_done_ < kStepsBefore + size_.steps) return;
    sums_.seconds_per_step = (now_s() - start_s_) / size_.steps;
    rl_error* error = nullptr;
    const rl_status status = rl_pipeline_stop(pipeline_, int64_t{0}, &error);
    if (status != RL_TIMEOUT) rl::bench::check(status, error);  // the loop is ending
  }

  // The first response of a group goes on, the others end with their first turn.
  void reply(const rl_event* event, const rl_sample_view& sample) {
    rl_event_view info;
    rl_event_view_init(&info, sizeof info);
    call(rl_event_get_view, event, &info);
    const int32_t more[] = {57};
    rl_reply reply;
    rl_reply_init(&reply, sizeof reply);
    reply.sample_id = sample.sample_id;
    reply.turn = info.count;
    reply.finish = sample.slot != 0 || info.count >= uint64_t{kLongest};
    if (reply.finish == 0) reply.ids = more;
    reply.num_ids = reply.finish == 0 ? 1 : 0;
    call(rl_pipeline_reply, pipeline_, &reply, size_t{1}, static_cast<rl_status*>(nullptr));
  }

  void give_due() {
    for (; !due_.empty() && due_.front().at_s <= now_s(); due_.pop_front()) {
      rl_score score;
      rl_score_init(&score, sizeof score);
      score.sample_id = due_.front().sample;
      score.reward = due_.front().slot;
      give(score);
    }
  }

  // The end of the run drops what its last step did not take: scores of that come too late.
  void give(const rl_score& score) {
    rl_error* error = nullptr;
    const rl_status status = rl_pipeline_score(pipeline_, &score, 1, nullptr, &error);
    if (status != RL_LATE) return rl::bench::check(status, error);
    rl_error_release(error);
  }

  static double metric(const rl_event* event, const char* name) {
    double value = 0;
    call(rl_event_metric_named, event, name, size_t{RL_NUL_TERMINATED}, &value);
    return value;
  }

  const Size size_;
  rl_options* options_ = nullptr;
  rl_runtime* runtime_ = nullptr;
  rl_model* model_ = nullptr;
  rl_pipeline* pipeline_ = nullptr;
  std::thread feeder_;
  std::deque<Due> due_;
  int steps_done_ = 0;
  double start_s_ = 0;
  Figures sums_;
};

const Texts kAhead = {{"pipeline.mode", "async"},           {"model.compute_copies", "2"},
                      {"pipeline.max_staleness", "3"},      {"pipeline.queue_size", "3"},
                      {"pipeline.partial_rollout", "true"}, {"engine.keep_kv_on_publish", "true"},
                      {"engine.preemption", "swap"},        {"engine.swap_space_bytes", "64MiB"}};
const Texts kTurns = {{"pipeline.turns", "always"}, {"pipeline.max_turns", "9"}};

Texts both(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

double rollout_s_per_token(const Figures& f) { return f.generating_s / f.trained_tokens; }

struct Result {
  double gain, cost, tail;
};

Result measure(const std::string& model, const Size& size) {
  const auto run = [&](const char* what, const Texts& more, double score_s) {
    const Figures out = Run(model, size, more).figures(score_s);
    std::fprintf(stderr, "async_bench: %s: %.2f s a step, of which rollout takes %.2f s\n", what,
                 out.seconds_per_step, out.generating_s / size.steps);
    return out;
  };
  const double computing_s = run("sync", {}, 0).seconds_per_step;
  const double ahead_s = run("async", kAhead, 0).seconds_per_step;
  const double waiting_s = run("sync, slow scores", {}, computing_s).seconds_per_step;
  const double hidden_s = run("async, slow scores", kAhead, computing_s).seconds_per_step;
  const double whole = rollout_s_per_token(run("sync, long tails", kTurns, 0));
  const double partial = rollout_s_per_token(run("async, long tails", both(kAhead, kTurns), 0));
  return {waiting_s / hidden_s, ahead_s / computing_s, partial / whole};
}

void write(const std::string& path, const Result& r) {
  std::ofstream file(path);
  const auto entry = [&](const char* name, double value, const char* unit, const char* goal,
                         double bound, const char* end) {
    file << "  \"" << name << "\": {\"unit\": \"" << unit << "\", \"value\": " << value << ", \""
         << goal << "\": " << bound << "}" << end;
  };
  file << "{\n";
  entry("async_gain", r.gain, "times", "at_least", 1.6, ",\n");
  entry("async_cost", r.cost, "times", "at_most", 1.05, ",\n");
  entry("partial_rollout_time", r.tail, "of sync", "at_most", 0.75, "\n}\n");
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace

int main(int argc, char** argv) {
  return rl::bench::host_program(
      "async_bench", argc, argv, [](const std::string& model, const std::string& out, bool quick) {
        write(out, measure(model, quick ? Size{2, 8, 4, 1} : Size{2, 8, 16, 8}));
      });
}
