// Renders the cases of tests/fixtures/tokenizers/chat_templates.json and compares exactly.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "text/chat_request.h"
#include "text/chat_template.h"

namespace rl::test {

// Parses from text, so that members keep their order.
inline ChatRequest chat_request_of(const nlohmann::ordered_json& item) {
  ChatRequest request;
  request.messages = item.at("messages");
  request.tools = item.at("tools");
  request.variables = item.at("kwargs");
  return request;
}

// template_of returns a template's text, or an empty string to skip its cases. Returns the number
// of cases.
inline int check_chat_goldens(const nlohmann::ordered_json& golden,
                              const std::function<std::string(const std::string&)>& template_of) {
  const SpecialTokenTexts special = {{"bos_token", "<|endoftext|>"}, {"eos_token", "<|im_end|>"}};
  int cases = 0;
  for (const auto& item : golden.at("cases")) {
    const std::string text = template_of(item.at("template").get<std::string>());
    if (text.empty()) continue;
    SCOPED_TRACE(item.dump());
    ++cases;
    const ChatTemplates templates({{"default", text}}, "golden");
    try {
      const std::string got =
          templates
              .render(chat_request_of(item), special, item.at("add_generation_prompt").get<bool>())
              .bytes();
      EXPECT_EQ(got, item.value("rendered", "an error"));
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kInvalidArgument) << e.message;
      EXPECT_TRUE(e.message.ends_with(item.value("error", "no error"))) << e.message;
    }
  }
  return cases;
}

}  // namespace rl::test
