// All ranks share a World with one lock, under which messages are posted, found and finished;
// bytes are copied without it. Each rank has a condition of its own, on which it waits for whatever
// concerns it. The memory of a message stays valid while it is copied: a sender that gives up
// withdraws messages that nobody has begun to copy, and waits for the others.
#include "comm/local/local_transport.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "core/clock.h"
#include "core/deadline.h"

namespace rl {
namespace {

enum class MessageState : uint8_t { kPosted, kCopying, kDone };

struct Message {
  std::span<const std::byte> bytes;
  std::string_view what;
  MessageState state = MessageState::kPosted;
};

struct MessageKey {
  int from, to;
  uint64_t channel;
  auto operator<=>(const MessageKey&) const = default;
};

struct Failure {
  int rank;  // whom it is about
  std::string text;
  Code code = Code::kRankLost;  // kIncompatible: of two calls that differ
};

class Running;

struct RankState {
  std::condition_variable changed;
  bool left = false;
};

struct World {
  explicit World(int size) : ranks(static_cast<size_t>(size)) {}

  RankState& of(int rank) { return ranks[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks.size()); }
  void notify_all() {
    for (RankState& rank : ranks) rank.changed.notify_all();
  }
  void set_failure(Failure given) {
    if (!failure) failure = std::move(given);
    notify_all();
  }

  std::mutex mutex;  // guards what follows
  std::vector<RankState> ranks;
  std::map<MessageKey, Message*> posted;
  std::vector<const Running*> running;  // in no order
  std::optional<Failure> failure;
};

[[noreturn]] void raise(const Failure& failure) {
  if (failure.code == Code::kRankLost) throw RankError(failure.rank, failure.text);
  throw Error(failure.code, failure.text).with_location(str("rank ", failure.rank));
}

// An exchange of one rank while it runs. Every function is called with the lock held.
class Running {
 public:
  // `read`: in place of copies. Null: messages are copied.
  Running(World& world, int rank, const Exchange& exchange, const Transport::ReadInPlace* read)
      : world_(world),
        rank_(rank),
        exchange_(exchange),
        read_(read),
        messages_(exchange.out.size()),
        received_(exchange.in.size()) {}

  void run(std::unique_lock<std::mutex>& lock) {
    world_.running.push_back(this);
    try {
      complete(lock);
    } catch (...) {
      withdraw(lock);
      end();
      throw;
    }
    end();
  }

  int rank() const { return rank_; }
  std::string_view what() const { return exchange_.what; }

  // The ranks whose message has not come, or that have not taken theirs, lowest first.
  std::set<int> awaited() const {
    std::set<int> out;
    for (size_t i = 0; i < received_.size(); ++i) {
      if (!received_[i]) out.insert(exchange_.in[i].from);
    }
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].state != MessageState::kDone) out.insert(exchange_.out[i].to);
    }
    return out;
  }

 private:
  void complete(std::unique_lock<std::mutex>& lock) {
    if (world_.failure) raise(*world_.failure);
    post();
    for (;;) {
      if (read_ == nullptr) {
        receive(lock);
      } else {
        receive_in_place(lock);
      }
      const std::set<int> ranks = awaited();
      if (ranks.empty()) return;  // whatever has failed meanwhile
      for (const int rank : ranks) {
        if (world_.of(rank).left) world_.set_failure(gone(rank));
      }
      if (world_.failure) raise(*world_.failure);
      if (!wait(lock)) world_.set_failure(late(ranks));
    }
  }

  void end() { std::erase(world_.running, this); }

  MessageKey sent_to(int to) const { return {rank_, to, exchange_.channel}; }

  void post() {
    for (size_t i = 0; i < messages_.size(); ++i) {
      const Outgoing& out = exchange_.out[i];
      messages_[i] = {out.bytes, exchange_.what};
      RL_CHECK(world_.posted.emplace(sent_to(out.to), &messages_[i]).second);
      world_.of(out.to).changed.notify_all();
    }
  }

  // Copies what has come. Others post while the lock is not held for a copy, and their notices come
  // before anyone waits for them: hence it looks again after each.
  void receive(std::unique_lock<std::mutex>& lock) {
    for (size_t i = 0; i < received_.size();) {
      const Incoming& in = exchange_.in[i];
      const auto found = received_[i] ? world_.posted.end()
                                      : world_.posted.find({in.from, rank_, exchange_.channel});
      if (found == world_.posted.end()) {
        ++i;
        continue;
      }
      if (!agree(in, *found->second)) return;
      copy(lock, in, *found->second);
      finish(i, *found->second);
      i = 0;
    }
  }

  // Reads all messages at once when the last has come.
  void receive_in_place(std::unique_lock<std::mutex>& lock) {
    if (has_read_) return;
    std::vector<Message*> all;
    for (const Incoming& in : exchange_.in) {
      const auto found = world_.posted.find({in.from, rank_, exchange_.channel});
      if (found == world_.posted.end()) continue;
      if (!agree(in, *found->second)) return;
      all.push_back(found->second);
    }
    if (all.size() < exchange_.in.size()) return;
    std::vector<const std::byte*> addresses;
    addresses.reserve(all.size());
    has_read_ = true;
    for (Message* const message : all) {
      message->state = MessageState::kCopying;
      addresses.push_back(message->bytes.data());
    }
    lock.unlock();
    (*read_)(addresses);
    lock.lock();
    for (size_t i = 0; i < all.size(); ++i) finish(i, *all[i]);
  }

  bool agree(const Incoming& in, const Message& message) {
    if (message.what == exchange_.what && message.bytes.size() == in.bytes.size()) return true;
    world_.set_failure({in.from,
                        str("rank ", in.from, " called ", message.what, " with ",
                            message.bytes.size(), " bytes for rank ", rank_, ", which called ",
                            exchange_.what, " and expected ", in.bytes.size()),
                        Code::kIncompatible});
    return false;
  }

  void copy(std::unique_lock<std::mutex>& lock, const Incoming& in, Message& message) {
    message.state = MessageState::kCopying;
    lock.unlock();
    if (!in.bytes.empty()) std::memcpy(in.bytes.data(), message.bytes.data(), in.bytes.size());
    lock.lock();
  }

  // Message i of `in` was received.
  void finish(size_t i, Message& message) {
    const int from = exchange_.in[i].from;
    message.state = MessageState::kDone;
    world_.posted.erase({from, rank_, exchange_.channel});
    world_.of(from).changed.notify_all();
    received_[i] = true;
  }

  // False once the deadline has passed.
  bool wait(std::unique_lock<std::mutex>& lock) {
    std::condition_variable& changed = world_.of(rank_).changed;
    if (exchange_.deadline_ns < 0) {
      changed.wait(lock);
      return true;
    }
    const int64_t left_ns = exchange_.deadline_ns - real_clock().now_ns();
    if (left_ns <= 0) return false;
    changed.wait_for(lock, std::chrono::nanoseconds(left_ns));
    return true;
  }

  Failure gone(int rank) const {
    return {rank, str("rank ", rank, " of ", world_.size(), " left before ", what(), " was done")};
  }

  // Looks for a rank that is in no exchange: among those that this one waits for, then among those
  // that they wait for, and so on.
  Failure late(const std::set<int>& ranks) const {
    std::vector<int> reached(ranks.begin(), ranks.end());
    for (size_t i = 0; i < reached.size(); ++i) {
      bool has_come = false;
      for (const Running* const other : world_.running) {
        if (other->rank() != reached[i]) continue;
        has_come = true;
        for (const int next : other->awaited()) {
          if (std::find(reached.begin(), reached.end(), next) == reached.end())
            reached.push_back(next);
        }
      }
      if (!has_come) {
        return {reached[i], str("rank ", reached[i], " of ", world_.size(),
                                " did not come in time; ", "rank ", rank_, " waited in ", what())};
      }
    }
    return {reached[0], str("rank ", reached[0], " of ", world_.size(), " did not come to ", what(),
                            " in time: the ranks wait for one another in different calls")};
  }

  void withdraw(std::unique_lock<std::mutex>& lock) {
    for (size_t i = 0; i < messages_.size(); ++i) {
      Message& message = messages_[i];
      world_.of(rank_).changed.wait(lock, [&] { return message.state != MessageState::kCopying; });
      if (message.state == MessageState::kPosted) world_.posted.erase(sent_to(exchange_.out[i].to));
    }
  }

  World& world_;
  const int rank_;
  const Exchange& exchange_;
  const Transport::ReadInPlace* const read_;
  std::vector<Message> messages_;  // of exchange_.out
  std::vector<char> received_;     // of exchange_.in
  bool has_read_ = false;          // in place
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<World> world, int rank) : world_(std::move(world)), rank_(rank) {}
  ~LocalTransport() override {
    const std::lock_guard lock(world_->mutex);
    world_->of(rank_).left = true;
    world_->notify_all();
  }

  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }

  void exchange(const Exchange& exchange) override {
    std::unique_lock lock(world_->mutex);
    Running(*world_, rank_, exchange, nullptr).run(lock);
  }

  bool exchange_in_place(const Exchange& exchange, const ReadInPlace& read) override {
    std::unique_lock lock(world_->mutex);
    Running(*world_, rank_, exchange, &read).run(lock);
    return true;
  }

  void check() override {
    const std::lock_guard lock(world_->mutex);
    if (world_->failure) raise(*world_->failure);
  }

  void fail(const std::string& why) override {
    const std::lock_guard lock(world_->mutex);
    world_->set_failure({rank_, str("rank ", rank_, " of ", size(), " failed: ", why)});
  }

 private:
  std::shared_ptr<World> world_;
  int rank_;
};

}  // namespace

std::vector<std::shared_ptr<Transport>> make_local_transports(int size) {
  if (size < 1)
    throw Error(Code::kOutOfRange, str("there are ", size, " ranks, expected 1 or more"));
  const auto world = std::make_shared<World>(size);
  std::vector<std::shared_ptr<Transport>> out;
  for (int rank = 0; rank < size; ++rank) {
    out.push_back(std::make_shared<LocalTransport>(world, rank));
  }
  return out;
}

}  // namespace rl
