// Construction, the memory plan and the interface; the step itself is in training_step.cc.
#include "train/trainer.h"

#include <tuple>

#include "core/error.h"
#include "train/trainer_impl.h"

namespace rl {
namespace {

TrainShape shape_of(const Model& m) {
  return {m.config(), m.kv_shape(), m.matmul().executor().num_threads()};
}

TrainerOptions validated(const TrainerOptions& options) {
  validate(options);
  return options;
}

void require_same_shape(const Model& model, const Model& reference) {
  const ModelConfig &a = model.config(), &b = reference.config();
  const auto sizes = [](const ModelConfig& c) {
    return std::tuple(c.vocab, c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim, c.ffn);
  };
  if (sizes(a) == sizes(b) && model.compute_dtype() == reference.compute_dtype() &&
      model.kv_shape().block_bytes() == reference.kv_shape().block_bytes()) {
    return;
  }
  throw Error(Code::kIncompatible,
              str("the reference model (hidden ", b.hidden, ", layers ", b.layers, ", vocab ",
                  b.vocab, ") has not the shape of the trained one (hidden ", a.hidden, ", layers ",
                  a.layers, ", vocab ", a.vocab, ")"))
      .with_key("model.reference_path");
}

}  // namespace

Trainer::Impl::Impl(Model& model, const Model* reference, const TrainerOptions& options,
                    std::byte* workspace, const TrainerTools& tools)
    : model(model),
      reference(reference),
      options(validated(options)),
      place{tools.tracer, tools.lane, tools.clock},
      workspace(shape_of(model), options, workspace),
      optimizer(model.layout().total(), model.matmul().executor()),
      packed_backward(model.config(), model.layout(), model.compute_dtype(),
                      PackedWeights::Direction::kBackward),
      pass(this->workspace, place) {
  RL_CHECK(reinterpret_cast<uintptr_t>(workspace) % ArenaPlan::kAlignment == 0);
  if (reference != nullptr) require_same_shape(model, *reference);
}

TrainerSizes Trainer::plan(const ModelConfig& config, const KvShape& kv,
                           const TrainerOptions& options, int num_threads) {
  validate(options);
  const int64_t total = WeightLayout(config).total();
  const Dtype compute = kv.attention.dtype;
  const ArenaPlan workspace = plan_train_workspace({config, kv, num_threads}, options);
  return {.gradients = AdamwState::gradient_bytes(total),
          .optimizer = AdamwState::moment_bytes(total),
          .packed_backward = packed_bytes(plan_backward_shapes(config, compute), config.layers),
          .workspace = workspace.total_bytes(),
          .workspace_pieces = workspace.pieces()};
}

Trainer::Trainer(Model& model, const Model* reference, const TrainerOptions& options,
                 std::byte* workspace, const TrainerTools& tools)
    : impl_(std::make_unique<Impl>(model, reference, options, workspace, tools)) {}
Trainer::~Trainer() = default;

TrainMetrics Trainer::step(std::span<const TrainSample> samples) {
  TrainMetrics metrics = impl_->train(samples);
  impl_->publish(metrics.publish_ns);
  metrics.total_ns += metrics.publish_ns;
  return metrics;
}

void Trainer::check(std::span<const TrainSample> samples) const { impl_->check(samples); }

TrainMetrics Trainer::train(std::span<const TrainSample> samples) { return impl_->train(samples); }

void Trainer::Impl::require_whole() const {
  if (lost.empty()) return;
  throw Error(Code::kFailedPrecondition,
              str("the optimizer states are lost: reading ", lost,
                  " failed half-way; only another load helps, or another trainer"))
      .with_location(lost);
}

void Trainer::Impl::require_custom_loss() const {
  if (options.policy_loss.kind != PolicyLoss::kCustom || custom_loss) return;
  throw Error(Code::kFailedPrecondition,
              "algo.policy_loss = custom, but no loss function has been set")
      .with_key("algo.policy_loss");
}

uint64_t Trainer::publish() {
  impl_->require_whole();
  int64_t ns = 0;
  return impl_->publish(ns);
}

void Trainer::stage() { impl_->stage(); }

void Trainer::logprobs(const Model& model, std::span<const Sample* const> samples,
                       std::span<const std::span<float>> out) {
  if (&model != &impl_->model && &model != impl_->reference) {
    throw Error(Code::kInvalidArgument,
                "log-probs are of the trainer's own model or of its reference");
  }
  if (out.size() != samples.size()) {
    throw Error(Code::kInvalidArgument,
                str("out has ", out.size(), " spans, expected ", samples.size()));
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    check_sequence(*samples[i], impl_->scoring_limits(model));
    check_token_array(*samples[i], "out", out[i].size());
  }
  impl_->logprobs(model, samples, out);
}

const TrainerOptions& Trainer::options() const { return impl_->options; }

std::vector<std::span<std::byte>> Trainer::memory() const {
  std::vector<std::span<std::byte>> all = impl_->optimizer.memory();
  all.push_back(impl_->packed_backward.memory());
  return all;
}

void Trainer::set_options(const TrainerOptions& options) {
  validate(options);
  const TrainerOptions& now = impl_->options;
  const auto require_same = [](const char* key, int64_t old_value, int64_t new_value) {
    if (old_value == new_value) return;
    throw Error(Code::kNotChangeable, str(key, " is ", old_value, " and cannot become ", new_value,
                                          ": the memory plan depends on it"))
        .with_key(key);
  };
  require_same("trainer.max_tokens_per_device", now.max_tokens, options.max_tokens);
  require_same("trainer.micro_batch_size", now.batch.micro_batch_size,
               options.batch.micro_batch_size);
  require_same("trainer.sequence_packing", now.batch.packed, options.batch.packed);
  require_same("trainer.seq_len", now.batch.seq_len, options.batch.seq_len);
  require_same("trainer.pad_to_multiple_of", now.batch.pad_to, options.batch.pad_to);
  require_same("trainer.oversize", now.batch.oversize_alone, options.batch.oversize_alone);
  require_same("trainer.logprob_max_tokens_per_device", now.batch.logprob_max_tokens,
               options.batch.logprob_max_tokens);
  require_same("trainer.max_sequence", now.max_sequence, options.max_sequence);
  require_same("trainer.logprob_chunk_tokens", now.logprob_chunk_tokens,
               options.logprob_chunk_tokens);
  impl_->options = options;
}

void Trainer::set_custom_loss(CustomLoss loss) { impl_->custom_loss = std::move(loss); }

TrainerCounters Trainer::counters() const {
  return {impl_->optimizer_steps, impl_->skipped_steps, impl_->model.version()};
}

std::span<const float> Trainer::gradients() const { return impl_->optimizer.gradients(); }

std::string Trainer::save(FileSystem& fs, const std::string& dir, const CheckpointMeta& meta,
                          const CheckpointRules& rules) {
  impl_->require_whole();
  if (impl_->unpublished) {
    throw Error(Code::kFailedPrecondition,
                "a checkpoint holds published weights, but optimizer steps came after the last "
                "publication");
  }
  return save_checkpoint(fs, dir, {meta, counters()}, impl_->arrays(), rules);
}

CheckpointMeta Trainer::load(FileSystem& fs, const std::string& path,
                             const std::string& config_digest) {
  CheckpointTarget target{impl_->arrays(), impl_->optimizer.gradients()};
  CheckpointState loaded;
  try {
    loaded = load_checkpoint(fs, path, config_digest, target);
  } catch (...) {
    if (target.moments_lost) impl_->lost = path;
    impl_->optimizer.zero_gradients();
    throw;
  }
  impl_->lost.clear();
  impl_->optimizer.zero_gradients();
  impl_->optimizer_steps = loaded.counters.optimizer_steps;
  impl_->skipped_steps = loaded.counters.skipped_steps;
  impl_->model.publish_as(loaded.counters.weight_version);
  impl_->forward_stale = impl_->unpublished = false;
  impl_->backward_stale = true;
  return loaded.meta;
}

}  // namespace rl
