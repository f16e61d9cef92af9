#include "comm/wire/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <memory>
#include <utility>

#include "core/clock.h"
#include "core/error.h"

namespace rl {
namespace {

constexpr int kBacklog = 256;
constexpr int kFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;

// Milliseconds for poll until the deadline, rounded up; -1 for none.
int poll_time(int64_t deadline_ns) {
  if (deadline_ns < 0) return -1;
  const int64_t left = std::max<int64_t>(0, deadline_ns - real_clock().now_ns());
  return static_cast<int>(std::min<int64_t>((left + 999999) / 1000000, INT_MAX));
}

// False by the deadline.
bool wait_for(const Socket& socket, short events, int64_t deadline_ns) {
  for (;;) {
    pollfd wanted{socket.fd(), events, 0};
    const int ready = poll(&wanted, 1, poll_time(deadline_ns));
    if (ready > 0) return true;
    if (ready == 0 && poll_time(deadline_ns) == 0) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status =
      getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (status == 0) return Addresses(found);
  throw Error(Code::kIo, str("no address of ", endpoint.host, ": ", gai_strerror(status)))
      .with_system_code(status);
}

void set_option(int fd, int level, int option) {
  const int on = 1;
  setsockopt(fd, level, option, &on, sizeof on);
}

// 0, or the system's code.
int connect_now(const Socket& socket, const addrinfo& address, int64_t deadline_ns) {
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(socket, POLLOUT, deadline_ns)) return ETIMEDOUT;
  int status = 0;
  socklen_t size = sizeof status;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &status, &size);
  return status;
}

Progress progress_of(ssize_t moved_bytes, size_t& moved) {
  if (moved_bytes > 0) {
    moved = static_cast<size_t>(moved_bytes);
    return Progress::kDone;
  }
  moved = 0;
  const bool again = moved_bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return again ? Progress::kWouldBlock : Progress::kClosed;
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}
Socket::~Socket() { close(); }
void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::string endpoint_text(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return str(v6 ? "[" : "", endpoint.host, v6 ? "]:" : ":", endpoint.port);
}

Endpoint parse_endpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  Endpoint out{"", 0};
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    const std::string_view port = text.substr(colon + 1);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const auto read = std::from_chars(port.data(), port.data() + port.size(), out.port);
    if (read.ec == std::errc() && read.ptr == port.data() + port.size()) out.host = host;
  }
  if (out.host.empty() || out.port == 0) {
    throw Error(Code::kInvalidArgument,
                str("\"", text, "\" is no address and port, expected such as 10.0.0.1:29500"));
  }
  return out;
}

Socket listen_at(const Endpoint& endpoint) {
  const Addresses addresses = resolve(endpoint, AI_PASSIVE);
  Socket socket(::socket(addresses->ai_family, SOCK_STREAM | kFlags, 0));
  if (socket.is_open()) set_option(socket.fd(), SOL_SOCKET, SO_REUSEADDR);
  if (!socket.is_open() || bind(socket.fd(), addresses->ai_addr, addresses->ai_addrlen) != 0 ||
      listen(socket.fd(), kBacklog) != 0) {
    const int code = errno;
    throw Error(Code::kIo,
                str("cannot listen at ", endpoint_text(endpoint), ": ", std::strerror(code)))
        .with_system_code(code);
  }
  return socket;
}

Endpoint own_end(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  RL_CHECK(getsockname(socket.fd(), general, &size) == 0);
  RL_CHECK(getnameinfo(general, size, host, sizeof host, port, sizeof port,
                       NI_NUMERICHOST | NI_NUMERICSERV) == 0);
  return {host, static_cast<uint16_t>(std::stoi(port))};
}

Socket connect_to(const Endpoint& endpoint, int64_t deadline_ns) {
  const Addresses addresses = resolve(endpoint, 0);
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, SOCK_STREAM | kFlags, 0));
    if (!socket.is_open() || connect_now(socket, *each, deadline_ns) != 0) continue;
    set_option(socket.fd(), IPPROTO_TCP, TCP_NODELAY);
    return socket;
  }
  return Socket();
}

Socket accept_from(const Socket& listener, int64_t deadline_ns) {
  while (wait_for(listener, POLLIN, deadline_ns)) {
    Socket socket(accept4(listener.fd(), nullptr, nullptr, kFlags));
    if (!socket.is_open()) {  // it left again, or the system has no descriptor for it
      if (deadline_ns >= 0 && real_clock().now_ns() >= deadline_ns) return Socket();
      poll(nullptr, 0, 1);  // a full table is not asked again at once
      continue;
    }
    set_option(socket.fd(), IPPROTO_TCP, TCP_NODELAY);
    return socket;
  }
  return Socket();
}

bool send_all(const Socket& socket, std::span<const std::byte> bytes, int64_t deadline_ns) {
  while (!bytes.empty()) {
    size_t moved = 0;
    const Progress progress = send_some(socket, bytes, moved);
    if (progress == Progress::kClosed) return false;
    if (progress == Progress::kWouldBlock && !wait_for(socket, POLLOUT, deadline_ns)) return false;
    bytes = bytes.subspan(moved);
  }
  return true;
}

bool receive_all(const Socket& socket, std::span<std::byte> bytes, int64_t deadline_ns) {
  while (!bytes.empty()) {
    size_t moved = 0;
    const Progress progress = receive_some(socket, bytes, moved);
    if (progress == Progress::kClosed) return false;
    if (progress == Progress::kWouldBlock && !wait_for(socket, POLLIN, deadline_ns)) return false;
    bytes = bytes.subspan(moved);
  }
  return true;
}

Progress send_some(const Socket& socket, std::span<const std::byte> bytes, size_t& moved) {
  return progress_of(send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), moved);
}

Progress receive_some(const Socket& socket, std::span<std::byte> bytes, size_t& moved) {
  return progress_of(recv(socket.fd(), bytes.data(), bytes.size(), 0), moved);
}

}  // namespace rl
