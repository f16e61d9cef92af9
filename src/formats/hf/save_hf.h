// Saves a model as a Hugging Face directory that transformers can open: config.json in the current
// spelling, generation_config.json, model.safetensors, tokenizer.json, tokenizer_config.json, and
// the chat templates where transformers looks for them. Invariant: the directory appears complete,
// by one rename, or not at all.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/fs.h"
#include "core/function_ref.h"
#include "formats/model_config.h"
#include "formats/weight_source.h"
#include "text/tokenizer_parts.h"

namespace rl {

// Fills out with whole fp32 rows of the tensor, from first_row on.
using TensorReader =
    FunctionRef<void(const TensorInfo& tensor, int64_t first_row, std::span<float> out)>;

struct SaveOptions {
  Dtype dtype = Dtype::kF32;            // of every tensor in the file
  std::string generation_config_bytes;  // copied verbatim; empty: written from the ids
  std::string tokenizer_json_bytes;     // copied verbatim; empty: built from tokenizer_parts
  std::string tokenizer_config_bytes;   // copied verbatim; empty: written from the ids
  std::optional<TokenizerParts> tokenizer_parts;
  std::vector<ChatTemplateText> chat_templates;
  bool replace_existing = false;  // if dir exists: replace it, else Error(kAlreadyExists)
};

// Options that copy a source's tokenizer, chat templates and generation settings into a saved
// model.
SaveOptions save_options_for(FileSystem& fs, const WeightSource& source, Dtype dtype);

// Writes into the sibling "<dir>.partial" (a leftover one is removed first), syncs, and renames it
// to dir. A value that is not finite, even if only after rounding to options.dtype, is
// Error(kNonFinite) naming tensor and row. On an error the sibling is removed and dir is unchanged.
void save_hf_directory(FileSystem& fs, const std::string& dir, const ModelConfig& config,
                       TensorReader reader, const SaveOptions& options);

}  // namespace rl
