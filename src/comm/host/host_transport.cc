// Each exchange is two of the host's: headers, then the bytes of messages that have some. Bytes
// move only after both ends have agreed, so no host writes beyond an array.
#include "comm/host/host_transport.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "core/clock.h"

namespace rl {
namespace {

struct MessageHeader {
  uint64_t bytes;
  char what[120];
};

MessageHeader header_of(std::string_view what, size_t bytes) {
  MessageHeader out{bytes, {}};
  RL_CHECK(what.size() < sizeof out.what);
  std::memcpy(out.what, what.data(), what.size());
  return out;
}

class HostTransport final : public Transport {
 public:
  explicit HostTransport(std::unique_ptr<HostMessages> messages)
      : messages_(std::move(messages)), rank_(messages_->rank()), size_(messages_->size()) {
    if (size_ >= 1 && rank_ >= 0 && rank_ < size_) return;
    throw Error(Code::kOutOfRange,
                str("the host's rank is ", rank_, " of ", size_, ", expected 0 or more of them"));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void exchange(const Exchange& exchange) override {
    const ChannelTurn turn(*this, exchange.channel);
    try {
      agree(exchange);
      move(exchange);
    } catch (const RankError& error) {
      end(error.rank, error.message, std::current_exception());
    } catch (const Error& error) {
      end(rank_, error.message, std::current_exception());
    } catch (const std::exception& error) {
      end(rank_, error.what(), std::current_exception());
    }
  }

  void check() override {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

  void fail(const std::string& why) override {
    const RankError error(rank_, str("rank ", rank_, " of ", size_, " failed: ", why));
    note(rank_, why, std::make_exception_ptr(error));
  }

 private:
  // Throws the failure that there was before; otherwise the channel is this call's.
  struct ChannelTurn {
    ChannelTurn(HostTransport& transport, uint64_t channel)
        : transport(transport), channel(channel) {
      const std::lock_guard lock(transport.mutex_);
      if (transport.failure_ != nullptr) std::rethrow_exception(transport.failure_);
      RL_CHECK(transport.busy_.insert(channel).second);
    }
    ~ChannelTurn() {
      const std::lock_guard lock(transport.mutex_);
      transport.busy_.erase(channel);
    }
    HostTransport& transport;
    uint64_t channel;
  };

  void agree(const Exchange& exchange) {
    std::vector<MessageHeader> sent, got(exchange.in.size());
    std::vector<HostMessage> out, in;
    for (const Outgoing& each : exchange.out)
      sent.push_back(header_of(exchange.what, each.bytes.size()));
    for (size_t i = 0; i < sent.size(); ++i)
      out.push_back({exchange.out[i].to, &sent[i], sizeof sent[i]});
    for (size_t i = 0; i < got.size(); ++i)
      in.push_back({exchange.in[i].from, &got[i], sizeof got[i]});
    call(exchange, out, in);
    for (size_t i = 0; i < got.size(); ++i) require_agreement(exchange, exchange.in[i], got[i]);
  }

  void move(const Exchange& exchange) {
    std::vector<HostMessage> out, in;
    for (const Outgoing& each : exchange.out) {
      auto* const data = const_cast<std::byte*>(each.bytes.data());  // the host only reads it
      if (!each.bytes.empty()) out.push_back({each.to, data, each.bytes.size()});
    }
    for (const Incoming& each : exchange.in) {
      if (!each.bytes.empty()) in.push_back({each.from, each.bytes.data(), each.bytes.size()});
    }
    if (!out.empty() || !in.empty()) call(exchange, out, in);
  }

  void call(const Exchange& exchange, std::span<const HostMessage> out, std::span<HostMessage> in) {
    const int64_t left = exchange.deadline_ns < 0
                             ? -1
                             : std::max<int64_t>(0, exchange.deadline_ns - real_clock().now_ns());
    const HostMessages::Result result = messages_->exchange(exchange.channel, out, in, left);
    if (result.code != 0) throw refusal(exchange, result);
    for (const HostMessage& each : in) {
      if (each.received == each.size) continue;
      throw Error(Code::kIncompatible,
                  str("the host received ", each.received, " bytes from rank ", each.rank, " in ",
                      exchange.what, ", expected ", each.size))
          .with_location(str("rank ", each.rank));
    }
  }

  RankError refusal(const Exchange& exchange, const HostMessages::Result& result) const {
    const std::string text = str("the host's exchange failed in ", exchange.what, " with code ",
                                 result.code, result.reason.empty() ? "" : ": ", result.reason);
    const int lost = result.lost_rank;
    RankError error =
        lost >= 0 && lost < size_
            ? RankError(lost, str("rank ", lost, " of ", size_, " was lost: ", text))
            : RankError(rank_, str("rank ", rank_, " of ", size_, ": ", text,
                                   lost == HostMessages::kUnknown
                                       ? std::string(", which names no rank")
                                       : str(", which names rank ", lost, ", but there is none")));
    error.system_code = result.code;
    return error;
  }

  void require_agreement(const Exchange& exchange, const Incoming& in,
                         const MessageHeader& got) const {
    const std::string_view what(got.what, strnlen(got.what, sizeof got.what));
    if (what == exchange.what && got.bytes == in.bytes.size()) return;
    throw Error(Code::kIncompatible,
                str("rank ", in.from, " called ", what, " with ", got.bytes, " bytes for rank ",
                    rank_, ", which called ", exchange.what, " and expected ", in.bytes.size()))
        .with_location(str("rank ", in.from));
  }

  // The first failure is that of all later calls, and the host is told once whom it is about.
  void note(int about, const std::string& why, const std::exception_ptr& failure) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_ != nullptr) return;
      failure_ = failure;
    }
    messages_->abandon(about, why);
  }

  [[noreturn]] void end(int about, const std::string& why, const std::exception_ptr& failure) {
    note(about, why, failure);
    std::unique_lock lock(mutex_);
    const std::exception_ptr first = failure_;
    lock.unlock();
    std::rethrow_exception(first);
  }

  const std::unique_ptr<HostMessages> messages_;
  const int rank_, size_;
  std::mutex mutex_;  // guards what follows
  std::set<uint64_t> busy_;
  std::exception_ptr failure_;
};

}  // namespace

std::shared_ptr<Transport> make_host_transport(std::unique_ptr<HostMessages> messages) {
  return std::make_shared<HostTransport>(std::move(messages));
}

}  // namespace rl
