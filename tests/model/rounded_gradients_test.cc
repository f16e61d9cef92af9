// Gradients in bf16 under a backward: parts of matrices, rows of the vocabulary, nested additions,
// and what the host reads and writes.
#include "model/rounded_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/tiny_model.h"

namespace rl::testing {
namespace {

class RoundedGradientsTest : public ::testing::Test {
 protected:
  RoundedGradients make(int64_t scratch_floats, uint64_t seed = 7) {
    values_.assign(4096, 0);
    scratch_.assign(static_cast<size_t>(scratch_floats), 0.0f);
    RoundedGradients g(*tiny_.compute, {values_.data(), 4096, scratch_.data(), scratch_floats},
                       seed, 0);
    g.begin(3);
    return g;
  }
  // Adds the number of each element of 10 rows of 96, and returns the parts it came in.
  static std::vector<int64_t> add_numbers(RoundedGradients& g) {
    std::vector<int64_t> parts;
    g.add({64, 960, 96}, [&](float* to, int64_t first, int64_t count) {
      parts.push_back(count);
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(to[i], 0.0f);
        to[i] = static_cast<float>(first + i);
      }
    });
    return parts;
  }

  TinyModel tiny_{TinyModel::fixture("llama")};
  std::vector<uint16_t> values_;
  std::vector<float> scratch_;
};

TEST_F(RoundedGradientsTest, PartsAreWholeRowsAndGoWhereTheyBelong) {
  RoundedGradients g = make(300);
  EXPECT_EQ(add_numbers(g), (std::vector<int64_t>{288, 288, 288, 96}));
  for (int64_t i = 0; i < 4096; ++i) {
    const bool inside = i >= 64 && i < 64 + 960;
    const float want = inside ? static_cast<float>(i - 64) : 0.0f;
    EXPECT_NEAR(bf16_value(values_[static_cast<size_t>(i)]), want, want / 128) << i;
  }
  EXPECT_TRUE(std::ranges::all_of(scratch_, [](float x) { return x == 0; }));
  EXPECT_EQ(RoundedGradients::part_elements(130 * 8, 8), 128 * 8) << "many rows: whole 64s";
}

TEST_F(RoundedGradientsTest, EveryAdditionHasRandomNumbersOfItsOwn) {
  RoundedGradients g = make(1024);
  add_numbers(g);
  const std::vector<uint16_t> first = values_;
  std::ranges::fill(values_, uint16_t{0});
  add_numbers(g);
  EXPECT_NE(values_, first) << "the same sums, by the next addition";
  g.begin(3);
  add_numbers(g);
  EXPECT_EQ(values_, first) << "counted from the beginning";
  RoundedGradients later = make(1024);
  later.begin(4);
  add_numbers(later);
  EXPECT_NE(values_, first) << "of another optimizer step";
}

TEST_F(RoundedGradientsTest, NestedAdditionsHaveRoomOfTheirOwn) {
  RoundedGradients g = make(64);
  g.add({0, 20, 20}, [&](float* a, int64_t, int64_t) {
    g.add({100, 20, 20}, [&](float* b, int64_t, int64_t) {
      std::fill_n(a, 20, 1.0f);
      std::fill_n(b, 20, 2.0f);
    });
  });
  EXPECT_EQ(bf16_value(values_[19]), 1.0f);
  EXPECT_EQ(bf16_value(values_[119]), 2.0f);
  EXPECT_EQ(bf16_value(values_[20]), 0.0f);
}

TEST_F(RoundedGradientsTest, RowsOfTheVocabularyAreSummedBeforeTheyAreRounded) {
  RoundedGradients g = make(64);
  const std::vector<int32_t> ids = {9, 2, 9, 9};
  std::vector<float> sums(4 * 8, 77.0f);
  g.add_rows({32, 8, ids, sums.data()}, [&](float* to, std::span<const int32_t> places) {
    for (size_t i = 0; i < places.size(); ++i) {
      for (int64_t c = 0; c < 8; ++c) to[places[i] * 8 + c] += static_cast<float>(i + 1);
    }
  });
  EXPECT_EQ(bf16_value(values_[32 + 2 * 8]), 2.0f);
  EXPECT_EQ(bf16_value(values_[32 + 9 * 8 + 7]), 8.0f);  // 1 + 3 + 4
  EXPECT_EQ(std::ranges::count_if(values_, [](uint16_t v) { return v != 0; }), 16);
}

TEST_F(RoundedGradientsTest, AHostReadsWhatItWrites) {
  RoundedGradients g = make(256);
  add_numbers(g);
  std::vector<float> all(4096);
  g.read(all);
  EXPECT_EQ(all[64 + 100], bf16_value(values_[164]));
  const std::vector<uint16_t> before = values_;
  g.write(all);
  EXPECT_EQ(values_, before);
  all[5] = 1.001f;
  g.write(all);
  EXPECT_NEAR(bf16_value(values_[5]), 1.0f, 1.0f / 128);
  g.spoil();
  EXPECT_TRUE(std::isnan(bf16_value(values_[0])));
}

}  // namespace
}  // namespace rl::testing
