// Checks that the registry cannot make: the model's own limit, multiples, and padded lengths.
#include "pipeline/plan/batch_check.h"

#include <algorithm>

#include "pipeline/config/activation_options.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"

namespace rl {

Error conflict(const char* key, const char* other, std::string message) {
  return Error(Code::kConflict, std::move(message)).with_key(key).with_other_key(other);
}

namespace {

// Unless samples above a budget get their own micro-batch, a budget that is set must hold the
// longest sample, whose last token usually is not a row.
void check_budget(const TokenOption& budget, int64_t longest, Violations& v, bool last_row = false,
                  bool cut = false) {
  const auto& [key, tokens, ranks] = budget;
  const int64_t rows = last_row ? longest : longest - 1, least = (rows + ranks - 1) / ranks;
  if (tokens == 0 || tokens >= least) return;
  const std::string is = str(
      key, " is ", tokens, ranks > 1 ? str(" on each of ", ranks, " parallel.context ranks") : "");
  if (cut) {
    v.add(conflict(key, "trainer.seq_len",
                   str(is, ", but trainer.oversize = cut leaves samples of up to ", rows, " rows"))
              .with_expected(str("0, or at least ", least)));
    return;
  }
  v.add(conflict(key, "engine.max_model_len",
                 str(is, ", but a sample may have up to engine.max_model_len = ", longest,
                     " tokens and trainer.oversize is error"))
            .with_expected(str("0, or at least ", least)));
}

// The budgets of the roles in this run.
void check_roles(const Settings& settings, int64_t longest, Violations& v) {
  const bool cut = settings.trainer.oversize == TrainerOversize::kCut;
  const int64_t reward = settings.reward.forward_max_tokens_per_device;
  if (!cut) check_budget({"reward.forward_max_tokens_per_device", reward}, longest, v, true);
  if (has_critic(settings)) {
    const CriticSettings& critic = settings.critic;
    check_budget(
        {"critic.max_tokens_per_device", critic.max_tokens_per_device, settings.parallel.context},
        longest, v, false, cut);
    check_budget({"critic.forward_max_tokens_per_device", critic.forward_max_tokens_per_device},
                 longest, v, false, cut);
  }
  const int64_t reference = settings.reference.forward_max_tokens_per_device;
  check_budget({"reference.forward_max_tokens_per_device", reference}, longest, v, false, cut);
}

// One sequence with its padding must fit a micro-batch.
void check_padding(const Settings& settings, const BatchRules& batch, int64_t longest,
                   Violations& v) {
  const int64_t budget = of_all_ranks(settings, settings.trainer.max_tokens_per_device);
  const int64_t padded = batch.padded(std::min(longest - 1 + last_rows(settings), budget));
  if (budget == 0 || padded <= budget) return;
  const TrainerSettings& trainer = settings.trainer;
  const bool by_length = batch.seq_len != 0;
  const char* key = by_length ? "trainer.seq_len" : "trainer.pad_to_multiple_of";
  const int64_t value = by_length ? trainer.seq_len : trainer.pad_to_multiple_of;
  const int64_t ranks = settings.parallel.context;
  const std::string each =
      ranks > 1 ? str(" on each of parallel.context = ", ranks, " ranks") : std::string();
  v.add(conflict(key, "trainer.max_tokens_per_device",
                 str(key, " is ", value, " and pads a sequence to ", padded,
                     " rows, but trainer.max_tokens_per_device allows ", budget / ranks, each))
            .with_expected(str("trainer.max_tokens_per_device of 0, or at least ",
                               (padded + ranks - 1) / ranks)));
}

void check_global_size(const Settings& settings, const BatchRules& batch, Violations& v) {
  const int64_t samples = trained_units(settings);
  if (batch.global_batch_size == 0 || samples % batch.global_batch_size == 0) return;
  const bool generates = is_rl(settings.algo.objective);
  v.add(
      conflict(
          "trainer.global_batch_size",
          generates ? "pipeline.samples_per_prompt" : "pipeline.prompts_per_step",
          str("trainer.global_batch_size is ", batch.global_batch_size,
              generates ? ", but the number of samples of a step, pipeline.prompts_per_step times "
                          "pipeline.samples_per_prompt = "
                        : ", but the number of responses of a step, pipeline.prompts_per_step = ",
              samples, generates ? ", is not a multiple of it" : " rows, is not a multiple of it"))
          .with_expected(str("a divisor of ", samples)));
}

}  // namespace

void check_batches(const Settings& settings, int64_t longest_sample, bool in_pipeline,
                   Violations& v) {
  const BatchRules batch = batch_rules_from(settings);
  const int64_t longest = trained_length(settings, longest_sample);
  if (!batch.oversize_alone) {
    const bool last_row = last_rows(settings) > 0;
    const TrainerSettings& trainer = settings.trainer;
    for (const TokenOption& budget :
         {TokenOption{"trainer.max_tokens_per_device", trainer.max_tokens_per_device,
                      settings.parallel.context},
          TokenOption{"trainer.seq_len", trainer.seq_len},
          TokenOption{"trainer.logprob_max_tokens_per_device",
                      trainer.logprob_max_tokens_per_device}}) {
      check_budget(budget, longest, v, last_row, batch.cuts);
    }
    check_roles(settings, longest, v);
  }
  if (batch.micro_batch_size == 0) check_padding(settings, batch, longest, v);
  if (in_pipeline) check_global_size(settings, batch, v);
}

namespace {

void check_activations(const ActivationRule& rule, int64_t layers) {
  if (rule.is_full() && rule.num_layers > layers) {
    throw Error(Code::kOutOfRange, str("trainer.recompute_num_layers is ", rule.num_layers,
                                       ", but the model has ", layers, " layers"))
        .with_key("trainer.recompute_num_layers")
        .with_expected(str("1..", layers));
  }
  const int64_t inputs = rule.num_inputs(layers);
  if (!rule.offload || inputs > kInputsOnDevice) return;
  throw conflict("trainer.activation_offload", "trainer.recompute_granularity",
                 str("trainer.activation_offload moves layer inputs beyond the ", kInputsOnDevice,
                     " that the device holds, but a backward keeps ", inputs))
      .with_expected("false");
}

}  // namespace

void check_context(const Settings& settings, const ModelConfig& config, int64_t parts,
                   const char* path, Violations& v) {
  const ContextRule rule = context_rule_from(settings);
  if (!rule.by_heads()) return;
  const std::string of_parts =
      parts > 1 ? str(" times parallel.reduction_parts = ", parts) : std::string();
  for (int64_t l = 0; l < config.layers; ++l) {
    const LayerShape shape = config.layer(l);
    const auto refuse = [&](int64_t heads, const char* what) {
      v.add(Error(Code::kIncompatible,
                  str("parallel.context_kind = ulysses divides the heads of attention, but layer ",
                      l, " of ", path, " has ", heads, " ", what, ", which parallel.context = ",
                      rule.ranks, of_parts, " does not divide; all_gather divides any model"))
                .with_key("parallel.context_kind")
                .with_other_key("parallel.context")
                .with_expected("all_gather"));
    };
    if (shape.heads % (rule.ranks * parts) != 0) return refuse(shape.heads, "heads");
    if (shape.kv_heads % (rule.ranks * parts) != 0) return refuse(shape.kv_heads, "KV heads");
  }
}

void check_recompute(const Settings& settings, int64_t layers, Violations& v) {
  v.collect([&] {
    check_activations(activation_rule_from(settings), layers);
    if (has_critic(settings)) check_activations(critic_activation_rule_from(settings), layers);
  });
}

}  // namespace rl
