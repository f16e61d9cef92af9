// The head of a piece that begins within a chunk of the norm goes to the rank with the beginning of
// that chunk: always to a lower one, so ranks that send before they receive cannot wait in a
// circle.
#include "train/optimizer/shards.h"

#include <algorithm>
#include <cstdint>

#include "algo/optimizers/low_bit_adamw.h"
#include "core/error.h"
#include "ops/compute.h"
#include "ops/optimizer_ops.h"
#include "train/options/update_runs.h"

namespace rl {
namespace {

constexpr uint64_t kChunk = kOptimizerChunk;

uint64_t end_of(const Parameter& p) { return static_cast<uint64_t>(p.gradient + p.size); }

uint64_t nearer_end(uint64_t begin, uint64_t end, uint64_t wanted) {
  return 2 * (wanted - begin) < end - begin ? begin : end;
}

// The nearest place at or before `wanted`, of a parameter, where a cut may lie; of a matrix that is
// not divided, the nearer end.
uint64_t cut_within(const Parameter& p, uint64_t wanted, const OptimizerOptions& options,
                    std::span<const LayerMatrix> whole) {
  for (const LayerMatrix& m : whole) {
    const auto begin = static_cast<uint64_t>(m.gradient);
    const uint64_t end = begin + static_cast<uint64_t>(m.size);
    if (begin <= wanted && wanted < end) return nearer_end(begin, end, wanted);
  }
  const auto begin = static_cast<uint64_t>(p.gradient);
  if (is_muon_matrix(p, options)) return nearer_end(begin, end_of(p), wanted);
  return begin + (wanted - begin) / kInt8Block * kInt8Block;
}

Piece places_of(const TrainedRun& run) {
  const auto first = static_cast<uint64_t>(run.gradient);
  return {first, first + static_cast<uint64_t>(run.size)};
}

// Of the trained parameters without these matrices.
std::vector<TrainedRun> runs_without(const WeightLayout& layout,
                                     std::span<const LayerMatrix> matrices) {
  if (matrices.empty()) return layout.trained_runs();
  std::vector<TrainedRun> runs;
  for (const Parameter& p : layout.parameters()) {
    const auto has = [&](const LayerMatrix& m) {
      return m.master <= p.offset && p.offset < m.master + m.size;
    };
    if (!p.trainable() || std::ranges::any_of(matrices, has)) continue;
    runs.push_back({p.offset, p.gradient, p.size});
  }
  return runs;
}

Values part_of(const Values& values, Piece places) {
  const uint64_t size = element_bytes(values.element);
  return {values.data + places.begin * size, places.count(), values.element, values.space};
}

}  // namespace

Pieces shard_pieces(const WeightLayout& layout, const OptimizerOptions& options) {
  const auto total = static_cast<uint64_t>(layout.gradient_total());
  Pieces pieces{{0}};
  const int ranks = options.zero.stage == 0 ? 1 : options.zero.ranks;
  const std::vector<LayerMatrix> whole = divided_matrices(layout, options);
  auto p = layout.parameters().begin();
  for (int r = 1; r < ranks; ++r) {
    const uint64_t wanted = piece_of(total, r, ranks).begin;
    const auto holds = [&](const Parameter& each) {
      return each.trainable() && wanted < end_of(each);
    };
    p = std::find_if(p, layout.parameters().end(), holds);
    if (p == layout.parameters().end()) {
      pieces.bounds.push_back(total);
    } else {
      const uint64_t inside = std::max(wanted, static_cast<uint64_t>(p->gradient));
      pieces.bounds.push_back(cut_within(*p, inside, options, whole));
    }
  }
  pieces.bounds.push_back(total);
  return pieces;
}

std::vector<LayerMatrix> divided_matrices(const WeightLayout& layout,
                                          const OptimizerOptions& options) {
  if (options.zero.stage < 3 || options.zero.ranks == 1) return {};
  std::vector<LayerMatrix> matrices = layout.layer_matrices();
  std::erase_if(matrices, [](const LayerMatrix& m) { return m.gradient < 0; });
  return matrices;
}

MasterCut master_cut(const WeightLayout& layout, const OptimizerOptions& options, int rank) {
  const std::vector<LayerMatrix> divided = divided_matrices(layout, options);
  if (divided.empty()) return {};
  const Pieces pieces = shard_pieces(layout, options);
  std::vector<OwnedMatrix> owned;
  for (const LayerMatrix& m : divided) {
    const int owner = pieces.part_with(static_cast<uint64_t>(m.gradient));
    owned.push_back({m.master, m.size, owner});
  }
  return {std::move(owned), rank, options.zero.ranks};
}

TrainedRun part_of(const TrainedRun& run, Piece piece) {
  const int64_t first = std::max(run.gradient, static_cast<int64_t>(piece.begin));
  const int64_t end = std::min(run.gradient + run.size, static_cast<int64_t>(piece.end));
  if (first >= end) return {};
  return {run.master + first - run.gradient, first, end - first};
}

Shards::Shards(const WeightLayout& layout, const OptimizerOptions& options, const DataRanks& ranks)
    : layout_(layout),
      ranks_(ranks),
      dividing_(ranks.dividing()),
      stage_(options.zero.stage),
      pieces_(shard_pieces(layout, options)),
      gathered_(runs_without(layout, divided_matrices(layout, options))) {
  RL_CHECK(!divided() || pieces_.parts() == dividing_.size());
}

void Shards::reduce(const Values& gradients, Piece range) const {
  const Values values = part_of(gradients, range);
  divides_gradients() ? ranks_.sum_pieces(values, pieces_.within(range)) : ranks_.sum(values);
}

StartedCall Shards::start_reduce(const Values& gradients, Piece range) const {
  const Values values = part_of(gradients, range);
  return divides_gradients() ? ranks_.start_sum_pieces(values, pieces_.within(range))
                             : ranks_.start_sum(values);
}

// One rank after the other sends its piece.
void Shards::complete(const Values& gradients, Piece range) const {
  if (!divides_gradients()) return;
  const Values values = part_of(gradients, range);
  const Pieces pieces = pieces_.within(range);
  for (int from = 0; from < dividing_.size(); ++from) {
    const Values piece = part_of(values, pieces[from]);
    if (piece.count == 0) continue;
    if (from != dividing_.rank()) {
      dividing_.receive(piece, from);
      continue;
    }
    for (int to = 0; to < dividing_.size(); ++to) {
      if (to != from) dividing_.send(piece, to);
    }
  }
}

// Places within the range are counted from its beginning.
Piece Shards::complete_chunks(const Values& gradients, Piece range) const {
  if (!divides_gradients()) return range;
  const Values values = part_of(gradients, range);
  const Pieces pieces = pieces_.within(range);
  const auto head_of = [&](int rank) {
    const Piece piece = pieces[rank];
    const uint64_t begin = piece.begin;
    if (begin % kChunk == 0) return Piece{begin, begin};
    return Piece{begin, std::min((begin / kChunk + 1) * kChunk, piece.end)};
  };
  const auto owner_of = [&](Piece head) { return pieces.part_with(head.begin / kChunk * kChunk); };
  const Piece own = pieces[dividing_.rank()], head = head_of(dividing_.rank());
  if (head.count() > 0) dividing_.send(part_of(values, head), owner_of(head));
  uint64_t end = own.end;
  for (int r = dividing_.rank() + 1; r < dividing_.size(); ++r) {
    const Piece other = head_of(r);
    if (other.count() == 0 || owner_of(other) != dividing_.rank()) continue;
    dividing_.receive(part_of(values, other), r);
    end = other.end;
  }
  // Those that begin in the piece, if any does.
  const uint64_t begin = (own.begin + kChunk - 1) / kChunk * kChunk;
  const uint64_t first = std::min(begin, end), last = begin < own.end ? end : first;
  return {range.begin + first, range.begin + last};
}

std::vector<double> Shards::join_chunk_sums(std::span<const double> sums, Piece places) const {
  const auto first = static_cast<size_t>(places.begin / kChunk);
  const auto count =
      static_cast<size_t>(num_optimizer_chunks(static_cast<int64_t>(places.count())));
  const std::span<const double> own = sums.subspan(std::min(first, sums.size() - count), count);
  if (!divides_gradients()) return {own.begin(), own.end()};
  return dividing_.gather_lists(own);
}

void Shards::read(Compute& compute, const float* gradients, Piece range,
                  std::span<float> to) const {
  const Piece valid = divides_gradients() ? own() : range;
  const uint64_t begin = std::clamp(valid.begin, range.begin, range.end);
  const uint64_t end = std::clamp(valid.end, range.begin, range.end);
  std::ranges::fill(to, 0.0f);
  if (begin < end) {
    copy_bytes(compute, {gradients + begin, to.data() + (begin - range.begin),
                         (end - begin) * sizeof(float)});
  }
  if (divides_gradients()) dividing_.fill(to);
}

Values Shards::gathered_values(const MasterFloats& masters, const TrainedRun& run,
                               MemorySpace space) const {
  auto* const first = reinterpret_cast<std::byte*>(masters.at(run.master));
  return {first, static_cast<uint64_t>(run.size), Element::kF32, space};
}

void Shards::gather(const MasterFloats& masters, MemorySpace space) const {
  if (!divided()) return;
  for (const TrainedRun& run : gathered_)
    dividing_.gather_pieces(gathered_values(masters, run, space), pieces_.within(places_of(run)));
}

// A run is cut where a layer begins.
std::vector<Shards::StartedRun> Shards::start_gather(const MasterFloats& masters,
                                                     MemorySpace space) const {
  std::vector<StartedRun> started;
  const std::vector<int64_t> begins = layout_.layer_gradients();
  for (const TrainedRun& run : gathered_) {
    for (int64_t first = run.gradient; first < run.gradient + run.size;) {
      const auto next = std::ranges::upper_bound(begins, first);
      const int64_t end =
          std::min(run.gradient + run.size, next != begins.end() ? *next : INT64_MAX);
      const TrainedRun part{run.master + first - run.gradient, first, end - first};
      started.push_back(
          {part.master, dividing_.start_gather_pieces(gathered_values(masters, part, space),
                                                      pieces_.within(places_of(part)))});
      first = end;
    }
  }
  return started;
}

}  // namespace rl
