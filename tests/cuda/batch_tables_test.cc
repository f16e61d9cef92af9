// Tables of a batch are uploaded once for all layers, and those of another batch are never taken
// for them.
#include "ops/cuda/batch_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda/attention_batch.h"
#include "cuda_host/emulator.h"
#include "ops/cuda/cuda_compute.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

constexpr AttentionOf kShape{2, 1, 16, 16, 0, Dtype::kF32, Dtype::kF32};

class BatchTablesOnGpu : public ::testing::Test {
 protected:
  BatchTablesOnGpu() { emulated::restart(0); }
  ~BatchTablesOnGpu() override { emulated::restart(0); }

  // The host's copies to the device during f.
  template <typename F>
  static int64_t copies(F&& f) {
    const int64_t before = emulated::calls("cudaMemcpyAsync");
    f();
    return emulated::calls("cudaMemcpyAsync") - before;
  }
};

// Prefill and decode, with splits, as two layers call attention.
TEST_F(BatchTablesOnGpu, TheSecondLayerUploadsNothing) {
  TwoDevices devices(kShape.dtype);
  RowsOfSequences rows(kShape.block_size);
  rows.add(37, 0);
  rows.add(1, 20);
  rows.add(1, 700);
  AttentionData first(kShape, rows), second(kShape, rows);
  EXPECT_GT(copies([&] { first.attend(devices.gpu(), DeviceSide()); }), 0);
  EXPECT_EQ(copies([&] { second.attend(devices.gpu(), DeviceSide()); }), 0);
  second.attend(devices.reference(), HostSide());
  expect_near(kShape.dtype, second.out(), {1e-5, 0});
}

// The sequence moves to other blocks of the same number: the tables differ by their bytes alone.
TEST_F(BatchTablesOnGpu, OtherBlocksAreUploaded) {
  TwoDevices devices(kShape.dtype);
  RowsOfSequences rows(kShape.block_size);
  rows.add(37, 0);
  AttentionData before(kShape, rows);
  before.attend(devices.gpu(), DeviceSide());
  RowsOfSequences others(kShape.block_size);
  others.add(37, 0);
  std::ranges::reverse(others.table(0));
  AttentionData after(kShape, others);
  EXPECT_EQ(copies([&] { after.attend(devices.gpu(), DeviceSide()); }), 1);
  after.attend(devices.reference(), HostSide());
  expect_near(kShape.dtype, after.out(), {1e-5, 0});
}

// More tables than are kept, so that some are forgotten, and then those of the last batch are
// there.
TEST_F(BatchTablesOnGpu, BatchesWithoutEndFindTheirOwnTables) {
  TwoDevices devices(kShape.dtype);
  for (int32_t i = 0; i < 30; ++i) {
    RowsOfSequences rows(kShape.block_size);
    rows.add(1 + i % 15, i);
    AttentionData data(kShape, rows);
    devices.run([&](Compute& compute, auto at) { data.attend(compute, at); });
    expect_near(kShape.dtype, data.out(), {1e-5, 0});
    if (i < 29) continue;
    data.attend(devices.gpu(), DeviceSide());
    EXPECT_EQ(copies([&] { data.attend(devices.gpu(), DeviceSide()); }), 0);
  }
}

class BatchTablesTest : public BatchTablesOnGpu {
 protected:
  static constexpr uint64_t kPiece = cuda::Scratch::kAlignment;
  using Bytes = std::vector<std::byte>;
  // Where a table is that begins with the number; counts uploads.
  const std::byte* get(int number, size_t size = kPiece) {
    Bytes bytes(size);
    std::memcpy(bytes.data(), &number, sizeof number);
    return tables_.get(bytes, [&](std::byte*) { ++uploads_; });
  }

  const DeviceArray<std::byte> memory_{4 * static_cast<int64_t>(kPiece)};
  cuda::BatchTables tables_{{memory_.data(), 4 * kPiece}};
  int uploads_ = 0;
};

TEST_F(BatchTablesTest, ATableIsUploadedOnceAndFoundByAllItsBytes) {
  const std::byte* const one = get(1);
  EXPECT_EQ(get(1), one);
  EXPECT_EQ(uploads_, 1);
  EXPECT_NE(get(2), one);
  EXPECT_NE(get(1, kPiece / 2), one);
  EXPECT_EQ(uploads_, 3);
}

// A table without room is the caller's to upload; the next op begins anew.
TEST_F(BatchTablesTest, TablesOfAnOpStayUntilTheNextOneBegins) {
  const std::byte* const one = get(1);
  tables_.begin_op();
  get(2);
  EXPECT_EQ(get(3, 3 * kPiece), nullptr);
  EXPECT_EQ(get(1), one);
  EXPECT_EQ(uploads_, 2);
  tables_.begin_op();
  EXPECT_NE(get(3, 3 * kPiece), nullptr);
  EXPECT_NE(get(1), nullptr);
  EXPECT_EQ(uploads_, 4);
}

TEST_F(BatchTablesTest, AnUploadThatFailsLeavesNoTable) {
  const Bytes bytes(kPiece);
  expect_error(Code::kInternal, [&] {
    tables_.get(bytes, [](std::byte*) { throw Error(Code::kInternal, "no upload"); });
  });
  EXPECT_NE(get(0), nullptr);
  EXPECT_EQ(uploads_, 1);
}

}  // namespace
}  // namespace rl::testing
