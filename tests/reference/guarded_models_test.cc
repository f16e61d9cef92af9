// Models whose device has memory that the host cannot touch have the bits of the reference device:
// passes of all fixtures, decode, values, digests and saved files. And the guard itself finds what
// it is for.
#include <gtest/gtest.h>

#include "core/error.h"
#include "guarded_device.h"
#include "guarded_memory.h"
#include "model_pass.h"
#include "support/expect_error.h"
#include "support/logprob_runs.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

class GuardedMemoryTest : public ::testing::Test {
 protected:
  const TinyModel tiny_ = on_device(guarded_device(), fixture_path("llama"), Dtype::kF32);
  Compute& compute_ = *tiny_.compute;
};

using GuardedMemoryDeathTest = GuardedMemoryTest;

TEST_F(GuardedMemoryDeathTest, ATouchOfTheHostIsFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const float* const master = tiny_.model->master();
  EXPECT_DEATH(std::exit(master[0] == 1.0f ? 1 : 2), "the host touched memory of the device at");
  EXPECT_DEATH(const_cast<float*>(master)[0] = 1.0f, "the host touched memory of the device at");
}

TEST_F(GuardedMemoryTest, HostMemoryInPlaceOfTheDevicesIsFound) {
  std::vector<float> host(8, 1.0f);
  const Error pointer = expect_error(Code::kInternal, [&] {
    zero_floats(compute_, {host.data(), 8});
  });
  EXPECT_NE(pointer.message.find("op zero_floats: a pointer is not memory of the device"),
            std::string::npos);
  const DeviceArray device(compute_, host);
  const std::span<float> logprobs(device.data(), 1);
  const int32_t id = 0;
  const Error span = expect_error(Code::kInternal, [&] {
    head_logprobs(compute_, {device.data(), nullptr, 8, {&id, 1}, logprobs, {}});
  });
  EXPECT_NE(span.message.find("op head_logprobs: a span is not memory of the host"),
            std::string::npos);
  EXPECT_EQ(device.values(), host);
}

TEST_F(GuardedMemoryTest, ArenasSayInWhichMemoryTheyAre) {
  for (const ArenaLedger::Entry& entry : tiny_.ledger.entries())
    EXPECT_EQ(entry.space, MemorySpace::kDevice) << entry.name;
  const Arena host("on the host", 4096, Touch::kNow, compute_.ledger());
  EXPECT_EQ(host.space(), MemorySpace::kHost);
  EXPECT_EQ(tiny_.ledger.entries().back().space, MemorySpace::kHost);
}

TEST_F(GuardedMemoryTest, DecommittedMemoryIsZeroOnceItIsCommitted) {
  Arena arena("test", 8192, Touch::kNow, place_on(compute_));
  fill_bytes(compute_, arena, 0x11);
  arena.decommit();
  arena.commit();
  const auto floats = static_cast<int64_t>(arena.bytes() / sizeof(float));
  for (const float value : values_on(compute_, arena.at<float>(0), floats)) EXPECT_EQ(value, 0);
}

// Larger than the staging buffer, and parts of it.
TEST_F(GuardedMemoryTest, FloatsOfTheDeviceAreReadAndWrittenInParts) {
  constexpr size_t kCount = (size_t{1} << 20) + 77;
  std::vector<float> values(kCount);
  for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i);
  const DeviceArray array(compute_, std::vector<float>(kCount, 0.0f));
  size_t next = 0, parts = 0;
  array.floats().fill([&](std::span<float> part) {
    for (float& value : part) value = values[next++];
    ++parts;
  });
  EXPECT_EQ(parts, 2u);
  EXPECT_EQ(array.values(), values);
  std::vector<float> seen;
  array.floats().part(5, kCount - 5).visit([&](std::span<const float> part) {
    seen.insert(seen.end(), part.begin(), part.end());
  });
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), values.begin() + 5, values.end()));
  const DeviceArray other(compute_, std::vector<float>(4, 0.0f));
  array.floats().part(7, 4).copy_to(other.floats());
  EXPECT_EQ(other.values(), (std::vector<float>{7, 8, 9, 10}));
  expect_error(Code::kInternal, [&] { array.floats().in_host(); });
  expect_error(Code::kInternal, [&] { array.floats().part(1, kCount); });
}

class GuardedModels : public ::testing::TestWithParam<std::string> {
 protected:
  TinyModel load(const Device& device, Dtype dtype) const {
    return on_device(device, fixture_path(GetParam()), dtype);
  }
};

INSTANTIATE_TEST_SUITE_P(Fixtures, GuardedModels, ::testing::ValuesIn(device_fixtures()),
                         case_name);

TEST_P(GuardedModels, PassesAndDecodeHaveTheBitsOfTheReference) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    SCOPED_TRACE(dtype_name(dtype));
    const TinyModel guarded = load(guarded_device(), dtype),
                    reference = load(reference_device(), dtype);
    auto sequences = sequences_for(reference.model->config());
    sequences.pop_back();  // the longest one, for time
    const ModelPass got = run_pass(guarded, sequences), want = run_pass(reference, sequences);
    EXPECT_TRUE(same_bits(got.logits, want.logits));
    EXPECT_TRUE(same_bits(got.entropies, want.entropies));
    EXPECT_TRUE(same_bits(got.gradients, want.gradients));
    for (const int32_t chunk : {1, 7}) {
      EXPECT_TRUE(same_bits(chunked_logprobs(guarded, sequences[1], chunk, 0.7f),
                            chunked_logprobs(reference, sequences[1], chunk, 0.7f)))
          << chunk;
    }
  }
}

TEST_P(GuardedModels, DigestsAndSavedFilesAreThoseOfTheReference) {
  const TinyModel guarded = load(guarded_device(), Dtype::kF32),
                  reference = load(reference_device(), Dtype::kF32);
  EXPECT_EQ(guarded.model->weight_digest(), reference.model->weight_digest());
  const TempDir dir;
  const auto source = open_weight_source(real_fs(), fixture_path(GetParam()));
  guarded.model->save(real_fs(), dir.file("saved"),
                      save_options_for(real_fs(), *source, Dtype::kF32));
  const TinyModel again = on_device(guarded_device(), dir.file("saved"), Dtype::kF32);
  EXPECT_EQ(again.model->weight_digest(), reference.model->weight_digest());
}

TEST(GuardedValues, TheyHaveTheBitsOfTheReference) {
  const std::string path = TinyModel::fixture("llama_value");
  const auto values = [&](const Device& device) {
    return value_pass(on_device(device, path, Dtype::kF32, ModelHead::kScalar));
  };
  EXPECT_TRUE(same_bits(values(guarded_device()), values(reference_device())));
}

// The vectors of the second copy come from the masters, those of a frozen model from the file.
TEST(GuardedCopies, TheyHaveTheBitsOfTheReference) {
  for (const bool frozen : {false, true}) {
    const ModelOptions options{
        .block_size = 16, .compute_copies = frozen ? 1 : 2, .frozen = frozen};
    const auto logprobs = [&](const Device& device) {
      TinyModel tiny(fixture_path("qwen3"), {make_thread_executor(1), device}, Dtype::kF32,
                     options);
      if (!frozen) tiny.model->publish();
      return chunked_logprobs(tiny, {1, 2, 3, 40, 50}, 2, 1.0f);
    };
    EXPECT_TRUE(same_bits(logprobs(guarded_device()), logprobs(reference_device())));
  }
}

}  // namespace
}  // namespace rl::testing
