// The ChatML chat format: <|im_start|>role NEWLINE content<|im_end|> NEWLINE for each message.
// Rendering gives text; encoding gives ids in which only the format's own markers are special
// tokens, whatever the messages contain.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace rl {

struct ChatMessage {
  std::string role;
  std::string content;
};

// What SmolLM2 puts as a system message when a chat has none.
inline constexpr std::string_view kSmolLm2System =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

// When the first message is not of role "system" and default_system is not empty, a system message
// with that text comes first. add_generation_prompt ends the text with the start of an assistant
// turn. No messages give no system message.
std::string render_chatml(std::span<const ChatMessage> messages, bool add_generation_prompt,
                          std::string_view default_system = kSmolLm2System);

// The ids of the rendered chat. For messages without special tokens they equal
// encode(render_chatml(...), {.allow_special = true}). Roles and contents stay text: a special
// token written there does not become its id. Throws kFailedPrecondition when the tokenizer lacks
// <|im_start|> or <|im_end|> as plain special tokens.
EncodeResult encode_chat(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                         bool add_generation_prompt,
                         std::string_view default_system = kSmolLm2System);

}  // namespace rl
