// Memory of the host through rl_allocator: all arenas and owned tensors come from it with the
// alignment asked for, a failure at any of them is RL_OUT_OF_MEMORY by name and leaks nothing, and
// tables that are refused.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

// An allocator that counts, fills what it gives with garbage, and can refuse call number `fail_at`.
class Memory {
 public:
  rl_allocator table() {
    rl_allocator allocator;
    rl_allocator_init(&allocator, sizeof allocator);
    allocator.user_data = this;
    allocator.destroy = end;
    allocator.allocate = allocate;
    allocator.release = release;
    return allocator;
  }

  int ended = 0;
  int calls = 0, fail_at = 0, refused = 0, decommitted = 0, faults = 0;
  uint64_t misplace = 0;  // added to addresses
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& [memory, size] : live_) sum += size;
    return sum;
  }
  size_t count() const { return live_.size(); }

  static void decommit(void* user_data, void* memory, uint64_t size) {
    Memory& me = self(user_data);
    const std::lock_guard lock(me.mutex_);
    me.faults += !me.live_.contains(memory) || me.live_[memory] != size;
    ++me.decommitted;
    std::memset(memory, 0, size);
  }

 private:
  static Memory& self(void* user_data) { return *static_cast<Memory*>(user_data); }
  static void end(void* user_data) { ++self(user_data).ended; }

  static int32_t allocate(void* user_data, uint64_t size, uint64_t alignment, void** memory) {
    Memory& me = self(user_data);
    const std::lock_guard lock(me.mutex_);
    me.faults += size == 0 || size % 4096 != 0 || alignment % 4096 != 0 || *memory != nullptr;
    if (++me.calls == me.fail_at) {
      ++me.refused;
      return ENOMEM;
    }
    const uint64_t rounded = (size + me.misplace + alignment - 1) / alignment * alignment;
    auto* const raw = static_cast<char*>(std::aligned_alloc(alignment, rounded));
    std::memset(raw, 0xa5, rounded);
    *memory = raw + me.misplace;
    me.live_[*memory] = size;
    return 0;
  }

  static void release(void* user_data, void* memory, uint64_t size) {
    Memory& me = self(user_data);
    const std::lock_guard lock(me.mutex_);
    me.faults += !me.live_.contains(memory) || me.live_[memory] != size;
    me.live_.erase(memory);
    std::free(static_cast<char*>(memory) - me.misplace);
  }

  std::mutex mutex_;
  std::map<void*, uint64_t> live_;
};

// Everything of a host's own loop, made one by one. Stops at the first failure.
struct Parts {
  explicit Parts(rl_options* of = tiny_options()) : options(of) {}
  ~Parts() {
    end();
    rl_options_destroy(options);
  }
  Parts(const Parts&) = delete;

  using Step = rl_status (Parts::*)();
  rl_status create(const rl_allocator* allocator) {
    return create(allocator, {&Parts::open, &Parts::make_engine, &Parts::make_trainer});
  }
  // Without an engine: some objectives have none.
  rl_status create_trainer(const rl_allocator* allocator) {
    return create(allocator, {&Parts::open_to_train, &Parts::make_trainer});
  }
  rl_status create(const rl_allocator* allocator, std::initializer_list<Step> steps) {
    end();
    rl_host host;
    rl_host_init(&host, sizeof host);
    host.allocator = allocator;
    const rl_status made =
        rl_runtime_create_hosted(RL_ABI_VERSION, options, &host, &runtime, &error);
    if (made != RL_OK) return made;
    for (const Step step : steps) {
      const rl_status status = (this->*step)();
      if (status != RL_OK) return status;
    }
    return RL_OK;
  }
  rl_status open() { return rl_model_open(runtime, nullptr, RL_USE_PARTS, &model, &error); }
  rl_status open_to_train() {
    return rl_model_open(runtime, nullptr, RL_USE_TRAIN, &model, &error);
  }
  rl_status make_engine() { return rl_engine_create(model, nullptr, &engine, &error); }
  rl_status make_trainer() { return rl_trainer_create(model, nullptr, &trainer, &error); }

  // The tokens of two samples.
  std::string generate() {
    static const int32_t prompt[] = {1, 2, 3};
    rl_request request;
    rl_request_init(&request, sizeof request);
    request.prompt = prompt;
    request.num_prompt = 3;
    request.num_samples = 2;
    uint64_t first_id = 0;
    EXPECT_RL_OK(rl_engine_submit(engine, &request, &first_id, &err));
    EXPECT_RL_OK(rl_engine_run(engine, &err));
    rl_batch* batch = nullptr;
    EXPECT_RL_OK(rl_engine_take(engine, &batch, &err));
    std::string out;
    for (size_t i = 0; i < rl_batch_count(batch); ++i) {
      rl_sample_view view;
      rl_sample_view_init(&view, sizeof view);
      EXPECT_RL_OK(rl_batch_sample(batch, i, &view, &err));
      out.append(reinterpret_cast<const char*>(view.ids), view.num_ids * sizeof *view.ids);
      out.append(reinterpret_cast<const char*>(view.logprobs),
                 (view.num_ids - view.num_prompt) * sizeof *view.logprobs);
    }
    rl_batch_release(batch);
    return out;
  }

  void end() {
    rl_trainer_destroy(trainer);
    rl_engine_destroy(engine);
    rl_model_destroy(model);
    rl_runtime_destroy(runtime);
    rl_error_release(error);
    trainer = nullptr;
    engine = nullptr;
    model = nullptr;
    runtime = nullptr;
    error = nullptr;
  }

  rl_options* const options;
  rl_runtime* runtime = nullptr;
  rl_model* model = nullptr;
  rl_engine* engine = nullptr;
  rl_trainer* trainer = nullptr;
  rl_error* error = nullptr;
};

using Texts = std::vector<std::pair<const char*, const char*>>;

// Options of a trainer on a tiny model, with these.
rl_options* training_options(const Texts& more) {
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  set(options, "model.path", RL_FIXTURES "/models/llama");
  set(options, "runtime.threads", "1");
  set(options, "engine.max_model_len", "64");
  for (const auto& [key, value] : more) set(options, key, value);
  return options;
}

uint64_t rounded_up(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

TEST(HostMemory, EveryArenaComesFromTheHostAndIsGivenBack) {
  Memory memory;
  const rl_allocator table = memory.table();
  Parts plain, hosted;
  ASSERT_EQ(plain.create(nullptr), RL_OK) << text_of(plain.error, RL_ERROR_SUMMARY);
  ASSERT_EQ(hosted.create(&table), RL_OK) << text_of(hosted.error, RL_ERROR_SUMMARY);
  const uint64_t reserved = info_of(hosted.runtime).reserved_bytes;
  EXPECT_GE(memory.bytes(), reserved);
  EXPECT_LT(memory.bytes(), reserved + 4096 * memory.count());
  EXPECT_GT(memory.count(), 4u);
  EXPECT_EQ(memory.faults, 0);
  EXPECT_EQ(hosted.generate(), plain.generate()) << "garbage in new memory changes nothing";
  hosted.end();
  EXPECT_EQ(memory.bytes(), 0u);
  EXPECT_EQ(memory.faults, 0);
  EXPECT_EQ(memory.ended, 1);
}

TEST(HostMemory, ATensorThatOwnsItsMemoryOutlivesTheRuntime) {
  Memory memory;
  const rl_allocator table = memory.table();
  Parts parts;
  ASSERT_EQ(parts.create(&table), RL_OK);
  rl_tensor* weight = nullptr;
  EXPECT_RL_OK(weight_of(parts.model, "model.norm.weight", RL_TENSOR_COPY, &weight, &err));
  parts.end();
  rl_tensor_info info;
  rl_tensor_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_tensor_get_info(weight, &info, &err));
  EXPECT_EQ(memory.count(), 1u);
  EXPECT_EQ(memory.bytes(), rounded_up(info.num_elements * sizeof(float)));
  EXPECT_EQ(memory.ended, 0);
  rl_tensor_release(weight);
  EXPECT_EQ(memory.count(), 0u);
  EXPECT_EQ(memory.ended, 1);
}

TEST(HostMemory, OutputsOfAForwardComeFromTheHost) {
  Memory memory;
  const rl_allocator table = memory.table();
  Parts parts;
  ASSERT_EQ(parts.create(&table), RL_OK);
  const size_t before = memory.count();
  const int32_t ids[] = {1, 2, 3};
  for (const int32_t output :
       {RL_OUTPUT_LOGPROBS, RL_OUTPUT_HIDDEN, RL_OUTPUT_ENTROPIES, RL_OUTPUT_LOGITS}) {
    rl_tensor* tensor = nullptr;
    EXPECT_RL_OK(forward(parts.trainer, output, ids, 3, 1, 1, &tensor, &err));
    EXPECT_EQ(memory.count(), before + 1) << "output " << output;
    rl_tensor_release(tensor);
    EXPECT_EQ(memory.count(), before) << "output " << output;
  }
  EXPECT_EQ(memory.faults, 0);
}

// Scores and values are those of models with a scalar head, and values also those of a critic.
TEST(HostMemory, OutputsOfAScalarHeadComeFromTheHost) {
  const struct {
    Texts texts;
    std::vector<int32_t> outputs;
  } cases[] = {{{{"algo.objective", "reward_model"}}, {RL_OUTPUT_SCORES, RL_OUTPUT_VALUES}},
               {{{"algo.advantage", "gae"}, {"sampling.max_new_tokens", "4"}}, {RL_OUTPUT_VALUES}}};
  for (const auto& [texts, outputs] : cases) {
    SCOPED_TRACE(texts.front().second);
    Memory memory;
    const rl_allocator table = memory.table();
    Parts parts(training_options(texts));
    ASSERT_EQ(parts.create_trainer(&table), RL_OK) << text_of(parts.error, RL_ERROR_SUMMARY);
    const size_t before = memory.count();
    const int32_t ids[] = {1, 2, 3};
    for (const int32_t output : outputs) {
      rl_tensor* tensor = nullptr;
      EXPECT_RL_OK(forward(parts.trainer, output, ids, 3, 1, 1, &tensor, &err));
      EXPECT_EQ(memory.count(), before + 1) << "output " << output;
      rl_tensor_release(tensor);
      EXPECT_EQ(memory.count(), before) << "output " << output;
    }
    EXPECT_EQ(memory.faults, 0);
  }
}

TEST(HostMemory, AFailureOfAnyCallIsOutOfMemoryByNameAndLeaksNothing) {
  Memory memory;
  rl_allocator table = memory.table();
  Parts parts;
  int failures = 0;
  for (int at = 1;; ++at) {
    ASSERT_LT(at, 200);
    memory.calls = memory.refused = memory.ended = 0;
    memory.fail_at = at;
    const rl_status status = parts.create(&table);
    if (memory.refused == 0) {
      EXPECT_EQ(status, RL_OK) << text_of(parts.error, RL_ERROR_SUMMARY);
      break;
    }
    ++failures;
    EXPECT_EQ(status, RL_OUT_OF_MEMORY) << text_of(parts.error, RL_ERROR_SUMMARY);
    EXPECT_NE(text_of(parts.error, RL_ERROR_KEY), "") << "the arena";
    EXPECT_EQ(rl_error_system_code(parts.error), ENOMEM);
    memory.fail_at = 0;
    if (parts.runtime != nullptr) {
      const uint64_t reserved = info_of(parts.runtime).reserved_bytes;
      EXPECT_LT(memory.bytes(), reserved + 4096 * (memory.count() + 1))
          << "the failed call keeps nothing";
      EXPECT_GT(rl_error_knob_count(parts.error), 0u) << "what would need less";
    }
    parts.end();
    EXPECT_EQ(memory.count(), 0u) << "after the failure of call " << at;
    EXPECT_EQ(memory.ended, 1);
  }
  EXPECT_GT(failures, 4);
  EXPECT_EQ(memory.faults, 0);
}

TEST(HostMemory, AnEngineThatSleepsGivesItsPagesBack) {
  Memory memory;
  rl_allocator table = memory.table();
  for (const bool can_decommit : {false, true}) {
    table.decommit = can_decommit ? Memory::decommit : nullptr;
    Parts slept, awake;
    ASSERT_EQ(awake.create(nullptr), RL_OK);
    ASSERT_EQ(slept.create(&table), RL_OK) << text_of(slept.error, RL_ERROR_SUMMARY);
    EXPECT_RL_OK(rl_engine_sleep(slept.engine, 2, &err));
    EXPECT_EQ(memory.decommitted > 0, can_decommit);
    EXPECT_RL_OK(rl_engine_wake(slept.engine, &err));
    EXPECT_EQ(slept.generate(), awake.generate());
  }
  EXPECT_EQ(memory.faults, 0);
}

TEST(HostMemory, MisplacedMemoryIsRefusedAndGivenBack) {
  Memory memory;
  const rl_allocator table = memory.table();
  memory.misplace = 64;
  Parts parts;
  EXPECT_EQ(parts.create(&table), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(parts.error, RL_ERROR_KEY), "allocator.allocate");
  EXPECT_EQ(memory.count(), 0u);
  EXPECT_EQ(memory.faults, 0);
  EXPECT_EQ(memory.ended, 1);
}

TEST(HostMemory, ATableThatIsNotCompleteIsRefusedByName) {
  Memory memory;
  Parts parts;
  rl_allocator table = memory.table();
  table.allocate = nullptr;
  EXPECT_EQ(parts.create(&table), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(parts.error, RL_ERROR_KEY), "allocator.allocate");
  table = memory.table();
  table.release = nullptr;
  EXPECT_EQ(parts.create(&table), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(parts.error, RL_ERROR_KEY), "allocator.release");
  EXPECT_EQ(memory.ended, 2);
  table = memory.table();
  table.struct_size = 8;
  EXPECT_EQ(parts.create(&table), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(parts.error, RL_ERROR_KEY), "allocator");
  EXPECT_EQ(memory.ended, 2) << "nothing but the size was read";
  EXPECT_EQ(memory.calls, 0);
}

}  // namespace
}  // namespace abi_test
