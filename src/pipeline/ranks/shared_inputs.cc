// Inputs cross as a document of a schedule (pipeline/schedule/schedule_document.h). What the ranks
// of one stage say goes to the ranks of all stages that have the same part.
#include "pipeline/ranks/shared_inputs.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "pipeline/schedule/schedule_document.h"

namespace rl {

// Of all ranks together.
SharedInputs::Message SharedInputs::gather(const Message& own) const {
  std::vector<Message> parts(static_cast<size_t>(parts_.size()));
  parts[static_cast<size_t>(parts_.rank())] = own;
  parts_.gather_bytes(std::as_writable_bytes(std::span(parts)));
  const auto all_of = [](const std::vector<Message>& messages) {
    Message all{.bytes = messages[0].bytes};
    for (const Message& m : messages) {
      all.stop |= m.stop;
      all.evaluate |= m.evaluate;
    }
    return all;
  };
  return all_of(all_.gather(all_of(stages_.gather(all_of(parts)))));
}

// From the first rank to the first part of every stage, and from there to the other parts.
void SharedInputs::broadcast(std::vector<std::byte>& document) const {
  if (parts_.rank() == 0) {
    std::vector<float> words((document.size() + sizeof(float) - 1) / sizeof(float));
    if (leads()) std::memcpy(words.data(), document.data(), document.size());
    stages_.fill(std::span(words));
    std::memcpy(document.data(), words.data(), document.size());
  }
  parts_.broadcast_bytes(document);
  all_.broadcast_bytes(document);
}

SharedInputs::Round SharedInputs::exchange(const Round& own) const {
  std::vector<std::byte> document;
  if (leads() && !own.inputs.empty()) document = encode_schedule_events(own.inputs);
  const Message all = gather({document.size(), own.stop, own.evaluate});
  Round round{all.stop != 0, all.evaluate != 0, {}};
  if (all.bytes == 0) return round;
  document.resize(static_cast<size_t>(all.bytes));
  broadcast(document);
  round.inputs = decode_schedule_events(document, "the inputs of another rank");
  return round;
}

std::vector<std::byte> SharedInputs::of_first(std::vector<std::byte> own) const {
  own.resize(static_cast<size_t>(gather({.bytes = own.size()}).bytes));
  if (!own.empty()) broadcast(own);
  return own;
}

bool SharedInputs::any(bool own) const { return gather({.stop = own}).stop != 0; }

const char* partner_axis_of(const Settings& settings) {
  return settings.parallel.tensor > 1 ? "parallel.tensor" : "parallel.pipeline";
}

}  // namespace rl
