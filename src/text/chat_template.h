// The chat templates of a model, run as transformers runs them, and the tokenization of what they
// render. A special token becomes its id where the template wrote it, never where a message spells
// it. Immutable; every function may be called from any thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "jinja/marked_text.h"
#include "jinja/parser.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace rl {

struct ChatRequest;

// bos_token, eos_token and pad_token for templates, as far as the tokenizer has them.
using SpecialTokenTexts = std::vector<std::pair<std::string, std::string>>;
SpecialTokenTexts special_token_texts(const Tokenizer& tokenizer);

class ChatTemplates {
 public:
  ChatTemplates() = default;
  // source names the model in errors. A template that cannot be parsed is reported when it is used.
  ChatTemplates(const std::vector<ChatTemplateText>& templates, std::string source,
                JinjaLimits limits = {});

  // Throws the error of the first template that cannot be parsed.
  void check() const;

  // Uses the template that the request names; else, with tools, the one named "tool_use"; else
  // "default". Errors carry "source chat_template:line:column": the template's raise_exception is
  // kInvalidArgument with its text, an unsupported language feature kUnsupported, an exceeded limit
  // kResourceExhausted, a missing template kNotFound.
  MarkedText render(const ChatRequest& request, const SpecialTokenTexts& special,
                    bool add_generation_prompt) const;

 private:
  struct Entry {
    std::string name;
    std::shared_ptr<const jinja::Program> program;
    std::optional<Error> error;  // instead of a program
  };
  const Entry& choose(const ChatRequest& request) const;

  std::vector<Entry> entries_;
  std::string source_;
  JinjaLimits limits_;
};

// The ids of a rendered chat. If no input text contains a special token, they equal
// encode(text.bytes(), {.allow_special = true}).
EncodeResult encode_chat(const Tokenizer& tokenizer, const MarkedText& text);

// The special token that ends an assistant's turn: the first one after the response in a rendered
// trial chat. nullopt if there is none.
std::optional<int32_t> find_turn_end(const ChatTemplates& templates, const Tokenizer& tokenizer);

}  // namespace rl
