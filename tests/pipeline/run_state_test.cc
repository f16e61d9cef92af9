// The state of a run as text: every field under its own key, and what is refused.
#include "pipeline/loop/run_state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using nlohmann::json;

// Every field has another value: the key of each is in every checkpoint.
const json& full_text() {
  static const json text = {{"format", 1},
                            {"step", 2},
                            {"cursor", 3},
                            {"next_eval_ordinal", 4},
                            {"seed", 5},
                            {"max_tokens", 6},
                            {"kl_coef", 0.125},
                            {"attempts_started", 7},
                            {"attempts_trained", 8},
                            {"tokens_generated", 9},
                            {"tokens_trained", 10},
                            {"tokens_discarded", 11},
                            {"prompts_drawn", 12},
                            {"prompts_trained", 13},
                            {"late_scores", 14},
                            {"duplicate_scores", 15},
                            {"unknown_scores", 16},
                            {"nonfinite_scores", 17},
                            {"attempts_discarded_stale", 101},
                            {"attempts_discarded_aborted", 102},
                            {"attempts_discarded_reward_error", 103},
                            {"attempts_discarded_reward_timeout", 104},
                            {"attempts_discarded_nonfinite", 105},
                            {"attempts_discarded_filtered", 106},
                            {"attempts_discarded_overlong", 107},
                            {"attempts_discarded_poisoned", 108},
                            {"attempts_discarded_rollback", 109},
                            {"attempts_discarded_cancelled", 110},
                            {"attempts_discarded_shutdown", 111},
                            {"prompts_dropped_stale", 201},
                            {"prompts_dropped_aborted", 202},
                            {"prompts_dropped_reward_error", 203},
                            {"prompts_dropped_reward_timeout", 204},
                            {"prompts_dropped_nonfinite", 205},
                            {"prompts_dropped_filtered", 206},
                            {"prompts_dropped_overlong", 207},
                            {"prompts_dropped_poisoned", 208},
                            {"prompts_dropped_rollback", 209},
                            {"prompts_dropped_cancelled", 210},
                            {"prompts_dropped_shutdown", 211}};
  return text;
}

RunState full_state() {
  RunState s;
  s.step = 2;
  s.cursor = 3;
  s.next_eval_ordinal = 4;
  s.seed = 5;
  s.max_tokens = 6;
  s.kl_coef = 0.125;
  LedgerCounts& c = s.ledger;
  c.attempts_started = 7;
  c.attempts_trained = 8;
  c.tokens_generated = 9;
  c.tokens_trained = 10;
  c.tokens_discarded = 11;
  c.prompts_drawn = 12;
  c.prompts_trained = 13;
  c.late_scores = 14;
  c.duplicate_scores = 15;
  c.unknown_scores = 16;
  c.nonfinite_scores = 17;
  for (size_t i = 1; i < kNumDropReasons; ++i) {
    c.attempts_discarded[i] = static_cast<int64_t>(100 + i);
    c.prompts_dropped[i] = static_cast<int64_t>(200 + i);
  }
  return s;
}

TEST(RunStateText, EveryFieldHasItsKey) {
  EXPECT_EQ(json::parse(render_run_state(full_state())), full_text());
  EXPECT_EQ(parse_run_state(full_text().dump(), "here"), full_state());
}

TEST(RunStateText, OnlyTheCoefficientMayBeMissing) {
  for (const auto& [key, value] : full_text().items()) {
    SCOPED_TRACE(key);
    json less = full_text();
    less.erase(key);
    if (key == "kl_coef") {
      EXPECT_EQ(parse_run_state(less.dump(), "here").kl_coef, std::nullopt);
      continue;
    }
    const Error e = expect_error(Code::kDataLoss, [&] { parse_run_state(less.dump(), "m.json"); });
    EXPECT_EQ(e.location, "m.json");
    EXPECT_EQ(e.message, str("m.json: \"", key, "\" is missing or is not a non-negative integer"));
  }
}

TEST(RunStateText, EveryFieldIsANonNegativeInteger) {
  for (const auto& [key, value] : full_text().items()) {
    if (key == "kl_coef") continue;
    for (const json& bad : {json(-1), json(1.5), json("1"), json(true), json(nullptr)}) {
      SCOPED_TRACE(str(key, " = ", bad.dump()));
      json other = full_text();
      other[key] = bad;
      const Error e = expect_error(Code::kDataLoss, [&] { parse_run_state(other.dump(), "m"); });
      EXPECT_TRUE(contains(e.message, str("\"", key, "\" is missing or is not")));
    }
  }
}

// Steps, ordinals and seeds use all 64 bits, counts are signed.
TEST(RunStateText, NumbersReachTheLimitsOfTheirTypes) {
  for (const auto& [key, value] : full_text().items()) {
    if (key == "kl_coef" || key == "format") continue;
    SCOPED_TRACE(key);
    const bool is_unsigned =
        key == "step" || key == "cursor" || key == "next_eval_ordinal" || key == "seed";
    json other = full_text();
    other[key] = is_unsigned ? UINT64_MAX : uint64_t{INT64_MAX};
    EXPECT_EQ(json::parse(render_run_state(parse_run_state(other.dump(), "m"))), other);
    if (is_unsigned) continue;
    other[key] = uint64_t{INT64_MAX} + 1;
    const Error e = expect_error(Code::kDataLoss, [&] { parse_run_state(other.dump(), "m"); });
    EXPECT_EQ(e.location, "m");
    EXPECT_EQ(e.message, str("m: \"", key, "\" is 9223372036854775808, which is too large"));
  }
}

TEST(RunStateText, ACoefficientIsANumberOfAtLeastZero) {
  json text = full_text();
  for (const json& good : {json(0), json(0.0), json(3), json(1e300)}) {
    text["kl_coef"] = good;
    EXPECT_EQ(parse_run_state(text.dump(), "m").kl_coef, good.get<double>());
  }
  for (const json& bad : {json(-1e-9), json("0.1"), json(nullptr), json(false)}) {
    text["kl_coef"] = bad;
    const Error e = expect_error(Code::kDataLoss, [&] { parse_run_state(text.dump(), "m"); });
    EXPECT_EQ(e.location, "m");
    EXPECT_EQ(e.message, "m: \"kl_coef\" is not a valid coefficient");
  }
}

TEST(RunStateText, AnotherFormatAndUnknownKeysAreRefused) {
  json text = full_text();
  text["format"] = 2;
  Error e = expect_error(Code::kIncompatible, [&] { parse_run_state(text.dump(), "m"); });
  EXPECT_EQ(e.location, "m");
  EXPECT_EQ(e.message, "m: pipeline state of format 2; this library reads 1");
  for (const bool coefficient : {false, true}) {
    text = full_text();
    if (!coefficient) text.erase("kl_coef");
    text["more"] = 1;
    e = expect_error(Code::kDataLoss, [&] { parse_run_state(text.dump(), "m"); });
    EXPECT_EQ(e.location, "m");
    EXPECT_EQ(e.message, "m: the pipeline's state has unknown keys");
  }
  e = expect_error(Code::kDataLoss, [] { parse_run_state("[1]", "m"); });
  EXPECT_EQ(e.location, "m");
  EXPECT_EQ(e.message, "m: the pipeline's state is not a JSON object");
}

}  // namespace
}  // namespace rl
