// A piece of columns is read row by row.
#include "model/whole_tensors.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/error.h"

namespace rl {
namespace {

WeightLayout layout_of_parts(const Model& model, int64_t first, int64_t count) {
  ModelConfig config = model.config();
  config.split.first = first;
  config.split.count = count;
  return WeightLayout(config);
}

WeightLayout layout_of_all(const Model& model) {
  return layout_of_parts(model, 0, model.config().split.parts);
}

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

WholeTensors::WholeTensors(const Model& model) : model_(model), layout_(layout_of_all(model)) {
  gather_stages();
  if (model.tensor_ranks().size() > 1) gather_ranks();
}

// Whole tensors are those of the first rank.
void WholeTensors::gather_ranks() {
  const TensorRanks& ranks = model_.tensor_ranks();
  const int64_t count = model_.config().split.count;
  std::map<std::string, int64_t> places;
  Pieces bytes{{0}};
  for (int r = 0; r < ranks.size(); ++r) {
    const WeightLayout layout = layout_of_parts(model_, r * count, count);
    const auto first = static_cast<int64_t>(bytes.count() / sizeof(float));
    for (const Parameter& p : layout.parameters()) places.try_emplace(p.name, first + p.offset);
    bytes.bounds.push_back(bytes.count() + static_cast<uint64_t>(layout.total()) * sizeof(float));
  }
  for (const Parameter& p : layout_.parameters()) places_.push_back(places.at(p.name));
  gathered_.resize(bytes.count() / sizeof(float));
  const Piece own = bytes[ranks.rank()];
  model_.masters().read(
      std::span(gathered_).subspan(own.begin / sizeof(float), own.count() / sizeof(float)));
  ranks.gather_bytes(std::as_writable_bytes(std::span(gathered_)), bytes);
}

void WholeTensors::gather_stages() {
  const StageRanks& stages = model_.stage_ranks();
  if (stages.alone()) return;
  if (stages.rank() > 0) {
    std::vector<float> own(static_cast<size_t>(layout_.total()));
    model_.masters().read(own);
    return stages.give(std::as_bytes(std::span(own)));
  }
  for (int s = 1; s < stages.size(); ++s) {
    WeightLayout layout(with_stage(model_.whole_config(), model_.stage_cut(), s));
    std::vector<float> values(static_cast<size_t>(layout.total()));
    stages.take(std::as_writable_bytes(std::span(values)), s);
    later_.push_back({std::move(layout), std::move(values)});
  }
}

const WholeTensors::Stage* WholeTensors::later_stage_with(const TensorInfo& tensor) const {
  const auto has = [&](const WeightLayout& layout) {
    return std::ranges::any_of(layout.parameters(),
                               [&](const Parameter& p) { return p.name == tensor.name; });
  };
  if (later_.empty() || has(layout_)) return nullptr;
  const auto stage = std::ranges::find_if(later_, [&](const Stage& s) { return has(s.layout); });
  RL_CHECK(stage != later_.end());
  return &*stage;
}

void WholeTensors::read(const TensorInfo& tensor, int64_t first_row, std::span<float> out) const {
  if (const Stage* const later = later_stage_with(tensor)) {
    const auto piece = [&](const Parameter& p, int64_t first, std::span<float> to) {
      std::copy_n(later->values.begin() + p.offset + first, to.size(), to.begin());
    };
    return read_rows(later->layout, tensor, first_row, piece, out);
  }
  const auto piece = [&](const Parameter& p, int64_t first, std::span<float> to) {
    if (gathered_.empty())
      return model_.masters().part(p.offset + first, static_cast<int64_t>(to.size())).read(to);
    const int64_t at = places_[static_cast<size_t>(&p - layout_.parameters().data())];
    std::copy_n(gathered_.begin() + at + first, to.size(), to.begin());
  };
  read_rows(layout_, tensor, first_row, piece, out);
}

}  // namespace rl
