// Turns GGUF metadata into a TokenizerSpec. GGUF names the pre-tokenizer instead of describing it;
// the table below lists the names whose pattern, normaliser and merge rule are known.
#include <algorithm>
#include <array>

#include "core/encoding/unicode.h"
#include "core/error.h"
#include "text/tokenizer_spec.h"

namespace rl {
namespace {

struct PreEntry {
  const char* name;
  KnownPattern pattern;
  bool single_digits;  // digits are split off one by one first
  bool nfc;
  bool ignore_merges;
  bool add_bos;
};

constexpr std::array<PreEntry, 7> kPreTable = {{
    {"default", KnownPattern::kGpt2, false, false, false, false},
    {"gpt-2", KnownPattern::kGpt2, false, false, false, false},
    {"smollm", KnownPattern::kGpt2, true, false, false, false},
    {"llama-bpe", KnownPattern::kLlama3, false, false, true, true},
    {"llama3", KnownPattern::kLlama3, false, false, true, true},
    {"llama-v3", KnownPattern::kLlama3, false, false, true, true},
    {"qwen2", KnownPattern::kQwen2, false, true, false, false},
}};

const PreEntry& find_pre(const TokenizerParts& parts) {
  std::string known;
  for (const PreEntry& entry : kPreTable) {
    if (parts.pre == entry.name) return entry;
    known += known.empty() ? entry.name : str(", ", entry.name);
  }
  throw Error(Code::kUnsupported,
              str(parts.source, ": pre-tokenizer ", quote_text(parts.pre), " is not supported"))
      .with_key("tokenizer.ggml.pre")
      .with_expected(known);
}

TokenType token_type(const TokenizerParts& parts, size_t id) {
  if (parts.token_types.empty()) return TokenType::kNormal;
  const int32_t number = parts.token_types[id];
  if (number < static_cast<int32_t>(TokenType::kNormal) ||
      number > static_cast<int32_t>(TokenType::kUnused)) {
    throw Error(Code::kUnsupported,
                str(parts.source, ": token ", id, " has type ", number, " in a BPE vocabulary"))
        .with_key("tokenizer.ggml.token_type")
        .with_expected("1..5");
  }
  return static_cast<TokenType>(number);
}

void read_tokens(TokenizerParts& parts, TokenizerSpec& spec) {
  if (!parts.token_types.empty() && parts.token_types.size() != parts.tokens.size()) {
    throw Error(Code::kDataLoss, str(parts.source, ": ", parts.tokens.size(), " tokens but ",
                                     parts.token_types.size(), " token types"))
        .with_key("tokenizer.ggml.token_type");
  }
  spec.tokens.reserve(parts.tokens.size());
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    std::string& text = parts.tokens[id];
    const TokenType type = token_type(parts, id);
    const bool model = type == TokenType::kNormal || type == TokenType::kUnused;
    if (!model) {
      if (text.size() > kMaxAddedTokenBytes) {
        throw Error(Code::kResourceExhausted,
                    str(parts.source, ": token ", id, " is matched as a whole and has ",
                        text.size(), " bytes, above the limit of ", kMaxAddedTokenBytes));
      }
      AddedToken token;
      token.id = static_cast<int32_t>(id);
      token.text = text;
      token.special = type != TokenType::kUserDefined;
      spec.added.push_back(std::move(token));
    }
    spec.tokens.push_back({std::move(text), model ? TokenKind::kModel : TokenKind::kAdded});
  }
}

void read_merges(const TokenizerParts& parts, TokenizerSpec& spec) {
  if (parts.merges.size() > kMaxMerges) {
    throw Error(Code::kResourceExhausted, str(parts.source, ": ", parts.merges.size(),
                                              " merges exceed the limit of ", kMaxMerges));
  }
  spec.merges.reserve(parts.merges.size());
  for (size_t i = 0; i < parts.merges.size(); ++i) {
    const std::string& text = parts.merges[i];
    const size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) {
      throw Error(Code::kDataLoss,
                  str(parts.source, ": merge ", i, " ", quote_text(text), " is not \"left right\""))
          .with_key("tokenizer.ggml.merges");
    }
    spec.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
}

std::optional<int32_t> read_id(const std::optional<int64_t>& id, const TokenizerSpec& spec,
                               const char* key) {
  if (!id) return std::nullopt;
  if (*id < 0 || static_cast<uint64_t>(*id) >= spec.tokens.size()) {
    throw Error(Code::kDataLoss, str(spec.source, ": ", key, " is ", *id,
                                     ", but the vocabulary has ", spec.tokens.size(), " tokens"))
        .with_key(key);
  }
  return static_cast<int32_t>(*id);
}

}  // namespace

TokenizerSpec read_tokenizer_parts(TokenizerParts parts) {
  if (parts.model != "gpt2") {
    throw Error(Code::kUnsupported, str(parts.source, ": tokenizer model ", quote_text(parts.model),
                                        " is not supported"))
        .with_key("tokenizer.ggml.model")
        .with_expected("gpt2");
  }
  if (parts.tokens.size() > kMaxVocabulary) {
    throw Error(Code::kResourceExhausted, str(parts.source, ": ", parts.tokens.size(),
                                              " tokens exceed the limit of ", kMaxVocabulary))
        .with_key("tokenizer.ggml.tokens");
  }
  const PreEntry& pre = find_pre(parts);
  TokenizerSpec spec;
  spec.source = parts.source;
  spec.nfc = pre.nfc;
  spec.ignore_merges = pre.ignore_merges;
  if (pre.single_digits) spec.pre_tokenizer.append(digits_splitter(true));
  spec.pre_tokenizer.append(known_pattern_splitter(pre.pattern));
  read_merges(parts, spec);
  read_tokens(parts, spec);
  spec.bos_id = read_id(parts.bos_id, spec, "tokenizer.ggml.bos_token_id");
  spec.eos_id = read_id(parts.eos_id, spec, "tokenizer.ggml.eos_token_id");
  spec.pad_id = read_id(parts.pad_id, spec, "tokenizer.ggml.padding_token_id");
  if (parts.add_bos.value_or(pre.add_bos)) {
    if (!spec.bos_id) {
      throw Error(Code::kDataLoss,
                  str(spec.source, ": a bos token is to be added but none is named"))
          .with_key("tokenizer.ggml.bos_token_id");
    }
    spec.prefix_ids.push_back(*spec.bos_id);
  }
  return spec;
}

}  // namespace rl
