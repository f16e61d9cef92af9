// What strict JSON accepts and refuses, and that errors say where.
#include "core/encoding/strict_json.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace rl {
namespace {

Error error_of(const std::string& text, uint64_t max_bytes = 1 << 20) {
  try {
    parse_strict_json(text, "file.json", max_bytes);
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::kOk, "no error");
}

TEST(StrictJson, BuildsTheSameValueAsThePlainParser) {
  const std::string text =
      R"({"a": [1, -2, 3.5, true, false, null, {"b": {}}], "": "\u00e9\ud83d\ude00",
          "c": [], "d": [[], [[]]], "e": 18446744073709551615, "f": "x"})";
  EXPECT_EQ(parse_strict_json(text, "t", 1 << 20), nlohmann::json::parse(text));
  EXPECT_EQ(parse_strict_json(" 7 ", "t", 1 << 20), nlohmann::json(7));
}

TEST(StrictJson, EveryPrefixIsAnError) {
  const std::string text = R"({"a": [1, {"b": "c\n"}], "d": true})";
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(error_of(text.substr(0, size)).code, Code::kDataLoss) << size;
  }
}

TEST(StrictJson, NestingIsLimited) {
  const auto nested = [](int depth) {
    const auto count = static_cast<size_t>(depth);
    return std::string(count, '[') + std::string(count, ']');
  };
  EXPECT_NO_THROW(parse_strict_json(nested(kMaxJsonDepth), "t", 1 << 20));
  const Error e = error_of(nested(kMaxJsonDepth + 1));
  EXPECT_EQ(e.code, Code::kResourceExhausted);
  EXPECT_EQ(e.location, "file.json:1:65");
  EXPECT_EQ(error_of(std::string(1 << 19, '[')).code, Code::kResourceExhausted);
}

TEST(StrictJson, DuplicateKeysAreNamedWithTheirPlace) {
  const Error e = error_of("{\"a\": 1,\n  \"b\": 2,\n  \"a\": 3}");
  EXPECT_EQ(e.code, Code::kDataLoss);
  EXPECT_EQ(e.location, "file.json:3:5");
  EXPECT_NE(e.message.find("\"a\""), std::string::npos);
  EXPECT_EQ(error_of(R"({"x": {"a": 1, "a": 1}})").code, Code::kDataLoss);
  EXPECT_EQ(error_of(R"({"\u0061": 1, "a": 1})").code, Code::kDataLoss);
  EXPECT_NO_THROW(parse_strict_json(R"([{"a": 1}, {"a": 1}])", "t", 100));
}

TEST(StrictJson, RefusesWhatIsNotJson) {
  for (const char* text : {"", " ", "{} x", "1 2", "[1,]", "{\"a\":1,}", "// c\n1", "'a'", "nan",
                           "\"\x01\"", "\"\xff\"", "\"\\ud800\"", "\xef\xbb\xbf{}", "1e999", "01",
                           "+1", "{\"a\"}", "\"\xc0\x80\""}) {
    const Error e = error_of(text);
    EXPECT_EQ(e.code, Code::kDataLoss) << text;
    EXPECT_TRUE(e.location.starts_with("file.json:1:") || e.location.starts_with("file.json:2:"))
        << e.location;
  }
  EXPECT_EQ(error_of(std::string("[1\0]", 4)).code, Code::kDataLoss);
  EXPECT_EQ(error_of(std::string("{}\0garbage", 10)).code, Code::kDataLoss);
}

TEST(StrictJson, RefusesALongTextUnread) {
  const Error e = error_of("[1, 2, 3]", 8);
  EXPECT_EQ(e.code, Code::kResourceExhausted);
  EXPECT_NE(e.message.find("9"), std::string::npos);
}

TEST(StrictJson, MessagesStayShortAndWellFormed) {
  const Error e = error_of("\"" + std::string(100'000, 'x') + "\xff\"");
  EXPECT_LT(e.message.size(), 600u);
  EXPECT_EQ(e.message.find('\xff'), std::string::npos);
}

}  // namespace
}  // namespace rl
