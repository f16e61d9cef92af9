// Ranks that are processes, over gloo on loopback: they train to the weights of ranks that are
// threads. The program runs itself once for each rank.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../pipeline/rank_rig.h"
#include "../pipeline/run_rig.h"
#include "comm/transport.h"
#include "support/expect_error.h"

extern char** environ;

namespace rl::testing {
namespace {

constexpr const char* kRank = "RL_TEST_RANK";
constexpr const char* kDirectory = "RL_TEST_DIRECTORY";
constexpr const char* kRendezvous = "RL_TEST_RENDEZVOUS";

OptionSet trained_options(const TempDir& dir, int stage) {
  OptionSet o = tiny_options(dir);
  o.set_i64("parallel.data", 2);
  o.set_i64("parallel.zero_stage", stage);
  o.set_text("optimizer.lr", "1e-3");
  o.set_text("runtime.threads", "1");
  return o;
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

// What a process does: two steps, and its weights into a file.
TEST(ProcessRank, DISABLED_Trains) {
  const TempDir dir;
  const int rank = std::stoi(environment(kRank));
  const OptionSet options = of_process(trained_options(dir, 2), rank, environment(kRendezvous));
  RankParts parts(std::make_shared<Runtime>(options));
  EXPECT_EQ(parts.rank, rank);
  std::ofstream(environment(kDirectory) + "/weights." + std::to_string(rank)) << two_steps(parts);
}

pid_t start_rank(int rank, const std::string& directory, const std::string& rendezvous) {
  const std::vector<std::string> own = {str(kRank, "=", rank), str(kDirectory, "=", directory),
                                        str(kRendezvous, "=", rendezvous)};
  std::vector<char*> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
  for (const std::string& each : own) variables.push_back(const_cast<char*>(each.c_str()));
  variables.push_back(nullptr);
  // By its own name: the plugin lies beside it.
  std::string arguments[] = {std::filesystem::read_symlink("/proc/self/exe").string(),
                             "--gtest_filter=ProcessRank.DISABLED_Trains",
                             "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  std::vector<char*> argv;
  for (std::string& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), variables.data()), 0);
  return pid;
}

// The two steps of each process.
std::vector<std::string> train_in_processes(const std::string& rendezvous) {
  const TempDir dir;
  std::vector<pid_t> pids;
  for (const int rank : {0, 1}) pids.push_back(start_rank(rank, dir.path(), rendezvous));
  for (const pid_t pid : pids) {
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  std::vector<std::string> out;
  for (const int rank : {0, 1})
    out.push_back(read_text_file(real_fs(), dir.file(str("weights.", rank)), 1 << 20));
  return out;
}

TEST(ProcessRanks, TrainToTheWeightsOfThreads) {
#ifdef RL_GLOO_BESIDE
  const TempDir dir, meeting;
  const std::vector<std::string> threads = on_trainers(trained_options(dir, 2), two_steps);
  EXPECT_EQ(train_in_processes("file:" + meeting.path()), threads);
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
