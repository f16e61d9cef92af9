// Splits text into the words that BPE works on. A PreTokenizer is a chain of splitters; each one
// splits every piece of the one before. Invariant: the pieces, joined, are the text; none is empty.
// Immutable and thread-safe. Text is well-formed UTF-8.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rl {

class Splitter {
 public:
  virtual ~Splitter() = default;
  // End of the piece that starts at `at` (< text.size()); above `at`, on a code point boundary.
  virtual size_t piece_end(std::string_view text, size_t at) const = 0;
};

// The pre-tokenizer patterns of well-known models, implemented by hand in linear time.
enum class KnownPattern {
  kGpt2,    // contractions, ` ?` + letters | numbers | others, white space
  kLlama3,  // any-case contractions, a leading non-letter, numbers in groups of up to three
  kQwen2,   // the same with single digits
};
std::shared_ptr<const Splitter> known_pattern_splitter(KnownPattern pattern);
// The known pattern with exactly this regular expression.
std::optional<KnownPattern> find_known_pattern(std::string_view regex);
// The regular expression of a known pattern.
std::string_view regex_of(KnownPattern pattern);

// Splits numbers (\p{N}) from the rest, digit by digit if individual.
std::shared_ptr<const Splitter> digits_splitter(bool individual);

class PreTokenizer {
 public:
  void append(std::shared_ptr<const Splitter> splitter) { chain_.push_back(std::move(splitter)); }

  // Calls sink(std::string_view word) for each word of text, in order.
  template <typename Sink>
  void split(std::string_view text, Sink&& sink) const {
    split_from(0, text, sink);
  }

 private:
  template <typename Sink>
  void split_from(size_t step, std::string_view text, Sink& sink) const {
    if (step == chain_.size()) {
      if (!text.empty()) sink(text);
      return;
    }
    for (size_t at = 0; at < text.size();) {
      const size_t end = chain_[step]->piece_end(text, at);
      split_from(step + 1, text.substr(at, end - at), sink);
      at = end;
    }
  }

  std::vector<std::shared_ptr<const Splitter>> chain_;
};

}  // namespace rl
