// Every case of rl/advantages.json: estimators of verl, the whole pipelines of OpenRLHF, TRL.
#include <map>

#include "algo/advantages/advantage.h"
#include "algo/advantages/returns.h"
#include "algo/advantages/reward.h"
#include "algo/moments.h"
#include "golden.h"

namespace rl {
namespace {

using golden::Json;
using Values = std::vector<double>;

// Both sides compute in double. verl adds 1e-8 to the counts of its whitening, and its eps to a
// group of one in fp32; TRL multiplies a variance by n / (n - 1) rounded to fp32. Each moves a
// result by up to 6e-8 of itself.
constexpr double kTolerance = 1e-7;

struct Batch {
  const Json& json;
  golden::Padded padded;
  std::vector<int32_t> group;

  explicit Batch(const Json& b) : json(b), padded(b) {
    std::map<std::string, int32_t> seen;
    for (const Json& n : b["index"]) {
      const auto next = static_cast<int32_t>(seen.size());
      group.push_back(seen.emplace(n.get<std::string>(), next).first->second);
    }
  }
  ResponseShape shape() const { return {padded.lengths, padded.mask}; }
  Values tensor(const char* name) const { return golden::flat(json[name]); }
  Values scores(const char* name) const { return golden::numbers(json[name]); }
  Values outcome() const {
    Values sums;
    for (const Json& row : json["rewards_outcome"]) {
      sums.push_back(0);
      for (const double v : golden::numbers(row)) sums.back() += v;
    }
    return sums;
  }
  Values spread(const Values& per_sample) const {
    Values out(padded.mask.size());
    spread_over_tokens(shape(), per_sample, out);
    return out;
  }
  Values whitened(Values v, const WhitenParams& p) const {
    whiten(p, moments_of(v, padded.mask), padded.mask, v);
    return v;
  }
  Values grouped(const AdvantageParams& p, const Values& rewards) const {
    Values out(rewards.size());
    group_advantages(p, rewards, group, out, golden::Rows(json).lengths());
    return out;
  }
};

struct Result {
  Values advantages;
  Values returns;
};

Result same(const Values& v) { return {v, v}; }

Result run_gae(const Batch& b, const ReturnsParams& p, const Values& rewards) {
  Result r{Values(rewards.size()), Values(rewards.size())};
  gae(p, {b.shape(), rewards, b.tensor("values")}, {r.advantages, r.returns});
  return r;
}

Values run_returns(const Batch& b, const ReturnsParams& p, const Values& rewards) {
  Values out(rewards.size());
  discounted_returns(p, b.shape(), rewards, out);
  return out;
}

Result run_gdpo(const Batch& b, const AdvantageParams& p, const Values& weights) {
  const std::vector<Values> kinds{b.scores("scores"), b.scores("scores2")};
  Values out(b.group.size());
  gdpo_advantages(p, kinds, weights, b.group, out);
  const Values white = b.whitened(b.spread(out), {});
  return {white, white};
}

AdvantageParams group_params(const std::string& name, const Json& p) {
  const std::map<std::string, Advantage> kinds{
      {"grpo", Advantage::kGrpo},
      {"grpo_vectorized", Advantage::kGrpo},
      {"grpo_passk", Advantage::kGrpoPassk},
      {"rloo", Advantage::kRloo},
      {"rloo_vectorized", Advantage::kRloo},
      {"opo", Advantage::kOpo},
      {"gpg", Advantage::kGpg},
      {"reinforce_plus_plus_baseline", Advantage::kReinforcePpBaseline},
      {"gdpo", Advantage::kGdpo},
  };
  AdvantageParams a;
  a.kind = kinds.at(name);
  a.norm_std = p.value("norm_by_std", true);
  a.eps = p.value("epsilon", 1e-6);
  if (name == "rloo_vectorized") a.singleton = AdvSingleton::kZero;
  return a;
}

Result run_verl(const std::string& name, const Batch& b, const Json& p) {
  const ReturnsParams returns{.gamma = p.value("gamma", 1.0), .lambda = p.value("lam", 1.0)};
  if (name == "gae") {
    Result r = run_gae(b, returns, b.tensor("rewards_dense"));
    r.advantages = b.whitened(r.advantages, {});
    return r;
  }
  if (name == "reinforce_plus_plus") {
    const Values g = run_returns(b, returns, b.tensor("rewards_dense"));
    return {b.whitened(g, {}), g};
  }
  if (name == "remax") {
    const Values rewards = b.tensor("rewards_dense");
    Values out(rewards.size());
    remax_advantages(b.shape(), rewards, b.scores("reward_baselines"), out);
    return {out, run_returns(b, {}, rewards)};
  }
  const AdvantageParams a = group_params(name, p);
  if (name == "gdpo") return run_gdpo(b, a, golden::numbers(p["weights"]));
  const Values spread = b.spread(b.grouped(a, b.outcome()));
  return same(name == "reinforce_plus_plus_baseline" ? b.whitened(spread, {}) : spread);
}

AdvantageParams openrlhf_group(const std::string& name) {
  AdvantageParams a{.kind = Advantage::kDrGrpo, .eps = 1e-9};
  if (name == "rloo") a.kind = Advantage::kRloo;
  if (name == "group_norm") a.kind = Advantage::kGrpo;
  if (name == "flash_reinforce") a.kind = Advantage::kFlashReinforce;
  return a;
}

// Group baseline, clip, KL into the reward, returns, whitening, in this order.
Result run_openrlhf(const std::string& name, Batch b, const Json& p) {
  const ReturnsParams returns{
      .gamma = p.value("gamma", 1.0), .lambda = p.value("lam", 1.0), .masked = MaskedTokens::kZero};
  if (name == "gae_returns") return run_gae(b, returns, b.tensor("rewards_dense"));
  if (name == "cumulative_returns") return same(run_returns(b, returns, b.tensor("rewards_dense")));
  const bool plain = name == "gae" || name == "reinforce";
  // Every sample alone in its group, as FlashREINFORCE is meant: groups have no effect on it.
  const int32_t size = name == "flash_reinforce" ? 1 : p["group_size"].get<int32_t>();
  for (size_t i = 0; i < b.group.size(); ++i) b.group[i] = static_cast<int32_t>(i) / size;
  Values rewards = b.scores("scores");
  if (!plain) rewards = b.grouped(openrlhf_group(name), rewards);
  for (double& r : rewards) r = clip_reward({p["reward_clip"][0], p["reward_clip"][1]}, r);
  Values kl = b.tensor("log_prob");
  const Values ref = b.tensor("ref_log_prob");
  for (size_t i = 0; i < kl.size(); ++i) kl[i] -= ref[i];
  Values tokens(kl.size());
  token_rewards({b.shape(), rewards, kl, p["kl_coef"]}, tokens);
  Result r = name == "gae" ? run_gae(b, returns, tokens) : same(run_returns(b, returns, tokens));
  if (!plain && name != "reinforce_baseline") return r;
  const WhitenParams w{.ddof = 0, .floor = true, .divide_by_std = !p["no_std_norm"].get<bool>()};
  r.advantages = b.whitened(r.advantages, w);
  return r;
}

Values run_trl(Batch b, const Json& p) {
  AdvantageParams a;
  a.eps = p["epsilon"];
  a.norm_std = p["scale_rewards"] != "none";
  if (p["scale_rewards"] == "batch") a.std_scope = AdvStdScope::kBatch;
  for (size_t i = 0; i < b.group.size(); ++i) {
    b.group[i] = static_cast<int32_t>(i) / p["group_size"].get<int32_t>();
  }
  return b.grouped(a, b.scores("scores"));
}

TEST(AdvantageGolden, EveryCaseOfALibraryMatches) {
  const Json data = golden::load("rl/advantages.json");
  golden::Tally tally("rl/advantages.json cases", data["cases"].size());
  for (const Json& c : data["cases"]) {
    const auto name = c["estimator"].get<std::string>();
    const Batch b(data["batches"][c["batch"].get<std::string>()]);
    if (name == "optimal_token_baseline" || name == "tir_optimal_token_baseline") {
      tally.leave_out(name + ": no value of algo.advantage");
      continue;
    }
    if (c["source"] == "trl-formula") {
      golden::expect_close(run_trl(b, c["params"]), golden::numbers(c["advantages"]), kTolerance,
                           c["id"]);
      tally.done();
      continue;
    }
    const Result r =
        c["source"] == "verl" ? run_verl(name, b, c["params"]) : run_openrlhf(name, b, c["params"]);
    golden::expect_close(b.padded.inside(r.advantages),
                         b.padded.inside(golden::flat(c["advantages"])), kTolerance, c["id"]);
    golden::expect_close(b.padded.inside(r.returns), b.padded.inside(golden::flat(c["returns"])),
                         kTolerance, c["id"]);
    tally.done();
  }
}

TEST(AdvantageGolden, WhiteningMatchesVerl) {
  const Json data = golden::load("rl/advantages.json");
  golden::Tally tally("rl/advantages.json masked_whiten", data["masked_whiten"].size());
  for (const Json& c : data["masked_whiten"]) {
    const Batch b(data["batches"][c["batch"].get<std::string>()]);
    const Values seen =
        b.whitened(b.tensor("rewards_dense"), {.shift_mean = c["shift_mean"].get<bool>()});
    golden::expect_close(b.padded.inside(seen), b.padded.inside(golden::flat(c["expected"])),
                         kTolerance, c["batch"]);
    tally.done();
  }
}

}  // namespace
}  // namespace rl
