// Buffers at rest through rl.h: saving and loading, what is refused, and the replay of a run.
#include <cstring>
#include <fstream>

#include "abi/host.h"
#include "support/temp_dir.h"

namespace abi_test {
namespace {

rl_status save(const Host& host, const std::string& path, const rl_model* model = nullptr,
               uint64_t flags = 0, rl_error** err = nullptr) {
  return rl_buffer_save(host.buffer, path.data(), path.size(), model, flags, err);
}

rl_status load(rl_buffer* buffer, const std::string& path, const rl_model* model, uint64_t* count,
               rl_error** err = nullptr) {
  return rl_buffer_load(buffer, path.data(), path.size(), model, count, err);
}

rl_buffer* new_buffer(const Host& host) {
  rl_buffer* buffer = nullptr;
  EXPECT_RL_OK(rl_buffer_create(host.options, 16, &buffer, &err));
  return buffer;
}

rl_buffer_file_info info_of(const std::string& path) {
  rl_buffer_file_info info;
  rl_buffer_file_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_buffer_get_file_info(path.data(), path.size(), &info, &err));
  return info;
}

uint64_t digest_of(const rl_model* model) {
  uint64_t digest = 0;
  EXPECT_RL_OK(rl_model_digest(model, &digest, &err));
  return digest;
}

TEST(AbiBuffer, SamplesComeBackFromAFile) {
  const Host host;
  const rl::TempDir dir;
  const std::string path = dir.file("samples.rlbuf");
  EXPECT_RL_OK(rl_buffer_put_batch(host.buffer, host.batch, &err));
  EXPECT_RL_OK(save(host, path, host.model, 0, &err));
  EXPECT_EQ(save(host, path), RL_ALREADY_EXISTS);
  EXPECT_RL_OK(save(host, path, host.model, RL_SAVE_REPLACE, &err));
  EXPECT_EQ(save(host, path, nullptr, 8), RL_INVALID_ARGUMENT);
  const rl_buffer_file_info info = info_of(path);
  EXPECT_EQ(info.has_model, 1u);
  EXPECT_EQ(info.weight_digest, digest_of(host.model));
  EXPECT_EQ(info.weight_version, 1u);
  EXPECT_EQ(info.group_size, 2u);
  EXPECT_EQ(info.step, 0u);

  uint64_t count = 0;
  EXPECT_EQ(load(host.buffer, path, nullptr, &count), RL_DUPLICATE);
  rl_buffer* const fresh = new_buffer(host);
  EXPECT_RL_OK(load(fresh, path, host.model, &count, &err));
  EXPECT_EQ(count, 2u);
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(take_groups(fresh, 1, &batch, &err));
  for (size_t i = 0; i < 2; ++i) {
    rl_sample_view a, b;
    rl_sample_view_init(&a, sizeof a);
    rl_sample_view_init(&b, sizeof b);
    EXPECT_RL_OK(rl_batch_sample(host.batch, i, &a, &err));
    EXPECT_RL_OK(rl_batch_sample(batch, i, &b, &err));
    ASSERT_EQ(a.num_ids, b.num_ids);
    EXPECT_EQ(std::memcmp(a.ids, b.ids, a.num_ids * sizeof *a.ids), 0);
    EXPECT_EQ(std::memcmp(a.logprobs, b.logprobs, (a.num_ids - a.num_prompt) * sizeof(float)), 0);
    EXPECT_EQ(a.reward, b.reward);
    EXPECT_EQ(a.finished_ns, b.finished_ns);
  }
  rl_batch_release(batch);
  rl_buffer_destroy(fresh);
}

TEST(AbiBuffer, WhatDoesNotFitIsRefusedByName) {
  const Host host;
  const rl::TempDir dir;
  const std::string path = dir.file("samples.rlbuf"), bad = dir.file("bad.rlbuf");
  EXPECT_RL_OK(rl_buffer_put_batch(host.buffer, host.batch, &err));
  EXPECT_RL_OK(save(host, path, nullptr, 0, &err));
  EXPECT_EQ(info_of(path).has_model, 0u);
  rl_buffer* const fresh = new_buffer(host);
  uint64_t count = 7;
  EXPECT_EQ(load(fresh, path, host.model, &count), RL_INCOMPATIBLE) << "it names no weights";
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(load(fresh, dir.file("none"), nullptr, &count), RL_NOT_FOUND);
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::ofstream(bad, std::ios::binary) << bytes.substr(0, bytes.size() - 1);
  rl_error* err = nullptr;
  EXPECT_EQ(load(fresh, bad, nullptr, &count, &err), RL_DATA_LOSS);
  EXPECT_NE(text_of(err, RL_ERROR_LOCATION).find("bad.rlbuf offset "), std::string::npos);
  rl_error_release(err);
  EXPECT_EQ(stats_of(fresh).samples, 0u);
  rl_buffer_destroy(fresh);
}

TEST(AbiBuffer, WhatNoFileMayHoldIsNotTaken) {
  const Host host;
  const rl::TempDir dir;
  const float logprob = -1;
  int32_t ids[] = {1, 2};
  rl_sample_view good;
  rl_sample_view_init(&good, sizeof good);
  good.ids = ids;
  good.num_ids = 2;
  good.num_prompt = 1;
  good.logprobs = &logprob;
  good.scored = 1;
  const auto refuse = [&](const char* field, auto&& spoil) {
    rl_sample_view bad = good;
    spoil(bad);
    rl_error* err = nullptr;
    EXPECT_EQ(rl_buffer_put(host.buffer, &bad, &err), RL_INVALID_ARGUMENT) << field;
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), field);
    rl_error_release(err);
  };
  refuse("data_row", [](auto& s) { s.data_row = -2; });
  refuse("submitted_ns", [](auto& s) { s.submitted_ns = -1; });
  ids[0] = -1;
  refuse("ids", [](auto&) {});
  ids[0] = 1 << 30;
  EXPECT_RL_OK(rl_buffer_put(host.buffer, &good, &err));
  EXPECT_EQ(save(host, dir.file("f"), host.model), RL_INVALID_ARGUMENT) << "beyond the vocabulary";
  EXPECT_RL_OK(save(host, dir.file("f"), nullptr, 0, &err));
}

// Feeds three prompts and scores every sample by its slot.
void run(rl_pipeline* pipeline) {
  for (int32_t i = 0; i < 3; ++i) {
    const int32_t ids[] = {1, 2 + i};
    EXPECT_RL_OK(feed(pipeline, ids, 2, &err));
  }
  EXPECT_RL_OK(rl_pipeline_finish_feed(pipeline, &err));
  EXPECT_RL_OK(rl_pipeline_start(pipeline, &err));
  rl_event* event = nullptr;
  rl_status status;
  while ((status = rl_pipeline_next(pipeline, 10'000'000'000, &event, nullptr)) == RL_OK) {
    if (rl_event_kind(event) == RL_EVENT_SCORE) {
      rl_sample_view sample;
      rl_sample_view_init(&sample, sizeof sample);
      EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
      EXPECT_RL_OK(score(pipeline, sample.sample_id, sample.slot, &err));
    }
    rl_event_release(event);
  }
  EXPECT_EQ(status, RL_DONE);
}

TEST(AbiBuffer, ReplayingARecordedRunGivesItsDigest) {
  const Host host;
  const rl::TempDir dir;
  set(host.options, "buffer.record_dir", dir.file("record"));
  set(host.options, "optimizer.lr", "1e-3");
  rl_model *run_model = nullptr, *model = nullptr;
  rl_pipeline* pipeline = nullptr;
  EXPECT_RL_OK(rl_model_open(host.runtime, host.options, RL_USE_PIPELINE, &run_model, &err));
  EXPECT_RL_OK(rl_pipeline_create(run_model, host.options, &pipeline, &err));
  run(pipeline);
  rl_pipeline_destroy(pipeline);
  const uint64_t expected = digest_of(run_model);

  EXPECT_RL_OK(rl_model_open(host.runtime, host.options, RL_USE_TRAIN, &model, &err));
  EXPECT_NE(digest_of(model), expected);
  set(host.options, "buffer.record_dir", "");  // acts in a pipeline only
  const std::string first = dir.file("record/step_000001.rlbuf");
  set(host.options, "trainer.max_tokens_per_device",
      std::to_string(info_of(first).max_tokens_per_device));
  rl_trainer* trainer = nullptr;
  EXPECT_RL_OK(rl_trainer_create(model, host.options, &trainer, &err));
  rl_buffer* const buffer = new_buffer(host);
  for (int step = 1; step <= 3; ++step) {
    const std::string path = dir.file("record/step_00000" + std::to_string(step) + ".rlbuf");
    EXPECT_EQ(info_of(path).step, static_cast<uint64_t>(step));
    uint64_t count = 0, version = 0;
    EXPECT_RL_OK(load(buffer, path, model, &count, &err));
    EXPECT_EQ(count, 2u);
    rl_batch* batch = nullptr;
    rl_event* event = nullptr;
    EXPECT_RL_OK(take_groups(buffer, INT64_MAX, &batch, &err));
    EXPECT_RL_OK(train(trainer, batch, &event, &err));
    EXPECT_RL_OK(rl_trainer_publish(trainer, &version, &err));
    EXPECT_EQ(version, static_cast<uint64_t>(step));
    rl_event_release(event);
    rl_batch_release(batch);
    EXPECT_EQ(load(buffer, path, model, &count), RL_INCOMPATIBLE) << "the weights have moved on";
  }
  EXPECT_EQ(digest_of(model), expected);
  rl_buffer_destroy(buffer);
  rl_trainer_destroy(trainer);
  rl_model_destroy(model);
  rl_model_destroy(run_model);
}

}  // namespace
}  // namespace abi_test
