// The turn is what it adds to the rendered chat; its text is encoded separately, so that no token
// crosses the end of the prompt.
#include "pipeline/session/response_text.h"

#include <algorithm>

#include "core/error.h"
#include "text/chat_template.h"

namespace rl {
namespace {

bool ends_turn(const LoadedModel& model, int32_t id) {
  const auto has = [&](const std::vector<int32_t>& ids) {
    return std::ranges::find(ids, id) != ids.end();
  };
  return has(model.chat_stop_ids()) || has(model.config().eos_ids);
}

MarkedText render_turn(const LoadedModel& model, const ChatRequest& chat,
                       const std::string& response, std::string_view field) {
  ChatRequest whole = chat;
  whole.messages.push_back({{"role", "assistant"}, {"content", response}});
  const MarkedText before = model.render_chat(chat, true), after = model.render_chat(whole, false);
  if (after.bytes().starts_with(before.bytes())) return after.substr(before.size());
  throw Error(Code::kIncompatible,
              str("the chat template renders the messages differently when ", field,
                  " follows them, so the response does not continue the prompt"));
}

}  // namespace

EncodeResult encode_turn(const LoadedModel& model, const ChatRequest& chat,
                         const std::string& response, std::string_view field) {
  EncodeResult turn = encode_chat(model.tokenizer(), render_turn(model, chat, response, field));
  const auto end = std::ranges::find_if(turn.ids, [&](int32_t id) { return ends_turn(model, id); });
  if (end == turn.ids.end()) {
    throw Error(Code::kIncompatible,
                str("the chat template writes no end-of-turn token after ", field));
  }
  turn.ids.erase(end + 1, turn.ids.end());
  return turn;
}

EncodeResult encode_ended(const LoadedModel& model, std::string_view response) {
  const std::vector<int32_t>& ends = model.config().eos_ids;
  if (ends.empty()) {
    throw Error(Code::kFailedPrecondition, "the model has no end-of-text token");
  }
  EncodeResult out = model.encode(response, {});
  const auto own = model.tokenizer().eos_id();
  const bool known = own && std::ranges::find(ends, *own) != ends.end();
  out.ids.push_back(known ? *own : ends.front());
  return out;
}

}  // namespace rl
