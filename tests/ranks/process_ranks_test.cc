// Ranks that are processes, over gloo on loopback: they train and generate what ranks that are
// threads do. The program runs itself once for each rank.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "../roles/rank_roles.h"
#include "comm/transport.h"
#include "rank_pipelines.h"
#include "support/expect_error.h"

extern char** environ;

namespace rl::testing {
namespace {

constexpr const char* kRank = "RL_TEST_RANK";
constexpr const char* kDirectory = "RL_TEST_DIRECTORY";
constexpr const char* kRendezvous = "RL_TEST_RENDEZVOUS";
constexpr const char* kKind = "RL_TEST_KIND";  // of context ranks

OptionSet trained_options(const TempDir& dir, int stage) {
  OptionSet o = tiny_options(dir);
  o.set_i64("parallel.data", 2);
  o.set_i64("parallel.zero_stage", stage);
  o.set_text("optimizer.lr", "1e-3");
  o.set_text("runtime.threads", "1");
  return o;
}

// Ranks of two groups that divide.
OptionSet grouped_options(const TempDir& dir) {
  OptionSet o = trained_options(dir, 2);
  o.set_i64("parallel.data", 4);
  o.set_i64("parallel.zero_group", 2);
  o.set_text("parallel.overlap_grad_reduce", "true");
  return o;
}

// Ranks that divide a model.
OptionSet divided_options(const TempDir& dir) {
  return options_with(dir, {"parallel.tensor=2", "parallel.reduction_parts=2"});
}

// Ranks that divide a model and generate each for itself.
OptionSet whole_engine_options(const TempDir& dir) {
  OptionSet o = divided_options(dir);
  o.set_i64("engine.tensor_parallel_size", 1);
  o.set_text("sync.bucket_bytes", "64KiB");
  return o;
}

// Ranks that divide rows.
OptionSet context_options(const TempDir& dir, const std::string& kind) {
  OptionSet o = tiny_options(dir);
  o.set_i64("parallel.context", 2);
  o.set_text("parallel.context_kind", kind);
  o.set_text("optimizer.lr", "1e-3");
  o.set_text("runtime.threads", "1");
  return o;
}

// Ranks that have a stage each.
OptionSet staged_options(const TempDir& dir) {
  return options_with(dir, {"parallel.pipeline=2", "model.path=" + fixture_model("smollm2"),
                            "trainer.max_tokens_per_device=48"});
}

// Ranks that train on what another pipeline generates.
OptionSet store_options(const TempDir& dir) {
  return on_policy_train(dir, {"parallel.data=2", "parallel.zero_stage=2"});
}

OptionSet of_process(OptionSet options, int rank, const std::string& rendezvous) {
  options.set_text("comm.backend", "gloo");
  options.set_i64("comm.rank", rank);
  options.set_string("comm.rendezvous", rendezvous);
  options.set_text("comm.timeout_ns", "60s");
  return options;
}

std::string environment(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

// What a process does, with options but for its place and with the prompts of all ranks, and its
// text into a file.
void be_rank(OptionSet options, const std::function<std::string(std::shared_ptr<Runtime>)>& work) {
  const int rank = std::stoi(environment(kRank));
  if (!options.is_default("data.path"))
    options.set_string("data.path", environment(kDirectory) + "/data.jsonl");
  auto runtime = std::make_shared<Runtime>(of_process(options, rank, environment(kRendezvous)));
  EXPECT_EQ(runtime->ranks().rank(), rank);
  std::ofstream(environment(kDirectory) + "/out." + std::to_string(rank))
      << work(std::move(runtime));
}

std::string train(std::shared_ptr<Runtime> runtime) {
  RankParts parts(runtime);
  return two_steps(parts);
}

// What a rank has of a run.
std::string generate_and_train(std::shared_ptr<Runtime> runtime) {
  const OptionSet options = runtime->options();
  const RankRun run = run_pipeline(options, std::move(runtime));
  std::string out = str(run.digest, "\n", run.log.samples.size(), " samples\n");
  for (const MetricList& step : run.log.steps) out += common_metrics(step) + "\n";
  return out;
}

// Beside the first rank runs the pipeline that generates: nobody else reaches the store.
std::string train_from_a_store(const TempDir& dir, std::shared_ptr<Runtime> runtime) {
  std::optional<RolloutRun> generating;
  if (runtime->ranks().rank() == 0) {
    generating.emplace(on_policy_rollout(dir));
    generating->start();
  }
  const OptionSet options = runtime->options();
  const RankRun run = run_pipeline(options, std::move(runtime));
  return str(run.digest, "\n", run.log.steps.size(), " steps\n");
}

TEST(ProcessRank, DISABLED_Trains) {
  const TempDir dir;
  be_rank(trained_options(dir, 2), train);
}

TEST(ProcessRank, DISABLED_TrainsInAGroup) {
  const TempDir dir;
  be_rank(grouped_options(dir), train);
}

TEST(ProcessRank, DISABLED_TrainsAPart) {
  const TempDir dir;
  be_rank(divided_options(dir), train);
}

TEST(ProcessRank, DISABLED_TrainsRows) {
  const TempDir dir;
  be_rank(context_options(dir, environment(kKind)), train);
}

TEST(ProcessRank, DISABLED_RunsAPart) {
  const TempDir dir;
  be_rank(divided_options(dir), generate_and_train);
}

TEST(ProcessRank, DISABLED_RunsForItself) {
  const TempDir dir;
  be_rank(whole_engine_options(dir), generate_and_train);
}

TEST(ProcessRank, DISABLED_TrainsAStage) {
  const TempDir dir;
  be_rank(staged_options(dir), train);
}

TEST(ProcessRank, DISABLED_RunsAStage) {
  const TempDir dir;
  be_rank(staged_options(dir), generate_and_train);
}

TEST(ProcessRank, DISABLED_TrainsFromAStore) {
  const TempDir dir;
  be_rank(store_options(dir), [&](std::shared_ptr<Runtime> runtime) {
    return train_from_a_store(dir, std::move(runtime));
  });
}

pid_t start_rank(const std::string& test, int rank, std::vector<std::string> own) {
  own.push_back(str(kRank, "=", rank));
  std::vector<char*> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
  for (const std::string& each : own) variables.push_back(const_cast<char*>(each.c_str()));
  variables.push_back(nullptr);
  // By its own name: the plugin lies beside it.
  std::string arguments[] = {std::filesystem::read_symlink("/proc/self/exe").string(),
                             "--gtest_filter=ProcessRank.DISABLED_" + test,
                             "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  std::vector<char*> argv;
  for (std::string& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), variables.data()), 0);
  return pid;
}

// The text of each process that runs a disabled test.
std::vector<std::string> in_processes(const std::string& test, const std::string& kind = "",
                                      int ranks = 2) {
  const TempDir dir, meeting;
  tiny_options(dir);  // writes the prompts
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    pids.push_back(start_rank(test, rank,
                              {str(kDirectory, "=", dir.path()),
                               str(kRendezvous, "=file:", meeting.path()), str(kKind, "=", kind)}));
  }
  for (const pid_t pid : pids) {
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  std::vector<std::string> out;
  for (int rank = 0; rank < ranks; ++rank)
    out.push_back(read_text_file(real_fs(), dir.file(str("out.", rank)), 1 << 20));
  return out;
}

// The same of ranks that are threads.
std::vector<std::string> in_threads(
    const OptionSet& options, const std::function<std::string(std::shared_ptr<Runtime>)>& work) {
  std::vector<std::shared_ptr<Runtime>> ranks = make_ranks(options);
  std::vector<std::string> out(ranks.size());
  run_ranks(std::move(ranks), [&](std::shared_ptr<Runtime> runtime) {
    const auto rank = static_cast<size_t>(runtime->ranks().rank());
    out[rank] = work(std::move(runtime));
  });
  return out;
}

TEST(ProcessRanks, TrainToTheWeightsOfThreads) {
#ifdef RL_GLOO_BESIDE
  const TempDir dir;
  EXPECT_EQ(in_processes("Trains"), in_threads(trained_options(dir, 2), train));
#else
  GTEST_SKIP() << "librl_gloo.so is not built (RL_GLOO, libgloo-dev)";
#endif
}

TEST(ProcessRanks, DivideInGroupsAsThreadsDo) {
#ifdef RL_GLOO_BESIDE
  const TempDir dir;
  EXPECT_EQ(in_processes("TrainsInAGroup", "", 4), in_threads(grouped_options(dir), train));
#else
  GTEST_SKIP() << "librl_gloo.so is not built (RL_GLOO, libgloo-dev)";
#endif
}

TEST(ProcessRanks, DivideAModelAsThreadsDo) {
#ifdef RL_GLOO_BESIDE
  const TempDir dir;
  EXPECT_EQ(in_processes("TrainsAPart"), in_threads(divided_options(dir), train));
  const std::vector<std::string> threads = in_threads(divided_options(dir), generate_and_train);
  EXPECT_TRUE(contains(threads[0], "48 samples")) << threads[0];
  EXPECT_TRUE(contains(threads[1], "\n0 samples")) << threads[1];
  EXPECT_EQ(in_processes("RunsAPart"), threads);
#else
  GTEST_SKIP() << "librl_gloo.so is not built (RL_GLOO, libgloo-dev)";
#endif
}

TEST(ProcessRanks, GenerateForThemselvesAsThreadsDo) {
#ifdef RL_GLOO_BESIDE
  const TempDir dir;
  const std::vector<std::string> threads =
      in_threads(whole_engine_options(dir), generate_and_train);
  for (const std::string& rank : threads) EXPECT_TRUE(contains(rank, "\n24 samples")) << rank;
  EXPECT_EQ(in_processes("RunsForItself"), threads);
#else
  GTEST_SKIP() << "librl_gloo.so is not built (RL_GLOO, libgloo-dev)";
#endif
}

TEST(ProcessRanks, DivideRowsAsThreadsDo) {
#ifdef RL_GLOO_BESIDE
  const TempDir dir;
  for (const char* kind : {"all_gather", "ulysses", "ring"}) {
    SCOPED_TRACE(kind);
    EXPECT_EQ(in_processes("TrainsRows", kind), in_threads(context_options(dir, kind), train));
  }
#else
  GTEST_SKIP() << "librl_gloo.so is not built (RL_GLOO, libgloo-dev)";
#endif
}

TEST(ProcessRanks, HaveStagesAsThreadsDo) {
#ifdef RL_GLOO_BESIDE
  const TempDir dir;
  EXPECT_EQ(in_processes("TrainsAStage"), in_threads(staged_options(dir), train));
  EXPECT_EQ(in_processes("RunsAStage"), in_threads(staged_options(dir), generate_and_train));
#else
  GTEST_SKIP() << "librl_gloo.so is not built (RL_GLOO, libgloo-dev)";
#endif
}

TEST(ProcessRanks, TrainFromAStoreAsThreadsDo) {
#ifdef RL_GLOO_BESIDE
  const TempDir dir;
  const std::vector<std::string> threads =
      in_threads(store_options(dir), [&](std::shared_ptr<Runtime> runtime) {
        return train_from_a_store(dir, std::move(runtime));
      });
  EXPECT_TRUE(contains(threads[1], "4 steps")) << threads[1];
  EXPECT_EQ(in_processes("TrainsFromAStore"), threads);
#else
  GTEST_SKIP() << "librl_gloo.so is not built (RL_GLOO, libgloo-dev)";
#endif
}

TEST(ProcessRanks, MeetWhereTheirOptionsSay) {
  const TempDir dir;
  const auto refused = [&](Code code, const std::string& rendezvous) {
    const OptionSet o = of_process(trained_options(dir, 0), 0, rendezvous);
    return expect_error(code, [&] { Runtime runtime(o); });
  };
  const Error form = refused(Code::kInvalidArgument, "http://host");
  EXPECT_EQ(form.key, "comm.rendezvous");
  EXPECT_EQ(form.expected, "file:DIRECTORY or tcp:HOST:PORT");
  OptionSet third = of_process(trained_options(dir, 0), 2, "file:" + dir.path());
  const Error rank = expect_error(Code::kOutOfRange, [&] { Runtime runtime(third); });
  EXPECT_EQ(rank.key, "comm.rank");
  EXPECT_EQ(rank.expected, "0..1");
  EXPECT_EQ(refused(Code::kNotFound, "file:" + dir.file("none")).key, "comm.rendezvous");
#ifdef RL_GLOO_BESIDE
  const Error port = refused(Code::kInvalidArgument, "tcp:127.0.0.1");
  EXPECT_EQ(port.key, "comm.rendezvous");
#else
  const Error port = refused(Code::kNotInBuild, "tcp:127.0.0.1");
#endif
  EXPECT_NE(port.message.find("rank 0 of 2 cannot join"), std::string::npos) << port.message;
}

}  // namespace
}  // namespace rl::testing
