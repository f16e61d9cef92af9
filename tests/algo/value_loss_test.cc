#include "algo/losses/value_loss.h"

#include <algorithm>
#include <cmath>

#include "algo/losses/loss_agg.h"
#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using golden::Json;

// verl and OpenRLHF add 1e-8 to some counts.
constexpr double kTolerance = 2e-8;

LossAgg agg_of(std::string mode) {
  if (mode == "token") mode = "token_mean";
  std::replace(mode.begin(), mode.end(), '-', '_');
  return parse_loss_agg(mode);
}

TEST(ValueLoss, LossAndGradientOfEveryCaseMatch) {
  const Json data = golden::load("rl/value_loss.json");
  golden::Tally tally("rl/value_loss.json", data["cases"].size());
  for (const Json& c : data["cases"]) {
    const Json& batch = data["batches"][c["batch"].get<std::string>()];
    const golden::Rows rows(batch);
    const std::vector<int32_t> lengths = rows.lengths();
    const auto value = golden::floats(rows.packed(batch["vpreds"]));
    const auto old = golden::floats(rows.packed(batch["values"]));
    const auto returns = golden::floats(rows.packed(batch["returns"]));
    std::vector<double> weight(value.size()), gradient(value.size());
    token_weights(agg_of(c["agg"]),
                  {golden::count(lengths), golden::count_non_empty(lengths), batch["T"]}, lengths,
                  weight);
    const double clip = c["clip"].is_null() ? 0.0 : golden::number(c["clip"]);
    const ValueLossSums s = value_loss(clip, {value, old, returns, weight}, gradient);
    golden::expect_close(s.loss, golden::number(c["loss"]), kTolerance, c["id"]);
    golden::expect_close(gradient, rows.packed(c["grad_vpreds"]), kTolerance, c["id"]);
    if (!c["clipfrac"].is_null()) {
      golden::expect_close(static_cast<double>(s.num_clipped) / static_cast<double>(s.num_tokens),
                           golden::number(c["clipfrac"]), kTolerance, c["id"]);
    }
    tally.done();
  }
}

TEST(ValueLoss, AMaskedTokenContributesNothing) {
  const std::vector<float> v{1.0f, NAN}, r{0.5f, NAN};
  const std::vector<double> weight{0.5, 0};
  std::vector<double> gradient{0, 3};
  const ValueLossSums s = value_loss(0.5, {v, v, r, weight}, gradient);
  EXPECT_EQ(s.loss, 0.5 * 0.125);
  EXPECT_EQ(s.num_tokens, 1);
  EXPECT_EQ(gradient, (std::vector<double>{0.25, 3}));
}

TEST(ValueLoss, GradientIsTheDerivativeOfTheValue) {
  const float h = 1.0f / 4096;
  for (const float v : {-2.0f, -0.25f, 0.125f, 0.75f, 3.0f}) {
    for (const float old : {-0.5f, 0.5f}) {
      const auto loss = [&](float x, std::span<double> g) {
        const std::vector<float> value{x}, o{old}, r{0.25f};
        const std::vector<double> w{1.0};
        return value_loss(0.5, {value, o, r, w}, g).loss;
      };
      std::vector<double> g(1), unused(1);
      loss(v, g);
      // The loss is a parabola on each side of its kinks: a central difference is exact.
      EXPECT_NEAR(g[0], (loss(v + h, unused) - loss(v - h, unused)) / (2 * h), 1e-10) << v;
    }
  }
}

TEST(ValueLoss, RefusesBadInput) {
  std::vector<double> g(1);
  const std::vector<float> one(1), two(2);
  const std::vector<double> w(1);
  EXPECT_EQ(expect_error(Code::kOutOfRange,
                         [&] {
                           value_loss(-1, {one, one, one, w}, g);
                         })
                .key,
            "algo.value_clip");
  EXPECT_EQ(expect_error(Code::kInvalidArgument,
                         [&] {
                           value_loss(0, {one, two, one, w}, g);
                         })
                .key,
            "old_value");
}

}  // namespace
}  // namespace rl
