// Samples as bytes: what was encoded is decoded, in its order; bytes that were cut or changed are
// named with their offset; and a file of them is a buffer file.
#include "buffer/batch_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "buffer/buffer_file.h"
#include "buffer/experience_buffer.h"
#include "core/error.h"
#include "support/expect_error.h"
#include "support/mutate.h"
#include "support/sample_groups.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

std::vector<SamplePtr> samples_of(std::vector<std::pair<uint64_t, uint32_t>> keys) {
  std::vector<SamplePtr> out;
  for (const auto& [ordinal, slot] : keys) out.push_back(random_sample(ordinal, slot, 1));
  return out;
}

std::span<const std::byte> as_span(const std::string& bytes) {
  return std::as_bytes(std::span(bytes));
}

std::vector<SamplePtr> decoded(const std::string& bytes) {
  return decode_samples(as_span(bytes), "data");
}

bool same(const std::vector<SamplePtr>& a, const std::vector<SamplePtr>& b) {
  return std::ranges::equal(
      a, b, [](const SamplePtr& x, const SamplePtr& y) { return same_sample(*x, *y); });
}

TEST(BatchBytes, ComeBackInTheirOrder) {
  for (const auto& samples :
       {samples_of({}), samples_of({{3, 0}}), samples_of({{3, 0}, {3, 1}, {4, 0}, {4, 1}}),
        samples_of({{9, 2}, {9, 1}, {1, 0}, {9, 3}, {9, 3}, {9, 0}})}) {
    EXPECT_TRUE(same(decoded(encode_samples(samples)), samples));
  }
}

TEST(BatchBytes, EveryCutIsNamedWithItsOffset) {
  const std::string whole = encode_samples(samples_of({{3, 0}, {3, 1}, {4, 0}}));
  for (size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    const Error e = expect_error(Code::kDataLoss, [&] { decoded(whole.substr(0, size)); });
    EXPECT_TRUE(e.location.starts_with("data offset ")) << e.message;
  }
  const Error longer = expect_error(Code::kDataLoss, [&] { decoded(whole + "x"); });
  EXPECT_TRUE(longer.location.starts_with("data offset ")) << longer.message;
}

// Every byte counts for a checksum; the version has a code of its own.
TEST(BatchBytes, EveryChangedByteIsNamedWithItsOffset) {
  const std::string whole = encode_samples(samples_of({{3, 0}, {3, 1}, {4, 0}}));
  for (size_t at = 0; at < whole.size(); ++at) {
    SCOPED_TRACE(at);
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    try {
      decoded(changed);
      ADD_FAILURE() << "taken";
    } catch (const Error& e) {
      EXPECT_EQ(e.code, at >= 8 && at < 12 ? Code::kIncompatible : Code::kDataLoss) << e.message;
      EXPECT_TRUE(e.location.starts_with("data")) << e.location;
    }
  }
}

TEST(BatchBytes, MutationsLoadOrAreNamedErrors) {
  const std::string whole = encode_samples(samples_of({{3, 0}, {3, 1}, {4, 0}}));
  std::mt19937 rng(17);
  int refused = 0;
  const int rounds = test::fuzz_rounds(1000);
  for (int i = 0; i < rounds; ++i) {
    std::string changed = whole;
    for (uint32_t k = 0; k <= rng() % 4; ++k) {
      changed[rng() % changed.size()] = static_cast<char>(rng());
    }
    if (rng() % 4 == 0) changed.resize(rng() % changed.size());
    try {
      decoded(changed);
    } catch (const Error& e) {
      ++refused;
      EXPECT_TRUE(e.code == Code::kDataLoss || e.code == Code::kIncompatible) << e.message;
    }
  }
  EXPECT_GT(refused, rounds / 2);
}

TEST(BatchBytes, AFileOfThemIsABufferFile) {
  const TempDir dir;
  const auto samples = samples_of({{3, 0}, {3, 1}, {4, 1}});
  write_file_atomically(real_fs(), dir.file("b"), encode_samples(samples));
  ExperienceBuffer buffer(2, 10);
  EXPECT_EQ(load_buffer(real_fs(), dir.file("b"), buffer, nullptr), 3);
  EXPECT_TRUE(same(buffer.take(1), {samples[0], samples[1]}));
  ExperienceBuffer small(1, 10);
  expect_error(Code::kOutOfRange, [&] { load_buffer(real_fs(), dir.file("b"), small, nullptr); });
  save_buffer(real_fs(), dir.file("c"), buffer, {}, {});
  EXPECT_EQ(decoded(read_text_file(real_fs(), dir.file("c"), 1 << 20)).size(), 1u);
}

TEST(BatchBytes, WhatNoDocumentMayHoldIsRefused) {
  auto samples = samples_of({{3, 0}});
  samples[0]->versions.pop_back();
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [&] { encode_samples(samples); }).key, "versions");
}

}  // namespace
}  // namespace rl::testing
