// DLPack in and out: what is taken, what is refused by which status, how often a producer's deleter
// is called, and that tensors and what they were made from end in any order, on any thread.
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <thread>

#include "abi/dlpack_host.h"
#include "abi/host.h"
#include "support/mutate.h"

namespace abi_test {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

rl_tensor_info info_of(const rl_tensor* tensor) {
  rl_tensor_info info;
  rl_tensor_info_init(&info, sizeof info);
  EXPECT_RL_OK(rl_tensor_get_info(tensor, &info, &err));
  return info;
}

class Dlpack : public ::testing::Test {
 protected:
  Dlpack() { EXPECT_RL_OK(rl_runtime_create(RL_ABI_VERSION, nullptr, &runtime_, &err)); }
  ~Dlpack() override { rl_runtime_destroy(runtime_); }

  rl_tensor* import(Producer& producer, uint64_t flags = 0) {
    rl_tensor* tensor = nullptr;
    EXPECT_RL_OK(
        rl_tensor_import_dlpack(runtime_, &producer.managed, nullptr, flags, &tensor, &err));
    return tensor;
  }
  // The call fails by the status, its text has the words, and the producer gets its tensor back.
  void expect_refused(Producer& producer, rl_status expected, const std::string& words) {
    rl_tensor* tensor = reinterpret_cast<rl_tensor*>(1);
    rl_error* err = nullptr;
    const int before = producer.deleted;
    EXPECT_EQ(rl_tensor_import_dlpack(runtime_, &producer.managed, nullptr, 0, &tensor, &err),
              expected);
    const std::string text = text_of(err, RL_ERROR_MESSAGE);
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_EQ(text_of(err, RL_ERROR_KEY), "managed");
    EXPECT_EQ(tensor, nullptr);
    EXPECT_EQ(producer.deleted, before + 1);
    rl_error_release(err);
  }

  rl_runtime* runtime_ = nullptr;
};

TEST_F(Dlpack, ATensorIsReadWhereItLies) {
  Producer producer({2, 3}, {1, 2, 3, 4, 5, 6});
  rl_tensor* const tensor = import(producer);
  const rl_tensor_info info = info_of(tensor);
  EXPECT_EQ(info.data, producer.values.data());
  ASSERT_EQ(info.num_dims, 2u);
  EXPECT_EQ(info.shape[0], 2);
  EXPECT_EQ(info.shape[1], 3);
  EXPECT_EQ(info.strides[0], 3);
  EXPECT_EQ(info.strides[1], 1);
  EXPECT_EQ(info.num_elements, 6u);
  EXPECT_EQ(info.dtype, RL_DTYPE_F32);
  EXPECT_EQ(info.device, RL_DEVICE_CPU);
  EXPECT_EQ(info.read_only, 0u);
  rl_tensor* other = nullptr;
  EXPECT_RL_OK(rl_tensor_retain(tensor, &other, &err));
  rl_tensor_release(tensor);
  EXPECT_EQ(producer.deleted, 0) << "the second handle has it";
  EXPECT_EQ(info_of(other).data, producer.values.data());
  rl_tensor_release(other);
  EXPECT_EQ(producer.deleted, 1);
  rl_tensor_release(other);
  EXPECT_EQ(producer.deleted, 1);
}

TEST_F(Dlpack, ByteOffsetFlagsTypesAndScalarsAreFollowed) {
  Producer producer({3}, {1, 2, 3, 4, 5, 6});
  producer.strides = {-1};
  producer.managed.t.strides = producer.strides.data();
  producer.managed.t.byte_offset = 4 * sizeof(float);
  producer.managed.flags = 1 | 2;
  producer.managed.minor = 9;
  rl_tensor* const reversed = import(producer);
  EXPECT_EQ(info_of(reversed).data, producer.values.data() + 4);
  EXPECT_EQ(info_of(reversed).strides[0], -1);
  EXPECT_EQ(info_of(reversed).read_only, 1u);
  rl_tensor_release(reversed);
  Producer scalar({}, {7});
  scalar.managed.t.shape = nullptr;
  rl_tensor* const one = import(scalar);
  EXPECT_EQ(info_of(one).num_elements, 1u);
  EXPECT_EQ(info_of(one).shape, nullptr);
  rl_tensor_release(one);
  Producer empty({0, 5});
  empty.managed.t.data = nullptr;
  rl_tensor* const none = import(empty, RL_TENSOR_COPY);
  EXPECT_EQ(info_of(none).num_elements, 0u);
  rl_tensor_release(none);
  const struct {
    uint8_t code, bits;
    int32_t dtype;
  } types[] = {{4, 16, RL_DTYPE_BF16}, {0, 32, RL_DTYPE_I32}};
  for (const auto& type : types) {
    Producer typed({2}, {0, 0});
    typed.managed.t.code = type.code;
    typed.managed.t.bits = type.bits;
    rl_tensor* const tensor = import(typed);
    EXPECT_EQ(info_of(tensor).dtype, type.dtype);
    rl_tensor_release(tensor);
  }
}

TEST_F(Dlpack, ACopyEndsTheProducersTensorAtOnceAndIsRowMajor) {
  Producer producer({2, 3}, {1, 4, 2, 5, 3, 6, 0});
  producer.strides = {1, 2};
  producer.managed.t.strides = producer.strides.data();
  producer.managed.flags = 1;
  // Of no alignment: a byte behind the start of an element.
  std::memmove(reinterpret_cast<char*>(producer.values.data()) + 1, producer.values.data(),
               6 * sizeof(float));
  producer.managed.t.byte_offset = 1;
  rl_tensor* const tensor = import(producer, RL_TENSOR_COPY);
  EXPECT_EQ(producer.deleted, 1);
  producer.values.assign(7, -1);
  const rl_tensor_info info = info_of(tensor);
  EXPECT_EQ(info.read_only, 0u);
  EXPECT_EQ(info.strides[0], 3);
  const auto* const values = static_cast<const float*>(info.data);
  EXPECT_EQ(std::vector<float>(values, values + 6), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  rl_tensor_release(tensor);
  EXPECT_EQ(producer.deleted, 1);
}

TEST_F(Dlpack, AnotherMajorVersionIsGivenBackUnread) {
  for (const uint32_t major : {0u, 2u, 0xffffffffu}) {
    Producer producer({2}, {1, 2});
    producer.managed.major = major;
    // None of these may be looked at.
    producer.managed.flags = ~uint64_t{0};
    std::memset(static_cast<void*>(&producer.managed.t), 0xff, sizeof producer.managed.t);
    expect_refused(producer, RL_INCOMPATIBLE, "DLPack " + std::to_string(major));
  }
}

TEST_F(Dlpack, WhatLibrlDoesNotFollowIsNamed) {
  Producer producer({2}, {1, 2});
  const auto spoil = [&](auto& field, auto value, rl_status status, const std::string& words) {
    const auto before = field;
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
    expect_refused(producer, status, words);
    field = before;
  };
  auto& t = producer.managed.t;
  spoil(producer.managed.flags, 4, RL_UNSUPPORTED, "bits that librl does not know: 4");
  spoil(producer.managed.flags, uint64_t{1} << 63, RL_UNSUPPORTED, "9223372036854775808");
  spoil(t.device_type, 2, RL_UNSUPPORTED, "device type 2");
  spoil(t.device_id, 1, RL_UNSUPPORTED, "number 1");
  spoil(t.lanes, 4, RL_UNSUPPORTED, "4 lanes");
  spoil(t.lanes, 0, RL_UNSUPPORTED, "0 lanes");
  spoil(t.bits, 64, RL_UNSUPPORTED, "64 bits");
  spoil(t.code, 1, RL_UNSUPPORTED, "type code 1");
  spoil(t.ndim, -1, RL_OUT_OF_RANGE, "-1 dimensions");
  spoil(t.ndim, 65, RL_OUT_OF_RANGE, "65 dimensions");
  spoil(t.shape, nullptr, RL_INVALID_ARGUMENT, "shape is NULL");
  spoil(t.data, nullptr, RL_INVALID_ARGUMENT, "data is NULL");
  spoil(t.byte_offset, ~uint64_t{0}, RL_OUT_OF_RANGE, "byte_offset");
  spoil(producer.shape[0], -1, RL_OUT_OF_RANGE, "extent -1 in dimension 0");
  spoil(producer.shape[0], kLargest, RL_OUT_OF_RANGE, "more than 2^63-1 bytes");
  EXPECT_EQ(producer.deleted, 15);
  int64_t extents[3] = {int64_t{1} << 31, int64_t{1} << 31, 0};
  t.shape = extents;
  t.ndim = 3;
  expect_refused(producer, RL_OUT_OF_RANGE, "more than 2^63-1 bytes");  // its elements are none
}

TEST_F(Dlpack, StridesThatLeadOutOfTheAddressSpaceAreRefused) {
  for (const int64_t stride :
       {kLargest, -kLargest - 1, kLargest / 2, kLargest / 4, -(kLargest / 4)}) {
    Producer producer({8, 2}, {1, 2});
    producer.strides = {stride, 1};
    producer.managed.t.strides = producer.strides.data();
    expect_refused(producer, RL_OUT_OF_RANGE, "strides");
  }
}

TEST_F(Dlpack, TheTensorIsConsumedWhateverIsWrongWithTheCall) {
  Producer producer({2}, {1, 2});
  rl_tensor* tensor = nullptr;
  DLManagedTensorVersioned* const managed = &producer.managed;
  int stream = 0;
  EXPECT_EQ(rl_tensor_import_dlpack(nullptr, managed, nullptr, 0, &tensor, nullptr),
            RL_INVALID_ARGUMENT);
  EXPECT_EQ(rl_tensor_import_dlpack(runtime_, managed, &stream, 0, &tensor, nullptr),
            RL_UNSUPPORTED);
  EXPECT_EQ(rl_tensor_import_dlpack(runtime_, managed, nullptr, 2, &tensor, nullptr),
            RL_INVALID_ARGUMENT);
  EXPECT_EQ(rl_tensor_import_dlpack(runtime_, managed, nullptr, 0, nullptr, nullptr),
            RL_INVALID_ARGUMENT);
  EXPECT_EQ(producer.deleted, 4);
  producer.managed.deleter = nullptr;
  tensor = import(producer);
  rl_tensor_release(tensor);
  producer.managed.t.code = 9;
  EXPECT_EQ(rl_tensor_import_dlpack(runtime_, managed, nullptr, 0, &tensor, nullptr),
            RL_UNSUPPORTED);
  EXPECT_EQ(rl_tensor_export_dlpack(nullptr, nullptr, nullptr, nullptr), RL_INVALID_ARGUMENT);
}

// Fields of any content, among them many that are valid. What is taken can be described and copied
// without leaving the producer's memory; the deleter is called once either way.
TEST_F(Dlpack, BrokenTensorsAreRefusedOrTakenWhole) {
  const int64_t sizes[] = {0, 1, 2, 3, 5, -1, 1 << 20, int64_t{1} << 40, kLargest, -kLargest};
  int taken = 0;
  const int rounds = rl::test::fuzz_rounds(1000);
  for (int round = 0; round < rounds; ++round) {
    rl::test::MutationRng random(static_cast<uint64_t>(round));
    const auto pick = [&](size_t n) { return static_cast<int64_t>(random.below(n)); };
    Producer producer(std::vector<int64_t>(random.below(5)), std::vector<float>(4096, 1));
    producer.managed.t.data = &producer.values[2048];
    for (int64_t& extent : producer.shape) extent = sizes[random.below(pick(4) == 0 ? 10 : 5)];
    for (size_t i = 0; i < producer.shape.size(); ++i) {
      producer.strides.push_back(pick(8) == 0 ? sizes[random.below(10)] : pick(4));
    }
    auto& t = producer.managed.t;
    if (pick(2) == 0) t.strides = producer.strides.data();
    if (pick(16) == 0) producer.managed.major = static_cast<uint32_t>(pick(3));
    if (pick(16) == 0) producer.managed.flags = random.below(8);
    if (pick(16) == 0) t.device_type = static_cast<int32_t>(pick(4));
    if (pick(16) == 0) t.code = static_cast<uint8_t>(pick(6));
    if (pick(16) == 0) t.bits = static_cast<uint8_t>(8 * pick(9));
    if (pick(16) == 0) t.lanes = static_cast<uint16_t>(pick(3));
    if (pick(16) == 0) t.byte_offset = pick(2) == 0 ? random.below(64) : ~random.below(64);
    if (pick(32) == 0) t.data = nullptr;
    rl_tensor* tensor = nullptr;
    const rl_status status =
        rl_tensor_import_dlpack(runtime_, &producer.managed, nullptr, 0, &tensor, nullptr);
    ASSERT_EQ(status == RL_OK, tensor != nullptr);
    ASSERT_EQ(producer.deleted, status == RL_OK ? 0 : 1) << "round " << round;
    if (status != RL_OK) continue;
    ++taken;
    const rl_tensor_info info = info_of(tensor);
    int64_t reach = 64 / 4;  // elements, from the byte_offset above on
    for (size_t i = 0; i < info.num_dims && info.num_elements > 0; ++i) {
      const int64_t stride = std::min<int64_t>(std::max(info.strides[i], -info.strides[i]), 4096);
      reach += std::min<int64_t>(info.shape[i] - 1, 4096) * stride;
    }
    DLManagedTensorVersioned* exported = nullptr;
    EXPECT_RL_OK(rl_tensor_export_dlpack(tensor, nullptr, &exported, &err));
    rl_tensor_release(tensor);
    if (reach < 2000 && info.num_elements <= 4096) {
      EXPECT_RL_OK(
          rl_tensor_import_dlpack(runtime_, exported, nullptr, RL_TENSOR_COPY, &tensor, &err));
      rl_tensor_release(tensor);
    } else {
      end(exported);
    }
    ASSERT_EQ(producer.deleted, 1) << "round " << round;
  }
  EXPECT_GT(taken, rounds / 10);
  EXPECT_LT(taken, rounds);
}

TEST_F(Dlpack, AnExportKeepsTheImportAndSharesItsMemory) {
  Producer producer({2, 2}, {1, 2, 3, 4});
  producer.managed.flags = 1;
  rl_tensor* tensor = import(producer);
  DLManagedTensorVersioned *first = nullptr, *second = nullptr;
  EXPECT_RL_OK(rl_tensor_export_dlpack(tensor, nullptr, &first, &err));
  EXPECT_RL_OK(rl_tensor_export_dlpack(tensor, nullptr, &second, &err));
  rl_tensor_release(tensor);
  rl_runtime_destroy(runtime_);
  EXPECT_NE(first->t.shape, second->t.shape) << "a consumer may write to them";
  EXPECT_EQ(first->major, 1u);
  EXPECT_EQ(first->flags, 1u);
  EXPECT_EQ(first->t.data, producer.values.data());
  EXPECT_EQ(first->t.device_type, 1);
  EXPECT_EQ(first->t.ndim, 2);
  EXPECT_EQ(first->t.code, 2);
  EXPECT_EQ(first->t.bits, 32);
  EXPECT_EQ(first->t.lanes, 1);
  EXPECT_EQ(first->t.shape[1], 2);
  EXPECT_EQ(first->t.strides[0], 2);
  EXPECT_EQ(first->t.byte_offset, 0u);
  end(first);
  EXPECT_EQ(producer.deleted, 0);
  std::thread([second] { end(second); }).join();
  EXPECT_EQ(producer.deleted, 1);
}

TEST_F(Dlpack, TensorsEndInAnyOrderOnManyThreads) {
  constexpr int kThreads = 4, kEach = 200;
  Producer producer({4}, {1, 2, 3, 4});
  rl_tensor* const tensor = import(producer);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kEach; ++k) {
        rl_tensor* mine = nullptr;
        DLManagedTensorVersioned* exported = nullptr;
        if (rl_tensor_retain(tensor, &mine, nullptr) != RL_OK) ++wrong;
        if (rl_tensor_export_dlpack(mine, nullptr, &exported, nullptr) != RL_OK) ++wrong;
        if (k % 2 == 0) rl_tensor_release(mine);
        if (static_cast<const float*>(exported->t.data)[3] != 4) ++wrong;
        end(exported);
        if (k % 2 != 0) rl_tensor_release(mine);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(producer.deleted, 0);
  rl_tensor_release(tensor);
  EXPECT_EQ(producer.deleted, 1);
}

TEST(DlpackOfAModel, AnExportKeepsTheModelAfterEveryHandleEnded) {
  DLManagedTensorVersioned* exported = nullptr;
  {
    Host host;
    rl_tensor* weight = nullptr;
    EXPECT_RL_OK(weight_of(host.model, "lm_head.weight", 0, &weight, &err));
    EXPECT_RL_OK(rl_tensor_export_dlpack(weight, nullptr, &exported, &err));
    rl_tensor_release(weight);
  }
  ASSERT_NE(exported, nullptr);
  EXPECT_EQ(exported->flags, 1u) << "weights are read-only";
  const auto* const values = static_cast<const float*>(exported->t.data);
  double sum = 0;
  const int64_t count = exported->t.shape[0] * exported->t.shape[1];
  for (int64_t i = 0; i < count; ++i) sum += std::abs(values[i]);
  EXPECT_GT(sum, 0);
  std::thread([exported] { end(exported); }).join();
}

TEST(DlpackOfAModel, InAForkedChildAnExportIsLeftAlone) {
  Host host;
  DLManagedTensorVersioned* exported = nullptr;
  EXPECT_RL_OK(rl_tensor_export_dlpack(host.tensor, nullptr, &exported, &err));
  const pid_t child = fork();
  if (child == 0) {
    end(exported);
    const bool whole = static_cast<const float*>(exported->t.data)[0] != 0;  // not freed
    _exit(whole ? 0 : 1);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
  end(exported);
}

}  // namespace
}  // namespace abi_test
