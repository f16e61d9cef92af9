// The ranks of a run as a host makes them: a runtime, a model and a trainer each, on a thread each.
#pragma once
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "host_batch.h"
#include "pipeline/session/loaded_model.h"
#include "session_options.h"
#include "support/expect_error.h"

namespace rl::testing {

// The runtimes of all ranks of parallel.data. device: null for that of the options.
inline std::vector<std::shared_ptr<Runtime>> make_ranks(const OptionSet& options,
                                                        const Device* device = nullptr) {
  RuntimeSeams seams;
  seams.device = device;
  std::vector<std::shared_ptr<Runtime>> ranks = {
      std::make_shared<Runtime>(options, std::move(seams))};
  for (int r = 1; r < ranks[0]->ranks().size(); ++r) ranks.push_back(ranks[0]->make_rank(r));
  return ranks;
}

// Runs a function on a thread for each rank and throws what one of them threw.
inline void run_ranks(std::vector<std::shared_ptr<Runtime>> ranks,
                      const std::function<void(std::shared_ptr<Runtime>)>& body) {
  std::vector<std::exception_ptr> thrown(ranks.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&body, &thrown, r, runtime = std::move(ranks[r])]() mutable {
      try {
        body(std::move(runtime));
      } catch (...) {
        thrown[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& e : thrown) {
    if (e != nullptr) std::rethrow_exception(e);
  }
}

struct RankParts {
  explicit RankParts(const std::shared_ptr<Runtime>& runtime)
      : rank(runtime->ranks().rank()),
        model(LoadedModel::open(runtime, runtime->options(), PlanUse::kTrain)),
        trainer(model, for_session(runtime->options())) {}
  const int rank;
  std::shared_ptr<LoadedModel> model;
  TrainerSession trainer;
};

// Runs a function on each rank's trainer and collects its texts by rank.
inline std::vector<std::string> on_trainers(const OptionSet& options,
                                            const std::function<std::string(RankParts&)>& work,
                                            const Device* device = nullptr) {
  std::vector<std::shared_ptr<Runtime>> ranks = make_ranks(options, device);
  std::vector<std::string> out(ranks.size());
  run_ranks(std::move(ranks), [&](std::shared_ptr<Runtime> runtime) {
    RankParts parts(runtime);
    out[static_cast<size_t>(parts.rank)] = work(parts);
  });
  return out;
}

// What all ranks have in common: not times, nor what each exchanged.
inline std::string common_metrics(const MetricList& metrics) {
  MetricList common;
  for (const Metric& m : metrics.without_times()) {
    if (!m.name.starts_with("comm/")) common.set(m.name, m.value);
  }
  return common.to_json();
}

// Two steps on two groups of four, and the weights.
inline std::string two_steps_metrics(RankParts& parts) {
  const std::vector<SamplePtr> batch = host_batch(parts.trainer);
  std::string out;
  for (int i = 0; i < 2; ++i) out += common_metrics(parts.trainer.step(batch)) + "\n";
  return out;
}
inline std::string two_steps(RankParts& parts) {
  const std::string metrics = two_steps_metrics(parts);
  return metrics + str(parts.model->weight_digest());
}

// A batch of which rank 1 has another sample, with a token that there is not: all refuse it.
inline void refuse_step(RankParts& parts) {
  std::vector<SamplePtr> batch = host_batch(parts.trainer);
  if (parts.rank == 1) {
    auto wrong = std::make_shared<Sample>(*batch[3]);
    wrong->ids[0] = 1 << 20;
    batch[3] = wrong;
  }
  const Code code = parts.rank == 1 ? Code::kOutOfRange : Code::kFailedPrecondition;
  const Error e = expect_error(code, [&] { parts.trainer.step(batch); });
  EXPECT_TRUE(parts.rank == 1 || e.location == "rank 1") << e.location;
}

// Two ranks: what rank 1 refuses both do, and then take the same step.
inline void expect_refused_by_all(const OptionSet& options) {
  const std::vector<std::string> steps = on_trainers(options, [](RankParts& parts) {
    refuse_step(parts);
    return common_metrics(parts.trainer.step(host_batch(parts.trainer)));
  });
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0], steps[1]);
}

// Where the others say that a step failed which one rank leaves.
inline std::string step_without(RankParts& parts, int leaves) {
  const std::vector<SamplePtr> batch = host_batch(parts.trainer);
  if (parts.rank == leaves) return "";
  try {
    parts.trainer.step(batch);
  } catch (const RankError& e) {
    return e.location;
  }
  return "no error";
}

// A metric of rank 0 in a step.
inline std::string step_metric(const OptionSet& o, const char* name) {
  return on_trainers(o, [&](RankParts& parts) {
    const TrainedStep step = parts.trainer.step(host_batch(parts.trainer));
    return str(step.get(name).value());
  })[0];
}
inline std::string parameter_bytes(const OptionSet& o) {
  return step_metric(o, "comm/parameter_bytes");
}
inline std::string bytes_between_groups(const OptionSet& o) {
  return step_metric(o, "comm/between_groups_bytes");
}
inline std::string overlapped_bytes(const OptionSet& o) {
  return step_metric(o, "comm/overlapped_bytes");
}

inline std::string train_on_ranks(const OptionSet& o) { return on_trainers(o, two_steps)[0]; }

// What two ranks hear of each other, of which one comes later.
inline std::string wait_for_rank(const OptionSet& o) {
  std::vector<std::string> out(2);
  run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
    const DataRanks ranks = runtime->data_ranks();
    if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    try {
      out[static_cast<size_t>(ranks.rank())] = str(ranks.gather(ranks.rank()).size(), " ranks");
    } catch (const Error& e) {
      out[static_cast<size_t>(ranks.rank())] = e.location;
    }
  });
  return out[0] + ", " + out[1];
}

// What the error of a rank that waits for another one says of memory.
inline std::string memory_of_error(const OptionSet& o) {
  const std::vector<std::shared_ptr<Runtime>> ranks = make_ranks(o);
  try {
    ranks[0]->data_ranks().gather(0);
    return "no error";
  } catch (const Error& e) {
    const auto from = [&](const char* text) {
      const size_t at = e.message.find(text);
      return at == std::string::npos ? "" : e.message.substr(at);
    };
    return str(from("free memory in bytes").empty() ? "" : "read, ", from("caches were released"));
  }
}

// What a rank hears that joins the others.
inline std::string join(const OptionSet& o) {
  try {
    return str("rank ", Runtime(o).ranks().rank());
  } catch (const Error& e) {
    return str(e.key, ": ", e.message);
  }
}

}  // namespace rl::testing
