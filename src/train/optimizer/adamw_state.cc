// Arenas: gradients, and their scratch in bf16; moments on the device; moments on the host, and its
// staging buffers.
#include "train/optimizer/adamw_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/checked.h"
#include "core/error.h"
#include "train/optimizer/stage_gradients.h"
#include "train/options/update_runs.h"

namespace rl {
namespace {

int64_t num_buffers(const OptimizerOptions& o) { return o.offload.overlap ? 2 : 1; }

// Elements of a tensor, each of so many bytes.
struct Part {
  uint64_t first, count, each;
};

void copy_floats(Compute& compute, const float* from, float* to, int64_t count) {
  copy_bytes(compute, {from, to, static_cast<uint64_t>(count) * sizeof(float)});
}

// The places of pieces of embedding and head; none if they are whole. The first section has what is
// whole, the last ones have the layers.
Piece vocabulary_gradients(const WeightLayout& layout) {
  if (!layout.split().divides()) return {};
  const std::vector<LayoutSection>& sections = layout.sections();
  const LayoutSection& layers =
      sections[sections.size() - static_cast<size_t>(layout.split().count)];
  return {static_cast<uint64_t>(sections[1].gradient), static_cast<uint64_t>(layers.gradient)};
}

}  // namespace

GradientBytes AdamwState::gradient_bytes(const WeightLayout& layout, GradDtype dtype) {
  const auto bytes = [](int64_t count, uint64_t each) {
    return (CheckedU64(static_cast<uint64_t>(count)) * CheckedU64(each))
        .align_up(ArenaPlan::kAlignment)
        .get();
  };
  if (dtype == GradDtype::kF32) return {bytes(layout.gradient_total(), sizeof(float)), 0};
  return {bytes(layout.gradient_total(), sizeof(uint16_t)),
          bytes(RoundedGradients::scratch_floats(layout), sizeof(float))};
}

MomentBytes AdamwState::moment_bytes(const WeightLayout& layout, const OptimizerOptions& options) {
  MomentBytes most;
  const Pieces pieces = shard_pieces(layout, options);
  for (int r = 0; r < pieces.parts(); ++r) {
    const MomentLayout places(layout, options, pieces[r]);
    most.device = std::max(most.device, places.offsets(false).total);
    most.host = std::max(most.host, places.offsets(true).total);
    const uint64_t buffers = static_cast<uint64_t>(num_buffers(options));
    most.staging = std::max(most.staging, buffers * places.staging_bytes());
  }
  return most;
}

AdamwState::AdamwState(const WeightLayout& layout, const OptimizerOptions& options,
                       Compute& compute, const LearnerTools& tools)
    : layout_(layout),
      options_(options),
      shards_(layout, options, tools.ranks),
      places_(layout, options, shards_.own()),
      compute_(compute),
      gradients_("gradients",
                 tools.gradients != nullptr ? 0 : gradient_bytes(layout, options.grad_dtype).values,
                 Touch::kLater, compute.memory()),
      scratch_("gradient scratch",
               tools.gradients != nullptr ? 0 : gradient_bytes(layout, options.grad_dtype).scratch,
               Touch::kLater, compute.memory()),
      moments_("optimizer states", moment_bytes(layout, options).device, Touch::kLater,
               compute.memory()),
      host_moments_("optimizer states, host", moment_bytes(layout, options).host, Touch::kLater,
                    compute.ledger()),
      staging_("optimizer staging, host", moment_bytes(layout, options).staging, Touch::kLater,
               compute.ledger()),
      gradient_data_(tools.gradients != nullptr ? tools.gradients : gradients_.data()),
      chunk_sums_(static_cast<size_t>(num_optimizer_chunks(layout.gradient_total()))),
      layer_gradients_(layout.layer_gradients()),
      unsummed_(static_cast<uint64_t>(layout.gradient_total())) {
  if (options.grad_dtype == GradDtype::kBf16) {
    std::byte* const scratch =
        tools.gradients != nullptr
            ? tools.gradients + gradient_bytes(layout, GradDtype::kBf16).values
            : scratch_.data();
    const RoundedGradients::Memory memory{
        reinterpret_cast<uint16_t*>(gradient_data_), layout.gradient_total(),
        reinterpret_cast<float*>(scratch), RoundedGradients::scratch_floats(layout)};
    rounded_.emplace(compute, memory, options.seed, options.stream, vocabulary_gradients(layout));
  }
  if (host_moments_.bytes() == 0 || !compute.has_own_memory()) return;
  throw Error(Code::kUnsupported, str("optimizer.cpu_offload: the device ", compute.device().name(),
                                      " cannot update optimizer states in the host's memory"))
      .with_key("optimizer.cpu_offload");
}

std::byte* AdamwState::moments(const MomentPlace& place) const {
  return place.on_host ? host_moments_.data() : moments_.data();
}

float* AdamwState::first_moments(const TrainedRun& run) {
  RL_CHECK(options_.state_dtype == StateDtype::kF32);
  const MomentPlace& place = places_.place(run.gradient);
  return reinterpret_cast<float*>(moments(place)) + place.first;
}

std::vector<std::span<std::byte>> AdamwState::memory() const {
  std::vector<std::span<std::byte>> all;
  for (const Arena* arena : {&gradients_, &scratch_, &moments_, &host_moments_, &staging_}) {
    if (arena->bytes() != 0) all.push_back(arena->span());
  }
  return all;
}

// Moments in 8 bits have their scales as tensors of their own. Of a parameter in parts each tensor
// is this rank's part, which may be empty.
void AdamwState::add_tensors(const Parameter& p, StateArray& first, StateArray& second) const {
  const TrainedRun own = part_of({p.offset, p.gradient, p.size}, shards_.own());
  const MomentPlace place = own.size > 0 ? places_.place(own.gradient) : MomentPlace{};
  const MomentOffsets at = places_.offsets(place.on_host);
  std::byte* const base = moments(place);
  const auto begin = static_cast<uint64_t>(own.size > 0 ? own.gradient - p.gradient : 0);
  const auto tensor = [&](const std::string& name, const char* dtype, std::vector<int64_t> shape,
                          std::byte* from, Part part) {
    const uint64_t bytes = own.size > 0 ? part.count * part.each : 0;
    StateTensor out{name, dtype, std::move(shape), DeviceBytes(compute_, from, bytes)};
    if (shards_.divided()) out.first = part.first * part.each;
    return out;
  };
  const auto add = [&](StateArray& to, int64_t element, uint64_t values, uint64_t scales,
                       const char* code) {
    if (element < 0) return;
    const auto count = static_cast<uint64_t>(own.size), e = static_cast<uint64_t>(element);
    if (options_.state_dtype == StateDtype::kF32) {
      to.tensors.push_back(
          tensor(p.name, "F32", p.shape, base + values + 4 * e, {begin, count, 4}));
    } else if (options_.state_dtype == StateDtype::kBf16) {
      to.tensors.push_back(
          tensor(p.name, "BF16", p.shape, base + values + 2 * e, {begin, count, 2}));
    } else {
      const auto block = static_cast<uint64_t>(place.block);
      const auto blocks = static_cast<uint64_t>(num_int8_blocks(own.size));
      to.tensors.push_back(tensor(p.name, code, p.shape, base + values + e, {begin, count, 1}));
      to.tensors.push_back(tensor(p.name + ".scales", "F32", {num_int8_blocks(p.size)},
                                  base + scales + 4 * block, {begin / kInt8Block, blocks, 4}));
    }
  };
  const bool has_second = !is_muon_matrix(p, options_);
  add(first, place.first, at.first, at.first_scales, "I8");
  add(second, has_second ? std::max<int64_t>(place.second, 0) : -1, at.second, at.second_scales,
      "U8");
}

std::vector<StateArray> AdamwState::arrays() const {
  StateArray first{"first_moments", {}}, second{"second_moments", {}};
  for (const Parameter& p : layout_.parameters()) {
    if (p.trainable()) add_tensors(p, first, second);
  }
  return {std::move(first), std::move(second)};
}

GradientSink AdamwState::sink() {
  return rounded_ ? GradientSink(*rounded_) : GradientSink(gradients().data());
}

DeviceFloats AdamwState::gradients() const {
  if (rounded_) return {};
  return {compute_, reinterpret_cast<float*>(gradient_data_), layout_.gradient_total()};
}

void AdamwState::read_gradients(std::span<float> to) {
  rounded_ ? rounded_->read(to) : gradients().read(to);
}

void AdamwState::write_gradients(std::span<const float> from) {
  rounded_ ? rounded_->write(from) : gradients().write(from);
}

void AdamwState::spoil_gradients() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (rounded_) return rounded_->spoil();
  if (!gradients().empty()) gradients().part(0, 1).write({&nan, 1});
}

const float* AdamwState::run_gradients(const TrainedRun& run) {
  if (rounded_) return rounded_->widened(run.gradient, run.size);
  return reinterpret_cast<const float*>(gradient_data_) + run.gradient;
}

void AdamwState::free_gradients() {
  if (!options_.frees_gradients || gradients_.bytes() == 0) return;
  gradients_.decommit();
  scratch_.decommit();
  freed_ = true;
}

void AdamwState::hold_gradients() {
  if (!freed_) return;
  gradients_.commit();
  scratch_.commit();
  freed_ = false;
}

std::vector<Arena*> AdamwState::kept(bool with_gradients) {
  if (with_gradients) return {&moments_, &gradients_};
  return {&moments_};
}

std::vector<Arena*> AdamwState::dropped(bool with_gradients) {
  if (with_gradients) return {&scratch_, &staging_};
  return {&gradients_, &scratch_, &staging_};
}

void AdamwState::zero_gradients(int64_t number) {
  hold_gradients();
  sums_.clear();
  unsummed_ = static_cast<uint64_t>(layout_.gradient_total());
  if (rounded_) return rounded_->begin(number);
  zero_floats(compute_, {gradients().data(), layout_.gradient_total()});
}

Values AdamwState::all_gradients() const {
  return {gradient_data_, static_cast<uint64_t>(layout_.gradient_total()),
          rounded_ ? Element::kBf16 : Element::kF32, compute_.space()};
}

void AdamwState::start_sum(int64_t layer) {
  const auto begin = static_cast<uint64_t>(layer_gradients_[static_cast<size_t>(layer)]);
  if (begin >= unsummed_) return;
  sums_.push_back(shards_.start_reduce(all_gradients(), {begin, unsummed_}));
  unsummed_ = begin;
}

void AdamwState::start_sums() {
  if (!overlaps_sums()) return;
  for (size_t l = layer_gradients_.size(); l-- > 0;) start_sum(static_cast<int64_t>(l));
}

void AdamwState::sum_over_ranks() {
  if (unsummed_ > 0) shards_.reduce(all_gradients(), {0, unsummed_});
  unsummed_ = 0;
  for (StartedCall& sum : sums_) sum.wait();
  sums_.clear();
}

void AdamwState::share_copies(const StageRanks& stages) {
  for (const Parameter& p : layout_.parameters()) {
    if (!layout_.is_copy(p.name)) continue;
    const auto begin = static_cast<uint64_t>(p.gradient);
    shards_.complete(all_gradients(), {begin, begin + static_cast<uint64_t>(p.size)});
  }
  share_embedding_gradient(stages, layout_, gradients().data());
}

// What all ranks have counts once, then each part in order: its vocabulary, then its layers.
double AdamwState::gradient_norm(const TensorRanks& ranks, const StageRanks& stages) {
  double sum = 0;
  std::vector<double> parts(static_cast<size_t>(layout_.split().count));
  for (const LayoutSection& section : layout_.sections()) {
    double& to = section.part < 0 ? sum : parts[static_cast<size_t>(section.part)];
    to += squares_of(section, stages);
  }
  if (layout_.split().divides()) {
    for (const double part : ranks.gather(parts)) sum += part;
  }
  return std::sqrt(sum);
}

double AdamwState::squares_of(const LayoutSection& section, const StageRanks& stages) {
  const auto begin = static_cast<uint64_t>(section.gradient);
  const auto squares = [&](rl::Piece range) {
    return chunk_squares({begin + range.begin, begin + range.end});
  };
  if (!stages.alone()) {
    const auto read = [&](rl::Piece range, std::span<float> to) {
      shards_.read(compute_, gradients().data(), {begin + range.begin, begin + range.end}, to);
    };
    return squares_over_stages(stages, compute_, {layout_.own_gradients(section), squares, read});
  }
  double sum = 0;
  for (const double s : squares({0, static_cast<uint64_t>(section.gradients)})) sum += s;
  return sum;
}

// Of the chunks of a range, in order.
std::vector<double> AdamwState::chunk_squares(rl::Piece range) {
  const rl::Piece places = shards_.complete_chunks(all_gradients(), range);
  square_chunks(places, static_cast<int64_t>(range.begin));
  return shards_.join_chunk_sums(chunk_sums_,
                                 {places.begin - range.begin, places.end - range.begin});
}

// In bf16 piece by piece, whole chunks. The first sum is that of the chunk at `origin`.
void AdamwState::square_chunks(rl::Piece places, int64_t origin) {
  const auto end = static_cast<int64_t>(places.end);
  const int64_t most = rounded_ ? rounded_->piece() : static_cast<int64_t>(places.count());
  double sum = 0;
  for (auto first = static_cast<int64_t>(places.begin); first < end; first += most) {
    const int64_t count = std::min(most, end - first);
    const std::span<double> sums =
        std::span(chunk_sums_)
            .subspan(static_cast<size_t>((first - origin) / kOptimizerChunk),
                     static_cast<size_t>(num_optimizer_chunks(count)));
    const float* const values =
        rounded_ ? rounded_->widened(first, count) : gradients().data() + first;
    squared_norm(compute_, {values, count, sums, sum});
  }
}

// A piece that is not the first begins at a whole block of scales.
void AdamwState::apply(const Update& update, const Piece& piece, const Operands& on) {
  const MomentPlace& place = places_.place(piece.run.gradient);
  const MomentOffsets at = places_.offsets(place.on_host);
  const auto block = static_cast<uint64_t>(piece.first / kInt8Block);
  std::byte* const base = moments(place);
  const RoundingKey key{PhiloxKey{options_.seed, RngPurpose::kRounding}.derive(),
                        static_cast<uint32_t>(update.number), options_.stream};
  const int64_t m_at = place.first + piece.first, v_at = place.second + piece.first;
  if (options_.state_dtype == StateDtype::kF32) {
    auto* const m = reinterpret_cast<float*>(base + at.first) + m_at;
    auto* const v = reinterpret_cast<float*>(base + at.second) + v_at;
    adamw(compute_, {update.step, on.weights, m, v, on.gradients, piece.count});
  } else if (options_.state_dtype == StateDtype::kBf16) {
    auto* const m = reinterpret_cast<uint16_t*>(base + at.first) + m_at;
    auto* const v = reinterpret_cast<uint16_t*>(base + at.second) + v_at;
    const auto index = static_cast<uint64_t>(piece.run.gradient + piece.first);
    adamw_bf16(compute_, {update.step, key, {on.weights, m, v, on.gradients, piece.count, index}});
  } else {
    auto* const m_scales = reinterpret_cast<float*>(base + at.first_scales) + place.block + block;
    auto* const v_scales = reinterpret_cast<float*>(base + at.second_scales) + place.block + block;
    adamw_int8(compute_, {update.step,
                          key,
                          {on.weights, reinterpret_cast<int8_t*>(base + at.first) + m_at, m_scales,
                           reinterpret_cast<uint8_t*>(base + at.second) + v_at, v_scales,
                           on.gradients, piece.count, place.rounding_block + block}});
  }
}

float* AdamwState::staged(int64_t buffer) const {
  return staging_.at<float>(static_cast<uint64_t>(buffer) * places_.staging_bytes());
}

AdamwState::Operands AdamwState::fetch(const TrainedRun& run, const MasterFloats& masters,
                                       int64_t buffer) {
  float* const weights = staged(buffer);
  float* const gradients = weights + places_.staging_bytes() / 2 / sizeof(float);
  copy_floats(compute_, masters.at(run.master), weights, run.size);
  if (rounded_) {
    rounded_->widen(run.gradient, run.size, gradients);
  } else {
    copy_floats(compute_, run_gradients(run), gradients, run.size);
  }
  return {weights, gradients};
}

void AdamwState::update_on_device(const Update& update, const TrainedRun& run) {
  const int64_t most = rounded_ ? rounded_->piece() : run.size;
  for (int64_t first = 0; first < run.size; first += most) {
    const int64_t count = std::min(most, run.size - first);
    const TrainedRun part{run.master + first, run.gradient + first, count};
    apply(update, {run, first, count}, {update.masters.at(part.master), run_gradients(part)});
  }
}

// With two buffers the next run is on its way while one is updated.
void AdamwState::update_on_host(const Update& update, std::span<const TrainedRun> runs) {
  const int64_t buffers = num_buffers(options_);
  Operands here{}, next{};
  for (size_t i = 0; i < runs.size(); ++i) {
    const TrainedRun& run = runs[i];
    const auto buffer = static_cast<int64_t>(i) % buffers;
    here = i == 0 || buffers == 1 ? fetch(run, update.masters, buffer) : next;
    if (buffers == 2 && i + 1 < runs.size()) next = fetch(runs[i + 1], update.masters, 1 - buffer);
    apply(update, {run, 0, run.size}, here);
    copy_floats(compute_, here.weights, update.masters.at(run.master), run.size);
  }
}

void AdamwState::update(const AdamwStep& step, int64_t number, std::span<const TrainedRun> runs,
                        const MasterFloats& masters) {
  const Update all{step, number, masters};
  std::vector<TrainedRun> on_host;
  for (const TrainedRun& whole : runs) {
    const TrainedRun run = part_of(whole, shards_.own());
    if (run.size == 0) continue;
    if (places_.place(run.gradient).on_host) {
      on_host.push_back(run);
    } else {
      update_on_device(all, run);
    }
  }
  update_on_host(all, on_host);
}

}  // namespace rl
