// Watches the other ranks of a backend that has processes: who is alive, who has left, who is at
// fault when a call is late. A thread sends and hears heartbeats on the connections of
// comm/watch/meeting.h; whoever sees a failure first tells all others, which then name the same
// rank.
//
// A rank is lost when its connection ends without a farewell, when it was not heard for the timeout
// and kGraceNs, or when a call is past its deadline and the rank is the one that the calls wait for
// (comm/watch/calls_of_ranks.h).
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "comm/watch/calls_of_ranks.h"
#include "comm/wire/socket.h"
#include "core/error.h"

namespace rl {

// What ended the ranks, and the rank that it is about.
struct RankFailure {
  int rank;
  std::string text;
  Code code = Code::kRankLost;  // kIncompatible: of two calls that differ
};

// A call of this rank that waits for others.
struct WatchedCall {
  uint64_t channel;
  std::string_view what;
  int64_t deadline_ns;  // by real_clock(); negative: there is none
  std::vector<int> partners;
  std::function<void()> stop;  // lets it end soon: called once there is a failure, by any thread
};

class Watch {
 public:
  static constexpr int64_t kGraceNs = 500 * 1000000;

  // Links by rank, that of this rank closed. A rank may be silent for timeout_ns; negative: for
  // ever.
  Watch(std::vector<Socket> links, int rank, int64_t timeout_ns);
  // Bids farewell, waiting a moment for ranks that do not answer. No call may run.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Counts the call and watches it until its end. Throws the failure if there is one.
  void begin(WatchedCall& call);
  void end(WatchedCall& call);

  // Throws the failure if there is one. Any thread.
  void check();
  // The first failure counts. Any thread.
  void fail(RankFailure failure);
  // Throws the failure that broke the connection to a rank, which may be about another one; if none
  // is known after a while, `text` is it.
  [[noreturn]] void raise(int rank, const std::string& text);

 private:
  struct Link {
    Socket socket;
    std::string incoming, outgoing;
    int64_t heard_ns = 0;
    bool has_left = false;
    std::optional<RankCalls> calls;  // its answer to the last question, or its farewell
  };
  struct Watched {
    WatchedCall* call;
    RunningCall running;
  };
  enum Packet : uint8_t;

  void run();
  void wait_for_news(int64_t until_ns);
  int64_t next_event_ns() const;
  // Each with the lock held:
  void read_links();
  void read_link(int rank);
  void take_packets(int rank);
  void take_packet(int rank, Packet kind, const std::string& payload);
  void lose(int rank, const std::string& how);
  void send(int rank, Packet kind, const std::string& payload);
  void send_to_all(Packet kind, const std::string& payload);
  void write_links();
  void beat(int64_t now_ns);
  void judge_silence(int64_t now_ns);
  void judge_late_calls(int64_t now_ns);
  void judge_farewell(int rank);
  void conclude();
  void set_failure(RankFailure failure);
  void say_farewell();
  bool have_all_answered() const;
  RankCalls own_calls() const;
  std::string name(int rank) const;
  Link& link(int rank) { return links_[static_cast<size_t>(rank)]; }
  void wake();

  const int rank_;
  const int64_t timeout_ns_;
  const int64_t interval_ns_;  // between heartbeats
  Socket waker_;               // an eventfd

  std::mutex mutex_;  // guards what follows
  std::condition_variable failed_;
  std::vector<Link> links_;
  std::map<std::pair<int, uint64_t>, uint64_t> begun_;
  std::vector<Watched> running_;
  std::optional<RankFailure> failure_;
  std::optional<Watched> late_;  // the call that the others are asked about
  int64_t question_until_ns_ = 0;
  int64_t next_beat_ns_ = 0;
  int64_t waits_until_ns_ = 0;  // when the thread looks again by itself
  int64_t farewell_until_ns_ = -1;

  std::thread thread_;
};

// A failure as what calls throw.
[[noreturn]] void raise_failure(const RankFailure& failure);

}  // namespace rl
