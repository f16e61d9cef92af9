// The token ids of a response that is given as text, as the policy would have sampled them: after
// the ids of the prompt, which are kept, and with the token that ends the response, which is
// trained on like the others.
#pragma once
#include <string>
#include <string_view>

#include "pipeline/session/loaded_model.h"
#include "text/chat_request.h"

namespace rl {

// The assistant's turn after a chat, as the chat template writes it, up to the token that ends it:
// what the template writes after that token is not part of the response. Error(kIncompatible)
// naming `field` if the template renders the chat differently once the turn is there, or writes no
// such token.
EncodeResult encode_turn(const LoadedModel& model, const ChatRequest& chat,
                         const std::string& response, std::string_view field);

// A plain text and the model's end token. Error(kFailedPrecondition) if the model has none.
EncodeResult encode_ended(const LoadedModel& model, std::string_view response);

}  // namespace rl
