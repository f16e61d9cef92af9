// Ten thousand requests at once: they finish in order and in number, memory grows by what is queued
// and by nothing else, and all of them can be ended at once. With RL_LONG as many and longer.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "rollout/engine_fixture.h"
#include "support/resident_memory.h"

namespace rl::testing {
namespace {

constexpr uint64_t kRequests = 10000;

int64_t resident_bytes() { return static_cast<int64_t>(resident_bytes_of_process()); }

bool heap_is_measured() {
  if (!kProcessIsMeasurable) std::cout << "memory is not measured: a sanitizer replaces the heap\n";
  return kProcessIsMeasurable;
}

class Queue : public ::testing::Test {
 protected:
  Queue() {
    // Room for what the first requests leave behind in caches of threads and libraries.
    submit(100);
    expect_all_in_order(100);
  }
  Request request(uint64_t ordinal) const {
    Request r =
        make_request({static_cast<int32_t>(ordinal % 251), 7, 9}, new_tokens_, 1.0f, ordinal);
    r.first_sample_id = ordinal;
    return r;
  }
  void submit(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) numbers_.push_back(test_.engine.submit(request(i)));
  }
  // Runs to the end, taking samples as they come.
  void expect_all_in_order(uint64_t count) {
    uint64_t next = 0;
    bool more = true;
    while (more) {
      more = test_.engine.step();
      for (const SamplePtr& s : test_.engine.take_finished()) {
        ASSERT_EQ(s->ordinal, next++);
        ASSERT_EQ(s->generated(), new_tokens_);
      }
    }
    EXPECT_EQ(next, count);
    expect_idle(test_.engine);
    numbers_.clear();
  }
  void expect_all_aborted(uint64_t from) {
    std::vector<bool> seen(kRequests);
    for (const SamplePtr& s : test_.engine.take_finished()) {
      ASSERT_FALSE(seen.at(s->ordinal));
      seen[s->ordinal] = true;
      EXPECT_EQ(s->finish == FinishReason::kAborted, s->ordinal >= from) << s->ordinal;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<int64_t>(kRequests));
    expect_idle(test_.engine);
    numbers_.clear();
  }

  int64_t new_tokens_ = std::getenv("RL_LONG") != nullptr ? 40 : 4;
  TinyModel tiny_{TinyModel::fixture("llama"), Dtype::kF32, 2};
  TestEngine test_{tiny_, {.max_num_seqs = 64, .max_num_batched_tokens = 512}, 512};
  std::vector<uint64_t> numbers_;
};

TEST_F(Queue, TenThousandFinishInOrderAndMemoryStaysFlat) {
  const bool measured = heap_is_measured();
  const int64_t heap_before = heap_bytes(), resident_before = resident_bytes();
  int64_t heap_first = 0, resident_first = 0;
  for (int round = 0; round < 2; ++round) {
    submit(kRequests);
    EXPECT_EQ(test_.engine.stats().waiting, static_cast<int64_t>(kRequests));
    // A request and its sequence are about 1 KB with their vectors.
    if (measured) {
      EXPECT_LT(heap_bytes() - heap_before, static_cast<int64_t>(kRequests) * 1536);
    }
    expect_all_in_order(kRequests);
    if (round > 0) continue;
    heap_first = heap_bytes();
    resident_first = resident_bytes();
  }
  if (!measured) return;
  // The numbers above keep 128 KiB, oneDNN keeps a kernel for each count of rows that the warm-up
  // did not meet, and the allocator counts what it caches for a thread as used: 0.6 MB with long
  // answers.
  EXPECT_LT(heap_first - heap_before, 1 << 20);
  // What the queue took is free again, though not given back to the system: the second round needs
  // no more.
  EXPECT_LT(resident_first - resident_before, static_cast<int64_t>(kRequests) * 2048);
  EXPECT_LT(heap_bytes() - heap_first, 64 << 10);  // 6 bytes for each request
  EXPECT_LT(resident_bytes() - resident_first, 1 << 20);
}

TEST_F(Queue, AllAreEndedWithinASecond) {
  using Clock = std::chrono::steady_clock;
  const bool measured = heap_is_measured();
  new_tokens_ = 100;
  for (const bool one_by_one : {false, true}) {
    submit(kRequests);
    for (int i = 0; i < 8; ++i) test_.engine.step();
    const int64_t finished = static_cast<int64_t>(kRequests) - test_.engine.stats().running -
                             test_.engine.stats().waiting;
    const int64_t heap_before = heap_bytes();
    const auto begin = Clock::now();
    if (one_by_one) {
      for (const uint64_t number : numbers_) test_.engine.abort(number);
    } else {
      test_.engine.abort_all();
    }
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
    // A sample of a prompt and nothing else: no room for tokens that never come.
    if (measured) {
      EXPECT_LT(heap_bytes() - heap_before, static_cast<int64_t>(kRequests) * 768);
    }
    expect_all_aborted(static_cast<uint64_t>(finished));
  }
}

}  // namespace
}  // namespace rl::testing
