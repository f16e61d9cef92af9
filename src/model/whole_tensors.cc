// A piece of columns is read row by row.
#include "model/whole_tensors.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/error.h"

namespace rl {
namespace {

struct WantedRows {
  int64_t first, count, columns;
  std::span<float> out;
};

// What the piece has of the rows.
void read_piece(const Parameter& p, const WantedRows& wanted, PieceReader read) {
  const int64_t begin = std::max(wanted.first, p.first_row);
  const int64_t end = std::min(wanted.first + wanted.count, p.first_row + p.rows());
  if (begin >= end) return;
  const auto to = [&](int64_t row, int64_t count) {
    return wanted.out.subspan(
        static_cast<size_t>((row - wanted.first) * wanted.columns + p.first_column),
        static_cast<size_t>(count));
  };
  const int64_t first = (begin - p.first_row) * p.columns();
  if (p.columns() == wanted.columns)
    return read(p, first, to(begin, (end - begin) * wanted.columns));
  for (int64_t row = begin; row < end; ++row)
    read(p, (row - p.first_row) * p.columns(), to(row, p.columns()));
}

}  // namespace

ModelConfig with_parts(ModelConfig config, int64_t first, int64_t count) {
  config.split.first = first;
  config.split.count = count;
  return config;
}

void read_rows(const WeightLayout& layout, const TensorInfo& tensor, int64_t first_row,
               PieceReader read, std::span<float> out) {
  const WantedRows wanted{first_row, static_cast<int64_t>(out.size()) / tensor.cols(),
                          tensor.cols(), out};
  bool known = false;
  for (const Parameter& p : layout.parameters()) {
    if (p.tensor() != tensor.name) continue;
    known = true;
    read_piece(p, wanted, read);
  }
  RL_CHECK(known);
}

// Whole tensors are those of the first rank.
WholeTensors::Masters::Masters(const ModelConfig& config, int ranks)
    : layout(with_parts(config, 0, config.split.parts)), bounds{{0}} {
  const int64_t count = config.split.count;
  std::map<std::string, int64_t> found;
  for (int r = 0; r < ranks; ++r) {
    const WeightLayout of_rank(with_parts(config, r * count, count));
    const auto first = static_cast<int64_t>(bounds.count());
    for (const Parameter& p : of_rank.parameters()) found.try_emplace(p.name, first + p.offset);
    bounds.bounds.push_back(bounds.count() + static_cast<uint64_t>(of_rank.total()));
  }
  for (const Parameter& p : layout.parameters()) places.push_back(found.at(p.name));
}

WholeTensors::WholeTensors(const Model& model)
    : model_(model), own_(model.config(), model.tensor_ranks().size()) {
  if (model.master_cut().divides()) {
    if (!model.master_ranks().of_first_group()) return;
    gather_masters();
    if (model.master_ranks().rank() != 0) return;
  }
  if (model.tensor_ranks().size() > 1) gather_ranks();
  gather_stages();
}

void WholeTensors::gather_masters() {
  const MasterRanks& ranks = model_.master_ranks();
  const MasterFloats masters = model_.held_masters();
  std::vector<float> copy;  // of values in the memory of a device
  const auto held = [&](int64_t place, int64_t size) -> std::span<const std::byte> {
    const DeviceFloats values = masters.part(place, size);
    if (values.is_host_memory()) return std::as_bytes(values.in_host());
    copy.resize(static_cast<size_t>(size));
    values.read(copy);
    return std::as_bytes(std::span(copy));
  };
  if (ranks.rank() == 0) own_.values.resize(own_.bounds.count());
  const auto room = [&](int64_t place, int64_t size) {
    const auto begin = static_cast<size_t>(own_.bounds[model_.tensor_ranks().rank()].begin);
    return std::as_writable_bytes(
        std::span(own_.values)
            .subspan(begin + static_cast<size_t>(place), static_cast<size_t>(size)));
  };
  for (const Parameter& p : model_.layout().parameters()) {
    const int owner = std::max(model_.master_cut().owner(p.offset), 0);
    if (ranks.rank() != 0) {
      if (owner == ranks.rank()) ranks.give(held(p.offset, p.size));
    } else if (owner == 0) {
      std::ranges::copy(held(p.offset, p.size), room(p.offset, p.size).begin());
    } else {
      ranks.take(room(p.offset, p.size), owner);
    }
  }
}

void WholeTensors::gather_ranks() {
  const TensorRanks& ranks = model_.tensor_ranks();
  const Piece own = own_.bounds[ranks.rank()];
  if (!model_.master_cut().divides()) {
    own_.values.resize(own_.bounds.count());
    model_.masters().read(std::span(own_.values).subspan(own.begin, own.count()));
  }
  Pieces bytes = own_.bounds;
  for (uint64_t& bound : bytes.bounds) bound *= sizeof(float);
  ranks.gather_bytes(std::as_writable_bytes(std::span(own_.values)), bytes);
}

void WholeTensors::gather_stages() {
  const StageRanks& stages = model_.stage_ranks();
  if (stages.alone()) return;
  if (stages.rank() > 0) {
    std::vector<float> own;
    if (own_.values.empty()) {
      own.resize(own_.bounds.count());
      model_.masters().read(own);
    }
    return stages.give(std::as_bytes(std::span(own_.values.empty() ? own : own_.values)));
  }
  for (int s = 1; s < stages.size(); ++s) {
    Masters later(with_stage(model_.whole_config(), model_.stage_cut(), s),
                  model_.tensor_ranks().size());
    later.values.resize(later.bounds.count());
    stages.take(std::as_writable_bytes(std::span(later.values)), s);
    later_.push_back(std::move(later));
  }
}

const WholeTensors::Masters& WholeTensors::masters_with(const TensorInfo& tensor) const {
  const auto has = [&](const Masters& masters) {
    return std::ranges::any_of(masters.layout.parameters(),
                               [&](const Parameter& p) { return p.tensor() == tensor.name; });
  };
  if (later_.empty() || has(own_)) return own_;
  const auto stage = std::ranges::find_if(later_, has);
  RL_CHECK(stage != later_.end());
  return *stage;
}

void WholeTensors::read(const TensorInfo& tensor, int64_t first_row, std::span<float> out) const {
  const Masters& masters = masters_with(tensor);
  const auto piece = [&](const Parameter& p, int64_t first, std::span<float> to) {
    if (masters.values.empty())
      return model_.masters().part(p.offset + first, static_cast<int64_t>(to.size())).read(to);
    const int64_t at = masters.places[static_cast<size_t>(&p - masters.layout.parameters().data())];
    std::copy_n(masters.values.begin() + at + first, to.size(), to.begin());
  };
  read_rows(masters.layout, tensor, first_row, piece, out);
}

}  // namespace rl
