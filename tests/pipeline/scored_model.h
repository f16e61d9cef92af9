// Models with a scalar head other than zero, for runs on the fixtures.
#pragma once
#include <string>

#include "formats/open/open_weight_source.h"
#include "run_rig.h"

namespace rl::testing {

// A directory of the fixture as a model for sequence classification.
inline std::string scored_model(const TempDir& dir, const char* name = "llama") {
  const auto executor = make_thread_executor(1);
  const auto compute = make_cpu_compute(*executor, Dtype::kF32);
  const auto source = open_weight_source(real_fs(), fixture_model(name), ModelHead::kScalar);
  Model model(*source, *compute, {});
  float* head = model.master() + model.layout().head();
  for (int64_t c = 0; c < model.config().hidden; ++c) head[c] = 0.1f * static_cast<float>(c % 5);
  const std::string path = dir.file(str("scored_", name));
  SaveOptions save = save_options_for(real_fs(), *source, Dtype::kF32);
  save.replace_existing = true;  // made again for every set of options of a test
  model.save(real_fs(), path, save);
  return path;
}

}  // namespace rl::testing
