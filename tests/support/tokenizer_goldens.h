// Checks one tokenizer against a golden file in the format of tests/fixtures/tokenizers: cases,
// decode_only and streaming, all exact.
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace rl::test {

using Ids = std::vector<int32_t>;

inline void check_golden_cases(const Tokenizer& tokenizer, const nlohmann::json& golden) {
  ASSERT_GE(golden.at("cases").size(), 300u);
  for (const auto& item : golden.at("cases")) {
    const auto text = item.at("text").get<std::string>();
    SCOPED_TRACE(item.at("text").dump());
    const Ids ids = item.at("ids").get<Ids>();
    EXPECT_EQ(tokenizer.encode(text, {.allow_special = true}).ids, ids);
    EXPECT_EQ(tokenizer.decode(ids, false), item.at("decoded").get<std::string>());
    const auto skipped = item.value("decoded_skip_special", item.at("decoded").get<std::string>());
    EXPECT_EQ(tokenizer.decode(ids, true), skipped);
    const Ids with_special = item.value("ids_with_special", ids);
    EXPECT_EQ(tokenizer.encode(text, {.add_special = true, .allow_special = true}).ids,
              with_special);
  }
}

inline void check_golden_decodes(const Tokenizer& tokenizer, const nlohmann::json& golden) {
  ASSERT_GE(golden.at("decode_only").size(), 30u);
  for (const auto& item : golden.at("decode_only")) {
    const Ids ids = item.at("ids").get<Ids>();
    EXPECT_EQ(tokenizer.decode(ids, false), item.at("decoded").get<std::string>());
    EXPECT_EQ(tokenizer.decode(ids, true), item.at("decoded_skip_special").get<std::string>());
  }
}

inline void check_golden_streams(const Tokenizer& tokenizer, const nlohmann::json& golden) {
  ASSERT_GE(golden.at("streaming").size(), 25u);
  for (const auto& item : golden.at("streaming")) {
    SCOPED_TRACE(item.at("text").dump());
    Detokenizer stream(tokenizer, false);
    std::string all;
    const Ids ids = item.at("ids").get<Ids>();
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto& piece = item.at("pieces").at(i);
      const std::string got = stream.feed(ids[i]);
      EXPECT_EQ(got, piece.is_null() ? std::string() : piece.get<std::string>()) << "piece " << i;
      all += got;
    }
    EXPECT_EQ(all + stream.finish(), item.at("text").get<std::string>());
  }
}

}  // namespace rl::test
