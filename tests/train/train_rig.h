// A fixture model with a trainer on it, and samples made of given or random tokens.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "formats/open/open_weight_source.h"
#include "support/compare_values.h"
#include "support/tiny_model.h"
#include "train/optimizer/shards.h"
#include "train/passes/row_teacher.h"
#include "train/trainer.h"

namespace rl::testing {

struct RigOptions {
  std::string model = "llama";  // a fixture, or the path of a model file
  Dtype compute = Dtype::kF32;
  int threads = 1;
  bool with_reference = false;  // a second, frozen copy of the model
  std::string teacher = {};     // a fixture or a path, for whole rows; empty: none
  int64_t slice_width = 0;      // of the model's packed matrices; 0: what it takes
  const Device& device = cpu_device();
  DataRanks ranks = {};
  ContextRanks context = {};
  MasterRanks master_ranks = {};  // the same as `ranks`, for stage 3 of ZeRO
  TensorSplit split = {};
  TensorRanks tensor = {};
  StageCut cut = {};
  StageRanks stages = {};
  const WeightSource* source = nullptr;  // in place of `model`
};

// A scalar head that tells rows apart, in place of zeros.
inline void fill_head(Model& model, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, 0.2f);
  std::vector<float> head(static_cast<size_t>(model.config().hidden));
  for (float& value : head) value = normal(rng);
  model.held_masters().part(model.layout().head(), model.config().hidden).write(head);
  model.publish();
}

// What a rank has of the masters of a model in this file.
inline MasterCut cut_of(const WeightSource& source, const RigOptions& rig,
                        const StepOptions& options) {
  const ModelConfig whole = with_split(source.config(), rig.split);
  const ModelConfig config = with_stage(whole, rig.cut, rig.stages.rank());
  const WeightLayout layout(config, options.trainable);
  return master_cut(layout, options.optimizer, rig.master_ranks.rank());
}

// All masters of a model, of which ranks may have parts.
inline std::vector<float> all_masters(const Model& model, const DataRanks& ranks) {
  const MasterFloats held = model.held_masters();
  const DataRanks group = ranks.dividing();
  std::vector<float> values(static_cast<size_t>(model.layout().total()));
  for (const Parameter& p : model.layout().parameters()) {
    if (!held.has(p.offset)) continue;
    if (held.divided() && !held.divides(p.offset) && group.rank() != 0) continue;
    const auto first = static_cast<size_t>(p.offset), size = static_cast<size_t>(p.size);
    held.part(p.offset, p.size).read(std::span(values).subspan(first, size));
  }
  if (held.divided()) group.fill(values);
  return values;
}

class TrainRig {
 public:
  static std::string path_of(const std::string& model) {
    return model.starts_with('/') ? model : TinyModel::fixture(model);
  }
  static ModelHead head_of(Objective objective) {
    return objective == Objective::kRewardModel ? ModelHead::kScalar : ModelHead::kLogits;
  }
  TrainRig(const RigOptions& rig, const TrainerOptions& options)
      : ranks(rig.ranks),
        context(rig.context),
        opened(rig.source != nullptr
                   ? nullptr
                   : open_weight_source(real_fs(), path_of(rig.model), head_of(options.objective))),
        tiny(rig.source != nullptr ? *rig.source : *opened,
             {make_thread_executor(rig.threads), rig.device}, rig.compute,
             ModelOptions{
                 .block_size = 16,
                 .slice_width = rig.slice_width,
                 .split = rig.split,
                 .tensor = rig.tensor,
                 .cut = rig.cut,
                 .stages = rig.stages,
                 .masters = cut_of(rig.source != nullptr ? *rig.source : *opened, rig, options),
                 .master_ranks = rig.master_ranks}) {
    opened.reset();
    if (rig.with_reference) reference = frozen(rig.model, rig);
    if (!rig.teacher.empty()) teacher = frozen(rig.teacher, {});
    rebuild(options);
  }
  // A new trainer, without moments, on the model as it is.
  void rebuild(const TrainerOptions& options) {
    trainer.reset();
    const int threads = tiny.compute->num_threads();
    sizes = Trainer::plan(model().config(), model().kv_shape(), options, threads,
                          tiny.compute->device());
    uint64_t bytes = sizes.workspace, kept_offset = 0;
    if (teacher != nullptr) {
      const TrainShape shape{teacher->config(), teacher->kv_shape(), threads};
      kept_offset = std::max(bytes, RowTeacher::forward_bytes(shape, options)) / 64 * 64 + 64;
      bytes = kept_offset + RowTeacher::kept_bytes(shape, options);
    }
    workspace = Arena("test workspace", bytes, Touch::kNow, place_on(*tiny.compute));
    fill_bytes(*tiny.compute, workspace, 0x7f);  // large floats: nothing may rely on zeros
    host_workspace = Arena("test host workspace", sizes.host_workspace);
    trainer = std::make_unique<Trainer>(
        model(), reference.get(), options, workspace.data(),
        TrainerTools{.host_workspace = host_workspace.data(), .ranks = ranks, .context = context});
    if (teacher == nullptr) return;
    row_teacher.emplace(*teacher, options,
                        RowTeacher::Memory{workspace.data(), workspace.data() + kept_offset},
                        PassContext{nullptr, 0, &real_clock()}, model().tensor_ranks());
    trainer->set_row_teacher(&*row_teacher);
  }
  Model& model() { return *tiny.model; }
  std::vector<float> masters() {
    if (model().master_cut().divides()) return all_masters(model(), ranks);
    return values_on(*tiny.compute, model().master(), model().layout().total());
  }
  std::vector<float> gradients() {
    std::vector<float> all(static_cast<size_t>(trainer->layout().gradient_total()));
    trainer->read_gradients(all);
    return all;
  }

  const DataRanks ranks;
  const ContextRanks context;
  std::unique_ptr<WeightSource> opened;  // until the model is loaded
  TinyModel tiny;
  std::unique_ptr<Model> reference, teacher;
  std::optional<RowTeacher> row_teacher;
  Arena workspace, host_workspace;
  TrainerSizes sizes;
  std::unique_ptr<Trainer> trainer;

 private:
  std::unique_ptr<Model> frozen(const std::string& name, const RigOptions& rig) {
    ModelOptions model_options;
    model_options.block_size = tiny.model->block_size();
    model_options.cut = rig.cut;
    model_options.stages = rig.stages;
    return std::make_unique<Model>(*open_weight_source(real_fs(), path_of(name)), *tiny.compute,
                                   model_options);
  }
};

inline Sample make_sample(std::vector<int32_t> ids, int32_t prompt_tokens, uint64_t ordinal,
                          uint32_t slot) {
  Sample s;
  s.id = 100 * ordinal + slot + 1;
  s.ordinal = ordinal;
  s.slot = slot;
  s.ids = std::move(ids);
  s.prompt_tokens = prompt_tokens;
  const auto generated = static_cast<size_t>(s.generated());
  s.logprobs.assign(generated, -1.0f);
  s.versions.assign(generated, 0);
  s.loss_mask.assign(generated, 1);
  return s;
}

// Groups of four with prompts of 2 to 20 tokens and responses of 1 to 30; some tokens carry no
// loss.
inline std::vector<Sample> random_samples(int count, int64_t vocab, unsigned seed,
                                          float temperature = 1.0f) {
  std::mt19937 rng(seed);
  std::vector<Sample> out;
  for (int i = 0; i < count; ++i) {
    const auto prompt = static_cast<int32_t>(2 + rng() % 19);
    std::vector<int32_t> ids(static_cast<size_t>(prompt) + 1 + rng() % 30);
    for (auto& id : ids) id = static_cast<int32_t>(rng() % static_cast<unsigned>(vocab));
    out.push_back(make_sample(std::move(ids), prompt, static_cast<uint64_t>(i / 4),
                              static_cast<uint32_t>(i % 4)));
    out.back().temperature = temperature;
    for (auto& mask : out.back().loss_mask) mask = rng() % 8 != 0;
  }
  return out;
}

// A chosen and a rejected response to each prompt.
inline std::vector<Sample> random_pairs(int count, int64_t vocab, unsigned seed) {
  std::mt19937 rng(seed);
  const auto some = [&](size_t tokens) {
    std::vector<int32_t> ids(tokens);
    for (int32_t& id : ids) id = static_cast<int32_t>(rng() % static_cast<unsigned>(vocab));
    return ids;
  };
  std::vector<Sample> out;
  for (int i = 0; i < count; ++i) {
    const std::vector<int32_t> prompt = some(2 + rng() % 18);
    for (uint32_t slot = 0; slot < 2; ++slot) {
      std::vector<int32_t> ids = prompt;
      for (const int32_t id : some(1 + rng() % 30)) ids.push_back(id);
      out.push_back(make_sample(std::move(ids), static_cast<int32_t>(prompt.size()),
                                static_cast<uint64_t>(i), slot));
    }
  }
  return out;
}

// Stores the model's own log-probs and its version, as sampling does.
inline void store_logprobs(TrainRig& rig, std::vector<Sample>& samples) {
  std::vector<const Sample*> in;
  std::vector<std::span<float>> out;
  for (Sample& s : samples) {
    in.push_back(&s);
    out.emplace_back(s.logprobs);
    std::ranges::fill(s.versions, rig.model().version());
  }
  rig.trainer->logprobs(rig.model(), in, out);
}

// What an objective is trained on: pairs, or samples, of which RL has log-probs.
inline std::vector<Sample> samples_for(TrainRig& rig, Objective objective, unsigned seed) {
  const int64_t vocab = rig.model().config().vocab;
  std::vector<Sample> out =
      is_pairs(objective) ? random_pairs(12, vocab, seed) : random_samples(24, vocab, seed);
  if (is_rl(objective)) {
    store_logprobs(rig, out);
  } else {
    for (Sample& s : out) s.logprobs.clear();
  }
  return out;
}

// The output of the last norm for every token of the sample under the trained weights.
inline TensorPtr hidden_of(TrainRig& rig, const Sample& sample) {
  const Sample* const in[] = {&sample};
  return rig.trainer->forward_pass().hidden(in, {});
}

// Advantages of mixed sign, one per sample.
inline std::vector<TrainSample> with_advantages(const std::vector<Sample>& samples) {
  std::vector<TrainSample> out;
  for (size_t i = 0; i < samples.size(); ++i)
    out.push_back({&samples[i], 0.75 - 0.5 * static_cast<double>(i % 4), {}, {}});
  return out;
}

// A step on eight samples that the present weights sampled.
inline void random_step(TrainRig& rig, unsigned seed) {
  std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, seed);
  store_logprobs(rig, samples);
  rig.trainer->step(with_advantages(samples));
}

}  // namespace rl::testing
