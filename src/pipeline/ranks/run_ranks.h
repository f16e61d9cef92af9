// The ranks of a run, each of them a runtime. Where they are threads of one process a LocalRun has
// the transports of all, of which each runtime takes its own; a process has its own transport
// (pipeline/ranks/join_ranks.h). RunRanks is what a runtime knows of its place. A rank that has
// ended is named by those who wait for it, and one that was never made when they have waited
// for comm.timeout_ns.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/group.h"
#include "comm/grouped_sum.h"
#include "model/ranks/context_ranks.h"
#include "model/ranks/master_ranks.h"
#include "model/ranks/stage_ranks.h"
#include "model/ranks/tensor_ranks.h"
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
  struct Sizes {
    MeshSizes mesh;      // as many ranks as the run has
    int zero_group = 0;  // of those that train on parts of one batch; 0: all
  };
  // How its groups are made. device: of a group that exchanges values of a device; empty: ranks
  // compute in the host's memory. device_group_count_of() says how many groups there are of these.
  struct Groups {
    GroupOptions host;
    MakeGroupOptions device = {};
    bool own_order = false;  // of gradients that data() adds up, by its messages of devices
    MemorySpace space() const { return device ? MemorySpace::kDevice : MemorySpace::kHost; }
  };
  RunRanks(std::shared_ptr<LocalRun> run, int rank, const Sizes& sizes, const Groups& groups);
  RunRanks(std::shared_ptr<Transport> transport, const Sizes& sizes, const Groups& groups);

  int rank() const { return transport_ != nullptr ? transport_->rank() : 0; }
  int size() const { return transport_ != nullptr ? transport_->size() : 1; }
  // Of all runtimes of the run in this process; null: this is the only one.
  const std::shared_ptr<LocalRun>& run() const { return run_; }
  // Those that train on parts of one batch.
  DataRanks data();
  // Those that divide each layer of one model.
  TensorRanks tensor();
  // Those that have the stages of one model.
  StageRanks stages();
  // Those of data() that may divide the masters of a model: all, or a group.
  MasterRanks masters();
  // Those that divide the rows of one micro-batch.
  ContextRanks context();
  // What this rank has exchanged of batches, gradients, parameters and states, of rows, and with
  // other stages.
  Traffic traffic() const;

 private:
  // Groups of neighbours that divide what parallel.zero_stage says.
  struct ZeroGroups {
    ZeroGroups(const std::shared_ptr<Transport>& transport, const Mesh& mesh,
               const MakeGroupOptions& options);
    comm::Group own;
    comm::GroupedSum sums;
  };
  void make_zero_groups(const Sizes& sizes, const MakeGroupOptions& options);

  std::shared_ptr<LocalRun> run_;
  std::shared_ptr<Transport> transport_;
  MemorySpace space_ = MemorySpace::kHost;  // of what the ranks compute
  std::optional<comm::Group> data_;         // those that divide rows included
  std::unique_ptr<ZeroGroups> zero_;        // null: one group
  std::optional<comm::Group> tensor_, context_;
  std::unique_ptr<StageChannels> stages_;
  std::optional<comm::Group> all_;  // unless data_ has all ranks
};

}  // namespace rl
