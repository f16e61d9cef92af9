// A training step in which memory runs out between its optimizer steps, at every place of librl.so
// that allocates there: the model is then half-trained. Whatever would compute with it is refused
// with that reason, calls that keep weights work, and after rl_trainer_publish engine and trainer
// agree again.
//
// usage: gate_failed_step MODEL DIRECTORY
#include <algorithm>
#include <filesystem>
#include <utility>
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

int problems = 0;
int after_one = 0;  // refusals after one of two optimizer steps

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("%s\n", what.c_str());
  ++problems;
}

// The host's loss, -A log-prob, which also tells how far the step has come.
struct Loss {
  int asked = 0;
  uintptr_t site = 0;
  Mode mode = Mode::kCount;
  std::vector<gates::Site> before_second;  // sites hit before the second minibatch
};

int32_t loss(void* user_data, const rl_algo_tokens* tokens, const double* weights, double* value,
             double* gradient) {
  Loss& state = *static_cast<Loss*>(user_data);
  for (size_t t = 0; t < tokens->num_tokens; ++t) {
    if (weights[t] == 0) continue;
    gradient[t] = -weights[t] * tokens->advantages[t];
    *value += gradient[t] * tokens->logprobs[t];
  }
  if (++state.asked != 2) return 0;
  state.before_second = gates::allocation_sites();
  gates::arm(state.mode, state.site);
  return 0;
}

struct Parts {
  Parts(const Api& rl, const Place& place)
      : rl(rl),
        host(rl),
        runtime(rl.rl_runtime_destroy),
        model(rl.rl_model_destroy),
        engine(rl.rl_engine_destroy),
        trainer(rl.rl_trainer_destroy),
        pipeline(rl.rl_pipeline_destroy),
        batch(rl.rl_batch_release),
        event(rl.rl_event_release),
        place(place) {
    const std::pair<const char*, std::string> options[] = {
        {"model.path", place.model},        {"runtime.threads", "1"},
        {"engine.max_num_seqs", "4"},       {"engine.max_model_len", "64"},
        {"sampling.max_new_tokens", "4"},   {"pipeline.samples_per_prompt", "2"},
        {"pipeline.prompts_per_step", "1"}, {"trainer.num_minibatches", "2"},
        {"algo.policy_loss", "custom"},     {"optimizer.lr", "1e-2"}};
    CALL(rl_options_create, host.options.out());
    for (const auto& [key, text] : options) host.set(key, text);
    CALL(rl_runtime_create, RL_ABI_VERSION, host.options, runtime.out());
    CALL(rl_model_open, runtime, host.options, RL_USE_PIPELINE, model.out());
    CALL(rl_engine_create, model, host.options, engine.out());
    CALL(rl_trainer_create, model, host.options, trainer.out());
    CALL(rl_trainer_set_loss, trainer, loss, &state, nullptr);
    host.set("pipeline.total_steps", "1");
    CALL(rl_pipeline_create, model, host.options, pipeline.out());
    CALL(rl_pipeline_set_loss, pipeline, loss, &state, nullptr);
  }

  rl_request request() const {
    static const int32_t prompt[20] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
    rl_request made;
    rl.rl_request_init(&made, sizeof made);
    made.prompt = prompt;
    made.num_prompt = 20;  // more than one block, which the engine keeps
    made.num_samples = 2;
    return made;
  }
  void generate() {
    const rl_request wanted = request();
    uint64_t first_id = 0;
    CALL(rl_engine_submit, engine, &wanted, &first_id);
    CALL(rl_engine_run, engine);
    CALL(rl_engine_take, engine, batch.out());
    for (size_t i = 0; i < 2; ++i) {
      const rl_score score = gates::score_of(rl, 0, double(i));
      CALL(rl_batch_score, batch, i, &score, size_t{1});
    }
  }
  std::string step() {
    const rl_step all = gates::step_of(rl, batch);
    return error_text(host, rl.rl_trainer_step, trainer, &all, event.out());
  }
  uint64_t digest() const {
    uint64_t value = 0;
    CALL(rl_model_digest, model, &value);
    return value;
  }
  uint64_t version() const {
    uint64_t value = 0;
    CALL(rl_model_version, model, &value);
    return value;
  }
  double metric(const char* name) const {
    double value = -1;
    CALL(rl_event_metric_named, event, name, RL_NUL_TERMINATED, &value);
    return value;
  }

  const Api& rl;
  Loss state;  // declared before what refers to it
  Host host;
  Handle<rl_runtime> runtime;
  Handle<rl_model> model;
  Handle<rl_engine> engine;
  Handle<rl_trainer> trainer;
  Handle<rl_pipeline> pipeline;
  Handle<rl_batch> batch;
  Handle<rl_event> event;
  const Place place;
};

void expect_half_trained(Parts& p, const std::string& where) {
  const Api& rl = p.rl;
  const Host& host = p.host;
  const auto refused = [&](const char* what, const std::string& text) {
    const std::string name =
        "RL_FAILED_PRECONDITION: the model is half-trained: a training step failed after ";
    const bool one = text.starts_with(name + "1 of 2 optimizer steps");
    const bool both = text.starts_with(name + "2 of 2 optimizer steps");  // failed while packing
    expect(one || both, where + ": " + what + " says \"" + text + "\"");
    after_one += one;
  };
  const rl_request wanted = p.request();
  uint64_t number = 0;
  Handle<rl_tensor> weight(rl.rl_tensor_release), computed(rl.rl_tensor_release);
  const char* const name = "model.norm.weight";
  const rl_tensor_request copy = gates::copy_request(rl);
  CALL(rl_model_weight, p.model, name, RL_NUL_TERMINATED, &copy, weight.out());
  const rl_weight norm = gates::weight_of(rl, name, weight);
  refused("rl_engine_submit", error_text(host, rl.rl_engine_submit, p.engine, &wanted, &number));
  refused("rl_engine_step", error_text(host, rl.rl_engine_step, p.engine));
  refused("rl_trainer_step", p.step());
  for (const int32_t output : {RL_OUTPUT_LOGPROBS, RL_OUTPUT_HIDDEN}) {
    const rl_forward forward = gates::forward_of(rl, output, wanted.prompt, 2);
    refused("rl_trainer_forward",
            error_text(host, rl.rl_trainer_forward, p.trainer, &forward, computed.out()));
  }
  refused("rl_pipeline_start", error_text(host, rl.rl_pipeline_start, p.pipeline));
  refused("rl_model_set_weights",
          error_text(host, rl.rl_model_set_weights, p.model, &norm, size_t{1},
                     static_cast<void*>(nullptr), uint64_t{0}, &number));
  const std::string saved = p.place.dir + "/saved";
  CALL(rl_model_save, p.model, saved.c_str(), saved.size(), RL_DTYPE_F32, RL_SAVE_REPLACE);
}

// Engine and trainer agree on the current weights.
void expect_agreement(Parts& p, const std::string& where) {
  p.state = {};
  p.generate();
  const std::string error = p.step();
  expect(error.empty(), where + ": after the publication rl_trainer_step says " + error);
  if (!error.empty()) return;
  const double difference = p.metric("training/logprob_max_abs_diff");
  expect(difference == 0, where + ": log-probs differ by " + std::to_string(difference));
  expect(p.metric("training/logprob_compared_tokens") > 0, where + ": no log-prob was compared");
}

void check_failed(Parts& p, uint64_t digest_before, const std::string& where) {
  const Api& rl = p.rl;
  const Host& host = p.host;
  const uint64_t moved = p.digest();
  expect(moved != digest_before, where + ": the first optimizer step moved nothing");
  expect(p.version() == 0, where + ": the version is " + std::to_string(p.version()));
  expect_half_trained(p, where);
  uint64_t version = 0;
  CALL(rl_trainer_publish, p.trainer, &version);
  expect(version == 1 && p.version() == 1, where + ": published as " + std::to_string(version));
  expect(p.digest() == moved, where + ": the publication moved weights");
  expect_agreement(p, where);
}

// Sites that a step hits after its first optimizer step.
std::vector<uintptr_t> sites(const Api& rl, const Place& place) {
  Parts p(rl, place);
  p.generate();
  const std::string error = p.step();
  if (!error.empty()) throw Failure{RL_INTERNAL, "rl_trainer_step", error};
  std::vector<uintptr_t> out;
  for (const gates::Site& now : gates::allocation_sites()) {
    const auto same = [&](const gates::Site& old) {
      return old.offset == now.offset && old.hits == now.hits;
    };
    if (std::ranges::none_of(p.state.before_second, same)) out.push_back(now.offset);
  }
  return out;
}

bool try_site(const Api& rl, const Place& place, uintptr_t site, Mode mode) {
  Parts p(rl, place);
  p.generate();
  const uint64_t before = p.digest();
  p.state.site = site;
  p.state.mode = mode;
  const std::string error = p.step();
  gates::disarm();
  char where[64];
  std::snprintf(where, sizeof where, "+0x%lx failing %s", site,
                mode == Mode::kFailOnce ? "once" : "from then on");
  if (error.empty()) return false;  // site not reached again, or its failure tolerated
  expect(error.starts_with("RL_OUT_OF_MEMORY"), std::string(where) + ": the step says " + error);
  if (p.version() != 0) return false;  // the step was done, but there was no memory for its metrics
  check_failed(p, before, where);
  return true;
}

// The same in a pipeline; another trainer of the model publishes.
void try_pipeline(const Api& rl, const Place& place, uintptr_t site) {
  Parts p(rl, place);
  const Host& host = p.host;
  p.generate();
  const uint64_t before = p.digest();
  p.state.site = site;
  p.state.mode = Mode::kFailFromThen;
  CALL(rl_pipeline_start, p.pipeline);
  static const int32_t ids[] = {1, 2, 3};
  const rl_feed_row row = gates::row_of(rl, ids, 3);
  CALL(rl_pipeline_feed, p.pipeline, &row, int64_t{0});
  std::string error;
  while (error.empty()) {
    error = error_text(host, rl.rl_pipeline_next, p.pipeline, int64_t{-1}, p.event.out());
    if (!error.empty() || rl.rl_event_kind(p.event) != RL_EVENT_SCORE) continue;
    rl_sample_view sample;
    rl.rl_sample_view_init(&sample, sizeof sample);
    CALL(rl_event_sample, p.event, 0, &sample);
    const rl_score score = gates::score_of(rl, sample.sample_id, double(sample.slot));
    CALL(rl_pipeline_score, p.pipeline, &score, size_t{1}, static_cast<rl_status*>(nullptr));
  }
  gates::disarm();
  expect(error.starts_with("RL_OUT_OF_MEMORY"), "the pipeline says " + error);
  CALL(rl_pipeline_create, p.model, host.options, p.pipeline.out());
  CALL(rl_pipeline_set_loss, p.pipeline, loss, &p.state, nullptr);
  check_failed(p, before, "a failed pipeline");
}

int run(const Place& place) {
  std::filesystem::create_directories(place.dir);
  const Api rl = gates::linked_api();
  if (!gates::watch_library_of(reinterpret_cast<const void*>(rl.rl_abi_version))) {
    std::printf("skipped: the library has no symbols\n");
    return 0;
  }
  const std::vector<uintptr_t> all = sites(rl, place);
  size_t failed = 0;
  uintptr_t one = 0;
  for (const uintptr_t site : all) {
    for (const Mode mode : {Mode::kFailOnce, Mode::kFailFromThen}) {
      if (!try_site(rl, place, site, mode)) continue;
      ++failed;
      one = site;
    }
  }
  if (one != 0) try_pipeline(rl, place, one);
  std::printf("%zu sites after the first optimizer step, %zu failed steps, %d problems\n",
              all.size(), failed, problems);
  return problems == 0 && after_one > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return gates::reported([&] { return run({argv[1], argv[2]}); });
}
