// Time of an all-reduce among local ranks: read in place, and with the copies that other backends
// need. The two alternate, so that both meet the same load; the least of several rounds counts.
//
//   collectives_bench [--quick]
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "comm/group.h"
#include "comm/local/local_transport.h"
#include "core/clock.h"

namespace {

using namespace rl;

// Forwards all but the exchange in place.
class Copying final : public Transport {
 public:
  explicit Copying(std::shared_ptr<Transport> base) : base_(std::move(base)) {}
  int rank() const override { return base_->rank(); }
  int size() const override { return base_->size(); }
  void exchange(const Exchange& exchange) override { base_->exchange(exchange); }
  void check() override { base_->check(); }
  void fail(const std::string& why) override { base_->fail(why); }

 private:
  std::shared_ptr<Transport> base_;
};

struct Times {
  int64_t in_place_ns = INT64_MAX, copying_ns = INT64_MAX;
};

int64_t time_of(comm::Group& group, std::vector<float>& values) {
  group.barrier();
  const int64_t begin = real_clock().now_ns();
  group.all_reduce(values_of(std::span<float>(values)));
  return real_clock().now_ns() - begin;
}

void run_rank(const std::shared_ptr<Transport>& transport, size_t count, int rounds, Times& times) {
  comm::Group in_place(transport, {-1});
  comm::Group copying(std::make_shared<Copying>(transport), {-1});
  std::vector<float> values(count, 1.0f);
  for (int round = 0; round < rounds; ++round) {
    times.in_place_ns = std::min(times.in_place_ns, time_of(in_place, values));
    times.copying_ns = std::min(times.copying_ns, time_of(copying, values));
    std::fill(values.begin(), values.end(), 1.0f);
  }
}

Times measure(int size, size_t count, int rounds) {
  const std::vector<std::shared_ptr<Transport>> transports = make_local_transports(size);
  std::vector<Times> times(transports.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < transports.size(); ++r)
    threads.emplace_back([&, r] { run_rank(transports[r], count, rounds, times[r]); });
  for (std::thread& thread : threads) thread.join();
  return times[0];
}

double milliseconds(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  std::printf("ranks        MB  in place ms  copied ms\n");
  for (const int size : {2, 4}) {
    for (const size_t count : {size_t{1} << 18, size_t{1} << 22, size_t{1} << 24}) {
      const size_t measured = quick ? count >> 12 : count;
      const Times times = measure(size, measured, quick ? 3 : 20);
      std::printf("%5d %9.3f %12.2f %10.2f\n", size, static_cast<double>(measured) / (1 << 18),
                  milliseconds(times.in_place_ns), milliseconds(times.copying_ns));
    }
  }
  return 0;
}
