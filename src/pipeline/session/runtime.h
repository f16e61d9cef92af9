// What all objects of a rank share, or of a run that has one: threads, matrix products, log, trace,
// files, clock, the memory budget and the ledger of arenas. Invariant: the executor has one caller
// at a time, the one whose ComputeLease has its turn.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/arena.h"
#include "core/clock.h"
#include "core/executor.h"
#include "core/fs.h"
#include "core/log.h"
#include "core/trace.h"
#include "ops/compute.h"
#include "pipeline/config/settings.gen.h"
#include "pipeline/plan/step_cost.h"
#include "pipeline/ranks/run_ranks.h"
#include "pipeline/session/compute_lease.h"
#include "pipeline/session/sample_ids.h"

namespace rl {

// Replacements of the seams, by a host and for tests. Null uses the real one. What is a plain
// pointer outlives the runtime.
struct RuntimeSeams {
  std::shared_ptr<FileSystem> host_files;
  std::shared_ptr<MemorySource> host_memory;  // of arenas and of tensors that own their memory
  std::shared_ptr<Transport> host_ranks;      // with comm.backend = host, and only then
  std::shared_ptr<Transport> joined;          // in place of meeting at comm.rendezvous
  FileSystem* fs = nullptr;                   // with host_files null
  const Clock* clock = nullptr;
  std::unique_ptr<Executor> executor;
  const Device* device = nullptr;  // of all ranks of this process; null: that of the options
  // The run of which this is a rank; null: with parallel.data above 1 a new one.
  std::shared_ptr<LocalRun> run;
  int rank = 0;
};

class Runtime {
 public:
  // Reads runtime.* and model.dtype; validates the whole set and reports all violations at once.
  explicit Runtime(const Settings& settings, RuntimeSeams seams = {});
  Runtime(const Runtime&) = delete;

  const Settings& settings() const { return settings_; }
  const OptionSet& options() const { return settings_.set; }
  uint64_t seed() const { return seed_; }
  int num_threads() const { return executor_->num_threads(); }
  // Where threads that librl starts run; empty: anywhere.
  const CpuList& cpus() const { return cpus_; }
  uint64_t usable_budget() const { return budget_; }  // 0: no limit
  // How long a call waits for calls that use what it needs.
  int64_t busy_timeout_ns() const { return settings_.runtime.busy_timeout_ns; }
  Executor& executor() { return *executor_; }
  Compute& compute() { return *compute_; }
  const Compute& compute() const { return *compute_; }
  ComputeQueue& compute_queue() { return compute_queue_; }
  // Of all arenas of the runtime's objects.
  ArenaLedger& ledger() { return ledger_; }
  const ArenaLedger& ledger() const { return ledger_; }
  // Of the samples of the runtime's engines.
  SampleIds& sample_ids() { return sample_ids_; }
  // The ranks of the run. Another rank has the same options and services of the host.
  const RunRanks& ranks() const { return ranks_; }
  DataRanks data_ranks() { return ranks_.data(); }
  // Those that generate samples for one batch, each of its own prompts: of ranks that generate
  // together those with the same part of the model.
  DataRanks rollout_ranks();
  TensorRanks tensor_ranks() { return ranks_.tensor(); }
  StageRanks stage_ranks() { return ranks_.stages(); }
  MasterRanks master_ranks() { return ranks_.masters(); }
  ContextRanks context_ranks() { return ranks_.context(); }
  std::shared_ptr<Runtime> make_rank(int rank) const;
  Logger& logger() { return logger_; }
  Tracer& tracer() { return tracer_; }
  FileSystem& fs() { return fs_; }
  const Clock& clock() const { return clock_; }

  // Of the first probe (session/machine_probe.h), under whose lease it is read and written.
  std::optional<MachineRates>& machine_rates() { return machine_rates_; }

  // kConflict, naming each key, if options that the runtime was made with differ.
  void require_same(const OptionSet& options) const;

 private:
  const std::shared_ptr<FileSystem> host_files_;  // ends after all that uses it
  Settings settings_;
  const CpuList cpus_;
  uint64_t seed_, budget_;
  FileSystem& fs_;
  const Clock& clock_;
  Logger logger_;
  Tracer tracer_;
  const Device* const given_device_;  // RuntimeSeams::device
  std::optional<MachineRates> machine_rates_;
  std::unique_ptr<Executor> executor_;
  ArenaLedger ledger_;
  SampleIds sample_ids_;
  std::unique_ptr<Compute> compute_;
  ComputeQueue compute_queue_;
  RunRanks ranks_;
};

}  // namespace rl
