// Rows that carry no loss have a zero hidden gradient; the others get theirs from the head chunks.
// The last row of a shared prompt gets the sum over its samples, in their order.
#include "train/passes/micro_batch_pass.h"

#include <algorithm>

#include "core/error.h"
#include "model/value_head.h"
#include "ops/compute.h"
#include "train/passes/head_rows.h"

namespace rl {

void MicroBatchPass::for_chunks(const MicroBatch& micro,
                                FunctionRef<void(std::span<const WantedRow> wanted)> visit) const {
  const std::span<const WantedRow> wanted = micro.wanted();
  for (size_t at = 0; at < wanted.size(); at += chunk_rows())
    visit(wanted.subspan(at, std::min(chunk_rows(), wanted.size() - at)));
}

HeadChunk MicroBatchPass::forward_chunk(const Model& model, const std::byte* hidden,
                                        HeadBuffers& head, std::span<const WantedRow> wanted) {
  set_head_rows(wanted, rows_, ids_, inv_temperature_);
  gather_rows(model, hidden, rows_, head);
  logprobs_.resize(wanted.size());
  entropies_.resize(wanted.size());
  head_scores_by_part(model, ids_, inv_temperature_, head, {logprobs_, entropies_});
  return {wanted, logprobs_, entropies_, &head};
}

void MicroBatchPass::score(const Model& model, const MicroBatch& micro,
                           FunctionRef<void(const HeadChunk& chunk)> visit) {
  ScoringBuffers& b = workspace_.scoring;
  RL_CHECK(micro.blocks() <= b.kv.num_blocks);
  forward(model, micro.batch(), b.kv, b.forward, nullptr);
  if (model.config().has_head()) {
    for_chunks(micro, [&](std::span<const WantedRow> wanted) {
      visit(forward_chunk(model, b.forward.hidden, b.head, wanted));
    });
  }
  context_.end_micro_batch();
}

void MicroBatchPass::backward_chunk(const Training& t, const HeadChunk& chunk,
                                    const HeadGradient& grad, HeadGradients wanted) {
  HeadBuffers& head = workspace_.head;
  RL_CHECK(grad.d_logprob.size() == chunk.wanted.size());
  RL_CHECK(grad.d_entropy.size() == chunk.wanted.size());
  head_backward(t.model,
                {t.packed, ids_, inv_temperature_, grad.d_logprob, grad.d_entropy, t.gradients,
                 grad.d_tempered, t.layout, wanted},
                head);
  if (wanted == HeadGradients::kWeights) return;
  scatter_add_rows(t.model.compute(),
                   {head.d_hidden, rows_, t.model.config().hidden, workspace_.d_hidden});
}

void MicroBatchPass::run_head(const Training& t, const MicroBatch& micro,
                              FunctionRef<HeadGradient(const HeadChunk& chunk)> loss) {
  for_chunks(micro, [&](std::span<const WantedRow> wanted) {
    const HeadChunk chunk =
        forward_chunk(t.model, workspace_.forward.hidden, workspace_.head, wanted);
    backward_chunk(t, chunk, loss(chunk));
  });
}

ValueChunk MicroBatchPass::forward_values(const Model& model, const ForwardBuffers& forward,
                                          std::span<const WantedRow> wanted) {
  rows_.clear();
  for (const WantedRow& w : wanted) rows_.push_back(w.row);
  values_.resize(wanted.size());
  value_forward(model, forward.hidden, rows_, values_);
  return {wanted, values_};
}

void MicroBatchPass::score_values(const Model& model, const MicroBatch& micro,
                                  FunctionRef<void(const ValueChunk& chunk)> visit) {
  ScoringBuffers& b = workspace_.scoring;
  RL_CHECK(micro.blocks() <= b.kv.num_blocks);
  forward(model, micro.batch(), b.kv, b.forward, nullptr);
  visit(forward_values(model, b.forward, micro.wanted()));
  context_.end_micro_batch();
}

void MicroBatchPass::run_layers(const Training& t, const MicroBatch& micro,
                                FunctionRef<void()> head, const Times& times) {
  const ForwardBatch batch = micro.batch();
  RL_CHECK(micro.blocks() <= workspace_.kv.num_blocks);
  {
    PhaseTimer phase(context_, "train.forward", times.forward_ns);
    phase.set_tokens(micro.rows());
    forward(t.model, batch, workspace_.kv, workspace_.forward, &workspace_.saved);
  }
  {
    PhaseTimer phase(context_, "train.head", times.head_ns);
    phase.set_tokens(static_cast<int64_t>(micro.wanted().size()));
    const int64_t floats = micro.rows() * t.model.config().hidden;
    zero_floats(t.model.compute(), {workspace_.d_hidden, floats});
    head();
  }
  PhaseTimer phase(context_, "train.backward", times.backward_ns);
  phase.set_tokens(micro.rows());
  backward(t.model, batch, workspace_.kv, workspace_.forward, workspace_.saved, workspace_.backward,
           {t.packed, t.gradients, workspace_.d_hidden, t.layout, t.layer_done});
}

void MicroBatchPass::train(const Training& t, const MicroBatch& micro,
                           FunctionRef<HeadGradient(const HeadChunk& chunk)> loss,
                           const Times& times) {
  run_layers(
      t, micro, [&] { run_head(t, micro, loss); }, times);
  context_.end_micro_batch();
}

void MicroBatchPass::train_values(const Training& t, const MicroBatch& micro,
                                  FunctionRef<std::span<const float>(const ValueChunk& chunk)> loss,
                                  const Times& times) {
  const auto head = [&] {
    const ValueChunk chunk = forward_values(t.model, workspace_.forward, micro.wanted());
    const std::span<const float> d_value = loss(chunk);
    RL_CHECK(d_value.size() == chunk.wanted.size());
    value_backward(t.model, {workspace_.forward.hidden, rows_, d_value, workspace_.d_hidden,
                             t.gradients, t.layout});
  };
  run_layers(t, micro, head, times);
  context_.end_micro_batch();
}

}  // namespace rl
