// A message needs a role and a content; further members are up to the template.
#include "text/chat_request.h"

#include "core/encoding/strict_json.h"
#include "core/encoding/unicode.h"
#include "core/error.h"

namespace rl {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxRequestBytes = uint64_t{16} << 20;

[[noreturn]] void fail(const std::string& location, const std::string& what) {
  throw Error(Code::kDataLoss, str(location, ": ", what)).with_location(location);
}

void check_content(const Json& message, const std::string& location, const std::string& at) {
  const auto content = message.find("content");
  const bool has_calls = message.contains("tool_calls");
  if (content == message.end()) {
    if (!has_calls) fail(location, str(at, "/content is missing"));
  } else if (content->is_array()) {
    for (size_t i = 0; i < content->size(); ++i) {
      const Json& part = (*content)[i];
      if (!part.is_object() || !part.contains("type")) {
        fail(location, str(at, "/content/", i, " is not a content part, an object with a type"));
      }
    }
  } else if (!content->is_string() && !(content->is_null() && has_calls)) {
    fail(location, str(at, "/content is ", content->type_name(), ", expected a string or a list"));
  }
}

void check_message(const Json& message, const std::string& location, const std::string& at) {
  if (!message.is_object()) {
    fail(location, str(at, " is ", message.type_name(), ", expected an object"));
  }
  const auto role = message.find("role");
  if (role == message.end()) fail(location, str(at, "/role is missing"));
  if (!role->is_string()) {
    fail(location, str(at, "/role is ", role->type_name(), ", expected a string"));
  }
  if (role->get_ref<const std::string&>().empty()) fail(location, str(at, "/role is empty"));
  check_content(message, location, at);
}

void take_variables(ChatRequest& request, const Json& value, const std::string& location) {
  if (!value.is_object()) {
    fail(location, str("/chat_template_kwargs is ", value.type_name(), ", expected an object"));
  }
  for (const char* own : {"messages", "tools", "add_generation_prompt"}) {
    if (value.contains(own)) {
      fail(location,
           str("/chat_template_kwargs/", own, " is set elsewhere and cannot be given here"));
    }
  }
  const auto now = value.find("strftime_now");
  if (now != value.end() && !now->is_string()) {
    fail(location, "/chat_template_kwargs/strftime_now is not a date");
  }
  request.variables = value;
}

}  // namespace

bool take_chat_member(ChatRequest& request, const std::string& key, const Json& value,
                      const std::string& location) {
  if (key == "messages") {
    if (!value.is_array() || value.empty()) fail(location, "/messages is not a list of messages");
    for (size_t i = 0; i < value.size(); ++i) {
      check_message(value[i], location, str("/messages/", i));
    }
    request.messages = value;
  } else if (key == "tools") {
    if (!value.is_array() && !value.is_null()) {
      fail(location, str("/tools is ", value.type_name(), ", expected a list"));
    }
    request.tools = value;
  } else if (key == "chat_template_kwargs") {
    take_variables(request, value, location);
  } else if (key == "chat_template") {
    if (!value.is_string()) fail(location, "/chat_template is not the name of a template");
    request.template_name = value.get<std::string>();
  } else {
    return false;
  }
  return true;
}

ChatRequest parse_chat_request(std::string_view json, const std::string& source) {
  const Json object = parse_ordered_json(json, source, kMaxRequestBytes);
  if (!object.is_object()) fail(source, str("a chat is an object, not ", object.type_name()));
  ChatRequest request;
  for (const auto& [key, value] : object.items()) {
    if (!take_chat_member(request, key, value, source)) {
      fail(source, str("unknown key ", quote_text(key),
                       "; a chat has messages, tools, chat_template_kwargs and chat_template"));
    }
  }
  if (!object.contains("messages")) fail(source, "/messages is missing");
  return request;
}

ChatRequest make_chat_request(std::span<const ChatMessage> messages) {
  ChatRequest request;
  for (const ChatMessage& message : messages) {
    request.messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  return request;
}

}  // namespace rl
