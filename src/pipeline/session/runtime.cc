// Construction order: the host's services, options, executor, matrix products with their
// self-check.
#include "pipeline/session/runtime.h"

#include <utility>

#include "core/error.h"
#include "core/violations.h"
#include "device/cpu/executors.h"
#include "model/ranks/device_staging.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/ranks/join_ranks.h"

namespace rl {
namespace {

std::unique_ptr<Executor> make_executor(const Settings& settings, const CpuList& cpus,
                                        std::unique_ptr<Executor> given) {
  if (given != nullptr) return given;
  return make_default_executor(thread_count_of(settings), cpus);
}

const Settings& validated(const Settings& settings, bool own_executor) {
  Violations violations;
  violations.add(settings.set.validate_all());
  violations.collect([&] { tensor_split_from(settings, 0); });
  violations.collect([&] { zero_group_of(settings); });
  violations.collect([&] { require_rank_of_run(settings); });
  if (own_executor) {
    const auto threads = static_cast<int>(settings.runtime.threads);
    violations.collect([&] { checked_threads(threads, CpuList(settings.runtime.cpus)); });
  }
  violations.throw_any();
  return settings;
}

GroupOptions group_options_of(const CommSettings& settings) {
  GroupOptions options{.timeout_ns = settings.timeout_ns};
  if (settings.memory_check)
    options.memory = {free_system_memory(), settings.memory_check_threshold_bytes};
  return options;
}

// With a way of its own for values of the device.
GroupOptions device_options_of(GroupOptions options, CommBackend backend, Compute& compute) try {
  if (backend != CommBackend::kNccl) {
    options.staging = staging_of(compute);
  } else {
    options.device = compute.make_messages();
  }
  return options;
} catch (Error& error) {
  if (error.key.empty() && backend == CommBackend::kNccl) error.key = "comm.backend";
  throw;
}

RunRanks::Groups groups_of(const CommSettings& settings, Compute& compute) {
  RunRanks::Groups groups{group_options_of(settings)};
  groups.own_order = settings.reduction_order == CommReductionOrder::kBackend;
  if (!compute.has_own_memory()) return groups;
  groups.device = [options = groups.host, backend = settings.backend, &compute] {
    return device_options_of(options, backend, compute);
  };
  return groups;
}

RunRanks ranks_of(const Settings& settings, RuntimeSeams& seams, FileSystem& files,
                  Compute& compute) {
  const int size = rank_count_of(settings);
  check_host_ranks(settings, seams.host_ranks.get(), size);
  if (size == 1) return {};
  const RunRanks::Sizes sizes{{.tensor = static_cast<int>(settings.parallel.tensor),
                               .context = static_cast<int>(settings.parallel.context),
                               .data = static_cast<int>(settings.parallel.data),
                               .pipeline = static_cast<int>(settings.parallel.pipeline)},
                              zero_group_of(settings)};
  const RunRanks::Groups groups = groups_of(settings.comm, compute);
  if (seams.host_ranks != nullptr) return {std::move(seams.host_ranks), sizes, groups};
  if (makes_own_runtimes(settings)) {
    if (seams.joined == nullptr) seams.joined = join_ranks(settings, files);
    return {std::move(seams.joined), sizes, groups};
  }
  if (seams.run == nullptr) seams.run = std::make_shared<LocalRun>(size);
  return {std::move(seams.run), seams.rank, sizes, groups};
}

}  // namespace

Runtime::Runtime(const Settings& settings, RuntimeSeams seams)
    : host_files_(std::move(seams.host_files)),
      settings_(validated(settings, seams.executor == nullptr)),
      cpus_(settings.runtime.cpus),
      seed_(settings.runtime.seed),
      budget_(rl::usable_budget(settings)),
      fs_(host_files_ != nullptr ? *host_files_
          : seams.fs != nullptr  ? *seams.fs
                                 : real_fs()),
      clock_(seams.clock != nullptr ? *seams.clock : real_clock()),
      logger_(clock_),
      tracer_(clock_),
      given_device_(seams.device),
      executor_(make_executor(settings, cpus_, std::move(seams.executor))),
      ledger_(std::move(seams.host_memory), cpus_),
      sample_ids_(settings.runtime.instance) {
  logger_.set_level(settings.runtime.log_level);
  const Device& device =
      given_device_ != nullptr ? *given_device_ : device_of(settings, seams.rank);
  compute_ = device.make_compute(*executor_, compute_dtype_of(settings, device), &ledger_);
  if (!compute_->exact()) {
    throw Error(Code::kUnsupported,
                str("the ", dtype_name(compute_->dtype()), " matrix product of this machine, ",
                    compute_->implementation(),
                    ", failed the exactness self-check: a row's bits "
                    "depend on its neighbours"))
        .with_key("model.dtype");
  }
  ranks_ = ranks_of(settings_, seams, fs_, *compute_);
}

DataRanks Runtime::rollout_ranks() {
  return engines_are_whole(settings_) ? ranks_.data().of_run() : ranks_.data();
}

std::shared_ptr<Runtime> Runtime::make_rank(int rank) const {
  if (makes_own_runtimes(settings_)) {
    throw Error(Code::kFailedPrecondition,
                "the ranks of this comm.backend make their own runtimes; local ranks are made here")
        .with_key("comm.backend");
  }
  if (ranks_.run() == nullptr) {
    throw Error(Code::kFailedPrecondition,
                "the run has one rank: parallel.data, parallel.tensor, parallel.context and "
                "parallel.pipeline are 1")
        .with_key("parallel.data");
  }
  RuntimeSeams seams;
  seams.host_files = host_files_;
  seams.host_memory = ledger_.memory();
  seams.device = given_device_;
  seams.run = ranks_.run();
  seams.rank = rank;
  return std::make_shared<Runtime>(settings_, std::move(seams));
}

void Runtime::require_same(const OptionSet& options) const {
  Violations violations;
  violations.add(parent_violations(options, settings_.set, OptionParent::kRuntime,
                                   "the runtime was made with"));
  violations.throw_any();
}

}  // namespace rl
