// What tests tell the emulated GPU and learn from it. The emulation runs what the library enqueues
// when the host waits or asks for it, or earlier, in an order that the seed chooses among those
// that streams and events allow. It checks every access of a kernel and reports faults here. A test
// that ends with a report nobody took has failed (report_listener.cc).
//
// Every function may be called from any thread, but not while another one waits for work.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rl::emulated {

enum class Fault : uint8_t {
  kOutOfBounds,       // outside every allocation, of the device, shared or pinned
  kFreed,             // memory that was freed before, in the order of streams
  kHostMemory,        // a kernel used pageable host memory
  kNeverWritten,      // a read of memory of the device or shared memory that nothing wrote
  kMisaligned,        // an address that is no multiple of the access's size
  kRace,              // two threads, one address, at least one write, and no barrier between
  kStreamRace,        // the same for two pieces of work with no order between their streams
  kDivergentBarrier,  // threads of a block wait at different barriers, or some have left
  kDivergentWarp,     // lanes of a warp wait at different calls, or some have left
  kBadLane,           // a lane, mask or distance that no lane has
  kCopyNotComplete,   // shared memory used while an asynchronous copy to it may be under way
  kLaunch,            // a launch the device would refuse
  kStackOverflow,     // a thread's variables need more than the emulation's stack
};
const char* fault_name(Fault fault);

struct Report {
  Fault fault;
  std::string kernel;  // or the copy, fill or call
  int64_t block[3] = {};
  int thread = -1;  // -1: no thread's
  uint64_t address = 0;
  std::string text;  // the whole sentence
};

// The reports since the last call. At most 20 of a kernel and kind are kept.
std::vector<Report> take_reports();

// Starts over: empty device, no reports, no injected failure, calls counted from 0. Streams, events
// and allocations of before must be gone; those that are not are dropped. 0 is a seed of its own:
// work runs as late and in as plain an order as possible.
void restart(uint64_t seed);

// What the device is like from the next call on.
struct DeviceShape {
  int devices = 1;
  uint64_t memory_bytes = uint64_t{4} << 30;
  uint64_t page_bytes = 4096;  // what is mapped at once
  int multiprocessors = 4;
  int major = 8, minor = 0;
  uint64_t shared_bytes_max = 99 << 10;  // of a block
  int driver_version = 13000;
  int64_t unsteady_depth = -1;  // products of this K change their order with the number of rows
};
void set_device(const DeviceShape& shape);

// The call with this number, counted from 0 at restart(), returns the error without effect. Sticky:
// so does every later call of the process, until restart(). `only`: calls of this name are counted
// alone.
struct Injection {
  int64_t call = -1;
  cudaError_t error = cudaErrorUnknown;
  bool sticky = false;
  std::string only = {};
};
void inject(const Injection& injection);
// Calls since restart(), all or of one name.
int64_t calls(const std::string& name = "");

// What exists: a test checks that its end leaves nothing.
struct Live {
  int64_t device_allocations = 0, pinned_allocations = 0, streams = 0, events = 0;
  uint64_t device_bytes = 0, pinned_bytes = 0;
};
Live live();

// Launches and blocks that ran since restart(), by kernel name.
struct KernelCount {
  std::string name;
  int64_t launches, blocks;
};
std::vector<KernelCount> kernel_counts();

}  // namespace rl::emulated
