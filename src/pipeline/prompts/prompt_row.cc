// Parsing is separate from encoding, so that rows can be checked without a model.
#include "pipeline/prompts/prompt_row.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "core/encoding/strict_json.h"
#include "core/error.h"
#include "pipeline/prompts/jsonl_index.h"
#include "pipeline/session/response_text.h"

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

std::vector<int64_t> parse_ids(const json& value, const std::string& location,
                               const std::string& pointer) {
  if (!value.is_array() || value.empty()) {
    fail(location, str(pointer, " is not a list of token ids"));
  }
  std::vector<int64_t> ids;
  for (size_t i = 0; i < value.size(); ++i) {
    // Negative numbers are integers too; values above int64 are not.
    const json& id = value[i];
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > INT32_MAX)) {
      fail(location, str(pointer, "/", i, " is not a token id"));
    }
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

constexpr const char* kResponseFields[] = {"response", "chosen", "rejected"};

bool take_response(const std::string& key, const json& value, const std::string& location,
                   PromptRow& row) {
  if (std::ranges::find(kResponseFields, std::string_view(key)) == std::end(kResponseFields))
    return false;
  RowResponse& response = row.responses.emplace_back();
  response.field = key;
  response.is_text = value.is_string();
  if (response.is_text) {
    response.text = value.get<std::string>();
  } else if (value.is_array()) {
    response.ids = parse_ids(value, location, "/" + key);
  } else {
    fail(location,
         str("/", key, " is ", value.type_name(), ", expected a string or a list of ids"));
  }
  return true;
}

std::vector<int32_t> check_ids(const std::vector<int64_t>& ids, int64_t vocab,
                               const std::string& location, const std::string& pointer) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab) {
      throw Error(Code::kOutOfRange, str(location, ": ", pointer, "/", i, " is ", ids[i],
                                         ", outside the vocabulary of ", vocab, " ids"))
          .with_location(location)
          .with_expected(str("0..", vocab - 1));
    }
    out.push_back(static_cast<int32_t>(ids[i]));
  }
  return out;
}

std::vector<int32_t> take_encoded(EncodeResult&& encoded, const std::string& location,
                                  const std::string& field) {
  if (encoded.num_unmapped_bytes != 0) {
    fail(location, str("the tokenizer has no token for ", encoded.num_unmapped_bytes,
                       " bytes of the text of ", field));
  }
  return std::move(encoded.ids);
}

// Adds the location of the row to errors from `work`.
template <typename Work>
auto located(const std::string& location, const Work& work) {
  try {
    return work();
  } catch (const Error& e) {
    if (e.location == location) throw;
    throw Error(e.code, location + ": " + e.message).with_location(location).with_cause(e);
  }
}

std::vector<int32_t> encode_row(const PromptRow& row, const LoadedModel& model,
                                const std::string& location) {
  if (row.kind == PromptRow::Kind::kIds) {
    return check_ids(row.ids, model.config().vocab, location, "/ids");
  }
  return located(location, [&] {
    if (row.kind == PromptRow::Kind::kMessages) {
      return take_encoded(model.encode_chat(row.chat, true), location, "/messages");
    }
    return take_encoded(model.encode(row.text, {.add_special = true}), location, "/prompt");
  });
}

std::vector<int32_t> encode_response(const PromptRow& row, const RowResponse& response,
                                     const LoadedModel& model, const std::string& location) {
  const std::string field = "/" + response.field;
  if (!response.is_text) return check_ids(response.ids, model.config().vocab, location, field);
  return located(location, [&] {
    if (row.kind == PromptRow::Kind::kMessages) {
      return take_encoded(encode_turn(model, row.chat, response.text, field), location, field);
    }
    return take_encoded(encode_ended(model, response.text), location, field);
  });
}

std::span<const char* const> fields_of(Objective objective) {
  const std::span<const char* const> all = kResponseFields;
  if (objective == Objective::kSft) return all.first(1);
  return is_pairs(objective) ? all.subspan(1) : all.first(0);
}

// The responses in the order in which the objective lists them.
std::vector<const RowResponse*> responses_of(const PromptRow& row, Objective objective,
                                             const std::string& location) {
  const auto fields = fields_of(objective);
  std::vector<const RowResponse*> out;
  for (const char* field : fields) {
    const auto found = std::ranges::find(row.responses, field, &RowResponse::field);
    if (found == row.responses.end()) {
      fail(location, str("/", field, " is missing: algo.objective = ", objective_name(objective),
                         " trains on it"));
    }
    out.push_back(&*found);
  }
  for (const RowResponse& a : row.responses) {
    if (std::ranges::find(out, &a) != out.end()) continue;
    fail(location, str("/", a.field, " is not read with algo.objective = ",
                       objective_name(objective), fields.empty() ? " or by an evaluation" : ""));
  }
  return out;
}

void check_length(const Prompt& p, const PromptLimits& limits, const std::string& location,
                  int64_t more, const std::string& what) {
  const auto tokens = static_cast<int64_t>(p.ids.size());
  if (tokens <= limits.max_model_len - more) return;
  throw Error(Code::kOutOfRange, str(location, ": a prompt of ", tokens, " tokens and ", more, what,
                                     " exceed engine.max_model_len ", limits.max_model_len))
      .with_key("engine.max_model_len")
      .with_expected(str("at least ", tokens + more))
      .with_location(location);
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
    if (take_response(key, value, location, row)) continue;
    ++kinds;
    if (key == "prompt") {
      row.kind = PromptRow::Kind::kText;
      row.text = text_of(value, location, "/prompt");
    } else if (key == "ids") {
      row.kind = PromptRow::Kind::kIds;
      row.ids = parse_ids(value, location, "/ids");
    } else {
      fail(location, str("unknown key \"", key,
                         "\"; a row has messages, prompt or ids, and tag; with messages also "
                         "tools, chat_template_kwargs and chat_template; responses from the data "
                         "are response, or chosen and rejected"));
    }
  }
  if (kinds != 1 || has_chat != object.contains("messages")) {
    fail(location, "a row must have exactly one of messages, prompt and ids");
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
  for (const RowResponse* response : responses_of(row, limits.objective, location)) {
    p.responses.push_back(encode_response(row, *response, model, location));
    check_length(p, limits, location, static_cast<int64_t>(p.responses.back().size()),
                 str(" tokens of /", response->field));
  }
  if (p.responses.empty()) check_length(p, limits, location, limits.max_new_tokens, " new tokens");
  return p;
}

SamplePtr response_sample(const Prompt& prompt, uint64_t ordinal, uint32_t slot) {
  const std::vector<int32_t>& response = prompt.responses[slot];
  auto s = std::make_shared<Sample>();
  s->ordinal = ordinal;
  s->slot = slot;
  s->data_row = prompt.data_row;
  s->tag = prompt.tag;
  s->ids = prompt.ids;
  s->ids.insert(s->ids.end(), response.begin(), response.end());
  s->prompt_tokens = static_cast<int32_t>(prompt.ids.size());
  s->versions.assign(response.size(), kUnknownVersion);
  s->loss_mask.assign(response.size(), 1);
  return s;
}

}  // namespace rl
