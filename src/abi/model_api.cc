// Models: opening, saving, text.
#include <algorithm>

#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"
#include "pipeline/session/response_text.h"

using namespace rl;
using namespace rl::abi;

namespace {

// The model's own end ids, then those of the chat format.
std::vector<int32_t> end_ids(const LoadedModel& model) {
  std::vector<int32_t> ids = model.config().eos_ids;
  for (const int32_t id : model.chat_stop_ids()) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

void fill(rl_model_info& info, const LoadedModel& model) {
  const ModelConfig& config = model.config();
  info.family = family_name(config.family);
  info.vocab = config.vocab;
  info.hidden = config.hidden;
  info.layers = config.layers;
  info.heads = config.heads;
  info.kv_heads = config.kv_heads;
  info.head_dim = config.head_dim;
  info.ffn = config.ffn;
  info.max_position = config.max_position;
  info.bos_id = config.bos_id;
  info.pad_id = config.pad_id;
  info.num_eos_ids = end_ids(model).size();
  info.dtype = static_cast<int32_t>(model.model().compute_dtype());
  info.has_tokenizer = model.has_tokenizer() ? 1 : 0;
  info.tied_head = config.tied_head ? 1 : 0;
}

}  // namespace

extern "C" {

void rl_model_info_init(rl_model_info* info, size_t size) {
  init_struct(info, size, sizeof(*info));
}

rl_status rl_model_open(rl_runtime* runtime, const rl_options* options, int32_t use_kind,
                        rl_model** out, rl_error** err) {
  clear(out);
  return guarded(err, runtime, [&] {
    const auto owner = use(runtime, "runtime");
    const OptionSet set = options_or(options, owner->options());
    const PlanUse wanted = plan_use_arg(use_kind);
    require(out, "out");
    *out = issue<rl_model>(LoadedModel::open(owner, set, wanted));
  });
}

void rl_model_destroy(rl_model* model) { destroy(model); }

rl_status rl_model_save(const rl_model* model, const char* dir, size_t dir_len, int32_t dtype,
                        uint64_t flags, rl_error** err) {
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    const SaveArgs to = save_args(dir, dir_len, dtype, flags);
    source->save(to.dir, to.dtype, to.replace);
  });
}

rl_status rl_model_encode(const rl_model* model, const char* text, size_t text_len, uint64_t flags,
                          rl_bytes** ids, rl_error** err) {
  clear(ids);
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    const std::string_view input = text_arg(text, text_len, "text");
    flags_arg(flags, RL_TEXT_ADD_SPECIAL | RL_TEXT_ALLOW_SPECIAL, "flags");
    require(ids, "ids");
    const EncodeOptions how{.add_special = (flags & RL_TEXT_ADD_SPECIAL) != 0,
                            .allow_special = (flags & RL_TEXT_ALLOW_SPECIAL) != 0};
    *ids = make_id_bytes(source->encode(input, how).ids);
  });
}

rl_status rl_model_decode(const rl_model* model, const int32_t* ids, size_t num_ids, uint64_t flags,
                          rl_bytes** text, rl_error** err) {
  clear(text);
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    const auto input = array_arg(ids, num_ids, "ids");
    flags_arg(flags, RL_TEXT_SKIP_SPECIAL, "flags");
    require(text, "text");
    *text = make_bytes(source->decode(input, (flags & RL_TEXT_SKIP_SPECIAL) != 0));
  });
}

rl_status rl_model_encode_chat(const rl_model* model, const char* chat, size_t chat_len,
                               uint64_t flags, rl_bytes** ids, rl_error** err) {
  clear(ids);
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    const std::string_view json = text_arg(chat, chat_len, "chat");
    flags_arg(flags, RL_TEXT_GENERATION_PROMPT, "flags");
    require(ids, "ids");
    const bool open_turn = (flags & RL_TEXT_GENERATION_PROMPT) != 0;
    *ids = make_id_bytes(source->encode_chat(parse_chat_request(json, "chat"), open_turn).ids);
  });
}

rl_status rl_model_render_chat(const rl_model* model, const char* chat, size_t chat_len,
                               uint64_t flags, rl_bytes** text, rl_error** err) {
  clear(text);
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    const std::string_view json = text_arg(chat, chat_len, "chat");
    flags_arg(flags, RL_TEXT_GENERATION_PROMPT, "flags");
    require(text, "text");
    const bool open_turn = (flags & RL_TEXT_GENERATION_PROMPT) != 0;
    *text = make_bytes(source->render_chat(parse_chat_request(json, "chat"), open_turn).bytes());
  });
}

rl_status rl_model_get_info(const rl_model* model, rl_model_info* info, rl_error** err) {
  clear_result(info);
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    fill(result_struct(info, "info"), *source);
  });
}

rl_status rl_model_eos_ids(const rl_model* model, rl_bytes** ids, rl_error** err) {
  clear(ids);
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    require(ids, "ids");
    *ids = make_id_bytes(end_ids(*source));
  });
}

rl_status rl_model_version(const rl_model* model, uint64_t* out, rl_error** err) {
  clear(out);
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    require(out, "out");
    *out = source->version();
  });
}

rl_status rl_model_digest(const rl_model* model, uint64_t* out, rl_error** err) {
  clear(out);
  return guarded(err, model, [&] {
    const auto source = use(model, "model");
    require(out, "out");
    *out = source->weight_digest();
  });
}

}  // extern "C"
