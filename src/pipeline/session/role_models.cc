// The models have their own arenas and share the matrix products.
#include "pipeline/session/role_models.h"

#include <tuple>

#include "core/error.h"
#include "formats/open/open_weight_source.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"

namespace rl {
namespace {

struct Role {
  const char* name;
  const char* key;  // option key of the path
  std::string ModelSettings::*path;
  ModelHead head;
  bool own_head = false;  // a head initialised with zeros is refused
  bool own_shape = false;
  bool trained = false;
};
constexpr Role kReference = {.name = "reference model",
                             .key = "model.reference_path",
                             .path = &ModelSettings::reference_path,
                             .head = ModelHead::kLogits};
constexpr Role kCritic = {.name = "critic",
                          .key = "model.critic_path",
                          .path = &ModelSettings::critic_path,
                          .head = ModelHead::kScalar,
                          .trained = true};
constexpr Role kReward = {.name = "reward model",
                          .key = "model.reward_path",
                          .path = &ModelSettings::reward_path,
                          .head = ModelHead::kScalar,
                          .own_head = true,
                          .own_shape = true};
constexpr Role kTeacher = {.name = "teacher",
                           .key = "model.teacher_path",
                           .path = &ModelSettings::teacher_path,
                           .head = ModelHead::kLogits,
                           .own_shape = true};

// Everything that arena sizes depend on.
auto sizes(const ModelConfig& c) {
  return std::tuple(c.vocab, c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim, c.ffn, c.qkv_bias,
                    c.qk_norm, c.sandwich_norms, c.num_ropes(), c.own_layers);
}

std::string shape(const ModelConfig& c) {
  return str(family_name(c.family), " with vocab ", c.vocab, ", hidden ", c.hidden, ", layers ",
             c.layers, ", heads ", c.heads, ", kv_heads ", c.kv_heads, ", head_dim ", c.head_dim,
             ", ffn ", c.ffn);
}

// Ids must mean the same tokens.
void require_same_ids(const ModelConfig& policy, const ModelConfig& given, const Role& role,
                      const std::string& path) {
  if (policy.vocab == given.vocab) return;
  throw Error(Code::kIncompatible, str("the ", role.name, " ", path, " has a vocabulary of ",
                                       given.vocab, " ids, but the policy has ", policy.vocab))
      .with_key(role.key)
      .with_expected(str(policy.vocab, " ids"))
      .with_location(path);
}

void require_positions(int64_t longest, const ModelConfig& given, const Role& role,
                       const std::string& path) {
  if (given.max_position >= longest) return;
  throw Error(Code::kIncompatible,
              str("the ", role.name, " ", path, " has ", given.max_position,
                  " positions, but a sample may have engine.max_model_len = ", longest, " tokens"))
      .with_key(role.key)
      .with_other_key("engine.max_model_len")
      .with_expected(str("at least ", longest, " positions"))
      .with_location(path);
}

// The plan has room only for a second model of the policy's shape.
void require_shape(const ModelConfig& policy, const ModelConfig& given, const Role& role,
                   const std::string& path) {
  if (sizes(policy) == sizes(given)) return;
  throw Error(Code::kIncompatible, str("the ", role.name, " ", path, " is ", shape(given),
                                       ", but the policy is ", shape(policy)))
      .with_key(role.key)
      .with_expected(shape(policy))
      .with_location(path);
}

// A head of zeros would give every sample the same score.
void require_own_head(const WeightSource& source, const Role& role) {
  if (!role.own_head || source.has_scalar_head()) return;
  throw Error(Code::kUnsupported, str("the ", role.name, " ", source.path(),
                                      " is a language model without a scalar head"))
      .with_key(role.key)
      .with_expected("a model for sequence or token classification with one label")
      .with_location(source.path());
}

std::unique_ptr<Model> load(const LoadedModel& policy, const Settings& settings, const Role& role,
                            bool filled_later = false, std::byte* borrowed = nullptr) {
  const std::string& given = settings.model.*role.path;
  Runtime& runtime = policy.runtime();
  const std::string& path = given.empty() ? policy.path() : given;
  const auto source = open_weight_source(runtime.fs(), path, role.head);
  require_own_head(*source, role);
  if (role.own_shape) {
    require_same_ids(policy.config(), source->config(), role, path);
    require_positions(policy.model().max_positions(), source->config(), role, path);
  } else {
    require_shape(policy.config(), source->config(), role, path);
  }
  ModelOptions model;
  model.max_positions = policy.model().max_positions();
  model.block_size = policy.model().block_size();
  model.kv_dtype = policy.model().kv_format().dtype;
  model.frozen = !role.trained;
  if (!role.own_shape) {
    model.split = policy.config().split;
    model.tensor = policy.model().tensor_ranks();
    model.cut = policy.model().stage_cut();
    model.stages = policy.model().stage_ranks();
  }
  if (role.trained) {
    model.master_ranks = runtime.master_ranks();
    const ModelConfig config =
        with_stage(with_split(source->config(), model.split), model.cut, model.stages.rank());
    model.masters = master_cut_from(settings, config, {}, model.master_ranks.rank());
  }
  model.filled_later = filled_later;
  model.borrowed = borrowed;
  return std::make_unique<Model>(*source, runtime.compute(), model);
}

}  // namespace

std::unique_ptr<Model> load_reference(const LoadedModel& policy, const Settings& settings,
                                      bool filled_later, std::byte* borrowed) {
  if (!uses_reference(settings)) return nullptr;
  return load(policy, settings, kReference, filled_later, borrowed);
}

void fill_reference(const LoadedModel& policy, const Settings& settings, Model& reference) {
  const std::string& given = settings.model.reference_path;
  const std::string& path = given.empty() ? policy.path() : given;
  const auto source = open_weight_source(policy.runtime().fs(), path, kReference.head);
  require_shape(policy.config(), source->config(), kReference, path);
  reference.fill(*source);
}

bool reference_is_policy(const LoadedModel& policy, const Settings& settings) {
  const Model& model = policy.model();
  return uses_reference(settings) && settings.model.reference_path.empty() &&
         settings.reference.weights == ReferenceWeights::kInitial && model.num_packings() == 1 &&
         !model.masters_changed();
}

std::unique_ptr<Model> load_reward_model(const LoadedModel& policy, const Settings& settings) {
  return load(policy, settings, kReward);
}

std::unique_ptr<Model> load_teacher(const LoadedModel& policy, const Settings& settings) {
  return load(policy, settings, kTeacher);
}

std::unique_ptr<Model> load_critic(const LoadedModel& policy, const Settings& settings) {
  return load(policy, settings, kCritic);
}

}  // namespace rl
