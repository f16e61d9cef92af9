// The option registry: every row round-trips, every bound holds to the unit, every wrong key, type,
// value and combination is a named error.
#include "options/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/hash.h"
#include "options/option_text.h"
#include "support/expect_error.h"

namespace rl {
namespace {

std::vector<const OptionInfo*> rows() {
  std::vector<const OptionInfo*> all;
  for (size_t i = 0; i < option_count(); ++i) all.push_back(&option_at(i));
  return all;
}

bool is_integer(const OptionInfo& info) {
  return info.type == OptionType::kI64 || info.type == OptionType::kDurationNs;
}

TEST(OptionTable, IsSortedUniqueAndComplete) {
  std::string previous;
  for (const OptionInfo* row : rows()) {
    EXPECT_LT(previous, row->key);
    previous = row->key;
    EXPECT_NE(std::string(row->doc), "") << row->key;
    EXPECT_NE(std::string(row->since), "") << row->key;
    EXPECT_EQ(find_option(row->key), row);
    EXPECT_EQ(row->type == OptionType::kEnum, row->num_choices > 0) << row->key;
  }
  EXPECT_EQ(find_option("engine"), nullptr);
  EXPECT_EQ(find_option(""), nullptr);
  expect_error(Code::kOutOfRange, [] { option_at(option_count()); });
}

TEST(OptionTable, EveryDefaultIsValidAndRoundTripsAsText) {
  OptionSet set;
  for (const OptionInfo* row : rows()) {
    EXPECT_TRUE(set.is_default(row->key));
    check_option(*row, parse_option(*row, row->default_text));
    const std::string text = set.get_text(row->key);
    set.set_text(row->key, text);
    EXPECT_EQ(set.get_text(row->key), text);
    EXPECT_TRUE(set.is_default(row->key));
  }
  EXPECT_TRUE(set.validate_all().empty());
  EXPECT_EQ(set.dump(true), "");
}

TEST(OptionTable, IntegerBoundsHoldToTheUnit) {
  for (const OptionInfo* row : rows()) {
    if (!is_integer(*row)) continue;
    OptionSet set;
    for (const auto& [bound, beyond] : {std::pair(row->min, -1), std::pair(row->max, 1)}) {
      if (!bound.present) continue;
      set.set_i64(row->key, bound.i64);
      EXPECT_EQ(set.get_i64(row->key), bound.i64);
      const Error error =
          expect_error(Code::kOutOfRange, [&] { set.set_i64(row->key, bound.i64 + beyond); });
      EXPECT_TRUE(contains(error.message, row->key));
      EXPECT_TRUE(contains(error.message, str(bound.i64 + beyond)));
      EXPECT_TRUE(contains(error.expected, str(bound.i64)));
      EXPECT_EQ(set.get_i64(row->key), bound.i64) << "a refused value changed the set";
    }
  }
}

TEST(OptionTable, NumberBoundsHoldToTheLastBit) {
  const double huge = std::numeric_limits<double>::infinity();
  for (const OptionInfo* row : rows()) {
    if (row->type != OptionType::kF64) continue;
    OptionSet set;
    for (const auto& [bound, away] : {std::pair(row->min, -huge), std::pair(row->max, huge)}) {
      if (!bound.present) continue;
      const double last = bound.inclusive ? bound.f64 : std::nextafter(bound.f64, -away);
      set.set_f64(row->key, last);
      EXPECT_EQ(set.get_f64(row->key), last) << row->key;
      const double first_bad = std::nextafter(last, away);
      expect_error(Code::kOutOfRange, [&] { set.set_f64(row->key, first_bad); });
    }
    expect_error(Code::kOutOfRange, [&] { set.set_f64(row->key, huge); });
    expect_error(Code::kOutOfRange, [&] { set.set_text(row->key, "nan"); });
  }
}

TEST(OptionTable, EveryChoiceIsAcceptedAndOthersNameThem) {
  for (const OptionInfo* row : rows()) {
    if (row->type != OptionType::kEnum) continue;
    OptionSet set;
    for (size_t i = 0; i < row->num_choices; ++i) {
      const std::string choice = row->choices[i].name;
      if (row->unsupported_reason[0] != '\0' && choice != row->default_text) {
        const Error error =
            expect_error(Code::kNotInBuild, [&] { set.set_string(row->key, choice); });
        EXPECT_TRUE(contains(error.message, row->unsupported_reason));
        continue;
      }
      set.set_string(row->key, choice);
      EXPECT_EQ(set.get_string(row->key), choice);
    }
    const Error error =
        expect_error(Code::kOutOfRange, [&] { set.set_string(row->key, "no such choice"); });
    EXPECT_TRUE(contains(error.expected, row->choices[0].name));
    EXPECT_TRUE(contains(error.message, "no such choice"));
  }
}

TEST(OptionTable, AnyTypoSuggestsTheRightKey) {
  for (const OptionInfo* row : rows()) {
    const std::string key = row->key;
    for (size_t i = 0; i < key.size(); ++i) {
      std::string replaced = key, dropped = key, doubled = key;
      replaced[i] = '#';
      dropped.erase(i, 1);
      doubled.insert(i, 1, '#');
      for (const std::string& typo : {replaced, dropped, doubled}) {
        const Error error = expect_error(Code::kUnknownOption, [&] { require_option(typo); });
        EXPECT_LE(error.nearest.size(), 3u);
        EXPECT_NE(std::find(error.nearest.begin(), error.nearest.end(), key), error.nearest.end())
            << typo;
      }
    }
  }
}

TEST(OptionTable, RightNameUnderTheWrongGroupIsSuggested) {
  const Error error =
      expect_error(Code::kUnknownOption, [] { OptionSet().get_f64("engine.min_p"); });
  ASSERT_FALSE(error.nearest.empty());
  EXPECT_EQ(error.nearest[0], "sampling.min_p");
  EXPECT_TRUE(contains(error.message, "sampling.min_p"));
  EXPECT_TRUE(nearest_options("completely.different.thing").empty());
  EXPECT_TRUE(nearest_options(std::string(100000, 'x')).empty());
}

TEST(OptionSet, WrongTypeIsAnErrorForEverySetterAndGetter) {
  OptionSet set;
  for (const OptionInfo* row : rows()) {
    const std::string key = row->key;
    const OptionType t = row->type;
    const bool integer = is_integer(*row) || t == OptionType::kU64 || t == OptionType::kBytes;
    const bool text = t == OptionType::kString || t == OptionType::kEnum;
    const auto refuse = [&](bool right, auto call) {
      if (right) return;
      EXPECT_TRUE(contains(expect_error(Code::kWrongType, call).message, key));
    };
    refuse(t == OptionType::kBool, [&] { set.set_bool(key, true); });
    refuse(integer, [&] { set.set_i64(key, 1); });
    refuse(integer, [&] { set.set_u64(key, 1); });
    refuse(t == OptionType::kF64, [&] { set.set_f64(key, 0.5); });
    refuse(text, [&] { set.set_string(key, "x"); });
    refuse(t == OptionType::kStringList, [&] { set.set_string_list(key, {"x"}); });
    refuse(t == OptionType::kI64List, [&] { set.set_i64_list(key, {1}); });
    refuse(t == OptionType::kBool, [&] { set.get_bool(key); });
    refuse(integer, [&] { set.get_i64(key); });
    refuse(integer, [&] { set.get_u64(key); });
    refuse(t == OptionType::kF64, [&] { set.get_f64(key); });
    refuse(text, [&] { set.get_string(key); });
    refuse(t == OptionType::kStringList, [&] { set.get_string_list(key); });
    refuse(t == OptionType::kI64List, [&] { set.get_i64_list(key); });
  }
  EXPECT_EQ(set.dump(true), "");
}

TEST(OptionSet, TextThatIsNoValueIsAnError) {
  OptionSet set;
  const char* const integer = "engine.max_num_seqs";
  for (const char* text : {"", "x", "1.5", "1 ", " 1", "0x10", "1s", "1KiB", "--1", "+1"}) {
    expect_error(Code::kWrongType, [&] { set.set_text(integer, text); });
  }
  expect_error(Code::kOutOfRange, [&] { set.set_text(integer, "99999999999999999999"); });
  for (const char* text : {"True", "1", "yes", ""}) {
    expect_error(Code::kWrongType, [&] { set.set_text("data.shuffle", text); });
  }
  for (const char* text : {"", "1e", "one", "1.0f", "0,5"}) {
    expect_error(Code::kWrongType, [&] { set.set_text("optimizer.lr", text); });
  }
  expect_error(Code::kOutOfRange, [&] { set.set_text("optimizer.lr", "1e999"); });
  expect_error(Code::kWrongType, [&] { set.set_text("sampling.stop_token_ids", "1,x"); });
  expect_error(Code::kWrongType, [&] { set.set_text("sampling.stop", "a\\q"); });
  expect_error(Code::kWrongType, [&] { set.set_text("sampling.stop", "a\\"); });
  expect_error(Code::kOutOfRange, [&] { set.set_text("runtime.seed", "-1"); });
  expect_error(Code::kOutOfRange, [&] { set.set_text("runtime.seed", "18446744073709551616"); });
}

TEST(OptionSet, UnitsScaleDurationsAndSizesWithoutWrapping) {
  OptionSet set;
  set.set_text("pipeline.reward_timeout_ns", "30s");
  EXPECT_EQ(set.get_i64("pipeline.reward_timeout_ns"), 30000000000);
  set.set_text("pipeline.reward_timeout_ns", "2min");
  EXPECT_EQ(set.get_i64("pipeline.reward_timeout_ns"), 120000000000);
  set.set_text("runtime.memory_budget_bytes", "3GiB");
  EXPECT_EQ(set.get_u64("runtime.memory_budget_bytes"), uint64_t{3} << 30);
  EXPECT_EQ(set.get_text("runtime.memory_budget_bytes"), "3221225472");
  expect_error(Code::kOutOfRange,
               [&] { set.set_text("runtime.memory_budget_bytes", "16777216TiB"); });
  expect_error(Code::kOutOfRange, [&] { set.set_text("pipeline.reward_timeout_ns", "2562048h"); });
  expect_error(Code::kWrongType, [&] { set.set_text("runtime.memory_budget_bytes", "3GB"); });
  expect_error(Code::kOutOfRange, [&] { set.set_text("pipeline.reward_timeout_ns", "-1s"); });
}

TEST(OptionSet, IntegerSettersConvertOnlyWhatFits) {
  OptionSet set;
  set.set_u64("runtime.seed", ~uint64_t{0});
  EXPECT_EQ(set.get_u64("runtime.seed"), ~uint64_t{0});
  EXPECT_EQ(set.get_text("runtime.seed"), "18446744073709551615");
  expect_error(Code::kOutOfRange, [&] { set.get_i64("runtime.seed"); });
  expect_error(Code::kOutOfRange, [&] { set.set_i64("runtime.seed", -1); });
  set.set_i64("runtime.seed", 7);
  EXPECT_EQ(set.get_i64("runtime.seed"), 7);
  set.set_u64("engine.max_num_seqs", 16);
  EXPECT_EQ(set.get_u64("engine.max_num_seqs"), 16u);
  expect_error(Code::kOutOfRange, [&] { set.set_u64("engine.max_num_seqs", uint64_t{1} << 63); });
}

TEST(OptionSet, BlockSizeTakesPowersOfTwoOnly) {
  OptionSet set;
  for (const int64_t good : {16, 32, 64, 128}) set.set_i64("engine.block_size", good);
  for (const int64_t bad : {0, -16, 8, 17, 48, 127, 256}) {
    const Error error =
        expect_error(Code::kOutOfRange, [&] { set.set_i64("engine.block_size", bad); });
    EXPECT_TRUE(contains(error.expected, "power of two"));
  }
}

TEST(OptionSet, ListsRoundTripWithEscapes) {
  OptionSet set;
  const std::vector<std::string> stops = {"a,b", "\n\n", "tab\t", "back\\slash", "\xC3\xA9"};
  set.set_string_list("sampling.stop", stops);
  const std::string text = set.get_text("sampling.stop");
  EXPECT_EQ(text, "a\\,b,\\n\\n,tab\\t,back\\\\slash,\xC3\xA9");
  set.unset("sampling.stop");
  EXPECT_TRUE(set.get_string_list("sampling.stop").empty());
  set.set_text("sampling.stop", text);
  EXPECT_EQ(set.get_string_list("sampling.stop"), stops);
  set.set_text("sampling.stop_token_ids", "2,0,7");
  EXPECT_EQ(set.get_i64_list("sampling.stop_token_ids"), (std::vector<int64_t>{2, 0, 7}));
  expect_error(Code::kOutOfRange, [&] { set.set_i64_list("sampling.stop_token_ids", {1, -1}); });
  expect_error(Code::kOutOfRange, [&] { set.set_text("sampling.stop", "a,,b"); });
}

TEST(OptionSet, OverlongAndControlTextsAreRefused) {
  OptionSet set;
  expect_error(Code::kOutOfRange, [&] { set.set_string("model.path", std::string(65537, 'a')); });
  expect_error(Code::kInvalidArgument, [&] { set.set_string("model.path", "a\nb"); });
  expect_error(Code::kInvalidArgument,
               [&] { set.set_string("model.path", std::string_view("a\0b", 3)); });
  expect_error(Code::kOutOfRange,
               [&] { set.set_i64_list("sampling.stop_token_ids", std::vector<int64_t>(4097)); });
}

TEST(OptionSet, AssignmentsSplitAtTheFirstEqualsSign) {
  OptionSet set;
  set.set_assignment("model.path=/a=b");
  EXPECT_EQ(set.get_string("model.path"), "/a=b");
  set.set_assignment("model.path=");
  EXPECT_TRUE(set.is_default("model.path"));
  expect_error(Code::kInvalidArgument, [&] { set.set_assignment("model.path"); });
  expect_error(Code::kUnknownOption, [&] { set.set_assignment("=1"); });
}

TEST(OptionSet, DumpRebuildsTheSet) {
  OptionSet set;
  set.set_f64("optimizer.lr", 1e-5);
  set.set_text("sampling.stop", "a\\nb,c=d");
  set.set_i64("runtime.seed", 3);
  const std::string dump = set.dump(true);
  EXPECT_EQ(dump, "optimizer.lr=1e-05\nruntime.seed=3\nsampling.stop=a\\nb,c=d\n");
  OptionSet copy;
  const std::string all = set.dump(false);
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\n', at);
    copy.set_assignment(all.substr(at, end - at));
    at = end + 1;
  }
  EXPECT_TRUE(copy.diff(set).empty());
  EXPECT_EQ(copy.dump(false), all);
}

TEST(OptionSet, CopyAndDiffAreIndependent) {
  OptionSet set;
  OptionSet copy = set;
  copy.set_i64("engine.max_num_seqs", 8);
  copy.set_bool("data.shuffle", false);
  EXPECT_EQ(set.diff(copy), (std::vector<std::string>{"data.shuffle", "engine.max_num_seqs"}));
  EXPECT_TRUE(set.is_default("engine.max_num_seqs"));
  copy.unset("engine.max_num_seqs");
  copy.unset("data.shuffle");
  EXPECT_TRUE(set.diff(copy).empty());
}

TEST(OptionSet, TheDifferenceAsTextTurnsOneSetIntoTheOther) {
  OptionSet a, b;
  a.set_i64("engine.max_num_seqs", 8);
  a.set_text("sampling.stop", "x\\ny");
  b.set_f64("optimizer.lr", 1e-5);
  const std::string text = a.diff_text(b);
  EXPECT_EQ(text, "engine.max_num_seqs=64\noptimizer.lr=1e-05\nsampling.stop=\n");
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    a.set_assignment(text.substr(at, end - at));
    at = end + 1;
  }
  EXPECT_TRUE(a.diff(b).empty());
  EXPECT_EQ(a.diff_text(b), "");
}

TEST(OptionSet, EqualValuesAreEqualHoweverTheyWereSet) {
  OptionSet a, b;
  a.set_f64("optimizer.lr", 1e-5);
  a.set_text("pipeline.reward_timeout_ns", "2s");
  a.set_u64("engine.max_num_seqs", 16);
  b.set_i64("engine.max_num_seqs", 7);
  b.set_i64("pipeline.reward_timeout_ns", 2'000'000'000);
  b.set_text("engine.max_num_seqs", "16");
  b.set_text("optimizer.lr", "0.00001");
  EXPECT_EQ(a.dump(false), b.dump(false));
  EXPECT_EQ(a.identity(), b.identity());
  a.set_f64("algo.entropy_coef", -0.0);
  EXPECT_EQ(a.identity(), b.identity());
  EXPECT_EQ(a.get_text("algo.entropy_coef"), "0");
}

TEST(OptionSet, TextsAreUtf8) {
  OptionSet set;
  const Error error =
      expect_error(Code::kInvalidArgument, [&] { set.set_string("model.path", "ab\xff"); });
  EXPECT_TRUE(contains(error.message, "model.path is not UTF-8 at byte 2"));
  expect_error(Code::kInvalidArgument, [&] { set.set_string_list("sampling.stop", {"\xc3"}); });
  const std::vector<std::string> many(17, std::string(65536, 'a'));
  expect_error(Code::kOutOfRange, [&] { set.set_string_list("sampling.stop", many); });
  EXPECT_EQ(set.dump(true), "");
}

TEST(OptionSet, AnEmptyTextIsRefusedWhereTheTableSaysSo) {
  OptionSet set;
  const Error error =
      expect_error(Code::kOutOfRange, [&] { set.set_text("checkpoint.resume", ""); });
  EXPECT_EQ(error.expected, "string, not empty");
}

TEST(OptionSet, ValuesMoveBetweenSetsInTheirOwnType) {
  OptionSet a, b;
  a.set_text("sampling.stop_token_ids", "1,2");
  for (const OptionInfo* row : rows()) b.set_value(row->key, a.get_value(row->key));
  EXPECT_TRUE(a.diff(b).empty());
  expect_error(Code::kWrongType, [&] { b.set_value("optimizer.lr", int64_t{1}); });
  expect_error(Code::kOutOfRange, [&] { b.set_value("optimizer.lr", -1.0); });
}

// So that a run of 0.1.0 resumes: its checkpoints carry the identity.
TEST(OptionSet, ANewerOptionAtItsDefaultIsNoPartOfTheIdentity) {
  const OptionSet set;
  Digest64 digest;
  int64_t newer = 0;
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    if (!info.affects_determinism) continue;
    if (info.since == std::string_view("0.1.0"))
      digest.update(str(info.key, "=", set.get_text(info.key), "\n"));
    else
      ++newer;
  }
  EXPECT_EQ(set.identity(), digest.value());
  EXPECT_GT(newer, 0);
}

TEST(OptionSet, IdentityOfAnyLayoutIsWithoutWhatRanksDivideAndAddUp) {
  OptionSet set;
  const uint64_t before = set.identity_of_any_layout();
  for (const char* layout :
       {"parallel.tensor=2", "parallel.data=3", "comm.reduction_order=backend"}) {
    const uint64_t with_layout = set.identity();
    set.set_assignment(layout);
    EXPECT_NE(set.identity(), with_layout) << layout;
    EXPECT_EQ(set.identity_of_any_layout(), before) << layout;
  }
  set.set_assignment("parallel.reduction_parts=2");
  EXPECT_NE(set.identity_of_any_layout(), before);
}

TEST(OptionSet, IdentityFollowsWhatMovesBitsOnly) {
  OptionSet set;
  const uint64_t before = set.identity();
  set.set_string("runtime.log_level", "debug");
  set.set_string("metrics.jsonl", "/tmp/m");
  set.set_i64("runtime.threads", 1);
  EXPECT_EQ(set.identity(), before);
  std::set<uint64_t> seen = {before};
  for (const char* change :
       {"runtime.seed=1", "optimizer.lr=0.5", "algo.kl.where=loss", "model.freeze=*norm.weight"}) {
    set.set_assignment(change);
    EXPECT_TRUE(seen.insert(set.identity()).second) << change;
  }
}

TEST(RequireChangeable, FollowsTheRow) {
  const OptionInfo& fixed = require_option("model.path");
  const OptionInfo& stepwise = require_option("optimizer.lr");
  const OptionInfo& always = require_option("runtime.log_level");
  require_changeable(fixed, OptionWhen::kCreate);
  require_changeable(stepwise, OptionWhen::kBetweenSteps);
  require_changeable(always, OptionWhen::kAnyTime);
  expect_error(Code::kNotChangeable, [&] { require_changeable(fixed, OptionWhen::kBetweenSteps); });
  expect_error(Code::kNotChangeable, [&] { require_changeable(stepwise, OptionWhen::kAnyTime); });
}

TEST(CheckOption, UnsupportedOptionTakesItsDefaultOnlyAndSaysWhy) {
  OptionInfo info = require_option("engine.max_num_seqs");
  info.unsupported_reason = "this build has no such thing";
  check_option(info, int64_t{64});
  const Error error = expect_error(Code::kNotInBuild, [&] { check_option(info, int64_t{65}); });
  EXPECT_TRUE(contains(error.message, "no such thing"));
}

}  // namespace
}  // namespace rl
