// Which pieces of work in streams are in order: by their stream, by events, or because the host
// waited. Every piece has a clock: for each stream, how many of its pieces come before. The order
// in which the emulation happens to run them does not count.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rl::emulated {

using Clock = std::vector<uint32_t>;  // by number of stream
void join(Clock& clock, const Clock& other);

// A piece of work, done or not.
struct Mark {
  int stream;
  uint32_t place;  // in its stream, from 1
  bool done = false;
  Clock clock;  // complete when done
};

// Called when a piece starts to run with its clock: gives it `runs` numbers, sets `running`.
void begin_runs(const Mark& mark, const std::string& name, uint32_t runs);
// Everything of this clock comes before whatever still runs.
void forget_before(const Clock& known);
// Whether the run, older than the running launch, is in order with it. Its name for a report.
bool is_ordered(uint32_t run);
std::string run_name(uint32_t run);
void forget_runs();

}  // namespace rl::emulated
