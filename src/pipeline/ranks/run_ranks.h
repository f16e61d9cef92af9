// The ranks of a run in one process, each of them a runtime. A LocalRun has the transports of all,
// of which each runtime takes its own; RunRanks is what a runtime knows of its place. A rank that
// has ended is named by those who wait for it, and one that was never made when they have waited
// for comm.timeout_ns.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/group.h"
#include "model/tensor_ranks.h"
#include "train/ranks/data_ranks.h"

namespace rl {

class LocalRun {
 public:
  explicit LocalRun(int size);
  int size() const { return static_cast<int>(transports_.size()); }
  // Error(kOutOfRange) for a rank that there is not, Error(kFailedPrecondition) for one that was
  // taken before. Any thread.
  std::shared_ptr<Transport> take(int rank);

 private:
  std::mutex mutex_;                                    // of what follows
  std::vector<std::shared_ptr<Transport>> transports_;  // null: taken
};

class RunRanks {
 public:
  RunRanks() = default;  // one rank
  // Sizes of the mesh: as many ranks as the run has.
  RunRanks(std::shared_ptr<LocalRun> run, int rank, const MeshSizes& sizes, int64_t timeout_ns);

  int rank() const { return rank_; }
  int size() const { return run_ != nullptr ? run_->size() : 1; }
  // Of all runtimes of the run; null: this is the only one.
  const std::shared_ptr<LocalRun>& run() const { return run_; }
  // Those that train on parts of one batch.
  DataRanks data();
  // Those that divide the layers of one model.
  TensorRanks tensor();

 private:
  std::shared_ptr<LocalRun> run_;
  int rank_ = 0;
  std::shared_ptr<Transport> transport_;
  std::optional<comm::Group> data_, tensor_;
  std::optional<comm::Group> all_;  // unless the data axis has all ranks
};

}  // namespace rl
