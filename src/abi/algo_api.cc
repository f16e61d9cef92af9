// Algorithms on a host's arrays, and the host's own functions in their place.
#include <limits>

#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/handles.h"
#include "abi/samples.h"
#include "abi/user_data.h"
#include "pipeline/update/algo_calls.h"

using namespace rl;
using namespace rl::abi;

namespace {

template <typename T>
std::span<const T> optional_arg(const T* data, size_t count, const char* parameter) {
  return data == nullptr ? std::span<const T>() : array_arg(data, count, parameter);
}

AlgoArrays arrays_of(const rl_algo_tokens* given) {
  const rl_algo_tokens t = input_struct(given, "tokens");
  AlgoArrays a;
  a.lengths = array_arg(t.lengths, t.num_sequences, "tokens.lengths");
  a.groups = optional_arg(t.groups, t.num_sequences, "tokens.groups");
  a.truncated = optional_arg(t.truncated, t.num_sequences, "tokens.truncated");
  a.rewards = optional_arg(t.rewards, t.num_sequences, "tokens.rewards");
  a.baselines = optional_arg(t.baselines, t.num_sequences, "tokens.baselines");
  a.sample_ids = optional_arg(t.sample_ids, t.num_sequences, "tokens.sample_ids");
  if (t.num_reward_parts > kMaxRewardParts) {
    refuse("tokens.num_reward_parts",
           str("is ", t.num_reward_parts, ", expected at most ", kMaxRewardParts));
  }
  a.reward_parts =
      optional_arg(t.reward_parts, t.num_sequences * t.num_reward_parts, "tokens.reward_parts");
  int64_t tokens = 0;
  for (const int32_t n : a.lengths) tokens += std::max(n, 0);
  if (static_cast<size_t>(tokens) != t.num_tokens) {
    refuse("tokens.num_tokens", str("is ", t.num_tokens, " but the lengths have ", tokens));
  }
  a.mask = optional_arg(t.mask, t.num_tokens, "tokens.mask");
  a.logprobs = optional_arg(t.logprobs, t.num_tokens, "tokens.logprobs");
  a.old_logprobs = optional_arg(t.old_logprobs, t.num_tokens, "tokens.old_logprobs");
  a.rollout_logprobs = optional_arg(t.rollout_logprobs, t.num_tokens, "tokens.rollout_logprobs");
  a.ref_logprobs = optional_arg(t.ref_logprobs, t.num_tokens, "tokens.ref_logprobs");
  a.advantages = optional_arg(t.advantages, t.num_tokens, "tokens.advantages");
  a.token_rewards = optional_arg(t.token_rewards, t.num_tokens, "tokens.token_rewards");
  a.values = optional_arg(t.values, t.num_tokens, "tokens.values");
  a.old_values = optional_arg(t.old_values, t.num_tokens, "tokens.old_values");
  a.returns = optional_arg(t.returns, t.num_tokens, "tokens.returns");
  a.entropies = optional_arg(t.entropies, t.num_tokens, "tokens.entropies");
  a.weights = optional_arg(t.weights, t.num_tokens, "tokens.weights");
  a.total_tokens = static_cast<int64_t>(t.total_tokens);
  a.total_sequences = static_cast<int64_t>(t.total_sequences);
  for (const uint8_t v : a.mask) bool_arg(v, "tokens.mask");
  for (const uint8_t v : a.truncated) bool_arg(v, "tokens.truncated");
  return a;
}

template <typename T>
void require_out(const T* out, size_t seen, const rl_algo_tokens* tokens, const char* parameter) {
  require(out, parameter);
  if (seen == tokens->num_tokens) return;
  refuse(parameter, str("has ", seen, " entries but there are ", tokens->num_tokens, " tokens"));
}

template <typename T>
const T* data_or_null(std::span<const T> values) {
  return values.empty() ? nullptr : values.data();
}

// The arrays as a host's own function sees them.
rl_algo_tokens tokens_of(const AlgoArrays& a) {
  rl_algo_tokens t;
  rl_algo_tokens_init(&t, sizeof t);
  t.lengths = data_or_null(a.lengths);
  t.num_sequences = a.lengths.size();
  t.num_tokens = a.mask.size();
  t.groups = data_or_null(a.groups);
  t.mask = data_or_null(a.mask);
  t.truncated = data_or_null(a.truncated);
  t.logprobs = data_or_null(a.logprobs);
  t.old_logprobs = data_or_null(a.old_logprobs);
  t.rollout_logprobs = data_or_null(a.rollout_logprobs);
  t.ref_logprobs = data_or_null(a.ref_logprobs);
  t.advantages = data_or_null(a.advantages);
  t.rewards = data_or_null(a.rewards);
  t.baselines = data_or_null(a.baselines);
  t.token_rewards = data_or_null(a.token_rewards);
  t.sample_ids = data_or_null(a.sample_ids);
  t.num_reward_parts = a.lengths.empty() ? 0 : a.reward_parts.size() / a.lengths.size();
  t.reward_parts = data_or_null(a.reward_parts);
  return t;
}

CustomAdvantage custom_advantage(rl_advantage_fn fn, UserData user) {
  if (fn == nullptr) return nullptr;
  const auto kept = std::make_shared<const UserData>(std::move(user));
  return [fn, kept](const AlgoArrays& in, std::span<double> advantages) {
    const rl_algo_tokens tokens = tokens_of(in);
    const CallbackScope scope;
    const int32_t returned = fn(kept->data(), &tokens, advantages.data());
    if (returned == 0) return;
    throw Error(Code::kCancelled, str("the advantage function returned ", returned))
        .with_key("algo.advantage");
  };
}

CustomLoss custom_loss(rl_loss_fn fn, UserData user) {
  if (fn == nullptr) return nullptr;
  const auto kept = std::make_shared<const UserData>(std::move(user));
  return [fn, kept](const AlgoArrays& in, std::span<const double> weights,
                    std::span<double> gradient) {
    const rl_algo_tokens tokens = tokens_of(in);
    const CallbackScope scope;
    double loss = 0;
    const int32_t returned = fn(kept->data(), &tokens, weights.data(), &loss, gradient.data());
    return returned == 0 ? loss : std::numeric_limits<double>::quiet_NaN();
  };
}

template <typename T>
void copy_out(const std::vector<T>& made, T* out) {
  std::copy(made.begin(), made.end(), out);
}

using LossFunction = AlgoLoss (*)(const Settings&, const AlgoArrays&, std::vector<double>&);

// A loss of the arrays with its gradient.
rl_status write_loss(const rl_options* options, const rl_algo_tokens* tokens, double* gradient,
                     size_t num_gradient, rl_algo_loss* out, rl_error** err, LossFunction compute) {
  clear_array(gradient, num_gradient);
  clear_result(out);
  return guarded_callback_safe(err, options, [&] {
    const OptionSet set = options_or(options, OptionSet());
    const AlgoArrays in = arrays_of(tokens);
    require_out(gradient, num_gradient, tokens, "gradient");
    rl_algo_loss& result = result_struct(out, "out");
    std::vector<double> made;
    const AlgoLoss loss = compute(set, in, made);
    copy_out(made, gradient);
    result.loss = loss.loss;
    result.policy_loss = loss.policy_loss;
    result.kl_loss = loss.kl_loss;
    result.kl = loss.kl;
    result.ppo_kl = loss.ppo_kl;
    result.ppo_kl_k3 = loss.ppo_kl_k3;
    result.clip_fraction = loss.clip_fraction;
    result.dual_clip_fraction = loss.dual_clip_fraction;
    result.ratio_max = loss.ratio_max;
    result.num_tokens = static_cast<uint64_t>(loss.num_tokens);
    result.num_rejected = static_cast<uint64_t>(loss.num_rejected);
  });
}

// Numbers beyond int64_t become negative, which is out of every range.
AlgoPacking packing_from(const rl_algo_packing& p) {
  const auto number = [](uint64_t value) { return static_cast<int64_t>(value); };
  reserved_arg(p.reserved, "packing.reserved");
  return {.max_tokens = number(p.max_tokens),
          .min_bins = number(p.min_bins),
          .divisor = number(p.divisor),
          .group_size = number(p.group_size),
          .hidden = number(p.hidden),
          .oversize_alone = bool_arg(p.oversize_alone, "packing.oversize_alone")};
}

}  // namespace

extern "C" {

void rl_algo_tokens_init(rl_algo_tokens* tokens, size_t size) {
  init_struct(tokens, size, kFirstSize<rl_algo_tokens>);
}

void rl_algo_loss_init(rl_algo_loss* loss, size_t size) {
  init_struct(loss, size, kFirstSize<rl_algo_loss>);
}

rl_status rl_algo_advantages(const rl_options* options, const rl_algo_tokens* tokens,
                             double* advantages, size_t num_advantages, double* returns,
                             size_t num_returns, rl_error** err) {
  clear_array(advantages, num_advantages);
  clear_array(returns, num_returns);
  return guarded_callback_safe(err, options, [&] {
    const OptionSet set = options_or(options, OptionSet());
    const AlgoArrays in = arrays_of(tokens);
    require_out(advantages, num_advantages, tokens, "advantages");
    if (returns != nullptr) require_out(returns, num_returns, tokens, "returns");
    std::vector<double> made;
    copy_out(algo_advantages(set, in, &made), advantages);
    if (returns != nullptr) copy_out(made, returns);
  });
}

rl_status rl_algo_policy_loss(const rl_options* options, const rl_algo_tokens* tokens,
                              double* gradient, size_t num_gradient, rl_algo_loss* out,
                              rl_error** err) {
  return write_loss(options, tokens, gradient, num_gradient, out, err, algo_policy_loss);
}

rl_status rl_algo_value_loss(const rl_options* options, const rl_algo_tokens* tokens,
                             double* gradient, size_t num_gradient, rl_algo_loss* out,
                             rl_error** err) {
  return write_loss(options, tokens, gradient, num_gradient, out, err, algo_value_loss);
}

rl_status rl_algo_entropy_loss(const rl_options* options, const rl_algo_tokens* tokens,
                               double* gradient, size_t num_gradient, rl_algo_loss* out,
                               rl_error** err) {
  return write_loss(options, tokens, gradient, num_gradient, out, err, algo_entropy_loss);
}

void rl_algo_packing_init(rl_algo_packing* packing, size_t size) {
  if (!init_struct(packing, size, sizeof(*packing))) return;
  packing->min_bins = packing->divisor = packing->group_size = 1;
}

rl_status rl_algo_pack(const rl_options* options, const int32_t* lengths, size_t num_lengths,
                       const rl_algo_packing* packing, int32_t* bins, size_t num_bins,
                       uint64_t* count, rl_error** err) {
  clear_array(bins, num_bins);
  clear(count);
  return guarded_callback_safe(err, options, [&] {
    const OptionSet set = options_or(options, OptionSet());
    const auto given = array_arg(lengths, num_lengths, "lengths");
    const rl_algo_packing how = input_struct(packing, "packing");
    require(bins, "bins");
    require(count, "count");
    if (num_bins != num_lengths) {
      refuse("num_bins", str("is ", num_bins, " but there are ", num_lengths, " sequences"));
    }
    const Partition made = algo_pack(set, given, packing_from(how));
    for (size_t bin = 0; bin < made.size(); ++bin) {
      for (const int32_t i : made[bin]) bins[i] = static_cast<int32_t>(bin);
    }
    *count = made.size();
  });
}

rl_status rl_algo_corrections(const rl_options* options, const rl_algo_tokens* tokens,
                              double* weights, size_t num_weights, uint8_t* keep, size_t num_keep,
                              rl_error** err) {
  clear_array(weights, num_weights);
  clear_array(keep, num_keep);
  return guarded_callback_safe(err, options, [&] {
    const OptionSet set = options_or(options, OptionSet());
    const AlgoArrays in = arrays_of(tokens);
    require_out(weights, num_weights, tokens, "weights");
    require_out(keep, num_keep, tokens, "keep");
    const AlgoCorrections made = algo_corrections(set, in);
    copy_out(made.weights, weights);
    copy_out(made.keep, keep);
  });
}

rl_status rl_algo_weights(const rl_options* options, const rl_algo_tokens* tokens, double* weights,
                          size_t num_weights, rl_error** err) {
  clear_array(weights, num_weights);
  return guarded_callback_safe(err, options, [&] {
    const OptionSet set = options_or(options, OptionSet());
    const AlgoArrays in = arrays_of(tokens);
    require_out(weights, num_weights, tokens, "weights");
    copy_out(algo_weights(set, in), weights);
  });
}

rl_status rl_algo_kl(const rl_options* options, const rl_algo_tokens* tokens, double* values,
                     size_t num_values, double* gradient, size_t num_gradient, rl_error** err) {
  clear_array(values, num_values);
  clear_array(gradient, num_gradient);
  return guarded_callback_safe(err, options, [&] {
    const OptionSet set = options_or(options, OptionSet());
    const AlgoArrays in = arrays_of(tokens);
    require_out(values, num_values, tokens, "values");
    require_out(gradient, num_gradient, tokens, "gradient");
    const AlgoKl made = algo_kl(set, in);
    copy_out(made.values, values);
    copy_out(made.gradient, gradient);
  });
}

rl_status rl_pipeline_set_advantage(rl_pipeline* pipeline, rl_advantage_fn fn, void* user_data,
                                    rl_destroy_fn destroy, rl_error** err) {
  UserData user(user_data, destroy);
  return guarded(err, pipeline, [&] {
    use(pipeline, "pipeline")->set_custom_advantage(custom_advantage(fn, std::move(user)));
  });
}

rl_status rl_pipeline_set_loss(rl_pipeline* pipeline, rl_loss_fn fn, void* user_data,
                               rl_destroy_fn destroy, rl_error** err) {
  UserData user(user_data, destroy);
  return guarded(err, pipeline, [&] {
    use(pipeline, "pipeline")->set_custom_loss(custom_loss(fn, std::move(user)));
  });
}

rl_status rl_trainer_set_advantage(rl_trainer* trainer, rl_advantage_fn fn, void* user_data,
                                   rl_destroy_fn destroy, rl_error** err) {
  UserData user(user_data, destroy);
  return guarded(err, trainer, [&] {
    use(trainer, "trainer")->set_custom_advantage(custom_advantage(fn, std::move(user)));
  });
}

rl_status rl_trainer_set_loss(rl_trainer* trainer, rl_loss_fn fn, void* user_data,
                              rl_destroy_fn destroy, rl_error** err) {
  UserData user(user_data, destroy);
  return guarded(err, trainer, [&] {
    use(trainer, "trainer")->set_custom_loss(custom_loss(fn, std::move(user)));
  });
}

}  // extern "C"
