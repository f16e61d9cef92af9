// Chooses the reader by what the path is.
#include "model/weight_source.h"

#include "core/error.h"
#include "model/gguf_source.h"
#include "model/hf_directory.h"

namespace rl {

WeightSource::~WeightSource() = default;

std::unique_ptr<WeightSource> open_weight_source(FileSystem& fs, const std::string& path) {
  if (fs.is_directory(path)) return open_hf_directory(fs, path);
  if (path.ends_with(".gguf")) return open_gguf_source(fs, path);
  const Code code = fs.exists(path) ? Code::kUnsupported : Code::kNotFound;
  throw Error(code, str(path, " is neither a directory nor a .gguf file"))
      .with_expected("a Hugging Face directory or a .gguf file")
      .with_location(path);
}

}  // namespace rl
