// Arenas: gradients; moments on the device; moments on the host, and its staging buffers.
#include "train/optimizer/adamw_state.h"

#include <cmath>

#include "core/checked.h"
#include "core/error.h"

namespace rl {
namespace {

int64_t num_buffers(const OptimizerOptions& o) { return o.offload.overlap ? 2 : 1; }

void copy_floats(Compute& compute, const float* from, float* to, int64_t count) {
  copy_bytes(compute, {from, to, static_cast<uint64_t>(count) * sizeof(float)});
}

}  // namespace

uint64_t AdamwState::gradient_bytes(int64_t total) {
  return (CheckedU64(total) * CheckedU64(sizeof(float))).align_up(ArenaPlan::kAlignment).get();
}

MomentBytes AdamwState::moment_bytes(const WeightLayout& layout, const OptimizerOptions& options) {
  const MomentLayout places(layout, options);
  return {places.offsets(false).total, places.offsets(true).total,
          static_cast<uint64_t>(num_buffers(options)) * places.staging_bytes()};
}

AdamwState::AdamwState(const WeightLayout& layout, const OptimizerOptions& options,
                       Compute& compute)
    : layout_(layout),
      options_(options),
      places_(layout, options),
      compute_(compute),
      gradients_("gradients", gradient_bytes(layout.gradient_total()), Touch::kLater,
                 compute.memory()),
      moments_("optimizer states", places_.offsets(false).total, Touch::kLater, compute.memory()),
      host_moments_("optimizer states, host", places_.offsets(true).total, Touch::kLater,
                    compute.ledger()),
      staging_("optimizer staging, host", moment_bytes(layout, options).staging, Touch::kLater,
               compute.ledger()),
      chunk_sums_(static_cast<size_t>(num_optimizer_chunks(layout.gradient_total()))) {
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
  for (const Arena* arena : {&gradients_, &moments_, &host_moments_, &staging_}) {
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

void AdamwState::zero_gradients() {
  zero_floats(compute_, {gradients().data(), layout_.gradient_total()});
}

double AdamwState::gradient_norm() {
  double sum = 0;
  squared_norm(compute_, {gradients().data(), layout_.gradient_total(), chunk_sums_, sum});
  return std::sqrt(sum);
}

void AdamwState::apply(const AdamwStep& step, int64_t number, const TrainedRun& run,
                       const Operands& on) {
  const MomentPlace& place = places_.place(run.gradient);
  const MomentOffsets at = places_.offsets(place.on_host);
  std::byte* const base = moments(place);
  const RoundingKey key{PhiloxKey{options_.seed, RngPurpose::kRounding}.derive(),
                        static_cast<uint32_t>(number), options_.stream};
  if (options_.state_dtype == StateDtype::kF32) {
    auto* const m = reinterpret_cast<float*>(base + at.first) + place.first;
    auto* const v = reinterpret_cast<float*>(base + at.second) + place.second;
    adamw(compute_, {step, on.weights, m, v, on.gradients, run.size});
  } else if (options_.state_dtype == StateDtype::kBf16) {
    auto* const m = reinterpret_cast<uint16_t*>(base + at.first) + place.first;
    auto* const v = reinterpret_cast<uint16_t*>(base + at.second) + place.second;
    adamw_bf16(compute_,
               {step,
                key,
                {on.weights, m, v, on.gradients, run.size, static_cast<uint64_t>(run.gradient)}});
  } else {
    auto* const m_scales = reinterpret_cast<float*>(base + at.first_scales) + place.block;
    auto* const v_scales = reinterpret_cast<float*>(base + at.second_scales) + place.block;
    adamw_int8(compute_, {step,
                          key,
                          {on.weights, reinterpret_cast<int8_t*>(base + at.first) + place.first,
                           m_scales, reinterpret_cast<uint8_t*>(base + at.second) + place.second,
                           v_scales, on.gradients, run.size, rounding_block(place)}});
  }
}

// Blocks of the host's memory come before those of the device's, as its parameters do.
uint64_t AdamwState::rounding_block(const MomentPlace& place) const {
  return static_cast<uint64_t>(place.block + (place.on_host ? 0 : places_.space(true).blocks));
}

AdamwState::Operands AdamwState::staged(int64_t buffer) const {
  const uint64_t each = places_.staging_bytes();
  auto* const weights = staging_.at<float>(static_cast<uint64_t>(buffer) * each);
  return {weights, weights + each / 2 / sizeof(float)};
}

void AdamwState::fetch(const TrainedRun& run, float* masters, int64_t buffer) {
  const Operands to = staged(buffer);
  copy_floats(compute_, masters + run.master, to.weights, run.size);
  copy_floats(compute_, gradients().data() + run.gradient, to.gradients, run.size);
}

// With two buffers the next run is on its way while one is updated.
void AdamwState::update_on_host(const AdamwStep& step, int64_t number,
                                std::span<const TrainedRun* const> runs, float* masters) {
  const int64_t buffers = num_buffers(options_);
  for (size_t i = 0; i < runs.size(); ++i) {
    const TrainedRun& run = *runs[i];
    const auto buffer = static_cast<int64_t>(i) % buffers;
    if (i == 0 || buffers == 1) fetch(run, masters, buffer);
    if (buffers == 2 && i + 1 < runs.size()) fetch(*runs[i + 1], masters, 1 - buffer);
    apply(step, number, run, staged(buffer));
    copy_floats(compute_, staged(buffer).weights, masters + run.master, run.size);
  }
}

void AdamwState::update(const AdamwStep& step, int64_t number, std::span<const TrainedRun> runs,
                        float* masters) {
  std::vector<const TrainedRun*> on_host;
  for (const TrainedRun& run : runs) {
    if (places_.place(run.gradient).on_host) {
      on_host.push_back(&run);
    } else {
      apply(step, number, run, {masters + run.master, gradients().data() + run.gradient});
    }
  }
  update_on_host(step, number, on_host, masters);
}

}  // namespace rl
