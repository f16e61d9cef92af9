// Which passes are decode batches: the caller says so. Passes of single rows that are none, and
// what a decode batch may not have.
#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

// Three sequences of two tokens that begin with the same one, in a pool of garbage.
class OneTokenPrompt : public ::testing::Test {
 protected:
  OneTokenPrompt()
      : tiny_(TinyModel::fixture("llama"), Dtype::kF32, 2),
        room_(tiny_, {{1, 17}, {1, 44}, {1, 9}, {1}}) {
    spoil();
  }
  void spoil() { std::memset(room_.pool.data, 0x7f, room_.pool.bytes()); }
  const int32_t* block(size_t i) const { return room_.slices()[i].blocks; }
  std::vector<std::byte> hidden(int64_t first, int64_t rows) const {
    const int64_t bytes = tiny_.model->config().hidden * dtype_bytes(Dtype::kF32);
    return {room_.buffers->hidden + first * bytes, room_.buffers->hidden + (first + rows) * bytes};
  }
  void pass(const std::vector<int32_t>& ids, const std::vector<SequenceRows>& sequences,
            bool decode = false) {
    forward(*tiny_.model, {.ids = ids, .sequences = sequences, .decode = decode}, room_.pool,
            *room_.buffers, nullptr);
  }
  // The last rows, each sequence computed alone and whole.
  std::vector<std::byte> last_rows() {
    std::vector<std::byte> out;
    for (int32_t i = 0; i < 3; ++i) {
      pass({1, second_[i]}, {{0, 2, 0, block(i)}});
      const auto row = hidden(1, 1);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }

  static constexpr int32_t second_[] = {17, 44, 9};
  TinyModel tiny_;
  TrainingBatch room_;
};

TEST_F(OneTokenPrompt, SharedByResponsesOfOneRowIsNoDecodeBatch) {
  const auto want = last_rows();
  spoil();
  pass({1, 17, 44, 9}, {{0, 1, 0, block(3)},
                        {1, 1, 1, block(0), 0},
                        {2, 1, 1, block(1), 0},
                        {3, 1, 1, block(2), 0}});
  EXPECT_TRUE(hidden(1, 3) == want);
}

TEST_F(OneTokenPrompt, ADecodeBatchHasTheBitsOfAnyOther) {
  const auto want = last_rows();  // and their first tokens are in the pool now
  const std::vector<SequenceRows> sequences = {
      {0, 1, 1, block(0)}, {1, 1, 1, block(1)}, {2, 1, 1, block(2)}};
  for (const bool decode : {false, true}) {
    pass({17, 44, 9}, sequences, decode);
    EXPECT_TRUE(hidden(0, 3) == want) << decode;
  }
}

TEST_F(OneTokenPrompt, ADecodeBatchHasNoSharedPrefixNoSecondRowAndKeepsNothing) {
  const auto refused = [&](const std::vector<int32_t>& ids,
                           const std::vector<SequenceRows>& sequences, SavedActivations* saved) {
    try {
      forward(*tiny_.model, {.ids = ids, .sequences = sequences, .decode = true}, room_.pool,
              *room_.buffers, saved);
    } catch (const Error& e) {
      return e.code == Code::kInternal;
    }
    return false;
  };
  EXPECT_TRUE(refused({1, 17}, {{0, 1, 0, block(3)}, {1, 1, 1, block(0), 0}}, nullptr));
  EXPECT_TRUE(refused({1, 17}, {{0, 2, 0, block(0)}}, nullptr));
  EXPECT_TRUE(refused({1}, {{0, 1, 0, block(0)}}, room_.saved.get()));
  EXPECT_FALSE(refused({1}, {{0, 1, 0, block(0)}}, nullptr));
}

}  // namespace
}  // namespace rl::testing
