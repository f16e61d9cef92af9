// The large lists, vocabulary and merges, are written as text incrementally; the rest is a small
// JSON value.
#include "formats/hf/save_tokenizer.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>

#include "core/error.h"
#include "text/pre_tokenizer.h"

namespace rl {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const TokenizerParts& p, Code code, const char* key,
                       const std::string& what) {
  throw Error(code, str(p.source, ": ", key, ": ", what))
      .with_key(key)
      .with_location(str(p.source, " key ", key));
}

// How each value of tokenizer.ggml.pre maps to tokenizer.json.
struct PreForm {
  std::string_view pre;
  KnownPattern pattern;
  bool byte_level_regex;  // the pattern is the one built into ByteLevel
  bool digits;            // single digits are split off first
  bool nfc;
  bool ignore_merges;
  bool adds_bos;  // if the metadata does not say
};
constexpr PreForm kPreForms[] = {
    {"default", KnownPattern::kGpt2, true, false, false, false, false},
    {"gpt-2", KnownPattern::kGpt2, true, false, false, false, false},
    {"smollm", KnownPattern::kGpt2, true, true, false, false, false},
    {"qwen2", KnownPattern::kQwen2, false, false, true, false, false},
    {"llama-bpe", KnownPattern::kLlama3, false, false, false, true, true},
};

const PreForm& pre_form(const TokenizerParts& p) {
  if (p.model != "gpt2") {
    fail(p, Code::kUnsupported, "tokenizer.ggml.model",
         str("\"", p.model.substr(0, 64), "\" cannot be saved; only gpt2 can"));
  }
  for (const PreForm& form : kPreForms) {
    if (form.pre == p.pre) return form;
  }
  fail(p, Code::kUnsupported, "tokenizer.ggml.pre",
       str("\"", p.pre.substr(0, 64),
           "\" cannot be saved; only gpt-2, smollm, qwen2 and llama-bpe can"));
}

std::string quoted(const TokenizerParts& p, const char* key, std::string_view text) {
  try {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::strict);
  } catch (const Json::exception&) {
    fail(p, Code::kDataLoss, key, "an entry is not valid UTF-8");
  }
}

Json byte_level(bool add_prefix_space, bool trim_offsets, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", trim_offsets},
          {"use_regex", use_regex}};
}

Json pre_tokenizer(const PreForm& form) {
  Json chain = Json::array();
  if (form.digits) chain.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (!form.byte_level_regex) {
    chain.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", std::string(regex_of(form.pattern))}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  chain.push_back(byte_level(false, form.byte_level_regex, form.byte_level_regex));
  if (chain.size() == 1) return chain[0];
  return {{"type", "Sequence"}, {"pretokenizers", chain}};
}

const std::string& token(const TokenizerParts& p, const char* key, int64_t id) {
  if (id < 0 || id >= static_cast<int64_t>(p.tokens.size())) {
    fail(p, Code::kOutOfRange, key, str("is ", id, ", but there are ", p.tokens.size(), " tokens"));
  }
  return p.tokens[static_cast<size_t>(id)];
}

Json post_processor(const TokenizerParts& p, const PreForm& form) {
  const Json bytes = byte_level(true, false, true);
  if (!p.add_bos.value_or(form.adds_bos)) return bytes;
  if (!p.bos_id)
    fail(p, Code::kDataLoss, "tokenizer.ggml.bos_token_id", "is missing, but add_bos_token is set");
  const std::string& bos = token(p, "tokenizer.ggml.bos_token_id", *p.bos_id);
  const auto special = [&](int type_id) {
    return Json{{"SpecialToken", {{"id", bos}, {"type_id", type_id}}}};
  };
  const auto sequence = [](const char* id, int type_id) {
    return Json{{"Sequence", {{"id", id}, {"type_id", type_id}}}};
  };
  Json form_json = {{"type", "TemplateProcessing"}};
  form_json["single"] = Json::array({special(0), sequence("A", 0)});
  form_json["pair"] = Json::array({special(0), sequence("A", 0), special(1), sequence("B", 1)});
  form_json["special_tokens"] = {
      {bos, {{"id", bos}, {"ids", Json::array({*p.bos_id})}, {"tokens", Json::array({bos})}}}};
  return {{"type", "Sequence"}, {"processors", Json::array({bytes, form_json})}};
}

bool is_special(int32_t type) {
  return type == static_cast<int32_t>(TokenType::kControl) ||
         type == static_cast<int32_t>(TokenType::kUnknown);
}

std::string added_tokens(const TokenizerParts& p) {
  std::string out = "[";
  for (size_t id = 0; id < p.token_types.size() && id < p.tokens.size(); ++id) {
    const bool special = is_special(p.token_types[id]);
    if (!special && p.token_types[id] != static_cast<int32_t>(TokenType::kUserDefined)) continue;
    out += str(out.size() == 1 ? "" : ",", "\n    {\"id\": ", id,
               ", \"content\": ", quoted(p, "tokenizer.ggml.tokens", p.tokens[id]),
               ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": "
               "false, \"special\": ",
               special ? "true" : "false", "}");
  }
  return out + "\n  ]";
}

std::string vocabulary(const TokenizerParts& p) {
  std::unordered_set<std::string_view> seen;
  std::string out = "{";
  for (size_t id = 0; id < p.tokens.size(); ++id) {
    const std::string text = quoted(p, "tokenizer.ggml.tokens", p.tokens[id]);
    if (!seen.insert(p.tokens[id]).second) {
      fail(p, Code::kDataLoss, "tokenizer.ggml.tokens",
           str("token ", text, " occurs twice, the second time as id ", id));
    }
    out += str(id == 0 ? "\n      " : ",\n      ", text, ": ", id);
  }
  return out + "\n    }";
}

std::string merges(const TokenizerParts& p) {
  constexpr const char* kKey = "tokenizer.ggml.merges";
  std::string out = "[";
  for (size_t i = 0; i < p.merges.size(); ++i) {
    const std::string_view merge = p.merges[i];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      fail(p, Code::kDataLoss, kKey, str("merge ", i, " is not two tokens with a space between"));
    }
    out += str(i == 0 ? "\n      " : ",\n      ", "[", quoted(p, kKey, merge.substr(0, space)),
               ", ", quoted(p, kKey, merge.substr(space + 1)), "]");
  }
  return out + "\n    ]";
}

}  // namespace

std::string render_tokenizer_json(const TokenizerParts& p) {
  const PreForm& form = pre_form(p);
  const Json normalizer = form.nfc ? Json{{"type", "NFC"}} : Json(nullptr);
  std::string post;
  try {
    post = post_processor(p, form).dump();
  } catch (const Json::exception&) {
    fail(p, Code::kDataLoss, "tokenizer.ggml.bos_token_id", "its token is not valid UTF-8");
  }
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
  out += "  \"added_tokens\": " + added_tokens(p) + ",\n";
  out += "  \"normalizer\": " + normalizer.dump() + ",\n";
  out += "  \"pre_tokenizer\": " + pre_tokenizer(form).dump() + ",\n";
  out += "  \"post_processor\": " + post + ",\n";
  out += "  \"decoder\": " + byte_level(true, true, true).dump() + ",\n";
  out +=
      "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n";
  out += "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n";
  out += "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n";
  out += str("    \"ignore_merges\": ", form.ignore_merges ? "true" : "false", ",\n");
  out += "    \"vocab\": " + vocabulary(p) + ",\n";
  out += "    \"merges\": " + merges(p) + "\n  }\n}\n";
  return out;
}

std::string render_tokenizer_config(const ModelConfig& config, const TokenizerParts* parts) {
  Json j;
  j["tokenizer_class"] = "PreTrainedTokenizerFast";
  j["model_max_length"] = config.max_position;
  j["clean_up_tokenization_spaces"] = false;
  if (parts != nullptr) {
    const auto name = [&](const char* field, const char* key, const std::optional<int64_t>& id) {
      if (id) j[field] = token(*parts, key, *id);
    };
    name("bos_token", "tokenizer.ggml.bos_token_id", parts->bos_id);
    name("eos_token", "tokenizer.ggml.eos_token_id", parts->eos_id);
    name("pad_token", "tokenizer.ggml.padding_token_id", parts->pad_id);
  }
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rl
