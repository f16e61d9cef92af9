// Blocks of a request, from the reservation to the last release. Let F be the whole blocks of the
// prompt and T the blocks of a sequence at full length. The samples share F blocks; each has up to
// T - F of its own, where a partly filled last prompt block is shared until somebody writes to it.
#include "rollout/sequence.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/error.h"

namespace rl {
namespace {

int64_t round_up_blocks(int64_t positions, int64_t block_size) {
  return positions / block_size + (positions % block_size != 0 ? 1 : 0);
}

int32_t take_block(BlockPool& pool, ActiveRequest& active) {
  RL_CHECK(active.reserved > 0);
  --active.reserved;
  return pool.allocate();
}

// What the live sequences of a forked request can still ask for: growth, and a copy for each but
// one of those that share the partly filled block.
int64_t blocks_still_needed(const BlockPool& pool, const ActiveRequest& active) {
  const int64_t per_sequence = blocks_per_sequence(active.request, pool.block_size());
  const auto partial = static_cast<size_t>(active.prompt_tokens() / pool.block_size());
  int64_t growth = 0, sharing = 0;
  for (const Sequence& s : active.sequences) {
    if (s.finished) continue;
    growth += per_sequence - static_cast<int64_t>(s.blocks.size());
    if (partial < s.blocks.size() && pool.references(s.blocks[partial]) > 1) ++sharing;
  }
  return growth + std::max<int64_t>(sharing - 1, 0);
}

SamplePtr make_sample(const ActiveRequest& active, uint32_t index) {
  const Request& r = active.request;
  auto sample = std::make_shared<Sample>();
  sample->id = r.first_sample_id + index;
  sample->ordinal = r.ordinal;
  sample->slot = r.first_slot + index;
  sample->attempt = r.attempt;
  sample->purpose = r.purpose;
  const auto tokens = static_cast<size_t>(r.max_new_tokens);
  sample->ids.reserve(r.prompt.size() + tokens);
  sample->ids = r.prompt;
  sample->prompt_tokens = static_cast<int32_t>(r.prompt.size());
  sample->logprobs.reserve(tokens);
  sample->logprobs_sampled.reserve(tokens);
  sample->versions.reserve(tokens);
  sample->loss_mask.reserve(tokens);
  sample->temperature = r.sampling.temperature == 0 ? 1.0f : r.sampling.temperature;
  sample->submitted_ns = active.submitted_ns;
  return sample;
}

}  // namespace

int64_t blocks_per_sequence(const Request& request, int64_t block_size) {
  const CheckedI64 positions = CheckedI64(request.prompt.size()) +
                               CheckedI64(request.max_new_tokens) - CheckedI64(int64_t{1});
  return round_up_blocks(positions.get(), block_size);
}

int64_t blocks_needed(const Request& request, int64_t block_size) {
  const auto shared = static_cast<int64_t>(request.prompt.size()) / block_size;
  const int64_t own = blocks_per_sequence(request, block_size) - shared;
  return (CheckedI64(shared) + CheckedI64(request.num_samples) * CheckedI64(own)).get();
}

void start(ActiveRequest& active, int64_t block_size) {
  RL_CHECK(active.sequences.empty());
  const auto most_blocks = static_cast<size_t>(blocks_per_sequence(active.request, block_size));
  std::vector<Sequence> sequences(static_cast<size_t>(active.request.num_samples));
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    sequences[i].sample = make_sample(active, i);
    sequences[i].blocks.reserve(most_blocks);
  }
  active.sequences = std::move(sequences);
}

bool make_writable(BlockPool& pool, ActiveRequest& active, Sequence& sequence, int64_t end,
                   BlockCopy& copy) {
  RL_CHECK(end > sequence.computed);
  bool copied = false;
  const auto first = static_cast<size_t>(sequence.computed / pool.block_size());
  if (first < sequence.blocks.size() && pool.references(sequence.blocks[first]) > 1) {
    const int32_t shared = sequence.blocks[first];
    const int32_t own = take_block(pool, active);
    pool.release(shared);
    sequence.blocks[first] = own;
    copy = {shared, own};
    copied = true;
  }
  const auto count = static_cast<size_t>(round_up_blocks(end, pool.block_size()));
  while (sequence.blocks.size() < count) sequence.blocks.push_back(take_block(pool, active));
  return copied;
}

void fork(BlockPool& pool, ActiveRequest& active) {
  const Sequence& first = active.sequences.front();
  RL_CHECK(!active.forked && first.computed == active.prompt_tokens());
  for (size_t i = 1; i < active.sequences.size(); ++i) {
    Sequence& s = active.sequences[i];
    s.blocks.assign(first.blocks.begin(), first.blocks.end());
    for (const int32_t block : s.blocks) pool.retain(block);
    s.computed = first.computed;
  }
  active.forked = true;
}

void finish(BlockPool& pool, ActiveRequest& active, Sequence& sequence) {
  RL_CHECK(!sequence.finished);
  for (const int32_t block : sequence.blocks) pool.release(block);
  sequence.blocks.clear();
  sequence.finished = true;
  int64_t needed = active.reserved;
  if (all_finished(active))
    needed = 0;
  else if (active.forked)
    needed = blocks_still_needed(pool, active);
  RL_CHECK(needed <= active.reserved);
  pool.cancel_reservation(active.reserved - needed);
  active.reserved = needed;
}

bool all_finished(const ActiveRequest& active) {
  return std::all_of(active.sequences.begin(), active.sequences.end(),
                     [](const Sequence& s) { return s.finished; });
}

}  // namespace rl
