// The path decides the reader, the requested head decides the wrapper.
#include "formats/open/open_weight_source.h"

#include "core/error.h"
#include "formats/gguf/gguf_source.h"
#include "formats/hf/hf_directory.h"
#include "formats/open/scalar_head_source.h"

namespace rl {
namespace {

std::unique_ptr<WeightSource> open_as_stored(FileSystem& fs, const std::string& path) {
  if (fs.is_directory(path)) return open_hf_directory(fs, path);
  if (path.ends_with(".gguf")) return open_gguf_source(fs, path);
  const Code code = fs.exists(path) ? Code::kUnsupported : Code::kNotFound;
  throw Error(code, str(path, " is neither a directory nor a .gguf file"))
      .with_expected("a Hugging Face directory or a .gguf file")
      .with_location(path);
}

}  // namespace

std::unique_ptr<WeightSource> open_weight_source(FileSystem& fs, const std::string& path,
                                                 ModelHead head) {
  auto source = open_as_stored(fs, path);
  const bool scalar = source->config().scalar_head;
  if (head == ModelHead::kScalar)
    return scalar ? std::move(source) : give_scalar_head(std::move(source));
  if (!scalar) return source;
  throw Error(Code::kUnsupported,
              str(path, " has a scalar head, ", kScalarHeadName, ", and gives no log-probs"))
      .with_key("architectures")
      .with_expected("a language model")
      .with_location(path);
}

}  // namespace rl
