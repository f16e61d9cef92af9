// Digests cross at every call, texts only if they differ.
#include "pipeline/ranks/rank_options.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/hash.h"

namespace rl {
namespace {

// The next line, without its end.
std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// All ranks have the lines of the same options, unless they are of different versions.
void require_same(std::string_view first, std::string_view other, size_t rank) {
  while (!first.empty() || !other.empty()) {
    const std::string_view mine = take_line(first), theirs = take_line(other);
    if (mine == theirs) continue;
    const std::string key(theirs.substr(0, theirs.find('=')));
    throw Error(Code::kConflict, str("rank ", rank, " has ", theirs, ", and rank 0 has ", mine,
                                     ": ranks train with the same options"))
        .with_key(key)
        .with_location(str("rank ", rank));
  }
}

// How ranks divide models and engines, and what they send for it.
bool is_layout(std::string_view key) {
  return key.starts_with("parallel.") || key.starts_with("sync.") ||
         key == "engine.tensor_parallel_size";
}

}  // namespace

std::string shared_options(const OptionSet& options) {
  std::string text;
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    if (!info.affects_determinism && !is_layout(info.key)) continue;
    std::string value = options.get_text(info.key);
    std::ranges::replace(value, '\n', ' ');
    text += str(info.key, "=", value, "\n");
  }
  return text;
}

void require_same_options(const DataRanks& of_batch, const std::string& own) {
  const DataRanks ranks = of_batch.of_run();
  if (ranks.alone()) return;
  const std::vector<uint64_t> digests = ranks.gather(digest64(own));
  if (std::ranges::count(digests, digests[0]) == ranks.size()) return;
  const std::vector<uint64_t> sizes = ranks.gather<uint64_t>(own.size());
  const std::vector<char> all = ranks.gather_lists<char>(own);
  std::string_view rest(all.data(), all.size());
  const std::string_view first = rest.substr(0, sizes[0]);
  for (size_t r = 0; r < sizes.size(); ++r) {
    const std::string_view text = rest.substr(0, sizes[r]);
    rest.remove_prefix(text.size());
    require_same(first, text, r);
  }
}

}  // namespace rl
