// A rank listens, publishes where, connects to the ranks below it and accepts those above. Rank 0
// accepts at once, then rank 1, and so on: no circle of ranks waits for one another. A card that
// leads nowhere is of an earlier run, and is looked at again.
#include "comm/watch/meeting.h"

#include <chrono>
#include <thread>

#include "comm/transport.h"
#include "comm/wire/packet.h"
#include "core/clock.h"

namespace rl {
namespace {

constexpr uint32_t kMagic = 0x524c4731;  // "RLG1"
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxText = 1 << 16;

bool is_over(int64_t deadline_ns) {
  return deadline_ns >= 0 && real_clock().now_ns() >= deadline_ns;
}

class Meeting {
 public:
  explicit Meeting(const MeetingPlace& place)
      : place_(place), links_(static_cast<size_t>(place.size)) {}

  std::vector<Socket> run() {
    std::string address = place_.address;
    if (address.empty()) address = place_.rendezvous.own_address(place_.deadline_ns);
    if (address.empty() && is_over(place_.deadline_ns)) fail_absent(0);
    if (address.empty()) address = "127.0.0.1";
    listener_ = listen_at({address, 0});
    const std::string card = endpoint_text(own_end(listener_));
    if (!place_.rendezvous.publish(place_.rank, card, place_.deadline_ns)) fail_absent(0);
    for (int rank = 0; rank < place_.rank; ++rank) connect_below(rank);
    for (int above = place_.rank + 1; above < place_.size; ++above) accept_above();
    return std::move(links_);
  }

 private:
  Socket& link(int rank) { return links_[static_cast<size_t>(rank)]; }

  void connect_below(int rank) {
    while (!link(rank).is_open()) {
      if (is_over(place_.deadline_ns)) fail_absent(rank);
      const std::optional<std::string> card = place_.rendezvous.find(rank, place_.deadline_ns);
      if (card) link(rank) = greet(rank, *card);
      if (!link(rank).is_open()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  // Closed if whoever is there is not that rank.
  Socket greet(int rank, const std::string& card) {
    Socket socket = connect_to(parse_endpoint(card), place_.deadline_ns);
    if (!socket.is_open() || !send_greeting(socket)) return Socket();
    const std::optional<int> there = receive_greeting(socket);
    return there == rank ? std::move(socket) : Socket();
  }

  void accept_above() {
    for (;;) {
      Socket socket = accept_from(listener_, place_.deadline_ns);
      if (!socket.is_open()) fail_absent(first_absent());
      const std::optional<int> rank = receive_greeting(socket);
      if (!rank || *rank <= place_.rank || link(*rank).is_open() || !send_greeting(socket))
        continue;
      link(*rank) = std::move(socket);
      return;
    }
  }

  bool send_greeting(const Socket& socket) {
    std::string bytes = PacketWriter()
                            .u32(kMagic)
                            .u32(kVersion)
                            .u32(static_cast<uint32_t>(place_.size))
                            .u32(static_cast<uint32_t>(place_.rank))
                            .bytes();
    return send_all(socket, std::as_bytes(std::span(bytes)), place_.deadline_ns);
  }

  // The other's number; nothing if it is no rank.
  std::optional<int> receive_greeting(const Socket& socket) {
    std::string bytes(16, '\0');
    if (!receive_all(socket, std::as_writable_bytes(std::span(bytes)), place_.deadline_ns))
      return std::nullopt;
    PacketReader reader(bytes);
    if (reader.u32() != kMagic) return std::nullopt;
    const uint32_t version = reader.u32(), size = reader.u32(), rank = reader.u32();
    if (version != kVersion || size != static_cast<uint32_t>(place_.size) || rank >= size) {
      static_cast<void>(send_greeting(socket));  // the other says the same
      throw Error(Code::kIncompatible,
                  str("rank ", rank, " of ", size, " (protocol ", version, ") met rank ",
                      place_.rank, " of ", place_.size, " (protocol ", kVersion, ")"))
          .with_location(str("rank ", rank));
    }
    return static_cast<int>(rank);
  }

  int first_absent() const {
    int rank = place_.rank + 1;
    while (links_[static_cast<size_t>(rank)].is_open()) ++rank;
    return rank;
  }

  [[noreturn]] void fail_absent(int rank) const {
    throw RankError(rank, str("rank ", rank, " of ", place_.size,
                              " did not come to the meeting of the ranks in time"));
  }

  const MeetingPlace& place_;
  Socket listener_;
  std::vector<Socket> links_;
};

}  // namespace

std::vector<Socket> meet(const MeetingPlace& place) { return Meeting(place).run(); }

std::vector<std::string> swap_texts(const MeetingPlace& place, const std::vector<Socket>& links,
                                    const std::vector<std::string>& texts) {
  const auto require = [&](bool done, size_t rank) {
    if (done) return;
    throw RankError(static_cast<int>(rank),
                    str("rank ", rank, " of ", place.size, " left the meeting of the ranks"));
  };
  for (size_t rank = 0; rank < links.size(); ++rank) {
    if (!links[rank].is_open()) continue;
    std::string bytes = PacketWriter().text(texts[rank]).bytes();
    require(send_all(links[rank], std::as_bytes(std::span(bytes)), place.deadline_ns), rank);
  }
  std::vector<std::string> out(links.size());
  for (size_t rank = 0; rank < links.size(); ++rank) {
    if (!links[rank].is_open()) continue;
    std::string head(4, '\0');
    require(receive_all(links[rank], std::as_writable_bytes(std::span(head)), place.deadline_ns),
            rank);
    const uint32_t size = PacketReader(head).u32();
    require(size <= kMaxText, rank);
    out[rank].resize(size);
    require(
        receive_all(links[rank], std::as_writable_bytes(std::span(out[rank])), place.deadline_ns),
        rank);
  }
  return out;
}

}  // namespace rl
