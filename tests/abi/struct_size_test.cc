// Public structs of every size from 0 to twice their own, at the end of a page whose successor
// cannot be touched, through every function that takes one: the library reads and writes no byte
// beyond struct_size. The functions and the first released sizes are those of calls.inc.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>

#include "abi/valid_arguments.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace abi_test {
namespace {

constexpr char kPoison = 0x5a;

// `size` bytes, at least 8, that end where the readable memory ends. Structs are 8-byte aligned, so
// up to 7 bytes lie between: they keep their poison, and AddressSanitizer refuses to read them.
class Guarded {
 public:
  explicit Guarded(size_t size)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), size_(std::max(size, sizeof(size_t))) {
    base_ = static_cast<char*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page_, page_, PROT_NONE);
    std::memset(base_, kPoison, page_);
    std::memcpy(data(), &size, sizeof size);
#if defined(__SANITIZE_ADDRESS__)
    __asan_poison_memory_region(data() + size_, slack());
#endif
  }
  ~Guarded() {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(data() + size_, slack());
#endif
    munmap(base_, 2 * page_);
  }
  char* data() const { return base_ + page_ - (size_ + 7) / 8 * 8; }
  bool is(char value, size_t from, size_t to) const {
    for (size_t i = from; i < to; ++i) {
      if (data()[i] != value) return false;
    }
    return true;
  }
  // Nothing before or behind the struct was written.
  bool surroundings_are_whole() const {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(data() + size_, slack());
#endif
    for (const char* p = base_; p < data(); ++p) {
      if (*p != kPoison) return false;
    }
    return is(kPoison, size_, size_ + slack());
  }
  size_t struct_size() const {
    size_t size = 0;
    std::memcpy(&size, data(), sizeof size);
    return size;
  }

 private:
  size_t slack() const { return (size_ + 7) / 8 * 8 - size_; }
  size_t page_, size_;
  char* base_;
};

class StructSize : public ::testing::Test {
 protected:
  // Runs check(row, i, size) for each parameter of the kind and each size.
  static void for_each_size(Is is, bool init,
                            const std::function<void(const Row&, size_t, size_t)>& check) {
    size_t functions = 0;
    for (const Row& row : rows()) {
      for (size_t i = 0; i < row.parameters.size(); ++i) {
        if (row.parameters[i].is != is || row.ends_with("_init") != init) continue;
        ++functions;
        for (size_t size = 0; size <= 2 * row.parameters[i].bytes; ++size) {
          SCOPED_TRACE(std::string(row.name) + " of size " + std::to_string(size));
          check(row, i, size);
        }
      }
    }
    EXPECT_GT(functions, 0u);
  }
};

TEST_F(StructSize, InitFillsTheWholeStructOrNothing) {
  for_each_size(Is::kStructOut, true, [](const Row& row, size_t i, size_t size) {
    const Parameter& p = row.parameters[i];
    const Guarded memory(size);
    std::memset(memory.data(), kPoison, std::max(size, sizeof(size_t)));
    Word words[2] = {};
    words[0].pointer = memory.data();
    words[1].integer = size;
    row.call(words);
    if (size < p.first_bytes) {
      EXPECT_TRUE(memory.is(kPoison, 0, size));
    } else {
      EXPECT_EQ(memory.struct_size(), size);
      EXPECT_TRUE(memory.is(0, std::min(p.bytes, size), size));
    }
    EXPECT_TRUE(memory.surroundings_are_whole());
    words[0].pointer = nullptr;
    row.call(words);
  });
}

// rl_event_sample gets an event without a sample, which it says after the size.
TEST_F(StructSize, ResultsFillWhatTheCallerHas) {
  const Host host;
  for_each_size(Is::kStructOut, false, [&](const Row& row, size_t i, size_t size) {
    const Parameter& p = row.parameters[i];
    const Guarded memory(size), again(p.bytes);
    Arguments arguments(row, host), whole(row, host);
    arguments.set_pointer(i, memory.data());
    const bool enough = size >= p.first_bytes;
    EXPECT_EQ(arguments.status(), enough ? valid_status(row) : RL_INVALID_ARGUMENT)
        << arguments.complaint();
    if (!enough) {
      EXPECT_EQ(text_of(arguments.error(), RL_ERROR_KEY), p.name);
    }
    EXPECT_EQ(memory.struct_size(), size);
    EXPECT_TRUE(memory.surroundings_are_whole());
    if (!enough) return;
    EXPECT_TRUE(memory.is(0, std::min(p.bytes, size), size));
    whole.set_pointer(i, again.data());
    EXPECT_EQ(whole.status(), valid_status(row));
    if (row.name == std::string("rl_runtime_get_clock")) return;  // time goes on
    const size_t both = std::min(p.bytes, size) - sizeof size;
    EXPECT_EQ(std::memcmp(memory.data() + sizeof size, again.data() + sizeof size, both), 0);
  });
}

TEST_F(StructSize, AnImpossibleSizeIsRefused) {
  const Host host;
  for (const Row& row : rows()) {
    for (size_t i = 0; i < row.parameters.size(); ++i) {
      const Is is = row.parameters[i].is;
      if (!row.has_status || (is != Is::kStructIn && is != Is::kStructOut)) continue;
      SCOPED_TRACE(row.name);
      const Guarded memory(row.parameters[i].bytes);
      std::memset(memory.data(), 0xff, sizeof(size_t));
      Arguments arguments(row, host);
      arguments.set_pointer(i, memory.data());
      EXPECT_EQ(arguments.status(), RL_INVALID_ARGUMENT);
    }
  }
}

// Calls with the known part of a valid input in a struct of another size; byte `dirty` of the rest
// is set.
rl_status give(const Row& row, const Host& host, size_t i, size_t size, size_t dirty) {
  Arguments arguments(row, host);
  const Guarded memory(size);
  const Parameter& p = row.parameters[i];
  std::memset(memory.data(), 0, size);
  std::memcpy(memory.data(), arguments.pointer(i), std::min(size, p.bytes));
  std::memcpy(memory.data(), &size, sizeof size);
  if (dirty >= p.bytes && dirty < size) memory.data()[dirty] = 1;
  arguments.set_pointer(i, memory.data());
  const rl_status status = arguments.status();
  EXPECT_TRUE(memory.surroundings_are_whole());
  arguments.release_results();
  return status;
}

TEST_F(StructSize, LargerInputsMustBeZeroWhereUnknown) {
  Host host;
  // What a call put into an object does not stand in the way of the next.
  const auto fresh = [&](const std::string& called) {
    const auto of = [&](const char* object) { return called.starts_with(object); };
    if (of("rl_pipeline_")) host.renew_pipeline();
    if (of("rl_trainer_")) host.renew_trainer();
    if (of("rl_conversation_")) host.renew_conversation();
    if (of("rl_buffer_")) host.renew_buffer();
    if (!of("rl_engine_")) return;
    rl_batch* batch = nullptr;
    rl_engine_abort(host.engine, 0, nullptr, nullptr);
    rl_engine_take(host.engine, &batch, nullptr);
    rl_batch_release(batch);
  };
  for_each_size(Is::kStructIn, false, [&](const Row& row, size_t i, size_t size) {
    const Parameter& p = row.parameters[i];
    EXPECT_EQ(give(row, host, i, size, 0),
              size < p.first_bytes ? RL_INVALID_ARGUMENT : valid_status(row));
    fresh(row.name);
    for (size_t dirty = p.bytes; dirty < size; ++dirty) {
      EXPECT_EQ(give(row, host, i, size, dirty), RL_UNSUPPORTED) << "byte " << dirty << " is set";
    }
  });
}

}  // namespace
}  // namespace abi_test
