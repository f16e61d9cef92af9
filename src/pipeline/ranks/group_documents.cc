// Each document (data/sample_document.h) is behind its size and padded to 8 bytes.
#include "pipeline/ranks/group_documents.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "data/sample_document.h"

namespace rl {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

size_t padded(size_t bytes) { return (bytes + kWord - 1) / kWord * kWord; }

void append(std::vector<std::byte>& out, const std::vector<std::byte>& document) {
  const uint64_t size = document.size();
  const size_t at = out.size();
  out.resize(at + kWord + padded(document.size()));
  std::memcpy(out.data() + at, &size, kWord);
  std::memcpy(out.data() + at + kWord, document.data(), document.size());
}

// The document at the beginning, whose size is what another rank says; `all` is then what follows.
std::span<const std::byte> take_document(std::span<const std::byte>& all) {
  uint64_t size = 0;
  const bool has_size = all.size() >= kWord;
  if (has_size) std::memcpy(&size, all.data(), kWord);
  // Documents are padded, so whole words are left.
  if (!has_size || all.size() % kWord != 0 || size > all.size() - kWord) {
    throw Error(Code::kDataLoss, str("a group of another rank has ", size, " bytes, but ",
                                     all.size(), " came with its size"));
  }
  const std::span<const std::byte> document = all.subspan(kWord, static_cast<size_t>(size));
  all = all.subspan(kWord + padded(document.size()));
  return document;
}

}  // namespace

std::vector<std::byte> encode_groups(std::span<const SamplePtr> batch) {
  std::vector<std::byte> out;
  for (size_t first = 0; first < batch.size();) {
    Group group{batch[first]->ordinal, {}};
    for (; first < batch.size() && batch[first]->ordinal == group.ordinal; ++first) {
      group.samples.push_back(batch[first]);
    }
    append(out, encode_group(group));
  }
  return out;
}

std::vector<SamplePtr> decode_groups(std::span<const std::byte> all) {
  std::vector<SamplePtr> out;
  while (!all.empty()) {
    const Group group = decode_group(take_document(all), "a group of another rank");
    out.insert(out.end(), group.samples.begin(), group.samples.end());
  }
  std::ranges::stable_sort(out, [](const SamplePtr& a, const SamplePtr& b) {
    return a->ordinal != b->ordinal ? a->ordinal < b->ordinal : a->slot < b->slot;
  });
  return out;
}

}  // namespace rl
