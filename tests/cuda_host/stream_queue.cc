// Nothing runs in the background: each wait runs pieces, of any stream that can, until the one it
// waits for is done.
#include "cuda_host/stream_queue.h"

#include <algorithm>
#include <utility>

#include "cuda_host/api_calls.h"
#include "cuda_host/emulated_memory.h"
#include "cuda_host/reports.h"
#include "cuda_host/shadow.h"

struct CUstream_st {
  int number;  // in clocks; never used again
  bool non_blocking;
  uint32_t enqueued = 0;
  std::deque<rl::emulated::Work> queue;
  std::shared_ptr<rl::emulated::Mark> last;               // work enqueued last
  std::vector<std::shared_ptr<rl::emulated::Mark>> hold;  // the next work waits for these
  rl::emulated::Clock clock;                              // of the work that ran last
};
struct CUevent_st {
  std::shared_ptr<rl::emulated::Mark> mark;
};

namespace rl::emulated {
namespace {

struct Streams {
  CUstream_st standard{0, false, 0, {}, nullptr, {}, {}};
  CUstream_st after_all{1, true, 0, {}, nullptr, {}, {}};  // what run_after_all() was given
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::vector<std::unique_ptr<CUevent_st>> events;
  int next_number = 2;
  Clock host;
  uint64_t random = 1;
  bool runs = false;  // work runs now: its body may not start other work
};
Streams& all() {
  static Streams streams;
  return streams;
}

uint64_t draw_order() {
  uint64_t& x = all().random;
  x = x * 6364136223846793005u + emulator_seed() * 2 + 1442695040888963407u;
  return x >> 33;
}

std::vector<CUstream_st*> every_stream() {
  std::vector<CUstream_st*> found{&all().standard};
  for (const auto& stream : all().streams) found.push_back(stream.get());
  found.push_back(&all().after_all);
  return found;
}

bool can_run(const CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  return std::all_of(stream.queue.front().after.begin(), stream.queue.front().after.end(),
                     [](const std::shared_ptr<Mark>& mark) { return mark->done; });
}

void run_front(CUstream_st& stream) {
  Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  Clock clock = std::move(work.host);
  join(clock, stream.clock);
  for (const auto& mark : work.after) join(clock, mark->clock);
  if (clock.size() <= static_cast<size_t>(stream.number))
    clock.resize(static_cast<size_t>(stream.number) + 1, 0);
  clock[static_cast<size_t>(stream.number)] = work.mark->place;
  work.mark->clock = clock;
  stream.clock = std::move(clock);
  if (work.body && (!device_lost() || &stream == &all().after_all)) {
    begin_runs(*work.mark, work.name, work.runs);
    set_running_work(work.name.c_str());
    all().runs = true;
    work.body();
    all().runs = false;
    set_running_work("the host");
  }
  work.mark->done = true;
}

// Runs one piece of some stream; false if there is none that can.
bool run_some() {
  std::vector<CUstream_st*> able = every_stream();
  std::erase_if(able, [](const CUstream_st* stream) { return !can_run(*stream); });
  if (able.empty()) return false;
  run_front(*able[emulator_seed() == 0 ? 0 : draw_order() % able.size()]);
  return true;
}

void run_several(uint64_t pieces) {
  if (all().runs || pieces == 0) return;
  const DeviceAccess access;
  for (uint64_t i = 0; i < pieces && run_some();) ++i;
}

// What comes before everything that is still to run and everything that is still to be enqueued.
Clock known_to_all() {
  Clock known = all().host;
  for (const CUstream_st* stream : every_stream()) {
    if (stream->queue.empty()) continue;
    const Clock& host = stream->queue.front().host;
    if (known.size() > host.size()) known.resize(host.size());
    for (size_t i = 0; i < known.size(); ++i) known[i] = std::min(known[i], host[i]);
  }
  return known;
}

}  // namespace

CUstream_st* stream_of(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
    return &all().standard;
  for (const auto& stream : all().streams)
    if (stream.get() == handle) return handle;
  return nullptr;
}
CUevent_st* event_of(cudaEvent_t handle) {
  for (const auto& event : all().events)
    if (event.get() == handle) return handle;
  return nullptr;
}

CUstream_st* make_stream(bool non_blocking) {
  all().streams.push_back(std::make_unique<CUstream_st>(
      CUstream_st{all().next_number++, non_blocking, 0, {}, nullptr, {}, {}}));
  return all().streams.back().get();
}
CUevent_st* make_event() {
  all().events.push_back(std::make_unique<CUevent_st>());
  return all().events.back().get();
}

// Work that is in a destroyed stream still runs; here it runs at once.
void destroy_stream(CUstream_st* stream) {
  if (stream->last != nullptr && !all().runs) {
    const DeviceAccess access;
    while (!stream->last->done && run_some()) continue;
  }
  std::erase_if(all().streams, [&](const auto& other) { return other.get() == stream; });
}
void destroy_event(CUevent_st* event) {
  std::erase_if(all().events, [&](const auto& other) { return other.get() == event; });
}

std::shared_ptr<Mark> enqueue(CUstream_st* stream, std::string name, uint32_t runs,
                              std::function<void()> body) {
  Work work{
      std::move(name), std::make_shared<Mark>(), std::exchange(stream->hold, {}), all().host, runs,
      std::move(body)};
  work.mark->stream = stream->number;
  work.mark->place = ++stream->enqueued;
  // The default stream waits for all others that do not opt out, and they for it.
  if (stream == &all().standard) {
    for (const auto& other : all().streams)
      if (!other->non_blocking && other->last != nullptr) work.after.push_back(other->last);
  } else if (!stream->non_blocking && all().standard.last != nullptr) {
    work.after.push_back(all().standard.last);
  }
  stream->last = work.mark;
  stream->queue.push_back(std::move(work));
  return stream->last;
}

void run_after_all(std::string name, std::function<void()> body) {
  CUstream_st& queue = all().after_all;
  for (const CUstream_st* stream : every_stream())
    if (stream->last != nullptr && !stream->last->done && stream != &queue)
      queue.hold.push_back(stream->last);
  enqueue(&queue, std::move(name), 1, std::move(body));
}

void hold_for(CUstream_st* stream, const std::shared_ptr<Mark>& mark) {
  stream->hold.push_back(mark);
}
std::shared_ptr<Mark>& recorded(CUevent_st* event) { return event->mark; }
std::shared_ptr<Mark> last_work(CUstream_st* stream) { return stream->last; }

void wait_for(const std::shared_ptr<Mark>& mark) {
  if (mark == nullptr) return;
  if (!mark->done) {
    const DeviceAccess access;
    while (!mark->done && run_some()) continue;
  }
  while (!all().runs && can_run(all().after_all)) run_front(all().after_all);
  join(all().host, mark->clock);
  forget_before(known_to_all());
}

void wait_for_all() {
  for (CUstream_st* stream : every_stream()) wait_for(stream->last);
}

void run_ahead() {
  if (emulator_seed() != 0 && draw_order() % 16 == 0) run_several(1 + draw_order() % 4);
}
void run_for_query() { run_several(1 + (emulator_seed() == 0 ? 0 : draw_order() % 8)); }

void drop_streams() {
  all().streams.clear();
  all().events.clear();
  all().standard = CUstream_st{0, false, 0, {}, nullptr, {}, {}};
  all().after_all = CUstream_st{1, true, 0, {}, nullptr, {}, {}};
  all().next_number = 2;
  all().host.clear();
  all().random = 1;
  all().runs = false;
  forget_runs();
}

StreamTotals stream_totals() {
  while (can_run(all().after_all)) run_front(all().after_all);
  return {static_cast<int64_t>(all().streams.size()), static_cast<int64_t>(all().events.size())};
}

}  // namespace rl::emulated
