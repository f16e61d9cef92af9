// Option sets through JSON and FlatBuffers: every value of the table survives, every wrong entry is
// reported with its place, nothing is taken over when anything is wrong, golden documents stay
// readable, and mutated ones never do harm.
#include <gtest/gtest.h>
#include <schemas/options_generated.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "options/option_import.h"
#include "options/option_text.h"
#include "options/options_flatbuffer.h"
#include "options/options_json.h"
#include "support/expect_error.h"
#include "support/mutate.h"
#include "support/option_samples.h"

namespace rl {
namespace {

using Json = nlohmann::json;

constexpr const char* kVersion = "0.1.0";

OptionSet read_flatbuffer(std::string_view document, const OptionSet& base = {}) {
  return options_from_flatbuffer(std::as_bytes(std::span(document)), base);
}
OptionSet read_json(std::string_view document, const OptionSet& base = {}) {
  return options_from_json(document, base);
}

// Both formats behind one interface.
struct Format {
  const char* name;
  std::string (*write)(const OptionSet&, bool, std::string_view);
  OptionSet (*read)(std::string_view, const OptionSet&);
};
const std::vector<Format> kFormats = {{"json", options_to_json, read_json},
                                      {"flatbuffer", options_to_flatbuffer, read_flatbuffer}};

// A set in which every option that can differ from its default does.
OptionSet all_changed() {
  OptionSet set;
  for (size_t i = 0; i < option_count(); ++i) {
    for (const OptionValue& value : testing::valid_values(option_at(i))) {
      if (set.is_default(option_at(i).key)) set.set_value(option_at(i).key, value);
    }
  }
  return set;
}

TEST(OptionDocuments, EveryValueOfEveryOptionSurvives) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    for (size_t i = 0; i < option_count(); ++i) {
      const OptionInfo& info = option_at(i);
      for (const OptionValue& value : testing::valid_values(info)) {
        OptionSet set, by_text;
        set.set_value(info.key, value);
        by_text.set_text(info.key, set.get_text(info.key));
        for (const bool only_changed : {true, false}) {
          const OptionSet back = format.read(format.write(set, only_changed, kVersion), {});
          EXPECT_EQ(back.get_value(info.key), value) << info.key;
          EXPECT_TRUE(back.diff(set).empty()) << info.key;
          EXPECT_EQ(back.dump(false), by_text.dump(false)) << info.key;
        }
      }
    }
  }
}

TEST(OptionDocuments, WritingIsCanonicalAndReadingAddsToTheBase) {
  const OptionSet changed = all_changed();
  OptionSet backwards;
  for (size_t i = option_count(); i-- > 0;) {
    backwards.set_value(option_at(i).key, changed.get_value(option_at(i).key));
  }
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    EXPECT_EQ(format.write(changed, true, kVersion), format.write(backwards, true, kVersion));
    OptionSet base, small;
    base.set_f64("optimizer.lr", 0.5);
    base.set_i64("engine.max_num_seqs", 3);
    small.set_i64("engine.max_num_seqs", 5);
    const OptionSet got = format.read(format.write(small, true, kVersion), base);
    EXPECT_EQ(got.dump(true), "engine.max_num_seqs=5\noptimizer.lr=0.5\n");
    EXPECT_EQ(format.read(format.write({}, true, kVersion), base).dump(true), base.dump(true));
  }
}

// Documents with one entry whose value need not be valid.
std::string json_with(const std::string& key, const OptionValue& value) {
  const Json json = std::visit([](const auto& v) { return Json(v); }, value);
  return Json{{"options", {{key, json}}}}.dump();
}

using Builder = flatbuffers::FlatBufferBuilder;
using Rows = std::vector<flatbuffers::Offset<fb::Option>>;

std::string finish(Builder& builder, const Rows& rows, uint32_t format = 1) {
  const auto options = builder.CreateVector(rows);
  fb::FinishOptionSetBuffer(builder, fb::CreateOptionSet(builder, 0, options, format));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

flatbuffers::Offset<fb::Option> row_of(Builder& b, const std::string& key, const OptionValue& v) {
  const auto name = b.CreateString(key);
  const auto kind = static_cast<fb::OptionKind>(v.index() + 1);
  flatbuffers::Offset<flatbuffers::String> text;
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> texts;
  flatbuffers::Offset<flatbuffers::Vector<int64_t>> integers;
  if (v.index() == 4) text = b.CreateString(std::get<4>(v));
  if (v.index() == 5) texts = b.CreateVectorOfStrings(std::get<5>(v));
  if (v.index() == 6) integers = b.CreateVector(std::get<6>(v));
  return fb::CreateOption(b, name, kind, v.index() == 0 && std::get<0>(v),
                          v.index() == 1 ? std::get<1>(v) : 0, v.index() == 2 ? std::get<2>(v) : 0,
                          v.index() == 3 ? std::get<3>(v) : 0, text, texts, integers);
}

std::string flatbuffer_with(const std::string& key, const OptionValue& value) {
  Builder builder;
  const Rows rows = {row_of(builder, key, value)};
  return finish(builder, rows);
}

TEST(OptionDocuments, AValueBeyondABoundIsRefusedWithKeyValueAndLimit) {
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    for (const OptionValue& value : testing::values_beyond(info)) {
      SCOPED_TRACE(info.key);
      const Error json =
          expect_error(Code::kOutOfRange, [&] { read_json(json_with(info.key, value)); });
      const Error binary = expect_error(Code::kOutOfRange,
                                        [&] { read_flatbuffer(flatbuffer_with(info.key, value)); });
      EXPECT_EQ(json.key, info.key);
      EXPECT_EQ(json.expected, option_expectation(info));
      EXPECT_EQ(json.location, str("/options/", info.key));
      EXPECT_EQ(binary.message, json.message);
      EXPECT_EQ(binary.location, "options[0]");
    }
  }
}

TEST(OptionDocuments, AValueOfAnotherTypeIsRefused) {
  const std::vector<OptionValue> one_of_each = {true,
                                                int64_t{1},
                                                uint64_t{1},
                                                0.5,
                                                std::string("x"),
                                                std::vector<std::string>{"x"},
                                                std::vector<int64_t>{1}};
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    const size_t own = OptionSet().get_value(info.key).index();
    for (const OptionValue& value : one_of_each) {
      const bool integers = (own == 1 || own == 2) && (value.index() == 1 || value.index() == 2);
      const bool whole_number = own == 3 && value.index() < 3 && value.index() > 0;
      if (value.index() == own || integers) continue;
      SCOPED_TRACE(str(info.key, " ", value.index()));
      EXPECT_EQ(
          expect_error(Code::kWrongType, [&] { read_flatbuffer(flatbuffer_with(info.key, value)); })
              .key,
          info.key);
      if (whole_number) continue;  // JSON has one type of numbers
      EXPECT_EQ(expect_error(Code::kWrongType, [&] { read_json(json_with(info.key, value)); }).key,
                info.key);
    }
    for (const char* other : {"null", "{}", "[[]]", "[null]", "[1, \"x\"]"}) {
      const std::string text = str("{\"options\": {\"", info.key, "\": ", other, "}}");
      EXPECT_EQ(expect_error(Code::kWrongType, [&] { read_json(text); }).key, info.key) << other;
    }
  }
}

TEST(OptionDocuments, AKeyThatNoMessageCanShowIsRefused) {
  for (const char* key : {"a\x1f", "a\x7f"}) {
    for (const std::string& document : {json_with(key, true), flatbuffer_with(key, true)}) {
      const Error e = expect_error(Code::kInvalidArgument, [&] {
        document.starts_with('{') ? read_json(document) : read_flatbuffer(document);
      });
      EXPECT_TRUE(contains(e.message, "not printable")) << e.message;
    }
  }
}

TEST(OptionDocuments, NumbersAreExact) {
  const auto with = [](const char* key, const char* number) {
    return read_json(str("{\"options\": {\"", key, "\": ", number, "}}"));
  };
  EXPECT_EQ(with("runtime.seed", "18446744073709551615").get_u64("runtime.seed"), ~uint64_t{0});
  EXPECT_EQ(with("runtime.seed", "9007199254740993").get_u64("runtime.seed"), 9007199254740993u);
  EXPECT_EQ(with("optimizer.lr", "1").get_f64("optimizer.lr"), 1.0);
  EXPECT_EQ(with("optimizer.lr", "1E-5").get_f64("optimizer.lr"), 1e-5);
  EXPECT_EQ(with("optimizer.lr", "0.1").get_f64("optimizer.lr"), 0.1);
  expect_error(Code::kOutOfRange, [&] { with("runtime.seed", "18446744073709551616"); });
  expect_error(Code::kOutOfRange, [&] { with("runtime.seed", "-1"); });
  expect_error(Code::kWrongType, [&] { with("runtime.seed", "1.0"); });
  expect_error(Code::kWrongType, [&] { with("runtime.seed", "1e3"); });
  expect_error(Code::kWrongType, [&] { with("runtime.seed", "\"1\""); });
  expect_error(Code::kWrongType, [&] { with("pipeline.reward_timeout_ns", "\"30s\""); });
  for (const char* bad : {"NaN", "Infinity", "-Infinity", "nan", "1e999", "01", "+1", "0x10"}) {
    expect_error(Code::kDataLoss, [&] { with("optimizer.lr", bad); });
  }
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_error(Code::kOutOfRange, [&] { read_flatbuffer(flatbuffer_with("optimizer.lr", bad)); });
  }
}

TEST(OptionDocuments, AllViolationsAreReportedAtOnceAndNothingIsTakenOver) {
  OptionSet base;
  base.set_i64("engine.max_num_seqs", 3);
  const auto check = [](const Error& error, const std::vector<std::string>& locations) {
    ASSERT_EQ(error.parts.size(), 5u) << error.message;
    const Code codes[] = {Code::kOutOfRange, Code::kUnknownOption, Code::kWrongType,
                          Code::kInvalidArgument, Code::kUnknownOption};
    const char* const keys[] = {"engine.block_size", "optimiser.lr", "data.shuffle",
                                "engine.max_num_seqs", "x"};
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(error.parts[i].code, codes[i]);
      EXPECT_EQ(error.parts[i].key, keys[i]);
      EXPECT_EQ(error.parts[i].location, locations[i]);
      EXPECT_TRUE(contains(error.message, error.parts[i].message));
    }
    EXPECT_EQ(error.parts[1].nearest,
              (std::vector<std::string>{"optimizer.lr", "critic.optimizer.lr"}));
  };
  check(expect_error(Code::kInvalidArgument,
                     [&] {
                       read_json(R"({"options": {"engine.max_num_seqs": 7,
                         "engine.block_size": 48, "optimiser.lr": 1, "data.shuffle": "yes",
                         "engine.max_num_seqs": 8, "x": 1}})",
                                 base);
                     }),
        {"/options/engine.block_size", "/options/optimiser.lr", "/options/data.shuffle",
         "/options/engine.max_num_seqs", "/options/x"});
  Builder b;
  const Rows rows = {row_of(b, "engine.max_num_seqs", int64_t{7}),
                     row_of(b, "engine.block_size", int64_t{48}),
                     row_of(b, "optimiser.lr", 1.0),
                     row_of(b, "data.shuffle", std::string("yes")),
                     row_of(b, "engine.max_num_seqs", int64_t{8}),
                     row_of(b, "x", true)};
  const std::string document = finish(b, rows);
  check(expect_error(Code::kInvalidArgument, [&] { read_flatbuffer(document, base); }),
        {"options[1]", "options[2]", "options[3]", "options[4]", "options[5]"});
  EXPECT_EQ(base.dump(true), "engine.max_num_seqs=3\n");
}

TEST(OptionDocuments, OneTypoOfEachKeySuggestsTheKey) {
  for (const Format& format : kFormats) {
    for (size_t i = 0; i < option_count(); ++i) {
      const std::string key = option_at(i).key;
      std::string typo = key;
      typo.erase(typo.size() / 2, 1);
      const bool json = std::string(format.name) == "json";
      const std::string document = json ? json_with(typo, true) : flatbuffer_with(typo, true);
      const Error error = expect_error(Code::kUnknownOption, [&] { format.read(document, {}); });
      EXPECT_EQ(error.key, typo);
      EXPECT_EQ(std::count(error.nearest.begin(), error.nearest.end(), key), 1) << typo;
    }
  }
}

TEST(OptionsJson, WhatIsNoSuchDocumentIsRefusedWithItsPlace) {
  const auto refused = [](Code code, std::string_view text, const std::string& location) {
    EXPECT_EQ(expect_error(code, [&] { read_json(text); }).location, location) << text;
  };
  refused(Code::kDataLoss, "", "");
  refused(Code::kDataLoss, "{\"options\": {}", "byte 14");
  refused(Code::kDataLoss, "{\"options\": {}} x", "byte 16");
  refused(Code::kDataLoss, "\xef\xbb\xbf{\"options\": {}}", "byte 0");
  refused(Code::kDataLoss, std::string_view("{\"options\": {}}\0", 16), "byte 15");
  refused(Code::kDataLoss, "{\"options\": {\"a\xff\": 1}}", "byte 15");
  refused(Code::kInvalidArgument, "{}", "");
  refused(Code::kInvalidArgument, "{\"options\": {}, \"other\": 1}", "/other");
  refused(Code::kInvalidArgument, "{\"options\": {}, \"other\": {\"options\": {}}}", "/other");
  refused(Code::kInvalidArgument, "{\"options\": {}, \"options\": {}}", "/options");
  refused(Code::kInvalidArgument, "{\"library_version\": 1, \"options\": {}}", "/library_version");
  refused(Code::kInvalidArgument,
          "{\"library_version\": \"1\", \"library_version\": \"2\", \"options\": {}}",
          "/library_version");
  refused(Code::kUnknownOption, "{\"options\": {\"a/b~\": 1}}", "/options/a~1b~0");
  refused(Code::kInvalidArgument, "{\"options\": {\"a\\u0000\": 1}}",
          "/options/a" + std::string(1, '\0'));
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [] { read_json("[]"); }).parts.size(), 2u);
  expect_error(Code::kResourceExhausted, [] { read_json(std::string(100, '[')); });
  expect_error(Code::kResourceExhausted,
               [] { read_json(std::string(kMaxOptionDocumentBytes + 1, ' ')); });
  std::string many = "{\"options\": {";
  for (size_t i = 0; i <= kMaxOptionEntries; ++i) many += str(i > 0 ? "," : "", "\"k", i, "\":1");
  expect_error(Code::kResourceExhausted, [&] { read_json(many + "}}"); });
}

TEST(OptionsFlatbuffer, WhatIsNoSuchDocumentIsRefused) {
  const std::string good = options_to_flatbuffer(all_changed(), true, kVersion);
  // A cut into the padding at the end would leave everything there.
  for (size_t size = 0; size + 8 <= good.size(); size += size < 64 ? 1 : 97) {
    expect_error(Code::kDataLoss, [&] { read_flatbuffer(good.substr(0, size)); });
  }
  std::string other = good;
  other[4] = 'X';
  EXPECT_TRUE(
      contains(expect_error(Code::kDataLoss, [&] { read_flatbuffer(other); }).expected, "RLOP"));
  expect_error(Code::kResourceExhausted,
               [] { read_flatbuffer(std::string(kMaxOptionDocumentBytes + 1, '\0')); });
  Builder later;
  const std::string next = finish(later, {}, 2);
  expect_error(Code::kIncompatible, [&] { read_flatbuffer(next); });
  Builder many;
  Rows rows;
  for (size_t i = 0; i <= kMaxOptionEntries; ++i) rows.push_back(row_of(many, str("k", i), true));
  const std::string large = finish(many, rows);
  expect_error(Code::kDataLoss, [&] { read_flatbuffer(large); });
}

TEST(OptionsFlatbuffer, BytesMayLieAnywhere) {
  const std::string good = options_to_flatbuffer(all_changed(), true, kVersion);
  for (size_t shift = 0; shift < 8; ++shift) {
    const std::string moved = std::string(shift, 'x') + good;
    const OptionSet set = read_flatbuffer(std::string_view(moved).substr(shift));
    EXPECT_TRUE(set.diff(all_changed()).empty());
  }
}

TEST(OptionsFlatbuffer, AKindAndItsFieldGoTogether) {
  const auto refused = [](auto fill) {
    Builder b;
    const auto key = b.CreateString("metrics.jsonl");
    const auto text = b.CreateString("m");
    fb::OptionBuilder option(b);
    option.add_key(key);
    fill(option, text);
    const Rows rows = {option.Finish()};
    const std::string document = finish(b, rows);
    const Error e = expect_error(Code::kWrongType, [&] { read_flatbuffer(document); });
    EXPECT_EQ(e.key, "metrics.jsonl") << e.message;
  };
  using flatbuffers::Offset;
  using flatbuffers::String;
  refused([](fb::OptionBuilder& o, Offset<String> text) { o.add_text(text); });
  refused([](fb::OptionBuilder& o, Offset<String>) { o.add_kind(fb::OptionKind::Text); });
  refused([](fb::OptionBuilder& o, Offset<String> text) {
    o.add_kind(fb::OptionKind::Text);
    o.add_text(text);
    o.add_integer(1);
  });
  refused([](fb::OptionBuilder& o, Offset<String> text) {
    o.add_kind(static_cast<fb::OptionKind>(8));
    o.add_text(text);
  });
}

TEST(OptionsFlatbuffer, TextsAndKeysAreUtf8) {
  EXPECT_EQ(
      expect_error(Code::kInvalidArgument,
                   [] { read_flatbuffer(flatbuffer_with("metrics.jsonl", std::string("a\xff"))); })
          .key,
      "metrics.jsonl");
  for (const std::string key : {"a\xff", "a\n"}) {
    EXPECT_EQ(
        expect_error(Code::kInvalidArgument, [&] { read_flatbuffer(flatbuffer_with(key, true)); })
            .location,
        "options[0]");
  }
}

// Documents of this kind exist in the world: they are read for ever.
std::string fixture(const std::string& name) {
  std::ifstream file(std::string(RL_FIXTURES) + "/options/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(OptionDocuments, GoldenDocumentsOfTheFirstFormatAreRead) {
  const std::string lines = fixture("golden_0_1.txt");
  OptionSet expected;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at);
    expected.set_assignment(lines.substr(at, end - at));
    at = end + 1;
  }
  EXPECT_GT(OptionSet().diff(expected).size(), 30u);
  EXPECT_EQ(read_json(fixture("golden_0_1.json")).diff_text(expected), "");
  EXPECT_EQ(read_flatbuffer(fixture("golden_0_1.bin")).diff_text(expected), "");
}

// Whatever is read is valid and can be written; whatever is refused is a named error.
void fuzz(const Format& format, const std::vector<std::string>& corpus) {
  int read = 0;
  const int rounds = test::fuzz_rounds(1000);
  for (int round = 0; round < rounds; ++round) {
    const auto seed = static_cast<uint64_t>(round);
    const std::string document = test::mutate(corpus[seed % corpus.size()], seed);
    SCOPED_TRACE(str(format.name, " seed ", round));
    try {
      const OptionSet set = format.read(document, {});
      for (size_t i = 0; i < option_count(); ++i) {
        check_option(option_at(i), set.get_value(option_at(i).key));
      }
      ASSERT_TRUE(format.read(format.write(set, true, kVersion), {}).diff(set).empty());
      ++read;
    } catch (const Error& error) {
      ASSERT_NE(error.code, Code::kInternal) << error.message;
      ASSERT_FALSE(error.message.empty());
    }
  }
  EXPECT_GT(read, rounds / 200) << format.name;
  EXPECT_LT(read, rounds) << format.name;
}

TEST(OptionsJson, MutatedDocumentsAreReadOrRefused) {
  fuzz(kFormats[0], {fixture("golden_0_1.json"), options_to_json({}, true, kVersion),
                     options_to_json(all_changed(), true, kVersion)});
}

TEST(OptionsFlatbuffer, MutatedDocumentsAreReadOrRefused) {
  fuzz(kFormats[1], {fixture("golden_0_1.bin"), options_to_flatbuffer({}, true, kVersion),
                     options_to_flatbuffer(all_changed(), true, kVersion)});
}

}  // namespace
}  // namespace rl
