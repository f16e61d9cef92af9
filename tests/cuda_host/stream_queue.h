// Streams as queues. Work that the host enqueues runs when the host waits for it, asks for it, or
// by a draw of the seed, in any order that streams and events allow.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_host/stream_order.h"

struct CUstream_st;
struct CUevent_st;

namespace rl::emulated {

struct Work {
  std::string name;
  std::shared_ptr<Mark> mark;
  std::vector<std::shared_ptr<Mark>> after;  // done before this may run
  Clock host;                                // what the host had waited for
  uint32_t runs = 1;
  std::function<void()> body;
};

// Null if the handle is no live stream or event. The default stream is a null handle.
CUstream_st* stream_of(cudaStream_t handle);
CUevent_st* event_of(cudaEvent_t handle);
CUstream_st* make_stream(bool non_blocking);
CUevent_st* make_event();
void destroy_stream(CUstream_st* stream);
void destroy_event(CUevent_st* event);

// Puts work at the stream's end. Returns its mark.
std::shared_ptr<Mark> enqueue(CUstream_st* stream, std::string name, uint32_t runs,
                              std::function<void()> body);
void hold_for(CUstream_st* stream, const std::shared_ptr<Mark>& mark);
// The mark that the event recorded last, or null.
std::shared_ptr<Mark>& recorded(CUevent_st* event);
// The stream's last work, or null.
std::shared_ptr<Mark> last_work(CUstream_st* stream);

// Runs the body when everything that is enqueued now is complete. Nothing waits for it.
void run_after_all(std::string name, std::function<void()> body);

// Runs until the mark is done, and notes that the host waited for it.
void wait_for(const std::shared_ptr<Mark>& mark);
void wait_for_all();
// Runs some work, as the seed says; a query does so more often.
void run_ahead();
void run_for_query();

void drop_streams();
struct StreamTotals {
  int64_t streams, events;
};
StreamTotals stream_totals();

}  // namespace rl::emulated
