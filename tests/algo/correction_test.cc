#include "algo/losses/correction.h"

#include <cmath>

#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using golden::Json;
using Values = std::vector<double>;

constexpr double kTolerance = 2e-8;  // verl adds 1e-8 to the counts of its means

// "a_b" as two numbers; one number u as 0 and u.
std::pair<double, double> bounds_of(const Json& v) {
  if (!v.is_string()) return {0.0, v.get<double>()};
  const auto s = v.get<std::string>();
  const size_t cut = s.find('_');
  if (cut == std::string::npos) return {0.0, std::stod(s)};
  return {std::stod(s.substr(0, cut)), std::stod(s.substr(cut + 1))};
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

struct Batch {
  golden::Padded padded;
  std::vector<float> old, rollout;

  explicit Batch(const Json& b)
      : padded(b),
        old(golden::floats(golden::flat(b["old_log_prob"]))),
        rollout(golden::floats(golden::flat(b["rollout_log_prob"]))) {}
  MismatchInput input() const { return {{padded.lengths, padded.mask}, old, rollout}; }
  bool has_empty_row() const {
    for (size_t i = 0; i < padded.lengths.size(); ++i) {
      const auto n = static_cast<size_t>(padded.lengths[i]);
      bool any = false;
      for (size_t t = i * n; t < (i + 1) * n; ++t) any |= padded.mask[t] != 0;
      if (!any) return true;
    }
    return false;
  }
};

void expect_metric(const Json& c, const std::string& name, double seen) {
  golden::expect_close(seen, golden::number(c["metrics"]["rollout_corr/" + name]), kTolerance,
                       c["id"].get<std::string>() + " " + name);
}

void check_weights(const Json& c, const Batch& b) {
  CorrectionParams p;
  p.level = parse_correction_level(c["rollout_is"].get<std::string>());
  std::tie(p.low, p.high) = bounds_of(c["is_threshold"]);
  if (p.low > 0) p.mode = CorrectionMode::kIcepop;
  Values w(b.old.size());
  const CorrectionSums s = correction_weights(p, b.input(), w);
  expect_metric(c, "rollout_is_mean", s.token_sum / s.num_tokens);
  expect_metric(c, "rollout_is_eff_sample_size",
                s.token_sum * s.token_sum / (s.num_tokens * s.token_squares));
  if (p.level == CorrectionLevel::kToken) {
    expect_metric(c, "rollout_is_max", s.weight_max);
    expect_metric(c, "rollout_is_min", s.weight_min);
    expect_metric(c, "rollout_is_ratio_fraction_high", s.num_above / s.num_tokens);
    expect_metric(c, "rollout_is_ratio_fraction_low", s.num_below / s.num_tokens);
  }
  if (c["batch_normalize"].get<bool>()) {
    const double mean = correction_mean(p.level, s);
    expect_metric(c, "rollout_is_batch_norm_factor", mean);
    for (double& v : w) v /= mean;
  }
  golden::expect_close(b.padded.inside(w), b.padded.inside(golden::flat(c["is_weights"])),
                       kTolerance, c["id"]);
}

void check_mask(const Json& c, const Batch& b) {
  std::vector<Rejection> rejections;
  if (!c["rollout_rs"].is_null()) {
    const auto bounds = split(c["rs_threshold"].get<std::string>());
    for (const std::string& name : split(c["rollout_rs"].get<std::string>())) {
      Rejection r = parse_rejection(name);
      EXPECT_EQ(rejection_name(r), name);
      std::tie(r.low, r.high) = bounds_of(bounds[rejections.size()]);
      rejections.push_back(r);
    }
  }
  std::vector<uint8_t> keep(b.old.size());
  const RejectionSums s = reject(rejections, b.input(), keep);
  const Values expected = golden::flat(c["modified_mask"]);
  for (size_t i = 0; i < keep.size(); ++i) EXPECT_EQ(keep[i], expected[i]) << c["id"] << i;
  if (rejections.empty()) return;
  const auto rows = static_cast<double>(b.padded.lengths.size());
  expect_metric(c, "rollout_rs_masked_fraction", s.num_rejected / s.num_tokens);
  expect_metric(c, "rollout_rs_seq_masked_fraction", s.num_touched / rows);
}

// verl's sequence means count an empty row as perplexity 1; librl leaves it out.
void check_mismatch(const Json& c, const Batch& b) {
  const MismatchSums m = mismatch(b.input());
  expect_metric(c, "kl", m.neg_log_ratio / m.num_tokens);
  expect_metric(c, "k3_kl", m.k3 / m.num_tokens);
  expect_metric(c, "chi2_token", m.ratio_squares / m.num_tokens - 1);
  if (b.has_empty_row()) return;
  const double n = m.num_sequences;
  expect_metric(c, "chi2_seq", m.seq_ratio_squares / n - 1);
  expect_metric(c, "training_ppl", m.ppl_old / n);
  expect_metric(c, "rollout_ppl", m.ppl_rollout / n);
  expect_metric(c, "training_log_ppl", m.log_ppl_old / n);
  expect_metric(c, "rollout_log_ppl", m.log_ppl_rollout / n);
  expect_metric(c, "log_ppl_abs_diff", m.log_ppl_abs_diff / n);
  expect_metric(c, "ppl_ratio", m.ppl_ratio / n);
}

// TRL's modes: no clamp of the log-ratio, and no lower bound where there is none.
void check_trl(const Json& c, const Batch& b) {
  const auto mode = c["mode"].get<std::string>();
  CorrectionParams p{.log_clamp = 0};
  p.level = mode.starts_with("seq") ? CorrectionLevel::kSequence : CorrectionLevel::kToken;
  if (mode.ends_with("mask")) p.mode = CorrectionMode::kIcepop;
  if (!c["clip_min"].is_null()) p.low = c["clip_min"];
  p.high = c["clip_max"];
  Values w(b.old.size());
  correction_weights(p, b.input(), w);
  Values expected;
  for (size_t i = 0; i < b.padded.lengths.size(); ++i) {
    const Json& row = c["ratio"][i];
    const auto n = static_cast<size_t>(b.padded.lengths[i]);
    for (size_t t = 0; t < n; ++t) expected.push_back(golden::number(row[row.size() == 1 ? 0 : t]));
  }
  golden::expect_close(b.padded.inside(w), b.padded.inside(expected), kTolerance, c["id"]);
}

void check_veto(const Json& c, const Batch& b) {
  std::vector<uint8_t> keep(b.old.size());
  veto(c["veto_threshold"], b.input(), keep);
  const Values expected = golden::flat(c["modified_mask"]);
  for (size_t i = 0; i < keep.size(); ++i) EXPECT_EQ(keep[i], expected[i]) << c["id"] << i;
}

TEST(Correction, WeightsMasksAndMetricsOfEveryCaseMatch) {
  const Json data = golden::load("rl/rollout_correction.json");
  golden::Tally tally("rl/rollout_correction.json", data["cases"].size());
  for (const Json& c : data["cases"]) {
    const Batch b(data["batches"][c["batch"].get<std::string>()]);
    if (c["source"] == "trl-formula") {
      check_trl(c, b);
    } else if (c["source"] != "verl") {
      check_veto(c, b);
    } else {
      if (!c["rollout_is"].is_null()) check_weights(c, b);
      check_mask(c, b);
      check_mismatch(c, b);
    }
    tally.done();
  }
}

TEST(Correction, MaskedTokensAreNeverRead) {
  const std::vector<int32_t> lengths{3};
  const std::vector<uint8_t> mask{1, 0, 1};
  const std::vector<float> old{-1, NAN, -2}, rollout{-1.5f, NAN, -1.75f};
  const std::vector<float> old2{-1, 5, -2}, rollout2{-1.5f, -7, -1.75f};
  for (const CorrectionLevel level : {CorrectionLevel::kToken, CorrectionLevel::kSequence}) {
    const CorrectionParams p{.level = level};
    Values a(3), b(3);
    const CorrectionSums s = correction_weights(p, {{lengths, mask}, old, rollout}, a);
    correction_weights(p, {{lengths, mask}, old2, rollout2}, b);
    EXPECT_EQ(a, b);
    EXPECT_EQ(a[1], 0);
    EXPECT_EQ(s.num_tokens, 2);
  }
}

TEST(Correction, SumsOfPartsAddUp) {
  const std::vector<int32_t> lengths{1, 1};
  const std::vector<uint8_t> mask{1, 1};
  const std::vector<float> old{-1, -2}, rollout{-1.5f, -1.75f};
  Values w(2);
  const CorrectionParams p{.level = CorrectionLevel::kToken};
  const CorrectionSums whole = correction_weights(p, {{lengths, mask}, old, rollout}, w);
  CorrectionSums parts;
  for (size_t i = 0; i < 2; ++i) {
    const auto one = [&](const auto& v) { return std::span(v).subspan(i, 1); };
    Values part(1);
    parts.add(correction_weights(p, {{one(lengths), one(mask)}, one(old), one(rollout)}, part));
  }
  EXPECT_EQ(parts.token_sum, whole.token_sum);
  EXPECT_EQ(parts.weight_max, whole.weight_max);
  EXPECT_EQ(parts.num_sequences, 2);
  MismatchSums both = mismatch({{lengths, mask}, old, rollout});
  both.add(both);
  EXPECT_EQ(both.num_tokens, 4);
  EXPECT_EQ(both.neg_log_ratio, 2 * (-0.5 + 0.25));
}

TEST(Correction, OpsmDropsOnlyFarSequencesOfNegativeAdvantage) {
  const std::vector<int32_t> lengths{1, 1, 1};
  const std::vector<uint8_t> mask{1, 1, 1};
  const std::vector<float> old{-1, -1, -1}, now{-2, -2, -1.0625f};
  std::vector<uint8_t> keep(3);
  const RejectionSums s = opsm(0.125, {{lengths, mask}, old, now, Values{-1, 1, -1}}, keep);
  EXPECT_EQ(keep, (std::vector<uint8_t>{0, 1, 1}));
  EXPECT_EQ(s.num_touched, 1);
}

TEST(Correction, OpsmKeepsASequenceWhoseAdvantageIsZeroOrWhoseDistanceIsTheBound) {
  const std::vector<int32_t> lengths{1, 1, 1};
  const std::vector<uint8_t> mask{1, 1, 1};
  const std::vector<float> old{-1, -1, -1}, now{-2, -1.125f, -1.25f};
  std::vector<uint8_t> keep(3);
  opsm(0.125, {{lengths, mask}, old, now, Values{0, -1, -1}}, keep);
  EXPECT_EQ(keep, (std::vector<uint8_t>{1, 1, 0}));
}

TEST(Correction, RefusesBadParameters) {
  const auto key = [](const auto& call) { return expect_error(Code::kOutOfRange, call).key; };
  EXPECT_EQ(key([] { validate(CorrectionParams{.low = 3}); }), "algo.correction.low");
  EXPECT_EQ(key([] { validate(CorrectionParams{.high = 0}); }), "algo.correction.high");
  EXPECT_EQ(key([] { validate(Rejection{.low = 0, .high = 2}); }), "algo.correction.rs_bounds");
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [] { parse_rejection("seq_max_k1"); }).key,
            "algo.correction.rs");
  EXPECT_EQ(parse_correction_mode("icepop"), CorrectionMode::kIcepop);
  EXPECT_EQ(correction_level_name(CorrectionLevel::kSequence), "sequence");
}

}  // namespace
}  // namespace rl
