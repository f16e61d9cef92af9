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

}  // namespace

extern "C" {

void rl_conversation_info_init(rl_conversation_info* info, size_t size) {
  init_struct(info, size, sizeof(*info));
}

rl_status rl_conversation_create(rl_engine* engine, const int32_t* ids, size_t num_ids,
                                 rl_conversation** out, rl_error** err) {
  clear(out);
  return guarded(err, engine, [&] {
    const auto owner = use(engine, "engine");
    const auto prompt = array_arg(ids, num_ids, "ids");
    require(out, "out");
    *out = issue_conversation(std::make_shared<Conversation>(owner, prompt), owner->settings);
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

rl_status rl_conversation_append(rl_conversation* conversation, const int32_t* ids, size_t num_ids,
                                 rl_error** err) {
  return guarded(err, conversation, [&] {
    const auto box = use(conversation, "conversation");
    box->conversation->append(array_arg(ids, num_ids, "ids"));
  });
}

rl_status rl_conversation_generate(rl_conversation* conversation, const rl_options* sampling,
                                   int64_t priority, rl_error** err) {
  return guarded(err, conversation, [&] {
    const auto box = use(conversation, "conversation");
    Request turn =
        request_from(sampling != nullptr ? use(sampling, "sampling")->copy() : box->settings);
    turn.priority = priority;
    box->conversation->generate(std::move(turn));
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
