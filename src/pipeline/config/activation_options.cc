// The modules of Megatron's list that the supported models lack are refused with the reason.
#include "pipeline/config/activation_options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/encoding/unicode.h"
#include "core/error.h"

namespace rl {
namespace {

[[noreturn]] void refuse_module(size_t index, const std::string& entry, const char* why) {
  constexpr const char* kKey = "trainer.recompute_modules";
  throw Error(Code::kInvalidArgument, str(kKey, "[", index, "] is ", quote_text(entry), ", ", why))
      .with_key(kKey)
      .with_expected("mlp, qkv, core_attn or o_proj")
      .with_location(str(kKey, "[", index, "]"));
}

void set_modules(const std::vector<std::string>& names, ActivationRule& rule) {
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    if (name == "mlp") {
      rule.mlp = true;
    } else if (name == "qkv") {
      rule.qkv = true;
    } else if (name == "core_attn") {
      rule.attention = true;
    } else if (name == "o_proj") {
      rule.residual = true;
    } else if (name == "layernorm") {
      refuse_module(i, name, "but norms are always computed again");
    } else if (name == "moe" || name == "moe_act" || name == "shared_experts") {
      refuse_module(i, name, "but the supported models have no experts");
    } else if (name == "mla_up_proj") {
      refuse_module(i, name, "but the supported models have no latent attention");
    } else {
      refuse_module(i, name, "which is unknown");
    }
  }
  if (names.empty()) rule.mlp = true;
}

RecomputeGranularity granularity_of(TrainerRecomputeGranularity g) {
  return g == TrainerRecomputeGranularity::kNone        ? RecomputeGranularity::kNone
         : g == TrainerRecomputeGranularity::kSelective ? RecomputeGranularity::kSelective
                                                        : RecomputeGranularity::kFull;
}

// Of the critic: its own, or the policy's.
RecomputeGranularity granularity_of_critic(const Settings& settings) {
  switch (settings.critic.recompute_granularity) {
    case CriticRecomputeGranularity::kNone:
      return RecomputeGranularity::kNone;
    case CriticRecomputeGranularity::kSelective:
      return RecomputeGranularity::kSelective;
    case CriticRecomputeGranularity::kFull:
      return RecomputeGranularity::kFull;
    case CriticRecomputeGranularity::kPolicy:
      break;
  }
  return granularity_of(settings.trainer.recompute_granularity);
}

// What the granularity does not read stays at its default. Full without method or number, which the
// registry's rules refuse, is uniform with groups of one.
ActivationRule rule_of(const TrainerSettings& trainer, RecomputeGranularity granularity) {
  ActivationRule rule;
  rule.granularity = granularity;
  rule.offload = trainer.activation_offload;
  if (granularity == RecomputeGranularity::kSelective) set_modules(trainer.recompute_modules, rule);
  if (!rule.is_full()) return rule;
  if (trainer.recompute_method == TrainerRecomputeMethod::kBlock)
    rule.method = RecomputeMethod::kBlock;
  rule.num_layers = std::max<int64_t>(1, trainer.recompute_num_layers);
  return rule;
}

}  // namespace

ActivationRule activation_rule_from(const Settings& settings) {
  return rule_of(settings.trainer, granularity_of(settings.trainer.recompute_granularity));
}

ActivationRule critic_activation_rule_from(const Settings& settings) {
  return rule_of(settings.trainer, granularity_of_critic(settings));
}

}  // namespace rl
