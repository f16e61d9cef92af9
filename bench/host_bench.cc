// Costs of the C ABI for a host, measured through rl.h alone: an empty call, the round trip of a
// reward, and how many samples may wait for rewards at once.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/host_program.h"
#include "rl.h"

namespace {

using rl::bench::call;
using rl::bench::check;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// One step of the loop on a tiny model.
class Host {
 public:
  // Runs `running` samples at once, each of `tokens` tokens.
  Host(const std::string& model, uint64_t prompts, uint64_t running, uint64_t tokens)
      : prompts_(prompts) {
    call(rl_options_create, &options_);
    set("model.path", model);
    set("runtime.threads", "1");  // the other core is for the host
    set("engine.max_num_seqs", std::to_string(running));
    set("engine.max_model_len", "64");
    set("sampling.max_new_tokens", std::to_string(tokens));
    set("pipeline.prompts_per_step", std::to_string(prompts));
    set("pipeline.samples_per_prompt", std::to_string(kGroup));
    set("pipeline.total_steps", "1");
    call(rl_runtime_create, RL_ABI_VERSION, options_, &runtime_);
    call(rl_model_open, runtime_, options_, uint64_t{RL_USE_PIPELINE}, &model_);
    call(rl_pipeline_create, model_, options_, &pipeline_);
  }
  ~Host() {
    rl_pipeline_destroy(pipeline_);
    rl_model_destroy(model_);
    rl_runtime_destroy(runtime_);
    rl_options_destroy(options_);
  }
  Host(const Host&) = delete;

  static constexpr uint64_t kGroup = 8;
  uint64_t samples() const { return prompts_ * kGroup; }

  // The cheapest call of a live handle.
  uint64_t version() const {
    uint64_t version = 0;
    call(rl_model_version, model_, &version);
    return version;
  }

  void start() {
    const int32_t ids[] = {1, 2, 3};
    call(rl_pipeline_start, pipeline_);
    for (uint64_t i = 0; i < prompts_; ++i) feed(ids);
    call(rl_pipeline_finish_feed, pipeline_);
  }

  // The next sample that waits for its reward; false if the step is done.
  bool next(rl_sample_view& sample) {
    rl_event* event = nullptr;
    rl_error* error = nullptr;
    const rl_status status = rl_pipeline_next(pipeline_, -1, &event, &error);
    if (status == RL_DONE) return false;
    check(status, error);
    const std::unique_ptr<rl_event, decltype(&rl_event_release)> owner(event, rl_event_release);
    if (rl_event_kind(event) != RL_EVENT_SCORE) return next(sample);
    rl_sample_view_init(&sample, sizeof sample);
    call(rl_event_sample, event, 0, &sample);
    return true;
  }

  void score(const rl_sample_view& sample) {
    rl_score score;
    rl_score_init(&score, sizeof score);
    score.sample_id = sample.sample_id;
    score.reward = sample.slot;
    call(rl_pipeline_score, pipeline_, &score, size_t{1}, static_cast<rl_status*>(nullptr));
  }

  rl_pipeline_stats stats() const {
    rl_pipeline_stats stats;
    rl_pipeline_stats_init(&stats, sizeof stats);
    call(rl_pipeline_get_stats, pipeline_, &stats);
    return stats;
  }

 private:
  void set(const char* key, const std::string& value) {
    call(rl_options_set_text, options_, key, RL_NUL_TERMINATED, value.c_str(), value.size());
  }
  void feed(const int32_t (&ids)[3]) {
    rl_feed_row row;
    rl_feed_row_init(&row, sizeof row);
    row.ids = ids;
    row.num_ids = std::size(ids);
    call(rl_pipeline_feed, pipeline_, &row, int64_t{0});
  }

  uint64_t prompts_;
  rl_options* options_ = nullptr;
  rl_runtime* runtime_ = nullptr;
  rl_model* model_ = nullptr;
  rl_pipeline* pipeline_ = nullptr;
};

// Nanoseconds of a call that checks its handle, enters the guard and reads one number.
double empty_call_ns(const std::string& model) {
  constexpr int kBatches = 101, kCalls = 2000;
  const Host host(model, 1, 1, 1);
  std::vector<double> each;
  for (int batch = 0; batch < kBatches; ++batch) {
    const int64_t start = now_ns();
    for (int i = 0; i < kCalls; ++i) host.version();
    each.push_back(static_cast<double>(now_ns() - start) / kCalls);
  }
  return median(each);
}

// Microseconds from the end of a sample on the library's thread to its accepted reward on the
// host's, with one sample of `tokens` tokens generated at a time. There must be enough of them for
// the host to be back in rl_pipeline_next when the next sample ends: this is a delay, not a queue.
double reward_us(const std::string& model, uint64_t prompts, uint64_t tokens) {
  Host host(model, prompts, 1, tokens);
  std::vector<double> each;
  host.start();
  for (rl_sample_view sample; host.next(sample);) {
    host.score(sample);
    each.push_back(static_cast<double>(now_ns() - sample.finished_ns) / 1e3);
  }
  if (each.size() != host.samples() || host.stats().step != 1)
    throw std::runtime_error("the step lost samples");
  return median(each);
}

// Number of samples that waited at once; all were then scored, newest first, and trained on.
double outstanding_samples(const std::string& model, uint64_t prompts) {
  Host host(model, prompts, 64, 1);
  std::vector<rl_sample_view> waiting(host.samples());
  host.start();
  for (rl_sample_view& sample : waiting) {
    if (!host.next(sample))
      throw std::runtime_error("the step ended before its samples were rewarded");
  }
  const uint64_t unscored = host.stats().unscored;
  for (auto sample = waiting.rbegin(); sample != waiting.rend(); ++sample) host.score(*sample);
  rl_sample_view more;
  if (host.next(more)) throw std::runtime_error("a sample came twice");
  if (host.stats().attempts_trained != host.samples())
    throw std::runtime_error("the step lost samples");
  return static_cast<double>(unscored);
}

void run(const std::string& model, const std::string& out, bool quick) {
  const double call_ns = empty_call_ns(model);
  const double event_us = reward_us(model, quick ? 2 : 128, 8);  // the host spins
  const double wake_us = reward_us(model, quick ? 2 : 128, 56);  // the host sleeps
  const double waiting = outstanding_samples(model, quick ? 2 : 1250);
  std::ofstream file(out);
  file << "{\n  \"abi_call_ns\": {\"unit\": \"ns\", \"value\": " << call_ns
       << ", \"at_most\": 60},\n"
       << "  \"reward_event_us\": {\"unit\": \"us\", \"value\": " << event_us
       << ", \"at_most\": 20},\n"
       << "  \"reward_wake_us\": {\"unit\": \"us\", \"value\": " << wake_us
       << ", \"at_most\": 100},\n"
       << "  \"outstanding_samples\": {\"unit\": \"samples\", \"value\": " << waiting
       << ", \"at_least\": " << (quick ? 16 : 10000) << "}\n}\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write " + out);
}

}  // namespace

int main(int argc, char** argv) { return rl::bench::host_program("host_bench", argc, argv, run); }
