// Conversations: samples of several turns.
#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/model_parts.h"
#include "abi/samples.h"
#include "pipeline/config/run_options.h"

using namespace rl;
using namespace rl::abi;

namespace {

rl_conversation* issue_conversation(std::shared_ptr<Conversation> conversation,
                                    const Settings& settings) {
  return issue<rl_conversation>(
      std::make_shared<const ConversationBox>(ConversationBox{std::move(conversation), settings}));
}

std::span<const int32_t> ids_of(const rl_content& content, const char* parameter) {
  return array_arg(content.ids, content.num_ids, str(parameter, ".ids").c_str());
}

void refuse_identity(const rl_content& content) {
  const auto refuse_field = [](const char* field) {
    refuse(field, "is given, but the conversation has its own");
  };
  const size_t tag_len = field_len(content.tag, content.tag_len);
  if (!text_arg(content.tag, tag_len, "content.tag").empty()) refuse_field("content.tag");
  if (content.ordinal != UINT64_MAX) refuse_field("content.ordinal");
  if (content.sample_id != 0) refuse_field("content.sample_id");
}

}  // namespace

extern "C" {

void rl_conversation_info_init(rl_conversation_info* info, size_t size) {
  init_struct(info, size, sizeof(*info));
}

void rl_content_init(rl_content* content, size_t size) {
  if (!init_struct(content, size, sizeof(*content))) return;
  content->tag_len = RL_NUL_TERMINATED;
  content->ordinal = UINT64_MAX;
}

void rl_turn_init(rl_turn* turn, size_t size) { init_struct(turn, size, sizeof(*turn)); }

rl_status rl_conversation_create(rl_engine* engine, const rl_content* prompt, rl_conversation** out,
                                 rl_error** err) {
  clear(out);
  return guarded(err, engine, [&] {
    const auto owner = use(engine, "engine");
    const rl_content start = input_struct(prompt, "prompt");
    const auto ids = ids_of(start, "prompt");
    const auto naming = naming_from(start.ordinal, start.sample_id, 1, "prompt");
    std::string tag(text_arg(start.tag, field_len(start.tag, start.tag_len), "prompt.tag"));
    require(out, "out");
    *out = issue_conversation(std::make_shared<Conversation>(owner, ids, naming, std::move(tag)),
                              owner->settings);
  });
}

rl_status rl_conversation_fork(const rl_conversation* conversation, rl_conversation** out,
                               rl_error** err) {
  clear(out);
  return guarded(err, conversation, [&] {
    const auto box = use(conversation, "conversation");
    require(out, "out");
    *out = issue_conversation(box->conversation->fork(), box->settings);
  });
}

void rl_conversation_destroy(rl_conversation* conversation) {
  const auto target = destroy(conversation);
  if (target == nullptr) return;
  // There is no caller left to report a failure to; tokens of an aborted turn are dropped.
  guarded(nullptr, nullptr, [&] { target->conversation->end(); });
}

rl_status rl_conversation_append(rl_conversation* conversation, const rl_content* content,
                                 rl_error** err) {
  return guarded(err, conversation, [&] {
    const auto box = use(conversation, "conversation");
    const rl_content added = input_struct(content, "content");
    refuse_identity(added);
    box->conversation->append(ids_of(added, "content"));
  });
}

rl_status rl_conversation_generate(rl_conversation* conversation, const rl_turn* turn,
                                   rl_error** err) {
  return guarded(err, conversation, [&] {
    const auto box = use(conversation, "conversation");
    const rl_turn wanted = turn != nullptr ? input_struct(turn, "turn") : rl_turn{};
    const rl_options* const sampling = wanted.sampling;
    Request request =
        request_from(sampling != nullptr ? use(sampling, "turn.sampling")->copy() : box->settings);
    request.priority = wanted.priority;
    try {
      box->conversation->generate(std::move(request));
    } catch (Error& error) {
      rename_parameter(error, "request.", "turn.");
      throw;
    }
  });
}

rl_status rl_conversation_get_info(const rl_conversation* conversation, rl_conversation_info* info,
                                   rl_error** err) {
  clear_result(info);
  return guarded(err, conversation, [&] {
    const auto box = use(conversation, "conversation");
    rl_conversation_info& out = result_struct(info, "info");
    const ConversationInfo now = box->conversation->info();
    out.sample_id = now.sample_id;
    out.ordinal = now.ordinal;
    out.slot = now.slot;
    out.generating = now.generating ? 1 : 0;
    out.num_ids = static_cast<uint64_t>(now.num_ids);
    out.num_turns = static_cast<uint64_t>(now.turns);
    out.finish = static_cast<int32_t>(now.finish);
  });
}

rl_status rl_conversation_sample(const rl_conversation* conversation, rl_batch** out,
                                 rl_error** err) {
  clear(out);
  return guarded(err, conversation, [&] {
    const auto box = use(conversation, "conversation");
    require(out, "out");
    *out = make_batch({box->conversation->sample()});
  });
}

}  // extern "C"
