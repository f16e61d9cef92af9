// Arenas: gradients, and their scratch in bf16; moments on the device; moments on the host, and its
// staging buffers.
#include "train/optimizer/adamw_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/checked.h"
#include "core/error.h"

namespace rl {
namespace {

int64_t num_buffers(const OptimizerOptions& o) { return o.offload.overlap ? 2 : 1; }

void copy_floats(Compute& compute, const float* from, float* to, int64_t count) {
  copy_bytes(compute, {from, to, static_cast<uint64_t>(count) * sizeof(float)});
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
  const MomentLayout places(layout, options);
  return {places.offsets(false).total, places.offsets(true).total,
          static_cast<uint64_t>(num_buffers(options)) * places.staging_bytes()};
}

AdamwState::AdamwState(const WeightLayout& layout, const OptimizerOptions& options,
                       Compute& compute, std::byte* lent)
    : layout_(layout),
      options_(options),
      places_(layout, options),
      compute_(compute),
      gradients_("gradients",
                 lent != nullptr ? 0 : gradient_bytes(layout, options.grad_dtype).values,
                 Touch::kLater, compute.memory()),
      scratch_("gradient scratch",
               lent != nullptr ? 0 : gradient_bytes(layout, options.grad_dtype).scratch,
               Touch::kLater, compute.memory()),
      moments_("optimizer states", places_.offsets(false).total, Touch::kLater, compute.memory()),
      host_moments_("optimizer states, host", places_.offsets(true).total, Touch::kLater,
                    compute.ledger()),
      staging_("optimizer staging, host", moment_bytes(layout, options).staging, Touch::kLater,
               compute.ledger()),
      gradient_data_(lent != nullptr ? lent : gradients_.data()),
      chunk_sums_(static_cast<size_t>(num_optimizer_chunks(layout.gradient_total()))) {
  if (options.grad_dtype == GradDtype::kBf16) {
    std::byte* const scratch =
        lent != nullptr ? lent + gradient_bytes(layout, GradDtype::kBf16).values : scratch_.data();
    const RoundedGradients::Memory memory{
        reinterpret_cast<uint16_t*>(gradient_data_), layout.gradient_total(),
        reinterpret_cast<float*>(scratch), RoundedGradients::scratch_floats(layout)};
    rounded_.emplace(compute, memory, options.seed, options.stream);
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

// Moments in 8 bits have their scales as tensors of their own.
void AdamwState::add_tensors(const Parameter& p, StateArray& first, StateArray& second) const {
  const MomentPlace& place = places_.place(p.gradient);
  const MomentOffsets at = places_.offsets(place.on_host);
  std::byte* const base = moments(place);
  const auto bytes_of = [&](auto* from, int64_t count) {
    return DeviceBytes(compute_, reinterpret_cast<std::byte*>(from),
                       static_cast<uint64_t>(count) * sizeof(*from));
  };
  const auto add = [&](StateArray& to, int64_t element, uint64_t values, uint64_t scales,
                       const char* code) {
    if (element < 0) return;
    if (options_.state_dtype == StateDtype::kF32) {
      auto* const v = reinterpret_cast<float*>(base + values) + element;
      to.tensors.push_back({p.name, "F32", p.shape, bytes_of(v, p.size)});
    } else if (options_.state_dtype == StateDtype::kBf16) {
      auto* const v = reinterpret_cast<uint16_t*>(base + values) + element;
      to.tensors.push_back({p.name, "BF16", p.shape, bytes_of(v, p.size)});
    } else {
      const int64_t blocks = num_int8_blocks(p.size);
      auto* const scale = reinterpret_cast<float*>(base + scales) + place.block;
      to.tensors.push_back({p.name, code, p.shape, bytes_of(base + values + element, p.size)});
      to.tensors.push_back({p.name + ".scales", "F32", {blocks}, bytes_of(scale, blocks)});
    }
  };
  add(first, place.first, at.first, at.first_scales, "I8");
  add(second, place.second, at.second, at.second_scales, "U8");
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
  if (rounded_) return rounded_->begin(number);
  zero_floats(compute_, {gradients().data(), layout_.gradient_total()});
}

void AdamwState::sum_over(const DataRanks& ranks) {
  const MemorySpace space = compute_.has_own_memory() ? MemorySpace::kDevice : MemorySpace::kHost;
  ranks.sum({gradient_data_, static_cast<uint64_t>(layout_.gradient_total()),
             rounded_ ? Element::kBf16 : Element::kF32, space});
}

// In bf16 piece by piece, whole chunks, so that the chunks' sums are added in the same order.
double AdamwState::squared_norm_of(const LayoutSection& section) {
  const int64_t total = section.gradients;
  const std::span<double> all =
      std::span(chunk_sums_).first(static_cast<size_t>(num_optimizer_chunks(total)));
  double sum = 0;
  if (!rounded_) {
    squared_norm(compute_, {gradients().data() + section.gradient, total, all, sum});
    return sum;
  }
  for (int64_t first = 0; first < total; first += rounded_->piece()) {
    const int64_t count = std::min(rounded_->piece(), total - first);
    const std::span<double> sums = all.subspan(static_cast<size_t>(first / kOptimizerChunk),
                                               static_cast<size_t>(num_optimizer_chunks(count)));
    squared_norm(compute_, {rounded_->widened(section.gradient + first, count), count, sums, sum});
  }
  sum = 0;
  for (const double s : all) sum += s;
  return sum;
}

// What all ranks have counts once, then each part in order.
double AdamwState::gradient_norm(const TensorRanks& ranks) {
  const std::vector<LayoutSection>& sections = layout_.sections();
  double sum = squared_norm_of(sections.front());
  std::vector<double> parts;
  for (size_t i = 1; i < sections.size(); ++i) parts.push_back(squared_norm_of(sections[i]));
  for (const double part : ranks.gather(parts)) sum += part;
  return std::sqrt(sum);
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
                           on.gradients, piece.count, rounding_block(place) + block}});
  }
}

// Blocks of the host's memory come before those of the device's, as its parameters do.
uint64_t AdamwState::rounding_block(const MomentPlace& place) const {
  return static_cast<uint64_t>(place.block + (place.on_host ? 0 : places_.space(true).blocks));
}

float* AdamwState::staged(int64_t buffer) const {
  return staging_.at<float>(static_cast<uint64_t>(buffer) * places_.staging_bytes());
}

AdamwState::Operands AdamwState::fetch(const TrainedRun& run, const float* masters,
                                       int64_t buffer) {
  float* const weights = staged(buffer);
  float* const gradients = weights + places_.staging_bytes() / 2 / sizeof(float);
  copy_floats(compute_, masters + run.master, weights, run.size);
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
    apply(update, {run, first, count}, {update.masters + part.master, run_gradients(part)});
  }
}

// With two buffers the next run is on its way while one is updated.
void AdamwState::update_on_host(const Update& update, std::span<const TrainedRun* const> runs) {
  const int64_t buffers = num_buffers(options_);
  Operands here{}, next{};
  for (size_t i = 0; i < runs.size(); ++i) {
    const TrainedRun& run = *runs[i];
    const auto buffer = static_cast<int64_t>(i) % buffers;
    here = i == 0 || buffers == 1 ? fetch(run, update.masters, buffer) : next;
    if (buffers == 2 && i + 1 < runs.size()) next = fetch(*runs[i + 1], update.masters, 1 - buffer);
    apply(update, {run, 0, run.size}, here);
    copy_floats(compute_, here.weights, update.masters + run.master, run.size);
  }
}

void AdamwState::update(const AdamwStep& step, int64_t number, std::span<const TrainedRun> runs,
                        float* masters) {
  const Update all{step, number, masters};
  std::vector<const TrainedRun*> on_host;
  for (const TrainedRun& run : runs) {
    if (places_.place(run.gradient).on_host) {
      on_host.push_back(&run);
    } else {
      update_on_device(all, run);
    }
  }
  update_on_host(all, on_host);
}

}  // namespace rl
