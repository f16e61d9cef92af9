// What ranks cost, measured through rl.h alone: training steps of two local ranks of one thread
// each against those of one rank with two threads, in turns. docs/benchmarks.md describes the
// figure.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/host_program.h"
#include "rl.h"

namespace {

using rl::bench::call;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Size {
  int samples, tokens;
  int steps;  // that are measured
};

// Samples of given tokens, of which all but the first carry loss.
class Batch {
 public:
  explicit Batch(const Size& size) {
    std::vector<int32_t> ids(static_cast<size_t>(size.samples) * size.tokens);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(1 + i * 37 % 78);
    std::vector<rl_sample_view> samples(static_cast<size_t>(size.samples));
    for (size_t i = 0; i < samples.size(); ++i) {
      rl_sample_view& sample = samples[i];
      rl_sample_view_init(&sample, sizeof sample);
      sample.ordinal = i;
      sample.ids = ids.data() + i * static_cast<size_t>(size.tokens);
      sample.num_ids = static_cast<size_t>(size.tokens);
      sample.num_prompt = 1;
      sample.finish = RL_FINISH_LENGTH;
      sample.temperature = 1;
      sample.data_row = -1;
    }
    call(rl_batch_create, samples.data(), samples.size(), &batch_);
  }
  ~Batch() { rl_batch_release(batch_); }
  Batch(const Batch&) = delete;
  const rl_batch* get() const { return batch_; }

 private:
  rl_batch* batch_ = nullptr;
};

class Ranks {
 public:
  Ranks(const std::string& model, const Size& size, int ranks, int threads) {
    call(rl_options_create, &options_);
    set("model.path", model);
    set("algo.objective", "sft");
    set("engine.max_model_len", std::to_string(size.tokens));
    set("trainer.max_tokens_per_device", std::to_string(std::max(512, size.tokens)));
    set("runtime.threads", std::to_string(threads));
    if (ranks > 1) set("parallel.data", std::to_string(ranks));
    for (int i = 0; i < ranks; ++i) ranks_.push_back(make(i));
  }
  ~Ranks() {
    for (const Rank& rank : ranks_) {
      rl_trainer_destroy(rank.trainer);
      rl_model_destroy(rank.model);
      rl_runtime_destroy(rank.runtime);
    }
    rl_options_destroy(options_);
  }
  Ranks(const Ranks&) = delete;

  // Seconds of a step, which each rank makes on a thread of its own.
  double step(const Batch& batch) {
    std::vector<std::exception_ptr> failures(ranks_.size());
    const double start = now_s();
    std::vector<std::thread> threads;
    for (size_t i = 1; i < ranks_.size(); ++i)
      threads.emplace_back([&, i] { failures[i] = failure_of(ranks_[i], batch); });
    failures[0] = failure_of(ranks_[0], batch);
    for (std::thread& thread : threads) thread.join();
    const double seconds = now_s() - start;
    for (const std::exception_ptr& failure : failures) {
      if (failure != nullptr) std::rethrow_exception(failure);
    }
    return seconds;
  }

 private:
  struct Rank {
    rl_runtime* runtime = nullptr;
    rl_model* model = nullptr;
    rl_trainer* trainer = nullptr;
  };

  void set(const std::string& key, const std::string& value) {
    call(rl_options_set_text, options_, key.c_str(), key.size(), value.c_str(), value.size());
  }

  Rank make(int number) {
    Rank rank;
    if (number == 0) {
      call(rl_runtime_create, RL_ABI_VERSION, options_, &rank.runtime);
    } else {
      call(rl_runtime_create_rank, ranks_[0].runtime, static_cast<uint32_t>(number), &rank.runtime);
    }
    call(rl_model_open, rank.runtime, options_, RL_USE_TRAIN, &rank.model);
    call(rl_trainer_create, rank.model, options_, &rank.trainer);
    return rank;
  }

  static std::exception_ptr failure_of(const Rank& rank, const Batch& batch) {
    try {
      rl_step step;
      rl_step_init(&step, sizeof step);
      step.batch = batch.get();
      rl_event* event = nullptr;
      call(rl_trainer_step, rank.trainer, &step, &event);
      rl_event_release(event);
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  rl_options* options_ = nullptr;
  std::vector<Rank> ranks_;
};

// Of pairs of steps, one after the other.
double efficiency(const std::string& model, const Size& size) {
  const Batch batch(size);
  Ranks one(model, size, 1, 2), two(model, size, 2, 1);
  one.step(batch);  // memory is touched for the first time
  two.step(batch);
  std::vector<double> ratios;
  for (int i = 0; i < size.steps; ++i) {
    const double alone = one.step(batch), together = two.step(batch);
    std::fprintf(stderr, "ranks_bench: %.2f s with one rank, %.2f s with two\n", alone, together);
    ratios.push_back(alone / together);
  }
  std::ranges::nth_element(ratios, ratios.begin() + size.steps / 2);
  return ratios[static_cast<size_t>(size.steps) / 2];
}

void write(const std::string& path, double value) {
  std::ofstream file(path);
  file << "{\"ranks_efficiency\": {\"unit\": \"of one rank\", \"value\": " << value
       << ", \"at_least\": 0.9}}\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace

int main(int argc, char** argv) {
  return rl::bench::host_program(
      "ranks_bench", argc, argv, [](const std::string& model, const std::string& out, bool quick) {
        write(out, efficiency(model, quick ? Size{4, 16, 1} : Size{4, 512, 5}));
      });
}
