// The three ways to use the library through rl.h: pieces, parts, and the pipeline's pull loop.
#include <poll.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

rl_sample_view sample_of(const rl_batch* batch, size_t index) {
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_batch_sample(batch, index, &view, &err));
  return view;
}

TEST(AbiParts, TrainerLogProbsEqualTheStoredOnesBitForBit) {
  Host host;
  rl_batch_release(host.batch);
  host.generate();
  for (size_t i = 0; i < rl_batch_count(host.batch); ++i) {
    const rl_sample_view view = sample_of(host.batch, i);
    const size_t count = view.num_ids - view.num_prompt;
    std::vector<float> out(count);
    EXPECT_RL_OK(logprobs_of(host.trainer, view.ids, view.num_ids, view.num_prompt,
                             view.temperature, out.data(), count, &err));
    EXPECT_EQ(std::memcmp(out.data(), view.logprobs, count * sizeof(float)), 0);
  }
}

TEST(AbiParts, ABatchIsForwardedAtOnce) {
  Host host;
  rl_batch_release(host.batch);
  host.generate();
  rl_forward input;
  rl_forward_init(&input, sizeof input);
  input.batch = host.batch;
  rl_tensor* tensor = nullptr;
  EXPECT_RL_OK(rl_trainer_forward(host.trainer, &input, &tensor, &err));
  std::vector<float> stored;
  for (size_t i = 0; i < rl_batch_count(host.batch); ++i) {
    const rl_sample_view view = sample_of(host.batch, i);
    stored.insert(stored.end(), view.logprobs, view.logprobs + (view.num_ids - view.num_prompt));
  }
  std::vector<float> computed(stored.size());
  take_floats(tensor, computed.data(), computed.size());
  EXPECT_EQ(std::memcmp(computed.data(), stored.data(), stored.size() * sizeof(float)), 0);
}

TEST(AbiParts, AForwardThatCannotBeIsNamed) {
  Host host;
  const int32_t ids[] = {1, 2, 3};
  const auto refused = [&](rl_status status, const char* key, auto&& spoil) {
    rl_forward input;
    rl_forward_init(&input, sizeof input);
    input.ids = ids;
    input.num_ids = 3;
    input.num_prompt = 1;
    spoil(input);
    rl_tensor* none = nullptr;
    rl_error* err = nullptr;
    EXPECT_EQ(rl_trainer_forward(host.trainer, &input, &none, &err), status) << key;
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), key);
    rl_error_release(err);
  };
  refused(RL_INVALID_ARGUMENT, "forward.output", [](rl_forward& f) { f.output = 0; });
  refused(RL_OUT_OF_RANGE, "forward.num_prompt", [](rl_forward& f) { f.num_prompt = 0; });
  refused(RL_OUT_OF_RANGE, "forward.num_prompt", [](rl_forward& f) { f.num_prompt = 3; });
  refused(RL_OUT_OF_RANGE, "forward.temperature", [](rl_forward& f) { f.temperature = 0; });
  refused(RL_INVALID_ARGUMENT, "forward.num_ids", [](rl_forward& f) { f.num_ids = 0; });
  refused(RL_INVALID_ARGUMENT, "forward.ids", [&](rl_forward& f) { f.batch = host.batch; });
  const uint64_t rows[] = {2, 3};
  refused(RL_INVALID_ARGUMENT, "forward.output",
          [](rl_forward& f) { f.output = RL_OUTPUT_LOGITS + 1; });
  refused(RL_INVALID_ARGUMENT, "forward.rows", [&](rl_forward& f) { f.rows = rows; });
  refused(RL_INVALID_ARGUMENT, "forward.rows", [](rl_forward& f) { f.num_rows = 1; });
  refused(RL_OUT_OF_RANGE, "forward.rows", [&](rl_forward& f) {
    f.output = RL_OUTPUT_LOGITS;
    f.rows = rows;
    f.num_rows = 2;
  });
  refused(RL_FAILED_PRECONDITION, "algo.objective",
          [](rl_forward& f) { f.output = RL_OUTPUT_VALUES; });
  refused(RL_FAILED_PRECONDITION, "algo.objective",
          [](rl_forward& f) { f.output = RL_OUTPUT_SCORES; });
}

TEST(AbiParts, ForeignSamplesGatherToGroupsAndTrain) {
  Host host;
  std::vector<int32_t> ids = {1, 2, 3, 4, 5};
  std::vector<float> logprobs = {-1.0f, -2.0f};
  const std::vector<int32_t> tops = {4, 6, -1, -1};
  const std::vector<float> top_logprobs = {-1, -1.5f, 0, 0};
  const std::vector<uint8_t> mixed = {0, 1};
  for (uint32_t slot = 0; slot < 2; ++slot) {
    rl_sample_view sample;
    rl_sample_view_init(&sample, sizeof sample);
    sample.sample_id = 100 + slot;
    sample.ordinal = 9;
    sample.slot = slot;
    sample.ids = ids.data();
    sample.num_ids = ids.size();
    sample.num_prompt = 3;
    sample.logprobs = logprobs.data();
    sample.num_top = 2;
    sample.top_ids = tops.data();
    sample.top_logprobs = top_logprobs.data();
    sample.mixed_kv = slot == 1 ? mixed.data() : nullptr;
    sample.reward = slot;
    EXPECT_EQ(rl_buffer_put(host.buffer, &sample, nullptr), RL_FAILED_PRECONDITION) << "not scored";
    sample.scored = 1;
    EXPECT_RL_OK(rl_buffer_put(host.buffer, &sample, &err));
    EXPECT_EQ(rl_buffer_put(host.buffer, &sample, nullptr), RL_DUPLICATE);
  }
  ids.assign(5, 0);
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(take_groups(host.buffer, 4, &batch, &err));
  ASSERT_EQ(rl_batch_count(batch), 2u);
  EXPECT_EQ(sample_of(batch, 1).ids[4], 5) << "samples are copies";
  EXPECT_EQ(sample_of(batch, 1).loss_mask[1], 1);
  EXPECT_EQ(sample_of(batch, 0).mixed_kv, nullptr);
  EXPECT_EQ(sample_of(batch, 1).mixed_kv[1], 1);
  EXPECT_EQ(sample_of(batch, 1).num_top, 2u);
  EXPECT_EQ(sample_of(batch, 1).top_ids[1], 6);
  EXPECT_EQ(sample_of(batch, 1).top_logprobs[1], -1.5f);
  const double advantages[] = {1, -1};
  rl_event* step = nullptr;
  EXPECT_RL_OK(train(host.trainer, batch, advantages, 2, &step, &err));
  double compared = -1;
  EXPECT_RL_OK(rl_event_metric_named(step, "training/logprob_compared_tokens", RL_NUL_TERMINATED,
                                     &compared, &err));
  EXPECT_EQ(compared, 0) << "nobody knows which weights drew them";
  rl_event_release(step);
  EXPECT_EQ(train(host.trainer, batch, advantages, 1, &step, nullptr), RL_INVALID_ARGUMENT);
  EXPECT_EQ(take_groups(host.buffer, 1, &batch, nullptr), RL_TIMEOUT);
  EXPECT_EQ(batch, nullptr);
}

// Two samples of one prompt, as a host has them that knows nothing but their tokens.
void put_bare_samples(rl_buffer* buffer, uint32_t scored) {
  static const int32_t ids[] = {1, 2, 3, 4, 5};
  for (uint32_t slot = 0; slot < 2; ++slot) {
    rl_sample_view sample;
    rl_sample_view_init(&sample, sizeof sample);
    sample.sample_id = 100 + slot;
    sample.ordinal = 9;
    sample.slot = slot;
    sample.ids = ids;
    sample.num_ids = 5 - slot;
    sample.num_prompt = 3;
    sample.scored = scored;
    sample.reward = scored * slot;
    EXPECT_RL_OK(rl_buffer_put(buffer, &sample, &err));
  }
}

double metric_of(const rl_event* event, const char* name) {
  double value = -1;
  EXPECT_RL_OK(rl_event_metric_named(event, name, RL_NUL_TERMINATED, &value, &err));
  return value;
}

TEST(AbiParts, SamplesWithoutLogprobsTrainAtARatioOfOne) {
  Host host;
  put_bare_samples(host.buffer, 1);
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(take_groups(host.buffer, 1, &batch, &err));
  EXPECT_EQ(sample_of(batch, 0).logprobs, nullptr);
  rl_event* step = nullptr;
  EXPECT_RL_OK(train(host.trainer, batch, &step, &err));
  EXPECT_EQ(metric_of(step, "actor/ratio_max"), 1);
  EXPECT_EQ(metric_of(step, "training/samples_without_logprobs"), 2);
  rl_event_release(step);
  rl_batch_release(batch);
}

TEST(AbiParts, PairsOfAHostAreTrainedOnWithoutScores) {
  Host host;
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_clone(host.options, &options, &err));
  EXPECT_RL_OK(rl_options_unset(options, "pipeline.samples_per_prompt", RL_NUL_TERMINATED, &err));
  set(options, "algo.objective", "dpo");
  rl_trainer* trainer = nullptr;
  rl_buffer* buffer = nullptr;
  EXPECT_RL_OK(rl_trainer_create(host.model, options, &trainer, &err));
  EXPECT_RL_OK(rl_buffer_create(options, 16, &buffer, &err));
  put_bare_samples(buffer, 0);
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(take_groups(buffer, 1, &batch, &err));
  rl_event* step = nullptr;
  EXPECT_RL_OK(train(trainer, batch, &step, &err));
  rl_event_release(step);
  EXPECT_RL_OK(train(trainer, batch, &step, &err));
  EXPECT_EQ(metric_of(step, "training/optimizer_steps"), 1);
  EXPECT_LE(metric_of(step, "rewards/accuracies"), 1);
  rl_event_release(step);
  const double advantages[] = {1, -1};
  EXPECT_EQ(train(trainer, batch, advantages, 2, &step, nullptr), RL_CONFLICT);
  rl_batch_release(batch);
  rl_buffer_destroy(buffer);
  rl_trainer_destroy(trainer);
  rl_options_destroy(options);
}

// A host trains a reward model, writes it, and finds the same scores in what it reads back.
TEST(AbiParts, ARewardModelOfAHostScoresAsItWasTrained) {
  rl_options* options = nullptr;
  rl_runtime* runtime = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  set(options, "model.path", RL_FIXTURES "/models/llama");
  set(options, "runtime.threads", "1");
  set(options, "engine.max_model_len", "64");
  set(options, "algo.objective", "reward_model");
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options, &runtime, &err));
  const std::string dir = RL_TEST_OUTPUT "/reward_model";
  float scores[2][2] = {};
  for (const bool again : {false, true}) {
    if (again) set(options, "model.path", dir);
    rl_model* model = nullptr;
    rl_trainer* trainer = nullptr;
    rl_buffer* buffer = nullptr;
    rl_batch* batch = nullptr;
    rl_event* step = nullptr;
    EXPECT_RL_OK(rl_model_open(runtime, options, RL_USE_TRAIN, &model, &err));
    EXPECT_RL_OK(rl_trainer_create(model, options, &trainer, &err));
    EXPECT_RL_OK(rl_buffer_create(options, 16, &buffer, &err));
    put_bare_samples(buffer, 0);
    EXPECT_RL_OK(take_groups(buffer, 1, &batch, &err));
    for (int i = 0; i < 5 && !again; ++i) {
      EXPECT_RL_OK(train(trainer, batch, &step, &err));
      if (i == 0) {
        EXPECT_NEAR(metric_of(step, "actor/loss"), 0.6931471805599453, 1e-12);  // log 2
      }
      rl_event_release(step);
    }
    rl_forward input;
    rl_forward_init(&input, sizeof input);
    input.output = RL_OUTPUT_SCORES;
    input.batch = batch;
    rl_tensor* tensor = nullptr;
    EXPECT_RL_OK(rl_trainer_forward(trainer, &input, &tensor, &err));
    take_floats(tensor, scores[again], 2);
    float logprob = 1;
    const int32_t ids[] = {1, 2};
    EXPECT_EQ(logprobs_of(trainer, ids, 2, 1, 1, &logprob, 1, nullptr), RL_FAILED_PRECONDITION);
    rl_engine* engine = nullptr;
    EXPECT_EQ(rl_engine_create(model, options, &engine, nullptr), RL_FAILED_PRECONDITION);
    EXPECT_RL_OK(
        rl_model_save(model, dir.c_str(), dir.size(), RL_DTYPE_F32, RL_SAVE_REPLACE, &err));
    rl_batch_release(batch);
    rl_buffer_destroy(buffer);
    rl_trainer_destroy(trainer);
    rl_model_destroy(model);
  }
  EXPECT_GT(scores[0][0], scores[0][1]) << "the chosen answer";
  EXPECT_EQ(scores[0][0], scores[1][0]);
  EXPECT_EQ(scores[0][1], scores[1][1]);
  rl_runtime_destroy(runtime);
  rl_options_destroy(options);
}

TEST(AbiParts, BadForeignSamplesNameTheField) {
  Host host;
  const int32_t ids[] = {1, 2};
  float logprob = -1;
  rl_sample_view good;
  rl_sample_view_init(&good, sizeof good);
  good.ids = ids;
  good.num_ids = 2;
  good.num_prompt = 1;
  good.logprobs = &logprob;
  good.scored = 1;
  const auto refuse = [&](const char* field, rl_status status, auto&& spoil) {
    rl_sample_view bad = good;
    spoil(bad);
    rl_error* err = nullptr;
    EXPECT_EQ(rl_buffer_put(host.buffer, &bad, &err), status) << field;
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), field);
    rl_error_release(err);
  };
  refuse("sample.ids", RL_INVALID_ARGUMENT, [](auto& s) { s.ids = nullptr; });
  refuse("sample.num_prompt", RL_OUT_OF_RANGE, [](auto& s) { s.num_prompt = 2; });
  refuse("sample.num_prompt", RL_OUT_OF_RANGE, [](auto& s) { s.num_prompt = 0; });
  refuse("sample.logprobs", RL_INVALID_ARGUMENT, [&](auto& s) {
    s.logprobs = nullptr;
    s.logprobs_sampled = &logprob;
  });
  refuse("sample.temperature", RL_OUT_OF_RANGE, [](auto& s) { s.temperature = 0; });
  refuse("sample.scored", RL_INVALID_ARGUMENT, [](auto& s) { s.scored = 2; });
  refuse("sample.purpose", RL_INVALID_ARGUMENT, [](auto& s) { s.purpose = RL_PURPOSE_EVAL; });
  refuse("sample.finish", RL_INVALID_ARGUMENT, [](auto& s) { s.finish = 77; });
  static const uint8_t two = 2;
  refuse("sample.mixed_kv", RL_INVALID_ARGUMENT, [](auto& s) { s.mixed_kv = &two; });
  static const int32_t top_ids[] = {3, -2};
  static const float top_logprobs[] = {-1, INFINITY};
  const auto with_top = [](rl_sample_view& s, size_t count) {
    s.num_top = count;
    s.top_ids = top_ids;
    s.top_logprobs = top_logprobs;
  };
  refuse("sample.num_top", RL_OUT_OF_RANGE, [&](auto& s) { with_top(s, SIZE_MAX); });
  refuse("sample.top_logprobs", RL_NON_FINITE, [&](auto& s) { with_top(s, 2); });
  refuse("sample.top_ids", RL_OUT_OF_RANGE, [&](auto& s) {
    with_top(s, 1);
    s.top_ids = &top_ids[1];
  });
  refuse("sample.top_ids", RL_INVALID_ARGUMENT, [](auto& s) { s.num_top = 1; });
  refuse("sample.top_logprobs", RL_INVALID_ARGUMENT, [&](auto& s) {
    with_top(s, 1);
    s.top_logprobs = nullptr;
  });
  logprob = NAN;
  refuse("sample.logprobs", RL_NON_FINITE, [](auto&) {});
}

TEST(AbiParts, RulesAndTopLogprobsAreThoseOfTheRequest) {
  Host host;
  rl_options* sampling = nullptr;
  EXPECT_RL_OK(rl_options_clone(host.options, &sampling, &err));
  set(sampling, "sampling.allowed_token_ids", "7,9");
  set(sampling, "sampling.logit_bias", "9:-100");
  set(sampling, "sampling.logprobs", "3");
  const int32_t prompt[] = {1, 2, 3};
  rl_request request;
  rl_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.num_prompt = 3;
  request.sampling = sampling;
  uint64_t id = 0;
  EXPECT_RL_OK(rl_engine_submit(host.engine, &request, &id, &err));
  EXPECT_RL_OK(rl_engine_run(host.engine, &err));
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(rl_engine_take(host.engine, &batch, &err));
  const rl_sample_view view = sample_of(batch, 0);
  ASSERT_EQ(view.num_top, 3u);
  for (size_t t = 0; t < view.num_ids - view.num_prompt; ++t) {
    EXPECT_EQ(view.ids[3 + t], 7);
    EXPECT_GE(view.top_logprobs[3 * t], view.logprobs[t]);
    EXPECT_GE(view.top_logprobs[3 * t], view.top_logprobs[3 * t + 2]);
    EXPECT_NE(view.top_ids[3 * t], view.top_ids[3 * t + 1]);
  }
  rl_batch_release(batch);
  set(sampling, "sampling.logit_bias", "9");
  rl_error* err = nullptr;
  EXPECT_EQ(rl_engine_submit(host.engine, &request, &id, &err), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "sampling.logit_bias");
  rl_error_release(err);
  rl_options_destroy(sampling);
}

TEST(AbiParts, TheProfilerWritesWhatItSaw) {
  Host host;
  uint64_t records = 0, dropped = 1;
  EXPECT_RL_OK(rl_profiler_count(host.profiler, &records, &dropped, &err));
  EXPECT_GT(records, 0u);
  EXPECT_EQ(dropped, 0u);
  const std::string path = ::testing::TempDir() + "abi_profiler_trace.json";
  EXPECT_RL_OK(rl_profiler_write_trace(host.profiler, path.c_str(), RL_NUL_TERMINATED, &err));
  EXPECT_GT(std::filesystem::file_size(path), 2u);
  std::filesystem::remove(path);
  EXPECT_EQ(rl_profiler_write_trace(host.profiler, "", 0, nullptr), RL_INVALID_ARGUMENT);
}

TEST(AbiParts, TheReportIsOneFileOfAPipelineWithOrWithoutAProfiler) {
  Host host;
  const std::string path = ::testing::TempDir() + "abi_report.html";
  const auto write = [&](const rl_pipeline* pipeline, const rl_profiler* profiler, rl_error** err) {
    return rl_pipeline_write_report(pipeline, profiler, path.c_str(), RL_NUL_TERMINATED, err);
  };
  for (const rl_profiler* profiler : {host.profiler, static_cast<rl_profiler*>(nullptr)}) {
    EXPECT_RL_OK(write(host.pipeline, profiler, &err));
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(text.find("<!DOCTYPE html>"), 0u);
    EXPECT_NE(text.find(rl_version_string()), std::string::npos);
    std::filesystem::remove(path);
  }
  rl_error* err = nullptr;
  EXPECT_EQ(write(nullptr, host.profiler, &err), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "pipeline");
  rl_error_release(err);
  const auto stale = reinterpret_cast<const rl_profiler*>(host.pipeline);
  EXPECT_NE(write(host.pipeline, stale, &err), RL_OK) << "a handle of another kind";
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "profiler");
  rl_error_release(err);
  EXPECT_EQ(rl_pipeline_write_report(host.pipeline, nullptr, "", 0, nullptr), RL_INVALID_ARGUMENT);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(AbiPlan, ArenasAddUpAndASmallBudgetIsRefused) {
  Host host;
  rl_plan_info info;
  rl_plan_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_plan_get_info(host.plan, &info, &err));
  uint64_t sum = 0;
  for (size_t i = 0; i < rl_plan_count(host.plan); ++i) {
    rl_plan_item item;
    rl_plan_item_init(&item, sizeof item);
    EXPECT_RL_OK(rl_plan_at(host.plan, i, &item, &err));
    if (item.kind == RL_PLAN_ARENA) sum += item.bytes;
  }
  EXPECT_EQ(sum, info.arena_bytes);
  EXPECT_EQ(info.total_bytes, info.arena_bytes + info.baseline_bytes);
  set(host.options, "runtime.memory_budget_bytes", "1MiB");
  rl_plan* plan = nullptr;
  rl_error* err = nullptr;
  EXPECT_EQ(rl_plan_create(host.options, RL_USE_PIPELINE, &plan, &err), RL_RESOURCE_EXHAUSTED);
  EXPECT_EQ(plan, nullptr);
  rl_error_release(err);
  EXPECT_EQ(rl_plan_create(host.options, 9, &plan, nullptr), RL_INVALID_ARGUMENT);
}

// Feeds one prompt a step and scores every sample by its slot until `steps` steps are done.
struct Loop {
  rl_pipeline* pipeline;
  uint64_t steps = 0, scored = 0;

  void on(const rl_event* event) {
    rl_sample_view sample;
    rl_sample_view_init(&sample, sizeof sample);
    if (rl_event_kind(event) == RL_EVENT_STEP) ++steps;
    if (rl_event_kind(event) != RL_EVENT_SCORE) return;
    EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
    EXPECT_STREQ(sample.tag, "tag");
    EXPECT_RL_OK(score(pipeline, sample.sample_id, sample.slot, &err));
    EXPECT_EQ(score(pipeline, sample.sample_id, 1, nullptr), RL_DUPLICATE);
    ++scored;
  }
};

rl_status feed_line(rl_pipeline* pipeline, const std::string& line, int64_t timeout_ns,
                    rl_error** err) {
  rl_feed_row row;
  rl_feed_row_init(&row, sizeof row);
  row.json = line.c_str();
  row.json_len = line.size();
  return rl_pipeline_feed(pipeline, &row, timeout_ns, err);
}

void feed(const Host& host, int rows) {
  for (int i = 0; i < rows; ++i) {
    const std::string row = "{\"ids\": [1, 2, " + std::to_string(i + 3) + "], \"tag\": \"tag\"}";
    EXPECT_RL_OK(feed_line(host.pipeline, row, 0, &err));
  }
}

TEST(AbiPipeline, ThePullLoopTrainsWhatIsFed) {
  Host host;
  feed(host, 2);
  const int32_t ids[] = {4, 5};
  rl_feed_row prompt;
  rl_feed_row_init(&prompt, sizeof prompt);
  prompt.ids = ids;
  prompt.num_ids = 2;
  prompt.tag = "tag";
  prompt.tag_len = 3;
  EXPECT_RL_OK(rl_pipeline_feed(host.pipeline, &prompt, 0, &err));
  EXPECT_RL_OK(rl_pipeline_finish_feed(host.pipeline, &err));
  EXPECT_EQ(feed_line(host.pipeline, "{}", 0, nullptr), RL_FAILED_PRECONDITION);
  Loop loop{host.pipeline};
  rl_event* event = nullptr;
  EXPECT_EQ(rl_pipeline_next(host.pipeline, 0, &event, nullptr), RL_TIMEOUT);
  EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
  EXPECT_EQ(rl_pipeline_start(host.pipeline, nullptr), RL_FAILED_PRECONDITION);
  rl_status status;
  while ((status = rl_pipeline_next(host.pipeline, 10'000'000'000, &event, nullptr)) == RL_OK) {
    loop.on(event);
    rl_event_release(event);
  }
  EXPECT_EQ(status, RL_DONE);
  EXPECT_EQ(rl_pipeline_next(host.pipeline, -1, &event, nullptr), RL_DONE) << "sticky";
  EXPECT_EQ(event, nullptr);
  EXPECT_EQ(loop.steps, 3u);
  rl_pipeline_stats stats;
  rl_pipeline_stats_init(&stats, sizeof stats);
  EXPECT_RL_OK(rl_pipeline_get_stats(host.pipeline, &stats, &err));
  EXPECT_EQ(stats.state, RL_STATE_DONE);
  EXPECT_EQ(stats.step, 3u);
  EXPECT_EQ(stats.attempts_trained, loop.scored);
  EXPECT_EQ(stats.duplicate_scores, loop.scored);
}

std::string resumed_from(const rl_pipeline* pipeline) {
  rl_bytes* path = nullptr;
  EXPECT_RL_OK(rl_pipeline_resumed_from(pipeline, &path, &err));
  const std::string text(static_cast<const char*>(rl_bytes_data(path)), rl_bytes_size(path));
  rl_bytes_release(path);
  return text;
}

rl_pipeline_stats stats_of(const rl_pipeline* pipeline) {
  rl_pipeline_stats stats;
  rl_pipeline_stats_init(&stats, sizeof stats);
  EXPECT_RL_OK(rl_pipeline_get_stats(pipeline, &stats, &err));
  return stats;
}

TEST(AbiPipeline, AResumedRunTellsFromWhereAndCountsOn) {
  const std::string checkpoints = RL_TEST_OUTPUT "/resumed_run";
  std::filesystem::remove_all(checkpoints);
  Host host;
  set(host.options, "checkpoint.dir", checkpoints);
  set(host.options, "checkpoint.every_steps", "1");
  set(host.options, "checkpoint.resume", "auto");
  rl_pipeline_stats last{};
  for (uint64_t run = 0; run < 2; ++run) {
    rl_pipeline_destroy(host.pipeline);
    EXPECT_RL_OK(rl_pipeline_create(host.model, host.options, &host.pipeline, &err));
    const std::string from = run == 0 ? "" : checkpoints + "/step_000001";
    EXPECT_EQ(resumed_from(host.pipeline), from);
    const rl_pipeline_stats begun = stats_of(host.pipeline);
    EXPECT_EQ(begun.state, RL_STATE_IDLE);
    EXPECT_EQ(begun.step, run);
    EXPECT_EQ(begun.attempts_trained, last.attempts_trained);
    if (run == 1) {
      EXPECT_EQ(begun.version, last.version);
    }
    feed(host, 1);
    EXPECT_RL_OK(rl_pipeline_finish_feed(host.pipeline, &err));
    EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
    Loop loop{host.pipeline};
    rl_event* event = nullptr;
    while (rl_pipeline_next(host.pipeline, 10'000'000'000, &event, nullptr) == RL_OK) {
      loop.on(event);
      rl_event_release(event);
    }
    last = stats_of(host.pipeline);
    EXPECT_EQ(last.state, RL_STATE_DONE);
    EXPECT_EQ(last.step, run + 1);
    EXPECT_EQ(last.version, begun.version + 1);
    EXPECT_EQ(resumed_from(host.pipeline), from) << "its own checkpoints are none it resumed from";
  }
}

TEST(AbiPipeline, AFullFeedWaitsForRoom) {
  Host host;
  const auto capacity = static_cast<int>(stats_of(host.pipeline).feed_capacity);
  ASSERT_GT(capacity, 1);
  feed(host, capacity);
  EXPECT_EQ(stats_of(host.pipeline).feed_size, uint64_t(capacity));
  const std::string row = R"({"ids": [1, 2], "tag": "tag"})";
  EXPECT_EQ(feed_line(host.pipeline, row, 0, nullptr), RL_TIMEOUT);
  EXPECT_EQ(feed_line(host.pipeline, row, 1'000'000, nullptr), RL_TIMEOUT);
  std::thread later([&] { EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err)); });
  EXPECT_RL_OK(feed_line(host.pipeline, row, -1, &err));  // the loop draws the first row
  later.join();
}

TEST(AbiPipeline, AWaitForRoomEndsWithTheRun) {
  Host host;
  feed(host, static_cast<int>(stats_of(host.pipeline).feed_capacity));
  rl_status waited = RL_OK;
  std::thread waiting(
      [&] { waited = feed_line(host.pipeline, R"({"ids": [1, 2]})", -1, nullptr); });
  EXPECT_RL_OK(rl_pipeline_stop(host.pipeline, -1, &err));
  waiting.join();
  EXPECT_EQ(waited, RL_FAILED_PRECONDITION);
}

TEST(AbiPipeline, ARowIsALineOrIds) {
  Host host;
  const int32_t ids[] = {1, 2};
  rl_feed_row row;
  rl_feed_row_init(&row, sizeof row);
  row.json = R"({"ids": [1, 2]})";
  row.json_len = RL_NUL_TERMINATED;
  row.ids = ids;
  row.num_ids = 2;
  rl_error* err = nullptr;
  EXPECT_EQ(rl_pipeline_feed(host.pipeline, &row, 0, &err), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "row.ids");
  rl_error_release(err);
  row.ids = nullptr;
  row.num_ids = 0;
  row.tag = "tag";
  row.tag_len = 3;
  EXPECT_EQ(rl_pipeline_feed(host.pipeline, &row, 0, &err), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "row.tag");
  rl_error_release(err);
}

TEST(AbiPipeline, TheDescriptorTellsOfEventsAndInterrupts) {
  Host host;
  pollfd waiting = {rl_event_queue_fd(host.queue), POLLIN, 0};
  rl_event* event = nullptr;
  EXPECT_EQ(poll(&waiting, 1, 0), 0);
  EXPECT_RL_OK(rl_pipeline_interrupt(host.pipeline, &err));
  EXPECT_EQ(poll(&waiting, 1, 0), 1);
  EXPECT_EQ(rl_pipeline_next(host.pipeline, -1, &event, nullptr), RL_INTERRUPTED);
  EXPECT_EQ(rl_pipeline_next(host.pipeline, 0, &event, nullptr), RL_TIMEOUT);
  EXPECT_EQ(poll(&waiting, 1, 0), 0) << "drained";
  EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
  feed(host, 1);
  EXPECT_EQ(poll(&waiting, 1, 10000), 1);
  EXPECT_GT(rl_event_queue_size(host.queue), 0u);
}

TEST(AbiPipeline, StopEndsAWaitForScoresAndEventsOutliveThePipeline) {
  Host host;
  feed(host, 1);
  EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
  rl_event* event = nullptr;
  EXPECT_RL_OK(rl_pipeline_next(host.pipeline, 10'000'000'000, &event, &err));
  EXPECT_RL_OK(rl_pipeline_stop(host.pipeline, 10'000'000'000, &err));
  rl_pipeline_stats stats;
  rl_pipeline_stats_init(&stats, sizeof stats);
  EXPECT_RL_OK(rl_pipeline_get_stats(host.pipeline, &stats, &err));
  EXPECT_EQ(stats.state, RL_STATE_DONE);
  EXPECT_EQ(stats.attempts_discarded, 2u);
  rl_pipeline_destroy(host.pipeline);
  rl_sample_view sample;
  rl_sample_view_init(&sample, sizeof sample);
  EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
  EXPECT_GT(sample.num_ids, sample.num_prompt);
  EXPECT_EQ(score(host.pipeline, sample.sample_id, 1, nullptr), RL_STALE_HANDLE);
  rl_event_release(event);
}

TEST(AbiPipeline, OptionsThatShapedTheRunCannotChange) {
  Host host;
  rl_error* err = nullptr;
  set(host.options, "optimizer.lr", "2e-6");
  EXPECT_EQ(rl_pipeline_set_options(host.pipeline, host.options, &err), RL_OK)
      << text_of(err, RL_ERROR_SUMMARY);
  set(host.options, "pipeline.samples_per_prompt", "3");
  EXPECT_EQ(rl_pipeline_set_options(host.pipeline, host.options, &err), RL_NOT_CHANGEABLE);
  EXPECT_NE(text_of(err, RL_ERROR_SUMMARY).find("pipeline.samples_per_prompt"), std::string::npos);
  rl_error_release(err);
}

}  // namespace
}  // namespace abi_test
