#include "bench/shared_prefix_case.h"

namespace rl::bench {
namespace {

TrainShape shape_of(const BenchModel& bench) {
  const Model& m = *bench.model;
  return {m.config(), m.kv_shape(), bench.executor->num_threads()};
}

TrainerOptions options_of(const GroupTraining& shape) {
  TrainerOptions o;
  o.max_tokens = shape.max_tokens;
  o.max_sequence = shape.prompt_tokens + shape.response_tokens;
  return o;
}

std::vector<Sample> make_samples(const GroupTraining& shape, int64_t vocab) {
  std::vector<Sample> out;
  for (int64_t g = 0; g < shape.groups; ++g) {
    const std::vector<int32_t> prompt = spread_ids(shape.prompt_tokens, vocab, 1000 + g);
    for (int64_t i = 0; i < shape.group_size; ++i) {
      Sample s;
      s.ids = prompt;
      s.prompt_tokens = static_cast<int32_t>(shape.prompt_tokens);
      const std::vector<int32_t> response =
          spread_ids(shape.response_tokens, vocab, g * shape.group_size + i + 1);
      s.ids.insert(s.ids.end(), response.begin(), response.end());
      s.loss_mask.assign(response.size(), 1);
      out.push_back(std::move(s));
    }
  }
  return out;
}

}  // namespace

SharedPrefixCase::SharedPrefixCase(const BenchModel& bench, BackwardWeights& packed,
                                   const GroupTraining& shape)
    : bench_(bench),
      packed_(packed),
      samples_(make_samples(shape, bench.model->config().vocab)),
      options_(options_of(shape)),
      arena_("bench training", plan_train_buffers(shape_of(bench), options_).total_bytes()),
      workspace_(shape_of(bench), options_, arena_.data()) {
  for (const Sample& s : samples_) {
    items_.push_back(make_pack_item(s, static_cast<int32_t>(items_.size()), WantedTokens::kLoss));
  }
}

PackRules SharedPrefixCase::rules(bool shared) const {
  BatchRules batch;
  batch.shared_prefix = shared;
  return {batch, options_.max_tokens, workspace_.kv.num_blocks, bench_.model->block_size()};
}

double SharedPrefixCase::seconds(bool shared, float* grads) {
  int64_t forward_ns = 0, head_ns = 0, backward_ns = 0;
  MicroBatchPass pass(workspace_, {nullptr, 0, &real_clock()});
  std::vector<float> slope, zero;
  const auto loss = [&](const HeadChunk& chunk) {
    slope.assign(chunk.wanted.size(), -1.0f / static_cast<float>(samples_.size()));
    zero.assign(chunk.wanted.size(), 0.0f);
    return HeadGradient{slope, zero};
  };
  const Stopwatch watch;
  MicroBatch micro;
  const PackRules r = rules(shared);
  for (const auto& part : plan_micro_batches(items_, r)) {
    micro.fill(part, r, WantedTokens::kLoss);
    pass.train({*bench_.model, packed_, grads}, micro, loss, {forward_ns, head_ns, backward_ns});
  }
  return watch.seconds();
}

}  // namespace rl::bench
