// TCP sockets with deadlines: no call blocks beyond its deadline, by real_clock() and negative for
// none, and none raises SIGPIPE.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rl {

// Owns a descriptor, which does not block.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

struct Endpoint {
  std::string host;  // an address or a name
  uint16_t port;
};
// "10.0.0.1:29500", "[::1]:29500"
std::string endpoint_text(const Endpoint& endpoint);
// Error(kInvalidArgument) says what was expected.
Endpoint parse_endpoint(std::string_view text);

// Listens there; port 0 takes a free one. Error(kIo) with the system's code.
Socket listen_at(const Endpoint& endpoint);
// This end of a socket: a numeric address and a port.
Endpoint own_end(const Socket& socket);

// Closed if nobody listens there, or nobody answers by the deadline.
Socket connect_to(const Endpoint& endpoint, int64_t deadline_ns);
// Closed if nobody came by the deadline.
Socket accept_from(const Socket& listener, int64_t deadline_ns);

// False if the other end closed, or by the deadline.
bool send_all(const Socket& socket, std::span<const std::byte> bytes, int64_t deadline_ns);
bool receive_all(const Socket& socket, std::span<std::byte> bytes, int64_t deadline_ns);

enum class Progress : uint8_t { kDone, kWouldBlock, kClosed };
// What goes at once: `moved` bytes.
Progress send_some(const Socket& socket, std::span<const std::byte> bytes, size_t& moved);
Progress receive_some(const Socket& socket, std::span<std::byte> bytes, size_t& moved);

}  // namespace rl
