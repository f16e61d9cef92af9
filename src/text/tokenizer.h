// Byte-level BPE tokenizer: text to ids and back. A Tokenizer is a handle to immutable shared
// state: copies are cheap, and every method may be called from any thread at any time. Input text
// must be well-formed UTF-8; decoded text always is.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fs.h"
#include "text/tokenizer_parts.h"

namespace rl {

struct EncodeOptions {
  bool add_special = false;    // add what the file's template puts around a text, such as bos
  bool allow_special = false;  // special tokens written in the text become their ids
  // Empty, or one byte per byte of text: a special token whose first or last byte has a nonzero
  // mark stays text even if allow_special is set.
  std::string_view literal = {};
};

struct EncodeResult {
  std::vector<int32_t> ids;
  // Bytes that no token of the vocabulary can express. They are missing from ids (or replaced by
  // the unknown token if the file names one), so decode(ids) lacks them.
  uint64_t num_unmapped_bytes = 0;
};

class Tokenizer {
 public:
  // From a Hugging Face tokenizer.json. A feature that this class does not support is
  // Error(kUnsupported) with its location; a broken file is Error(kDataLoss).
  static Tokenizer from_json(FileSystem& fs, const std::string& path);
  // The same from text; source names it in errors.
  static Tokenizer from_json_text(const std::string& json, const std::string& source);
  // From GGUF metadata.
  static Tokenizer from_parts(TokenizerParts parts);
  // A Hugging Face directory: tokenizer.json and, if it exists, tokenizer_config.json for the names
  // of the bos, eos and pad tokens.
  static Tokenizer from_directory(FileSystem& fs, const std::string& dir);

  // Throws kInvalidArgument with the byte offset if text is not UTF-8, kResourceExhausted if it is
  // longer than 1 GiB.
  EncodeResult encode(std::string_view text, EncodeOptions options = {}) const;

  // Joins the bytes of the tokens; broken UTF-8 becomes U+FFFD. An id without a token is
  // kOutOfRange.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  // One more than the largest id. The model's embedding may have more rows.
  int32_t vocab_size() const;
  bool has_token(int64_t id) const;
  // The token's bytes; valid as long as this tokenizer or a copy of it.
  std::string_view token_bytes(int32_t id) const;
  // The id of a token by its spelling in the vocabulary.
  std::optional<int32_t> id_of(std::string_view token_text) const;
  bool is_special(int32_t id) const;
  // True for an added token that absorbs white space or checks its neighbours, so that ids depend
  // on the surrounding text.
  bool depends_on_context(int32_t id) const;
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  void check_id(int32_t id) const;

  std::shared_ptr<const State> state_;
};

}  // namespace rl
