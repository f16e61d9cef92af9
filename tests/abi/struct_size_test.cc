// Public structs of every size from 0 to twice their own, at the end of a page whose successor
// cannot be touched: the library reads and writes no byte beyond struct_size.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "abi/host.h"

namespace abi_test {
namespace {

// `size` bytes that end where the readable memory ends.
class Guarded {
 public:
  explicit Guarded(size_t size) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), size_(size) {
    base_ = static_cast<char*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page_, page_, PROT_NONE);
  }
  ~Guarded() { munmap(base_, 2 * page_); }
  // Structs are 8-byte aligned, so sizes that are not leave up to 7 bytes before the guard.
  char* data() const { return base_ + page_ - (size_ + 7) / 8 * 8; }

 private:
  size_t page_, size_;
  char* base_;
};

template <typename T>
using Init = void (*)(T*, size_t);
template <typename T>
using Get = std::function<rl_status(T*, rl_error**)>;

bool all_zero(const char* data, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) {
    if (data[i] != 0) return false;
  }
  return true;
}

template <typename T>
void check_init(Init<T> init) {
  for (size_t size = 0; size <= 2 * sizeof(T); ++size) {
    SCOPED_TRACE(size);
    const Guarded memory(size < 8 ? 8 : size);
    std::memset(memory.data(), 0x5a, size);
    init(reinterpret_cast<T*>(memory.data()), size);
    size_t written = 0;
    std::memcpy(&written, memory.data(), sizeof written);
    if (size < sizeof(T)) {
      if (size >= 8) {
        EXPECT_EQ(written, 0x5a5a5a5a5a5a5a5a);
      }
    } else {
      EXPECT_EQ(written, size);
      EXPECT_TRUE(all_zero(memory.data(), sizeof(T), size));
    }
  }
  init(nullptr, sizeof(T));
}

template <typename T>
void check_result(Get<T> get) {
  for (size_t size = 0; size <= 2 * sizeof(T); ++size) {
    SCOPED_TRACE(size);
    const Guarded memory(size < 8 ? 8 : size);
    if (size > 8) std::memset(memory.data(), 0x5a, size);
    std::memcpy(memory.data(), &size, sizeof size);
    rl_error* err = nullptr;
    const rl_status status = get(reinterpret_cast<T*>(memory.data()), &err);
    EXPECT_EQ(status, size < sizeof(T) ? RL_INVALID_ARGUMENT : RL_OK)
        << text_of(err, RL_ERROR_SUMMARY);
    rl_error_release(err);
    size_t kept = 0;
    std::memcpy(&kept, memory.data(), sizeof kept);
    EXPECT_EQ(kept, size);
    if (size >= sizeof(T)) {
      EXPECT_TRUE(all_zero(memory.data(), sizeof(T), size));
    }
  }
  T huge;
  huge.struct_size = static_cast<size_t>(-1);
  EXPECT_EQ(get(&huge, nullptr), RL_INVALID_ARGUMENT);
}

class StructSize : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { host_ = new Host; }
  static void TearDownTestSuite() {
    delete host_;
    host_ = nullptr;
  }
  static Host* host_;
};
Host* StructSize::host_ = nullptr;

TEST_F(StructSize, InitFillsTheWholeStructOrNothing) {
  check_init<rl_option_info>(rl_option_info_init);
  check_init<rl_plan_info>(rl_plan_info_init);
  check_init<rl_plan_item>(rl_plan_item_init);
  check_init<rl_model_info>(rl_model_info_init);
  check_init<rl_sample_view>(rl_sample_view_init);
  check_init<rl_event_view>(rl_event_view_init);
  check_init<rl_pipeline_stats>(rl_pipeline_stats_init);
  check_init<rl_request>(rl_request_init);
  check_init<rl_engine_stats>(rl_engine_stats_init);
}

TEST_F(StructSize, ResultsFillWhatTheCallerHas) {
  const Host& h = *host_;
  check_result<rl_option_info>(
      [](rl_option_info* s, rl_error** e) { return rl_option_at(0, s, e); });
  check_result<rl_option_info>([](rl_option_info* s, rl_error** e) {
    return rl_option_find("model.path", RL_NUL_TERMINATED, s, e);
  });
  check_result<rl_plan_info>(
      [&](rl_plan_info* s, rl_error** e) { return rl_plan_get_info(h.plan, s, e); });
  check_result<rl_plan_item>(
      [&](rl_plan_item* s, rl_error** e) { return rl_plan_at(h.plan, 0, s, e); });
  check_result<rl_model_info>(
      [&](rl_model_info* s, rl_error** e) { return rl_model_get_info(h.model, s, e); });
  check_result<rl_sample_view>(
      [&](rl_sample_view* s, rl_error** e) { return rl_batch_sample(h.batch, 0, s, e); });
  check_result<rl_event_view>(
      [&](rl_event_view* s, rl_error** e) { return rl_event_get_view(h.event, s, e); });
  check_result<rl_pipeline_stats>(
      [&](rl_pipeline_stats* s, rl_error** e) { return rl_pipeline_get_stats(h.pipeline, s, e); });
  check_result<rl_engine_stats>(
      [&](rl_engine_stats* s, rl_error** e) { return rl_engine_get_stats(h.engine, s, e); });
}

// The known part of a valid input in a struct of another size; byte `dirty` of the rest is set.
template <typename T>
rl_status give(const T& valid, size_t size, size_t dirty, const Get<const T>& call) {
  const Guarded memory(size < 8 ? 8 : size);
  std::memcpy(memory.data(), &valid, size < sizeof(T) ? size : sizeof(T));
  std::memcpy(memory.data(), &size, sizeof size);
  if (dirty >= sizeof(T) && dirty < size) memory.data()[dirty] = 1;
  return call(reinterpret_cast<const T*>(memory.data()), nullptr);
}

template <typename T>
void check_input(const T& valid, const Get<const T>& call, const std::function<void()>& undo) {
  for (size_t size = 0; size <= 2 * sizeof(T); ++size) {
    SCOPED_TRACE(size);
    EXPECT_EQ(give(valid, size, 0, call), size < sizeof(T) ? RL_INVALID_ARGUMENT : RL_OK);
    undo();
    if (size > sizeof(T)) {
      EXPECT_EQ(give(valid, size, size - 1, call), RL_UNSUPPORTED) << "the last byte is unknown";
      EXPECT_EQ(give(valid, size, sizeof(T), call), RL_UNSUPPORTED) << "the first is";
    }
  }
}

TEST_F(StructSize, LargerInputsMustBeZeroWhereUnknown) {
  const Host& h = *host_;
  static const int32_t prompt[] = {1, 2};
  rl_request request;
  rl_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.num_prompt = 2;
  check_input<rl_request>(
      request,
      [&](const rl_request* r, rl_error** e) {
        uint64_t id = 0;
        return rl_engine_submit(h.engine, r, &id, e);
      },
      [&] {
        rl_batch* batch = nullptr;
        rl_engine_abort(h.engine, nullptr);
        rl_engine_take(h.engine, &batch, nullptr);
        rl_batch_release(batch);
      });
  rl_sample_view sample;
  rl_sample_view_init(&sample, sizeof sample);
  EXPECT_RL_OK(rl_batch_sample(h.batch, 0, &sample, &err));
  rl_buffer* buffer = nullptr;
  EXPECT_RL_OK(rl_buffer_create(h.options, 2, &buffer, &err));
  check_input<rl_sample_view>(
      sample, [&](const rl_sample_view* s, rl_error** e) { return rl_buffer_put(buffer, s, e); },
      [&] {
        rl_buffer_destroy(buffer);
        EXPECT_RL_OK(rl_buffer_create(h.options, 2, &buffer, &err));
      });
  rl_buffer_destroy(buffer);
}

}  // namespace
}  // namespace abi_test
