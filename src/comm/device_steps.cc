#include "comm/device_steps.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/clock.h"

namespace rl {
namespace {

constexpr uint64_t kSlotAlignment = 256;

constexpr std::chrono::milliseconds kNewsPause{5};

// What a device or its library reports may come of another rank that is gone or hangs. Throws what
// the transport learns of one in time.
void hear_news(Transport& transport) {
  const int64_t until = real_clock().now_ns() + Transport::kNewsNs;
  do {
    transport.check();
    std::this_thread::sleep_for(kNewsPause);
  } while (real_clock().now_ns() < until);
}

DeviceSteps::Call call_of(const Exchange& step) {
  return {step.channel, step.what, step.deadline_ns};
}

// An Error of the messages in a call is one of this rank, which the others learn, unless it comes
// of another rank. One of the transport they know.
template <typename Run>
void run_or_fail(Transport& transport, std::string_view what, const Run& run) {
  try {
    run();
  } catch (const RankError&) {
    throw;
  } catch (Error& error) {
    error.message = str(what, ": ", error.message);
    if (error.code == Code::kIo) hear_news(transport);
    transport.fail(error.message);
    throw;
  } catch (const std::exception& error) {
    transport.fail(str(what, ": ", error.what()));
    throw;
  }
}

// What the two ends of a message between devices tell each other first, each from its own side.
struct Sizes {
  uint64_t sent, expected;
};
struct Partner {
  int rank;
  Sizes own = {}, other = {};
};

Partner& partner(std::vector<Partner>& all, int rank) {
  const auto found = std::ranges::find(all, rank, &Partner::rank);
  if (found != all.end()) return *found;
  return all.emplace_back(Partner{rank});
}

std::vector<Partner> partners_of(const Exchange& step) {
  std::vector<Partner> all;
  for (const Outgoing& out : step.out) partner(all, out.to).own.sent = out.bytes.size();
  for (const Incoming& in : step.in) partner(all, in.from).own.expected = in.bytes.size();
  return all;
}

void require_agreement(const Partner& partner) {
  if (partner.own.sent == partner.other.expected && partner.own.expected == partner.other.sent)
    return;
  throw Error(Code::kIncompatible, str("rank ", partner.rank, " has ", partner.other.sent,
                                       " bytes for this rank and expects ", partner.other.expected,
                                       ", while this rank expects ", partner.own.expected,
                                       " and has ", partner.own.sent))
      .with_location(str("rank ", partner.rank));
}

}  // namespace

DeviceSteps::DeviceSteps(DeviceRanks ranks, const Call& joining) : group_(std::move(ranks)) {
  rank_ = number_of(group_.transport->rank());
  run_or_fail(*group_.transport, joining.what, [&] {
    DeviceMessages& messages = *group_.messages;
    std::vector<std::byte> id(messages.id_bytes());
    if (rank_ == 0) id = messages.make_id();
    share_id(joining, id);
    const auto size = static_cast<int>(group_.ranks.size());
    messages.join({id, rank_, size}, [&] { require_ranks(joining); });
  });
}

void DeviceSteps::share_id(const Call& call, std::vector<std::byte>& id) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (size_t r = 1; r < group_.ranks.size() && rank_ == 0; ++r)
    out.push_back({group_.ranks[r], id});
  if (rank_ != 0) in.push_back({group_.ranks[0], id});
  group_.transport->exchange({call.channel, call.what, out, in, call.deadline_ns});
}

void DeviceSteps::begin(const Exchange& all) {
  std::vector<Partner> partners = partners_of(all);
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (Partner& each : partners) {
    out.push_back({each.rank, std::as_bytes(std::span(&each.own, 1))});
    in.push_back({each.rank, std::as_writable_bytes(std::span(&each.other, 1))});
  }
  group_.transport->exchange({all.channel, all.what, out, in, all.deadline_ns});
  run_or_fail(*group_.transport, all.what, [&] {
    for (const Partner& each : partners) require_agreement(each);
    group_.messages->begin();
  });
}

void DeviceSteps::exchange(const Exchange& step) {
  std::vector<Outgoing> out(step.out.begin(), step.out.end());
  std::vector<Incoming> in(step.in.begin(), step.in.end());
  for (Outgoing& each : out) each.to = number_of(each.to);
  for (Incoming& each : in) each.from = number_of(each.from);
  run_or_fail(*group_.transport, step.what,
              [&] { group_.messages->exchange(out, in, [&] { require_ranks(call_of(step)); }); });
}

void DeviceSteps::copy(std::span<const std::byte> from, std::byte* to) {
  run_or_fail(*group_.transport, "a copy within the device",
              [&] { group_.messages->copy(from, to); });
}

uint64_t DeviceSteps::slot_bytes() const {
  const uint64_t others = std::max<uint64_t>(1, group_.ranks.size() - 1);
  return group_.messages->scratch().size() / others / kSlotAlignment * kSlotAlignment;
}

void DeviceSteps::reduce(Reduction reduction, const Values& out) {
  run_or_fail(*group_.transport, "a sum on the device",
              [&] { group_.messages->reduce(reduction, slot_bytes(), out); });
}

void DeviceSteps::reduce_scatter_own_order(const Call& call, const DividedValues& all) {
  run_or_fail(*group_.transport, call.what, [&] {
    group_.messages->reduce_scatter_own_order(all, [&] { require_ranks(call); });
  });
}

void DeviceSteps::all_reduce_own_order(const Call& call, const Values& values) {
  run_or_fail(*group_.transport, call.what,
              [&] { group_.messages->all_reduce_own_order(values, [&] { require_ranks(call); }); });
}

void DeviceSteps::end(const Call& call) {
  run_or_fail(*group_.transport, call.what,
              [&] { group_.messages->complete([&] { require_ranks(call); }); });
}

// All ranks had come. Unless one of them hangs since, which of the devices is late cannot be known:
// the first rank that says so is named by all.
void DeviceSteps::require_ranks(const Call& call) {
  Transport& transport = *group_.transport;
  transport.check();
  if (call.deadline_ns < 0 || real_clock().now_ns() < call.deadline_ns) return;
  hear_news(transport);
  const std::string why = str("its device did not end ", call.what, " in time");
  transport.fail(why);
  transport.check();
  throw RankError(transport.rank(), str("rank ", transport.rank(), ": ", why));
}

int DeviceSteps::number_of(int rank) const {
  const auto found = std::ranges::find(group_.ranks, rank);
  RL_CHECK(found != group_.ranks.end());
  return static_cast<int>(found - group_.ranks.begin());
}

}  // namespace rl
