// A small tokenizer.json that uses every member the reader knows, for tests that change one thing.
#pragma once
#include <nlohmann/json.hpp>

#include "text/byte_level.h"

namespace rl::test {

inline nlohmann::json added_token(int id, const std::string& text, bool special) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// Letters a to h, space, newline and digits as bytes; "ab", "abc", "cd"; added tokens from id 40.
// The byte "z" has no token.
inline nlohmann::json small_tokenizer() {
  nlohmann::json vocab = nlohmann::json::object();
  for (const char c : std::string("abcdefgh \n0123456789\xc3\xa9")) {
    vocab[spell_bytes({&c, 1})] = vocab.size();
  }
  for (const char* word : {"ab", "abc", "cd"}) vocab[word] = vocab.size();
  nlohmann::json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"added_tokens",
       {added_token(40, "<s>", true), added_token(41, "</s>", true),
        added_token(42, "<tool>", false)}},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Digits"}, {"individual_digits", true}},
          {{"type", "Split"},
           {"pattern", {{"Regex", "\\s+|[a-d]+"}}},
           {"behavior", "Isolated"},
           {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}}}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"ignore_merges", false},
        {"vocab", vocab},
        {"merges", nlohmann::json::array({"a b", nlohmann::json::array({"ab", "c"}), "c d"})}}}};
  json["post_processor"] = nlohmann::json::parse(R"({"type": "Sequence", "processors": [
      {"type": "ByteLevel"},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                  {"Sequence": {"id": "A", "type_id": 0}},
                  {"SpecialToken": {"id": "</s>", "type_id": 0}}],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [40], "tokens": ["<s>"]},
                          "</s>": {"id": "</s>", "ids": [41], "tokens": ["</s>"]}}}]})");
  return json;
}

}  // namespace rl::test
