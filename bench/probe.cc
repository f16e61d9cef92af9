// The probes. Reads sum 64-byte vectors, so that every byte reaches a register; the sums are kept,
// so nothing is optimised away. GEMMs run through oneDNN's C API with packed weights, one
// primitive per thread, the way the library calls it; each thread works on its own data. Compiled
// for the machine it is built on (bench/CMakeLists).
#include "bench/probe.h"

#include <dnnl.h>
#include <omp.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "device/cpu/executors.h"

namespace rl::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Vector = uint64_t __attribute__((vector_size(64), may_alias));

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLargePage = uint64_t{2} << 20;
constexpr int kStreams = 4;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The cores that this process may use.
std::vector<int> own_cores() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) throw std::runtime_error("no affinity mask");
  std::vector<int> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask)) cores.push_back(cpu);
  return cores;
}

void stay_on(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof(one), &one);  // if this fails the figure is only less steady
}

// Runs body(thread) on `threads` threads and returns the seconds from the common start to the end
// of the last one. Each thread is pinned to its own core: new threads may share one at first,
// which a probe of milliseconds would measure.
double timed_threads(int threads, const std::function<void(int)>& body) {
  const std::vector<int> cores = own_cores();
  Clock::time_point start;
  std::barrier begin(threads, [&]() noexcept { start = Clock::now(); });
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      stay_on(cores[static_cast<size_t>(t) % cores.size()]);
      begin.arrive_and_wait();
      body(t);
    });
  }
  for (auto& thread : pool) thread.join();
  return seconds_since(start);
}

// ---- Memory read ----

// Bytes to read before any byte is read again, so that no cache still holds it.
uint64_t uncached_bytes() {
  constexpr uint64_t kLeast = uint64_t{1} << 30, kCaches = 4;
  const int64_t last_cache =
      // 0 or -1 if unknown.
      sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max(kLeast, kCaches * static_cast<uint64_t>(std::max<int64_t>(0, last_cache)));
}

struct ReadRange {
  const char* data;
  uint64_t bytes;
};

class ReadBuffer {
 public:
  ReadBuffer(uint64_t bytes, int threads) : bytes_(bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::runtime_error("no memory for the read probe");
    data_ = static_cast<char*>(data);
    madvise(data_, bytes, MADV_HUGEPAGE);
    timed_threads(threads, [&](int t) {
      auto* words = reinterpret_cast<uint64_t*>(data_);
      const uint64_t count = bytes_ / sizeof(uint64_t);
      for (uint64_t i = count * t / threads; i < count * (t + 1) / threads; ++i) words[i] = i;
    });
  }
  ~ReadBuffer() { munmap(data_, bytes_); }
  ReadBuffer(const ReadBuffer&) = delete;
  ReadRange all() const { return {data_, bytes_}; }
  // Range number `index` of this many bytes, wrapping around after the last whole one.
  ReadRange range(uint64_t index, uint64_t bytes) const {
    return {data_ + index % (bytes_ / bytes) * bytes, bytes};
  }

 private:
  char* data_ = nullptr;
  uint64_t bytes_;
};

uint64_t fold(Vector v) { return v[0] + v[1] + v[2] + v[3] + v[4] + v[5] + v[6] + v[7]; }

inline Vector sum_run(const char* data, uint64_t bytes, Vector total) {
  const auto* v = reinterpret_cast<const Vector*>(data);
  const uint64_t count = bytes / sizeof(Vector);
  Vector a = total, b = {}, c = {}, d = {};
  for (uint64_t i = 0; i < count; i += 4) {
    a += v[i];
    b += v[i + 1];
    c += v[i + 2];
    d += v[i + 3];
  }
  return a + b + c + d;
}

uint64_t read_sequential(const ReadRange& range, int t, int threads) {
  const uint64_t share = range.bytes / threads / kLargePage * kLargePage;
  return fold(sum_run(range.data + share * t, share, Vector{}));
}

template <uint64_t unit>
uint64_t read_interleaved(const ReadRange& range, int t, int threads) {
  Vector total = {};
  const uint64_t units = range.bytes / unit / threads * threads;
  for (uint64_t i = t; i < units; i += threads) total = sum_run(range.data + i * unit, unit, total);
  return fold(total);
}

uint64_t read_streams(const ReadRange& range, int t, int threads) {
  const uint64_t share = range.bytes / threads / kStreams / kLargePage * kLargePage;
  const uint64_t count = share / sizeof(Vector);
  const auto* first = reinterpret_cast<const Vector*>(range.data + share * kStreams * t);
  Vector a = {}, b = {}, c = {}, d = {};
  for (uint64_t i = 0; i < count; i += 2) {
    a += first[i] + first[i + 1];
    b += first[count + i] + first[count + i + 1];
    c += first[2 * count + i] + first[2 * count + i + 1];
    d += first[3 * count + i] + first[3 * count + i + 1];
  }
  return fold(a + b + c + d);
}

uint64_t read_prefetched(const ReadRange& range, int t, int threads) {
  constexpr uint64_t kPrefetchBytes = 2048, kRun = 256;
  const uint64_t share = range.bytes / threads / kLargePage * kLargePage;
  const char* data = range.data + share * t;
  Vector total = {};
  for (uint64_t at = 0; at < share; at += kRun) {
    for (uint64_t line = 0; line < kRun; line += 64)
      __builtin_prefetch(data + at + kPrefetchBytes + line, 0, 0);
    total = sum_run(data + at, kRun, total);
  }
  return fold(total);
}

struct ReadPattern {
  const char* name;
  uint64_t (*read)(const ReadRange& range, int t, int threads);
  uint64_t unit;  // a thread reads whole units
};
constexpr ReadPattern kReadPatterns[] = {
    {"one sequential run a thread", read_sequential, kLargePage},
    {"threads take turns by 4 KiB", read_interleaved<kPage>, kPage},
    {"threads take turns by 2 MiB", read_interleaved<kLargePage>, kLargePage},
    {"four streams a thread", read_streams, kLargePage* kStreams},
    {"sequential with prefetch", read_prefetched, kLargePage},
};

// What was done, bytes or operations, and the seconds it took.
struct Amount {
  double done = 0, seconds = 0;
  double rate() const { return done / seconds; }
  void operator+=(const Amount& more) {
    done += more.done;
    seconds += more.seconds;
  }
};

// One pass over the range.
Amount read_once(const ReadPattern& pattern, const ReadRange& range, int threads) {
  std::vector<uint64_t> sums(threads);
  const double s =
      timed_threads(threads, [&](int t) { sums[t] = pattern.read(range, t, threads); });
  return {static_cast<double>(range.bytes / threads / pattern.unit * pattern.unit * threads), s};
}

std::vector<Probe> probe_reads(const ProbeOptions& options, int threads) {
  const ReadBuffer buffer(options.read_bytes ? options.read_bytes : uncached_bytes(), threads);
  std::vector<Probe> result;
  for (const ReadPattern& pattern : kReadPatterns) {
    double best = 0;
    for (int pass = 0; pass < options.read_passes; ++pass) {
      best = std::max(best, read_once(pattern, buffer.all(), threads).rate());
    }
    result.push_back({pattern.name, best});
  }
  return result;
}

// ---- Matrix multiplication ----

void check(dnnl_status_t status) {
  if (status != dnnl_success) throw std::runtime_error("oneDNN failed in the matmul probe");
}

template <typename T, dnnl_status_t (*destroy)(T)>
struct Owned {
  T value = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  ~Owned() {
    if (value) destroy(value);
  }
};

struct MatmulShape {
  int64_t m, k, n;
};
// Rows, K and columns per thread: a tile that stays in L2, a slice as the library cuts it, and a
// whole feed-forward matrix of SmolLM2.
constexpr MatmulShape kMatmulShapes[] = {{256, 576, 128}, {256, 576, 512}, {512, 576, 1536}};

// One thread's GEMM y = x W with W in oneDNN's own layout, repeated on the same data.
class ThreadMatmul {
 public:
  ThreadMatmul(const MatmulShape& shape, dnnl_data_type_t type) {
    check(dnnl_engine_create(&engine_.value, dnnl_cpu, 0));
    check(dnnl_stream_create(&stream_.value, engine_.value, dnnl_stream_default_flags));
    describe(shape, type);
    check(dnnl_primitive_create(&primitive_.value, desc_.value));
    fill(src_, dnnl_query_src_md, 1);
    fill(weights_, dnnl_query_weights_md, 1);
    fill(dst_, dnnl_query_dst_md, 0);
    fill(pad_, dnnl_query_scratchpad_md, 0);
  }

  void run() {
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, src_.memory.value},
                                    {DNNL_ARG_WEIGHTS, weights_.memory.value},
                                    {DNNL_ARG_DST, dst_.memory.value},
                                    {DNNL_ARG_SCRATCHPAD, pad_.memory.value}};
    check(dnnl_primitive_execute(primitive_.value, stream_.value, 4, args));
  }

 private:
  struct Argument {
    std::unique_ptr<char, void (*)(void*)> data{nullptr, std::free};
    Owned<dnnl_memory_t, dnnl_memory_destroy> memory;
  };

  void describe(const MatmulShape& s, dnnl_data_type_t type) {
    const dnnl_dims_t x = {s.m, s.k}, w = {s.k, s.n}, y = {s.m, s.n};
    dnnl_memory_desc_t x_desc, w_desc, y_desc;
    check(dnnl_memory_desc_init_by_tag(&x_desc, 2, x, type, dnnl_ab));
    check(dnnl_memory_desc_init_by_tag(&w_desc, 2, w, type, dnnl_format_tag_any));
    check(dnnl_memory_desc_init_by_tag(&y_desc, 2, y, dnnl_f32, dnnl_ab));
    Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attr;
    check(dnnl_primitive_attr_create(&attr.value));
    check(dnnl_primitive_attr_set_scratchpad_mode(attr.value, dnnl_scratchpad_mode_user));
    dnnl_matmul_desc_t op;
    check(dnnl_matmul_desc_init(&op, &x_desc, &w_desc, nullptr, &y_desc));
    check(dnnl_primitive_desc_create(&desc_.value, &op, attr.value, engine_.value, nullptr));
  }

  // Bytes of value 0x3f are 0.75 in fp32 and bf16: normal numbers, no denormals.
  void fill(Argument& argument, dnnl_query_t what, int value) {
    const dnnl_memory_desc_t* desc = dnnl_primitive_desc_query_md(desc_.value, what, 0);
    const size_t bytes = (dnnl_memory_desc_get_size(desc) + 4095) / 4096 * 4096;
    if (bytes != 0) {
      argument.data.reset(static_cast<char*>(std::aligned_alloc(4096, bytes)));
      if (!argument.data) throw std::runtime_error("no memory for the matmul probe");
      std::fill_n(argument.data.get(), bytes, value ? '\x3f' : '\0');
    }
    check(dnnl_memory_create(&argument.memory.value, desc, engine_.value, argument.data.get()));
  }

  Owned<dnnl_engine_t, dnnl_engine_destroy> engine_;
  Owned<dnnl_stream_t, dnnl_stream_destroy> stream_;
  Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy> desc_;
  Owned<dnnl_primitive_t, dnnl_primitive_destroy> primitive_;
  Argument src_, weights_, dst_, pad_;
};

double flop_of(const MatmulShape& s) {
  return 2.0 * static_cast<double>(s.m) * static_cast<double>(s.k * s.n);
}

std::string name_of(const MatmulShape& s) {
  std::ostringstream name;
  name << "[" << s.m << ", " << s.k << "] x [" << s.k << ", " << s.n << "] a thread";
  return name.str();
}

// One GEMM per thread, all at the same time.
class MatmulProbe {
 public:
  MatmulProbe(const MatmulShape& shape, int threads) : flop_(flop_of(shape)) {
    const int omp_threads = omp_get_max_threads();
    omp_set_num_threads(1);  // blocking depends on the thread count: each GEMM runs on one
    for (int t = 0; t < threads; ++t)
      work_.push_back(std::make_unique<ThreadMatmul>(shape, probe_type()));
    omp_set_num_threads(omp_threads);
  }
  static dnnl_data_type_t probe_type() {
    return dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core_bf16 ? dnnl_bf16 : dnnl_f32;
  }

  // Runs for about `seconds` seconds.
  Amount run(double seconds) {
    std::atomic<int64_t> runs{0};
    const double elapsed = timed_threads(static_cast<int>(work_.size()), [&](int t) {
      omp_set_num_threads(1);
      const Clock::time_point start = Clock::now();
      int64_t done = 0;
      do {
        work_[t]->run();
        ++done;
      } while (seconds_since(start) < seconds);
      runs += done;
    });
    return {flop_ * static_cast<double>(runs), elapsed};
  }

 private:
  double flop_;
  std::vector<std::unique_ptr<ThreadMatmul>> work_;
};

double best_of(const std::vector<Probe>& probes) {
  double best = 0;
  for (const Probe& p : probes) best = std::max(best, p.value);
  return best;
}

void append_probes(std::ostringstream& out, const char* key, const std::vector<Probe>& probes) {
  out << "\"" << key << "\": [";
  for (size_t i = 0; i < probes.size(); ++i) {
    out << (i ? ", " : "") << "{\"name\": \"" << probes[i].name
        << "\", \"value\": " << probes[i].value << "}";
  }
  out << "]";
}

}  // namespace

double ProbeReport::read_bytes_per_s() const { return best_of(reads); }
double ProbeReport::matmul_flops() const { return best_of(matmuls); }

ProbeReport run_probes(const ProbeOptions& options) {
  ProbeReport report;
  report.threads = options.threads ? options.threads : usable_cores();
  report.matmul_dtype = MatmulProbe::probe_type() == dnnl_bf16 ? "bf16" : "f32";
  report.reads = probe_reads(options, report.threads);
  for (const MatmulShape& shape : kMatmulShapes) {
    report.matmuls.push_back(
        {name_of(shape), MatmulProbe(shape, report.threads).run(options.matmul_seconds).rate()});
  }
  return report;
}

struct LimitMeter::Impl {
  static constexpr uint64_t kReadBytes = uint64_t{128} << 20;  // per pattern and sample
  static constexpr double kMatmulSeconds = 0.004;

  explicit Impl(bool quick)
      : threads(usable_cores()),
        read_bytes(quick ? kReadBytes / 8 : kReadBytes),
        buffer(quick ? read_bytes : uncached_bytes() / read_bytes * read_bytes, threads) {
    for (const MatmulShape& shape : kMatmulShapes)
      products.push_back(std::make_unique<MatmulProbe>(shape, threads));
    reads.resize(std::size(kReadPatterns));
    matmuls.resize(products.size());
  }

  static double best(const std::vector<Amount>& amounts) {
    double rate = 0;
    for (const Amount& a : amounts) rate = std::max(rate, a.rate());
    return rate;
  }

  int threads;
  uint64_t read_bytes, ranges_read = 0;
  ReadBuffer buffer;
  std::vector<std::unique_ptr<MatmulProbe>> products;
  std::vector<Amount> reads, matmuls;
};

LimitMeter::LimitMeter(bool quick) : impl_(std::make_unique<Impl>(quick)) {}
LimitMeter::~LimitMeter() = default;

void LimitMeter::sample() {
  for (size_t i = 0; i < impl_->reads.size(); ++i) {
    const ReadRange range = impl_->buffer.range(impl_->ranges_read++, impl_->read_bytes);
    impl_->reads[i] += read_once(kReadPatterns[i], range, impl_->threads);
  }
  for (size_t i = 0; i < impl_->matmuls.size(); ++i)
    impl_->matmuls[i] += impl_->products[i]->run(Impl::kMatmulSeconds);
}

LimitMeter::Limits LimitMeter::limits() const {
  return {Impl::best(impl_->matmuls), Impl::best(impl_->reads)};
}

void LimitMeter::reset() {
  std::fill(impl_->reads.begin(), impl_->reads.end(), Amount{});
  std::fill(impl_->matmuls.begin(), impl_->matmuls.end(), Amount{});
}

std::string to_json(const ProbeReport& report) {
  std::ostringstream out;
  out.precision(6);
  out << "{\"threads\": " << report.threads << ", \"matmul_dtype\": \"" << report.matmul_dtype
      << "\", \"matmul_flops\": " << report.matmul_flops()
      << ", \"read_bytes_per_s\": " << report.read_bytes_per_s() << ", ";
  append_probes(out, "matmuls", report.matmuls);
  out << ", ";
  append_probes(out, "reads", report.reads);
  out << "}";
  return out.str();
}

}  // namespace rl::bench
