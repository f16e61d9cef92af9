// Places parameters in the flat arrays, from the configuration's list of expected tensors.
#include "model/weights.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "formats/vocabulary_cut.h"

namespace rl {
namespace {

constexpr int64_t kAlignFloats = 16;

int64_t aligned(int64_t floats) {
  return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
}

// The parameters of a layer in storage order. `fused` ones directly follow their neighbour; `at`
// receives the offset of the first of them.
struct LayerPart {
  std::string_view suffix;
  int64_t LayerOffsets::*at;
  bool fused;
  ShardRule shard = ShardRule::kWhole;
};
constexpr LayerPart kLayerParts[] = {
    {"input_layernorm.weight", &LayerOffsets::input_norm, false},
    {"q_proj.weight", &LayerOffsets::qkv, false, ShardRule::kRows},
    {"k_proj.weight", nullptr, true, ShardRule::kRows},
    {"v_proj.weight", nullptr, true, ShardRule::kRows},
    {"q_proj.bias", &LayerOffsets::qkv_bias, false, ShardRule::kColumns},
    {"k_proj.bias", nullptr, true, ShardRule::kColumns},
    {"v_proj.bias", nullptr, true, ShardRule::kColumns},
    {"q_norm.weight", &LayerOffsets::q_norm, false},
    {"k_norm.weight", &LayerOffsets::k_norm, false},
    {"o_proj.weight", &LayerOffsets::o, false, ShardRule::kColumns},
    {"post_attention_layernorm.weight", &LayerOffsets::attention_out_norm, false},
    {"pre_feedforward_layernorm.weight", &LayerOffsets::mlp_norm, false},
    {"gate_proj.weight", &LayerOffsets::gate_up, false, ShardRule::kRows},
    {"up_proj.weight", nullptr, true, ShardRule::kRows},
    {"down_proj.weight", &LayerOffsets::down, false, ShardRule::kColumns},
    {"post_feedforward_layernorm.weight", &LayerOffsets::mlp_out_norm, false},
};

const LayerPart& part_of(const std::string& name) {
  for (const LayerPart& part : kLayerParts) {
    if (name.ends_with(part.suffix)) return part;
  }
  throw Error(Code::kInternal, str("tensor ", name, " has no place in a layer"));
}

// Layer number of "model.layers.N.rest", or -1.
int64_t layer_of(const std::string& name) {
  constexpr std::string_view prefix = "model.layers.";
  if (name.compare(0, prefix.size(), prefix) != 0) return -1;
  return std::stoll(name.substr(prefix.size()));
}

// Tensors in the order of their masters: those of a layer by kLayerParts. Names are read once, as
// a plan makes many layouts.
std::vector<TensorInfo> in_order(std::vector<TensorInfo> tensors) {
  struct Place {
    int64_t layer;
    const LayerPart* part;
    size_t index;
  };
  std::vector<Place> places;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t layer = layer_of(tensors[i].name);
    places.push_back({layer, layer >= 0 ? &part_of(tensors[i].name) : nullptr, i});
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return a.layer >= 0 && a.layer == b.layer && a.part < b.part;
  });
  std::vector<TensorInfo> sorted;
  sorted.reserve(tensors.size());
  for (const Place& p : places) sorted.push_back(std::move(tensors[p.index]));
  return sorted;
}

// Makes p the piece that a part has of it.
void cut_piece(Parameter& p, const TensorSplit& split, int64_t part) {
  p.part = split.first + part;
  const ShardRule rule = shard_rule(p.name);
  const bool by_columns = rule == ShardRule::kColumns;
  int64_t& size = by_columns ? p.shape.back() : p.shape.front();
  int64_t& first = by_columns ? p.first_column : p.first_row;
  if (rule == ShardRule::kVocabulary) {
    const TokenRange tokens = VocabularyCut(size, split).part(p.part);
    p.size = p.size / size * tokens.count;
    size = tokens.count;
    first = tokens.first;
  } else {
    size /= split.parts;
    p.size /= split.parts;
    first = p.part * size;
  }
  p.tensor_size = p.name.size();
  p.name += str(".part", p.part);
}

constexpr std::string_view kEmbeddingName = "model.embed_tokens.weight";
constexpr std::string_view kHeadName = "lm_head.weight";

bool is_embedding(std::string_view name) { return name == kEmbeddingName; }
bool is_embedding(const TensorInfo& t) { return is_embedding(t.name); }
bool is_head(std::string_view name) { return name == kHeadName; }

// Extends a run by the next one if that follows it in both arrays.
bool extend(TrainedRun& run, const TrainedRun& next) {
  if (run.master + run.size != next.master || run.gradient + run.size != next.gradient)
    return false;
  run.size += next.size;
  return true;
}

}  // namespace

ShardRule shard_rule(const std::string& name) {
  if (is_embedding(name) || is_head(name)) return ShardRule::kVocabulary;
  return layer_of(name) < 0 ? ShardRule::kWhole : part_of(name).shard;
}

WeightLayout::WeightLayout(const ModelConfig& config, const TrainableRule& rule)
    : split_(config.split), stage_(config.stage), tied_head_(config.tied_head) {
  layers_.resize(static_cast<size_t>(config.layers * split_.count));
  const std::vector<TensorInfo> tensors = in_order(expected_tensors(config));
  const std::vector<bool> trained = trainable_tensors(rule, tensors);
  first_trained_layer_ = config.layers;
  // Those that are divided as `wanted` says, in order.
  const auto for_tensors = [&](auto wanted, auto visit) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ShardRule rule = split_.divides() ? shard_rule(tensors[i].name) : ShardRule::kWhole;
      if (wanted(rule)) visit(tensors[i], trained[i]);
    }
  };
  begin_section(-1);
  for_tensors([](ShardRule rule) { return rule == ShardRule::kWhole; },
              [&](const TensorInfo& t, bool is_trained) { place(t, is_trained); });
  const auto place_vocabulary = [&](std::string_view name) {
    const auto t = std::ranges::find(tensors, name, &TensorInfo::name);
    if (t == tensors.end()) return place_pieces(nullptr, false);
    place_pieces(&*t, trained[static_cast<size_t>(t - tensors.begin())]);
  };
  if (split_.divides()) {
    place_vocabulary(kEmbeddingName);
    if (!config.tied_head && !config.scalar_head) place_vocabulary(kHeadName);
  }
  for (int64_t part = 0; split_.divides() && part < split_.count; ++part) {
    begin_section(part);
    for_tensors(
        [](ShardRule rule) { return rule == ShardRule::kRows || rule == ShardRule::kColumns; },
        [&](const TensorInfo& t, bool is_trained) { place(t, is_trained, part); });
  }
  end_sections();
  if (head_ < 0) head_ = embedding_;
  if (config.sandwich_norms) return;
  // This tensor name denotes the norm between attention and MLP, whichever of the two it applies
  // to.
  for (LayerOffsets& layer : layers_) std::swap(layer.mlp_norm, layer.attention_out_norm);
}

// Rows of the vocabulary are cut at multiples of 16 tokens, so no padding comes between pieces.
void WeightLayout::place_pieces(const TensorInfo* tensor, bool trained) {
  for (int64_t part = 0; part < split_.count; ++part) {
    begin_section(part);
    if (tensor != nullptr) place(*tensor, trained, part);
  }
}

void WeightLayout::begin_section(int64_t part) {
  total_ = aligned(total_);
  gradient_total_ = aligned(gradient_total_);
  sections_.push_back({part, total_, gradient_total_, 0, 0});
}

void WeightLayout::end_sections() {
  total_ = aligned(total_);
  gradient_total_ = aligned(gradient_total_);
  for (size_t i = 0; i < sections_.size(); ++i) {
    const bool last = i + 1 == sections_.size();
    LayoutSection& s = sections_[i];
    s.masters = (last ? total_ : sections_[i + 1].master) - s.master;
    s.gradients = (last ? gradient_total_ : sections_[i + 1].gradient) - s.gradient;
  }
}

// part: among those that this rank has; -1: the whole tensor.
void WeightLayout::place(const TensorInfo& t, bool trained, int64_t part) {
  const int64_t l = layer_of(t.name);
  const bool fused = l >= 0 && part_of(t.name).fused;
  const bool follows = !parameters_.empty() && parameters_.back().trainable();
  if (!fused) total_ = aligned(total_);
  if (!fused || !follows) gradient_total_ = aligned(gradient_total_);
  Parameter p{t.name, t.shape, total_, t.rows() * t.cols(), trained ? gradient_total_ : -1};
  if (part >= 0) cut_piece(p, split_, part);
  set_offset(t, p.offset, part);
  total_ += p.size;
  count_ += p.size;
  if (trained) add_run(p, follows);
  parameters_.push_back(p);
  if (!trained) return;
  if (is_embedding(t)) first_trained_layer_ = 0;
  if (l >= 0) first_trained_layer_ = std::min(first_trained_layer_, l - stage_.first_layer);
}

void WeightLayout::set_offset(const TensorInfo& t, int64_t offset, int64_t part) {
  if (const int64_t l = layer_of(t.name); l >= 0) {
    const LayerPart& place = part_of(t.name);
    if (place.at == nullptr) return;
    for (int64_t p = 0; p < split_.count; ++p) {
      LayerOffsets& layer =
          layers_[static_cast<size_t>((l - stage_.first_layer) * split_.count + p)];
      if (part < 0 || part == p) layer.*place.at = offset;
    }
  } else if (part > 0) {
    return;  // the first piece of embedding or head is there
  } else if (is_embedding(t)) {
    (stage_.first() ? embedding_ : head_) = offset;
  } else if (t.name == "model.norm.weight") {
    final_norm_ = offset;
  } else if (is_head(t.name) || t.name == kScalarHeadName) {
    head_ = offset;
  }
}

// Between two neighbours there is nothing but padding, which may be part of a run.
void WeightLayout::add_run(const Parameter& p, bool follows) {
  if (follows) {
    TrainedRun& last = runs_.back();
    const int64_t gap = p.offset - (last.master + last.size);
    if (gap == p.gradient - (last.gradient + last.size)) last.size += gap;
  }
  const TrainedRun next{p.offset, p.gradient, p.size};
  if (runs_.empty() || !extend(runs_.back(), next)) runs_.push_back(next);
  gradient_total_ = p.gradient + p.size;
}

int64_t WeightLayout::num_tensors_of_all() const {
  int64_t whole = 0, pieces = 0;  // of the stage's layers
  for (const Parameter& p : parameters_) {
    if (layer_of(p.name) >= 0) ++(p.part < 0 ? whole : pieces);
  }
  const auto layers = static_cast<int64_t>(layers_.size()) / split_.count;
  const int64_t of_layer = (whole + pieces * split_.ranks()) / layers;
  return of_layer * stage_.all_layers + 1 + split_.parts * (tied_head_ ? 1 : 2);
}

// A copy is the last of a section.
int64_t WeightLayout::own_gradients(const LayoutSection& section) const {
  for (const Parameter& p : parameters_) {
    const int64_t at = p.gradient - section.gradient;
    if (at >= 0 && at < section.gradients && is_copy(p.name)) return at;
  }
  return section.gradients;
}

bool WeightLayout::is_copy(std::string_view parameter) const {
  return has_copies() && !stage_.first() && parameter.starts_with(kEmbeddingName);
}

size_t WeightLayout::index_at(int64_t offset) const {
  const auto p = std::ranges::lower_bound(parameters_, offset, {}, &Parameter::offset);
  RL_CHECK(p != parameters_.end() && p->offset == offset);
  return static_cast<size_t>(p - parameters_.begin());
}

int64_t WeightLayout::gradient_of(int64_t offset) const {
  return parameters_[index_at(offset)].gradient;
}

std::vector<int64_t> WeightLayout::layer_gradients() const {
  std::vector<int64_t> begins(layers_.size() / static_cast<size_t>(split_.count), gradient_total_);
  for (const Parameter& p : parameters_) {
    const int64_t layer = layer_of(p.name);
    if (layer < 0 || !p.trainable() || p.gradient < sections_.back().gradient) continue;
    int64_t& begin = begins[static_cast<size_t>(layer - stage_.first_layer)];
    begin = std::min(begin, p.gradient);
  }
  for (size_t l = begins.size(); l-- > 1;) begins[l - 1] = std::min(begins[l - 1], begins[l]);
  return begins;
}

std::vector<LayerMatrix> WeightLayout::layer_matrices() const {
  std::vector<LayerMatrix> matrices;
  const auto add = [&](int64_t offset, size_t parameters) {
    LayerMatrix matrix{offset, 0, gradient_of(offset)};
    const size_t first = index_at(offset);
    for (size_t i = first; i < first + parameters; ++i) {
      const Parameter& p = parameters_[i];
      RL_CHECK(p.offset == offset + matrix.size);
      if (!p.trainable()) matrix.gradient = -1;
      matrix.size += p.size;
    }
    matrices.push_back(matrix);
  };
  for (const LayerOffsets& layer : layers_) {
    add(layer.qkv, 3);
    add(layer.o, 1);
    add(layer.gate_up, 2);
    add(layer.down, 1);
  }
  std::ranges::sort(matrices, {}, &LayerMatrix::master);
  return matrices;
}

void WeightLayout::for_each_trained(int64_t offset, int64_t size,
                                    FunctionRef<void(const TrainedRun& run)> visit) const {
  const auto before = [](const Parameter& p, int64_t at) { return p.offset < at; };
  auto p = std::lower_bound(parameters_.begin(), parameters_.end(), offset, before);
  TrainedRun run;
  for (; p != parameters_.end() && p->offset < offset + size; ++p) {
    if (!p->trainable()) continue;
    const TrainedRun next{p->offset, p->gradient, p->size};
    if (extend(run, next)) continue;
    if (run.size > 0) visit(run);
    run = next;
  }
  if (run.size > 0) visit(run);
}

}  // namespace rl
