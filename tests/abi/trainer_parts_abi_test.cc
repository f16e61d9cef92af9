// A trainer and a model of a host's own loop through rl.h: a step in two halves over two runtimes,
// checkpoints, options between steps, cancel, and forwards without a trainer.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "host.h"

namespace abi_test {
namespace {

// A process of its own: runtime, model, trainer, and a batch of some groups of two samples.
class Process {
 public:
  Process(uint64_t first_group, uint64_t num_groups,
          const std::vector<std::pair<const char*, const char*>>& texts = {}) {
    EXPECT_RL_OK(rl_options_create(&options, &err));
    set(options, "model.path", RL_FIXTURES "/models/llama");
    set(options, "model.dtype", "fp32");
    set(options, "runtime.threads", "1");
    set(options, "engine.max_model_len", "64");
    set(options, "sampling.max_new_tokens", "4");
    set(options, "pipeline.samples_per_prompt", "2");
    set(options, "optimizer.lr", "1e-3");
    for (const auto& [key, text] : texts) set(options, key, text);
    EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
    EXPECT_RL_OK(rl_model_open(runtime, options, RL_USE_TRAIN, &model, &err));
    EXPECT_RL_OK(rl_trainer_create(model, options, &trainer, &err));
    fill(first_group, num_groups);
  }
  ~Process() {
    rl_batch_release(batch);
    rl_trainer_destroy(trainer);
    rl_model_destroy(model);
    rl_runtime_destroy(runtime);
    rl_options_destroy(options);
  }
  Process(const Process&) = delete;

  rl_step step_of(uint64_t total_tokens = 0, uint64_t total_sequences = 0) const {
    rl_step step;
    rl_step_init(&step, sizeof step);
    step.batch = batch;
    step.total_tokens = total_tokens;
    step.total_sequences = total_sequences;
    return step;
  }
  rl_status backward(uint64_t total_tokens, uint64_t total_sequences, rl_error** err) const {
    const rl_step step = step_of(total_tokens, total_sequences);
    return rl_trainer_backward(trainer, &step, err);
  }
  // Where the gradients of a weight are, or all of them.
  std::pair<float*, size_t> gradients(const char* name = "") const {
    rl_tensor* tensor = nullptr;
    rl_tensor_info info;
    rl_tensor_info_init(&info, sizeof info);
    EXPECT_RL_OK(rl_trainer_gradient(trainer, name, RL_NUL_TERMINATED, nullptr, &tensor, &err));
    EXPECT_RL_OK(rl_tensor_get_info(tensor, &info, &err));
    EXPECT_EQ(info.dtype, RL_DTYPE_F32);
    EXPECT_EQ(info.read_only, 0u);
    rl_tensor_release(tensor);
    return {static_cast<float*>(info.data), info.num_elements};
  }
  void apply() const {
    rl_event* event = nullptr;
    EXPECT_RL_OK(rl_trainer_apply(trainer, &event, &err));
    EXPECT_EQ(rl_event_kind(event), RL_EVENT_STEP);
    rl_event_release(event);
  }
  void train() const {
    rl_event* event = nullptr;
    EXPECT_RL_OK(abi_test::train(trainer, batch, &event, &err));
    rl_event_release(event);
  }
  uint64_t digest() const {
    uint64_t out = 0;
    EXPECT_RL_OK(rl_model_digest(model, &out, &err));
    return out;
  }
  std::vector<float> weights() const {
    std::vector<float> all;
    for (size_t i = 0; i < rl_model_weight_count(model); ++i) {
      const char* name = nullptr;
      rl_tensor* tensor = nullptr;
      rl_tensor_info info;
      rl_tensor_info_init(&info, sizeof info);
      EXPECT_RL_OK(rl_model_weight_name(model, i, &name, &err));
      EXPECT_RL_OK(weight_of(model, name, RL_TENSOR_COPY, &tensor, &err));
      EXPECT_RL_OK(rl_tensor_get_info(tensor, &info, &err));
      const auto* values = static_cast<const float*>(info.data);
      all.insert(all.end(), values, values + info.num_elements);
      rl_tensor_release(tensor);
    }
    return all;
  }

  rl_options* options = nullptr;
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_trainer* trainer = nullptr;
  rl_batch* batch = nullptr;

 private:
  // Responses of five and four tokens, of which one carries no loss, and no log-probs.
  void fill(uint64_t first_group, uint64_t num_groups) {
    static const uint8_t mask[] = {1, 0, 1, 1, 1};
    rl_buffer* buffer = nullptr;
    EXPECT_RL_OK(rl_buffer_create(options, 64, &buffer, &err));
    for (uint64_t group = first_group; group < first_group + num_groups; ++group) {
      for (uint32_t slot = 0; slot < 2; ++slot) {
        std::vector<int32_t> ids = {1, 2, 3};
        for (int32_t i = 0; i < 5 - static_cast<int32_t>(slot); ++i) {
          ids.push_back(static_cast<int32_t>(10 + 17 * group + 7 * slot) + 3 * i);
        }
        rl_sample_view sample;
        rl_sample_view_init(&sample, sizeof sample);
        sample.sample_id = 100 * group + slot + 1;
        sample.ordinal = group;
        sample.slot = slot;
        sample.ids = ids.data();
        sample.num_ids = ids.size();
        sample.num_prompt = 3;
        sample.loss_mask = mask;
        sample.scored = 1;
        sample.reward = slot + 0.5 * static_cast<double>(group);
        EXPECT_RL_OK(rl_buffer_put(buffer, &sample, &err));
      }
    }
    EXPECT_RL_OK(take_groups(buffer, num_groups, &batch, &err));
    rl_buffer_destroy(buffer);
  }
};

// Counts of four groups as above.
constexpr uint64_t kTokens = 4 * (4 + 3), kSequences = 8;

// What differs is the order of the sums over samples.
TEST(AbiGradients, TwoRuntimesThatAddThemTrainAsOneOnTheWholeBatch) {
  const Process whole(0, 4), left(0, 2), right(2, 2);
  for (int step = 0; step < 3; ++step) {
    whole.train();
    EXPECT_RL_OK(left.backward(kTokens, kSequences, &err));
    EXPECT_RL_OK(right.backward(kTokens, kSequences, &err));
    const auto [a, count] = left.gradients();
    const auto [b, same] = right.gradients();
    ASSERT_EQ(count, same);
    for (size_t i = 0; i < count; ++i) a[i] = b[i] = a[i] + b[i];
    left.apply();
    right.apply();
  }
  const std::vector<float> one = whole.weights(), two = left.weights();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    difference += (double{one[i]} - two[i]) * (double{one[i]} - two[i]);
    norm += double{one[i]} * one[i];
  }
  EXPECT_LE(std::sqrt(difference / norm), 1e-6);
  EXPECT_EQ(left.digest(), right.digest());
  EXPECT_NE(whole.digest(), Process(0, 1).digest()) << "the steps changed the weights";
  uint64_t version = 0;
  EXPECT_RL_OK(rl_model_version(left.model, &version, &err));
  EXPECT_EQ(version, 3u);
}

TEST(AbiGradients, OfTheWholeBatchMakeTheStepBitForBit) {
  const Process step(0, 2), halves(0, 2);
  step.train();
  EXPECT_RL_OK(halves.backward(0, 0, &err));
  const auto [norm, count] = halves.gradients("model.norm.weight");
  EXPECT_EQ(count, 64u);
  const auto [all, num_all] = halves.gradients();
  EXPECT_GE(norm, all);
  EXPECT_LE(norm + count, all + num_all);
  halves.apply();
  EXPECT_EQ(step.digest(), halves.digest());
}

TEST(AbiGradients, AreNamedWhenThereAreNone) {
  const Process p(0, 2);
  rl_tensor* tensor = nullptr;
  rl_event* event = nullptr;
  const auto refused = [](rl_status expected, const char* key, auto&& call) {
    rl_error* err = nullptr;
    EXPECT_EQ(call(&err), expected) << text_of(err, RL_ERROR_SUMMARY);
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key);
    rl_error_release(err);
  };
  const auto gradient = [&](const char* name) {
    return [&, name](rl_error** err) {
      return rl_trainer_gradient(p.trainer, name, RL_NUL_TERMINATED, nullptr, &tensor, err);
    };
  };
  refused(RL_FAILED_PRECONDITION, "", gradient(""));
  refused(RL_FAILED_PRECONDITION, "",
          [&](rl_error** err) { return rl_trainer_apply(p.trainer, &event, err); });
  EXPECT_RL_OK(p.backward(0, 0, &err));
  refused(RL_NOT_FOUND, "name", gradient("model.norm.weights"));
  refused(RL_UNSUPPORTED, "request.device", [&](rl_error** err) {
    rl_tensor_request request;
    rl_tensor_request_init(&request, sizeof request);
    request.device = 2;
    return rl_trainer_gradient(p.trainer, "", 0, &request, &tensor, err);
  });
  refused(RL_OUT_OF_RANGE, "step.total_tokens",
          [&](rl_error** err) { return p.backward(1, 100, err); });
  refused(RL_OUT_OF_RANGE, "step.total_sequences",
          [&](rl_error** err) { return p.backward(100, 1, err); });
  refused(RL_INVALID_ARGUMENT, "step.total_tokens", [&](rl_error** err) {
    const rl_step step = p.step_of(100, 0);
    return rl_trainer_step(p.trainer, &step, &event, err);
  });
  refused(RL_INVALID_ARGUMENT, "step.total_sequences", [&](rl_error** err) {
    const rl_step step = p.step_of(0, 100);
    return rl_trainer_step(p.trainer, &step, &event, err);
  });
  const Process critic(0, 2, {{"algo.advantage", "gae"}});
  refused(RL_UNSUPPORTED, "algo.advantage",
          [&](rl_error** err) { return critic.backward(0, 0, err); });
  const Process epochs(0, 2, {{"trainer.epochs", "2"}});
  refused(RL_CONFLICT, "trainer.epochs",
          [&](rl_error** err) { return epochs.backward(0, 0, err); });
}

TEST(AbiGradients, ACopyIsTheHostsOwn) {
  const Process p(0, 2), other(0, 2);
  EXPECT_RL_OK(p.backward(0, 0, &err));
  EXPECT_RL_OK(other.backward(0, 0, &err));
  rl_tensor_request request;
  rl_tensor_request_init(&request, sizeof request);
  request.flags = RL_TENSOR_COPY;
  rl_tensor* copy = nullptr;
  rl_tensor_info info;
  rl_tensor_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_trainer_gradient(p.trainer, "", 0, &request, &copy, &err));
  EXPECT_RL_OK(rl_tensor_get_info(copy, &info, &err));
  EXPECT_NE(info.data, p.gradients().first);
  static_cast<float*>(info.data)[0] += 1;
  p.apply();
  other.apply();
  EXPECT_EQ(p.digest(), other.digest());
  rl_tensor_release(copy);
}

std::string take(rl_bytes* bytes) {
  std::string text(static_cast<const char*>(rl_bytes_data(bytes)), rl_bytes_size(bytes));
  rl_bytes_release(bytes);
  return text;
}

rl_status save(rl_trainer* trainer, const std::string& dir, const std::string& state,
               uint64_t flags, rl_bytes** path, rl_error** err) {
  rl_checkpoint checkpoint;
  rl_checkpoint_init(&checkpoint, sizeof checkpoint);
  checkpoint.dir = dir.c_str();
  checkpoint.state = state.data();
  checkpoint.state_len = state.size();
  checkpoint.flags = flags;
  return rl_trainer_save(trainer, &checkpoint, path, err);
}

TEST(AbiCheckpoints, ATrainerGoesOnBitForBit) {
  const std::string dir = RL_TEST_OUTPUT "/trainer_checkpoints";
  std::filesystem::remove_all(dir);
  const Process p(0, 2), resumed(0, 2);
  p.train();
  p.train();
  rl_bytes *path = nullptr, *state = nullptr;
  EXPECT_RL_OK(save(p.trainer, dir, "row 17", 0, &path, &err));
  const std::string saved = take(path);
  EXPECT_EQ(saved, dir + "/step_000002");
  EXPECT_EQ(save(p.trainer, dir, "", 0, &path, nullptr), RL_ALREADY_EXISTS);
  EXPECT_EQ(path, nullptr);
  EXPECT_RL_OK(save(p.trainer, dir, "row 18", RL_SAVE_REPLACE, &path, &err));
  rl_bytes_release(path);
  EXPECT_RL_OK(rl_trainer_load(resumed.trainer, dir.c_str(), dir.size(), &state, &err));
  EXPECT_EQ(take(state), "row 18");
  EXPECT_EQ(resumed.digest(), p.digest());
  p.train();
  resumed.train();
  EXPECT_EQ(resumed.digest(), p.digest());
  // Of other options, damaged, and none.
  const Process other(0, 2, {{"optimizer.beta1", "0.8"}});
  rl_error* refused = nullptr;
  EXPECT_EQ(rl_trainer_load(other.trainer, saved.c_str(), saved.size(), &state, &refused),
            RL_INCOMPATIBLE);
  EXPECT_EQ(text_of(refused, RL_ERROR_KEY), "optimizer.beta1");
  EXPECT_EQ(text_of(refused, RL_ERROR_EXPECTED), get_text(p.options, "optimizer.beta1"));
  rl_error_release(refused);
  EXPECT_EQ(rl_trainer_load(p.trainer, "/nowhere", RL_NUL_TERMINATED, &state, nullptr),
            RL_NOT_FOUND);
  std::filesystem::resize_file(saved + "/masters.safetensors", 100);
  EXPECT_EQ(rl_trainer_load(p.trainer, saved.c_str(), saved.size(), &state, nullptr), RL_DATA_LOSS);
  EXPECT_EQ(state, nullptr);
  std::filesystem::remove_all(dir);
}

TEST(AbiCheckpoints, NameTheFieldThatIsWrong) {
  const Process p(0, 2);
  const auto refused = [&](const char* key, auto&& spoil) {
    rl_checkpoint checkpoint;
    rl_checkpoint_init(&checkpoint, sizeof checkpoint);
    checkpoint.dir = RL_TEST_OUTPUT "/none";
    spoil(checkpoint);
    rl_bytes* path = nullptr;
    rl_error* err = nullptr;
    EXPECT_EQ(rl_trainer_save(p.trainer, &checkpoint, &path, &err), RL_INVALID_ARGUMENT);
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key);
    rl_error_release(err);
  };
  refused("checkpoint.dir", [](rl_checkpoint& c) { c.dir_len = 0; });
  refused("checkpoint.dir", [](rl_checkpoint& c) { c.dir = nullptr; });
  refused("checkpoint.state", [](rl_checkpoint& c) { c.state_len = 1; });
  refused("checkpoint.keep_last", [](rl_checkpoint& c) { c.keep_last = UINT64_MAX; });
  refused("checkpoint.flags", [](rl_checkpoint& c) { c.flags = 2; });
}

// A byte below 32 has six in JSON.
TEST(AbiCheckpoints, AStateThatCouldNotBeLoadedIsNotSaved) {
  const std::string dir = RL_TEST_OUTPUT "/too_long_states";
  std::filesystem::remove_all(dir);
  const Process p(0, 2);
  rl_bytes* path = nullptr;
  rl_error* refused = nullptr;
  EXPECT_EQ(save(p.trainer, dir, std::string(12 << 20, '\1'), 0, &path, &refused), RL_OUT_OF_RANGE);
  EXPECT_EQ(path, nullptr);
  EXPECT_EQ(text_of(refused, RL_ERROR_KEY), "checkpoint.state");
  rl_error_release(refused);
  EXPECT_FALSE(std::filesystem::exists(dir));
}

TEST(AbiTrainerSleep, KeepsStatesAndHeldGradients) {
  const Process awake(0, 2), sleeps(0, 2);
  awake.train();
  awake.train();
  sleeps.train();
  EXPECT_RL_OK(sleeps.backward(0, 0, &err));
  EXPECT_RL_OK(rl_trainer_sleep(sleeps.trainer, &err));
  EXPECT_RL_OK(rl_trainer_sleep(sleeps.trainer, &err));
  rl_event* event = nullptr;
  rl_bytes* bytes = nullptr;
  rl_tensor* tensor = nullptr;
  EXPECT_EQ(train(sleeps.trainer, sleeps.batch, &event, nullptr), RL_FAILED_PRECONDITION);
  EXPECT_EQ(rl_trainer_apply(sleeps.trainer, &event, nullptr), RL_FAILED_PRECONDITION);
  EXPECT_EQ(rl_trainer_gradient(sleeps.trainer, "", 0, nullptr, &tensor, nullptr),
            RL_FAILED_PRECONDITION);
  EXPECT_EQ(save(sleeps.trainer, RL_TEST_OUTPUT "/none", "", 0, &bytes, nullptr),
            RL_FAILED_PRECONDITION);
  EXPECT_EQ(rl_trainer_load(sleeps.trainer, "/nowhere", RL_NUL_TERMINATED, &bytes, nullptr),
            RL_FAILED_PRECONDITION);
  EXPECT_RL_OK(rl_trainer_wake(sleeps.trainer, &err));
  EXPECT_RL_OK(rl_trainer_wake(sleeps.trainer, &err));
  sleeps.apply();
  EXPECT_EQ(sleeps.digest(), awake.digest());
}

TEST(AbiTrainerOptions, ChangeBetweenSteps) {
  const Process changed(0, 2), slower(0, 2, {{"optimizer.lr", "1e-4"}});
  set(changed.options, "optimizer.lr", "1e-4");
  EXPECT_RL_OK(rl_trainer_set_options(changed.trainer, changed.options, &err));
  changed.train();
  slower.train();
  EXPECT_EQ(changed.digest(), slower.digest());
  set(changed.options, "trainer.logprob_chunk_tokens", "7");
  set(changed.options, "optimizer.lr", "1");
  rl_error* err = nullptr;
  EXPECT_EQ(rl_trainer_set_options(changed.trainer, changed.options, &err), RL_NOT_CHANGEABLE);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "trainer.logprob_chunk_tokens");
  rl_error_release(err);
  changed.train();
  slower.train();
  EXPECT_EQ(changed.digest(), slower.digest());
}

// The host's loss is called on the thread that steps, and waits until the other thread cancelled.
TEST(AbiTrainerCancel, EndsAStepOfAnotherThread) {
  const Process p(0, 2, {{"algo.policy_loss", "custom"}, {"trainer.num_minibatches", "2"}});
  struct Host {
    std::atomic<int> calls{0};
    std::atomic<bool> cancelled{false};
  } host;
  const auto loss = [](void* user_data, const rl_algo_tokens*, const double*, double* value,
                       double*) {
    auto& h = *static_cast<Host*>(user_data);
    ++h.calls;
    while (!h.cancelled) std::this_thread::yield();
    *value = 0;
    return int32_t{0};
  };
  EXPECT_RL_OK(rl_trainer_set_loss(p.trainer, loss, &host, nullptr, &err));
  EXPECT_RL_OK(rl_trainer_cancel(p.trainer, &err));
  rl_event* event = nullptr;
  rl_status status = RL_OK;
  std::atomic<bool> ended{false};
  std::thread trains([&] {
    status = train(p.trainer, p.batch, &event, nullptr);
    ended = true;
  });
  while (host.calls == 0 && !ended) std::this_thread::yield();
  EXPECT_RL_OK(rl_trainer_cancel(p.trainer, &err));
  host.cancelled = true;
  trains.join();
  EXPECT_EQ(status, RL_CANCELLED);
  EXPECT_EQ(event, nullptr);
  EXPECT_EQ(host.calls, 1);
  // The first of two optimizer steps was made.
  EXPECT_EQ(train(p.trainer, p.batch, &event, nullptr), RL_FAILED_PRECONDITION);
  EXPECT_EQ(p.backward(0, 0, nullptr), RL_FAILED_PRECONDITION);
  rl_bytes* path = nullptr;
  EXPECT_EQ(save(p.trainer, RL_TEST_OUTPUT "/none", "", 0, &path, nullptr), RL_FAILED_PRECONDITION);
  uint64_t version = 0;
  EXPECT_RL_OK(rl_trainer_publish(p.trainer, &version, &err));
  EXPECT_EQ(version, 1u);
  p.train();
}

// While a step computes, which ends only after that.
TEST(AbiTrainerCancel, EndsTheWaitOfABackward) {
  const Process p(0, 2, {{"algo.policy_loss", "custom"}, {"runtime.busy_timeout_ns", "1h"}});
  struct Waiting {
    const Process& process;
    rl_trainer* trainer = nullptr;
    rl_status status = RL_OK;

    void run() {
      std::atomic<bool> ended{false};
      std::thread backward([&] {
        const rl_step step = process.step_of();
        status = rl_trainer_backward(trainer, &step, nullptr);
        ended = true;
      });
      while (!ended) {
        EXPECT_RL_OK(rl_trainer_cancel(trainer, &err));
        std::this_thread::yield();
      }
      backward.join();
    }
  } waiting{p};
  EXPECT_RL_OK(rl_trainer_create(p.model, p.options, &waiting.trainer, &err));
  const auto loss = [](void* user_data, const rl_algo_tokens*, const double*, double* value,
                       double*) {
    std::thread([&] { static_cast<Waiting*>(user_data)->run(); }).join();
    *value = 0;
    return int32_t{0};
  };
  EXPECT_RL_OK(rl_trainer_set_loss(p.trainer, loss, &waiting, nullptr, &err));
  p.train();
  EXPECT_EQ(waiting.status, RL_CANCELLED);
  rl_trainer_destroy(waiting.trainer);
}

TEST(AbiForward, NeedsNoTrainer) {
  const Process p(0, 2);
  rl_model* served = nullptr;
  EXPECT_RL_OK(rl_model_open(p.runtime, p.options, RL_USE_FORWARD, &served, &err));
  const uint64_t rows[] = {29, 0, 4};
  for (int32_t output = RL_OUTPUT_LOGPROBS; output <= RL_OUTPUT_LOGITS; ++output) {
    SCOPED_TRACE(output);
    rl_forward input;
    rl_forward_init(&input, sizeof input);
    input.output = output;
    input.batch = p.batch;
    const bool of_rows = output == RL_OUTPUT_HIDDEN || output == RL_OUTPUT_LOGITS;
    if (of_rows) {
      input.rows = rows;
      input.num_rows = 3;
    }
    const rl_status expected =
        output == RL_OUTPUT_SCORES || output == RL_OUTPUT_VALUES ? RL_FAILED_PRECONDITION : RL_OK;
    rl_tensor *a = nullptr, *b = nullptr;
    EXPECT_EQ(rl_trainer_forward(p.trainer, &input, &a, nullptr), expected);
    EXPECT_EQ(rl_model_forward(served, &input, &b, nullptr), expected);
    if (expected != RL_OK) continue;
    rl_tensor_info x, y;
    rl_tensor_info_init(&x, sizeof x);
    rl_tensor_info_init(&y, sizeof y);
    EXPECT_RL_OK(rl_tensor_get_info(a, &x, &err));
    EXPECT_RL_OK(rl_tensor_get_info(b, &y, &err));
    ASSERT_EQ(x.num_elements, y.num_elements);
    EXPECT_EQ(x.shape[0], of_rows ? 3 : 18);
    EXPECT_EQ(std::memcmp(x.data, y.data, x.num_elements * sizeof(float)), 0);
    rl_tensor_release(a);
    rl_tensor_release(b);
  }
  rl_forward input;
  rl_forward_init(&input, sizeof input);
  input.batch = p.batch;
  rl_tensor* none = nullptr;
  rl_error* err = nullptr;
  EXPECT_EQ(rl_model_forward(p.model, &input, &none, &err), RL_FAILED_PRECONDITION);
  EXPECT_EQ(text_of(err, RL_ERROR_EXPECTED), "RL_USE_FORWARD");
  rl_error_release(err);
  rl_model_destroy(served);
}

}  // namespace
}  // namespace abi_test
