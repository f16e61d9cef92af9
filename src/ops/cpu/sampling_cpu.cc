// Three ways to sample: by the tiles of the head when only the temperature shapes the row, by the
// largest logit when greedy, and through algo/sampling/sampling.h otherwise. One task per row; the
// scratch of a thread holds the distribution of the row it is at.
#include <cmath>
#include <memory_resource>

#include "core/error.h"
#include "ops/cpu/cpu_compute.h"
#include "ops/cpu/cpu_ops.h"

namespace rl {
namespace {

enum class Path : uint8_t { kPlain, kGreedy, kFiltered };

Path path_of(const SampleRow& row) {
  if (!row.forbidden_ids.empty()) return Path::kFiltered;
  if (is_plain(*row.params)) return Path::kPlain;
  const bool greedy = row.params->temperature == 0 && !has_logit_rules(*row.params);
  return greedy ? Path::kGreedy : Path::kFiltered;
}

// A NaN logit has no mass in the sum, but its logarithm keeps it (combine_tiles).
bool is_finite(const RowStats& stats) {
  return std::isfinite(stats.max) && std::isfinite(stats.log_sum);
}

// One row of the head.
struct HeadRow {
  HeadRow(const SampleRowsArgs& args, int64_t row)
      : z(args.z + row * args.vocab),
        vocab(args.vocab),
        tile_width(args.tile_width),
        tiles(args.tiles + row * ((args.vocab + args.tile_width - 1) / args.tile_width)),
        stats(args.stats[row]) {}
  float logprob(int32_t id) const { return log_prob(z[id], stats); }

  const float* z;
  int64_t vocab, tile_width;
  const TileStats* tiles;
  const RowStats& stats;
};

void measure_top(const HeadRow& head, int32_t count, TokenChoice& choice) {
  if (count == 0) return;
  const auto n = static_cast<size_t>(count);
  top_ids({head.z, head.vocab, head.tile_width, head.tiles}, std::span(choice.top_ids).first(n));
  for (size_t i = 0; i < n; ++i) choice.top_logprobs[i] = head.logprob(choice.top_ids[i]);
}

// False if a penalty overflowed the finite row.
bool choose_filtered(const HeadRow& head, const SampleRow& row, std::span<std::byte> scratch,
                     TokenChoice& choice) {
  std::pmr::monotonic_buffer_resource room(scratch.data(), scratch.size(),
                                           std::pmr::null_memory_resource());
  const auto vocab = static_cast<size_t>(head.vocab);
  TokenDistribution distribution(vocab, &room);
  try {
    distribution.assign(*row.params, {.logits = {head.z, vocab},
                                      .tempered = true,
                                      .previous_ids = row.previous_ids,
                                      .num_generated = row.num_generated,
                                      .forbidden_ids = row.forbidden_ids});
  } catch (const Error& error) {
    if (error.code == Code::kNonFinite) return false;
    throw;
  }
  const SampledToken token = distribution.sample(row.u);
  choice.id = token.id;
  choice.logprob_sampled = token.log_prob;
  return true;
}

TokenChoice choose(const HeadRow& head, const SampleRow& row, std::span<std::byte> scratch) {
  TokenChoice choice;
  if (!is_finite(head.stats)) return choice;
  const Path path = path_of(row);
  if (path == Path::kPlain) {
    choice.id = static_cast<int32_t>(
        sample_token({head.z, head.vocab, head.tile_width, head.tiles, head.stats, row.u}));
  } else if (path == Path::kGreedy) {
    choice.id = static_cast<int32_t>(argmax(head.z, head.vocab));
  } else if (!choose_filtered(head, row, scratch, choice)) {
    return choice;
  }
  choice.logprob = head.logprob(choice.id);
  if (path == Path::kPlain) choice.logprob_sampled = choice.logprob;
  measure_top(head, row.top_logprobs, choice);
  choice.finite = true;
  return choice;
}

}  // namespace

namespace cpu {

void sample_rows(Compute& compute, const SampleRowsArgs& a) {
  RL_CHECK(a.choices.size() == a.rows.size());
  const uint64_t each = sample_scratch_bytes_of_thread(a.vocab);
  cpu_of(compute).executor().parallel_for(
      static_cast<int64_t>(a.rows.size()), [&](int64_t index, int thread) {
        const auto i = static_cast<size_t>(index);
        a.choices[i] = choose(HeadRow(a, a.rows[i].row), a.rows[i],
                              {a.scratch + static_cast<uint64_t>(thread) * each, each});
      });
}

}  // namespace cpu
}  // namespace rl
