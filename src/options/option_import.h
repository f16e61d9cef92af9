// Imports a document's values into an option set: every entry is tried, every violation is kept
// with its place in the document, and either all values are applied or none. Used by the readers of
// each format.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "core/violations.h"
#include "options/options.h"

namespace rl {

// Limits of one document. More is hostile: there are far fewer options, and texts have their own
// limits.
inline constexpr size_t kMaxOptionDocumentBytes = size_t{1} << 24;
inline constexpr size_t kMaxOptionEntries = 1024;

// kResourceExhausted or kDataLoss naming the format, if the size alone rules the document out.
void check_option_document_size(size_t bytes, size_t least, const char* format);

class OptionImport {
 public:
  // The document's values replace those of base.
  explicit OptionImport(const OptionSet& base) : set_(base) {}

  // One entry: set(OptionSet&) calls the setter that matches the document's value.
  template <typename Set>
  void take(std::string_view key, const std::string& location, Set&& set) {
    violations_.collect([&] {
      try {
        begin(key);
        set(set_);
      } catch (const Error& error) {
        throw Error(error).with_location(location);
      }
    });
  }
  void refuse(Error error) { violations_.add(std::move(error)); }

  // The new set, or all violations as one error.
  OptionSet finish();

 private:
  void begin(std::string_view key);

  OptionSet set_;
  std::set<std::string, std::less<>> seen_;
  Violations violations_;
};

}  // namespace rl
