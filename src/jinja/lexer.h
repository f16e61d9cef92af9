// Tokens of a chat template, with the white space rules of transformers' rendering environment: a
// newline after a block and blanks before one are removed (trim_blocks, lstrip_blocks), "-" strips,
// "+" keeps, and one newline at the end of the template is dropped.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "jinja/budget.h"

namespace rl::jinja {

enum class TokenKind : uint8_t {
  kData,  // text outside tags, as printed
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // text is the value, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t at = 0;  // byte offset in the source
  std::string text;
};

// A template's text with line ends normalised to "\n", and its name for errors.
class Source {
 public:
  // Throws kResourceExhausted above the limit, kDataLoss if the text is not UTF-8.
  Source(std::string_view text, std::string name, const JinjaLimits& limits);
  const std::string& text() const { return text_; }
  // "name:line:column", columns counted in characters.
  std::string location(uint32_t at) const;
  [[noreturn]] void fail(Code code, uint32_t at, const std::string& what) const;

 private:
  std::string text_;
  std::string name_;
};

// The last token is kEnd. Broken syntax is Error(kDataLoss) with its location.
std::vector<Token> tokenize(const Source& source);

}  // namespace rl::jinja
