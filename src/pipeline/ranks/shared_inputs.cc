// Inputs cross as a document of a schedule (pipeline/schedule/schedule_document.h).
#include "pipeline/ranks/shared_inputs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pipeline/schedule/schedule_document.h"

namespace rl {
namespace {

struct Message {
  uint64_t bytes = 0;  // of the document
  uint64_t stop = 0, evaluate = 0;
};

std::vector<Message> gather(const TensorRanks& ranks, const Message& own) {
  std::vector<Message> all(static_cast<size_t>(ranks.size()));
  all[static_cast<size_t>(ranks.rank())] = own;
  ranks.gather_bytes(std::as_writable_bytes(std::span(all)));
  return all;
}

bool says(const std::vector<Message>& all, uint64_t Message::*what) {
  return std::ranges::any_of(all, [&](const Message& m) { return m.*what != 0; });
}

}  // namespace

SharedInputs::Round SharedInputs::exchange(const Round& own) const {
  std::vector<std::byte> document;
  if (leads() && !own.inputs.empty()) document = encode_schedule_events(own.inputs);
  const std::vector<Message> all = gather(ranks_, {document.size(), own.stop, own.evaluate});
  Round round{says(all, &Message::stop), says(all, &Message::evaluate), {}};
  if (all[0].bytes == 0) return round;
  document.resize(static_cast<size_t>(all[0].bytes));
  ranks_.broadcast_bytes(document);
  round.inputs = decode_schedule_events(document, "the inputs of another rank");
  return round;
}

bool SharedInputs::any(bool own) const {
  return says(gather(ranks_, {.stop = own}), &Message::stop);
}

}  // namespace rl
