// tokenizer.json and tokenizer_config.json built from GGUF tokenizer metadata, in the form that the
// `tokenizers` and `transformers` libraries open: byte-level BPE with the pre-tokenizer named by
// the metadata.
#pragma once
#include <string>

#include "formats/model_config.h"
#include "text/tokenizer_parts.h"

namespace rl {

// Error(kUnsupported) for a model or pre-tokenizer without a known counterpart; Error(kDataLoss)
// naming a token or merge that cannot be written (a duplicate token, a malformed merge, text that
// is not UTF-8).
std::string render_tokenizer_json(const TokenizerParts& parts);

// If parts is null, no token is named.
std::string render_tokenizer_config(const ModelConfig& config, const TokenizerParts* parts);

}  // namespace rl
