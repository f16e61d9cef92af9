// The llama fixture, of 256 ids, with a tokenizer of far fewer.
#pragma once
#include <filesystem>
#include <string>

#include "core/fs.h"
#include "run_rig.h"
#include "support/temp_dir.h"
#include "text/small_tokenizer.h"

namespace rl::testing {

inline std::string with_small_tokenizer(const TempDir& dir) {
  const std::string path = dir.file("model");
  std::filesystem::create_directory(path);
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(fixture_model("llama") + "/" + name, path + "/" + name);
  }
  write_file_atomically(real_fs(), path + "/tokenizer.json", test::small_tokenizer().dump());
  return path;
}

}  // namespace rl::testing
