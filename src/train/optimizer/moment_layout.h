// Where the moments of each trained parameter are: in the device's memory or, with
// optimizer.cpu_offload, in the host's, and at which place of the arrays there. Each memory has
// first moments, then second ones, each with its scales behind it if they are stored in 8 bits.
// A parameter that Muon updates has a first moment only. A pure function of layout and options.
//
// A rank of several may have those of a piece of the gradients alone (train/optimizer/shards.h).
//
// Places are like those in the gradients (model/weights.h): aligned to 16 elements, or right after
// the neighbour that a parameter is fused with. AdamW's arrays, all in one memory, have the
// gradients' offsets.
#pragma once
#include <cstdint>
#include <map>

#include "comm/values.h"
#include "model/weights.h"
#include "train/options/optimizer_options.h"

namespace rl {

// Elements of the arrays in one memory.
struct MomentSpace {
  int64_t first = 0, second = 0;
  int64_t blocks = 0;  // of 256 elements with a scale, in each of both; 8 bits only
};

struct MomentPlace {
  bool on_host = false;
  int64_t first = 0, second = -1;  // elements; -1: it has none
  int64_t block = 0;               // the first of its scales
  uint64_t rounding_block = 0;     // the same among those of all parameters, on all ranks
};

// Bytes from the beginning of the arena of a space.
struct MomentOffsets {
  uint64_t first, first_scales, second, second_scales, total;
};

class MomentLayout {
 public:
  MomentLayout(const WeightLayout& layout, const OptimizerOptions& options)
      : MomentLayout(layout, options, {0, static_cast<uint64_t>(layout.gradient_total())}) {}
  // Of the gradients in the piece.
  MomentLayout(const WeightLayout& layout, const OptimizerOptions& options, Piece own);

  const MomentSpace& space(bool on_host) const { return on_host ? host_ : device_; }
  MomentOffsets offsets(bool on_host) const;
  // Of the parameter at this offset of the gradients, or of the part of one that begins there.
  const MomentPlace& place(int64_t gradient) const { return places_.at(gradient); }
  // Bytes of a buffer for gradient and weights of any parameter on the host; 0 without one.
  uint64_t staging_bytes() const;

 private:
  // The part of a parameter that this rank has.
  struct Part {
    TrainedRun run;
    bool has_second, on_host, follows;
    uint64_t rounding_block;
  };
  void add(const Part& part);

  StateDtype dtype_;
  MomentSpace device_, host_;
  std::map<int64_t, MomentPlace> places_;
  int64_t largest_on_host_ = 0;
};

}  // namespace rl
