// Groups cross as documents (data/sample_document.h), each behind its size and padded to 8 bytes.
#include "pipeline/ranks/rank_batches.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "data/sample_document.h"
#include "pipeline/config/runtime_options.h"

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

// Groups of a batch in (ordinal, slot) order.
std::vector<std::byte> encode(const std::vector<SamplePtr>& batch) {
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

std::vector<SamplePtr> decode(std::span<const std::byte> all) {
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

}  // namespace

Settings settings_of_rank(const Settings& settings, int rank) {
  Settings own = settings;
  if (rank == 0) return own;
  own.metrics.jsonl = own.metrics.eval_jsonl = own.metrics.samples = "";
  own.metrics.tensorboard = false;
  own.buffer.record_dir = "";
  own.profiler.timeline.enable = false;
  own.profiler.timeline.dir = "";
  const ParallelSettings& parallel = own.parallel;
  const bool of_first = rank / parallel.tensor % (parallel.data * parallel.context) == 0;
  const bool alone = engines_are_whole(settings);
  if (!of_first || alone) {
    own.eval.path = "";
    own.eval.every_steps = 0;
  }
  if (!of_first && !alone && parallel.zero_stage == 0) own.checkpoint.every_steps = 0;
  return own;
}

// False if a rank ends.
bool RankBatches::meet(const Round& own) {
  const std::vector<Round> all = ranks_.gather(own);
  ended_ = std::ranges::any_of(all, [](const Round& r) { return r.ends != 0; });
  if (ended_) return false;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].step == own.step) continue;
    throw Error(Code::kConflict, str("rank ", r, " is at step ", all[r].step, ", and rank ",
                                     ranks_.rank(), " at step ", own.step))
        .with_location(str("rank ", r));
  }
  return true;
}

std::optional<std::vector<SamplePtr>> RankBatches::exchange(uint64_t step,
                                                            const std::vector<SamplePtr>& own) {
  if (alone()) return own;
  if (!meet({step, 0})) return std::nullopt;
  return decode(ranks_.gather_lists<std::byte>(encode(own)));
}

LedgerCounts RankBatches::sum(const LedgerCounts& own) const {
  if (alone()) return own;
  LedgerCounts all;
  for (const LedgerCounts& part : ranks_.gather(own)) all += part;
  return all;
}

EngineStats RankBatches::sum(const EngineStats& own) const {
  if (alone()) return own;
  EngineStats all;
  for (const EngineStats& part : ranks_.gather(own)) all += part;
  return all;
}

// Without memory for the text the others find that this rank does not come.
void RankBatches::fail(const char* why) const noexcept {
  try {
    ranks_.fail(why);
  } catch (const std::exception&) {
    return;
  }
}

void RankBatches::leave() {
  if (alone() || ended_) return;
  try {
    meet({0, 1});
  } catch (const RankError&) {
    ended_ = true;  // theirs has ended otherwise
  }
}

}  // namespace rl
