#include "pipeline/ranks/run_ranks.h"

#include <utility>

#include "comm/local/local_transport.h"
#include "core/error.h"

namespace rl {

LocalRun::LocalRun(int size) : transports_(make_local_transports(size)) {}

std::shared_ptr<Transport> LocalRun::take(int rank) {
  if (rank < 0 || rank >= size()) {
    throw Error(Code::kOutOfRange, str("rank is ", rank, " of ", size()))
        .with_key("rank")
        .with_expected(str("0..", size() - 1));
  }
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Transport>& own = transports_[static_cast<size_t>(rank)];
  if (own == nullptr) {
    throw Error(Code::kFailedPrecondition, str("rank ", rank, " of this run has been created"))
        .with_key("rank");
  }
  return std::exchange(own, nullptr);
}

RunRanks::RunRanks(std::shared_ptr<LocalRun> run, int rank, const Sizes& sizes,
                   const Groups& groups)
    : RunRanks(run->take(rank), sizes, groups) {
  run_ = std::move(run);
}

RunRanks::RunRanks(std::shared_ptr<Transport> transport, const Sizes& given, const Groups& groups)
    : transport_(std::move(transport)), space_(groups.space()) {
  const MeshSizes& sizes = given.mesh;
  const Mesh mesh(sizes, size(), rank());
  // Ranks that divide rows are neighbours, so those with parts of a batch are one axis with them.
  const Mesh batch(
      {.tensor = sizes.tensor, .data = sizes.data * sizes.context, .pipeline = sizes.pipeline},
      size(), rank());
  const auto of_device = [&] { return groups.device ? groups.device() : groups.host; };
  const bool divides_batch = sizes.data * sizes.context > 1;
  GroupOptions of_batch = divides_batch ? of_device() : groups.host;
  of_batch.own_order_on_devices = groups.own_order;
  data_.emplace(transport_, batch, Axis::kData, of_batch);
  if (sizes.context > 1) context_.emplace(transport_, mesh, Axis::kContext, of_device());
  if (sizes.tensor > 1) {
    tensor_.emplace(transport_, mesh, Axis::kTensor, of_device());
    tensor_->count_as(TrafficUse::kTensor);
  }
  if (sizes.pipeline > 1)
    stages_ = std::make_unique<StageChannels>(transport_, mesh, of_device, space_);
  if (data_->size() < size()) all_.emplace(transport_, groups.host);
  make_zero_groups(given, of_device);
}

RunRanks::ZeroGroups::ZeroGroups(const std::shared_ptr<Transport>& transport, const Mesh& mesh,
                                 const MakeGroupOptions& options)
    : own(transport, mesh, Axis::kContext, options().named("data, of a group"),
          comm::GroupedSum::kChannel + 1),
      sums(transport, mesh, options()) {}

// The ranks of a group are neighbours, as those that divide rows are.
void RunRanks::make_zero_groups(const Sizes& sizes, const MakeGroupOptions& options) {
  const int ranks = data_->size(), group = sizes.zero_group;
  if (group == 0 || group == ranks) return;
  const Mesh mesh({.tensor = sizes.mesh.tensor,
                   .context = group,
                   .data = ranks / group,
                   .pipeline = sizes.mesh.pipeline},
                  size(), rank());
  zero_ = std::make_unique<ZeroGroups>(transport_, mesh, options);
}

DataRanks RunRanks::data() {
  if (!data_) return {};
  const DataRanks ranks =
      all_ ? DataRanks(*data_, *all_, *transport_) : DataRanks(*data_, *transport_);
  return zero_ ? ranks.divided_by_groups(zero_->own, zero_->sums) : ranks;
}

StageRanks RunRanks::stages() { return stages_ ? StageRanks(*stages_) : StageRanks(); }

MasterRanks RunRanks::masters() {
  if (zero_) return MasterRanks(zero_->own, zero_->sums.group() == 0);
  return data_ ? MasterRanks(*data_) : MasterRanks();
}

TensorRanks RunRanks::tensor() { return tensor_ ? TensorRanks(*tensor_) : TensorRanks(); }

ContextRanks RunRanks::context() {
  return context_ ? ContextRanks(*context_, space_) : ContextRanks();
}

Traffic RunRanks::traffic() const {
  Traffic all = data_ ? data_->traffic() : Traffic{};
  if (zero_) all += zero_->own.traffic();
  if (zero_) all += zero_->sums.traffic();
  if (context_) all += context_->traffic();
  if (tensor_) all += tensor_->traffic();
  if (stages_) all += StageRanks(*stages_).traffic();
  return all;
}

}  // namespace rl
