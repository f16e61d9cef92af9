// What a call takes out of the library stays in it if memory runs out during the call: finished
// samples of rl_engine_take, groups of rl_buffer_take, events of rl_pipeline_next. Each place of
// librl.so that allocates in the call fails once, including the handle table; the next call
// returns everything.
//
// usage: gate_nothing_lost MODEL
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gates/alloc_hooks.h"
#include "gates/linked_api.h"
#include "gates/scenario_host.h"

namespace {

using gates::Api;
using gates::Failure;
using gates::Handle;
using gates::Host;
using gates::Mode;

constexpr size_t kSpareHandles = 64;  // more than a world has handles

int problems = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("%s\n", what.c_str());
  ++problems;
}

struct World {
  World(const Api& rl, const std::string& path)
      : rl(rl),
        host(rl),
        runtime(rl.rl_runtime_destroy),
        model(rl.rl_model_destroy),
        engine(rl.rl_engine_destroy),
        buffer(rl.rl_buffer_destroy),
        pipeline(rl.rl_pipeline_destroy),
        queue(rl.rl_event_queue_release),
        batch(rl.rl_batch_release),
        event(rl.rl_event_release) {
    const std::pair<const char*, std::string> options[] = {{"model.path", path},
                                                           {"runtime.threads", "1"},
                                                           {"engine.max_num_seqs", "4"},
                                                           {"engine.max_model_len", "64"},
                                                           {"sampling.max_new_tokens", "4"},
                                                           {"pipeline.samples_per_prompt", "2"},
                                                           {"pipeline.prompts_per_step", "1"}};
    CALL(rl_options_create, host.options.out());
    for (const auto& [key, text] : options) host.set(key, text);
    CALL(rl_runtime_create, RL_ABI_VERSION, host.options, runtime.out());
    CALL(rl_model_open, runtime, host.options, RL_USE_PIPELINE, model.out());
    CALL(rl_engine_create, model, host.options, engine.out());
    CALL(rl_buffer_create, host.options, uint64_t{4}, buffer.out());
  }
  void generate() {
    static const int32_t prompt[] = {1, 2, 3};
    rl_request request;
    uint64_t first_id = 0;
    rl.rl_request_init(&request, sizeof request);
    request.prompt = prompt;
    request.num_prompt = 3;
    request.num_samples = 2;
    CALL(rl_engine_submit, engine, &request, &first_id);
    CALL(rl_engine_run, engine);
  }
  void fill_buffer() {
    generate();
    CALL(rl_engine_take, engine, batch.out());
    for (size_t i = 0; i < 2; ++i) {
      const rl_score score = gates::score_of(rl, 0, double(i));
      CALL(rl_batch_score, batch, i, &score, size_t{1});
    }
    CALL(rl_buffer_put_batch, buffer, batch);
  }
  // Two events wait, and the loop waits for their rewards.
  void start_pipeline() {
    static const int32_t ids[] = {1, 2, 3};
    host.set("pipeline.total_steps", "1");
    CALL(rl_pipeline_create, model, host.options, pipeline.out());
    CALL(rl_pipeline_queue, pipeline, queue.out());
    CALL(rl_pipeline_start, pipeline);
    const rl_feed_row row = gates::row_of(rl, ids, 3);
    CALL(rl_pipeline_feed, pipeline, &row, int64_t{0});
    rl_pipeline_stats stats;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      rl.rl_pipeline_stats_init(&stats, sizeof stats);
      CALL(rl_pipeline_get_stats, pipeline, &stats);
    } while (stats.state != RL_STATE_SCORING || rl.rl_event_queue_size(queue) < 2);
  }
  // Uses up the free handles, so that the next handle needs a new slot in the table: slots of
  // earlier worlds are reused and these are kept.
  void use_free_handles() {
    static std::vector<std::unique_ptr<Handle<rl_options>>> spare;
    for (size_t i = 0; i < kSpareHandles; ++i) {
      spare.push_back(std::make_unique<Handle<rl_options>>(rl.rl_options_destroy));
      CALL(rl_options_create, spare.back()->out());
    }
  }
  size_t events() {
    size_t count = 0;
    while (CALL(rl_pipeline_next, pipeline, int64_t{0}, event.out()) == RL_OK) ++count;
    return count;
  }

  const Api& rl;
  Host host;
  Handle<rl_runtime> runtime;
  Handle<rl_model> model;
  Handle<rl_engine> engine;
  Handle<rl_buffer> buffer;
  Handle<rl_pipeline> pipeline;
  Handle<rl_event_queue> queue;
  Handle<rl_batch> batch;
  Handle<rl_event> event;
};

struct Case {
  const char* name;
  size_t whole;  // how much there is to take
  void (*prepare)(World&);
  size_t (*take)(World&);  // one call; returns how much it took; throws Failure
  size_t (*rest)(World&);  // what later calls return
};

size_t take_engine(World& w) {
  const Api& rl = w.rl;
  const Host& host = w.host;
  CALL(rl_engine_take, w.engine, w.batch.out());
  return rl.rl_batch_count(w.batch);
}
size_t take_buffer(World& w) {
  const Api& rl = w.rl;
  const Host& host = w.host;
  CALL(rl_buffer_take, w.buffer, nullptr, int64_t{0}, w.batch.out());
  return rl.rl_batch_count(w.batch);
}
size_t next_event(World& w) {
  const Api& rl = w.rl;
  const Host& host = w.host;
  return CALL(rl_pipeline_next, w.pipeline, int64_t{0}, w.event.out()) == RL_OK;
}
size_t nothing(World&) { return 0; }

constexpr Case kCases[] = {
    {"rl_engine_take", 2, [](World& w) { w.generate(); }, take_engine, nothing},
    {"rl_buffer_take", 2, [](World& w) { w.fill_buffer(); }, take_buffer, nothing},
    {"rl_pipeline_next", 2, [](World& w) { w.start_pipeline(); }, next_event,
     [](World& w) { return w.events(); }},
};

std::vector<uintptr_t> sites(const Api& rl, const std::string& model, const Case& one) {
  World w(rl, model);
  one.prepare(w);
  w.use_free_handles();
  const auto before = gates::allocation_sites();
  one.take(w);
  std::vector<uintptr_t> out;
  for (const gates::Site& now : gates::allocation_sites()) {
    bool same = false;
    for (const gates::Site& old : before) same |= old.offset == now.offset && old.hits == now.hits;
    if (!same) out.push_back(now.offset);
  }
  return out;
}

// Returns whether the call failed.
bool try_site(const Api& rl, const std::string& model, const Case& one, uintptr_t site) {
  World w(rl, model);
  one.prepare(w);
  w.use_free_handles();
  bool failed = false;
  gates::arm(Mode::kFailOnce, site);
  size_t taken = 0;
  try {
    taken = one.take(w);
  } catch (const Failure& failure) {
    failed = true;
    expect(failure.status == RL_OUT_OF_MEMORY, std::string(one.name) + " says " + failure.text);
  }
  gates::disarm();
  if (failed) taken = one.take(w);
  taken += one.rest(w);
  char where[32];
  std::snprintf(where, sizeof where, " at +0x%lx", site);
  expect(taken == one.whole, std::string(one.name) + where + ": " + std::to_string(taken) + " of " +
                                 std::to_string(one.whole) + " came");
  return failed;
}

int run(const std::string& model) {
  const Api rl = gates::linked_api();
  if (!gates::watch_library_of(reinterpret_cast<const void*>(rl.rl_abi_version))) {
    std::printf("skipped: the library has no symbols\n");
    return 0;
  }
  for (const Case& one : kCases) {
    size_t failed = 0;
    const std::vector<uintptr_t> all = sites(rl, model, one);
    for (const uintptr_t site : all) failed += try_site(rl, model, one, site);
    std::printf("%s: %zu sites, %zu failed calls\n", one.name, all.size(), failed);
    expect(failed > 0, std::string(one.name) + " never failed");
  }
  return problems == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return gates::reported([&] { return run(argv[1]); });
}
