// The same forward, head and packing as every other log-prob.
#include "train/roles/teacher.h"

#include <algorithm>

#include "core/error.h"
#include "train/passes/head_rows.h"
#include "train/passes/pass_rules.h"

namespace rl {
uint64_t Teacher::workspace_bytes(const TrainShape& shape, const StepOptions& options) {
  return ScoringBuffers::bytes(shape, options);
}

Teacher::Teacher(const Model& model, const StepOptions& options, std::byte* workspace,
                 const PassContext& context)
    : model_(model),
      options_(options),
      context_(context),
      buffers_(shape_of(model), options, workspace) {
  RL_CHECK(reinterpret_cast<uintptr_t>(workspace) % ArenaPlan::kAlignment == 0);
}

void Teacher::check(const Sample& sample) const {
  check_sequence(sample, forward_limits(options_, model_, ForwardOf::kOwn));
}

void Teacher::logprobs(std::span<const Sample* const> samples,
                       std::span<const std::span<float>> out) {
  RL_CHECK(out.size() == samples.size());
  int64_t ns = 0;
  const PhaseTimer phase(context_, "train.teacher", ns);
  std::vector<PackItem> all;
  for (const Sample* s : samples) {
    const auto index = static_cast<int32_t>(all.size());
    all.push_back(make_pack_item(*s, index, WantedTokens::kGenerated));
  }
  const PackRules rules = forward_rules(options_, model_, ForwardOf::kOwn);
  MicroBatch micro;
  for (const auto& some : plan_micro_batches(all, rules)) {
    micro.fill(some, rules, WantedTokens::kGenerated);
    score(micro, out);
    context_.end_micro_batch();
  }
}

void Teacher::score(const MicroBatch& micro, std::span<const std::span<float>> out) {
  RL_CHECK(micro.blocks() <= buffers_.kv.num_blocks);
  forward(model_, micro.batch(), buffers_.kv, buffers_.forward, nullptr);
  const std::span<const WantedRow> wanted = micro.wanted();
  const auto most = static_cast<size_t>(buffers_.head.max_rows);
  for (size_t at = 0; at < wanted.size(); at += most) {
    const auto chunk = wanted.subspan(at, std::min(most, wanted.size() - at));
    set_head_rows(chunk, rows_, ids_, inv_temperature_);
    gather_rows(model_, buffers_.forward.hidden, rows_, buffers_.head);
    head_forward(model_, inv_temperature_, buffers_.head);
    logprobs_.resize(chunk.size());
    head_scores(model_, buffers_.head, ids_, {logprobs_, {}});
    for (size_t i = 0; i < chunk.size(); ++i) {
      out[static_cast<size_t>(chunk[i].item)][static_cast<size_t>(chunk[i].generated)] =
          logprobs_[i];
    }
  }
}

}  // namespace rl
