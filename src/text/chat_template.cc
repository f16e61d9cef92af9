// A chat is first laid out as parts, either a marker or a stretch of text between two markers.
// Rendering joins them, encoding encodes each stretch as one text, as an encoder that cuts at
// special tokens does.
#include "text/chat_template.h"

#include <vector>

#include "core/error.h"

namespace rl {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";

// Calls marker(std::string_view) and text(std::string_view) for the parts of the chat, in order.
// Adjacent text always comes as one call.
template <typename Marker, typename Text>
void lay_out(std::span<const ChatMessage> messages, bool add_generation_prompt,
             std::string_view default_system, Marker&& marker, Text&& text) {
  const auto turn = [&](std::string_view role, std::string_view content) {
    marker(kStart);
    text(str(role, "\n", content));
    marker(kEnd);
    text("\n");
  };
  const bool has_system = !messages.empty() && messages.front().role == "system";
  if (!messages.empty() && !has_system && !default_system.empty()) turn("system", default_system);
  for (const ChatMessage& message : messages) turn(message.role, message.content);
  if (add_generation_prompt) {
    marker(kStart);
    text("assistant\n");
  }
}

int32_t marker_id(const Tokenizer& tokenizer, std::string_view marker) {
  const auto id = tokenizer.id_of(marker);
  if (!id || !tokenizer.is_special(*id) || tokenizer.depends_on_context(*id)) {
    throw Error(Code::kFailedPrecondition,
                str("the tokenizer has no plain special token ", marker, ", which ChatML needs"));
  }
  return *id;
}

}  // namespace

std::string render_chatml(std::span<const ChatMessage> messages, bool add_generation_prompt,
                          std::string_view default_system) {
  std::string out;
  const auto append = [&](std::string_view part) { out += part; };
  lay_out(messages, add_generation_prompt, default_system, append, append);
  return out;
}

EncodeResult encode_chat(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                         bool add_generation_prompt, std::string_view default_system) {
  const int32_t start = marker_id(tokenizer, kStart);
  const int32_t end = marker_id(tokenizer, kEnd);
  EncodeResult out;
  const auto append_marker = [&](std::string_view part) {
    out.ids.push_back(part == kStart ? start : end);
  };
  const auto append_text = [&](std::string_view part) {
    const EncodeResult piece = tokenizer.encode(part);
    out.ids.insert(out.ids.end(), piece.ids.begin(), piece.ids.end());
    out.num_unmapped_bytes += piece.num_unmapped_bytes;
  };
  lay_out(messages, add_generation_prompt, default_system, append_marker, append_text);
  return out;
}

}  // namespace rl
