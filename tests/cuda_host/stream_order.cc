// A run's piece is found by its number in a short list, sorted because numbers ascend. A kernel
// only asks for runs that are not known to be in order.
#include "cuda_host/stream_order.h"

#include <algorithm>
#include <deque>

#include "cuda_host/shadow.h"

namespace rl::emulated {
namespace {

struct Piece {
  uint32_t first_run;
  int stream;
  uint32_t place;
  std::string name;
};
// Pieces that the host has not waited for, in the order in which they ran, and the running one.
struct Order {
  std::deque<Piece> pieces;
  Clock clock;  // of the running piece
  uint32_t next_run = 1;
};
Order order;

bool covers(const Clock& clock, const Piece& piece) {
  return static_cast<size_t>(piece.stream) < clock.size() &&
         clock[static_cast<size_t>(piece.stream)] >= piece.place;
}

const Piece* piece_of(uint32_t run) {
  auto after = std::upper_bound(order.pieces.begin(), order.pieces.end(), run,
                                [](uint32_t r, const Piece& p) { return r < p.first_run; });
  return after == order.pieces.begin() ? nullptr : &*std::prev(after);
}

}  // namespace

void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

void begin_runs(const Mark& mark, const std::string& name, uint32_t runs) {
  order.clock = mark.clock;
  running.launch_first = order.next_run;
  running.run = order.next_run;
  running.barrier_count = 0;
  running.stamp = make_stamp(running.run, 0, 0);
  order.next_run += runs;
  running.ordered_below = running.launch_first;
  for (const Piece& piece : order.pieces)
    if (!covers(order.clock, piece)) {
      running.ordered_below = piece.first_run;
      break;
    }
  order.pieces.push_back({running.launch_first, mark.stream, mark.place, name});
}

void forget_before(const Clock& known) {
  while (!order.pieces.empty() && covers(known, order.pieces.front())) order.pieces.pop_front();
}

bool is_ordered(uint32_t run) {
  const Piece* const piece = piece_of(run);
  return piece == nullptr || covers(order.clock, *piece);
}

std::string run_name(uint32_t run) {
  const Piece* const piece = piece_of(run);
  return piece == nullptr ? "earlier work" : piece->name;
}

void forget_runs() { order.pieces.clear(); }

}  // namespace rl::emulated
