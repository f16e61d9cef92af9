#include "comm/watch/calls_of_ranks.h"

#include <algorithm>

#include "comm/wire/packet.h"

namespace rl {
namespace {

constexpr uint32_t kMaxEntries = 1 << 16;

uint32_t read_count(PacketReader& reader) {
  const uint32_t count = reader.u32();
  if (count > kMaxEntries) throw Error(Code::kDataLoss, "a packet of a rank counts too many calls");
  return count;
}

}  // namespace

std::string RankCalls::packed() const {
  PacketWriter writer;
  writer.u32(static_cast<uint32_t>(begun.size()));
  for (const auto& [key, number] : begun) {
    writer.u32(static_cast<uint32_t>(key.first)).u64(key.second).u64(number);
  }
  writer.u32(static_cast<uint32_t>(running.size()));
  for (const RunningCall& call : running) {
    writer.u64(call.channel).u32(static_cast<uint32_t>(call.partners.size()));
    for (const CallPartner& partner : call.partners) {
      writer.u32(static_cast<uint32_t>(partner.rank)).u64(partner.number);
    }
  }
  return writer.bytes();
}

RankCalls RankCalls::unpack(const std::string& bytes) {
  PacketReader reader(bytes);
  RankCalls out;
  for (uint32_t left = read_count(reader); left > 0; --left) {
    const int rank = static_cast<int>(reader.u32());
    const uint64_t channel = reader.u64();
    out.begun[{rank, channel}] = reader.u64();
  }
  for (uint32_t left = read_count(reader); left > 0; --left) {
    RunningCall call{reader.u64(), {}};
    for (uint32_t partners = read_count(reader); partners > 0; --partners) {
      const int rank = static_cast<int>(reader.u32());
      call.partners.push_back({rank, reader.u64()});
    }
    out.running.push_back(std::move(call));
  }
  return out;
}

uint64_t RankCalls::begun_with(int rank, uint64_t channel) const {
  const auto found = begun.find({rank, channel});
  return found == begun.end() ? 0 : found->second;
}

std::vector<int> awaited(const CallsOfRanks& calls, int rank, const RunningCall& call) {
  std::vector<int> out;
  for (const CallPartner& partner : call.partners) {
    if (partner.rank < 0 || static_cast<size_t>(partner.rank) >= calls.size()) continue;
    const std::optional<RankCalls>& other = calls[static_cast<size_t>(partner.rank)];
    if (!other || other->begun_with(rank, call.channel) < partner.number)
      out.push_back(partner.rank);
  }
  return out;
}

Culprit find_culprit(const CallsOfRanks& calls, int rank, const RunningCall& late) {
  std::vector<int> reached = awaited(calls, rank, late);
  if (reached.empty()) return {late.partners.front().rank, Culprit::kSlow};
  for (size_t i = 0; i < reached.size(); ++i) {
    const std::optional<RankCalls>& other = calls[static_cast<size_t>(reached[i])];
    if (!other) return {reached[i], Culprit::kSilent};
    if (other->running.empty()) return {reached[i], Culprit::kAbsent};
    for (const RunningCall& call : other->running) {
      for (const int next : awaited(calls, reached[i], call)) {
        if (std::find(reached.begin(), reached.end(), next) == reached.end())
          reached.push_back(next);
      }
    }
  }
  return {reached.front(), Culprit::kCircle};
}

}  // namespace rl
