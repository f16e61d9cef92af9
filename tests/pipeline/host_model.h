// A runtime and a model, opened for the parts of a host's own loop: what a process of such a host
// begins with.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "run_rig.h"

namespace rl::testing {

// The options of a tiny run as a host's parts take them, with these "key=value". Objectives that
// generate nothing refuse the options of sampling.
inline OptionSet host_options(const TempDir& dir, const std::vector<std::string>& texts) {
  OptionSet options = for_session(tiny_options(dir));
  for (const std::string& text : texts) options.set_assignment(text);
  if (is_rl(Settings(options).algo.objective)) return options;
  for (const char* key :
       {"pipeline.samples_per_prompt", "sampling.max_new_tokens", "sampling.ignore_eos",
        "engine.max_num_seqs", "engine.max_num_batched_tokens"}) {
    options.unset(key);
  }
  return options;
}

class HostModel {
 public:
  explicit HostModel(const std::vector<std::string>& texts = {}, FileSystem* fs = nullptr)
      : options(host_options(dir_, texts)) {
    RuntimeSeams seams;
    seams.fs = fs;
    auto runtime = std::make_shared<Runtime>(options, std::move(seams));
    model = LoadedModel::open(std::move(runtime), options, PlanUse::kTrain);
  }

 private:
  const TempDir dir_;

 public:
  OptionSet options;
  std::shared_ptr<LoadedModel> model;
};

}  // namespace rl::testing
