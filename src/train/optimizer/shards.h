// How data-parallel ranks divide what an optimizer step reads and writes (parallel.zero_stage). The
// places of the gradients are cut into one contiguous piece for each rank, by shape and options
// alone. A cut lies between blocks of 256 elements of a parameter, which have a scale in 8 bits and
// random words in common, and never within a matrix that Muon updates, nor at stage 3 within one
// that products read.
//
// Stage 1: a rank has moments and averages of its piece, updates it, and has the other masters from
// the others. Stage 2: after their reduction it also has the sums of its piece's gradients alone.
// Stage 3: of the layers' matrices it has the masters of its piece alone (model/masters.h), and has
// the others packed.
// With parallel.zero_group the ranks are those of a group: what is divided is gathered in a group,
// and gradients are summed over all ranks (comm/grouped_sum.h).
// No stage changes a bit where sums over ranks are in rank order (train/ranks/data_ranks.h): the
// squares of the norm are added chunk by chunk, in the order of one rank.
#pragma once
#include <span>
#include <vector>

#include "comm/values.h"
#include "model/masters.h"
#include "model/weights.h"
#include "train/options/optimizer_options.h"
#include "train/ranks/data_ranks.h"

namespace rl {

// The piece of each rank; one that has everything at stage 0.
Pieces shard_pieces(const WeightLayout& layout, const OptimizerOptions& options);

// The part of a run whose gradients are in the piece; of size 0 if there is none.
TrainedRun part_of(const TrainedRun& run, Piece piece);

// The matrices that the ranks divide at stage 3, and what a rank then has of the masters. A cut
// that divides nothing at other stages and for one rank.
std::vector<LayerMatrix> divided_matrices(const WeightLayout& layout,
                                          const OptimizerOptions& options);
MasterCut master_cut(const WeightLayout& layout, const OptimizerOptions& options, int rank);

class Shards {
 public:
  Shards(const WeightLayout& layout, const OptimizerOptions& options, const DataRanks& ranks);

  // Places of the gradients.
  Piece own() const { return pieces_[divided() ? dividing_.rank() : 0]; }
  uint64_t longest() const { return pieces_.longest(); }  // of all ranks' pieces
  bool divided() const { return stage_ >= 1; }
  bool divides_gradients() const { return stage_ >= 2; }
  bool divides_masters() const { return stage_ >= 3; }

  // Calls that the ranks make together, and that do nothing for one rank. `gradients` are all
  // places, of which at stage 2 only those of own() are valid after the first of them.
  void reduce(const Values& gradients, Piece range) const;
  // The same, overlapped.
  StartedCall start_reduce(const Values& gradients, Piece range) const;
  // Afterwards every rank has the sums of a range.
  void complete(const Values& gradients, Piece range) const;
  // Of a range of places that is cut into chunks of the norm from its beginning on: those of whole
  // chunks that begin in this rank's piece, of which all are valid afterwards.
  Piece complete_chunks(const Values& gradients, Piece range) const;
  // The sums of all chunks of a range, in order, from those of this rank's places, which are
  // counted from the beginning of the range.
  std::vector<double> join_chunk_sums(std::span<const double> sums, Piece places) const;
  // The gradients of a range in fp32, in memory of the host, from whoever has them.
  void read(Compute& compute, const float* gradients, Piece range, std::span<float> to) const;
  // Afterwards each rank has what the others updated, of masters that all ranks have.
  void gather(const MasterFloats& masters, MemorySpace space) const;
  // The same, overlapped: of runs of masters in order, each with its first place.
  struct StartedRun {
    int64_t master;
    StartedCall call;
  };
  std::vector<StartedRun> start_gather(const MasterFloats& masters, MemorySpace space) const;

 private:
  const WeightLayout& layout_;
  const DataRanks ranks_, dividing_;  // dividing_: those with the other pieces
  const int stage_;
  const Pieces pieces_;
  Values gathered_values(const MasterFloats& masters, const TrainedRun& run,
                         MemorySpace space) const;

  const std::vector<TrainedRun> gathered_;  // runs of masters that all ranks have
};

}  // namespace rl
