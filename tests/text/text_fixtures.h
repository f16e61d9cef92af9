// Reading of the tokenizer goldens and of the tiny tokenizers they belong to.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "core/encoding/strict_json.h"
#include "core/fs.h"
#include "text/tokenizer.h"

namespace rl::test {

inline std::string fixture_path(const std::string& name) {
  return std::string(RL_FIXTURES) + "/tokenizers/" + name;
}

inline std::string fixture_text(const std::string& name) {
  return read_text_file(real_fs(), fixture_path(name), 1 << 26);
}

inline nlohmann::json fixture_json(const std::string& name) {
  return parse_strict_json(fixture_text(name), name, 1 << 26);
}

// Members keep their order.
inline nlohmann::ordered_json ordered_fixture(const std::string& name) {
  return parse_ordered_json(fixture_text(name), name, 1 << 26);
}

inline Tokenizer tiny_tokenizer(const std::string& name) {
  return Tokenizer::from_json(real_fs(), fixture_path(name + ".tokenizer.json"));
}

}  // namespace rl::test
