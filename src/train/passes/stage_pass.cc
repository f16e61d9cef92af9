#include "train/passes/stage_pass.h"

#include <algorithm>

#include "core/error.h"
#include "model/token_embedding.h"
#include "ops/compute.h"

namespace rl {
namespace {

void append(std::vector<float>& to, std::span<const float> values) {
  to.insert(to.end(), values.begin(), values.end());
}

}  // namespace

StagePass::StagePass(MicroBatchPass& pass, const MicroBatchPass::Training& training,
                     std::span<const MicroBatch> micros, Loss loss,
                     const MicroBatchPass::Times& times)
    : pass_(pass),
      workspace_(pass.workspace_),
      training_(training),
      model_(training.model),
      config_(training.model.config()),
      stage_(config_.stage),
      ranks_(model_.stage_ranks()),
      micros_(micros),
      loss_(loss),
      times_(times) {
  if (config_.copies_embedding()) head_gradients_.resize(micros.size());
}

void StagePass::run() {
  const auto count = static_cast<int64_t>(micros_.size());
  const int64_t ahead = std::min(in_flight() - 1, count);
  int64_t forwards = 0, backwards = 0;
  while (forwards < ahead) forward_of(forwards++);
  while (forwards < count) {
    forward_of(forwards++);
    backward_of(backwards++);
  }
  while (backwards < count) backward_of(backwards++);
  finish();
}

SavedActivations& StagePass::saved_of(int64_t micro) {
  const auto slot = static_cast<size_t>(micro % in_flight());
  return slot == 0 ? workspace_.saved : workspace_.stage.others[slot - 1].saved;
}

const KvPool& StagePass::kv_of(int64_t micro) const {
  const auto slot = static_cast<size_t>(micro % in_flight());
  return slot == 0 ? workspace_.kv : workspace_.stage.others[slot - 1].kv;
}

void StagePass::forward_of(int64_t micro) {
  const MicroBatch& batch = micro_of(micro);
  RL_CHECK(batch.blocks() <= kv_of(micro).num_blocks);
  {
    PhaseTimer phase(pass_.context_, "train.forward", times_.forward_ns);
    phase.set_tokens(batch.rows());
    forward(model_, batch.batch(), kv_of(micro), workspace_.forward, &saved_of(micro));
  }
  if (!config_.has_head()) return;
  // The stage before takes the last gradient next, after it has sent what this forward has read.
  // Until then that gradient lies where the head's buffers begin.
  ranks_.wait_gradient();
  if (config_.copies_embedding()) settle_until(micro - stage_.stages + 1);
  head_of(micro);
}

void StagePass::head_of(int64_t micro) {
  const MicroBatch& batch = micro_of(micro);
  const bool later = config_.copies_embedding();
  PhaseTimer phase(pass_.context_, "train.head", times_.head_ns);
  phase.set_tokens(static_cast<int64_t>(batch.wanted().size()));
  zero_floats(model_.compute(), {workspace_.d_hidden, batch.rows() * config_.hidden});
  pass_.for_chunks(batch, [&](std::span<const WantedRow> wanted) {
    const HeadChunk chunk =
        pass_.forward_chunk(model_, workspace_.forward.hidden, workspace_.head, wanted);
    const HeadGradient gradient = loss_(chunk);
    if (later) {
      RL_CHECK(gradient.d_tempered == nullptr);
      HeadRowGradients& kept = head_gradients_[static_cast<size_t>(micro)];
      append(kept.logprob, gradient.d_logprob);
      append(kept.entropy, gradient.d_entropy);
    }
    pass_.backward_chunk(training_, chunk, gradient,
                         later ? HeadGradients::kHidden : HeadGradients::kBoth);
  });
  if (later) keep_head_input(micro);
}

void StagePass::keep_head_input(int64_t micro) {
  const auto bytes = static_cast<uint64_t>(micro_of(micro).rows() * config_.hidden) *
                     dtype_bytes(model_.compute_dtype());
  copy_bytes(model_.compute(),
             {workspace_.forward.hidden, workspace_.stage.hidden[slot_of(micro)], bytes});
}

void StagePass::backward_of(int64_t micro) {
  const ForwardBatch batch = micro_of(micro).batch();
  PhaseTimer phase(pass_.context_, "train.backward", times_.backward_ns);
  phase.set_tokens(batch.rows());
  if (in_flight() > 1) place_rows(model_, batch, kv_of(micro), workspace_.forward);
  backward(model_, batch, kv_of(micro), workspace_.forward, saved_of(micro), workspace_.backward,
           {training_.packed, training_.gradients,
            config_.has_head() ? workspace_.d_hidden : nullptr, training_.layout});
  if (!workspace_.stage.embedding.empty()) send_embedding_gradient(micro);
}

void StagePass::send_embedding_gradient(int64_t micro) {
  const size_t slot = slot_of(micro);
  ranks_.wait_embedding(static_cast<int64_t>(slot));
  float* const to = workspace_.stage.embedding[slot];
  const auto floats = static_cast<size_t>(micro_of(micro).rows() * config_.hidden);
  copy_bytes(model_.compute(), {workspace_.backward.dx, to, floats * sizeof(float)});
  ranks_.start_embedding({to, floats}, static_cast<int64_t>(slot));
}

void StagePass::settle_until(int64_t end) {
  for (; settled_ < end; ++settled_) {
    PhaseTimer phase(pass_.context_, "train.head", times_.head_ns);
    add_head_gradient(settled_);
    add_embedding_gradient(settled_);
  }
}

void StagePass::add_head_gradient(int64_t micro) {
  const HeadRowGradients& kept = head_gradients_[static_cast<size_t>(micro)];
  size_t at = 0;
  pass_.for_chunks(micro_of(micro), [&](std::span<const WantedRow> wanted) {
    const HeadChunk chunk = pass_.forward_chunk(model_, workspace_.stage.hidden[slot_of(micro)],
                                                workspace_.head, wanted);
    pass_.backward_chunk(training_, chunk,
                         {std::span(kept.logprob).subspan(at, wanted.size()),
                          std::span(kept.entropy).subspan(at, wanted.size())},
                         HeadGradients::kWeights);
    at += wanted.size();
  });
}

void StagePass::add_embedding_gradient(int64_t micro) {
  const std::span<const int32_t> ids = micro_of(micro).batch().ids;
  float* const dx = workspace_.d_hidden;
  ranks_.receive_embedding({dx, ids.size() * static_cast<size_t>(config_.hidden)});
  const WeightLayout& layout = training_.layout != nullptr ? *training_.layout : model_.layout();
  rl::add_embedding_gradient(model_, {ids, dx, layout.gradient_of(layout.head()),
                                      training_.gradients, workspace_.forward.parts, nullptr});
}

void StagePass::finish() {
  ranks_.wait_gradient();
  if (config_.copies_embedding()) settle_until(static_cast<int64_t>(micros_.size()));
  for (size_t slot = 0; slot < workspace_.stage.embedding.size(); ++slot)
    ranks_.wait_embedding(static_cast<int64_t>(slot));
}

}  // namespace rl
