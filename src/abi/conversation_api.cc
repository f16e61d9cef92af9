// Conversations: samples of several turns.
#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/model_parts.h"
#include "pipeline/config/run_options.h"

using namespace rl;
using namespace rl::abi;

namespace {

rl_conversation* issue_conversation(std::shared_ptr<Conversation> conversation,
                                    const Settings& settings) {
  return issue<rl_conversation>(
      std::make_shared<const ConversationBox>(ConversationBox{std::move(conversation), settings}));
}

// The ids of what a host adds.
std::span<const int32_t> ids_of(const rl_content* given, const char* parameter) {
  const rl_content content = input_struct(given, parameter);
  return array_arg(content.ids, content.num_ids, str(parameter, ".ids").c_str());
}

}  // namespace

extern "C" {

void rl_conversation_info_init(rl_conversation_info* info, size_t size) {
  init_struct(info, size, sizeof(*info));
}

void rl_content_init(rl_content* content, size_t size) {
  init_struct(content, size, sizeof(*content));
}

void rl_turn_init(rl_turn* turn, size_t size) { init_struct(turn, size, sizeof(*turn)); }

rl_status rl_conversation_create(rl_engine* engine, const rl_content* prompt, rl_conversation** out,
                                 rl_error** err) {
  clear(out);
  return guarded(err, engine, [&] {
    const auto owner = use(engine, "engine");
    const auto ids = ids_of(prompt, "prompt");
    require(out, "out");
    *out = issue_conversation(std::make_shared<Conversation>(owner, ids), owner->settings);
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
    box->conversation->append(ids_of(content, "content"));
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
    box->conversation->generate(std::move(request));
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
