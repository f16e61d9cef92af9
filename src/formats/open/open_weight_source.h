// Opens a checkpoint of any supported format for reading.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/fs.h"
#include "formats/weight_source.h"

namespace rl {

enum class ModelHead : uint8_t { kLogits, kScalar };

// path is a Hugging Face directory (config.json and safetensors files) or a .gguf file. Errors name
// file, byte offset or JSON pointer, tensor, limit and value seen. A language model opened with a
// scalar head lists score.weight, all zero, instead of its own head; opening a file with a scalar
// head for logits is Error(kUnsupported).
std::unique_ptr<WeightSource> open_weight_source(FileSystem& fs, const std::string& path,
                                                 ModelHead head = ModelHead::kLogits);

}  // namespace rl
