// Each group of sends and receives is three pieces of work in its stream: what this rank sends is
// ready, what it receives is copied once it is ready, and what it sends may change once it was
// copied. Marks that no stream has yet stand for the work of the other rank.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda_host/api_calls.h"
#include "cuda_host/copies.h"
#include "cuda_host/nccl_stand_in.h"
#include "cuda_host/stream_queue.h"

namespace rl::emulated {
namespace {

using cuda::NcclComm;
using cuda::NcclConfig;
using cuda::NcclId;
using cuda::NcclResult;
using cuda::NcclType;

struct Message {
  std::shared_ptr<Mark> ready = std::make_shared<Mark>();   // the receiver waits for it
  std::shared_ptr<Mark> copied = std::make_shared<Mark>();  // the sender waits for it
  const void* from = nullptr;
  size_t bytes = 0;
  bool given_up = false;  // by the receiver
};

// The messages from one rank to another, by number; either end may come first.
struct Line {
  uint64_t sent = 0, received = 0;
  std::map<uint64_t, std::shared_ptr<Message>> messages;

  std::shared_ptr<Message> at(uint64_t number) {
    std::shared_ptr<Message>& message = messages[number];
    if (message == nullptr) message = std::make_shared<Message>();
    return message;
  }
  // Those that both ends have.
  void forget() {
    const uint64_t both = std::min(sent, received);
    messages.erase(messages.begin(), messages.lower_bound(both));
  }
};

struct World {
  int size, joined = 0;
  std::map<std::pair<int, int>, Line> lines;
};

}  // namespace
}  // namespace rl::emulated

struct rl::cuda::NcclComm {
  std::shared_ptr<emulated::World> world;
  int rank;
  bool aborted = false;
  std::vector<std::shared_ptr<emulated::Mark>> awaited;            // by work of this rank
  std::vector<std::shared_ptr<emulated::Message>> sent, received;  // not all copied
};

namespace rl::emulated {
namespace {

// The work of a communicator outlives it.
using Comm = std::shared_ptr<NcclComm>;

struct Received {
  std::shared_ptr<Message> message;
  void* to;
  size_t bytes;
};
struct Group {
  int depth = 0;
  Comm comm;
  CUstream_st* stream = nullptr;
  std::vector<std::shared_ptr<Message>> sent;
  std::vector<Received> received;
};

struct Library {
  std::map<std::string, std::shared_ptr<World>> worlds;  // by id
  std::vector<Comm> comms;
  int ids = 0;
  NcclResult error = NcclResult::kSuccess;
  std::string text, hidden;
  int version = 22800;
};
Library& library() {
  static Library all;
  return all;
}
thread_local Group group;

Comm comm_of(NcclComm* handle) {
  for (const Comm& comm : library().comms)
    if (comm.get() == handle) return comm;
  return nullptr;
}

void finish(Mark& mark, const Clock& clock) {
  mark.clock = clock;
  mark.done = true;
}

// Enqueues work that has its own mark.
void enqueue_marked(CUstream_st* stream, const char* name, std::function<void(const Clock&)> body) {
  const auto own = std::make_shared<std::shared_ptr<Mark>>();
  *own = enqueue(stream, name, 1, [own, body = std::move(body)] { body((*own)->clock); });
}

void hold_for_other(const Group& g, const std::shared_ptr<Mark>& mark) {
  hold_for(g.stream, mark);
  g.comm->awaited.push_back(mark);
}

void copy_message(const Received& received) {
  const Message& message = *received.message;
  if (!note_read_by_call(message.from, message.bytes) ||
      !note_write_by_call(received.to, received.bytes))
    return;
  std::memcpy(received.to, message.from, received.bytes);
}

void enqueue_group(const Group& g) {
  std::erase_if(g.comm->awaited, [](const auto& mark) { return mark->done; });
  for (auto* const messages : {&g.comm->sent, &g.comm->received})
    std::erase_if(*messages, [](const auto& message) { return message->copied->done; });
  g.comm->sent.insert(g.comm->sent.end(), g.sent.begin(), g.sent.end());
  for (const Received& each : g.received) g.comm->received.push_back(each.message);
  enqueue_marked(g.stream, "ncclSend", [g](const Clock& clock) {
    if (g.comm->aborted) return;
    for (const auto& message : g.sent) finish(*message->ready, clock);
  });
  for (const Received& each : g.received) hold_for_other(g, each.message->ready);
  enqueue_marked(g.stream, "ncclRecv", [g](const Clock& clock) {
    if (g.comm->aborted) return;
    for (const Received& each : g.received) {
      copy_message(each);
      finish(*each.message->copied, clock);
    }
  });
  for (const auto& message : g.sent) hold_for_other(g, message->copied);
  enqueue(g.stream, "ncclSend, taken", 1, {});
}

NcclResult status_of(const Call& call) {
  return call.status == cudaSuccess ? NcclResult::kSuccess : NcclResult::kUnhandledCudaError;
}

#define RL_EMULATED_NCCL_CALL(name) \
  Call call("nccl" name);           \
  if (call.status != cudaSuccess) return status_of(call)

NcclResult get_version(int* version) {
  *version = library().version;
  return NcclResult::kSuccess;
}

NcclResult get_unique_id(NcclId* id) {
  RL_EMULATED_NCCL_CALL("GetUniqueId");
  *id = {};
  const std::string text = "group " + std::to_string(library().ids++);
  std::memcpy(id->bytes, text.data(), text.size());
  return NcclResult::kSuccess;
}

NcclResult comm_init(NcclComm** comm, int size, NcclId id, int rank, NcclConfig* config) {
  RL_EMULATED_NCCL_CALL("CommInitRankConfig");
  if (config->magic != 0xcafebeef || config->size < sizeof(NcclConfig) || config->blocking != 0)
    return NcclResult::kInvalidArgument;
  std::shared_ptr<World>& world = library().worlds[id.bytes];
  if (world == nullptr) world = std::make_shared<World>(World{size, 0, {}});
  if (world->size != size || rank < 0 || rank >= size) return NcclResult::kInvalidArgument;
  ++world->joined;
  library().comms.push_back(std::make_shared<NcclComm>(NcclComm{world, rank, false, {}, {}, {}}));
  *comm = library().comms.back().get();
  return NcclResult::kInProgress;
}

// Its work runs to the end without effect, and what nobody has copied yet never comes.
NcclResult comm_abort(NcclComm* handle) {
  RL_EMULATED_NCCL_CALL("CommAbort");
  const Comm comm = comm_of(handle);
  if (comm == nullptr) return NcclResult::kInvalidArgument;
  comm->aborted = true;
  for (const auto& message : comm->received) {
    message->given_up = true;
    if (!message->ready->done) finish(*message->ready, {});
  }
  for (const auto& message : comm->sent)
    if (!message->copied->done && !message->given_up) message->ready->done = false;
  for (const auto& mark : comm->awaited)
    if (!mark->done) finish(*mark, {});
  std::erase(library().comms, comm);
  return NcclResult::kSuccess;
}

NcclResult comm_state(NcclComm* handle, NcclResult* state) {
  RL_EMULATED_NCCL_CALL("CommGetAsyncError");
  const Comm comm = comm_of(handle);
  if (comm == nullptr) return NcclResult::kInvalidArgument;
  *state = library().error;
  if (*state == NcclResult::kSuccess && comm->world->joined < comm->world->size)
    *state = NcclResult::kInProgress;
  return NcclResult::kSuccess;
}

NcclResult group_start() {
  RL_EMULATED_NCCL_CALL("GroupStart");
  ++group.depth;
  return NcclResult::kSuccess;
}

NcclResult group_end() {
  RL_EMULATED_NCCL_CALL("GroupEnd");
  if (group.depth != 1) return NcclResult::kInvalidUsage;
  const Group all = std::exchange(group, {});
  if (all.comm != nullptr) enqueue_group(all);
  return NcclResult::kInProgress;
}

// Whether the call may go into the thread's group, which has one communicator and one stream.
bool join_group(NcclComm* handle, int peer, cudaStream_t stream) {
  const Comm comm = comm_of(handle);
  CUstream_st* const queue = stream_of(stream);
  if (comm == nullptr || queue == nullptr || group.depth != 1 || peer == comm->rank || peer < 0 ||
      peer >= comm->world->size || comm->world->joined < comm->world->size)
    return false;
  if (group.comm != nullptr && (group.comm != comm || group.stream != queue)) return false;
  group.comm = comm;
  group.stream = queue;
  return true;
}

NcclResult send(const void* from, size_t count, NcclType type, int peer, NcclComm* handle,
                cudaStream_t stream) {
  RL_EMULATED_NCCL_CALL("Send");
  if (!join_group(handle, peer, stream) || type != NcclType::kUint8)
    return NcclResult::kInvalidArgument;
  Line& line = handle->world->lines[{handle->rank, peer}];
  const std::shared_ptr<Message> message = line.at(line.sent++);
  message->from = from;
  message->bytes = count;
  group.sent.push_back(message);
  line.forget();
  return NcclResult::kSuccess;
}

NcclResult receive(void* to, size_t count, NcclType type, int peer, NcclComm* handle,
                   cudaStream_t stream) {
  RL_EMULATED_NCCL_CALL("Recv");
  if (!join_group(handle, peer, stream) || type != NcclType::kUint8)
    return NcclResult::kInvalidArgument;
  Line& line = handle->world->lines[{peer, handle->rank}];
  group.received.push_back({line.at(line.received++), to, count});
  line.forget();
  return NcclResult::kSuccess;
}

const char* error_string(NcclResult result) {
  return result == NcclResult::kUnhandledCudaError ? "unhandled cuda error" : "emulated error";
}
const char* last_error_text(NcclComm*) { return library().text.c_str(); }

}  // namespace

void set_nccl_error(cuda::NcclResult error, const std::string& text) {
  const std::lock_guard lock(emulator_mutex());
  library().error = error;
  library().text = text;
}
void set_nccl_version(int version) {
  const std::lock_guard lock(emulator_mutex());
  library().version = version;
}
void hide_nccl_function(const std::string& name) {
  const std::lock_guard lock(emulator_mutex());
  library().hidden = name;
}
void forget_nccl() {
  const std::lock_guard lock(emulator_mutex());
  library() = {};
}
int live_nccl_communicators() {
  const std::lock_guard lock(emulator_mutex());
  return static_cast<int>(library().comms.size());
}

}  // namespace rl::emulated

namespace rl::cuda {

// In place of src/device/cuda/nccl_open.cc.
NcclSymbols nccl_symbols() {
  namespace e = rl::emulated;
  const NcclFunctions functions{e::get_version, e::get_unique_id, e::comm_init,      e::comm_abort,
                                e::comm_state,  e::group_start,   e::group_end,      e::send,
                                e::receive,     e::error_string,  e::last_error_text};
  std::map<std::string, void*> by_name;
#define RL_EMULATED_NCCL(Result, name, ...) \
  by_name["nccl" #name] = reinterpret_cast<void*>(functions.name);
  RL_NCCL_FUNCTIONS(RL_EMULATED_NCCL)
#undef RL_EMULATED_NCCL
  by_name.erase(e::library().hidden);
  return {"emulated NCCL", [by_name](const char* name) -> void* {
            const auto found = by_name.find(name);
            return found == by_name.end() ? nullptr : found->second;
          }};
}

}  // namespace rl::cuda
