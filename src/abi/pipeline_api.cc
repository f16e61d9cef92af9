// Pipelines: the loop and its events.
#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"
#include "abi/host/host_service.h"
#include "abi/host/host_store.h"
#include "abi/model_parts.h"

using namespace rl;
using namespace rl::abi;

namespace {

// Runs call(Pipeline&).
template <typename F>
rl_status with_pipeline(const rl_pipeline* pipeline, rl_error** err, F&& call) {
  return guarded(err, pipeline, [&] {
    const auto target = use(pipeline, "pipeline");
    return call(*target);
  });
}

// What the host's entry `i` says; the texts and arrays stay the host's.
Score score_of(const rl_score& given, size_t i) {
  Score score{.sample_id = given.sample_id, .reward = given.reward};
  if (given.failure != nullptr) {
    score.failure =
        text_arg(given.failure, given.failure_len, str("scores[", i, "].failure").c_str());
  } else {
    score.parts = array_arg(given.parts, given.num_parts, str("scores[", i, "].parts").c_str());
    score.token_rewards = array_arg(given.token_rewards, given.num_token_rewards,
                                    str("scores[", i, "].token_rewards").c_str());
  }
  return score;
}

// What the host's entry `i` answers; the text and the ids stay the host's.
Reply reply_of(const rl_reply& given, size_t i) {
  const auto field = [&](const char* name) { return str("replies[", i, "].", name); };
  Reply reply{.sample_id = given.sample_id, .turn = given.turn};
  reply.ids = array_arg(given.ids, given.num_ids, field("ids").c_str());
  reply.finish = bool_arg(given.finish, field("finish").c_str());
  reserved_arg(given.reserved, field("reserved").c_str());
  flags_arg(given.flags, RL_TEXT_ADD_SPECIAL | RL_TEXT_ALLOW_SPECIAL, field("flags").c_str());
  if (given.text == nullptr) {
    if (given.flags != 0) refuse(field("flags").c_str(), "are given without a text");
    if (field_len(given.text, given.text_len) != 0) refuse(field("text").c_str(), "is NULL");
    return reply;
  }
  if (!reply.ids.empty()) refuse(field("ids").c_str(), "are given beside a text");
  reply.text = text_arg(given.text, given.text_len, field("text").c_str());
  reply.add_special = (given.flags & RL_TEXT_ADD_SPECIAL) != 0;
  reply.allow_special = (given.flags & RL_TEXT_ALLOW_SPECIAL) != 0;
  return reply;
}

// Where the codes of an array's entries go.
auto report_to(rl_status* results) {
  return [results](size_t i, Code code) {
    if (results != nullptr) results[i] = static_cast<rl_status>(code);
  };
}

bool feed(Pipeline& pipeline, const rl_feed_row& row, int64_t timeout_ns) {
  const auto ids = array_arg(row.ids, row.num_ids, "row.ids");
  const std::string_view tag = text_arg(row.tag, field_len(row.tag, row.tag_len), "row.tag");
  if (row.json == nullptr) {
    return pipeline.feed_ids({ids.begin(), ids.end()}, std::string(tag), timeout_ns);
  }
  if (!ids.empty()) refuse("row.ids", "is given beside row.json");
  if (!tag.empty()) refuse("row.tag", "is given beside row.json, which has a tag of its own");
  return pipeline.feed_line(text_arg(row.json, row.json_len, "row.json"), timeout_ns);
}

}  // namespace

extern "C" {

rl_status rl_pipeline_create(rl_model* model, const rl_options* options, rl_pipeline** out,
                             rl_error** err) {
  return create_on_model<Pipeline>(model, options, PlanUse::kPipeline, out, err);
}

rl_status rl_pipeline_create_stored(rl_model* model, const rl_options* options,
                                    const rl_store* store, rl_pipeline** out, rl_error** err) {
  UserData user = user_data_of(store);
  clear(out);
  return guarded(err, model, [&] {
    std::shared_ptr<ExperienceStore> hosted = host_store(store, std::move(user));
    const auto owner = use(model, "model");
    const Settings settings = options_or(options, owner->options());
    require(out, "out");
    owner->require_use(PlanUse::kPipeline);
    *out = issue<rl_pipeline>(std::make_shared<Pipeline>(owner, settings, std::move(hosted)));
  });
}

void rl_pipeline_destroy(rl_pipeline* pipeline) {
  const auto target = destroy(pipeline);
  // Other threads' calls may still use it: the end of the loop lets them return.
  if (target != nullptr) target->stop(-1);
}

rl_status rl_pipeline_start(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.start(); });
}

rl_status rl_pipeline_next(rl_pipeline* pipeline, int64_t timeout_ns, rl_event** out,
                           rl_error** err) {
  clear(out);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(out, "out");
    Reserved<rl_event> place;
    EventQueue::Popped popped = p.next(timeout_ns);
    if (popped.status == Code::kOk) *out = place.fill(std::move(popped.event));
    return static_cast<rl_status>(popped.status);
  });
}

rl_status rl_pipeline_interrupt(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.interrupt(); });
}

rl_status rl_pipeline_queue(rl_pipeline* pipeline, rl_event_queue** out, rl_error** err) {
  clear(out);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(out, "out");
    *out = issue<rl_event_queue>(p.event_queue());
  });
}

void rl_score_init(rl_score* score, size_t size) {
  if (init_struct(score, size, sizeof(*score))) score->failure_len = RL_NUL_TERMINATED;
}

rl_status rl_pipeline_score(rl_pipeline* pipeline, const rl_score* scores, size_t count,
                            rl_status* results, rl_error** err) {
  clear_array(results, count);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    const std::vector<rl_score> given = input_structs(scores, count, "scores");
    std::vector<Score> all;
    for (size_t i = 0; i < given.size(); ++i) all.push_back(score_of(given[i], i));
    p.score_many(all, report_to(results));
  });
}

void rl_reply_init(rl_reply* reply, size_t size) {
  if (init_struct(reply, size, sizeof(*reply))) reply->text_len = RL_NUL_TERMINATED;
}

rl_status rl_pipeline_reply(rl_pipeline* pipeline, const rl_reply* replies, size_t count,
                            rl_status* results, rl_error** err) {
  clear_array(results, count);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    const std::vector<rl_reply> given = input_structs(replies, count, "replies");
    std::vector<Reply> all;
    for (size_t i = 0; i < given.size(); ++i) all.push_back(reply_of(given[i], i));
    p.reply_many(all, report_to(results));
  });
}

void rl_feed_row_init(rl_feed_row* row, size_t size) {
  if (init_struct(row, size, sizeof(*row))) row->json_len = row->tag_len = RL_NUL_TERMINATED;
}

rl_status rl_pipeline_feed(rl_pipeline* pipeline, const rl_feed_row* row, int64_t timeout_ns,
                           rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    return feed(p, input_struct(row, "row"), timeout_ns) ? RL_OK : RL_TIMEOUT;
  });
}

rl_status rl_pipeline_finish_feed(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.end_feed(); });
}

rl_status rl_pipeline_pause(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.pause(); });
}

rl_status rl_pipeline_unpause(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.unpause(); });
}

rl_status rl_pipeline_stop(rl_pipeline* pipeline, int64_t timeout_ns, rl_error** err) {
  return with_pipeline(pipeline, err,
                       [&](Pipeline& p) { return p.stop(timeout_ns) ? RL_OK : RL_TIMEOUT; });
}

rl_status rl_pipeline_checkpoint(rl_pipeline* pipeline, int64_t timeout_ns, rl_bytes** path,
                                 rl_error** err) {
  clear(path);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(path, "path");
    *path = make_bytes(p.checkpoint(timeout_ns));
  });
}

rl_status rl_pipeline_save_critic(rl_pipeline* pipeline, const char* dir, size_t dir_len,
                                  int32_t dtype, uint64_t flags, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    const SaveArgs to = save_args(dir, dir_len, dtype, flags);
    p.save_critic(to.dir, to.dtype, to.replace);
  });
}

rl_status rl_pipeline_evaluate(rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.request_eval(); });
}

rl_status rl_pipeline_set_options(rl_pipeline* pipeline, const rl_options* options,
                                  rl_error** err) {
  return with_pipeline(pipeline, err,
                       [&](Pipeline& p) { p.set_options(use(options, "options")->copy()); });
}

rl_status rl_pipeline_plan(const rl_pipeline* pipeline, rl_plan** out, rl_error** err) {
  clear(out);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(out, "out");
    *out = issue<rl_plan>(std::make_shared<const PlanBox>(p.plan()));
  });
}

rl_status rl_pipeline_close_result(const rl_pipeline* pipeline, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) { p.require_closed(); });
}

rl_status rl_pipeline_resumed_from(const rl_pipeline* pipeline, rl_bytes** path, rl_error** err) {
  clear(path);
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    require(path, "path");
    *path = make_bytes(p.resumed_from());
  });
}

rl_status rl_pipeline_write_report(const rl_pipeline* pipeline, const rl_profiler* profiler,
                                   const char* path, size_t path_len, rl_error** err) {
  return with_pipeline(pipeline, err, [&](Pipeline& p) {
    const auto recorded = profiler != nullptr ? use(profiler, "profiler") : nullptr;
    p.write_report(path_arg(path, path_len, "path"),
                   recorded != nullptr ? &recorded->recorder() : nullptr,
                   {{"librl", RL_VERSION_TEXT}});
  });
}

}  // extern "C"
