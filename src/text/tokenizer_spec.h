// A tokenizer as described by its file, in one form for tokenizer.json and GGUF. The readers fill
// it; Vocabulary, Bpe and Tokenizer check the contents. Internal to src/text.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/pre_tokenizer.h"
#include "text/tokenizer_parts.h"

namespace rl {

// Caps on what a file may ask for.
inline constexpr size_t kMaxVocabulary = 4'000'000;
inline constexpr size_t kMaxMerges = 8'000'000;
inline constexpr size_t kMaxTokenBytes = 65'536;
inline constexpr size_t kMaxAddedTokenBytes = 1024;

enum class TokenKind : uint8_t {
  kHole,   // no token has this id
  kModel,  // a token of the BPE vocabulary, spelled in the byte-level alphabet
  kAdded,  // plain text, matched as a whole before BPE
};

struct TokenSpec {
  std::string text;
  TokenKind kind = TokenKind::kHole;
};

// A token that is matched in the text itself.
struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = false;      // matched only when the caller allows special tokens
  bool lstrip = false;       // absorbs white space before it
  bool rstrip = false;       // absorbs white space after it
  bool single_word = false;  // matched only if no word character is adjacent
  bool normalized = false;   // matched after normalisation instead of before
};

struct TokenizerSpec {
  std::string source;             // file name for errors
  std::vector<TokenSpec> tokens;  // by id
  std::vector<AddedToken> added;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  bool ignore_merges = false;  // a whole word that is a token needs no merges
  bool nfc = false;
  bool add_prefix_space = false;
  PreTokenizer pre_tokenizer;
  std::vector<int32_t> prefix_ids;  // added before and after the text on request
  std::vector<int32_t> suffix_ids;
  std::optional<int32_t> unknown_id;  // replaces a byte that has no token
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> pad_id;
};

// From the text of a tokenizer.json.
TokenizerSpec read_tokenizer_json(const std::string& text, const std::string& source);

// Sets bos, eos and pad from the names in the text of a tokenizer_config.json.
void read_token_names(const std::string& text, const std::string& source, TokenizerSpec& spec);

// From GGUF metadata.
TokenizerSpec read_tokenizer_parts(TokenizerParts parts);

}  // namespace rl
