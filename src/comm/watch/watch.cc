// One thread reads, judges and writes; callers only leave notes under the lock and wake it. What it
// sends is queued per link and written as far as a connection takes it, so a rank that has stopped
// reading holds up nobody.
#include "comm/watch/watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "comm/transport.h"
#include "comm/wire/packet.h"
#include "core/clock.h"
#include "core/signals.h"

namespace rl {

enum Watch::Packet : uint8_t {
  kHeartbeat = 1,
  kQuestion = 2,
  kAnswer = 3,
  kFailure = 4,
  kFarewell = 5
};

namespace {

constexpr int64_t kMillisecondNs = 1000000;
constexpr int64_t kFarewellNs = 300 * kMillisecondNs;
constexpr int64_t kUnknownCauseNs = 700 * kMillisecondNs;
constexpr size_t kMaxPayload = 1 << 22;
constexpr size_t kMaxQueued = 1 << 20;  // beyond it no heartbeats are added
constexpr size_t kHeadBytes = 5;

constexpr int64_t kLongestIntervalNs = 250 * kMillisecondNs;
static_assert(Watch::kGraceNs + kLongestIntervalNs < Transport::kNewsNs);

int64_t interval_of(int64_t timeout_ns) {
  if (timeout_ns < 0) return kLongestIntervalNs;
  return std::clamp(timeout_ns / 8, 5 * kMillisecondNs, kLongestIntervalNs);
}

Socket make_waker() {
  Socket waker(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!waker.is_open())
    throw Error(Code::kResourceExhausted, "no descriptor for the watch of ranks");
  return waker;
}

}  // namespace

void raise_failure(const RankFailure& failure) {
  if (failure.code == Code::kRankLost) throw RankError(failure.rank, failure.text);
  throw Error(failure.code, failure.text).with_location(str("rank ", failure.rank));
}

Watch::Watch(std::vector<Socket> links, int rank, int64_t timeout_ns)
    : rank_(rank),
      timeout_ns_(timeout_ns),
      interval_ns_(interval_of(timeout_ns)),
      waker_(make_waker()),
      links_(links.size()) {
  const int64_t now = real_clock().now_ns();
  for (size_t r = 0; r < links.size(); ++r) {
    links_[r].socket = std::move(links[r]);
    links_[r].heard_ns = now;
  }
  try {
    const ScopedSignalMask mask;
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    throw Error(Code::kResourceExhausted,
                str("cannot start a thread to watch the ranks: ", e.what()))
        .with_system_code(e.code().value());
  }
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    farewell_until_ns_ = real_clock().now_ns() + kFarewellNs;
    say_farewell();
  }
  wake();
  thread_.join();
}

void Watch::begin(WatchedCall& call) {
  const std::lock_guard lock(mutex_);
  if (failure_) raise_failure(*failure_);
  if (call.partners.empty()) return;  // it waits for nobody
  Watched watched{&call, {call.channel, {}}};
  for (const int partner : call.partners) {
    watched.running.partners.push_back({partner, ++begun_[{partner, call.channel}]});
  }
  running_.push_back(std::move(watched));
  for (const int partner : call.partners) {
    if (link(partner).has_left) judge_farewell(partner);
  }
  if (failure_) {
    running_.pop_back();
    wake();
    raise_failure(*failure_);
  }
  if (call.deadline_ns >= 0 && call.deadline_ns < waits_until_ns_) wake();
}

void Watch::end(WatchedCall& call) {
  const std::lock_guard lock(mutex_);
  std::erase_if(running_, [&](const Watched& each) { return each.call == &call; });
  if (late_ && late_->call == &call) late_.reset();  // it came after all
}

void Watch::check() {
  const std::lock_guard lock(mutex_);
  if (failure_) raise_failure(*failure_);
}

void Watch::fail(RankFailure failure) {
  {
    const std::lock_guard lock(mutex_);
    set_failure(std::move(failure));
  }
  wake();
}

void Watch::raise(int rank, const std::string& text) {
  std::unique_lock lock(mutex_);
  failed_.wait_for(lock, std::chrono::nanoseconds(kUnknownCauseNs),
                   [&] { return failure_.has_value(); });
  set_failure({rank, str(name(rank), " is out of reach: ", text)});
  const RankFailure failure = *failure_;
  lock.unlock();
  wake();
  raise_failure(failure);
}

void Watch::run() {
  int64_t looked_ns = real_clock().now_ns();
  std::unique_lock lock(mutex_);
  for (;;) {
    const int64_t until = next_event_ns();
    waits_until_ns_ = until;
    lock.unlock();
    wait_for_news(until);
    lock.lock();
    read_links();
    const int64_t now = real_clock().now_ns();
    // A rank that was itself stopped judges nobody by that time.
    if (now - looked_ns > interval_ns_ + kGraceNs) {
      for (Link& each : links_) each.heard_ns = now;
    }
    looked_ns = now;
    if (farewell_until_ns_ < 0) {
      judge_silence(now);
      judge_late_calls(now);
      beat(now);
    }
    write_links();
    const bool alone = std::none_of(links_.begin(), links_.end(),
                                    [](const Link& each) { return each.socket.is_open(); });
    if (farewell_until_ns_ >= 0 && (alone || now >= farewell_until_ns_)) return;
  }
}

int64_t Watch::next_event_ns() const {
  if (farewell_until_ns_ >= 0) return farewell_until_ns_;
  int64_t until = next_beat_ns_;
  if (late_) return std::min(until, question_until_ns_);
  if (failure_) return until;
  for (const Watched& each : running_) {
    if (each.call->deadline_ns >= 0) until = std::min(until, each.call->deadline_ns);
  }
  return until;
}

// Only this thread opens and closes links after the start, so it may look at them without the lock.
void Watch::wait_for_news(int64_t until_ns) {
  std::vector<pollfd> wanted{{waker_.fd(), POLLIN, 0}};
  for (const Link& each : links_) {
    if (each.socket.is_open()) wanted.push_back({each.socket.fd(), POLLIN, 0});
  }
  const int64_t left = std::max<int64_t>(0, until_ns - real_clock().now_ns());
  poll(wanted.data(), wanted.size(),
       static_cast<int>((left + kMillisecondNs - 1) / kMillisecondNs));
  uint64_t count = 0;
  static_cast<void>(!read(waker_.fd(), &count, sizeof count));
}

void Watch::wake() {
  const uint64_t one = 1;
  static_cast<void>(!write(waker_.fd(), &one, sizeof one));
}

void Watch::read_links() {
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) {
    if (link(rank).socket.is_open()) read_link(rank);
  }
}

void Watch::read_link(int rank) {
  std::byte buffer[4096];
  for (;;) {
    size_t moved = 0;
    const Progress progress = receive_some(link(rank).socket, buffer, moved);
    if (progress == Progress::kWouldBlock) return;
    if (progress == Progress::kClosed) {
      link(rank).socket.close();
      const bool parted = link(rank).has_left || farewell_until_ns_ >= 0;
      if (!parted) lose(rank, "its process ended, or its connection");
      return;
    }
    link(rank).heard_ns = real_clock().now_ns();
    link(rank).incoming.append(reinterpret_cast<const char*>(buffer), moved);
    take_packets(rank);
    if (!link(rank).socket.is_open()) return;
  }
}

void Watch::take_packets(int rank) {
  std::string& bytes = link(rank).incoming;
  size_t taken = 0;
  while (bytes.size() - taken >= kHeadBytes) {
    PacketReader head(std::string_view(bytes).substr(taken + 1, 4));
    const size_t size = head.u32();
    if (size > kMaxPayload) return lose(rank, "it sent what no rank sends");
    if (bytes.size() - taken < kHeadBytes + size) break;
    const std::string payload = bytes.substr(taken + kHeadBytes, size);
    const auto kind = static_cast<Packet>(bytes[taken]);
    taken += kHeadBytes + size;
    try {
      take_packet(rank, kind, payload);
    } catch (const Error& error) {
      return lose(rank, error.message);
    }
  }
  bytes.erase(0, taken);
}

void Watch::take_packet(int rank, Packet kind, const std::string& payload) {
  PacketReader reader(payload);
  switch (kind) {
    case kHeartbeat:
      return;
    case kQuestion:
      return send(rank, kAnswer, own_calls().packed());
    case kAnswer:
      link(rank).calls = RankCalls::unpack(payload);
      return;
    case kFailure: {
      const int about = static_cast<int>(reader.u32());
      const auto code = static_cast<Code>(reader.u32());
      const bool is_rank = about >= 0 && about < static_cast<int>(links_.size());
      if (!is_rank || (code != Code::kRankLost && code != Code::kIncompatible)) break;
      return set_failure({about, reader.text(), code});
    }
    case kFarewell:
      link(rank).calls = RankCalls::unpack(payload);
      link(rank).has_left = true;
      judge_farewell(rank);
      shutdown(link(rank).socket.fd(), SHUT_WR);  // nothing more is for it
      return;
  }
  throw Error(Code::kDataLoss, "it sent what no rank sends");
}

void Watch::lose(int rank, const std::string& how) {
  link(rank).socket.close();
  set_failure({rank, str(name(rank), " was lost: ", how)});
}

void Watch::send(int rank, Packet kind, const std::string& payload) {
  Link& to = link(rank);
  if (!to.socket.is_open() || to.has_left) return;
  to.outgoing.push_back(static_cast<char>(kind));
  to.outgoing += PacketWriter().text(payload).bytes();
}

void Watch::send_to_all(Packet kind, const std::string& payload) {
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) send(rank, kind, payload);
}

void Watch::write_links() {
  for (Link& each : links_) {
    while (each.socket.is_open() && !each.outgoing.empty()) {
      size_t moved = 0;
      if (send_some(each.socket, std::as_bytes(std::span(each.outgoing)), moved) != Progress::kDone)
        break;
      each.outgoing.erase(0, moved);
    }
    // After the farewell the other end answers by closing.
    const bool said_all = farewell_until_ns_ >= 0 && each.outgoing.empty();
    if (said_all && each.socket.is_open()) shutdown(each.socket.fd(), SHUT_WR);
  }
}

void Watch::beat(int64_t now_ns) {
  if (now_ns < next_beat_ns_) return;
  next_beat_ns_ = now_ns + interval_ns_;
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) {
    if (link(rank).outgoing.size() < kMaxQueued) send(rank, kHeartbeat, "");
  }
}

void Watch::judge_silence(int64_t now_ns) {
  if (timeout_ns_ < 0) return;
  for (int rank = 0; rank < static_cast<int>(links_.size()); ++rank) {
    const Link& each = link(rank);
    if (!each.socket.is_open() || each.has_left) continue;
    const int64_t silence = now_ns - each.heard_ns;
    if (silence - kGraceNs <= timeout_ns_) continue;
    set_failure({rank, str(name(rank), " was not heard for ", silence / kMillisecondNs,
                           " ms: it hangs, or cannot be reached")});
  }
}

// Its farewell says to which calls it came. What it sent in those still arrives.
void Watch::judge_farewell(int rank) {
  for (const Watched& each : running_) {
    for (const CallPartner& partner : each.running.partners) {
      if (partner.rank != rank ||
          link(rank).calls->begun_with(rank_, each.running.channel) >= partner.number)
        continue;
      set_failure({rank, str(name(rank), " left before ", each.call->what, " was done")});
    }
  }
}

void Watch::judge_late_calls(int64_t now_ns) {
  if (failure_) return;
  if (late_) {
    if (have_all_answered() || now_ns >= question_until_ns_) conclude();
    return;
  }
  for (const Watched& each : running_) {
    if (each.call->deadline_ns < 0 || each.call->deadline_ns > now_ns) continue;
    late_ = each;
    question_until_ns_ = now_ns + kGraceNs;
    for (Link& other : links_) {
      if (!other.has_left) other.calls.reset();
    }
    send_to_all(kQuestion, "");
    return;
  }
}

bool Watch::have_all_answered() const {
  return std::all_of(links_.begin(), links_.end(), [](const Link& each) {
    return !each.socket.is_open() || each.calls.has_value();
  });
}

void Watch::conclude() {
  CallsOfRanks calls;
  for (const Link& each : links_) calls.push_back(each.calls);
  calls[static_cast<size_t>(rank_)] = own_calls();
  const std::string_view what = late_->call->what;
  const Culprit culprit = find_culprit(calls, rank_, late_->running);
  const std::string text = name(culprit.rank);
  switch (culprit.kind) {
    case Culprit::kAbsent:
      return set_failure(
          {culprit.rank, str(text, " did not come in time; rank ", rank_, " waited in ", what)});
    case Culprit::kSilent:
      return set_failure(
          {culprit.rank, str(text, " does not answer; rank ", rank_, " waited in ", what)});
    case Culprit::kSlow:
      return set_failure(
          {culprit.rank,
           str(text, " came to ", what, ", which did not end in time; rank ", rank_, " waited")});
    case Culprit::kCircle:
      return set_failure(
          {culprit.rank, str(text, " did not come to ", what,
                             " in time: the ranks wait for one another in different calls")});
  }
}

void Watch::set_failure(RankFailure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  late_.reset();
  send_to_all(kFailure, PacketWriter()
                            .u32(static_cast<uint32_t>(failure_->rank))
                            .u32(static_cast<uint32_t>(failure_->code))
                            .text(failure_->text)
                            .bytes());
  for (const Watched& each : running_) each.call->stop();
  failed_.notify_all();
}

void Watch::say_farewell() { send_to_all(kFarewell, own_calls().packed()); }

RankCalls Watch::own_calls() const {
  RankCalls out{begun_, {}};
  for (const Watched& each : running_) out.running.push_back(each.running);
  return out;
}

std::string Watch::name(int rank) const { return str("rank ", rank, " of ", links_.size()); }

}  // namespace rl
