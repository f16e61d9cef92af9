// The tables of arguments. A line is for a parameter of any function, or for "function parameter".
#include "abi/valid_arguments.h"

#include <cstring>

#include "abi/dlpack_host.h"

namespace abi_test {
namespace {

using Integers = std::map<std::string, uint64_t>;
using Texts = std::map<std::string, const char*>;

// Lengths that are not here are RL_NUL_TERMINATED, other numbers 1.
const Integers& integers() {
  static const Integers table = {
      {"header_abi", RL_ABI_VERSION},
      {"use", RL_USE_MODEL},
      {"dtype", RL_DTYPE_F32},
      {"flags", 0},
      {"index", 0},
      {"timeout_ns", 0},
      {"priority", 0},
      {"max_samples", 16},
      {"num_ids", 3},
      {"level", 1},
      {"num_advantages", 2},
      {"num_gradient", 2},
      {"num_weights", 2},
      {"num_keep", 2},
      {"num_values", 2},
      {"num_returns", 2},
      {"num_out", 2},
      {"first", 0},
      {"replica", 0},
      {"as_version", 0},
      {"rl_options_import format", RL_FORMAT_FLATBUFFER},
      {"rl_model_save flags", RL_SAVE_REPLACE},
      {"rl_buffer_save flags", RL_SAVE_REPLACE},
      {"rl_model_set_weights num_weights", 1},
  };
  return table;
}

// Texts that are not here are "1".
const Texts& texts() {
  static const Texts table = {
      {"key", "runtime.threads"},
      {"chat", R"({"messages": [{"role": "user", "content": "x"}]})"},
      {"dir", RL_TEST_OUTPUT "/model"},
      {"path", RL_TEST_OUTPUT "/file"},
      {"rl_buffer_save path", RL_TEST_OUTPUT "/samples.rlbuf"},
      {"rl_buffer_load path", RL_TEST_OUTPUT "/none.rlbuf"},
      {"rl_buffer_get_file_info path", RL_FIXTURES "/buffer/version_1.rlbuf"},
      {"rl_buffer_get_hosted_file_info path", RL_FIXTURES "/buffer/version_1.rlbuf"},
      {"rl_feature name", "cpu"},
      {"rl_constant name", "RL_OK"},
      {"rl_event_metric_named name", "actor/loss"},
      {"rl_model_weight name", "model.norm.weight"},
      {"rl_trainer_gradient name", "model.norm.weight"},
      {"rl_trainer_load path", RL_TEST_OUTPUT "/none"},
      {"rl_option_choice key", "model.dtype"},
      {"rl_options_set_bool key", "sampling.ignore_eos"},
      {"rl_options_set_f64 key", "optimizer.lr"},
      {"rl_options_set_string key", "data.path"},
      {"rl_options_set_string_list key", "sampling.stop"},
      {"rl_options_set_i64_list key", "sampling.stop_token_ids"},
      {"rl_options_apply_preset name", "low_memory"},
  };
  return table;
}

// Answers that are not RL_OK.
const std::map<std::string, rl_status>& answers() {
  static const std::map<std::string, rl_status> table = {
      {"rl_device_get", RL_OUT_OF_RANGE},                  // there is no GPU
      {"rl_runtime_create_rank", RL_FAILED_PRECONDITION},  // the run has one rank
      {"rl_options_import", RL_DATA_LOSS},                 // one byte is no document
      {"rl_error_knob_at", RL_OUT_OF_RANGE},               // memory is not short
      {"rl_model_encode", RL_FAILED_PRECONDITION},         // no tokenizer
      {"rl_model_decode", RL_FAILED_PRECONDITION},
      {"rl_model_encode_chat", RL_FAILED_PRECONDITION},
      {"rl_model_render_chat", RL_FAILED_PRECONDITION},  // no chat template
      {"rl_event_sample", RL_FAILED_PRECONDITION},       // the event is of a step
      {"rl_event_tensor", RL_FAILED_PRECONDITION},
      {"rl_pipeline_next", RL_TIMEOUT},  // nothing happens
      {"rl_event_queue_next", RL_TIMEOUT},
      {"rl_pipeline_score", RL_NOT_FOUND},
      {"rl_pipeline_reply", RL_FAILED_PRECONDITION},        // no turns
      {"rl_pipeline_checkpoint", RL_FAILED_PRECONDITION},   // no checkpoint.dir
      {"rl_pipeline_evaluate", RL_FAILED_PRECONDITION},     // no eval.path
      {"rl_pipeline_save_critic", RL_FAILED_PRECONDITION},  // no critic
      {"rl_trainer_save_critic", RL_FAILED_PRECONDITION},
      {"rl_trainer_apply", RL_FAILED_PRECONDITION},  // no gradients
      {"rl_trainer_gradient", RL_FAILED_PRECONDITION},
      {"rl_trainer_load", RL_NOT_FOUND},
      {"rl_model_forward", RL_FAILED_PRECONDITION},          // the model is a pipeline's
      {"rl_pipeline_close_result", RL_FAILED_PRECONDITION},  // it did not run
      {"rl_engine_step", RL_IDLE},                           // no request
      {"rl_engine_take", RL_IDLE},
      {"rl_engine_abort_request", RL_NOT_FOUND},
      {"rl_batch_import", RL_DATA_LOSS},           // one byte is no document
      {"rl_buffer_take", RL_TIMEOUT},              // no whole group
      {"rl_buffer_load", RL_NOT_FOUND},            // with or without a model
      {"rl_buffer_acknowledge", RL_UNSUPPORTED},   // no store
      {"rl_pipeline_create_stored", RL_CONFLICT},  // pipeline.role is both
      {"rl_buffer_resume", RL_UNSUPPORTED},
  };
  return table;
}

template <typename T>
T find(const std::map<std::string, T>& table, const Row& row, const Parameter& p, T otherwise) {
  const auto own = table.find(std::string(row.name) + " " + p.name), any = table.find(p.name);
  return own != table.end() ? own->second : any != table.end() ? any->second : otherwise;
}

bool is_result(Is is) { return is == Is::kOut || is == Is::kOutHandle || is == Is::kStructOut; }

// Elements of every type, never written.
int64_t zeros[8];
double ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
size_t terminated[8] = {RL_NUL_TERMINATED, RL_NUL_TERMINATED};

// A scalar whose deleter is NULL, so that it can be given any number of times.
DLManagedTensorVersioned* scalar() {
  static float value = 1;
  static DLManagedTensorVersioned managed = {
      1, 0, nullptr, nullptr, 0, {&value, 1, 0, 0, 2, 32, 1, nullptr, nullptr, 0}};
  return &managed;
}

void ignore_line(void*, const rl_log_record*) {}
void ignore_end(void*) {}
int32_t keep_advantages(void*, const rl_algo_tokens*, double*) { return 0; }
int32_t no_loss(void*, const rl_algo_tokens*, const double*, double*, double*) { return 0; }

// It keeps nothing.
rl_store empty_store() {
  rl_store store;
  rl_store_init(&store, sizeof store);
  store.put = [](void*, const char*, size_t, const void*, uint64_t) -> int32_t { return 0; };
  store.claim = [](void*, uint64_t, rl_store_found_fn, void*) -> int32_t { return 0; };
  store.recover = [](void*) -> int32_t { return 0; };
  store.acknowledge = [](void*, const char*, size_t) -> int32_t { return 0; };
  store.set_aside = store.acknowledge;
  store.read_book = [](void*, rl_store_found_fn, void*) -> int32_t { return 0; };
  store.write_book = [](void*, const void*, uint64_t) -> int32_t { return 0; };
  return store;
}

}  // namespace

rl_status valid_status(const Row& row) {
  const auto found = answers().find(row.name);
  return found != answers().end() ? found->second : RL_OK;
}

std::string handle_kind(const Parameter& p) {
  if (p.is == Is::kHandle) return p.type;
  if (p.is != Is::kStructIn) return "";
  if (p.type == std::string("rl_step") || p.type == std::string("rl_batch_part")) return "rl_batch";
  return p.type == std::string("rl_weight") ? "rl_tensor" : "";
}

void Arguments::set_handle(size_t i, void* handle) {
  const std::string type = row_.parameters[i].type;
  if (row_.parameters[i].is != Is::kStructIn) {
    words_[i].pointer = handle;
  } else if (type == "rl_step") {
    static_cast<rl_step*>(words_[i].pointer)->batch = static_cast<rl_batch*>(handle);
  } else if (type == "rl_batch_part") {
    static_cast<rl_batch_part*>(words_[i].pointer)->batch = static_cast<rl_batch*>(handle);
  } else {
    static_cast<rl_weight*>(words_[i].pointer)->tensor = static_cast<rl_tensor*>(handle);
  }
}

Arguments::Arguments(const Row& row, const Host& host) : row_(row), words_(row.parameters.size()) {
  std::memset(results_, kGarbage, sizeof results_);
  for (size_t i = 0; i < words_.size(); ++i) set(i, host);
}

std::string Arguments::complaint() const {
  return text_of(error_, RL_ERROR_KEY) + ": " + text_of(error_, RL_ERROR_MESSAGE);
}

void Arguments::set(size_t i, const Host& host) {
  const Parameter& p = row_.parameters[i];
  if (i >= kMaxParameters || 2 * p.bytes > kMaxResultBytes) {
    throw std::length_error(row_.name);  // enlarge the arrays
  }
  const bool length = std::string(p.name).ends_with("_len");
  switch (p.is) {
    case Is::kHandle:
      words_[i].pointer = host.handle(p.type);
      break;
    case Is::kOutHandle:
    case Is::kOut:
      words_[i].pointer = results_[i];
      break;
    case Is::kIn:
      set_array(i);
      break;
    case Is::kStructIn:
    case Is::kStructOut:
      set_struct(i, host);
      break;
    case Is::kFunction:
      set_function(i);
      break;
    case Is::kUserData:
      words_[i].pointer = zeros;
      break;
    case Is::kInteger:
      words_[i].integer = find<uint64_t>(integers(), row_, p, length ? RL_NUL_TERMINATED : 1);
      if (row_.ends_with("_init")) words_[i].integer = row_.parameters[0].bytes;
      break;
    case Is::kReal:
      words_[i].real = 1;
      break;
    case Is::kError:
      words_[i].pointer = &error_;
      break;
  }
}

void Arguments::set_array(size_t i) {
  const Parameter& p = row_.parameters[i];
  const std::string type = p.c_type;
  texts_[i] = find<const char*>(texts(), row_, p, "1");
  if (type == "const char*" || type == "const void*") {
    words_[i].pointer = const_cast<char*>(texts_[i]);
  } else if (type == "const char* const*") {
    words_[i].pointer = &texts_[i];
  } else if (type == "const size_t*") {
    words_[i].pointer = terminated;
  } else if (p.name == std::string("lengths")) {
    static int32_t one = 1;
    words_[i].pointer = &one;
  } else if (type == "const double*" || type == "const float*") {
    words_[i].pointer = ones;
  } else if (type == "struct DLManagedTensorVersioned*") {
    words_[i].pointer = scalar();
  } else if (std::string(p.name).ends_with("_stream")) {
    words_[i].pointer = nullptr;  // the only stream that the CPU has
  } else {
    words_[i].pointer = zeros;
  }
}

void Arguments::set_function(size_t i) {
  const std::string type = row_.parameters[i].c_type;
  words_[i].function = type == "rl_log_fn"         ? reinterpret_cast<void (*)()>(ignore_line)
                       : type == "rl_advantage_fn" ? reinterpret_cast<void (*)()>(keep_advantages)
                       : type == "rl_loss_fn"      ? reinterpret_cast<void (*)()>(no_loss)
                                                   : reinterpret_cast<void (*)()>(ignore_end);
}

// Inputs are what the host would give; of results only the size is set.
void Arguments::set_struct(size_t i, const Host& host) {
  const Parameter& p = row_.parameters[i];
  static const int32_t prompt[] = {1, 2};
  static const float logprob = -1;
  words_[i].pointer = results_[i];
  std::memcpy(results_[i], &p.bytes, sizeof p.bytes);
  if (p.is == Is::kStructOut) return;
  if (p.type == std::string("rl_request")) {
    auto* const request = reinterpret_cast<rl_request*>(results_[i]);
    rl_request_init(request, sizeof *request);
    request->prompt = prompt;
    request->num_prompt = 2;
  } else if (p.type == std::string("rl_algo_tokens")) {
    static const int32_t lengths[] = {1, 1};
    static const float logprobs[] = {-1, -2};
    static const double rewards[] = {1, 0};
    auto* const tokens = reinterpret_cast<rl_algo_tokens*>(results_[i]);
    rl_algo_tokens_init(tokens, sizeof *tokens);
    tokens->lengths = lengths;
    tokens->num_sequences = tokens->num_tokens = 2;
    tokens->logprobs = tokens->ref_logprobs = tokens->advantages = logprobs;
    tokens->rewards = rewards;
    tokens->values = tokens->returns = tokens->entropies = logprobs;
  } else if (p.type == std::string("rl_span")) {
    auto* const span = reinterpret_cast<rl_span*>(results_[i]);
    rl_span_init(span, sizeof *span);
    span->lane = "host";
    span->name = "work";
    span->lane_len = span->name_len = RL_NUL_TERMINATED;
  } else if (p.type == std::string("rl_machine")) {
    auto* const machine = reinterpret_cast<rl_machine*>(results_[i]);
    rl_machine_init(machine, sizeof *machine);
    machine->f32_flops = machine->bf16_flops = 1e12;
    machine->read_bytes_per_s = machine->copy_bytes_per_s = 1e10;
    machine->threads = 1;
  } else if (p.type == std::string("rl_feed_row")) {
    auto* const row = reinterpret_cast<rl_feed_row*>(results_[i]);
    rl_feed_row_init(row, sizeof *row);
    row->ids = prompt;
    row->num_ids = 2;
  } else if (p.type == std::string("rl_weight")) {
    auto* const weight = reinterpret_cast<rl_weight*>(results_[i]);
    rl_weight_init(weight, sizeof *weight);
    weight->name = "model.norm.weight";
    weight->tensor = host.tensor;
  } else if (p.type == std::string("rl_tensor_request")) {
    auto* const request = reinterpret_cast<rl_tensor_request*>(results_[i]);
    rl_tensor_request_init(request, sizeof *request);
  } else if (p.type == std::string("rl_algo_packing")) {
    auto* const packing = reinterpret_cast<rl_algo_packing*>(results_[i]);
    rl_algo_packing_init(packing, sizeof *packing);
  } else if (p.type == std::string("rl_store")) {
    *reinterpret_cast<rl_store*>(results_[i]) = empty_store();
  } else if (p.type == std::string("rl_score")) {
    *reinterpret_cast<rl_score*>(results_[i]) = score_of(0, 1);
  } else if (p.type == std::string("rl_reply")) {
    auto* const reply = reinterpret_cast<rl_reply*>(results_[i]);
    rl_reply_init(reply, sizeof *reply);
    reply->ids = prompt;
    reply->num_ids = 2;
  } else if (p.type == std::string("rl_host")) {
    rl_host_init(reinterpret_cast<rl_host*>(results_[i]), sizeof(rl_host));
  } else if (p.type == std::string("rl_turn")) {
    rl_turn_init(reinterpret_cast<rl_turn*>(results_[i]), sizeof(rl_turn));
  } else if (p.type == std::string("rl_content")) {
    auto* const content = reinterpret_cast<rl_content*>(results_[i]);
    *content = content_of(prompt, 2);
  } else if (p.type == std::string("rl_step")) {
    auto* const step = reinterpret_cast<rl_step*>(results_[i]);
    rl_step_init(step, sizeof *step);
    step->batch = host.batch;
  } else if (p.type == std::string("rl_batch_part")) {
    auto* const part = reinterpret_cast<rl_batch_part*>(results_[i]);
    rl_batch_part_init(part, sizeof *part);
    part->batch = host.batch;
  } else if (p.type == std::string("rl_take")) {
    rl_take_init(reinterpret_cast<rl_take*>(results_[i]), sizeof(rl_take));
  } else if (p.type == std::string("rl_drop")) {
    rl_drop_init(reinterpret_cast<rl_drop*>(results_[i]), sizeof(rl_drop));
  } else if (p.type == std::string("rl_checkpoint")) {
    auto* const checkpoint = reinterpret_cast<rl_checkpoint*>(results_[i]);
    rl_checkpoint_init(checkpoint, sizeof *checkpoint);
    checkpoint->dir = RL_TEST_OUTPUT "/checkpoints";
    checkpoint->flags = RL_SAVE_REPLACE;
  } else if (p.type == std::string("rl_forward")) {
    auto* const forward = reinterpret_cast<rl_forward*>(results_[i]);
    rl_forward_init(forward, sizeof *forward);
    forward->ids = prompt;
    forward->num_ids = 2;
    forward->num_prompt = 1;
  } else if (p.type == std::string("rl_sample_view")) {
    auto* const sample = reinterpret_cast<rl_sample_view*>(results_[i]);
    rl_sample_view_init(sample, sizeof *sample);
    sample->ids = prompt;
    sample->num_ids = 2;
    sample->num_prompt = sample->scored = 1;
    sample->logprobs = &logprob;
  }
}

void Arguments::set_null(size_t i) {
  words_[i].pointer = nullptr;
  if (!row_.parameters[i].may_be_null) return;
  for (size_t k = 0; k < words_.size(); ++k) {
    const std::string name = row_.parameters[k].name;
    if (name == std::string("num_") + row_.parameters[i].name) words_[k].integer = 0;
  }
}

bool Arguments::results_are_clear(size_t except) const {
  for (size_t i = 0; i < words_.size(); ++i) {
    const Parameter& p = row_.parameters[i];
    if (!is_result(p.is) || i == except) continue;
    const size_t from = p.is == Is::kStructOut ? sizeof(size_t) : 0;
    const size_t to = p.is == Is::kOutHandle ? sizeof(void*) : p.bytes;
    for (size_t k = from; k < to; ++k) {
      if (results_[i][k] != 0) return false;
    }
  }
  return true;
}

void Arguments::release_results() {
  for (size_t i = 0; i < words_.size(); ++i) {
    if (row_.parameters[i].c_type == std::string("struct DLManagedTensorVersioned**")) {
      DLManagedTensorVersioned* exported = nullptr;
      if (words_[i].pointer != nullptr) std::memcpy(&exported, results_[i], sizeof exported);
      if (exported != nullptr) end(exported);
    }
    if (row_.parameters[i].is != Is::kOutHandle || words_[i].pointer == nullptr) continue;
    Word made;
    std::memcpy(&made.pointer, results_[i], sizeof made.pointer);
    for (const Row& row : rows()) {
      const std::string type = row_.parameters[i].type;
      if (row.name == type + "_destroy" || row.name == type + "_release") row.call(&made);
    }
  }
}

}  // namespace abi_test
