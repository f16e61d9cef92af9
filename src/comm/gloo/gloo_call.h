// The messages of one exchange over gloo. Each is a header, by which both ends see whether they
// agree, and the bytes themselves. Gloo moves bytes only once the receiver has asked for them, so
// nothing of a message that disagrees reaches the receiver's memory.
#pragma once
#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <vector>

#include "comm/transport.h"
#include "comm/watch/watch.h"

namespace rl {

// Thrown where a failure of the ranks stopped a wait.
struct GlooStopped {};
// Two ends of a message disagree.
struct GlooDisagreement {
  RankFailure failure;
};

class GlooCall {
 public:
  // Refers to the exchange.
  GlooCall(gloo::transport::Context& context, int rank, const Exchange& exchange);

  WatchedCall& watched() { return watched_; }
  // The rank whose message it waited for when it threw.
  int partner() const { return partner_; }

  // Returns when all messages have come and gone. Throws GlooStopped, GlooDisagreement, or what
  // gloo throws when a connection breaks.
  void run();

 private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  struct Header {
    uint64_t bytes;
    char what[120];
  };
  struct Message {
    int rank;
    size_t size;
    Header header;
    Buffer header_buffer, buffer;  // buffer: none for an empty message
  };

  Message make_message(gloo::transport::Context& context, int rank, void* data, size_t size) const;
  Header header_of(size_t size) const;
  void require_agreement(const Message& message) const;
  void wait_received(const Message& message, const Buffer& buffer);
  void wait_sent(const Message& message, const Buffer& buffer);
  void stop();

  const int rank_;
  const Exchange& exchange_;
  const uint64_t header_slot_, slot_;
  std::vector<std::unique_ptr<Message>> out_, in_;
  WatchedCall watched_;
  int partner_ = 0;
};

}  // namespace rl
