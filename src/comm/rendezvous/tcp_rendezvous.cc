// A request is one connection: a packet there, a packet back. Rank 0 answers them one at a time on
// a thread of its own; a client that sends nothing holds up the others for kPatienceNs at most.
#include <atomic>
#include <map>
#include <system_error>
#include <thread>

#include "comm/rendezvous/rendezvous.h"
#include "comm/wire/packet.h"
#include "comm/wire/socket.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/signals.h"

namespace rl {
namespace {

constexpr uint32_t kMagic = 0x524c5331;  // "RLS1"
constexpr uint32_t kMaxBytes = 4096;
constexpr int64_t kPatienceNs = 200 * 1000000;
enum : uint32_t { kPublish = 1, kFind = 2, kFound = 3, kNothing = 4 };

struct StorePacket {
  uint32_t kind, rank;
  std::string card;
};

bool send_packet(const Socket& socket, const StorePacket& packet, int64_t deadline_ns) {
  std::string bytes =
      PacketWriter().u32(kMagic).u32(packet.kind).u32(packet.rank).text(packet.card).bytes();
  return send_all(socket, std::as_bytes(std::span(bytes)), deadline_ns);
}

std::optional<StorePacket> receive_packet(const Socket& socket, int64_t deadline_ns) {
  std::string head(16, '\0');
  if (!receive_all(socket, std::as_writable_bytes(std::span(head)), deadline_ns))
    return std::nullopt;
  PacketReader reader(head);
  if (reader.u32() != kMagic) return std::nullopt;
  StorePacket out{reader.u32(), reader.u32(), ""};
  const uint32_t size = reader.u32();
  if (size > kMaxBytes) return std::nullopt;
  out.card.resize(size);
  if (!receive_all(socket, std::as_writable_bytes(std::span(out.card)), deadline_ns))
    return std::nullopt;
  return out;
}

class Store {
 public:
  Store(const Endpoint& endpoint, int size) : size_(size), listener_(listen_at(endpoint)) {
    try {
      const ScopedSignalMask mask;
      thread_ = std::thread([this] { serve(); });
    } catch (const std::system_error& e) {
      throw Error(Code::kResourceExhausted,
                  str("cannot start a thread for the store of ranks: ", e.what()))
          .with_system_code(e.code().value());
    }
  }
  ~Store() {
    ending_ = true;
    thread_.join();
  }
  std::string address() const { return own_end(listener_).host; }

 private:
  void serve() {
    while (!ending_) {
      const Socket client = accept_from(listener_, real_clock().now_ns() + kPatienceNs / 10);
      if (client.is_open()) answer(client);
    }
  }

  void answer(const Socket& client) {
    const int64_t deadline = real_clock().now_ns() + kPatienceNs;
    std::optional<StorePacket> request = receive_packet(client, deadline);
    if (!request || request->rank >= static_cast<uint32_t>(size_)) return;
    StorePacket reply{kNothing, request->rank, ""};
    if (request->kind == kPublish) {
      cards_[request->rank] = std::move(request->card);
    } else if (const auto found = cards_.find(request->rank); found != cards_.end()) {
      reply = {kFound, request->rank, found->second};
    }
    static_cast<void>(send_packet(client, reply, deadline));
  }

  const int size_;
  Socket listener_;
  std::map<uint32_t, std::string> cards_;  // of the thread
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

// Tries until it succeeds; false by the deadline.
bool again_until(int64_t deadline_ns, const std::function<bool()>& attempt) {
  while (!attempt()) {
    if (deadline_ns >= 0 && real_clock().now_ns() > deadline_ns) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

class TcpRendezvous final : public Rendezvous {
 public:
  TcpRendezvous(const std::string& where, int rank, int size) : endpoint_(parse_endpoint(where)) {
    if (rank == 0) store_ = std::make_unique<Store>(endpoint_, size);
  }

  bool publish(int rank, const std::string& card, int64_t deadline_ns) override {
    const StorePacket packet{kPublish, static_cast<uint32_t>(rank), card};
    return again_until(deadline_ns, [&] { return ask(packet, deadline_ns).has_value(); });
  }

  std::optional<std::string> find(int rank, int64_t deadline_ns) override {
    std::optional<StorePacket> reply = ask({kFind, static_cast<uint32_t>(rank), ""}, deadline_ns);
    if (!reply || reply->kind != kFound) return std::nullopt;
    return std::move(reply->card);
  }

  void withdraw(int) override { store_.reset(); }

  std::string own_address(int64_t deadline_ns) override {
    if (store_ != nullptr) return store_->address();
    std::string address;
    again_until(deadline_ns, [&] {
      const Socket socket = connect_to(endpoint_, deadline_ns);
      if (socket.is_open()) address = own_end(socket).host;
      return socket.is_open();
    });
    return address;
  }

 private:
  std::optional<StorePacket> ask(const StorePacket& request, int64_t deadline_ns) {
    const Socket socket = connect_to(endpoint_, deadline_ns);
    if (!socket.is_open() || !send_packet(socket, request, deadline_ns)) return std::nullopt;
    return receive_packet(socket, deadline_ns);
  }

  Endpoint endpoint_;
  std::unique_ptr<Store> store_;  // of rank 0
};

}  // namespace

std::unique_ptr<Rendezvous> tcp_rendezvous(const std::string& where, int rank, int size) {
  return std::make_unique<TcpRendezvous>(where, rank, size);
}

}  // namespace rl
