#include "pipeline/ranks/rank_batches.h"

#include <algorithm>
#include <span>

#include "core/error.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/ranks/group_documents.h"

namespace rl {

Settings settings_of_rank(const Settings& settings, int rank) {
  Settings own = settings;
  if (rank == 0) return own;
  own.metrics.jsonl = own.metrics.eval_jsonl = own.metrics.samples = "";
  own.metrics.tensorboard = false;
  own.buffer.record_dir = "";
  own.profiler.timeline.enable = false;
  own.profiler.timeline.dir = "";
  const ParallelSettings& parallel = own.parallel;
  const bool of_first = rank / parallel.tensor % (parallel.data * parallel.context) == 0;
  const bool alone = engines_are_whole(settings);
  if (!of_first || alone) {
    own.eval.path = "";
    own.eval.every_steps = 0;
  }
  const bool one_loop = own.pipeline.role == PipelineRole::kTrain;
  if (!of_first && !alone && !one_loop && parallel.zero_stage == 0) own.checkpoint.every_steps = 0;
  return own;
}

// False if a rank ends.
bool RankBatches::meet(const Round& own) {
  const std::vector<Round> all = ranks_.gather(own);
  ended_ = std::ranges::any_of(all, [](const Round& r) { return r.ends != 0; });
  if (ended_) return false;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].step == own.step) continue;
    throw Error(Code::kConflict, str("rank ", r, " is at step ", all[r].step, ", and rank ",
                                     ranks_.rank(), " at step ", own.step))
        .with_location(str("rank ", r));
  }
  return true;
}

std::optional<std::vector<SamplePtr>> RankBatches::exchange(uint64_t step,
                                                            const std::vector<SamplePtr>& own) {
  if (alone()) return own;
  if (!meet({step, 0})) return std::nullopt;
  return decode_groups(ranks_.gather_lists<std::byte>(encode_groups(own)));
}

LedgerCounts RankBatches::sum(const LedgerCounts& own) const {
  if (alone()) return own;
  LedgerCounts all;
  for (const LedgerCounts& part : ranks_.gather(own)) all += part;
  return all;
}

EngineStats RankBatches::sum(const EngineStats& own) const {
  if (alone()) return own;
  EngineStats all;
  for (const EngineStats& part : ranks_.gather(own)) all += part;
  return all;
}

// Without memory for the text the others find that this rank does not come.
void RankBatches::fail(const char* why) const noexcept {
  try {
    ranks_.fail(why);
  } catch (const std::exception&) {
    return;
  }
}

void RankBatches::leave() {
  if (alone() || ended_) return;
  try {
    meet({0, 1});
  } catch (const RankError&) {
    ended_ = true;  // theirs has ended otherwise
  }
}

}  // namespace rl
