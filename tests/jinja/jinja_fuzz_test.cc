// Hostile templates and chats: seeded mutations of both either render or give an Error with a
// place, within small limits, so that a round is short.
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/mutate.h"
#include "text/chat_request.h"
#include "text/chat_template.h"
#include "text/text_fixtures.h"

namespace rl {
namespace {

constexpr JinjaLimits kLimits = {.max_template_bytes = 1 << 16,
                                 .max_nodes = 20'000,
                                 .max_parse_depth = 100,
                                 .max_steps = 50'000,
                                 .max_call_depth = 250,
                                 .max_text_bytes = 1 << 16,
                                 .max_value_depth = 100};

// Another template is spliced in now and then, which plain byte noise would never write.
std::string mutated_template(const std::vector<std::string>& seeds, uint64_t seed) {
  test::MutationRng rng(seed);
  std::string text = seeds[rng.below(seeds.size())];
  if (rng.below(3) == 0) {
    const std::string& other = seeds[rng.below(seeds.size())];
    const size_t from = rng.below(other.size() + 1);
    text.insert(rng.below(text.size() + 1), other.substr(from, rng.below(other.size() - from + 1)));
  }
  return test::mutate(text, rng.next());
}

TEST(JinjaFuzz, MutatedTemplatesAndChatsRenderOrFailWithAPlace) {
  const auto goldens = test::ordered_fixture("chat_templates.json");
  const auto cases = test::ordered_fixture("jinja_cases.json");
  std::vector<std::string> templates, chats;
  auto variables = cases.at("variables");
  variables.erase("tools");  // the chats have their own
  for (const auto& [name, text] : goldens.at("templates").items()) templates.push_back(text);
  for (const auto& item : cases.at("cases")) templates.push_back(item.at(0));
  for (const auto& text : cases.at("errors")) templates.push_back(text);
  for (const auto& item : goldens.at("cases")) {
    chats.push_back(nlohmann::ordered_json{
        {"messages", item.at("messages")},
        {"tools", item.at("tools")},
        {"chat_template_kwargs",
         variables}}.dump());
  }
  const Tokenizer tokenizer = test::tiny_tokenizer("tiny_qwen2");
  const SpecialTokenTexts special = special_token_texts(tokenizer);
  const int rounds = test::fuzz_rounds(1000);
  int rendered = 0, refused = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto seed = static_cast<uint64_t>(round);
    SCOPED_TRACE(seed);
    const bool changes_chat = round % 4 == 0;
    const std::string chat = chats[seed % chats.size()];
    try {
      const ChatRequest request =
          parse_chat_request(changes_chat ? test::mutate(chat, seed) : chat, "chat");
      const std::string& whole = templates[seed / 4 % templates.size()];
      const std::string source = changes_chat ? whole : mutated_template(templates, seed);
      const ChatTemplates set({{"default", source}}, "t", kLimits);
      const MarkedText text = set.render(request, special, round % 2 == 0);
      encode_chat(tokenizer, text);
      ++rendered;
    } catch (const Error& e) {
      EXPECT_NE(e.code, Code::kInternal) << e.message;
      // A passed limit of the data as a whole has no place in the template.
      EXPECT_TRUE(!e.location.empty() || e.code == Code::kResourceExhausted) << e.message;
      ++refused;
    }
  }
  EXPECT_GT(rendered, rounds / 50);
  EXPECT_GT(refused, rounds / 50);
  RecordProperty("rendered", rendered);
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace rl
