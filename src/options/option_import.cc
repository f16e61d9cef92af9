// Checks that do not depend on the format.
#include "options/option_import.h"

#include <algorithm>

#include "core/encoding/utf8.h"

namespace rl {
namespace {

// Whether a key can be shown in an error message.
bool is_printable(std::string_view key) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return !find_broken_utf8(key) && std::none_of(key.begin(), key.end(), control);
}

}  // namespace

void check_option_document_size(size_t bytes, size_t least, const char* format) {
  if (bytes > kMaxOptionDocumentBytes) {
    throw Error(Code::kResourceExhausted,
                str("the ", format, " document of options has ", bytes,
                    " bytes, above the limit of ", kMaxOptionDocumentBytes));
  }
  if (bytes < least) {
    throw Error(Code::kDataLoss, str("the ", format, " document of options has ", bytes,
                                     " bytes; a valid one has at least ", least));
  }
}

void OptionImport::begin(std::string_view key) {
  if (!is_printable(key)) {
    throw Error(Code::kInvalidArgument, "an option key is not printable UTF-8");
  }
  if (seen_.find(key) != seen_.end()) {
    const std::string shown(key.substr(0, 200));
    throw Error(Code::kInvalidArgument, str("the option \"", shown, "\" is given twice"))
        .with_key(shown);
  }
  seen_.emplace(key);
  if (seen_.size() > kMaxOptionEntries) {
    throw Error(Code::kResourceExhausted, "the document has too many options");
  }
}

OptionSet OptionImport::finish() {
  violations_.throw_any();
  return std::move(set_);
}

}  // namespace rl
