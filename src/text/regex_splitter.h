// A splitter for regular expressions without a hand-written implementation, on PCRE2 with match,
// depth and heap limits. Every match is a piece, and so is every gap between matches.
#pragma once
#include <memory>
#include <string>

#include "text/pre_tokenizer.h"

namespace rl {

// pattern is in the syntax of tokenizer.json (Oniguruma). Constructs that PCRE2 interprets
// differently, and patterns that match the empty text, are Error(kUnsupported) naming `where`. A
// search that exceeds its limits throws Error(kResourceExhausted) from piece_end.
std::shared_ptr<const Splitter> regex_splitter(const std::string& pattern,
                                               const std::string& where);

// Splits at every occurrence of a plain text.
std::shared_ptr<const Splitter> literal_splitter(const std::string& text, const std::string& where);

}  // namespace rl
