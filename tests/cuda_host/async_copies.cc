// Copies to shared memory that go on while their thread does. The bytes move at a moment that the
// seed chooses: at the start, when the thread waits for others, or at the wait for the copy. Until
// that wait the destination counts as being written.
#include <cstring>
#include <vector>

#include "cuda_host/block_run.h"
#include "cuda_host/emulator.h"
#include "cuda_host/reports.h"
#include "cuda_host/shadow.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/ptx.h"

namespace rl::emulated {
namespace {

constexpr size_t kBytes = 16;

struct Copy {
  uintptr_t to, from;
  bool landed;
};
// The copies of a thread in order; groups[i] is where the i-th closed group ends in `copies`.
struct Queue {
  std::vector<Copy> copies;
  std::vector<size_t> groups;
};
struct Queues {
  Queue of[1024];
  uint32_t run[1024] = {};  // the block's run that the queue belongs to
};
Queues& queues() {
  static Queues all;
  return all;
}

Queue& own_queue() {
  const int thread = thread_index();
  Queue& queue = queues().of[thread];
  if (queues().run[thread] != running.run) {
    queue.copies.clear();
    queue.groups.clear();
    queues().run[thread] = running.run;
  }
  return queue;
}

void land(Copy& copy) {
  if (copy.landed) return;
  std::memcpy(reinterpret_cast<void*>(copy.to), reinterpret_cast<const void*>(copy.from), kBytes);
  copy.landed = true;
}

}  // namespace

void copy_async_16(void* shared, const void* global) {
  const uintptr_t to = reinterpret_cast<uintptr_t>(shared);
  const uintptr_t from = reinterpret_cast<uintptr_t>(global);
  check_copy_start(to, from, kBytes);
  Queue& queue = own_queue();
  queue.copies.push_back({to, from, false});
  if (draw() % 4 == 1) land(queue.copies.back());
}

void commit_copies() {
  Queue& queue = own_queue();
  queue.groups.push_back(queue.copies.size());
}

void wait_copies(int pending) {
  Queue& queue = own_queue();
  if (static_cast<int>(queue.groups.size()) <= pending) return;
  const size_t covered = queue.groups.size() - static_cast<size_t>(pending);
  const size_t end = queue.groups[covered - 1];
  for (size_t i = 0; i < end; ++i) {
    land(queue.copies[i]);
    finish_copy(queue.copies[i].to, kBytes);
  }
  queue.copies.erase(queue.copies.begin(), queue.copies.begin() + static_cast<ptrdiff_t>(end));
  queue.groups.erase(queue.groups.begin(), queue.groups.begin() + static_cast<ptrdiff_t>(covered));
  for (size_t& group : queue.groups) group -= end;
}

void land_some_copies() {
  if (queues().run[thread_index()] != running.run) return;
  for (Copy& copy : own_queue().copies)
    if (draw() % 8 == 1) land(copy);
}

void land_all_copies() {
  if (queues().run[thread_index()] != running.run) return;
  for (Copy& copy : own_queue().copies) {
    land(copy);
    finish_copy(copy.to, kBytes);
  }
  queues().run[thread_index()] = 0;
}

}  // namespace rl::emulated
