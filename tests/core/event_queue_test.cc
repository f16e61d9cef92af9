// The event queue: order, timeouts, interruption, end, and an eventfd that edge-triggered epoll can
// trust.
#include "core/event_queue.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace rl {
namespace {

constexpr int64_t kLongNs = 20'000'000'000;  // far beyond any scheduling delay

struct Numbered final : Event {
  explicit Numbered(int n) : Event(7), n(n) {}
  const int n;
};

bool push(EventQueue& queue, int n) { return queue.push(std::make_shared<Numbered>(n)); }
int number(const EventQueue::Popped& popped) {
  return popped.event == nullptr ? -1 : static_cast<const Numbered&>(*popped.event).n;
}
bool readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

TEST(EventQueue, HandsOutInOrder) {
  EventQueue queue;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(push(queue, i));
  EXPECT_EQ(queue.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    const auto popped = queue.pop(0);
    EXPECT_EQ(popped.status, Code::kOk);
    EXPECT_EQ(popped.event->kind(), 7);
    EXPECT_EQ(number(popped), i);
  }
  EXPECT_EQ(queue.pop(0).status, Code::kTimeout);
}

TEST(EventQueue, WaitsForTheTimeoutAndNotLonger) {
  EventQueue queue;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(queue.pop(20'000'000).status, Code::kTimeout);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

// Two events in a row make a burst, after which pop spins before it sleeps.
TEST(EventQueue, ABurstChangesNeitherTimeoutNorWaking) {
  EventQueue queue;
  const auto burst = [&] {
    for (int i = 0; i < 2; ++i) push(queue, i);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(number(queue.pop(0)), i);
  };
  burst();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(queue.pop(5'000'000).status, Code::kTimeout);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(5));
  for (int round = 0; round < 200; ++round) {
    burst();
    std::thread other([&] { round % 2 == 0 ? void(push(queue, 7)) : queue.interrupt(); });
    const auto popped = queue.pop(-1);
    EXPECT_EQ(popped.status, round % 2 == 0 ? Code::kOk : Code::kInterrupted);
    other.join();
  }
  burst();
  queue.close();
  EXPECT_EQ(queue.pop(-1).status, Code::kDone);
}

TEST(EventQueue, WakesAWaiterForEventInterruptAndClose) {
  for (const int64_t timeout : {kLongNs, int64_t{-1}, INT64_MAX}) {
    EventQueue queue;
    std::thread producer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      push(queue, 1);
    });
    EXPECT_EQ(number(queue.pop(timeout)), 1);
    producer.join();
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      queue.interrupt();
    });
    EXPECT_EQ(queue.pop(timeout).status, Code::kInterrupted);
    canceller.join();
    std::thread closer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      queue.close();
    });
    EXPECT_EQ(queue.pop(timeout).status, Code::kDone);
    closer.join();
  }
}

TEST(EventQueue, InterruptHitsExactlyOnePopAndKeepsEvents) {
  EventQueue queue;
  push(queue, 1);
  queue.interrupt();
  queue.interrupt();
  EXPECT_EQ(queue.pop(0).status, Code::kInterrupted);
  EXPECT_EQ(number(queue.pop(0)), 1);
  EXPECT_EQ(queue.pop(0).status, Code::kTimeout);
}

TEST(EventQueue, CloseKeepsWhatIsQueuedThenIsDoneForEver) {
  EventQueue queue;
  push(queue, 1);
  queue.close();
  EXPECT_FALSE(push(queue, 2));
  EXPECT_EQ(number(queue.pop(0)), 1);
  EXPECT_EQ(queue.pop(0).status, Code::kDone);
  EXPECT_EQ(queue.pop(-1).status, Code::kDone);
  EXPECT_TRUE(readable(queue.fd()));
}

TEST(EventQueue, DescriptorIsReadableUntilAPopFindsNothing) {
  EventQueue queue;
  EXPECT_FALSE(readable(queue.fd()));
  push(queue, 1);
  push(queue, 2);
  EXPECT_TRUE(readable(queue.fd()));
  queue.pop(0);
  queue.pop(0);
  EXPECT_TRUE(readable(queue.fd()));
  EXPECT_EQ(queue.pop(0).status, Code::kTimeout);
  EXPECT_FALSE(readable(queue.fd()));
  queue.interrupt();
  EXPECT_TRUE(readable(queue.fd()));
}

class EdgeTriggered {
 public:
  explicit EdgeTriggered(int fd) : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }
  ~EdgeTriggered() { close(epoll_); }
  bool wait(int timeout_ms) {
    epoll_event event{};
    return epoll_wait(epoll_, &event, 1, timeout_ms) == 1;
  }

 private:
  int epoll_;
};

TEST(EventQueue, EveryEnqueueIsAnEdge) {
  EventQueue queue;
  EdgeTriggered edge(queue.fd());
  EXPECT_FALSE(edge.wait(0));
  for (int i = 0; i < 3; ++i) {
    push(queue, i);
    EXPECT_TRUE(edge.wait(0)) << "an enqueue beside a waiting event must be an edge too";
    EXPECT_FALSE(edge.wait(0));
  }
}

TEST(EventQueue, EdgeTriggeredConsumerMissesNothing) {
  EventQueue queue;
  constexpr int kCount = 20000;
  std::thread producer([&] {
    for (int i = 0; i < kCount; ++i) {
      push(queue, i);
      if (i % 64 == 0) std::this_thread::yield();
    }
    queue.close();
  });
  EdgeTriggered edge(queue.fd());
  int next = 0;
  bool done = false;
  while (!done) {
    ASSERT_TRUE(edge.wait(20000)) << "no edge although the queue is not done, at " << next;
    for (;;) {
      const auto popped = queue.pop(0);
      if (popped.status == Code::kDone) done = true;
      if (popped.status != Code::kOk) break;
      ASSERT_EQ(number(popped), next++);
    }
  }
  producer.join();
  EXPECT_EQ(next, kCount);
}

TEST(EventQueue, ManyProducersAndConsumersHandOverEachEventOnce) {
  EventQueue queue;
  constexpr int kEach = 2000;
  std::atomic<int64_t> sum{0};
  std::atomic<int> count{0};
  std::vector<std::thread> consumers, producers;
  for (int t = 0; t < 3; ++t) {
    consumers.emplace_back([&] {
      for (;;) {
        const auto popped = queue.pop(-1);
        if (popped.status == Code::kDone) return;
        sum += number(popped);
        ++count;
      }
    });
    producers.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) push(queue, t * kEach + i);
    });
  }
  for (std::thread& thread : producers) thread.join();
  queue.close();
  for (std::thread& thread : consumers) thread.join();
  EXPECT_EQ(count.load(), 3 * kEach);
  EXPECT_EQ(sum.load(), int64_t{3 * kEach} * (3 * kEach - 1) / 2);
}

}  // namespace
}  // namespace rl
