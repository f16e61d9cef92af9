// Where tensors come from and where they go: weights, arrays of samples, hidden states, and
// weights set from a host's tensors.
#include <cmath>
#include <limits>
#include <vector>

#include "abi/dlpack_host.h"
#include "abi/host.h"

namespace abi_test {
namespace {

constexpr const char* kNorm = "model.norm.weight";
constexpr const char* kHead = "lm_head.weight";

class Tensors : public ::testing::Test {
 protected:
  ~Tensors() override {
    for (rl_tensor* tensor : made_) rl_tensor_release(tensor);
  }
  rl_tensor_info info_of(const rl_tensor* tensor) {
    rl_tensor_info info;
    rl_tensor_info_init(&info, sizeof info);
    EXPECT_RL_OK(rl_tensor_get_info(tensor, &info, &err));
    return info;
  }
  rl_tensor* keep(rl_tensor* tensor) { return made_.emplace_back(tensor); }
  rl_tensor* weight(const char* name, uint64_t flags = 0) {
    rl_tensor* tensor = nullptr;
    EXPECT_RL_OK(weight_of(host_.model, name, flags, &tensor, &err));
    return keep(tensor);
  }
  Producer& produce(std::vector<int64_t> shape, std::vector<float> values = {}) {
    producers_.push_back(std::make_unique<Producer>(std::move(shape), std::move(values)));
    return *producers_.back();
  }
  rl_tensor* import(Producer& producer) {
    rl_tensor* tensor = nullptr;
    EXPECT_RL_OK(
        rl_tensor_import_dlpack(host_.runtime, &producer.managed, nullptr, 0, &tensor, &err));
    return keep(tensor);
  }
  std::vector<float> values_of(const rl_tensor* tensor) {
    const rl_tensor_info info = info_of(tensor);
    const auto* const data = static_cast<const float*>(info.data);
    return {data, data + info.num_elements};
  }
  uint64_t digest() {
    uint64_t digest = 0;
    EXPECT_RL_OK(rl_model_digest(host_.model, &digest, &err));
    return digest;
  }
  // Refused with the weight as key; nothing changes.
  void expect_refused(const std::vector<const char*>& names, const std::vector<rl_tensor*>& tensors,
                      rl_status expected, const std::string& key) {
    const uint64_t before = digest();
    uint64_t version = 9;
    rl_error* err = nullptr;
    EXPECT_EQ(set_weights(host_.model, names, tensors, &version, &err), expected)
        << text_of(err, RL_ERROR_SUMMARY);
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key);
    EXPECT_EQ(version, 0u);
    EXPECT_EQ(digest(), before);
    rl_error_release(err);
  }

  Host host_;
  std::vector<rl_tensor*> made_;
  std::vector<std::unique_ptr<Producer>> producers_;  // which outlive them
};

TEST_F(Tensors, EveryWeightIsLentByItsName) {
  const size_t count = rl_model_weight_count(host_.model);
  ASSERT_EQ(count, 21u);  // nine for each of two layers, embedding, norm and head
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    EXPECT_RL_OK(rl_model_weight_name(host_.model, i, &name, &err));
    const rl_tensor_info info = info_of(weight(name));
    EXPECT_EQ(info.dtype, RL_DTYPE_F32);
    EXPECT_EQ(info.read_only, 1u);
    total += info.num_elements;
  }
  EXPECT_EQ(total, 2u * (2 * 64 + 64 * 64 * 2 + 2 * 32 * 64 + 3 * 96 * 64) + 2 * 256 * 64 + 64);
  const char* name = nullptr;
  EXPECT_EQ(rl_model_weight_name(host_.model, count, &name, nullptr), RL_OUT_OF_RANGE);
  rl_tensor* none = nullptr;
  rl_error* err = nullptr;
  EXPECT_EQ(weight_of(host_.model, "model.norm.weigth", 0, &none, &err), RL_NOT_FOUND);
  EXPECT_STREQ(rl_error_nearest(err, 0), kNorm);
  rl_error_release(err);
}

TEST_F(Tensors, ALentWeightShowsTheNextStepAndACopyDoesNot) {
  rl_tensor *const lent = weight(kHead), *const copy = weight(kHead, RL_TENSOR_COPY);
  const void* const address = info_of(lent).data;
  EXPECT_NE(info_of(copy).data, address);
  EXPECT_EQ(info_of(copy).read_only, 0u);
  const std::vector<float> before = values_of(lent);
  EXPECT_EQ(values_of(copy), before);
  rl_event_release(host_.event);
  host_.train();
  EXPECT_EQ(info_of(lent).data, address);
  EXPECT_NE(values_of(lent), before);
  EXPECT_EQ(values_of(copy), before);
}

TEST_F(Tensors, ArraysOfASampleOutliveTheBatchAndTheModel) {
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_batch_sample(host_.batch, 1, &view, &err));
  const auto take = [&](int32_t array) {
    rl_tensor* tensor = nullptr;
    EXPECT_RL_OK(rl_batch_tensor(host_.batch, 1, array, nullptr, &tensor, &err));
    return keep(tensor);
  };
  rl_tensor *const ids = take(RL_SAMPLE_IDS), *const logprobs = take(RL_SAMPLE_LOGPROBS);
  EXPECT_EQ(info_of(ids).data, view.ids);
  EXPECT_EQ(info_of(ids).dtype, RL_DTYPE_I32);
  EXPECT_EQ(info_of(ids).num_elements, view.num_ids);
  EXPECT_EQ(info_of(logprobs).data, view.logprobs);
  EXPECT_EQ(info_of(logprobs).read_only, 1u);
  EXPECT_EQ(info_of(take(RL_SAMPLE_LOGPROBS_SAMPLED)).data, view.logprobs_sampled);
  const std::vector<float> before = values_of(logprobs);
  rl_tensor* none = nullptr;
  EXPECT_EQ(rl_batch_tensor(host_.batch, 1, RL_SAMPLE_TOP_IDS, nullptr, &none, nullptr),
            RL_NOT_FOUND);
  EXPECT_EQ(rl_batch_tensor(host_.batch, 1, 6, nullptr, &none, nullptr), RL_INVALID_ARGUMENT);
  EXPECT_EQ(rl_batch_tensor(host_.batch, 2, RL_SAMPLE_IDS, nullptr, &none, nullptr),
            RL_OUT_OF_RANGE);
  const auto refused = [&](rl_status status, const char* key, auto&& spoil) {
    rl_tensor_request request;
    rl_tensor_request_init(&request, sizeof request);
    spoil(request);
    rl_error* err = nullptr;
    EXPECT_EQ(rl_batch_tensor(host_.batch, 1, RL_SAMPLE_IDS, &request, &none, &err), status);
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key);
    rl_error_release(err);
  };
  refused(RL_UNSUPPORTED, "request.device", [](auto& r) { r.device = 2; });
  refused(RL_UNSUPPORTED, "request.device", [](auto& r) { r.device_index = 1; });
  refused(RL_UNSUPPORTED, "request.stream", [](auto& r) { r.stream = &r; });
  refused(RL_INVALID_ARGUMENT, "request.flags", [](auto& r) { r.flags = 2; });
  rl_tensor_request copy;
  rl_tensor_request_init(&copy, sizeof copy);
  copy.flags = RL_TENSOR_COPY;
  rl_tensor* own = nullptr;
  EXPECT_RL_OK(rl_batch_tensor(host_.batch, 1, RL_SAMPLE_IDS, &copy, &own, &err));
  EXPECT_EQ(info_of(keep(own)).read_only, 0u);
  host_.end();
  EXPECT_EQ(values_of(logprobs), before);
}

TEST_F(Tensors, TopArraysHaveARowForEachToken) {
  rl_batch_release(host_.batch);
  set(host_.options, "sampling.logprobs", "3");
  rl_engine_destroy(host_.engine);
  EXPECT_RL_OK(rl_engine_create(host_.model, host_.options, &host_.engine, &err));
  host_.generate();
  rl_tensor* top = nullptr;
  EXPECT_RL_OK(rl_batch_tensor(host_.batch, 0, RL_SAMPLE_TOP_LOGPROBS, nullptr, &top, &err));
  const rl_tensor_info info = info_of(keep(top));
  ASSERT_EQ(info.num_dims, 2u);
  EXPECT_EQ(info.shape[1], 3);
  EXPECT_GE(static_cast<const float*>(info.data)[0], static_cast<const float*>(info.data)[1]);
}

TEST_F(Tensors, SetWeightsAreThoseThatTheModelComputesWith) {
  // The head doubled, as bf16 and from memory in columns: logits are twice as large.
  const rl_tensor_info head = info_of(weight(kHead));
  const int64_t rows = head.shape[0], cols = head.shape[1];
  const std::vector<float> old = values_of(weight(kHead));
  std::vector<uint16_t> columns(old.size());
  std::vector<float> expected(old.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      uint32_t bits = 0;
      const float doubled = 2 * old[static_cast<size_t>(r * cols + c)];
      std::memcpy(&bits, &doubled, sizeof bits);
      bits &= 0xffff0000u;
      columns[static_cast<size_t>(c * rows + r)] = static_cast<uint16_t>(bits >> 16);
      std::memcpy(&expected[static_cast<size_t>(r * cols + c)], &bits, sizeof bits);
    }
  }
  Producer& producer = produce({rows, cols});
  producer.strides = {1, rows};
  producer.managed.t.strides = producer.strides.data();
  producer.managed.t.data = columns.data();
  producer.managed.t.code = 4;
  producer.managed.t.bits = 16;
  const int32_t ids[] = {1, 2, 3, 4};
  float before[2], after[2];
  EXPECT_RL_OK(logprobs_of(host_.trainer, ids, 4, 2, 1, before, 2, &err));
  rl_tensor* const values = import(producer);
  uint64_t version = 0, was = 0;
  EXPECT_RL_OK(rl_model_version(host_.model, &was, &err));
  EXPECT_RL_OK(set_weights(host_.model, {kHead}, {values}, &version, &err));
  EXPECT_EQ(version, was + 1);
  EXPECT_EQ(values_of(weight(kHead)), expected);
  EXPECT_EQ(producer.deleted, 0) << "the handle has it still";
  EXPECT_RL_OK(logprobs_of(host_.trainer, ids, 4, 2, 1, after, 2, &err));
  EXPECT_NE(after[0], before[0]);
  // Sampling and training agree under the new weights.
  rl_batch_release(host_.batch);
  host_.generate();
  rl_event_release(host_.event);
  host_.train();
  double difference = -1;
  EXPECT_RL_OK(rl_event_metric_named(host_.event, "training/logprob_max_abs_diff",
                                     RL_NUL_TERMINATED, &difference, &err));
  EXPECT_EQ(difference, 0);
}

// The weights that are set are neither those of the trainer's first step nor those of its last one:
// a packed form that is older than they are shows.
TEST_F(Tensors, TheStepAfterSettingWeightsIsThatOfThoseWeights) {
  set(host_.options, "optimizer.lr", "0.05");  // weights of another step are far away
  const auto new_trainer = [&] {
    rl_trainer* trainer = nullptr;
    EXPECT_RL_OK(rl_trainer_create(host_.model, host_.options, &trainer, &err));
    return trainer;
  };
  const auto norm_of_a_step = [&](rl_trainer* trainer) {
    rl_event* event = nullptr;
    double norm = 0;
    EXPECT_RL_OK(train(trainer, host_.batch, &event, &err));
    EXPECT_RL_OK(rl_event_metric_named(event, "actor/grad_norm", RL_NUL_TERMINATED, &norm, &err));
    rl_event_release(event);
    return norm;
  };
  rl_trainer* const used = new_trainer();
  norm_of_a_step(used);
  std::vector<rl_tensor*> wanted;
  std::vector<const char*> names(rl_model_weight_count(host_.model));
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_RL_OK(rl_model_weight_name(host_.model, i, &names[i], &err));
    wanted.push_back(weight(names[i], RL_TENSOR_COPY));
  }
  const auto set_wanted = [&] {
    uint64_t version = 0;
    EXPECT_RL_OK(set_weights(host_.model, names, wanted, &version, &err));
  };
  for (int step = 0; step < 2; ++step) norm_of_a_step(used);
  set_wanted();
  const double after_use = norm_of_a_step(used);
  rl_trainer_destroy(used);
  set_wanted();
  rl_trainer* const fresh = new_trainer();
  const double expected = norm_of_a_step(fresh);
  rl_trainer_destroy(fresh);
  EXPECT_GT(expected, 0);
  EXPECT_EQ(after_use, expected);
}

// The fixture's pipeline was made before they were set; without prompts it waits for a feed.
TEST_F(Tensors, APipelineThatStartsHasTheVersionOfTheWeightsThatWereSet) {
  uint64_t version = 0;
  EXPECT_RL_OK(set_weights(host_.model, {kNorm}, {host_.tensor}, &version, &err));
  EXPECT_RL_OK(rl_pipeline_start(host_.pipeline, &err));
  rl_pipeline_stats stats;
  rl_pipeline_stats_init(&stats, sizeof stats);
  EXPECT_RL_OK(rl_pipeline_get_stats(host_.pipeline, &stats, &err));
  EXPECT_EQ(stats.version, version);
}

TEST_F(Tensors, WeightsThatDoNotFitChangeNothing) {
  rl_tensor* const norm = weight(kNorm, RL_TENSOR_COPY);
  rl_tensor* const head = weight(kHead, RL_TENSOR_COPY);
  expect_refused({kNorm, "none"}, {norm, norm}, RL_NOT_FOUND, "none");
  expect_refused({kNorm, kNorm}, {norm, norm}, RL_DUPLICATE, kNorm);
  expect_refused({kNorm, kHead}, {norm, norm}, RL_INCOMPATIBLE, kHead);
  expect_refused({kNorm, kHead}, {norm, weight(kHead)}, RL_CONFLICT, kHead);
  Producer& integers = produce({64}, std::vector<float>(64, 1));
  integers.managed.t.code = 0;
  expect_refused({kHead, kNorm}, {head, import(integers)}, RL_WRONG_TYPE, kNorm);
  Producer& broken = produce({64}, std::vector<float>(64, 1));
  broken.values[63] = std::numeric_limits<float>::infinity();
  expect_refused({kHead, kNorm}, {head, import(broken)}, RL_NON_FINITE, kNorm);
  expect_refused({}, {}, RL_INVALID_ARGUMENT, "num_weights");
  rl_tensor* const ended = weight(kNorm, RL_TENSOR_COPY);
  rl_tensor_release(ended);
  expect_refused({kHead, kNorm}, {head, ended}, RL_STALE_HANDLE, "weights[1].tensor");
}

TEST_F(Tensors, WeightsAreNotSetUnderRunningRequestsOrAPipeline) {
  rl_tensor* const norm = weight(kNorm, RL_TENSOR_COPY);
  const int32_t prompt[] = {1, 2, 3};
  rl_request request;
  rl_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.num_prompt = 3;
  uint64_t id = 0;
  EXPECT_RL_OK(rl_engine_submit(host_.engine, &request, &id, &err));
  expect_refused({kNorm}, {norm}, RL_BUSY, "");
  EXPECT_RL_OK(rl_engine_abort(host_.engine, 0, nullptr, &err));
  uint64_t version = 0;
  EXPECT_RL_OK(set_weights(host_.model, {kNorm}, {norm}, &version, &err));
  EXPECT_RL_OK(rl_pipeline_start(host_.pipeline, &err));
  expect_refused({kNorm}, {norm}, RL_BUSY, "");
}

TEST_F(Tensors, ATrainedStepIsPublishedBeforeWeightsAreSet) {
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_clone(host_.options, &options, &err));
  set(options, "model.compute_copies", "2");
  rl_model* model = nullptr;
  rl_trainer* trainer = nullptr;
  rl_event* event = nullptr;
  EXPECT_RL_OK(rl_model_open(host_.runtime, options, RL_USE_TRAIN, &model, &err));
  EXPECT_RL_OK(rl_trainer_create(model, options, &trainer, &err));
  EXPECT_RL_OK(train(trainer, host_.batch, &event, &err));
  rl_tensor* const norm = weight(kNorm, RL_TENSOR_COPY);
  uint64_t version = 0;
  EXPECT_EQ(set_weights(model, {kNorm}, {norm}, &version, nullptr), RL_FAILED_PRECONDITION);
  EXPECT_RL_OK(rl_trainer_publish(trainer, &version, &err));
  EXPECT_EQ(version, 1u);
  EXPECT_RL_OK(set_weights(model, {kNorm}, {norm}, &version, &err));
  EXPECT_EQ(version, 2u);
  rl_event_release(event);
  rl_trainer_destroy(trainer);
  rl_model_destroy(model);
  rl_options_destroy(options);
}

// The head over hidden states, in double, gives the trainer's log-probs. Products take inputs
// rounded to the compute dtype: with fp32 what is left is the order of sums of 64 terms of size 1.
TEST(HiddenStates, GiveTheLogProbsThroughTheHead) {
  rl_options* options = nullptr;
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_trainer* trainer = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  set(options, "model.path", RL_FIXTURES "/models/llama");
  set(options, "model.dtype", "fp32");
  set(options, "runtime.threads", "1");
  set(options, "engine.max_model_len", "64");
  set(options, "sampling.max_new_tokens", "4");
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  EXPECT_RL_OK(rl_model_open(runtime, options, RL_USE_TRAIN, &model, &err));
  EXPECT_RL_OK(rl_trainer_create(model, options, &trainer, &err));
  std::vector<int32_t> ids(64);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(1 + (i * 37) % 250);
  rl_tensor *hidden = nullptr, *head = nullptr;
  EXPECT_RL_OK(forward(trainer, RL_OUTPUT_HIDDEN, ids.data(), ids.size(), 0, 1, &hidden, &err));
  EXPECT_RL_OK(weight_of(model, kHead, 0, &head, &err));
  std::vector<float> logprobs(ids.size() - 1);
  EXPECT_RL_OK(
      logprobs_of(trainer, ids.data(), ids.size(), 1, 1, logprobs.data(), logprobs.size(), &err));
  rl_tensor_info h, w;
  rl_tensor_info_init(&h, sizeof h);
  rl_tensor_info_init(&w, sizeof w);
  EXPECT_RL_OK(rl_tensor_get_info(hidden, &h, &err));
  EXPECT_RL_OK(rl_tensor_get_info(head, &w, &err));
  ASSERT_EQ(h.dtype, RL_DTYPE_F32);
  ASSERT_EQ(h.num_dims, 2u);
  ASSERT_EQ(h.shape[0], 64);
  ASSERT_EQ(h.shape[1], w.shape[1]);
  EXPECT_EQ(h.read_only, 0u);
  for (size_t t = 0; t + 1 < ids.size(); ++t) {
    const auto* const x = static_cast<const float*>(h.data) + static_cast<int64_t>(t) * h.shape[1];
    double sum = 0, wanted = 0;
    for (int64_t v = 0; v < w.shape[0]; ++v) {
      const auto* const row = static_cast<const float*>(w.data) + v * w.shape[1];
      double logit = 0;
      for (int64_t c = 0; c < w.shape[1]; ++c) logit += static_cast<double>(x[c]) * row[c];
      sum += std::exp(logit);
      if (v == ids[t + 1]) wanted = logit;
    }
    EXPECT_NEAR(wanted - std::log(sum), logprobs[t], 1e-5) << "token " << t + 1;
  }
  rl_tensor* none = nullptr;
  const int32_t outside[] = {1, 256};
  EXPECT_EQ(forward(trainer, RL_OUTPUT_HIDDEN, outside, 2, 0, 1, &none, nullptr), RL_OUT_OF_RANGE);
  ids.resize(65, 1);
  EXPECT_EQ(forward(trainer, RL_OUTPUT_HIDDEN, ids.data(), ids.size(), 0, 1, &none, nullptr),
            RL_OUT_OF_RANGE);
  rl_trainer_destroy(trainer);
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
  rl_tensor_release(head);
  rl_tensor_release(hidden);
}

}  // namespace
}  // namespace abi_test
