// Chats through rl.h: a saved model directory with chat templates of its own.
#include <fstream>
#include <vector>

#include "abi/host.h"
#include "support/temp_dir.h"

namespace abi_test {
namespace {

using rl::TempDir;

std::string take(rl_bytes* bytes) {
  const std::string out(static_cast<const char*>(rl_bytes_data(bytes)), rl_bytes_size(bytes));
  rl_bytes_release(bytes);
  return out;
}

// The tiny GGUF model as a directory, with a template that marks turns by <s> and </s>.
class AbiChat : public ::testing::Test {
 protected:
  void SetUp() override {
    EXPECT_RL_OK(rl_options_create(&options_, &err));
    set(options_, "model.path", RL_FIXTURES "/gguf/tiny_llama_half.gguf");
    set(options_, "runtime.threads", "1");
    EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options_, &runtime_, &err));
    rl_model* source = open();
    const std::string path = dir_.file("model");
    EXPECT_RL_OK(rl_model_save(source, path.c_str(), path.size(), RL_DTYPE_F32, 0, &err));
    rl_model_destroy(source);
    std::ofstream(path + "/chat_template.jinja")
        << "{% for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}{{ eos_token }}{% "
           "endfor %}"
           "{% if add_generation_prompt %}{{ bos_token }}{{ style | default('plain') }}{% endif %}";
    std::filesystem::create_directories(path + "/additional_chat_templates");
    std::ofstream(path + "/additional_chat_templates/tool_use.jinja") << "{{ tools | tojson }}";
    set(options_, "model.path", path);
    model_ = open();
  }
  void TearDown() override {
    rl_model_destroy(model_);
    rl_runtime_destroy(runtime_);
    rl_options_destroy(options_);
  }
  rl_model* open() {
    rl_model* model = nullptr;
    EXPECT_RL_OK(rl_model_open(runtime_, options_, RL_USE_MODEL, &model, &err));
    return model;
  }
  std::string render(const std::string& chat, uint64_t flags = 0) {
    rl_bytes* text = nullptr;
    EXPECT_RL_OK(rl_model_render_chat(model_, chat.data(), chat.size(), flags, &text, &err));
    return take(text);
  }

  TempDir dir_;
  rl_options* options_ = nullptr;
  rl_runtime* runtime_ = nullptr;
  rl_model* model_ = nullptr;
};

constexpr const char* kChat = R"({"messages": [{"role": "user", "content": "hi"}])";

TEST_F(AbiChat, AnEncodedChatHasTheIdsOfTheRenderedText) {
  const std::string chat = std::string(kChat) + "}";
  const std::string text = render(chat, RL_TEXT_GENERATION_PROMPT);
  EXPECT_NE(text.find("user: hi"), std::string::npos) << text;
  EXPECT_NE(text.find("plain"), std::string::npos) << text;
  rl_bytes *by_json = nullptr, *by_text = nullptr;
  EXPECT_RL_OK(rl_model_encode_chat(model_, chat.data(), chat.size(), RL_TEXT_GENERATION_PROMPT,
                                    &by_json, &err));
  EXPECT_RL_OK(
      rl_model_encode(model_, text.data(), text.size(), RL_TEXT_ALLOW_SPECIAL, &by_text, &err));
  const std::string ids = take(by_json);
  EXPECT_FALSE(ids.empty());
  EXPECT_EQ(take(by_text), ids);
}

TEST_F(AbiChat, ToolsVariablesAndNamedTemplatesAreUsed) {
  EXPECT_EQ(render(std::string(kChat) + R"(, "tools": [{"z": 1, "a": 2}]})"),
            R"([{"z": 1, "a": 2}])");
  const std::string text = render(std::string(kChat) + R"(, "tools": [], "chat_template": "default",
      "chat_template_kwargs": {"style": "formal"}})",
                                  RL_TEXT_GENERATION_PROMPT);
  EXPECT_TRUE(text.ends_with("formal")) << text;
}

TEST_F(AbiChat, ErrorsCarryCodeAndPlace) {
  const auto refused = [&](const std::string& chat, rl_status status, const char* part) {
    rl_bytes* text = nullptr;
    rl_error* error = nullptr;
    EXPECT_EQ(rl_model_render_chat(model_, chat.data(), chat.size(), 0, &text, &error), status);
    EXPECT_EQ(text, nullptr);
    const std::string summary = text_of(error, RL_ERROR_SUMMARY);
    EXPECT_NE(summary.find(part), std::string::npos) << summary;
    rl_error_release(error);
  };
  refused("{", RL_DATA_LOSS, "chat:1:");
  refused(R"({"messages": [{"role": "user"}]})", RL_DATA_LOSS, "/messages/0/content");
  refused(std::string(kChat) + R"(, "chat_template": "none"})", RL_NOT_FOUND, "none");
  rl_bytes* ids = nullptr;
  EXPECT_EQ(rl_model_encode_chat(model_, "{", 1, 0, &ids, nullptr), RL_DATA_LOSS);
  const int32_t wild[] = {1 << 30};
  EXPECT_EQ(rl_model_decode(model_, wild, 1, 0, &ids, nullptr), RL_OUT_OF_RANGE);
  std::ofstream(dir_.file("model/chat_template.jinja")) << "x\n{{ raise_exception('alas') }}";
  rl_model_destroy(model_);
  model_ = open();
  refused(std::string(kChat) + "}", RL_INVALID_ARGUMENT, "chat_template:2:19: alas");
}

}  // namespace
}  // namespace abi_test
