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

RunRanks::RunRanks(std::shared_ptr<LocalRun> run, int rank, const MeshSizes& sizes,
                   const GroupOptions& options)
    : RunRanks(run->take(rank), sizes, options) {
  run_ = std::move(run);
}

RunRanks::RunRanks(std::shared_ptr<Transport> transport, const MeshSizes& sizes,
                   const GroupOptions& options)
    : transport_(std::move(transport)) {
  const Mesh mesh(sizes, size(), rank());
  // Ranks that divide rows are neighbours, so those with parts of a batch are one axis with them.
  const Mesh batch(
      {.tensor = sizes.tensor, .data = sizes.data * sizes.context, .pipeline = sizes.pipeline},
      size(), rank());
  data_.emplace(transport_, batch, Axis::kData, options);
  if (sizes.context > 1) context_.emplace(transport_, mesh, Axis::kContext, options);
  if (sizes.tensor > 1) {
    tensor_.emplace(transport_, mesh, Axis::kTensor, options);
    tensor_->count_as(TrafficUse::kTensor);
  }
  if (sizes.pipeline > 1) stages_ = std::make_unique<StageChannels>(transport_, mesh, options);
  if (data_->size() < size()) all_.emplace(transport_, options);
}

DataRanks RunRanks::data() {
  if (!data_) return {};
  return all_ ? DataRanks(*data_, *all_, *transport_) : DataRanks(*data_, *transport_);
}

StageRanks RunRanks::stages() { return stages_ ? StageRanks(*stages_) : StageRanks(); }

MasterRanks RunRanks::masters() { return data_ ? MasterRanks(*data_) : MasterRanks(); }

TensorRanks RunRanks::tensor() { return tensor_ ? TensorRanks(*tensor_) : TensorRanks(); }

ContextRanks RunRanks::context() { return context_ ? ContextRanks(*context_) : ContextRanks(); }

Traffic RunRanks::traffic() const {
  Traffic all = data_ ? data_->traffic() : Traffic{};
  if (context_) all += context_->traffic();
  if (tensor_) all += tensor_->traffic();
  if (stages_) all += StageRanks(*stages_).traffic();
  return all;
}

}  // namespace rl
