// A run without a model: the state machines of pipeline/flow and the store of groups with its
// ledger, over an engine, a trainer, a host, a clock and a disk that are made of one seed. Tokens
// have the version that sampled them, and nothing else. Laws are checked after every piece of work,
// and a broken one is a text that names it.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pipeline/flow/flow.h"
#include "pipeline/groups/group_store.h"
#include "pipeline/schedule/run_schedule.h"

namespace rl::testing {

// Numbers that follow from a seed alone (SplitMix64).
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t roll();
  int64_t below(int64_t n) { return static_cast<int64_t>(roll() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

enum class SimMode : uint8_t { kSync, kOneStepOff, kAsync };

// A mistake that the simulator makes on purpose, so that a test sees the law that it breaks.
enum class Bug : uint8_t {
  kNone,
  kDrawsTooFarAhead,     // the machines know a higher bound on staleness
  kIgnoresSlowGroups,    // groups that would become too old are not told of
  kPublishesAtOnce,      // samples under way are not told of
  kKeepsHoldingBack,     // admissions stay off after a publication
  kForgetsOpenGroups,    // a checkpoint has the cursor alone
  kRedrawsTrainedGroup,  // a checkpoint says that a group is open which was trained on
  kLosesAChange,         // a change of the host wakes nobody
  kForgetsDeadlines,     // nothing expires
  kTakesTooFew,          // the step takes a group less than it may
  kNeverCancels,         // groups live through any number of steps
  kEvaluatesMeanwhile,   // an evaluation does not wait for the engine
  kDropsSilently,        // a group vanishes from the buffer
  kSkipsGroups,          // the source loses a prompt
  kCountsTokensTwice,    // a sample grows after it was counted
  kThrowsSurplusAway,    // what is complete beside a batch is dropped with it
  kSwallowsFailures,     // a failure of the producer reaches nobody
  kTrainsPartOfAGroup,   // a step has a sample less than its groups
  kForgetsItsAge,        // steps are counted from 0 again after a crash
  kEvictsFreshGroups,    // groups of the newest weights are too old
  kDropsSlowGroups,      // groups that a step would wait for are cancelled
  kUnmasksOldTokens,     // tokens of earlier versions carry loss
  kKeepsOldWeights,      // a publication does not reach the engine
  kTrainsSkippedSteps,   // an update that is not finite reaches the weights
  kTakesNaN,             // a reward that is no number counts as 0
  kTearsCheckpoints,     // a checkpoint has its books before its weights
  kForgetsTheCursor,     // the source begins again after a crash
};

// What a run is like. timing: of the durations alone.
struct SimOptions {
  uint64_t seed = 0, timing = 0;
  std::optional<SimMode> mode = {};    // else of the seed
  std::optional<int64_t> bounds = {};  // of staleness and queue, else of the seed
  bool faults = true;                  // of scorers, trainer, disk and memory
  bool filters = true;
  bool feeds = true;  // by a host, with rows that come in time, and not only files
  Bug bug = Bug::kNone;
  // Where the schedule is recorded, or what is replayed; null: neither.
  FileSystem* record_to = nullptr;
  FileSystem* replay_from = nullptr;
};

inline constexpr const char* kSimRecord = "schedule";  // path of the record

struct SimResult {
  std::string broken;   // the law that was broken, or empty
  uint64_t digest = 0;  // of what was trained on, in order
  int64_t events = 0;   // pieces of work
  LedgerCounts books;   // at the end
  bool failed = false;  // memory ran out
  bool crashed = false;
  std::set<DropReason> reasons;
};

SimResult simulate(const SimOptions& options);

}  // namespace rl::testing
