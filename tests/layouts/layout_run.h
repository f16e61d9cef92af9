// A layout of ranks, and what its ranks have after they have generated and trained in turn.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "../pipeline/option_looks.h"
#include "../pipeline/plan_arenas.h"
#include "../pipeline/rank_rig.h"
#include "formats/vocabulary_cut.h"
#include "support/random_llama.h"

namespace rl::testing {

// Options of `parallel`, by their names there, others by their whole key; "model": that of the run;
// and "engines": "whole" if each rank has one of all parts and stages. A text has them as
// "tensor=2 data=2 algo.advantage=gae".
class Layout {
 public:
  explicit Layout(const std::string& text) {
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const size_t at = word.find('=');
      options_[word.substr(0, at)] = word.substr(at + 1);
    }
    if (!options_.contains("reduction_parts")) options_["reduction_parts"] = get("tensor", "1");
  }
  std::string get(const std::string& name, const std::string& otherwise) const {
    const auto found = options_.find(name);
    return found != options_.end() ? found->second : otherwise;
  }
  // Without those of these names.
  Layout without(std::initializer_list<const char*> names) const {
    Layout out = *this;
    for (const char* const name : names) out.options_.erase(name);
    return out;
  }
  std::string text() const {
    std::string out;
    for (const auto& [name, value] : options_) out += str(out.empty() ? "" : " ", name, "=", value);
    return out;
  }
  // Every option but the model and the engines, by its key.
  std::map<std::string, std::string> assignments() const {
    std::map<std::string, std::string> out;
    for (const auto& [name, value] : options_) {
      const bool is_key = name.find('.') != std::string::npos;
      if (name != "model" && name != "engines") out[is_key ? name : "parallel." + name] = value;
    }
    return out;
  }
  int64_t ranks() const {
    int64_t product = 1;
    for (const char* const axis : {"tensor", "context", "data", "pipeline"})
      product *= std::stoll(get(axis, "1"));
    return product;
  }

 private:
  std::map<std::string, std::string> options_;
};

// A model with layers for four stages, heads for eight parts, and several chunks of the norm in
// each section of a layout. An uneven vocabulary gives the parts different numbers of tiles, of
// which the last one is not full.
inline std::string deep_model(const TempDir& dir, bool uneven) {
  const std::string path = dir.file(uneven ? "uneven" : "deep");
  LlamaShape shape{.hidden = 64, .ffn = 96, .layers = 4, .heads = 8, .scale = 0.1f};
  if (uneven) shape.vocab = 262;
  return std::filesystem::exists(path) ? path : write_random_llama(path, shape);
}

// One for two parts of everything, where each op takes long.
inline std::string small_model(const TempDir& dir) {
  const std::string path = dir.file("small");
  const LlamaShape shape{.hidden = 32, .ffn = 48, .layers = 2, .heads = 4, .scale = 0.1f};
  return std::filesystem::exists(path) ? path : write_random_llama(path, shape);
}

// One of three heads, with as many tokens for each of three parts.
inline std::string model_of_three(const TempDir& dir) {
  const std::string path = dir.file("three");
  const LlamaShape shape{
      .vocab = 288, .hidden = 48, .ffn = 96, .layers = 2, .heads = 3, .scale = 0.1f};
  return std::filesystem::exists(path) ? path : write_random_llama(path, shape);
}

inline std::string model_of(const TempDir& dir, const Layout& layout) {
  const std::string name = layout.get("model", "");
  if (name == "three") return model_of_three(dir);
  if (name == "small") return small_model(dir);
  if (name.empty() || name == "uneven") return deep_model(dir, !name.empty());
  return fixture_model(name);
}

inline OptionSet options_of(const TempDir& dir, const Layout& layout) {
  constexpr int64_t kTokens = 96;  // of a micro-batch
  OptionSet o = tiny_options(dir);
  o.set_string("model.path", model_of(dir, layout));
  for (const auto& [key, value] : layout.assignments()) o.set_text(key, value);
  const int64_t context = std::stoll(layout.get("context", "1"));
  o.set_i64("trainer.max_tokens_per_device", kTokens / context);
  for (const char* text : {"optimizer.lr=1e-3", "optimizer.grad_clip=0.05", "optimizer.ema=0.9"})
    o.set_assignment(text);
  if (layout.ranks() > 1) o.set_assignment("comm.timeout_ns=60s");
  if (layout.get("engines", "") == "whole") {
    o.set_assignment("engine.tensor_parallel_size=1");
    o.set_assignment("sync.bucket_bytes=64KiB");
  }
  return o;
}

// One rank's engine and trainer on one model.
class LayoutRank {
 public:
  explicit LayoutRank(const std::shared_ptr<Runtime>& runtime)
      : runtime_(*runtime),
        options_(for_session(runtime->options())),
        model_(LoadedModel::open(runtime, runtime->options(), PlanUse::kParts)),
        engine_(std::make_unique<EngineSession>(model_, options_)),
        trainer_(model_, options_) {}

  // Generates samples and trains on them; returns both as text.
  std::string step(double logprob_bound = 0) {
    std::vector<SamplePtr> samples = generate();
    std::string text = texts_of(samples);
    const TrainedStep step = trainer_.step(samples);
    EXPECT_LE(step.get("training/logprob_max_abs_diff").value(), logprob_bound);
    EXPECT_GT(step.get("training/logprob_compared_tokens").value(), 0);
    EXPECT_EQ(step.get("training/optimizer_steps"), 1);
    EXPECT_EQ(step.version, version_of(samples) + 1);
    EXPECT_EQ(model_->model().version(), step.version);
    return text + common_metrics(step) + "\n";
  }
  // A checkpoint of all ranks in a directory.
  void save(const std::string& dir) {
    const bool divides = runtime_.options().get_i64("parallel.zero_stage") > 0;
    if (runtime_.data_ranks().rank() != 0 && !divides) return;
    trainer_.save({.dir = dir, .host = "", .keep_last = 0, .replace_existing = false});
  }
  // Later requests are those of a new engine.
  void load(const std::string& path) {
    engine_ = nullptr;
    trainer_.load(path);
    engine_ = std::make_unique<EngineSession>(model_, options_);
  }
  // The plan is that of the rank which has most of the vocabulary.
  void expect_plan_equals_ledger() {
    const Arenas plan = planned(model_->plan_session(options_, PlanUse::kParts));
    const Arenas held = live(runtime_);
    const ModelConfig& config = model_->model().config();
    const VocabularyCut own(config), most(with_most_tokens(config));
    if (own.own().count == most.own().count) {
      EXPECT_EQ(held, plan);
    }
    ASSERT_EQ(held.size(), plan.size());
    for (size_t i = 0; i < held.size(); ++i) {
      EXPECT_EQ(std::get<std::string>(held[i]), std::get<std::string>(plan[i]));
      EXPECT_LE(std::get<uint64_t>(held[i]), std::get<uint64_t>(plan[i]));
    }
  }

 private:
  // Those of four prompts, which take several micro-batches.
  std::vector<SamplePtr> generate() {
    const OptionSet& run = runtime_.options();
    for (const int32_t length : {20, 3, 17, 9}) {
      std::vector<int32_t> prompt;
      for (int32_t i = 0; i < length; ++i) prompt.push_back((length + 7 * i) % 256);
      engine_->submit(request_of(options_, prompt, run.get_i64("pipeline.samples_per_prompt"),
                                 run.get_i64("sampling.max_new_tokens")));
    }
    engine_->run();
    std::vector<SamplePtr> samples = engine_->take_finished();
    std::ranges::sort(samples, {},
                      [](const SamplePtr& s) { return std::pair(s->ordinal, s->slot); });
    for (const SamplePtr& s : samples) {
      s->scored = true;
      s->reward = low_id_reward(*s) + s->slot % 2;
    }
    return samples;
  }
  static std::string texts_of(const std::vector<SamplePtr>& samples) {
    std::string out;
    for (const SamplePtr& s : samples) {
      out += text_of(*s);
      for (const float lp : s->logprobs) out += str(" ", std::bit_cast<uint32_t>(lp));
      out += "\n";
    }
    return out;
  }
  static uint64_t version_of(const std::vector<SamplePtr>& samples) {
    for (const SamplePtr& s : samples) {
      for (const uint64_t version : s->versions) EXPECT_EQ(version, samples[0]->versions[0]);
    }
    return samples[0]->versions[0];
  }

  Runtime& runtime_;
  const OptionSet options_;
  const std::shared_ptr<LoadedModel> model_;
  std::unique_ptr<EngineSession> engine_;
  TrainerSession trainer_;
};

// Calls body(runtime) for each rank of a run with these options, on a thread of its own.
using OnRanks = std::function<void(const OptionSet& options,
                                   const std::function<void(std::shared_ptr<Runtime>)>& body)>;
// Ranks that are threads.
inline void on_local_ranks(const OptionSet& options,
                           const std::function<void(std::shared_ptr<Runtime>)>& body) {
  run_ranks(make_ranks(options), body);
}

// Runs a function on all ranks of a layout, which return the same text.
inline std::string on_layout(const TempDir& dir, const Layout& layout,
                             const std::function<std::string(LayoutRank&)>& work,
                             const OnRanks& on_ranks = on_local_ranks) {
  std::vector<std::string> texts(static_cast<size_t>(layout.ranks()));
  on_ranks(options_of(dir, layout), [&](std::shared_ptr<Runtime> runtime) {
    const auto rank = static_cast<size_t>(runtime->ranks().rank());
    LayoutRank parts(runtime);
    texts[rank] = work(parts);
  });
  for (size_t r = 1; r < texts.size(); ++r) EXPECT_EQ(texts[r], texts[0]) << "rank " << r;
  return texts[0];
}

// The content of the files of a directory, by name.
using Files = std::map<std::string, std::string>;
inline Files files_of(const std::string& dir) {
  Files out;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const std::string path = entry.path().string();
    out[entry.path().filename().string()] = read_text_file(real_fs(), path, 1 << 26);
  }
  return out;
}
inline void expect_same_files(const Files& a, const Files& b) {
  std::vector<std::string> names[2], different;
  for (const auto& [name, text] : a) names[0].push_back(name);
  for (const auto& [name, text] : b) names[1].push_back(name);
  ASSERT_EQ(names[0], names[1]);
  for (const auto& [name, text] : a) {
    if (text != b.at(name)) different.push_back(name);
  }
  EXPECT_EQ(different, std::vector<std::string>());
}

}  // namespace rl::testing
