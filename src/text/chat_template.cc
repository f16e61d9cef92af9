// Names, precedence and aliases of the variables follow transformers: the chat itself overrides
// variables of the request, which override the special tokens.
#include "text/chat_template.h"

#include "core/encoding/unicode.h"
#include "jinja/eval.h"
#include "text/chat_request.h"

namespace rl {
namespace {

using jinja::Value;

// A message's reasoning has three possible names; templates read the first or, in some cases, the
// second.
nlohmann::ordered_json with_reasoning_names(const nlohmann::ordered_json& messages) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& message : messages) {
    const nlohmann::ordered_json* reasoning = nullptr;
    for (const char* name : {"reasoning", "thinking", "reasoning_content"}) {
      const auto found = message.find(name);
      if (found != message.end() && !found->is_null()) reasoning = &*found;
    }
    if (reasoning == nullptr) {
      out.push_back(message);
      continue;
    }
    nlohmann::ordered_json named = {{"thinking", *reasoning}};
    for (const auto& [key, value] : message.items()) named[key] = value;
    named["reasoning_content"] = *reasoning;
    out.push_back(std::move(named));
  }
  return out;
}

jinja::Variables variables_of(const ChatRequest& request, const SpecialTokenTexts& special,
                              bool add_generation_prompt, JinjaBudget& budget) {
  jinja::Variables out;
  const auto add = [&](std::string name, Value value) {
    out.values.emplace_back(std::move(name), std::move(value));
  };
  for (const auto& [name, text] : special) add(name, Value::text(text));
  add("documents", Value());
  for (const auto& [name, value] : request.variables.items()) {
    if (name == "strftime_now") {
      out.now = value.get<std::string>();
    } else {
      add(name, jinja::from_json(value, budget));
    }
  }
  add("messages", jinja::from_json(with_reasoning_names(request.messages), budget));
  add("tools", jinja::from_json(request.tools, budget));
  add("add_generation_prompt", Value::boolean(add_generation_prompt));
  return out;
}

}  // namespace

SpecialTokenTexts special_token_texts(const Tokenizer& tokenizer) {
  SpecialTokenTexts out;
  const auto add = [&](const char* name, std::optional<int32_t> id) {
    if (id) out.emplace_back(name, std::string(tokenizer.token_bytes(*id)));
  };
  add("bos_token", tokenizer.bos_id());
  add("eos_token", tokenizer.eos_id());
  add("pad_token", tokenizer.pad_id());
  return out;
}

ChatTemplates::ChatTemplates(const std::vector<ChatTemplateText>& templates, std::string source,
                             JinjaLimits limits)
    : source_(std::move(source)), limits_(limits) {
  for (const ChatTemplateText& text : templates) {
    Entry entry{text.name, nullptr, std::nullopt};
    const std::string name =
        text.name == "default" ? "chat_template" : str("chat_template ", text.name);
    try {
      entry.program = jinja::parse(text.text, str(source_, " ", name), limits_);
    } catch (const Error& e) {
      entry.error = e;
    }
    entries_.push_back(std::move(entry));
  }
}

void ChatTemplates::check() const {
  for (const Entry& entry : entries_) {
    if (entry.error) throw Error(*entry.error);
  }
}

const ChatTemplates::Entry& ChatTemplates::choose(const ChatRequest& request) const {
  const auto find = [&](std::string_view name) -> const Entry* {
    for (const Entry& entry : entries_) {
      if (entry.name == name) return &entry;
    }
    return nullptr;
  };
  const Entry* found = find(request.template_name.empty() ? "default" : request.template_name);
  if (request.template_name.empty() && !request.tools.is_null()) {
    if (const Entry* tool_use = find("tool_use")) found = tool_use;
  }
  if (found) return *found;
  std::string names;
  for (const Entry& entry : entries_)
    names += str(names.empty() ? "" : ", ", quote_text(entry.name));
  if (request.template_name.empty()) {
    throw Error(
        Code::kFailedPrecondition,
        str(source_, entries_.empty() ? " has no chat template"
                                      : " has no default chat template, so one must be named"))
        .with_expected(names);
  }
  throw Error(Code::kNotFound,
              str(source_, " has no chat template named ", quote_text(request.template_name)))
      .with_expected(names.empty() ? "none" : names);
}

MarkedText ChatTemplates::render(const ChatRequest& request, const SpecialTokenTexts& special,
                                 bool add_generation_prompt) const {
  const Entry& entry = choose(request);
  if (entry.error) throw Error(*entry.error);
  JinjaBudget budget(limits_);
  const jinja::Variables variables = variables_of(request, special, add_generation_prompt, budget);
  return jinja::render(*entry.program, variables, budget);
}

EncodeResult encode_chat(const Tokenizer& tokenizer, const MarkedText& text) {
  return tokenizer.encode(text.bytes(), {.allow_special = true, .literal = text.marks()});
}

std::optional<int32_t> find_turn_end(const ChatTemplates& templates, const Tokenizer& tokenizer) {
  const std::vector<ChatMessage> trial = {{"user", "a"}, {"assistant", "b"}};
  MarkedText text;
  try {
    text = templates.render(make_chat_request(trial), special_token_texts(tokenizer), false);
  } catch (const Error&) {
    return std::nullopt;  // the template does not support such a chat
  }
  size_t end = text.size();
  while (end > 0 && text.origin(end - 1) != MarkedText::Origin::kInput) --end;
  if (end == 0) return std::nullopt;
  const EncodeResult behind = encode_chat(tokenizer, text.substr(end));
  for (const int32_t id : behind.ids) {
    if (tokenizer.is_special(id)) return id;
  }
  return std::nullopt;
}

}  // namespace rl
