// Status codes that no other test of this folder provokes: abi/functions.yml lists the codes of
// each function, and each of them has to be seen (codes.py).
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "abi/host.h"
#include "support/temp_dir.h"

namespace abi_test {
namespace {

constexpr size_t kText = RL_NUL_TERMINATED;
const int32_t kPrompt[] = {1, 2, 3};

uint64_t submit(rl_engine* engine) {
  rl_request request;
  rl_request_init(&request, sizeof request);
  request.prompt = kPrompt;
  request.num_prompt = 3;
  uint64_t id = 0;
  EXPECT_RL_OK(rl_engine_submit(engine, &request, &id, &err));
  return id;
}

TEST(Codes, OfNamesAndIndices) {
  int64_t value = 0;
  EXPECT_EQ(rl_constant("RL_NONE", kText, &value, nullptr), RL_NOT_FOUND);
  rl_option_info info;
  rl_option_info_init(&info, sizeof info);
  EXPECT_EQ(rl_option_at(rl_option_count(), &info, nullptr), RL_OUT_OF_RANGE);
  EXPECT_EQ(rl_option_find("none", kText, &info, nullptr), RL_UNKNOWN_OPTION);
  const char *name = nullptr, *doc = nullptr;
  EXPECT_EQ(rl_option_choice("none", kText, 0, &name, &doc, nullptr), RL_UNKNOWN_OPTION);
  EXPECT_EQ(rl_option_choice("model.dtype", kText, 99, &name, &doc, nullptr), RL_OUT_OF_RANGE);
  const Host host;
  rl_option_value option;
  rl_option_value_init(&option, sizeof option);
  EXPECT_EQ(rl_options_get(host.options, "none", kText, &option, nullptr, nullptr),
            RL_UNKNOWN_OPTION);
  rl_plan_item item;
  rl_plan_item_init(&item, sizeof item);
  EXPECT_EQ(rl_plan_at(host.plan, 999, &item, nullptr), RL_OUT_OF_RANGE);
  rl_knob knob;
  rl_knob_init(&knob, sizeof knob);
  EXPECT_EQ(rl_plan_knob_at(host.plan, 999, &knob, nullptr), RL_OUT_OF_RANGE);
  rl_error* error = nullptr;
  EXPECT_EQ(rl_constant("RL_NONE", kText, &value, &error), RL_NOT_FOUND);
  EXPECT_EQ(rl_error_knob_at(error, 0, &knob, nullptr), RL_OUT_OF_RANGE);
  rl_error_release(error);
  double metric = 0;
  EXPECT_EQ(rl_event_metric(host.event, 9999, &name, &metric, nullptr), RL_OUT_OF_RANGE);
  EXPECT_EQ(rl_event_metric_named(host.event, "none", kText, &metric, nullptr), RL_NOT_FOUND);
  rl_sample_view sample;
  rl_sample_view_init(&sample, sizeof sample);
  EXPECT_EQ(rl_batch_sample(host.batch, 2, &sample, nullptr), RL_OUT_OF_RANGE);
  DLManagedTensorVersioned* exported = nullptr;
  EXPECT_EQ(rl_tensor_export_dlpack(host.tensor, &metric, &exported, nullptr), RL_UNSUPPORTED);
}

TEST(Codes, OfOptionsThatAreSet) {
  const Host host;
  rl_options* const o = host.options;
  const char* const texts[] = {"x"};
  const int64_t numbers[] = {-1};
  const char* const unknown = "none";
  EXPECT_EQ(rl_options_set_bool(o, unknown, kText, 1, nullptr), RL_UNKNOWN_OPTION);
  EXPECT_EQ(rl_options_set_u64(o, unknown, kText, 1, nullptr), RL_UNKNOWN_OPTION);
  EXPECT_EQ(rl_options_set_string(o, unknown, kText, "x", 1, nullptr), RL_UNKNOWN_OPTION);
  EXPECT_EQ(rl_options_set_string_list(o, unknown, kText, texts, nullptr, 1, nullptr),
            RL_UNKNOWN_OPTION);
  EXPECT_EQ(rl_options_set_i64_list(o, unknown, kText, numbers, 1, nullptr), RL_UNKNOWN_OPTION);
  EXPECT_EQ(rl_options_set_text(o, unknown, kText, "x", 1, nullptr), RL_UNKNOWN_OPTION);
  const char* const other = "data.shuffle";  // a bool
  EXPECT_EQ(rl_options_set_i64(o, other, kText, 1, nullptr), RL_WRONG_TYPE);
  EXPECT_EQ(rl_options_set_u64(o, other, kText, 1, nullptr), RL_WRONG_TYPE);
  EXPECT_EQ(rl_options_set_f64(o, other, kText, 1, nullptr), RL_WRONG_TYPE);
  EXPECT_EQ(rl_options_set_string(o, other, kText, "x", 1, nullptr), RL_WRONG_TYPE);
  EXPECT_EQ(rl_options_set_string_list(o, other, kText, texts, nullptr, 1, nullptr), RL_WRONG_TYPE);
  EXPECT_EQ(rl_options_set_i64_list(o, other, kText, numbers, 1, nullptr), RL_WRONG_TYPE);
  EXPECT_EQ(rl_options_set_text(o, other, kText, "x", 1, nullptr), RL_WRONG_TYPE);
  EXPECT_EQ(rl_options_set_u64(o, "engine.block_size", kText, 48, nullptr), RL_OUT_OF_RANGE);
  EXPECT_EQ(rl_options_set_f64(o, "optimizer.lr", kText, -1, nullptr), RL_OUT_OF_RANGE);
  EXPECT_EQ(rl_options_set_string(o, "model.dtype", kText, "x", 1, nullptr), RL_OUT_OF_RANGE);
  EXPECT_EQ(rl_options_set_i64_list(o, "sampling.stop_token_ids", kText, numbers, 1, nullptr),
            RL_OUT_OF_RANGE);
  EXPECT_EQ(rl_options_set_text(o, "optimizer.lr", kText, "-1", 2, nullptr), RL_OUT_OF_RANGE);
  // No plugin of GPUs lies beside the library of a build tree.
  EXPECT_EQ(rl_options_set_string(o, "runtime.device", kText, "cuda", 4, nullptr), RL_OK);
  rl_runtime* runtime = nullptr;
  EXPECT_EQ(rl_runtime_create(RL_ABI_VERSION, o, &runtime, nullptr), RL_NOT_IN_BUILD);
  rl_plan* plan = nullptr;
  EXPECT_EQ(
      rl_options_set_string(o, "model.path", kText, RL_FIXTURES "/models/qwen2", kText, nullptr),
      RL_OK);
  EXPECT_EQ(rl_plan_create(o, RL_USE_GENERATE, &plan, nullptr), RL_NOT_IN_BUILD);
  const std::string large((size_t{1} << 24) + 1, ' ');
  EXPECT_EQ(rl_options_import(o, RL_FORMAT_JSON, large.data(), large.size(), nullptr),
            RL_RESOURCE_EXHAUSTED);
}

TEST(Codes, OfFilesThatAreNotThereOrSomethingElse) {
  const Host host;
  const rl::TempDir dir;
  const std::string gguf = dir.file("half.gguf");
  rl_machine machine;
  rl_machine_init(&machine, sizeof machine);
  machine.f32_flops = machine.bf16_flops = 1e9;
  machine.read_bytes_per_s = machine.copy_bytes_per_s = 1e9;
  machine.threads = 1;
  std::ofstream(gguf) << "GGUF";
  for (const auto& [path, code] : {std::pair(dir.file("none"), RL_NOT_FOUND),
                                   {RL_FIXTURES "/buffer/version_1.rlbuf", RL_UNSUPPORTED},
                                   {gguf, RL_DATA_LOSS}}) {
    set(host.options, "model.path", path);
    rl_model* model = nullptr;
    EXPECT_EQ(rl_model_open(host.runtime, host.options, RL_USE_MODEL, &model, nullptr), code)
        << path;
    rl_plan* plan = nullptr;
    EXPECT_EQ(rl_plan_create(host.options, RL_USE_MODEL, &plan, nullptr), code) << path;
    EXPECT_EQ(rl_plan_fit(host.runtime, host.options, RL_USE_MODEL, &machine, RL_KNOB_SPEED,
                          nullptr, &plan, nullptr),
              code)
        << path;
    EXPECT_EQ(rl_plan_create_hosted(host.runtime, host.options, RL_USE_MODEL, &plan, nullptr), code)
        << path;
  }
  rl_buffer_file_info info;
  rl_buffer_file_info_init(&info, sizeof info);
  for (const auto& [path, code] :
       {std::pair(dir.file("none"), RL_NOT_FOUND), {gguf, RL_DATA_LOSS}}) {
    EXPECT_EQ(rl_buffer_get_file_info(path.data(), path.size(), &info, nullptr), code) << path;
    EXPECT_EQ(
        rl_buffer_get_hosted_file_info(host.runtime, path.data(), path.size(), &info, nullptr),
        code)
        << path;
  }
  const std::string saved = dir.file("model");
  EXPECT_RL_OK(rl_model_save(host.model, saved.data(), saved.size(), RL_DTYPE_F32, 0, &err));
  EXPECT_EQ(rl_model_save(host.model, saved.data(), saved.size(), RL_DTYPE_F32, 0, nullptr),
            RL_ALREADY_EXISTS);
}

TEST(Codes, OfModelsThatCannotBeOpened) {
  const Host host;
  const rl::TempDir dir;
  rl_model* model = nullptr;
  const auto open = [&](rl_runtime* runtime) {
    return rl_model_open(runtime, host.options, RL_USE_MODEL, &model, nullptr);
  };
  set(host.options, "model.path", "");
  EXPECT_EQ(open(host.runtime), RL_FAILED_PRECONDITION);
  const std::string fixture = RL_FIXTURES "/models/llama", large = dir.file("large_tokenizer");
  std::filesystem::copy(fixture, large);
  std::filesystem::copy_file(RL_FIXTURES "/tokenizers/tiny_gpt2.tokenizer.json",
                             large + "/tokenizer.json");
  set(host.options, "model.path", large);
  EXPECT_EQ(open(host.runtime), RL_INCOMPATIBLE);
  set(host.options, "model.path", fixture);
  set(host.options, "runtime.memory_budget_bytes", "1MiB");
  rl_runtime* small = nullptr;
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, host.options, &small, &err));
  EXPECT_EQ(open(small), RL_RESOURCE_EXHAUSTED);
  rl_plan* plan = nullptr;
  EXPECT_EQ(rl_plan_create_hosted(small, host.options, RL_USE_MODEL, &plan, nullptr),
            RL_RESOURCE_EXHAUSTED);
  rl_runtime_destroy(small);
}

// No descriptor is free for the queue's.
TEST(Codes, OfAQueueWithoutADescriptor) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  const rlimit none = {static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  rl_event_queue* queue = nullptr;
  const rl_status status = rl_event_queue_create(&queue, nullptr);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status, RL_RESOURCE_EXHAUSTED);
}

// Every array that an algorithm may read, for two sequences of two tokens.
struct AlgoInput {
  AlgoInput() {
    EXPECT_RL_OK(rl_options_create(&options, &err));
    rl_algo_tokens_init(&tokens, sizeof tokens);
    tokens.lengths = lengths;
    tokens.num_sequences = 2;
    tokens.num_tokens = 4;
    tokens.logprobs = tokens.ref_logprobs = tokens.advantages = tokens.values = tokens.returns =
        tokens.entropies = floats;
    tokens.rewards = rewards;
  }
  ~AlgoInput() { rl_options_destroy(options); }
  AlgoInput(const AlgoInput&) = delete;

  rl_status advantages() {
    return rl_algo_advantages(options, &tokens, doubles, 4, nullptr, 0, nullptr);
  }
  template <typename Loss>
  rl_status loss_by(Loss compute) {
    rl_algo_loss loss;
    rl_algo_loss_init(&loss, sizeof loss);
    return compute(options, &tokens, doubles, 4, &loss, nullptr);
  }
  rl_status corrections() {
    uint8_t keep[4];
    return rl_algo_corrections(options, &tokens, doubles, 4, keep, 4, nullptr);
  }
  rl_status weights() { return rl_algo_weights(options, &tokens, doubles, 4, nullptr); }
  rl_status kl() { return rl_algo_kl(options, &tokens, doubles, 4, more, 4, nullptr); }
  rl_status pack() {
    rl_algo_packing packing;
    rl_algo_packing_init(&packing, sizeof packing);
    int32_t bins[2];
    uint64_t count = 0;
    return rl_algo_pack(options, lengths, 2, &packing, bins, 2, &count, nullptr);
  }
  // Of all that take tokens and more options than those of a KL.
  void expect_all(rl_status expected) {
    EXPECT_EQ(advantages(), expected);
    EXPECT_EQ(loss_by(rl_algo_policy_loss), expected);
    EXPECT_EQ(loss_by(rl_algo_value_loss), expected);
    EXPECT_EQ(loss_by(rl_algo_entropy_loss), expected);
    EXPECT_EQ(corrections(), expected);
    EXPECT_EQ(weights(), expected);
  }

  int32_t lengths[2] = {2, 2};
  float floats[4] = {-1, -2, -3, -4};
  double rewards[2] = {1, 0};
  double doubles[4] = {}, more[4] = {};
  rl_options* options = nullptr;
  rl_algo_tokens tokens = {};
};

TEST(Codes, OfAlgorithms) {
  AlgoInput in;
  in.expect_all(RL_OK);
  in.lengths[0] = -1;
  in.lengths[1] = 4;
  in.expect_all(RL_OUT_OF_RANGE);
  EXPECT_EQ(in.kl(), RL_OUT_OF_RANGE);
  in.lengths[0] = in.lengths[1] = 2;
  set(in.options, "algo.correction.is", "token");  // of nothing that is decoupled
  in.expect_all(RL_CONFLICT);
  EXPECT_EQ(in.pack(), RL_CONFLICT);
  EXPECT_RL_OK(rl_options_unset(in.options, "algo.correction.is", kText, &err));
  in.rewards[1] = std::nan("");
  EXPECT_EQ(in.advantages(), RL_NON_FINITE);
  in.rewards[1] = 0;
  const double weights[] = {1, 1, 1, std::nan("")};
  in.tokens.weights = weights;
  for (const auto loss : {rl_algo_policy_loss, rl_algo_value_loss, rl_algo_entropy_loss}) {
    EXPECT_EQ(in.loss_by(loss), RL_NON_FINITE);
  }
  in.tokens.weights = nullptr;
  set(in.options, "algo.advantage", "custom");
  EXPECT_EQ(in.advantages(), RL_FAILED_PRECONDITION);
  set(in.options, "algo.policy_loss", "custom");
  EXPECT_EQ(in.loss_by(rl_algo_policy_loss), RL_FAILED_PRECONDITION);
}

// A file that is missing from a checkpoint damages it: "not found" is for paths that the host
// gives.
TEST(Codes, OfACheckpointWithoutOneOfItsFiles) {
  const Host host;
  const rl::TempDir dir;
  rl_checkpoint checkpoint;
  rl_checkpoint_init(&checkpoint, sizeof checkpoint);
  checkpoint.dir = dir.path().c_str();
  rl_bytes* path = nullptr;
  EXPECT_RL_OK(rl_trainer_save(host.trainer, &checkpoint, &path, &err));
  const std::string saved(static_cast<const char*>(rl_bytes_data(path)), rl_bytes_size(path));
  rl_bytes_release(path);
  for (const char* name : {"second_moments.safetensors", "manifest.xxh64"}) {
    ASSERT_TRUE(std::filesystem::remove(saved + "/" + name));
    rl_error* error = nullptr;
    rl_bytes* state = nullptr;
    EXPECT_EQ(rl_trainer_load(host.trainer, saved.c_str(), kText, &state, &error), RL_DATA_LOSS);
    EXPECT_EQ(text_of(error, RL_ERROR_MESSAGE),
              "the checkpoint " + saved + " is damaged: its file " + name + " is missing");
    EXPECT_EQ(text_of(error, RL_ERROR_LOCATION), saved + "/" + name);
    rl_error_release(error);
  }
  set(host.options, "checkpoint.resume", saved);
  rl_pipeline* pipeline = nullptr;
  EXPECT_EQ(rl_pipeline_create(host.model, host.options, &pipeline, nullptr), RL_DATA_LOSS);
}

TEST(Codes, OfFoldersThatAreNotThere) {
  const Host host;
  // A model's folders are made, which is impossible here.
  EXPECT_EQ(rl_model_save(host.model, "/proc/none/model", kText, RL_DTYPE_F32, 0, nullptr),
            RL_NOT_FOUND);
  const rl::TempDir dir;
  const std::string absent = dir.file("none/file");
  const char* const path = absent.c_str();
  EXPECT_EQ(rl_buffer_save(host.buffer, path, kText, host.model, 0, nullptr), RL_NOT_FOUND);
  EXPECT_EQ(rl_profiler_write_trace(host.profiler, path, kText, nullptr), RL_NOT_FOUND);
  EXPECT_EQ(rl_pipeline_write_report(host.pipeline, host.profiler, path, kText, nullptr),
            RL_NOT_FOUND);
}

TEST(Codes, OfOptionsThatTheModelWasNotOpenedWith) {
  const Host host;
  set(host.options, "runtime.seed", "99");
  rl_model* model = nullptr;
  rl_trainer* trainer = nullptr;
  rl_pipeline* pipeline = nullptr;
  EXPECT_EQ(rl_model_open(host.runtime, host.options, RL_USE_MODEL, &model, nullptr), RL_CONFLICT);
  EXPECT_EQ(rl_trainer_create(host.model, host.options, &trainer, nullptr), RL_CONFLICT);
  EXPECT_EQ(rl_pipeline_create(host.model, host.options, &pipeline, nullptr), RL_CONFLICT);
}

TEST(Codes, OfPromptsThatAreNotThere) {
  const Host host;
  set(host.options, "data.path", "/none.jsonl");
  rl_pipeline* pipeline = nullptr;
  EXPECT_EQ(rl_pipeline_create(host.model, host.options, &pipeline, nullptr), RL_NOT_FOUND);
  EXPECT_EQ(rl_pipeline_create_stored(host.model, host.options, nullptr, &pipeline, nullptr),
            RL_NOT_FOUND);
}

TEST(Codes, OfTextWithoutATokenizer) {
  const Host host;
  const char* const texts[] = {"x"};
  EXPECT_RL_OK(
      rl_options_set_string_list(host.options, "sampling.stop", kText, texts, nullptr, 1, &err));
  rl_pipeline* pipeline = nullptr;
  EXPECT_EQ(rl_pipeline_create(host.model, host.options, &pipeline, nullptr),
            RL_FAILED_PRECONDITION);
  EXPECT_EQ(rl_pipeline_set_options(host.pipeline, host.options, nullptr), RL_FAILED_PRECONDITION);
}

TEST(Codes, OfBuffersThatAreFull) {
  const Host host;
  const rl::TempDir dir;
  const std::string path = dir.file("samples.rlbuf");
  rl_buffer* small = nullptr;
  rl_error* refused = nullptr;
  EXPECT_EQ(rl_buffer_create(host.options, 1, &small, &refused), RL_OUT_OF_RANGE);
  EXPECT_EQ(text_of(refused, RL_ERROR_KEY), "max_samples");
  rl_error_release(refused);
  EXPECT_RL_OK(rl_buffer_create(host.options, 2, &small, &err));
  EXPECT_RL_OK(rl_buffer_put_batch(host.buffer, host.batch, &err));
  EXPECT_RL_OK(rl_buffer_save(host.buffer, path.data(), path.size(), nullptr, 0, &err));
  rl_sample_view sample;
  rl_sample_view_init(&sample, sizeof sample);
  EXPECT_RL_OK(rl_batch_sample(host.batch, 0, &sample, &err));
  sample.ordinal = 99;
  for (sample.sample_id = 1000; sample.sample_id < 1002; ++sample.sample_id, ++sample.slot) {
    EXPECT_RL_OK(rl_buffer_put(small, &sample, &err));
  }
  sample.ordinal = 100;
  sample.slot = 0;
  EXPECT_EQ(rl_buffer_put(small, &sample, nullptr), RL_RESOURCE_EXHAUSTED);
  EXPECT_EQ(rl_buffer_put_batch(small, host.batch, nullptr), RL_RESOURCE_EXHAUSTED);
  uint64_t count = 0;
  EXPECT_EQ(rl_buffer_load(small, path.data(), path.size(), nullptr, &count, nullptr),
            RL_RESOURCE_EXHAUSTED);
  rl_batch* batch = nullptr;
  EXPECT_EQ(take_groups(small, 0, &batch, nullptr), RL_OUT_OF_RANGE);
  rl_buffer_destroy(small);
}

TEST(Codes, OfEnginesThatHaveRequestsOrSleep) {
  Host host;
  rl_batch* batch = nullptr;
  rl_event* event = nullptr;
  rl_engine_stats stats;
  rl_engine_stats_init(&stats, sizeof stats);
  EXPECT_EQ(rl_engine_get_stats(host.engine, 0, RL_PERIOD_INTERVAL, &stats, nullptr),
            RL_FAILED_PRECONDITION);
  submit(host.engine);
  EXPECT_RL_OK(rl_engine_step(host.engine, &err));
  EXPECT_EQ(rl_engine_take(host.engine, &batch, nullptr), RL_WOULD_BLOCK);
  EXPECT_EQ(train(host.trainer, host.batch, &event, nullptr), RL_BUSY);
  EXPECT_EQ(rl_pipeline_start(host.pipeline, nullptr), RL_BUSY);
  EXPECT_EQ(rl_engine_sleep(host.engine, 3, nullptr), RL_OUT_OF_RANGE);
  EXPECT_RL_OK(rl_engine_sleep(host.engine, 1, &err));
  EXPECT_EQ(rl_engine_step(host.engine, nullptr), RL_FAILED_PRECONDITION);
  EXPECT_EQ(rl_engine_run(host.engine, nullptr), RL_FAILED_PRECONDITION);
  EXPECT_EQ(rl_engine_drain(host.engine, -1, nullptr), RL_FAILED_PRECONDITION);
}

TEST(Codes, OfConversations) {
  const Host host;
  const std::vector<int32_t> ids(65, 1);
  const rl_content content = content_of(ids.data(), ids.size());
  rl_conversation* conversation = nullptr;
  EXPECT_EQ(rl_conversation_create(host.engine, &content, &conversation, nullptr), RL_OUT_OF_RANGE);
  EXPECT_EQ(rl_conversation_append(host.conversation, &content, nullptr), RL_OUT_OF_RANGE);
  // There is no room for all tokens of a turn.
  rl_options* sampling = nullptr;
  EXPECT_RL_OK(rl_options_clone(host.options, &sampling, &err));
  set(sampling, "sampling.max_new_tokens", "62");
  rl_turn turn;
  rl_turn_init(&turn, sizeof turn);
  turn.sampling = sampling;
  EXPECT_EQ(rl_conversation_generate(host.conversation, &turn, nullptr), RL_OUT_OF_RANGE);
  rl_options_destroy(sampling);
  EXPECT_RL_OK(rl_conversation_generate(host.conversation, nullptr, &err));
  rl_batch* batch = nullptr;
  EXPECT_EQ(rl_conversation_generate(host.conversation, nullptr, nullptr), RL_FAILED_PRECONDITION);
  EXPECT_EQ(rl_conversation_sample(host.conversation, &batch, nullptr), RL_FAILED_PRECONDITION);
  EXPECT_EQ(rl_conversation_fork(host.conversation, &conversation, nullptr),
            RL_FAILED_PRECONDITION);
}

// Runs what other threads do while a function of the host is computing for librl.
struct Beside {
  std::function<void()> calls;
  int asked = 0;

  void run() {
    ++asked;
    std::thread(calls).join();
  }
};

// What needs weights that another call trains.
struct TrainerParts {
  Host& host;
  rl_model* served = nullptr;    // for forwards
  rl_trainer* halved = nullptr;  // holds gradients
  rl_step step = {};

  explicit TrainerParts(Host& host) : host(host) {
    EXPECT_RL_OK(rl_model_open(host.runtime, host.options, RL_USE_FORWARD, &served, &err));
    EXPECT_RL_OK(rl_trainer_create(host.model, host.options, &halved, &err));
    rl_step_init(&step, sizeof step);
    step.batch = host.batch;
    EXPECT_RL_OK(rl_trainer_backward(halved, &step, &err));
  }
  ~TrainerParts() {
    rl_trainer_destroy(halved);
    rl_model_destroy(served);
  }

  rl_status forward(int32_t output, const uint64_t* row) const {
    rl_forward input;
    rl_forward_init(&input, sizeof input);
    input.output = output;
    input.batch = host.batch;
    input.rows = row;
    input.num_rows = row != nullptr ? 1 : 0;
    rl_tensor* none = nullptr;
    return rl_model_forward(served, &input, &none, nullptr);
  }
  void expect_busy(const std::string& dir) const {
    EXPECT_EQ(forward(RL_OUTPUT_LOGPROBS, nullptr), RL_BUSY);
    EXPECT_EQ(rl_trainer_backward(halved, &step, nullptr), RL_BUSY);
    rl_event* event = nullptr;
    EXPECT_EQ(rl_trainer_apply(halved, &event, nullptr), RL_BUSY);
    rl_checkpoint checkpoint;
    rl_checkpoint_init(&checkpoint, sizeof checkpoint);
    checkpoint.dir = dir.c_str();
    rl_bytes* bytes = nullptr;
    EXPECT_EQ(rl_trainer_save(halved, &checkpoint, &bytes, nullptr), RL_BUSY);
    EXPECT_EQ(rl_trainer_load(halved, dir.data(), dir.size(), &bytes, nullptr), RL_BUSY);
  }
};

TEST(Codes, OfGradientsAndForwards) {
  Host host;
  const TrainerParts parts(host);
  const uint64_t far = 9999;
  EXPECT_EQ(parts.forward(RL_OUTPUT_LOGITS, &far), RL_OUT_OF_RANGE);
  set(host.options, "algo.advantage", "custom");
  rl_trainer* trainer = nullptr;
  EXPECT_RL_OK(rl_trainer_create(host.model, host.options, &trainer, &err));
  int32_t answer = 1;
  const auto advantage = [](void* user_data, const rl_algo_tokens*, double* out) {
    out[0] = std::nan("");
    return *static_cast<int32_t*>(user_data);
  };
  EXPECT_RL_OK(rl_trainer_set_advantage(trainer, advantage, &answer, nullptr, &err));
  EXPECT_EQ(rl_trainer_backward(trainer, &parts.step, nullptr), RL_CANCELLED);
  answer = 0;
  EXPECT_EQ(rl_trainer_backward(trainer, &parts.step, nullptr), RL_NON_FINITE);
  rl_trainer_destroy(trainer);
}

// One copy of the weights is trained meanwhile: nothing that computes, reads them or needs them may
// begin, and the runtime waits for nothing.
TEST(Codes, OfCallsBesideATrainingStep) {
  Host host;
  const rl::TempDir dir;
  const std::string saved = dir.file("saved.rlbuf"), unsaved = dir.file("unsaved");
  EXPECT_RL_OK(rl_buffer_put_batch(host.buffer, host.batch, &err));
  EXPECT_RL_OK(rl_buffer_save(host.buffer, saved.data(), saved.size(), host.model, 0, &err));
  rl_buffer* empty = nullptr;
  EXPECT_RL_OK(rl_buffer_create(host.options, 16, &empty, &err));
  rl_model* model = nullptr;  // whose engine has a request
  rl_engine *started = nullptr, *held = nullptr, *asleep = nullptr;
  EXPECT_RL_OK(rl_model_open(host.runtime, host.options, RL_USE_GENERATE, &model, &err));
  EXPECT_RL_OK(rl_engine_create(model, nullptr, &started, &err));
  submit(started);
  EXPECT_RL_OK(rl_engine_step(started, &err));
  EXPECT_RL_OK(rl_engine_create(host.model, nullptr, &held, &err));
  submit(held);
  EXPECT_RL_OK(rl_engine_drain(held, 0, &err));  // its request waits for the end of the drain
  EXPECT_RL_OK(rl_engine_create(host.model, nullptr, &asleep, &err));
  EXPECT_RL_OK(rl_engine_sleep(asleep, 1, &err));
  const TrainerParts parts(host);
  set(host.options, "algo.advantage", "gae");
  rl_trainer *trainer = nullptr, *other = nullptr;
  EXPECT_RL_OK(rl_trainer_create(host.model, host.options, &other, &err));
  rl_pipeline* critic = nullptr;
  EXPECT_RL_OK(rl_pipeline_create(host.model, host.options, &critic, &err));
  EXPECT_RL_OK(rl_options_unset(host.options, "algo.advantage", kText, &err));
  set(host.options, "algo.policy_loss", "custom");
  EXPECT_RL_OK(rl_trainer_create(host.model, host.options, &trainer, &err));

  Beside beside;
  beside.calls = [&] {
    uint64_t number = 0;
    rl_request request;
    rl_request_init(&request, sizeof request);
    request.prompt = kPrompt;
    request.num_prompt = 3;
    EXPECT_EQ(rl_engine_submit(host.engine, &request, &number, nullptr), RL_BUSY);
    EXPECT_EQ(rl_conversation_generate(host.conversation, nullptr, nullptr), RL_BUSY);
    EXPECT_EQ(rl_engine_step(started, nullptr), RL_BUSY);
    EXPECT_EQ(rl_engine_run(started, nullptr), RL_BUSY);
    EXPECT_EQ(rl_engine_drain(started, -1, nullptr), RL_BUSY);
    EXPECT_EQ(rl_engine_sleep(started, 1, nullptr), RL_BUSY);
    EXPECT_EQ(rl_engine_wake(asleep, nullptr), RL_BUSY);
    EXPECT_EQ(rl_engine_unpause(held, nullptr), RL_BUSY);
    EXPECT_EQ(rl_model_digest(host.model, &number, nullptr), RL_BUSY);
    rl_machine machine;
    rl_machine_init(&machine, sizeof machine);
    EXPECT_EQ(rl_runtime_probe(host.runtime, &machine, nullptr), RL_BUSY);
    rl_plan* plan = nullptr;
    EXPECT_EQ(rl_plan_fit(host.runtime, host.options, RL_USE_TRAIN, nullptr, RL_KNOB_SPEED, nullptr,
                          &plan, nullptr),
              RL_BUSY);
    EXPECT_EQ(rl_model_save(host.model, unsaved.data(), unsaved.size(), RL_DTYPE_F32, 0, nullptr),
              RL_BUSY);
    EXPECT_EQ(rl_buffer_save(host.buffer, unsaved.data(), unsaved.size(), host.model, 0, nullptr),
              RL_BUSY);
    EXPECT_EQ(rl_buffer_load(empty, saved.data(), saved.size(), host.model, &number, nullptr),
              RL_BUSY);
    rl_tensor* tensor = nullptr;
    EXPECT_EQ(weight_of(host.model, "model.norm.weight", RL_TENSOR_COPY, &tensor, nullptr),
              RL_BUSY);
    EXPECT_EQ(forward(other, RL_OUTPUT_LOGPROBS, kPrompt, 3, 1, 1, &tensor, nullptr), RL_BUSY);
    rl_event* event = nullptr;
    EXPECT_EQ(train(other, host.batch, &event, nullptr), RL_BUSY);
    parts.expect_busy(unsaved);
    EXPECT_EQ(rl_trainer_publish(other, &number, nullptr), RL_BUSY);
    EXPECT_EQ(rl_trainer_sleep(other, nullptr), RL_BUSY);
    EXPECT_EQ(rl_trainer_wake(other, nullptr), RL_BUSY);
    EXPECT_EQ(
        rl_trainer_save_critic(other, unsaved.data(), unsaved.size(), RL_DTYPE_F32, 0, nullptr),
        RL_BUSY);
    EXPECT_EQ(
        rl_pipeline_save_critic(critic, unsaved.data(), unsaved.size(), RL_DTYPE_F32, 0, nullptr),
        RL_BUSY);
    rl_model* opened = nullptr;
    EXPECT_EQ(rl_model_open(host.runtime, nullptr, RL_USE_MODEL, &opened, nullptr), RL_BUSY);
    rl_trainer* created = nullptr;
    EXPECT_EQ(rl_trainer_create(host.model, nullptr, &created, nullptr), RL_BUSY);
    rl_pipeline* pipeline = nullptr;
    EXPECT_EQ(rl_pipeline_create(host.model, nullptr, &pipeline, nullptr), RL_BUSY);
    EXPECT_EQ(rl_pipeline_create_stored(host.model, nullptr, nullptr, &pipeline, nullptr), RL_BUSY);
    EXPECT_EQ(rl_pipeline_start(host.pipeline, nullptr), RL_BUSY);
  };
  const auto loss = [](void* user_data, const rl_algo_tokens*, const double*, double* value,
                       double*) {
    static_cast<Beside*>(user_data)->run();
    *value = 0;
    return int32_t{0};
  };
  EXPECT_RL_OK(rl_trainer_set_loss(trainer, loss, &beside, nullptr, &err));
  rl_event* event = nullptr;
  EXPECT_RL_OK(train(trainer, host.batch, &event, &err));
  EXPECT_EQ(beside.asked, 1);
  rl_event_release(event);
  for (rl_trainer* each : {trainer, other}) rl_trainer_destroy(each);
  rl_pipeline_destroy(critic);
  for (rl_engine* each : {started, held, asleep}) rl_engine_destroy(each);
  rl_model_destroy(model);
  rl_buffer_destroy(empty);
}

// A host that feeds one row and takes every event.
struct HostLoop {
  Host host;
  std::vector<uint64_t> samples = {};
  int dropped = 0;

  void start() {
    EXPECT_RL_OK(feed(host.pipeline, kPrompt, 3, &err));
    EXPECT_RL_OK(rl_pipeline_finish_feed(host.pipeline, &err));
    EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
  }
  rl_status next() {
    rl_event* event = nullptr;
    const rl_status status = rl_pipeline_next(host.pipeline, -1, &event, nullptr);
    if (rl_event_kind(event) == RL_EVENT_GROUP_DROPPED) ++dropped;
    if (rl_event_kind(event) == RL_EVENT_SCORE) {
      rl_sample_view sample;
      rl_sample_view_init(&sample, sizeof sample);
      EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
      samples.push_back(sample.sample_id);
    }
    rl_event_release(event);
    return status;
  }
};

TEST(Codes, OfScores) {
  HostLoop run;
  run.start();
  while (run.samples.size() < 2) ASSERT_EQ(run.next(), RL_OK);
  EXPECT_EQ(score(run.host.pipeline, run.samples[0], std::nan(""), nullptr), RL_NON_FINITE);
  rl_score failed = score_of(run.samples[0], 0);
  failed.failure = "no judge";
  failed.failure_len = kText;
  EXPECT_RL_OK(rl_pipeline_score(run.host.pipeline, &failed, 1, nullptr, &err));
  while (run.dropped == 0) ASSERT_EQ(run.next(), RL_OK);
  EXPECT_EQ(score(run.host.pipeline, run.samples[1], 1, nullptr), RL_LATE);
}

TEST(Codes, OfScoresThatAModelGives) {
  const Host host;
  const rl::TempDir dir;
  const std::string scorer = dir.file("scorer");
  rl_model* model = nullptr;
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  set(options, "model.path", RL_FIXTURES "/models/llama");
  set(options, "runtime.threads", "1");
  set(options, "algo.objective", "reward_model");
  EXPECT_RL_OK(rl_model_open(host.runtime, options, RL_USE_MODEL, &model, &err));
  EXPECT_RL_OK(rl_model_save(model, scorer.data(), scorer.size(), RL_DTYPE_F32, 0, &err));
  rl_model_destroy(model);
  rl_options_destroy(options);
  set(host.options, "model.reward_path", scorer);
  rl_pipeline* pipeline = nullptr;
  EXPECT_RL_OK(rl_model_open(host.runtime, host.options, RL_USE_PIPELINE, &model, &err));
  EXPECT_RL_OK(rl_pipeline_create(model, nullptr, &pipeline, &err));
  EXPECT_EQ(score(pipeline, 1, 1, nullptr), RL_FAILED_PRECONDITION);
  rl_pipeline_destroy(pipeline);
  rl_model_destroy(model);
}

TEST(Codes, OfAPipelineWhoseHostComputes) {
  const rl::TempDir dir;
  HostLoop run;
  rl_pipeline*& pipeline = run.host.pipeline;
  rl_pipeline_destroy(pipeline);
  set(run.host.options, "algo.advantage", "custom");
  set(run.host.options, "checkpoint.dir", dir.file("checkpoints"));
  EXPECT_RL_OK(rl_pipeline_create(run.host.model, run.host.options, &pipeline, &err));
  const auto equal = [](void* user_data, const rl_algo_tokens*, double*) {
    static_cast<Beside*>(user_data)->run();
    return int32_t{0};
  };
  Beside beside;
  beside.calls = [&] {
    rl_bytes* path = nullptr;
    EXPECT_EQ(rl_pipeline_checkpoint(pipeline, 0, &path, nullptr), RL_TIMEOUT);
    EXPECT_EQ(rl_pipeline_set_advantage(pipeline, equal, &beside, nullptr, nullptr),
              RL_FAILED_PRECONDITION);
    rl_request request;
    rl_request_init(&request, sizeof request);
    request.prompt = kPrompt;
    request.num_prompt = 3;
    uint64_t id = 0;
    EXPECT_EQ(rl_engine_submit(run.host.engine, &request, &id, nullptr), RL_BUSY);
    EXPECT_EQ(rl_pipeline_stop(pipeline, 0, nullptr), RL_TIMEOUT);
  };
  EXPECT_RL_OK(rl_pipeline_set_advantage(pipeline, equal, &beside, nullptr, &err));
  run.start();
  rl_status status = RL_OK;
  size_t scored = 0;
  while ((status = run.next()) == RL_OK) {
    for (; scored < run.samples.size(); ++scored) {
      EXPECT_RL_OK(score(pipeline, run.samples[scored], double(scored), &err));
    }
  }
  EXPECT_EQ(status, RL_DONE);
  EXPECT_EQ(beside.asked, 1);
  EXPECT_EQ(rl_pipeline_finish_feed(pipeline, nullptr), RL_FAILED_PRECONDITION);
}

}  // namespace
}  // namespace abi_test
