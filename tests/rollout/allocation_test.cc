// A step in the steady state touches no heap, and a call that gets no memory can be made again. The
// test program puts its own malloc and its kin before those of the C library, for every library it
// loads; while a flag is up they count, on all threads, keep the return addresses of the first
// calls for the message of a failure, and refuse the one call that a test names.
//
// One kind is told apart and not held against the engine: what oneDNN's own code allocates. Its
// dnnl_primitive_execute makes a map of the arguments on every call, and the API has no way around
// it. Whose an allocation is says the address that malloc or operator new returns to.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string_view>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RL_HEAP_IS_A_SANITIZERS 1
#else
#define RL_HEAP_IS_A_SANITIZERS 0
#include <execinfo.h>
#include <link.h>
#include <malloc.h>
#endif

#include "core/arena.h"
#include "core/error.h"
#include "rollout/engine_fixture.h"
#include "support/compute_dtypes.h"
#include "support/head_row.h"
#include "support/random_values.h"
#include "text/tokenizer.h"

namespace {

constexpr int kMostSites = 4, kMostFrames = 24;

struct Site {
  void* frames[kMostFrames];
  int depth = 0;
};
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0}, allocations_of_onednn{0};
std::atomic<int64_t> refused{-1};  // the index of an allocation
Site sites[kMostSites];

}  // namespace

#if !RL_HEAP_IS_A_SANITIZERS
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {

uintptr_t onednn_begin = 0, onednn_end = 0;  // where its code lies

int note_onednn(dl_phdr_info* info, size_t, void*) {
  if (std::string_view(info->dlpi_name).find("libdnnl") == std::string_view::npos) return 0;
  onednn_begin = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    onednn_end = std::max<uintptr_t>(onednn_end, onednn_begin + part.p_vaddr + part.p_memsz);
  }
  return 1;
}

// False when the call is the one to refuse. backtrace() may allocate itself, hence the second flag.
bool may_allocate(void* caller) {
  static thread_local bool inside = false;
  if (!counting.load(std::memory_order_relaxed) || inside) return true;
  const auto address = reinterpret_cast<uintptr_t>(caller);
  if (address >= onednn_begin && address < onednn_end) {
    ++allocations_of_onednn;
    return true;
  }
  const int64_t index = allocations.fetch_add(1);
  if (index == refused) return false;
  if (index >= kMostSites || refused >= 0) return true;
  inside = true;
  sites[index].depth = backtrace(sites[index].frames, kMostFrames);
  inside = false;
  return true;
}

}  // namespace

extern "C" {
void* malloc(size_t size) {
  return may_allocate(__builtin_return_address(0)) ? __libc_malloc(size) : nullptr;
}
void* calloc(size_t count, size_t size) {
  return may_allocate(__builtin_return_address(0)) ? __libc_calloc(count, size) : nullptr;
}
void* realloc(void* old, size_t size) {
  return may_allocate(__builtin_return_address(0)) ? __libc_realloc(old, size) : nullptr;
}
void* memalign(size_t alignment, size_t size) {
  return may_allocate(__builtin_return_address(0)) ? __libc_memalign(alignment, size) : nullptr;
}
void* aligned_alloc(size_t alignment, size_t size) {
  return may_allocate(__builtin_return_address(0)) ? __libc_memalign(alignment, size) : nullptr;
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  if (!may_allocate(__builtin_return_address(0))) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
}

void* operator new(size_t size) {
  if (may_allocate(__builtin_return_address(0))) {
    if (void* const p = __libc_malloc(size > 0 ? size : 1)) return p;
  }
  throw std::bad_alloc();
}
void* operator new(size_t size, std::align_val_t alignment) {
  if (may_allocate(__builtin_return_address(0))) {
    if (void* const p = __libc_memalign(static_cast<size_t>(alignment), size)) return p;
  }
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { __libc_free(p); }
void operator delete(void* p, size_t) noexcept { __libc_free(p); }
void operator delete(void* p, std::align_val_t) noexcept { __libc_free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { __libc_free(p); }
#endif

namespace rl::testing {
namespace {

class Allocation : public ::testing::Test {
 protected:
  void SetUp() override {
    if (RL_HEAP_IS_A_SANITIZERS) GTEST_SKIP() << "a sanitizer replaces the heap: nothing to count";
#if !RL_HEAP_IS_A_SANITIZERS
    void* frame = nullptr;
    backtrace(&frame, 1);  // loads what it needs
    dl_iterate_phdr(note_onednn, nullptr);
#endif
  }
};

std::string text_of_sites([[maybe_unused]] int64_t count) {
  std::string text;
#if !RL_HEAP_IS_A_SANITIZERS
  for (int64_t i = 0; i < std::min<int64_t>(count, kMostSites); ++i) {
    char** const names = backtrace_symbols(sites[i].frames, sites[i].depth);
    text += "\nallocation:";
    for (int f = 0; f < sites[i].depth; ++f) text += str("\n  ", names[f]);
    std::free(names);
  }
#endif
  return text;
}

template <typename F>
void expect_no_allocation(F&& call) {
  allocations = allocations_of_onednn = 0;
  counting = true;
  call();
  counting = false;
  const int64_t count = allocations;
  EXPECT_EQ(count, 0) << text_of_sites(count);
  if (allocations_of_onednn == 0) return;
  std::cout << "not counted: " << allocations_of_onednn << " allocations by oneDNN itself\n";
}

TEST_F(Allocation, IsCounted) {
  int* volatile kept = nullptr;
  allocations = 0;
  counting = true;
  kept = new int(1);
  void* volatile aligned = std::aligned_alloc(64, 128);
  counting = false;
  EXPECT_EQ(allocations, 2);
  delete kept;
  std::free(aligned);
}

constexpr int64_t kVocab = 1500;

void expect_draws_without_allocation(const SamplingParams& params,
                                     const std::vector<int32_t>& forbidden) {
  const auto executor = make_thread_executor(1);
  const auto compute = make_cpu_compute(*executor, Dtype::kF32);
  const HeadRow row(random_values(kVocab, 4, 6.0f), inv_temperature(params));
  const Arena scratch("test scratch", sample_scratch_bytes(kVocab, 1));
  const std::vector<int32_t> ids = {1, 2, 3, 3, 900, 900, 900};
  int finite = 0;
  expect_no_allocation([&] {
    for (int i = 0; i < 50; ++i) {
      finite += row.choose(*compute, {0, &params, i / 50.0, ids, 5, forbidden, params.top_logprobs},
                           scratch.data())
                    .finite;
    }
  });
  EXPECT_EQ(finite, 50);
}

TEST_F(Allocation, SamplingAllocatesNothing) {
  SamplingParams plain, greedy, filtered, ruled;
  plain.top_logprobs = 20;
  greedy.temperature = 0;
  filtered.top_k = 100;
  filtered.top_p = 0.9f;
  filtered.min_p = 0.01f;
  ruled = filtered;
  ruled.temperature = 0.7f;
  ruled.repetition_penalty = 1.2f;
  ruled.presence_penalty = 0.5f;
  ruled.frequency_penalty = -0.5f;
  ruled.logit_bias = {{900, 3.0f}, {4, -3.0f}};
  for (int32_t id = 0; id < kVocab; id += 2) ruled.allowed_token_ids.push_back(id);
  ruled.top_logprobs = 7;
  for (const SamplingParams& params : {plain, greedy, filtered, ruled}) {
    expect_draws_without_allocation(params, {});
    expect_draws_without_allocation(params, {2, 900});
  }
}

#if !RL_HEAP_IS_A_SANITIZERS
// The scratch of filtered draws is the engine's from the beginning, not made for the first request
// that has a filter.
TEST_F(Allocation, TheFirstFilteredRequestTakesNoScratchFromTheHeap) {
  const TinyModel tiny(TinyModel::fixture("llama"), Dtype::kF32, 4);
  TestEngine test(tiny, {});
  Request plain = make_request({1, 2, 3}, 8, 1.0f, 0);
  test.engine.submit(plain);
  test.run();
  const auto held = [] {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
  };
  Request filtered = make_request({1, 2, 3}, 8, 1.0f, 1);
  filtered.sampling.top_p = 0.9f;
  filtered.min_new_tokens = 2;
  const int64_t before = held();
  test.engine.submit(filtered);
  test.engine.step();
  const int64_t grown = held() - before;  // below 0 where the heap shrank
  EXPECT_LT(grown, static_cast<int64_t>(sample_scratch_bytes(tiny.model->config().vocab, 4) / 2));
  EXPECT_EQ(test.run().size(), 1u);
}
#endif

class StepAllocation : public Allocation, public ::testing::WithParamInterface<Dtype> {
 protected:
  // Eight samples, two of them of one group, on their way from 20 to 120 ids.
  std::vector<Request> requests(const SamplingParams& sampling) const {
    std::vector<Request> all;
    for (uint64_t i = 0; i < 7; ++i) {
      Request r = make_request(std::vector<int32_t>(20, static_cast<int32_t>(i)), 100, 1.0f, i);
      r.sampling = sampling;
      r.num_samples = i == 0 ? 2 : 1;
      all.push_back(std::move(r));
    }
    return all;
  }
};

// Five steps see every path once; in the fifty that follow blocks fill up and are entered into the
// prefix cache.
void expect_steps_without_allocation(TestEngine& test, int64_t running) {
  for (int i = 0; i < 5; ++i) test.engine.step();
  ASSERT_EQ(test.engine.stats().running, running);
  expect_no_allocation([&] {
    for (int i = 0; i < 50; ++i) {
      test.engine.step();
      test.engine.take_finished();
    }
  });
  EXPECT_EQ(test.engine.stats().running, running);
  EXPECT_EQ(test.engine.stats().preemptions, 0);
}

TEST_P(StepAllocation, DecodingIsWithout) {
  if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot()) {
    GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  const TinyModel tiny(TinyModel::fixture("llama"), GetParam(), 2);
  SamplingParams plain, greedy, ruled;
  greedy.temperature = 0;
  ruled.temperature = 0.8f;
  ruled.top_k = 40;
  ruled.top_p = 0.9f;
  ruled.min_p = 0.01f;
  ruled.repetition_penalty = 1.1f;
  ruled.presence_penalty = 0.3f;
  ruled.frequency_penalty = 0.2f;
  ruled.logit_bias = {{9, 1.0f}};
  ruled.top_logprobs = 20;
  for (const SamplingParams& sampling : {plain, greedy, ruled}) {
    TestEngine test(tiny, {});
    for (const Request& r : requests(sampling)) test.engine.submit(r);
    expect_steps_without_allocation(test, 8);
  }
}

TEST_P(StepAllocation, DecodingWithStopStringsIsWithout) {
  if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot()) {
    GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  const Tokenizer tokenizer = Tokenizer::from_json(
      real_fs(), std::string(RL_FIXTURES) + "/tokenizers/tiny_gpt2.tokenizer.json");
  const TinyModel tiny(TinyModel::fixture("llama"), GetParam(), 2);
  TestEngine test(tiny, {}, 1024, &tokenizer);
  for (Request r : requests({})) {
    r.stop_strings = {"a text that is longer than any short string would be kept", "\n\n\n\n\n\n"};
    r.stop_token_ids = {255};
    r.sampling.logit_bias = {{255, -100.0f}};
    test.engine.submit(r);
  }
  expect_steps_without_allocation(test, 8);
}

// Long prompts are computed in chunks beside the others.
TEST_P(StepAllocation, ChunksOfPromptsBesideDecodingAreWithout) {
  if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot()) {
    GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  const TinyModel tiny(TinyModel::fixture("llama"), GetParam(), 2);
  TestEngine test(tiny, {.max_num_batched_tokens = 64, .prefill_chunk = 2});
  for (const Request& r : requests({})) test.engine.submit(r);
  for (int i = 0; i < 15; ++i) test.engine.step();
  ASSERT_EQ(test.engine.stats().running, 8);
  for (uint64_t i = 0; i < 2; ++i) {
    test.engine.submit(
        make_request(std::vector<int32_t>(110, static_cast<int32_t>(40 + i)), 3, 1.0f, 50 + i));
  }
  for (int i = 0; i < 5; ++i) test.engine.step();
  ASSERT_EQ(test.engine.stats().running, 10);
  const int64_t before = test.engine.stats().prefill_tokens;
  expect_no_allocation([&] {
    for (int i = 0; i < 40; ++i) test.engine.step();
  });
  EXPECT_EQ(test.engine.stats().prefill_tokens - before, 40 * 2 * 2);
}

// Two of eight samples fit at full length, so they take turns. An engine before has seen to it that
// oneDNN's kernels of every number of rows are made.
TEST_P(StepAllocation, PreemptionsAreWithout) {
  if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot()) {
    GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  const TinyModel tiny(TinyModel::fixture("llama"), GetParam(), 2);
  for (const int64_t swap_blocks : {0, 64}) {
    const auto start = [&](TestEngine& test) {
      for (const Request& r : requests({})) test.engine.submit(r);
      for (int i = 0; i < 5; ++i) test.engine.step();
      ASSERT_EQ(test.engine.stats().running, 8);
    };
    const EngineOptions options = {.swap_blocks = swap_blocks};
    TestEngine before(tiny, options, 20), test(tiny, options, 20);
    start(before);
    before.run();
    start(test);
    expect_no_allocation([&] {
      for (int i = 0; i < 90; ++i) test.engine.step();
    });
    const EngineStats stats = test.engine.stats();
    EXPECT_EQ(stats.running + stats.waiting, 8);
    EXPECT_GT(stats.preemptions, 4);
    EXPECT_EQ(stats.swapped_blocks > 0, swap_blocks > 0);
  }
}

// A group, rules, stop strings and a long prompt, in a pool that is too small for all.
std::vector<Request> hungry_requests() {
  std::vector<Request> all = {make_request(std::vector<int32_t>(20, 3), 16, 1.0f, 0),
                              make_request({1, 2, 3}, 20, 0.8f, 1),
                              make_request(std::vector<int32_t>(45, 9), 6, 0.0f, 2)};
  all[0].num_samples = 3;
  all[0].stop_strings = {"no such text in it"};
  all[1].sampling.top_p = 0.9f;
  all[1].sampling.presence_penalty = 0.3f;
  all[1].sampling.top_logprobs = 5;
  return all;
}

// Makes a call until it succeeds, counting its allocations and its failures.
template <typename F>
auto insist(F&& call, int64_t& failures) {
  for (;;) {
    try {
      counting = true;
      auto result = call();
      counting = false;
      return result;
    } catch (const std::bad_alloc&) {
      counting = false;
      ++failures;
    }
  }
}

uint64_t insist_on_submit(TestEngine& test, const Request& r, int64_t& failures) {
  const int64_t waiting = test.engine.stats().waiting;
  const auto submit = [&] {
    EXPECT_EQ(test.engine.stats().waiting, waiting) << "nothing is left of a submit that failed";
    return test.engine.submit(r);
  };
  return insist(submit, failures);
}

// Number of calls that failed because allocation `at` of the engine's calls was refused. Requests
// come while the followers of the first copy a block of their prompt.
int64_t failures_of_run(TestEngine& test, int64_t at) {
  allocations = 0;
  refused = at;
  int64_t failures = 0;
  uint64_t last = 0;
  for (const Request& r : hungry_requests()) {
    last = insist_on_submit(test, r, failures);
    for (int i = 0; i < 3; ++i) insist([&] { return test.engine.step(); }, failures);
  }
  for (int i = 0; i < 5; ++i) insist([&] { return test.engine.step(); }, failures);
  insist([&] { return test.engine.abort(last); }, failures);
  insist_on_submit(test, make_request({4, 5, 6}, 3, 1.0f, 7), failures);
  while (insist([&] { return test.engine.step(); }, failures)) {
  }
  refused = -1;
  return failures;
}

TEST_F(Allocation, AnyOneThatFailsIsMadeUpForByAnotherCall) {
  const TinyModel tiny(TinyModel::fixture("llama"), Dtype::kF32, 2);
  const Tokenizer tokenizer = Tokenizer::from_json(
      real_fs(), std::string(RL_FIXTURES) + "/tokenizers/tiny_gpt2.tokenizer.json");
  for (const int64_t swap_blocks : {0, 8}) {
    const EngineOptions options = {
        .max_num_batched_tokens = 64, .prefill_chunk = 9, .swap_blocks = swap_blocks};
    SampleMap expected;
    int64_t at = -1, failures = 1;
    for (; failures > 0 || at < 1; ++at) {
      TestEngine test(tiny, options, 7, &tokenizer);
      failures = failures_of_run(test, at);
      const SampleMap samples = test.take();
      expect_idle(test.engine);
      if (at < 0) {
        EXPECT_EQ(failures, 0);
        EXPECT_GT(test.engine.stats().preemptions, 0);
        expected = samples;
      }
      ASSERT_EQ(samples.size(), 6u) << "allocation " << at;
      expect_same_samples(expected, samples);
      ASSERT_FALSE(HasFailure()) << "allocation " << at;
    }
    EXPECT_GT(at, 30) << "allocations in all";
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, StepAllocation, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

}  // namespace
}  // namespace rl::testing
