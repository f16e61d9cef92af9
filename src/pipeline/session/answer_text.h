// The token ids of an answer that is given as text, as the policy would have drawn them: behind the
// ids of the prompt, which stand as they are, and with the token that ends the answer, which is
// trained on like the others.
#pragma once
#include <string>
#include <string_view>

#include "pipeline/session/loaded_model.h"
#include "text/chat_request.h"

namespace rl {

// The assistant's turn behind a chat, as the chat template writes it, up to the token that ends it:
// what the template writes behind that token is none of the model's. Error(kIncompatible) naming
// `field` when the template renders the chat otherwise once the turn is there, or writes no such
// token.
EncodeResult encode_turn(const LoadedModel& model, const ChatRequest& chat,
                         const std::string& answer, std::string_view field);

// A plain text and the model's end token. Error(kFailedPrecondition) when the model has none.
EncodeResult encode_ended(const LoadedModel& model, std::string_view answer);

}  // namespace rl
