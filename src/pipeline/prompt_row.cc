// Parsing is apart from encoding, so that rows can be checked without a model.
#include "pipeline/prompt_row.h"

#include "core/error.h"
#include "pipeline/jsonl_index.h"
#include "text/strict_json.h"

namespace rl {
namespace {

using json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& location, const std::string& what) {
  throw Error(Code::kDataLoss, location + ": " + what).with_location(location);
}

// The row is one line of its file: "file:12:1:7" becomes "file:12:7".
json parse_line(std::string_view text, const std::string& location) {
  try {
    return parse_ordered_json(text, location, kMaxLineBytes);
  } catch (const Error& e) {
    const std::string inner = location + ":1:", outer = location + ":";
    const auto corrected = [&](std::string s) {
      const size_t at = s.find(inner);
      return at == std::string::npos ? s : s.replace(at, inner.size(), outer);
    };
    throw Error(e.code, corrected(e.message)).with_location(corrected(e.location));
  }
}

const std::string& text_of(const json& value, const std::string& location,
                           const std::string& pointer) {
  if (!value.is_string())
    fail(location, str(pointer, " is ", value.type_name(), ", expected a string"));
  return value.get_ref<const std::string&>();
}

void parse_ids(const json& value, const std::string& location, PromptRow& row) {
  row.kind = PromptRow::Kind::kIds;
  if (!value.is_array() || value.empty()) fail(location, "/ids is not a list of token ids");
  for (size_t i = 0; i < value.size(); ++i) {
    // Negative numbers are integers too; values above int64 are not.
    const json& id = value[i];
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT32_MAX)) {
      fail(location, str("/ids/", i, " is no token id"));
    }
    row.ids.push_back(id.get<int64_t>());
  }
}

std::vector<int32_t> check_ids(const std::vector<int64_t>& ids, int64_t vocab,
                               const std::string& location) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab) {
      throw Error(Code::kOutOfRange, str(location, ": /ids/", i, " is ", ids[i],
                                         ", outside the vocabulary of ", vocab, " ids"))
          .with_location(location)
          .with_expected(str("0..", vocab - 1));
    }
    out.push_back(static_cast<int32_t>(ids[i]));
  }
  return out;
}

std::vector<int32_t> take_encoded(EncodeResult&& encoded, const std::string& location) {
  if (encoded.num_unmapped_bytes != 0) {
    fail(location,
         str("the tokenizer has no token for ", encoded.num_unmapped_bytes, " bytes of the text"));
  }
  return std::move(encoded.ids);
}

std::vector<int32_t> encode_row(const PromptRow& row, const LoadedModel& model,
                                const std::string& location) {
  if (row.kind == PromptRow::Kind::kIds) return check_ids(row.ids, model.config().vocab, location);
  try {
    if (row.kind == PromptRow::Kind::kMessages) {
      return take_encoded(model.encode_chat(row.chat, true), location);
    }
    return take_encoded(model.encode(row.text, {.add_special = true}), location);
  } catch (const Error& e) {
    if (e.location == location) throw;
    throw Error(e.code, location + ": " + e.message).with_location(location).with_cause(e);
  }
}

}  // namespace

PromptRow parse_prompt_row(std::string_view text, const std::string& location) {
  const json object = parse_line(text, location);
  if (!object.is_object())
    fail(location, str("the row is ", object.type_name(), ", expected an object"));
  PromptRow row;
  int kinds = 0;
  bool has_chat = false;
  for (const auto& [key, value] : object.items()) {
    if (key == "tag") {
      row.tag = text_of(value, location, "/tag");
      continue;
    }
    if (take_chat_member(row.chat, key, value, location)) {
      row.kind = PromptRow::Kind::kMessages;
      kinds += key == "messages";
      has_chat = true;
      continue;
    }
    ++kinds;
    if (key == "prompt") {
      row.kind = PromptRow::Kind::kText;
      row.text = text_of(value, location, "/prompt");
    } else if (key == "ids") {
      parse_ids(value, location, row);
    } else {
      fail(location, str("unknown key \"", key,
                         "\"; a row has messages, prompt or ids, and tag; with messages also "
                         "tools, chat_template_kwargs and chat_template"));
    }
  }
  if (kinds != 1 || has_chat != object.contains("messages")) {
    fail(location, "a row has exactly one of messages, prompt and ids");
  }
  return row;
}

Prompt make_prompt(const PromptRow& row, const LoadedModel& model, const PromptLimits& limits,
                   const std::string& location) {
  Prompt p;
  p.ids = encode_row(row, model, location);
  p.tag = row.tag;
  if (p.ids.empty()) fail(location, "the prompt has no tokens");
  if (row.kind == PromptRow::Kind::kMessages) p.stop_ids = model.chat_stop_ids();
  const auto tokens = static_cast<int64_t>(p.ids.size());
  if (tokens > limits.max_model_len - limits.max_new_tokens) {
    throw Error(Code::kOutOfRange,
                str(location, ": a prompt of ", tokens, " tokens and ", limits.max_new_tokens,
                    " new tokens exceed engine.max_model_len ", limits.max_model_len))
        .with_key("engine.max_model_len")
        .with_expected(str("at least ", tokens + limits.max_new_tokens))
        .with_location(location);
  }
  return p;
}

}  // namespace rl
