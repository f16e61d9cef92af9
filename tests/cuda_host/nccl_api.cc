// Each group of sends and receives is three pieces of work in its stream: what this rank sends is
// ready, what it receives is copied once it is ready, and what it sends may change once it was
// copied. Marks that no stream has yet stand for the work of the other rank. A sum is such messages
// too: what came is added up in memory of the host, and written where the values were once nobody
// needs them.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "cuda_host/api_calls.h"
#include "cuda_host/copies.h"
#include "cuda_host/nccl_stand_in.h"
#include "cuda_host/stream_queue.h"

namespace rl::emulated {
namespace {

using cuda::NcclComm;
using cuda::NcclConfig;
using cuda::NcclId;
using cuda::NcclReduction;
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
  bool to_host = false;  // memory of the stand-in's own
};
// Of values that this rank has at `values`, and the others in `parts`, by rank.
struct Sum {
  void* values;
  size_t count, bytes;
  NcclType type;
  int rank;
  std::vector<std::vector<std::byte>> parts;
};
struct Group {
  int depth = 0;
  Comm comm;
  CUstream_st* stream = nullptr;
  std::vector<std::shared_ptr<Message>> sent;
  std::vector<Received> received;
  std::vector<std::shared_ptr<Sum>> sums;
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
  if (!note_read_by_call(message.from, message.bytes)) return;
  if (!received.to_host && !note_write_by_call(received.to, received.bytes)) return;
  std::memcpy(received.to, message.from, received.bytes);
}

// The part of the first rank becomes the sum. From the last rank down, rounded after each addition:
// not the order of ranks.
template <typename T>
void add_parts(Sum& sum) {
  const auto part = [&](size_t rank) { return reinterpret_cast<T*>(sum.parts[rank].data()); };
  for (size_t r = sum.parts.size() - 1; r > 0; --r) {
    for (size_t i = 0; i < sum.count; ++i) {
      const float added = to_float(part(r)[i]) + to_float(part(r - 1)[i]);
      if constexpr (std::is_same_v<T, bf16>) part(r - 1)[i] = to_bf16(added);
      if constexpr (std::is_same_v<T, float>) part(r - 1)[i] = added;
    }
  }
}

void add_up(Sum& sum) {
  if (!note_read_by_call(sum.values, sum.bytes)) return;
  std::memcpy(sum.parts[static_cast<size_t>(sum.rank)].data(), sum.values, sum.bytes);
  if (sum.type == NcclType::kFloat32) add_parts<float>(sum);
  if (sum.type == NcclType::kBfloat16) add_parts<bf16>(sum);
}

void write_sum(const Sum& sum) {
  if (note_write_by_call(sum.values, sum.bytes))
    std::memcpy(sum.values, sum.parts[0].data(), sum.bytes);
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
    for (const auto& sum : g.sums) add_up(*sum);
  });
  for (const auto& message : g.sent) hold_for_other(g, message->copied);
  enqueue(g.stream, "ncclSend, taken", 1, [g] {
    if (g.comm->aborted) return;
    for (const auto& sum : g.sums) write_sum(*sum);
  });
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
// peer: the rank that it names.
bool join_group(NcclComm* handle, int peer, cudaStream_t stream) {
  const Comm comm = comm_of(handle);
  CUstream_st* const queue = stream_of(stream);
  if (comm == nullptr || queue == nullptr || group.depth != 1 || peer < 0 ||
      peer >= comm->world->size || comm->world->joined < comm->world->size)
    return false;
  if (group.comm != nullptr && (group.comm != comm || group.stream != queue)) return false;
  group.comm = comm;
  group.stream = queue;
  return true;
}

void send_to(int peer, const void* from, size_t bytes) {
  const NcclComm& comm = *group.comm;
  Line& line = comm.world->lines[{comm.rank, peer}];
  const std::shared_ptr<Message> message = line.at(line.sent++);
  message->from = from;
  message->bytes = bytes;
  group.sent.push_back(message);
  line.forget();
}

void receive_from(int peer, Received received) {
  const NcclComm& comm = *group.comm;
  Line& line = comm.world->lines[{peer, comm.rank}];
  received.message = line.at(line.received++);
  group.received.push_back(std::move(received));
  line.forget();
}

NcclResult send(const void* from, size_t count, NcclType type, int peer, NcclComm* handle,
                cudaStream_t stream) {
  RL_EMULATED_NCCL_CALL("Send");
  if (!join_group(handle, peer, stream) || peer == handle->rank || type != NcclType::kUint8)
    return NcclResult::kInvalidArgument;
  send_to(peer, from, count);
  return NcclResult::kSuccess;
}

NcclResult receive(void* to, size_t count, NcclType type, int peer, NcclComm* handle,
                   cudaStream_t stream) {
  RL_EMULATED_NCCL_CALL("Recv");
  if (!join_group(handle, peer, stream) || peer == handle->rank || type != NcclType::kUint8)
    return NcclResult::kInvalidArgument;
  receive_from(peer, {nullptr, to, count});
  return NcclResult::kSuccess;
}

// What this rank has is at both addresses of a call.
struct Addends {
  const void* from;
  void* to;
  size_t count;
  NcclType type;

  bool sound(NcclReduction reduction) const {
    return from == to && reduction == NcclReduction::kSum &&
           (type == NcclType::kFloat32 || type == NcclType::kBfloat16);
  }
  size_t bytes() const { return count * (type == NcclType::kFloat32 ? 4 : 2); }
};

// The values of all others come to this rank, which has the sum.
void add_here(const Addends& own) {
  const int size = group.comm->world->size, rank = group.comm->rank;
  const std::vector<std::byte> none(own.bytes());
  const auto sum = std::make_shared<Sum>(
      Sum{own.to, own.count, own.bytes(), own.type, rank,
          std::vector<std::vector<std::byte>>(static_cast<size_t>(size), none)});
  for (int r = 0; r < size; ++r) {
    void* const part = sum->parts[static_cast<size_t>(r)].data();
    if (r != rank) receive_from(r, {nullptr, part, own.bytes(), true});
  }
  group.sums.push_back(sum);
}

NcclResult reduce(const void* from, void* to, size_t count, NcclType type, NcclReduction reduction,
                  int root, NcclComm* handle, cudaStream_t stream) {
  RL_EMULATED_NCCL_CALL("Reduce");
  const Addends own{from, to, count, type};
  if (!join_group(handle, root, stream) || !own.sound(reduction))
    return NcclResult::kInvalidArgument;
  if (root == handle->rank) add_here(own);
  if (root != handle->rank) send_to(root, from, own.bytes());
  return NcclResult::kSuccess;
}

NcclResult all_reduce(const void* from, void* to, size_t count, NcclType type,
                      NcclReduction reduction, NcclComm* handle, cudaStream_t stream) {
  RL_EMULATED_NCCL_CALL("AllReduce");
  const Addends own{from, to, count, type};
  if (!join_group(handle, 0, stream) || !own.sound(reduction)) return NcclResult::kInvalidArgument;
  for (int r = 0; r < handle->world->size; ++r)
    if (r != handle->rank) send_to(r, from, own.bytes());
  add_here(own);
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
  const NcclFunctions functions{e::get_version,    e::get_unique_id, e::comm_init,  e::comm_abort,
                                e::comm_state,     e::group_start,   e::group_end,  e::send,
                                e::receive,        e::reduce,        e::all_reduce, e::error_string,
                                e::last_error_text};
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
