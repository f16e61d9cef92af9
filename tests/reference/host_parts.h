// The parts of a host's own loop on a device, and what they tell, so that tests can compare two
// devices or two sets of options.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "core/hash.h"
#include "pipeline/config/run_options.h"
#include "pipeline/host_batch.h"
#include "pipeline/host_model.h"
#include "pipeline/scenarios.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/session/weight_tensors.h"

namespace rl::testing {

inline RuntimeSeams seams_of(const Device& device) {
  RuntimeSeams seams;
  seams.executor = make_thread_executor(1);
  seams.device = &device;
  return seams;
}

// Runtime, model, engine and trainer of a host's own loop, and what they tell.
class Parts {
 public:
  Parts(const Device& device, const Texts& texts) : options(host_options(dir_, texts)) {
    auto runtime = std::make_shared<Runtime>(options, seams_of(device));
    model = LoadedModel::open(std::move(runtime), options, PlanUse::kParts);
    engine = std::make_unique<EngineSession>(model, options);
    trainer = std::make_shared<TrainerSession>(model, options);
  }
  void tell(const std::string& what) { told += what + "\n"; }
  void tell_bits(const char* what, const Tensor& t) {
    told +=
        str(what, " ", hex64(digest64({static_cast<const char*>(t.data()), t.num_bytes()})), "\n");
  }
  void tell_digest() { tell(str("weights ", hex64(model->weight_digest()))); }
  std::string file(const std::string& name) const { return dir_.file(name); }

  void sample() {
    Request r = request_from(options);
    r.prompt = {1, 2, 3, 4};
    r.num_samples = 3;
    engine->submit(r);
    engine->run();
    for (const SamplePtr& s : engine->take_finished()) {
      for (const int32_t id : s->ids) told += str(" ", id);
      for (const float p : s->logprobs) told += str(" ", std::bit_cast<uint32_t>(p));
    }
    tell("");
  }
  void step() { tell(trainer->step(host_batch(*trainer)).without_times().to_json()); }
  // The host doubles the gradients between the two halves.
  void step_by_halves() {
    const std::vector<SamplePtr> batch = host_batch(*trainer);
    std::vector<SampleRewards> rewards;
    for (const SamplePtr& s : batch) rewards.push_back(rewards_of(*s));
    trainer->backward({batch, rewards, {}, {}});
    const TensorPtr all = TrainerSession::gradient(trainer, "");
    auto* const values = static_cast<float*>(const_cast<void*>(all->data()));
    for (int64_t i = 0; i < all->num_elements(); ++i) values[i] *= 2;
    tell_bits("copy of a gradient", *trainer->copy_gradient(kNorm));
    tell_bits("gradients", *TrainerSession::gradient(trainer, ""));
    tell(trainer->apply().without_times().to_json());
  }
  void set_norm() {
    const TensorPtr now = copy_weight(*model, kNorm);
    const OwnedTensor made = make_tensor(ElementType::kF32, now->shape());
    for (int64_t i = 0; i < now->num_elements(); ++i) {
      reinterpret_cast<float*>(made.data)[i] = 1.5f * static_cast<const float*>(now->data())[i];
    }
    tell(str("version ", set_weights(*model, std::vector<NamedTensor>{{kNorm, made.tensor}})));
    tell_bits("set", *lend_weight(model, kNorm));
  }
  void forwards() {
    const std::vector<SamplePtr> batch = host_batch(*trainer);
    const std::vector<uint64_t> rows = {39, 0, 7};
    for (const ForwardOutput output : {ForwardOutput::kLogprobs, ForwardOutput::kEntropies,
                                       ForwardOutput::kHidden, ForwardOutput::kLogits}) {
      tell_bits("output", *trainer->forward({output, batch}));
      if (!is_per_token(output)) tell_bits("rows", *trainer->forward({output, batch, rows}));
    }
  }

  static constexpr const char* kNorm = "model.norm.weight";

 private:
  const TempDir dir_;

 public:
  OptionSet options;
  std::shared_ptr<LoadedModel> model;
  std::unique_ptr<EngineSession> engine;
  std::shared_ptr<TrainerSession> trainer;
  std::string told;
};

inline std::string story_of(const Device& device, const Texts& texts) {
  Parts parts(device, texts);
  parts.sample();
  parts.step();
  parts.trainer->publish();
  parts.sample();
  parts.engine->sleep(2);
  parts.engine->wake();
  parts.sample();
  parts.step_by_halves();
  parts.trainer->publish();
  parts.tell_digest();
  parts.set_norm();
  parts.sample();
  parts.forwards();
  parts.step();
  parts.trainer->publish();
  parts.trainer->save({parts.file("c"), "row 17", 0, false});
  parts.step();
  parts.trainer->publish();
  parts.tell_digest();
  parts.trainer->load(parts.file("c"));
  parts.tell_digest();
  parts.step();
  parts.model->save(parts.file("model"), Dtype::kBf16, false);
  return parts.told;
}

}  // namespace rl::testing
