// Fisher-Yates with one Philox number per row.
#include "pipeline/prompts/prompt_source.h"

#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/rng.h"

namespace rl {

std::vector<uint32_t> epoch_order(int64_t count, bool shuffle, uint64_t seed, uint64_t epoch) {
  RL_CHECK(count >= 0 && count <= std::numeric_limits<uint32_t>::max());
  std::vector<uint32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0u);
  if (!shuffle) return order;
  const PhiloxKey key{seed, RngPurpose::kShuffle};
  for (uint32_t i = static_cast<uint32_t>(count); i > 1; --i) {
    // The high half of a 64 by 32 bit product: uniform up to 2^-32.
    const auto wide = static_cast<unsigned __int128>(random_bits(key, epoch, 0, i)) * i;
    std::swap(order[i - 1], order[static_cast<uint32_t>(wide >> 64)]);
  }
  return order;
}

PromptFile::PromptFile(FileSystem& fs, const std::string& path, Order order, KeptRows kept)
    : rows_(fs, path, kept), order_(order) {
  if (num_rows() <= std::numeric_limits<uint32_t>::max()) return;
  throw Error(Code::kResourceExhausted, str(path, " has ", num_rows(), " rows, more than 2^32 - 1"))
      .with_location(path);
}

int64_t PromptFile::row_of(uint64_t ordinal) {
  if (epoch_ != epoch_of(ordinal)) {
    epoch_ = epoch_of(ordinal);
    drawn_ = epoch_order(num_rows(), order_.shuffle, order_.seed, epoch_);
  }
  return drawn_[ordinal % static_cast<uint64_t>(num_rows())];
}

Prompt PromptFile::read(int64_t row, const LoadedModel& model, const PromptLimits& limits) const {
  const std::string where = rows_.index().location(row);
  Prompt p = make_prompt(parse_prompt_row(rows_.row(row), where), model, limits, where);
  p.data_row = row;
  return p;
}

std::string PromptFeed::next_location() const { return str("feed:", next_row_ + 1); }

void PromptFeed::push(Prompt prompt) {
  RL_CHECK(!full());
  prompt.data_row = next_row_++;
  rows_.push_back(std::move(prompt));
}

Prompt PromptFeed::pop() {
  RL_CHECK(!rows_.empty());
  Prompt p = std::move(rows_.front());
  rows_.pop_front();
  return p;
}

}  // namespace rl
