// A GGUF file as a model: configuration from the metadata, tensors under their Hugging Face names
// and row order, and its own tokenizer. Architectures llama (q and k rows interleaved in the file)
// and qwen2 (not).
#pragma once
#include <memory>
#include <string>

#include "core/fs.h"
#include "formats/weight_source.h"

namespace rl {

std::unique_ptr<WeightSource> open_gguf_source(FileSystem& fs, const std::string& path);

}  // namespace rl
