// Runs whose samples have turns, and replies to them.
#pragma once
#include <string>
#include <vector>

#include "run_rig.h"

namespace rl::testing {

// Steps of two groups of two samples; every turn of the model is four tokens long.
inline OptionSet turn_options(const TempDir& dir, const std::vector<std::string>& more = {}) {
  OptionSet o = tiny_options(dir);
  for (const char* text :
       {"pipeline.turns=always", "pipeline.prompts_per_step=2", "pipeline.samples_per_prompt=2",
        "sampling.max_new_tokens=4", "pipeline.total_steps=2"}) {
    o.set_assignment(text);
  }
  for (const std::string& text : more) o.set_assignment(text);
  return o;
}
inline constexpr size_t kTurnSamples = 4;  // of a step

inline void answer(Pipeline& p, const Reply& reply) {
  p.reply_many({&reply, 1}, [](size_t, Code) {});
}
inline void answer(Pipeline& p, uint64_t sample_id, const std::vector<int32_t>& ids) {
  answer(p, Reply{.sample_id = sample_id, .ids = ids});
}
inline void finish(Pipeline& p, uint64_t sample_id) {
  answer(p, Reply{.sample_id = sample_id, .finish = true});
}

// A tool: what it replies follows from the sample's newest token. The second turn is the last one.
inline void use_tool(Pipeline& p, const TurnEvent& e) {
  if (e.turn == 2) return finish(p, e.sample->id);
  answer(p, e.sample->id, {100 + e.sample->ids.back() % 8, 9});
}

// The next event of a kind, past others; null if none comes.
inline std::shared_ptr<Event> next_of(Pipeline& p, EventKind kind) {
  for (;;) {
    EventQueue::Popped got = p.next(60 * kSecond);
    if (got.status != Code::kOk) return nullptr;
    if (static_cast<EventKind>(got.event->kind()) == kind) return got.event;
  }
}

// The samples of a step's first turns, none of which is answered.
inline std::vector<SamplePtr> first_turns(Pipeline& p) {
  std::vector<SamplePtr> samples;
  while (samples.size() < kTurnSamples) {
    const auto event = next_of(p, EventKind::kTurn);
    if (event == nullptr) break;
    samples.push_back(static_cast<TurnEvent&>(*event).sample);
  }
  EXPECT_EQ(samples.size(), kTurnSamples);
  return samples;
}

}  // namespace rl::testing
