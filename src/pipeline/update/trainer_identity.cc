// Sizes, frozen models and the configuration have entries of their own in place of option texts.
#include "pipeline/update/trainer_identity.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/hash.h"
#include "core/violations.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/session/loaded_model.h"

namespace rl {
namespace {

// Options that bits of a run depend on, but those of a trainer's steps do not, or not by their
// text; and the layout of ranks, which another run may change, but not the parts of sums.
bool has_other_entry(std::string_view key) {
  if (key == "parallel.reduction_parts") return false;
  constexpr std::string_view kOthers[] = {
      "parallel.",        "comm.", "sampling.", "runtime.memory_", "model.chat_template_path",
      "model.critic_path"};
  return std::ranges::any_of(kOthers, [&](auto begin) { return key.starts_with(begin); });
}

void add(Digest64& digest, double value) { digest.update_u64(std::bit_cast<uint64_t>(value)); }

void add(Digest64& digest, const RopeSpec& rope) {
  for (const double value : {rope.theta, rope.factor, rope.low_freq_factor, rope.high_freq_factor,
                             rope.beta_fast, rope.beta_slow, rope.attention_factor}) {
    add(digest, value);
  }
  digest.update_u64(static_cast<uint64_t>(rope.scaling));
  digest.update_u64(static_cast<uint64_t>(rope.original_positions));
  digest.update_u64(rope.truncate ? 1 : 0);
}

// All that the forward of a model depends on besides its weights.
uint64_t forward_digest(const ModelConfig& c) {
  Digest64 digest;
  add(digest, c.rms_eps);
  add(digest, c.rope);
  if (c.local_rope) add(digest, *c.local_rope);
  add(digest, c.query_scalar);
  for (const bool flag : {c.tied_head, c.scalar_head, c.qkv_bias, c.qk_norm, c.sandwich_norms,
                          c.scaled_embedding, c.local_rope.has_value()}) {
    digest.update_u64(flag ? 1 : 0);
  }
  digest.update_u64(static_cast<uint64_t>(c.activation));
  digest.update_u64(static_cast<uint64_t>(c.norm_weight));
  for (int64_t l = 0; l < c.layers; ++l) {
    const LayerShape shape = c.layer(l);
    for (const int64_t n : {shape.heads, shape.kv_heads, shape.head_dim, shape.ffn, shape.window}) {
      digest.update_u64(static_cast<uint64_t>(n));
    }
  }
  return digest.value();
}

std::string model_text(const ModelConfig& c) {
  return str("a ", family_name(c.family), " with vocabulary ", c.vocab, ", hidden ", c.hidden,
             ", layers ", c.layers, ", heads ", c.heads, ", kv_heads ", c.kv_heads, ", ffn ", c.ffn,
             ", configuration ", hex64(forward_digest(c)));
}

// The texts of an option, or a word where it has none.
std::string shown(const std::string& text) { return text.empty() ? "empty" : text; }

}  // namespace

TrainerIdentity trainer_identity(const Settings& settings, const MemoryPlan& plan,
                                 const LoadedModel& model) {
  TrainerIdentity out;
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    if (!info.affects_determinism || info.pipeline_only || has_other_entry(info.key)) continue;
    out[info.key] = settings.set.get_text(info.key);
  }
  out["model.dtype"] = dtype_name(plan.compute);
  out["trainer.max_tokens_per_device"] = str(plan.max_tokens);
  out["engine.max_model_len"] = str(plan.max_model_len);
  out["model.path"] = model_text(model.config());
  const std::string& reference = settings.model.reference_path;
  out["model.reference_path"] = !uses_reference(settings) ? ""
                                : reference.empty()       ? model.path()
                                                          : reference;
  if (settings.algo.objective != Objective::kDistill) out["model.teacher_path"] = "";
  // The penalty of long responses begins below it.
  if (settings.algo.reward.overlong_buffer != 0) {
    out["sampling.max_new_tokens"] = str(settings.sampling.max_new_tokens);
  }
  return out;
}

void require_same_identity(const TrainerIdentity& stored, const TrainerIdentity& now,
                           const std::string& location) {
  const OptionSet defaults;
  const auto text_in = [&](const TrainerIdentity& identity, const std::string& key) {
    const auto found = identity.find(key);
    if (found != identity.end()) return found->second;
    return find_option(key) != nullptr ? defaults.get_text(key) : std::string();
  };
  std::set<std::string> keys;
  for (const TrainerIdentity* identity : {&stored, &now}) {
    for (const auto& [key, text] : *identity) keys.insert(key);
  }
  Violations violations;
  for (const std::string& key : keys) {
    const std::string then = text_in(stored, key), here = text_in(now, key);
    if (then == here) continue;
    violations.add(
        Error(Code::kIncompatible, str(key, " is ", shown(here), ", but it was ", shown(then),
                                       " in the trainer that saved ", location))
            .with_key(key)
            .with_expected(then)
            .with_location(location));
  }
  violations.throw_any();
}

}  // namespace rl
