// Setting weights, with an engine awake or asleep, and loading a checkpoint, while memory runs out
// at every place of librl.so that allocates there. Afterwards the model has its old weights, or
// those of a completed load, or is reported as half-trained; once published it works again.
// Computation always agrees with the weights that the model would save.
//
// usage: gate_failed_weights MODEL DIRECTORY
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "gates/alloc_hooks.h"
#include "gates/linked_api.h"
#include "gates/scenario_host.h"

namespace {

using gates::Api;
using gates::error_text;
using gates::Failure;
using gates::Handle;
using gates::Host;
using gates::Mode;
using gates::Place;

constexpr int32_t kIds[20] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                              11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
using Logprobs = std::array<float, std::size(kIds) - 1>;

int problems = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("%s\n", what.c_str());
  ++problems;
}

// A model with an engine that keeps a prompt, and a trainer.
struct Parts {
  Parts(const Api& rl, const Place& place, const std::string& model_path)
      : rl(rl),
        host(rl),
        runtime(rl.rl_runtime_destroy),
        model(rl.rl_model_destroy),
        engine(rl.rl_engine_destroy),
        trainer(rl.rl_trainer_destroy),
        run(rl),
        pipeline(rl.rl_pipeline_destroy),
        batch(rl.rl_batch_release),
        norm(rl.rl_tensor_release),
        place(place) {
    gates::small_options(rl, host, place);
    gates::grpo_options(rl, run, place);
    host.set("model.path", model_path);
    for (Host* options : {&host, &run}) options->set("runtime.threads", "1");
    CALL(rl_runtime_create, RL_ABI_VERSION, host.options, runtime.out());
    CALL(rl_model_open, runtime, host.options, RL_USE_PIPELINE, model.out());
    CALL(rl_engine_create, model, host.options, engine.out());
    CALL(rl_trainer_create, model, host.options, trainer.out());
    const rl_tensor_request copy = gates::copy_request(rl);
    CALL(rl_model_weight, model, "model.layers.0.input_layernorm.weight", RL_NUL_TERMINATED, &copy,
         norm.out());
  }
  uint64_t digest() const {
    uint64_t value = 0;
    CALL(rl_model_digest, model, &value);
    return value;
  }
  Logprobs logprobs() const {
    const rl_forward forward = gates::forward_of(rl, RL_OUTPUT_LOGPROBS, kIds, std::size(kIds));
    Handle<rl_tensor> computed(rl.rl_tensor_release);
    CALL(rl_trainer_forward, trainer, &forward, computed.out());
    rl_tensor_info info;
    rl.rl_tensor_info_init(&info, sizeof info);
    CALL(rl_tensor_get_info, computed, &info);
    Logprobs out;
    std::memcpy(out.data(), info.data, out.size() * sizeof(float));
    return out;
  }

  const Api& rl;
  Host host;
  Handle<rl_runtime> runtime;
  Handle<rl_model> model;
  Handle<rl_engine> engine;
  Handle<rl_trainer> trainer;
  Host run;  // with the options of a run that resumes from a checkpoint
  Handle<rl_pipeline> pipeline;
  Handle<rl_batch> batch;
  Handle<rl_tensor> norm;  // values for another weight
  const Place place;
};

// A change of weights to try, with what precedes and follows it.
struct Change {
  const char* name;
  bool may_stay;  // a failure after the change leaves it in place
  void (*prepare)(Parts&);
  std::string (*apply)(Parts&);
  void (*conclude)(Parts&);
};

void nothing(Parts&) {}

std::string set_weights(Parts& p) {
  const rl_weight weight = gates::weight_of(p.rl, "model.norm.weight", p.norm);
  uint64_t version = 0;
  return error_text(p.host, p.rl.rl_model_set_weights, p.model, &weight, size_t{1},
                    static_cast<void*>(nullptr), uint64_t{0}, &version);
}

void sleep(Parts& p) {
  const Api& rl = p.rl;
  const Host& host = p.host;
  CALL(rl_engine_sleep, p.engine, 2);
}

void wake(Parts& p) {
  const Api& rl = p.rl;
  const Host& host = p.host;
  CALL(rl_engine_wake, p.engine);
}

std::string load(Parts& p) {
  return error_text(p.run, p.rl.rl_pipeline_create, p.model, p.run.options, p.pipeline.out());
}

constexpr Change kChanges[] = {{"rl_model_set_weights", false, nothing, set_weights, nothing},
                               {"rl_model_set_weights asleep", false, sleep, set_weights, wake},
                               {"a checkpoint", true, nothing, load, nothing}};

// A model opened from what this one saves computes the same.
void expect_consistent(Parts& p, const std::string& where) {
  const Api& rl = p.rl;
  const Host& host = p.host;
  const std::string saved = p.place.dir + "/saved";
  CALL(rl_model_save, p.model, saved.c_str(), saved.size(), RL_DTYPE_F32, RL_SAVE_REPLACE);
  const Parts again(rl, p.place, saved);
  expect(again.digest() == p.digest(), where + ": other weights are saved");
  expect(again.logprobs() == p.logprobs(), where + ": log-probs are not those of the weights");
}

// Engine and trainer agree: the trainer refuses log-probs of other weights than its own.
void expect_agreement(Parts& p, const std::string& where) {
  const Api& rl = p.rl;
  const Host& host = p.host;
  Handle<rl_event> step(rl.rl_event_release);
  gates::generate(rl, host, p.engine, p.batch, kIds);
  for (size_t i = 0; i < 2; ++i) {
    const rl_score score = gates::score_of(rl, 0, double(i));
    CALL(rl_batch_score, p.batch, i, &score, size_t{1});
  }
  const rl_step all = gates::step_of(rl, p.batch);
  const std::string error = error_text(host, rl.rl_trainer_step, p.trainer, &all, step.out());
  expect(error.empty(), where + ": rl_trainer_step says " + error);
  double compared = 0;
  if (!error.empty()) return;
  CALL(rl_event_metric_named, step, "training/logprob_compared_tokens", RL_NUL_TERMINATED,
       &compared);
  expect(compared > 0, where + ": no log-prob was compared");
}

struct State {
  uint64_t digest;
  Logprobs logprobs;
  bool operator==(const State&) const = default;
};
State state_of(const Parts& p) { return {p.digest(), p.logprobs()}; }

enum class Outcome { kAsBefore, kAsAfter, kHalfTrained };

// Either intact, with the old or the new weights, or reported as half-trained until a publication.
Outcome check_failed(Parts& p, const State& before, const State& after, const std::string& where) {
  const Api& rl = p.rl;
  const Host& host = p.host;
  const rl_forward forward = gates::forward_of(rl, RL_OUTPUT_LOGPROBS, kIds, std::size(kIds));
  Handle<rl_tensor> computed(rl.rl_tensor_release);
  const std::string error =
      error_text(host, rl.rl_trainer_forward, p.trainer, &forward, computed.out());
  if (error.empty()) {
    const State now = state_of(p);
    expect(now == before || now == after, where + ": the model is whole, but another");
    return now == before ? Outcome::kAsBefore : Outcome::kAsAfter;
  }
  expect(error.starts_with(
             "RL_FAILED_PRECONDITION: the model is half-trained: setting its weights failed"),
         where + ": rl_trainer_forward says " + error);
  uint64_t version = 0;
  CALL(rl_trainer_publish, p.trainer, &version);
  return Outcome::kHalfTrained;
}

struct Counts {
  size_t failed = 0, half_trained = 0;
};

void try_site(const Api& rl, const Place& place, const Change& change, uintptr_t site, Mode mode,
              const State& after, Counts& counts) {
  char at[64];
  std::snprintf(at, sizeof at, "+0x%lx failing %s", site,
                mode == Mode::kFailOnce ? "once" : "from then on");
  const std::string where = std::string(change.name) + ", " + at;
  Parts p(rl, place, place.model);
  gates::generate(rl, p.host, p.engine, p.batch, kIds);
  const State before = state_of(p);
  change.prepare(p);
  gates::arm(mode, site);
  const std::string error = change.apply(p);
  const bool hit = gates::disarm();
  change.conclude(p);
  if (error.empty()) {
    if (hit) expect(state_of(p) == after, where + ": it worked, but otherwise");
    return;
  }
  ++counts.failed;
  const bool memory =
      error.starts_with("RL_OUT_OF_MEMORY") || error.starts_with("RL_RESOURCE_EXHAUSTED");
  expect(memory, where + ": it says " + error);
  const Outcome outcome = check_failed(p, before, after, where);
  expect(outcome != Outcome::kAsAfter || change.may_stay,
         where + ": it failed, but changed the weights");
  if (outcome == Outcome::kAsBefore) return;
  counts.half_trained += outcome == Outcome::kHalfTrained;
  expect_consistent(p, where);
  const std::string again = change.apply(p);
  expect(again.empty(), where + ": tried again, it says " + again);
  expect(state_of(p) == after, where + ": tried again, the weights are others");
  p.pipeline.out();
  expect_agreement(p, where);
}

// Returns the sites that the change hits, and sets the state it leads to.
std::vector<uintptr_t> sites(const Api& rl, const Place& place, const Change& change,
                             State& after) {
  Parts p(rl, place, place.model);
  const State before = state_of(p);
  change.prepare(p);
  const auto first = gates::allocation_sites();
  const std::string error = change.apply(p);
  if (!error.empty()) throw Failure{RL_INTERNAL, change.name, error};
  std::vector<uintptr_t> out;
  for (const gates::Site& now : gates::allocation_sites()) {
    const auto same = [&](const gates::Site& old) {
      return old.offset == now.offset && old.hits == now.hits;
    };
    if (std::ranges::none_of(first, same)) out.push_back(now.offset);
  }
  change.conclude(p);
  after = state_of(p);
  expect(after.digest != before.digest && after.logprobs != before.logprobs,
         std::string(change.name) + ": it changes nothing");
  return out;
}

int run(const Place& place) {
  gates::prepare(place);
  const Api rl = gates::linked_api();
  if (!gates::watch_library_of(reinterpret_cast<const void*>(rl.rl_abi_version))) {
    std::printf("skipped: the library has no symbols\n");
    return 0;
  }
  gates::run_grpo(rl, place);  // leaves checkpoints
  size_t half_trained = 0;
  for (const Change& change : kChanges) {
    State after{};
    Counts counts;
    const std::vector<uintptr_t> all = sites(rl, place, change, after);
    for (const uintptr_t site : all) {
      for (const Mode mode : {Mode::kFailOnce, Mode::kFailFromThen}) {
        try_site(rl, place, change, site, mode, after, counts);
      }
    }
    std::printf("%s: %zu sites, %zu failures, %zu times half-trained, %d problems\n", change.name,
                all.size(), counts.failed, counts.half_trained, problems);
    std::fflush(stdout);
    expect(counts.failed > 0, std::string(change.name) + ": no place was tried");
    half_trained += counts.half_trained;
  }
  expect(half_trained > 0, "nothing failed half-way");
  return problems == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return gates::reported([&] { return run({argv[1], argv[2]}); });
}
