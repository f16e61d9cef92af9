// Tokenizer data from GGUF metadata: a plain record that the GGUF reader fills and
// Tokenizer::from_parts checks. Nothing here is trusted; every size, id and merge is validated
// there.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rl {

// Numbers of tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // special: never produced from plain text, left out by decode(skip_special)
  kUserDefined = 4,  // matched as a whole in plain text, kept by decode
  kUnused = 5,
  kByte = 6,
};

struct TokenizerParts {
  std::string source;                // file name for errors
  std::string model = "gpt2";        // tokenizer.ggml.model; "gpt2" is byte-level BPE
  std::string pre = "default";       // tokenizer.ggml.pre
  std::vector<std::string> tokens;   // tokenizer.ggml.tokens; the index is the id
  std::vector<int32_t> token_types;  // tokenizer.ggml.token_type; empty means all normal
  std::vector<std::string> merges;   // tokenizer.ggml.merges, "left right", best first
  std::optional<int64_t> bos_id;     // tokenizer.ggml.bos_token_id
  std::optional<int64_t> eos_id;     // tokenizer.ggml.eos_token_id
  std::optional<int64_t> pad_id;     // tokenizer.ggml.padding_token_id
  std::optional<bool> add_bos;       // ...add_bos_token; absent: the default of `pre`
};

// A chat template as stored in a checkpoint. The unnamed one is called "default".
struct ChatTemplateText {
  std::string name;
  std::string text;
};

}  // namespace rl
