// One rank that is a process, for ranks.sh:
//
//   gloo_rank collectives RANK SIZE PLACE ADDRESS   every collective against its definition
//   gloo_rank stream      RANK SIZE PLACE ADDRESS   collectives without end
//
// PLACE is file:DIRECTORY or tcp:HOST:PORT; ADDRESS is that of the rank, or - for none. A stream
// prints "ready" when all ranks work, and "named K at NS in TEXT" when rank K was lost, NS being
// the time by the clock of the machine; then "destroyed".
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "comm/collective_checks.h"
#include "comm/plugin/gloo_loader.h"
#include "core/clock.h"

namespace rl {
namespace {

using comm::Group;

constexpr int64_t kSecondNs = 1000000000;
constexpr int64_t kTimeoutNs = 2 * kSecondNs;  // ranks.sh counts on it
constexpr int64_t kJoinNs = 60 * kSecondNs;

std::unique_ptr<Rendezvous> rendezvous_at(const std::string& place, int rank, int size) {
  if (place.starts_with("file:")) return file_rendezvous(real_fs(), place.substr(5));
  if (place.starts_with("tcp:")) return tcp_rendezvous(place.substr(4), rank, size);
  throw Error(Code::kInvalidArgument, str(place, " is neither file: nor tcp:"));
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

void run_collectives(std::shared_ptr<Transport> transport) {
  Group all(transport, {kTimeoutNs, 1 << 15});
  for (const uint64_t count : {0, 1, 1000, 70000}) {
    expect_collectives<float>(all, count);
    expect_collectives<bf16>(all, count);
    expect_collectives<int64_t>(all, count);
    expect_collectives<std::byte>(all, count);
  }
  if (transport->size() % 2 != 0) return;
  const Mesh mesh({.tensor = 2, .data = transport->size() / 2}, transport->size(),
                  transport->rank());
  for (const Axis axis : {Axis::kTensor, Axis::kData}) {
    Group group(transport, mesh, axis, {kTimeoutNs});
    std::vector<int32_t> bits{1 << transport->rank()};
    group.all_reduce(of(bits));
    int32_t expected = 0;
    for (const int rank : mesh.ranks(axis)) expected |= 1 << rank;
    EXPECT_EQ(bits[0], expected) << axis_name(axis);
  }
  all.barrier();
}

// Called and started collectives of several sizes, until a rank is lost.
void stream(std::shared_ptr<Transport> transport) {
  try {
    Group group(transport, {kTimeoutNs, 1 << 14});
    group.barrier();
    say("ready");
    for (uint64_t round = 0;; ++round) {
      const uint64_t count = 1 + round * 7919 % 200000;
      std::vector<float> a(count), b(count);
      StartedCall started = group.start_all_reduce(of(a));
      started.wait();
      group.all_gather(of(b));
    }
  } catch (const RankError& error) {
    say(str("named ", error.rank, " at ", real_clock().unix_ns(), " in ", error.message));
  }
  transport.reset();
  say("destroyed");
}

int run(const std::vector<std::string>& words) {
  const int rank = std::stoi(words[1]), size = std::stoi(words[2]);
  const std::unique_ptr<Rendezvous> rendezvous = rendezvous_at(words[3], rank, size);
  const std::string address = words[4] == "-" ? "" : words[4];
  std::shared_ptr<Transport> transport =
      load_gloo_plugin(RL_GLOO_PLUGIN)
          .transport({rank, size, kTimeoutNs, kJoinNs, address}, *rendezvous);
  if (words[0] == "stream")
    stream(std::move(transport));
  else
    run_collectives(std::move(transport));
  return ::testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace
}  // namespace rl

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() != 5 || (words[0] != "stream" && words[0] != "collectives")) {
    std::fputs("usage: gloo_rank collectives|stream RANK SIZE PLACE ADDRESS\n", stderr);
    return 2;
  }
  try {
    return rl::run(words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %s: %s\n", words[1].c_str(), error.what());
    return 1;
  }
}
