// Buffers with a store through rl.h: a store of the host in memory, a directory, and what each call
// returns when a store fails, was taken over or is not there.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>

#include "abi/host.h"

namespace abi_test {
namespace {

constexpr int32_t kBroken = 77;

// A queue of the host. Its functions fail while broken is set.
struct Queue {
  std::map<std::string, std::string> ready, claimed, damaged;
  std::string book;
  bool broken = false;
  int ended = 0;

  static Queue& of(void* data) { return *static_cast<Queue*>(data); }
  static int32_t move(std::map<std::string, std::string>& from,
                      std::map<std::string, std::string>& to, const std::string& token) {
    to.insert(from.extract(token));
    return 0;
  }
  rl_store table() {
    rl_store s;
    rl_store_init(&s, sizeof s);
    s.user_data = this;
    s.destroy = [](void* d) { ++of(d).ended; };
    s.put = [](void* d, const char* name, size_t len, const void* data, uint64_t size) -> int32_t {
      if (of(d).broken) return kBroken;
      of(d).ready[std::string(name, len)].assign(static_cast<const char*>(data), size);
      return 0;
    };
    s.claim = [](void* d, uint64_t max, rl_store_found_fn found, void* context) -> int32_t {
      if (of(d).broken) return kBroken;
      for (; max > 0 && !of(d).ready.empty(); --max) {
        const auto [token, data] = *of(d).ready.begin();
        move(of(d).ready, of(d).claimed, token);
        const int32_t code = found(context, token.data(), token.size(), data.data(), data.size());
        if (code != 0) return code;
      }
      return 0;
    };
    s.recover = [](void* d) -> int32_t {
      of(d).ready.merge(of(d).claimed);
      return 0;
    };
    s.acknowledge = [](void* d, const char* token, size_t len) -> int32_t {
      of(d).claimed.erase(std::string(token, len));
      return 0;
    };
    s.set_aside = [](void* d, const char* token, size_t len) -> int32_t {
      return move(of(d).claimed, of(d).damaged, std::string(token, len));
    };
    s.read_book = [](void* d, rl_store_found_fn found, void* context) -> int32_t {
      if (of(d).book.empty()) return 0;
      return found(context, nullptr, 0, of(d).book.data(), of(d).book.size());
    };
    s.write_book = [](void* d, const void* data, uint64_t size) -> int32_t {
      if (of(d).broken) return kBroken;
      of(d).book.assign(static_cast<const char*>(data), size);
      return 0;
    };
    s.describe = [](void*, int32_t code, char* text, size_t size) {
      std::snprintf(text, size, "broken with %d", code);
    };
    return s;
  }
};

class AbiStore : public ::testing::Test {
 protected:
  void SetUp() override {
    EXPECT_RL_OK(rl_options_create(&options_, &err));
    set(options_, "pipeline.samples_per_prompt", "2");
  }
  void TearDown() override {
    rl_error_release(error_);
    rl_options_destroy(options_);
  }

  rl_buffer* open() {
    const rl_store store = queue_.table();
    rl_buffer* buffer = nullptr;
    EXPECT_RL_OK(rl_buffer_create_stored(options_, 16, &store, &buffer, &err));
    return buffer;
  }
  rl_status put_one(rl_buffer* buffer, uint64_t ordinal, uint32_t slot) {
    static const int32_t ids[] = {1, 2, 3};
    rl_sample_view s;
    rl_sample_view_init(&s, sizeof s);
    s.sample_id = (uint64_t{3} << 48) + 2 * ordinal + slot;
    s.ordinal = ordinal;
    s.slot = slot;
    s.ids = ids;
    s.num_ids = 3;
    s.num_prompt = s.scored = 1;
    return rl_buffer_put(buffer, &s, fresh());
  }
  void put(rl_buffer* buffer, uint64_t ordinal) {
    EXPECT_EQ(put_one(buffer, ordinal, 0), RL_OK);
    EXPECT_EQ(put_one(buffer, ordinal, 1), RL_OK);
  }
  // The number of samples of the batch, if there is one.
  rl_status take(rl_buffer* buffer, uint64_t step, size_t* count = nullptr) {
    rl_take take;
    rl_take_init(&take, sizeof take);
    take.step = step;
    rl_batch* batch = nullptr;
    const rl_status status = rl_buffer_take(buffer, &take, 0, &batch, fresh());
    if (count != nullptr) *count = rl_batch_count(batch);
    rl_batch_release(batch);
    return status;
  }
  rl_error** fresh() {
    rl_error_release(error_);
    error_ = nullptr;
    return &error_;
  }
  std::string text(int32_t field = RL_ERROR_SUMMARY) const { return text_of(error_, field); }
  static rl_buffer_stats stats_of(const rl_buffer* buffer) {
    rl_buffer_stats stats;
    rl_buffer_stats_init(&stats, sizeof stats);
    EXPECT_RL_OK(rl_buffer_get_stats(buffer, &stats, &err));
    return stats;
  }

  rl_options* options_ = nullptr;
  rl_error* error_ = nullptr;
  Queue queue_;
};

TEST_F(AbiStore, GroupsGoThroughAStoreOfTheHost) {
  rl_buffer *const sampler = open(), *const trainer = open();
  for (uint64_t ordinal = 0; ordinal < 3; ++ordinal) put(sampler, ordinal);
  EXPECT_EQ(put_one(sampler, 9, 0), RL_OK);
  const rl_buffer_stats given = stats_of(sampler);
  EXPECT_EQ(given.put, given.stored + given.samples);
  EXPECT_EQ(given.stored, 6u);
  size_t count = 0;
  EXPECT_EQ(take(trainer, 1, &count), RL_OK);
  EXPECT_EQ(count, 6u);
  EXPECT_EQ(queue_.claimed.size(), 3u);
  EXPECT_EQ(queue_.claimed.begin()->first, "000003-00000000000000000000");
  EXPECT_EQ(rl_buffer_acknowledge(trainer, 1, fresh()), RL_OK) << text();
  EXPECT_TRUE(queue_.claimed.empty());
  put(sampler, 1);
  EXPECT_EQ(take(trainer, 2), RL_TIMEOUT);
  const rl_buffer_stats stats = stats_of(trainer);
  EXPECT_EQ(stats.taken, 6u);
  EXPECT_EQ(stats.acknowledged_groups, 3u);
  EXPECT_EQ(stats.duplicate_groups, 1u);
  EXPECT_EQ(take(trainer, 1), RL_OUT_OF_RANGE) << "step 1 is acknowledged";
  EXPECT_EQ(text(RL_ERROR_KEY), "take.step");
  rl_buffer_destroy(sampler);
  rl_buffer_destroy(trainer);
  EXPECT_EQ(queue_.ended, 2);
}

TEST_F(AbiStore, AFailureOfTheStoreNamesWhatFailed) {
  rl_buffer* const buffer = open();
  put(buffer, 0);
  EXPECT_EQ(put_one(buffer, 1, 0), RL_OK);
  queue_.broken = true;
  EXPECT_EQ(put_one(buffer, 1, 1), RL_IO);
  EXPECT_NE(text().find("broken with 77"), std::string::npos) << text();
  EXPECT_EQ(rl_error_system_code(error_), kBroken);
  EXPECT_EQ(stats_of(buffer).samples, 1u) << "the sample of the call is not here";
  EXPECT_EQ(take(buffer, 1), RL_IO);
  EXPECT_EQ(rl_buffer_acknowledge(buffer, 1, fresh()), RL_IO);
  EXPECT_EQ(rl_buffer_resume(buffer, 1, fresh()), RL_IO);
  queue_.broken = false;
  EXPECT_EQ(put_one(buffer, 1, 1), RL_OK) << text();
  size_t count = 0;
  EXPECT_EQ(take(buffer, 1, &count), RL_OK);
  EXPECT_EQ(count, 4u);
  rl_buffer_destroy(buffer);
}

TEST_F(AbiStore, AStepIsKeptOrItsGroupsComeAgain) {
  rl_buffer* buffer = open();
  put(buffer, 0);
  EXPECT_EQ(take(buffer, 1), RL_OK);
  rl_buffer_destroy(buffer);
  buffer = open();
  EXPECT_EQ(take(buffer, 1), RL_FAILED_PRECONDITION) << "was step 1 kept?";
  EXPECT_EQ(rl_buffer_acknowledge(buffer, 1, fresh()), RL_FAILED_PRECONDITION);
  EXPECT_EQ(rl_buffer_resume(buffer, 0, fresh()), RL_OK) << text();
  EXPECT_EQ(take(buffer, 1), RL_OK);
  EXPECT_EQ(rl_buffer_acknowledge(buffer, 1, fresh()), RL_OK);
  EXPECT_EQ(rl_buffer_resume(buffer, 0, fresh()), RL_FAILED_PRECONDITION);
  rl_buffer_destroy(buffer);
}

TEST_F(AbiStore, DamagedBytesAreSetAside) {
  rl_buffer* const buffer = open();
  put(buffer, 0);
  put(buffer, 1);
  queue_.ready.begin()->second[60] ^= 1;
  EXPECT_EQ(take(buffer, 1), RL_DATA_LOSS);
  EXPECT_NE(text().find("store group 000003-00000000000000000000 offset "), std::string::npos)
      << text();
  EXPECT_EQ(queue_.damaged.size(), 1u);
  EXPECT_EQ(stats_of(buffer).damaged_groups, 1u);
  EXPECT_EQ(take(buffer, 1), RL_OK);
  rl_buffer_destroy(buffer);
}

TEST_F(AbiStore, WhatDoesNotGoTogetherIsRefused) {
  rl_buffer* buffer = nullptr;
  const std::pair<const char*, std::function<void(rl_store&)>> missing[] = {
      {"store.put", [](rl_store& s) { s.put = nullptr; }},
      {"store.claim", [](rl_store& s) { s.claim = nullptr; }},
      {"store.recover", [](rl_store& s) { s.recover = nullptr; }},
      {"store.acknowledge", [](rl_store& s) { s.acknowledge = nullptr; }},
      {"store.set_aside", [](rl_store& s) { s.set_aside = nullptr; }},
      {"store.read_book", [](rl_store& s) { s.read_book = nullptr; }},
      {"store.write_book", [](rl_store& s) { s.write_book = nullptr; }},
  };
  int ended = 0;
  for (const auto& [name, remove] : missing) {
    rl_store store = queue_.table();
    remove(store);
    EXPECT_EQ(rl_buffer_create_stored(options_, 16, &store, &buffer, fresh()), RL_INVALID_ARGUMENT);
    EXPECT_EQ(text(RL_ERROR_KEY), name);
    EXPECT_EQ(queue_.ended, ++ended) << "user_data is consumed";
  }
  const rl_store store = queue_.table();
  EXPECT_EQ(rl_buffer_create_stored(options_, 0, &store, &buffer, fresh()), RL_OUT_OF_RANGE);
  set(options_, "buffer.store_path", "d");
  EXPECT_EQ(rl_buffer_create_stored(options_, 16, &store, &buffer, fresh()), RL_CONFLICT);
  EXPECT_EQ(text(RL_ERROR_KEY), "buffer.store_path");
  set(options_, "buffer.store_path", "");
  buffer = open();
  EXPECT_EQ(rl_buffer_save(buffer, "f", 1, nullptr, 0, fresh()), RL_UNSUPPORTED);
  EXPECT_EQ(rl_buffer_set_queue(buffer, nullptr, 0, fresh()), RL_UNSUPPORTED);
  rl_buffer_destroy(buffer);
  EXPECT_RL_OK(rl_buffer_create(options_, 16, &buffer, &err));
  EXPECT_EQ(rl_buffer_acknowledge(buffer, 1, fresh()), RL_UNSUPPORTED);
  EXPECT_EQ(rl_buffer_resume(buffer, 1, fresh()), RL_UNSUPPORTED);
  rl_buffer_destroy(buffer);
}

TEST_F(AbiStore, ALeaseKeepsOthersWaiting) {
  const std::string dir =
      std::filesystem::temp_directory_path() / ("rl_lease_abi_" + std::to_string(getpid()));
  set(options_, "buffer.store_path", dir);
  set(options_, "buffer.store_lease_ns", "60s");
  rl_buffer *first = nullptr, *second = nullptr;
  EXPECT_RL_OK(rl_buffer_create(options_, 16, &first, &err));
  EXPECT_RL_OK(rl_buffer_create(options_, 16, &second, &err));
  put(first, 0);
  EXPECT_EQ(take(first, 1), RL_OK) << text();
  EXPECT_EQ(take(second, 1), RL_TIMEOUT);
  EXPECT_EQ(rl_buffer_resume(second, 0, fresh()), RL_BUSY);
  EXPECT_EQ(rl_buffer_acknowledge(second, 1, fresh()), RL_BUSY);
  rl_buffer_destroy(first);
  EXPECT_RL_OK(rl_buffer_resume(second, 0, &err));
  EXPECT_EQ(take(second, 1), RL_OK) << text();
  rl_buffer_destroy(second);
  set(options_, "buffer.store_path", "");
  EXPECT_EQ(rl_buffer_create(options_, 16, &first, fresh()), RL_CONFLICT);
  EXPECT_EQ(text(RL_ERROR_KEY), "buffer.store_lease_ns");
  std::filesystem::remove_all(dir);
}

TEST_F(AbiStore, APipelineOfOneRoleHasAStoreOfTheHost) {
  set(options_, "model.path", RL_FIXTURES "/models/llama");
  set(options_, "runtime.threads", "1");
  set(options_, "engine.max_model_len", "32");
  set(options_, "sampling.max_new_tokens", "4");
  set(options_, "trainer.max_tokens_per_device", "64");
  rl_runtime* runtime = nullptr;
  rl_model *model = nullptr, *other = nullptr;
  rl_pipeline* pipeline = nullptr;
  EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, options_, &runtime, &err));
  EXPECT_RL_OK(rl_model_open(runtime, options_, RL_USE_PIPELINE, &model, &err));
  EXPECT_RL_OK(rl_model_open(runtime, options_, RL_USE_MODEL, &other, &err));
  const rl_store store = queue_.table();
  EXPECT_EQ(rl_pipeline_create_stored(model, nullptr, &store, &pipeline, fresh()), RL_CONFLICT);
  EXPECT_EQ(text(RL_ERROR_KEY), "pipeline.role");
  set(options_, "pipeline.mode", "async");
  set(options_, "pipeline.role", "train");
  EXPECT_EQ(rl_pipeline_create_stored(other, options_, &store, &pipeline, fresh()),
            RL_FAILED_PRECONDITION);
  EXPECT_EQ(rl_pipeline_create_stored(model, options_, nullptr, &pipeline, fresh()), RL_CONFLICT);
  EXPECT_EQ(text(RL_ERROR_KEY), "buffer.store_path");
  EXPECT_EQ(queue_.ended, 2) << "user_data is consumed";
  EXPECT_RL_OK(rl_pipeline_create_stored(model, options_, &store, &pipeline, &err));
  rl_pipeline_destroy(pipeline);
  EXPECT_EQ(queue_.ended, 3);
  rl_model_destroy(other);
  rl_model_destroy(model);
  rl_runtime_destroy(runtime);
}

TEST_F(AbiStore, ADirectoryNeedsNoHost) {
  const std::string dir =
      std::filesystem::temp_directory_path() / ("rl_store_abi_" + std::to_string(getpid()));
  set(options_, "buffer.store_path", dir);
  rl_buffer *sampler = nullptr, *trainer = nullptr;
  EXPECT_RL_OK(rl_buffer_create(options_, 16, &sampler, &err));
  EXPECT_RL_OK(rl_buffer_create_stored(options_, 16, nullptr, &trainer, &err));
  put(sampler, 0);
  EXPECT_EQ(take(trainer, 1), RL_OK) << text();
  rl_buffer_destroy(sampler);
  rl_buffer_destroy(trainer);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace abi_test
