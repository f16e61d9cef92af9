// The pattern is rewritten before it is compiled: \s and \w get their Unicode meaning (PCRE2 leaves
// U+0085 out of \s, and marks and connectors out of \w). Only escapes known to mean the same in
// both syntaxes are accepted.
#include "text/regex_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/encoding/unicode.h"
#include "core/error.h"

namespace rl {
namespace {

constexpr size_t kMaxPatternBytes = 65'536;
constexpr uint32_t kMatchLimit = 1'000'000;
constexpr uint32_t kDepthLimit = 100'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(Code::kUnsupported, str(where, ": ", what)).with_location(where);
}

// Rewrites one pattern from left to right; in_class_ is true inside [...].
class Rewriter {
 public:
  Rewriter(const std::string& pattern, const std::string& where)
      : pattern_(pattern), where_(where) {}

  std::string rewrite() {
    for (size_t at = 0; at < pattern_.size(); ++at) {
      const char c = pattern_[at];
      if (c == '\\') {
        if (at + 1 == pattern_.size()) refuse(where_, "the pattern ends in a backslash");
        escape(pattern_[++at]);
        continue;
      }
      if (in_class_ && c == '&' && pattern_.compare(at, 2, "&&") == 0) {
        refuse(where_, "set intersection && in a pattern is not supported");
      }
      if (in_class_ && c == '[') refuse(where_, "nested [ in a character set is not supported");
      if (c == '[')
        open_class(at);
      else if (c == ']')
        in_class_ = false;
      out_.push_back(c);
    }
    return out_;
  }

 private:
  void open_class(size_t at) {
    in_class_ = true;
    const size_t first = pattern_.compare(at + 1, 1, "^") == 0 ? at + 2 : at + 1;
    if (pattern_.compare(first, 1, "]") == 0) {
      refuse(where_, "a character set that starts with ] is not supported");
    }
  }

  void escape(char c) {
    static constexpr std::string_view kSpace = R"(\s\x{85})";
    static constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d})";
    static constexpr std::string_view kSame = "pPdDrntf";
    const bool punctuation = c > 0x20 && c < 0x7f && !isalnum(static_cast<unsigned char>(c));
    if (c == 's' || c == 'w') {
      const auto set = c == 's' ? kSpace : kWord;
      out_ += in_class_ ? std::string(set) : str("[", set, "]");
    } else if ((c == 'S' || c == 'W') && !in_class_) {
      out_ += str("[^", c == 'S' ? kSpace : kWord, "]");
    } else if (punctuation || kSame.find(c) != kSame.npos) {
      out_ += '\\';
      out_ += c;
    } else {
      const std::string name = quote_text(std::string{'\\', c});
      refuse(where_, str("escape ", name, in_class_ ? " in a character set" : "",
                         " in a pattern is not supported"));
    }
  }

  const std::string& pattern_;
  const std::string& where_;
  std::string out_;
  bool in_class_ = false;
};

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct ContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct MatchFree {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

template <typename Pointer>
Pointer require_memory(Pointer pointer) {
  if (!pointer) throw Error(Code::kOutOfMemory, "no memory for a regular expression");
  return pointer;
}

std::string pcre_message(int number) {
  PCRE2_UCHAR text[128];
  pcre2_get_error_message(number, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

class RegexSplitter : public Splitter {
 public:
  RegexSplitter(const std::string& pattern, uint32_t options, const std::string& where)
      : where_(where) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              options | PCRE2_UTF, &error, &offset, nullptr));
    if (!code_) {
      refuse(where,
             str("pattern ", quote_text(pattern), " at byte ", offset, ": ", pcre_message(error)));
    }
    uint32_t matches_empty = 0;
    pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty != 0) {
      refuse(where, str("pattern ", quote_text(pattern), " can match the empty string"));
    }
    context_ = require_memory(
        std::unique_ptr<pcre2_match_context, ContextFree>(pcre2_match_context_create(nullptr)));
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_depth_limit(context_.get(), kDepthLimit);
    pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
  }

  size_t piece_end(std::string_view text, size_t at) const override {
    const auto match = require_memory(std::unique_ptr<pcre2_match_data, MatchFree>(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr)));
    const int found =
        pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                    PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), context_.get());
    if (found == PCRE2_ERROR_NOMATCH) return text.size();
    if (found < 0) {
      throw Error(Code::kResourceExhausted,
                  str(where_, ": the pattern gave up at byte ", at, " of a piece of ", text.size(),
                      " bytes: ", pcre_message(found)))
          .with_location(where_);
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(match.get());
    const size_t begin = offsets[0];
    const size_t end = offsets[1];
    if (begin > at) return begin;
    return end > at ? end : text.size();
  }

 private:
  std::string where_;
  std::unique_ptr<pcre2_code, CodeFree> code_;
  std::unique_ptr<pcre2_match_context, ContextFree> context_;
};

void check_size(const std::string& pattern, const std::string& where) {
  if (pattern.empty()) refuse(where, "the pattern is empty");
  if (pattern.size() > kMaxPatternBytes) {
    throw Error(Code::kResourceExhausted, str(where, ": a pattern of ", pattern.size(),
                                              " bytes exceeds the limit of ", kMaxPatternBytes));
  }
}

}  // namespace

std::shared_ptr<const Splitter> regex_splitter(const std::string& pattern,
                                               const std::string& where) {
  check_size(pattern, where);
  return std::make_shared<RegexSplitter>(Rewriter(pattern, where).rewrite(), PCRE2_UCP, where);
}

std::shared_ptr<const Splitter> literal_splitter(const std::string& text,
                                                 const std::string& where) {
  check_size(text, where);
  return std::make_shared<RegexSplitter>(text, PCRE2_LITERAL, where);
}

}  // namespace rl
