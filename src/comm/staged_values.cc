#include "comm/staged_values.h"

#include <utility>

namespace rl {

// Both ends of a message cut it alike: where its parts begin depends on the group alone. An empty
// message is one empty part.
class StagedValues::Step {
 public:
  Step(StagedValues& staged, uint64_t part_bytes, std::span<const Outgoing> out,
       std::span<const Incoming> in)
      : staged_(staged), part_bytes_(part_bytes), out_(out), in_(in) {}

  uint64_t rounds() const {
    uint64_t most = 1;
    for (const Outgoing& message : out_) most = std::max(most, parts_of(message.bytes.size()));
    for (const Incoming& message : in_) most = std::max(most, parts_of(message.bytes.size()));
    return most;
  }

  void run(uint64_t round, Round exchange) {
    next_ = staged_.arena_.data();
    copy_outgoing(round);
    make_room(round);
    exchange(sent_, received_);
    copy_incoming(round);
  }

 private:
  uint64_t parts_of(uint64_t bytes) const {
    return std::max<uint64_t>(1, (bytes + part_bytes_ - 1) / part_bytes_);
  }
  bool takes_part(uint64_t bytes, uint64_t round) const { return round < parts_of(bytes); }
  template <typename Byte>
  std::span<Byte> part(std::span<Byte> bytes, uint64_t round) const {
    const uint64_t begin = round * part_bytes_;
    return bytes.subspan(static_cast<size_t>(begin),
                         static_cast<size_t>(std::min(part_bytes_, bytes.size() - begin)));
  }
  std::span<std::byte> room(uint64_t bytes) {
    return {std::exchange(next_, next_ + part_bytes_), static_cast<size_t>(bytes)};
  }

  // What one message after another gives to several ranks is copied once.
  void copy_outgoing(uint64_t round) {
    sent_.clear();
    std::span<const std::byte> last;
    for (const Outgoing& message : out_) {
      if (!takes_part(message.bytes.size(), round)) continue;
      const std::span<const std::byte> now = part(message.bytes, round);
      const bool again = !sent_.empty() && now.data() == last.data() && now.size() == last.size();
      sent_.push_back({message.to, again ? sent_.back().bytes : copied(now)});
      last = now;
    }
  }
  std::span<const std::byte> copied(std::span<const std::byte> device) {
    const std::span<std::byte> host = room(device.size());
    if (!device.empty()) staged_.copies_->to_host(device.data(), host);
    return host;
  }

  void make_room(uint64_t round) {
    received_.clear();
    for (const Incoming& message : in_) {
      if (takes_part(message.bytes.size(), round))
        received_.push_back({message.from, room(part(message.bytes, round).size())});
    }
  }
  void copy_incoming(uint64_t round) {
    auto host = received_.begin();
    for (const Incoming& message : in_) {
      if (!takes_part(message.bytes.size(), round)) continue;
      const std::span<const std::byte> bytes = (host++)->bytes;
      if (!bytes.empty()) staged_.copies_->to_device(bytes, part(message.bytes, round).data());
    }
  }

  StagedValues& staged_;
  const uint64_t part_bytes_;
  const std::span<const Outgoing> out_;
  const std::span<const Incoming> in_;
  std::byte* next_ = nullptr;  // free room of the buffer
  std::vector<Outgoing> sent_;
  std::vector<Incoming> received_;
};

void StagedValues::exchange(std::span<const Outgoing> out, std::span<const Incoming> in, int most,
                            Round round) {
  const uint64_t part_bytes = arena_.bytes() / (2 * static_cast<uint64_t>(most)) / 8 * 8;
  RL_CHECK(part_bytes > 0);
  Step step(*this, part_bytes, out, in);
  const uint64_t rounds = step.rounds();
  for (uint64_t i = 0; i < rounds; ++i) step.run(i, round);
}

}  // namespace rl
