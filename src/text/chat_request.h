// A chat as data: messages, tools and other template variables, read from JSON with the names that
// transformers and its data sets use.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace rl {

struct ChatMessage {
  std::string role;
  std::string content;
};

struct ChatRequest {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools;  // a list, or null
  nlohmann::ordered_json variables =
      nlohmann::ordered_json::object();  // further template variables
  std::string template_name;             // one of the model's templates; empty: chosen by the rules
};

// {"messages", "tools", "chat_template_kwargs", "chat_template"}; only the first is required.
// source names the text in errors.
ChatRequest parse_chat_request(std::string_view json, const std::string& source);

// Reads one of those members into the request; false for any other key. Errors are kDataLoss naming
// location and the place in the member.
bool take_chat_member(ChatRequest& request, const std::string& key,
                      const nlohmann::ordered_json& value, const std::string& location);

ChatRequest make_chat_request(std::span<const ChatMessage> messages);

}  // namespace rl
