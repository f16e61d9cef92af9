#include "algo/losses/loss_agg.h"

#include <algorithm>
#include <set>

#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using golden::Json;

// verl divides by T_i + 1e-8 and OpenRLHF by clamped counts, so a one-token sequence differs by
// 1e-8.
constexpr double kTolerance = 2e-8;

LossAgg agg_of(std::string mode) {
  if (mode == "token") mode = "token_mean";
  std::replace(mode.begin(), mode.end(), '-', '_');
  return parse_loss_agg(mode);
}

// The global counts of a golden case; what it leaves out is taken from the whole batch, as the
// packages do.
LossDenominators denominators_of(const Json& params, const Json& batch) {
  const std::vector<int32_t> lengths = golden::Rows(batch).lengths();
  LossDenominators d{golden::count(lengths), golden::count_non_empty(lengths), batch["T"]};
  if (params.contains("batch_num_tokens")) d.num_tokens = params["batch_num_tokens"];
  if (params.contains("global_batch_size")) d.num_sequences = params["global_batch_size"];
  if (params.contains("loss_scale_factor")) d.scale_factor = params["loss_scale_factor"];
  return d;
}

std::vector<double> weights_of(LossAgg agg, const LossDenominators& d, const golden::Rows& rows) {
  const std::vector<int32_t> lengths = rows.lengths();
  std::vector<double> w(static_cast<size_t>(golden::count(lengths)));
  token_weights(agg, d, lengths, w);
  return w;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(LossAgg, MatchesEveryVerlAndOpenRlhfCase) {
  const Json data = golden::load("rl/aggregation.json");
  golden::Tally tally("rl/aggregation.json cases", data["cases"].size());
  int gradients = 0;
  std::set<std::string> modes;
  for (const Json& c : data["cases"]) {
    const Json& batch = data["batches"][c["batch"].get<std::string>()];
    const golden::Rows rows(batch);
    const LossAgg agg = agg_of(c["mode"]);
    modes.insert(std::string(loss_agg_name(agg)));
    std::vector<double> w = weights_of(agg, denominators_of(c["params"], batch), rows);
    // dp_size undoes an averaging of gradients over ranks that librl does not do.
    const double dp = c["params"].value("dp_size", 1.0);
    for (double& v : w) v *= dp;
    const std::string what = c["source"].get<std::string>() + " " + c["mode"].get<std::string>();
    golden::expect_close(dot(w, rows.packed(batch["adv_token"])), golden::number(c["loss"]),
                         kTolerance, what);
    if (!c["grad"].is_null()) {
      golden::expect_close(w, rows.packed(c["grad"]), kTolerance, what);
      ++gradients;
    }
    tally.done();
  }
  EXPECT_EQ(gradients, 30);
  EXPECT_EQ(modes.size(), 5u);
}

TEST(LossAgg, MicroBatchesWithGlobalCountsSumToTheWhole) {
  const Json data = golden::load("rl/aggregation.json");
  golden::Tally tally("rl/aggregation.json micro_batch_split", data["micro_batch_split"].size());
  for (const Json& c : data["micro_batch_split"]) {
    const Json& batch = data["batches"][c["batch"].get<std::string>()];
    const LossAgg agg = agg_of(c["mode"]);
    const LossDenominators d = denominators_of(c["params"], batch);
    double sum = 0;
    for (size_t i = 0; i < c["rows"].size(); ++i) {
      const golden::Rows rows(batch, c["rows"][i][0], c["rows"][i][1]);
      const double part = dot(weights_of(agg, d, rows), rows.packed(batch["adv_token"]));
      golden::expect_close(part, golden::number(c["parts"][i]), kTolerance, c["mode"]);
      sum += part;
    }
    golden::expect_close(sum, golden::number(c["whole"]), kTolerance, c["mode"]);
    tally.done();
  }
}

TEST(LossAgg, RefusesAMissingDenominator) {
  std::vector<double> w(2);
  const std::vector<int32_t> lengths{2};
  const auto call = [&](LossAgg agg, const LossDenominators& d) {
    token_weights(agg, d, lengths, w);
  };
  EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { call(LossAgg::kTokenMean, {}); }).key,
            "num_tokens");
  EXPECT_EQ(
      expect_error(Code::kOutOfRange, [&] { call(LossAgg::kSeqMeanTokenSum, {.num_tokens = 2}); })
          .key,
      "num_sequences");
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [&] {
                           call(LossAgg::kSeqMeanTokenSumNorm, {2, 1, std::nan("")});
                         })
                .key,
            "algo.loss_scale_factor");
  call(LossAgg::kTokenSum, {});
  EXPECT_EQ(w, (std::vector<double>{1, 1}));
}

TEST(LossAgg, RefusesLengthsThatDoNotFillTheWeights) {
  std::vector<double> w(3);
  const auto call = [&](const std::vector<int32_t>& n) {
    token_weights(LossAgg::kTokenSum, {}, n, w);
  };
  call({1, 0, 2});
  expect_error(Code::kInvalidArgument, [&] { call({1, 1}); });
  EXPECT_TRUE(contains(expect_error(Code::kInvalidArgument,
                                    [&] {
                                      call({1, 3});
                                    })
                           .message,
                       "sequence 1"));
  expect_error(Code::kOutOfRange, [&] { call({3, -1}); });
}

}  // namespace
}  // namespace rl
