#include "comm/gloo/gloo_transport.h"

#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>

#include "comm/gloo/gloo_call.h"
#include "comm/gloo/no_sigpipe.h"
#include "comm/watch/meeting.h"
#include "core/clock.h"
#include "core/signals.h"

namespace rl {
namespace {

// Gloo waits for a connection five times as long as this.
std::chrono::milliseconds connect_time(int64_t deadline_ns) {
  if (deadline_ns < 0) return std::chrono::hours(24);
  const int64_t left_ms = (deadline_ns - real_clock().now_ns()) / 1000000;
  return std::chrono::milliseconds(std::max<int64_t>(1, left_ms / 5));
}

std::string text_of(const std::vector<char>& bytes) { return {bytes.begin(), bytes.end()}; }

class GlooTransport final : public Transport {
 public:
  GlooTransport(const GlooOptions& options, Rendezvous& rendezvous)
      : rank_(options.rank), size_(options.size) {
    const NoSigpipe quiet;
    const int64_t deadline =
        options.join_timeout_ns < 0 ? -1 : real_clock().now_ns() + options.join_timeout_ns;
    const MeetingPlace place{rendezvous, rank_, size_, options.address, deadline};
    std::vector<Socket> links = meet(place);
    open_pairs(links, deadline);
    std::vector<std::string> addresses(links.size());
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) {
        addresses[static_cast<size_t>(rank)] = text_of(context_->getPair(rank)->address().bytes());
      }
    }
    addresses = swap_texts(place, links, addresses);
    rendezvous.withdraw(rank_);
    watch_ = std::make_unique<Watch>(std::move(links), rank_, options.timeout_ns);
    connect_pairs(addresses);
  }

  // Others learn that this rank leaves before its connections end.
  ~GlooTransport() override {
    const NoSigpipe quiet;
    watch_.reset();
    context_.reset();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void exchange(const Exchange& exchange) override {
    const NoSigpipe quiet;
    GlooCall call(*context_, rank_, exchange);
    watch_->begin(call.watched());
    const WatchEnd end{*watch_, call.watched()};
    try {
      call.run();
    } catch (const GlooDisagreement& disagreement) {
      watch_->fail(disagreement.failure);
      watch_->raise(call.partner(), "");
    } catch (const GlooStopped&) {
      watch_->raise(call.partner(), "");
    } catch (const std::exception& error) {
      watch_->raise(call.partner(), error.what());
    }
  }

  void check() override { watch_->check(); }

  void fail(const std::string& why) override {
    watch_->fail({rank_, str("rank ", rank_, " of ", size_, " failed: ", why)});
  }

 private:
  struct WatchEnd {
    Watch& watch;
    WatchedCall& call;
    ~WatchEnd() { watch.end(call); }
  };

  // A listening end for each other rank, at the address that they already reach this one by.
  void open_pairs(const std::vector<Socket>& links, int64_t deadline_ns) {
    std::string address = "127.0.0.1";
    for (const Socket& link : links) {
      if (link.is_open()) address = own_end(link).host;
    }
    try {
      const ScopedSignalMask mask;
      gloo::transport::tcp::attr attributes(address.c_str());
      device_ = gloo::transport::tcp::CreateDevice(attributes);
      context_ = device_->createContext(rank_, size_);
      context_->setTimeout(connect_time(deadline_ns));
      for (int rank = 0; rank < size_; ++rank) {
        if (rank != rank_) context_->createPair(rank);
      }
    } catch (const std::exception& error) {
      throw Error(Code::kIo, str("gloo cannot listen at ", address, ": ", error.what()));
    }
  }

  void connect_pairs(const std::vector<std::string>& addresses) {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      const std::string& address = addresses[static_cast<size_t>(rank)];
      try {
        context_->getPair(rank)->connect({address.begin(), address.end()});
      } catch (const std::exception& error) {
        watch_->raise(rank, error.what());
      }
    }
  }

  const int rank_, size_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::unique_ptr<Watch> watch_;
};

}  // namespace

std::shared_ptr<Transport> make_gloo_transport(const GlooOptions& options, Rendezvous& rendezvous) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw Error(Code::kOutOfRange, str("rank is ", options.rank, " of ", options.size,
                                       ", expected 0 or more of them"));
  }
  return std::make_shared<GlooTransport>(options, rendezvous);
}

}  // namespace rl
