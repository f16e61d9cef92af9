#include "model/ranks/stage_ranks.h"

#include "core/error.h"

namespace rl {

StageChannels::StageChannels(const std::shared_ptr<Transport>& transport, const Mesh& mesh,
                             const MakeGroupOptions& options, MemorySpace space)
    : rows(transport, mesh, Axis::kPipeline, options(), 0),
      gradients(transport, mesh, Axis::kPipeline, options(), 1),
      embeddings(transport, mesh, Axis::kPipeline, options(), 2),
      space(space),
      embedding(static_cast<size_t>(rows.size())) {
  rows.count_as(TrafficUse::kActivations);
  gradients.count_as(TrafficUse::kActivations);
  embeddings.count_as(TrafficUse::kActivations);
}

void StageRanks::send_rows(std::span<const float> x) const {
  channels_->rows.count_as(TrafficUse::kActivations);
  channels_->rows.send(on_device(x), rank() + 1);
}

void StageRanks::receive_rows(std::span<float> x) const {
  channels_->rows.count_as(TrafficUse::kActivations);
  channels_->rows.receive(on_device(x), rank() - 1);
}

void StageRanks::start_gradient(std::span<const float> dx) const {
  channels_->gradient = channels_->gradients.start_send(on_device(dx), rank() - 1);
}

void StageRanks::wait_gradient() const {
  if (channels_ != nullptr) channels_->gradient.wait();
}

void StageRanks::receive_gradient(std::span<float> dx) const {
  channels_->gradients.receive(on_device(dx), rank() + 1);
}

void StageRanks::start_embedding(std::span<const float> dx, int64_t slot) const {
  channels_->embedding[static_cast<size_t>(slot)] =
      channels_->embeddings.start_send(on_device(dx), size() - 1);
}

void StageRanks::wait_embedding(int64_t slot) const {
  channels_->embedding[static_cast<size_t>(slot)].wait();
}

void StageRanks::receive_embedding(std::span<float> dx) const {
  channels_->embeddings.receive(on_device(dx), 0);
}

void StageRanks::copy_to_first(std::span<float> values) const {
  comm::Group& group = channels_->embeddings;
  group.count_as(TrafficUse::kGradients);
  if (rank() == 0) group.receive(on_device(values), size() - 1);
  if (is_last()) group.send(on_device(std::span<const float>(values)), 0);
  group.count_as(TrafficUse::kActivations);
}

void StageRanks::gather_bytes(std::span<std::byte> pieces) const {
  if (alone() || pieces.empty()) return;
  channels_->rows.count_as(TrafficUse::kOther);
  channels_->rows.all_gather(values_of(pieces));
}

void StageRanks::share_bytes(std::span<std::byte> bytes) const {
  if (alone() || bytes.empty()) return;
  channels_->rows.count_as(TrafficUse::kOther);
  channels_->rows.broadcast(values_of(bytes), size() - 1);
}

// Bits are added as integers, which changes none of them.
void StageRanks::fill(std::span<float> values) const {
  if (alone() || values.empty()) return;
  Values bits = values_of(values);
  bits.element = Element::kI32;
  channels_->rows.count_as(TrafficUse::kOther);
  channels_->rows.all_reduce(bits);
}

void StageRanks::fill(std::span<double> values) const {
  if (alone() || values.empty()) return;
  channels_->rows.count_as(TrafficUse::kOther);
  channels_->rows.all_reduce(
      {reinterpret_cast<std::byte*>(values.data()), values.size(), Element::kI64});
}

void StageRanks::gather_weights(std::span<std::byte> all, const Pieces& pieces) const {
  if (alone()) return;
  channels_->rows.count_as(TrafficUse::kWeights);
  channels_->rows.all_gather(values_of(all, channels_->space), pieces);
}

void StageRanks::give(std::span<const std::byte> bytes) const {
  channels_->rows.count_as(TrafficUse::kStates);
  channels_->rows.send(const_values_of(bytes), 0);
}

void StageRanks::take(std::span<std::byte> bytes, int from) const {
  channels_->rows.count_as(TrafficUse::kStates);
  channels_->rows.receive(values_of(bytes), from);
}

Traffic StageRanks::traffic() const {
  if (channels_ == nullptr) return {};
  Traffic all = channels_->rows.traffic();
  all += channels_->gradients.traffic();
  all += channels_->embeddings.traffic();
  return all;
}

}  // namespace rl
