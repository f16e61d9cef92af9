// Every collective against its definition, for any backend: the values of each rank, what they give
// together, and checks that all ranks of a group call.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "comm/group.h"
#include "core/rng.h"
#include "support/compare_values.h"

namespace rl {

using testing::same_bits;

// Value i of a rank: of very different sizes, so that another order of additions has other bits.
template <typename T>
T value_at(int rank, uint64_t i) {
  const PhiloxBlock r =
      philox4x32_10({static_cast<uint32_t>(i), static_cast<uint32_t>(rank), 0, 0}, {1, 2});
  const float number =
      std::ldexp(static_cast<float>(static_cast<int32_t>(r[0])), static_cast<int>(r[1] % 24) - 40);
  if constexpr (std::is_same_v<T, float>) return number;
  if constexpr (std::is_same_v<T, bf16>) return to_bf16(number);
  if constexpr (std::is_same_v<T, std::byte>) return static_cast<std::byte>(r[2]);
  if constexpr (std::is_same_v<T, int32_t>) return static_cast<int32_t>(r[2]);
  if constexpr (std::is_same_v<T, int64_t>)
    return static_cast<int64_t>(uint64_t{r[2]} << 32 | r[3]);
}

template <typename T>
std::vector<T> values_at(int rank, uint64_t count) {
  std::vector<T> out(count);
  for (uint64_t i = 0; i < count; ++i) out[i] = value_at<T>(rank, i);
  return out;
}

template <typename T>
Values of(std::vector<T>& v) {
  return values_of(std::span<T>(v));
}
template <typename T>
ConstValues of_const(const std::vector<T>& v) {
  return const_values_of(std::span<const T>(v));
}

// The definition of a sum: rank by rank, from 0 on.
template <typename T>
T sum_at(int size, uint64_t i) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, bf16>) {
    float sum = to_float(value_at<T>(0, i));
    for (int r = 1; r < size; ++r) sum += to_float(value_at<T>(r, i));
    if constexpr (std::is_same_v<T, float>) return sum;
    if constexpr (std::is_same_v<T, bf16>) return to_bf16(sum);
  } else {
    uint64_t sum = 0;
    for (int r = 0; r < size; ++r) sum += static_cast<uint64_t>(value_at<T>(r, i));
    return static_cast<T>(sum);
  }
}

// The order of messages of devices in tests: from the last rank down, rounded after each addition.
template <typename T>
T own_order_sum_at(int size, uint64_t i) {
  T sum = value_at<T>(size - 1, i);
  for (int r = size - 2; r >= 0; --r) {
    const float added = to_float(sum) + to_float(value_at<T>(r, i));
    if constexpr (std::is_same_v<T, float>) sum = added;
    if constexpr (std::is_same_v<T, bf16>) sum = to_bf16(added);
  }
  return sum;
}

template <typename T>
T max_at(int size, uint64_t i) {
  T largest = value_at<T>(0, i);
  for (int r = 1; r < size; ++r) {
    const T next = value_at<T>(r, i);
    if constexpr (std::is_same_v<T, bf16>) {
      if (to_float(next) > to_float(largest)) largest = next;
    } else if (next > largest) {
      largest = next;
    }
  }
  return largest;
}

template <typename T>
void expect_reductions(comm::Group& group, uint64_t count) {
  std::vector<T> sums(count), largest(count);
  for (uint64_t i = 0; i < count; ++i) {
    sums[i] = sum_at<T>(group.size(), i);
    largest[i] = max_at<T>(group.size(), i);
  }
  const std::vector<T> own = values_at<T>(group.rank(), count);
  std::vector<T> values = own;
  group.all_reduce(of(values));
  EXPECT_TRUE(same_bits(values, sums)) << element_name(kElementOf<T>) << " x " << count;
  values = own;
  group.all_reduce(of(values), Reduction::kMax);
  EXPECT_TRUE(same_bits(values, largest)) << element_name(kElementOf<T>) << " x " << count;

  values = own;
  group.reduce_scatter(of(values));
  std::vector<T> expected = own;
  const Piece piece = group.own_piece(count);
  for (uint64_t i = piece.begin; i < piece.end; ++i) expected[i] = sums[i];
  EXPECT_TRUE(same_bits(values, expected)) << element_name(kElementOf<T>) << " x " << count;
}

// Sums in the order of own_order_sum_at(). on_device(values, call) calls with a copy of the values
// in a device's memory, and returns what is there afterwards.
template <typename T, typename OnDevice>
void expect_own_order(comm::Group& group, const Pieces& pieces, const OnDevice& on_device) {
  const std::vector<T> own = values_at<T>(group.rank(), pieces.count());
  std::vector<T> sums(own.size()), scattered = own;
  for (uint64_t i = 0; i < sums.size(); ++i) sums[i] = own_order_sum_at<T>(group.size(), i);
  const Piece piece = pieces[group.rank()];
  for (uint64_t i = piece.begin; i < piece.end; ++i) scattered[i] = sums[i];
  const auto expect = [&](const std::vector<T>& want, const auto& call) {
    EXPECT_TRUE(same_bits(on_device(own, call), want))
        << element_name(kElementOf<T>) << " x " << own.size();
  };
  expect(sums, [&](const Values& v) { group.all_reduce(v); });
  expect(sums, [&](const Values& v) { group.start_all_reduce(v).wait(); });
  expect(scattered, [&](const Values& v) { group.reduce_scatter(v, pieces); });
  expect(scattered, [&](const Values& v) { group.start_reduce_scatter(v, pieces).wait(); });
}

template <typename T>
void expect_moves(comm::Group& group, uint64_t count) {
  std::vector<T> values = values_at<T>(group.rank(), count), expected(count);
  for (int r = 0; r < group.size(); ++r) {
    const Piece piece = piece_of(count, r, group.size());
    for (uint64_t i = piece.begin; i < piece.end; ++i) expected[i] = value_at<T>(r, i);
  }
  group.all_gather(of(values));
  EXPECT_TRUE(same_bits(values, expected));

  for (int root = 0; root < group.size(); ++root) {
    values = values_at<T>(group.rank(), count);
    group.broadcast(of(values), root);
    EXPECT_TRUE(same_bits(values, values_at<T>(root, count)));
  }

  const uint64_t all = count * static_cast<uint64_t>(group.size());
  const std::vector<T> from = values_at<T>(group.rank(), all);
  std::vector<T> to(all), exchanged;
  group.all_to_all(of_const(from), of(to));
  for (int r = 0; r < group.size(); ++r) {
    const uint64_t begin = count * static_cast<uint64_t>(group.rank());
    for (uint64_t i = begin; i < begin + count; ++i) exchanged.push_back(value_at<T>(r, i));
  }
  EXPECT_TRUE(same_bits(to, exchanged));
}

// Each rank sends to the next; even ranks send first.
template <typename T>
void expect_messages(comm::Group& group, uint64_t count) {
  if (group.size() % 2 != 0) return;
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  const std::vector<T> own = values_at<T>(group.rank(), count);
  std::vector<T> got(count);
  if (group.rank() % 2 == 0) group.send(of_const(own), next);
  group.receive(of(got), previous);
  if (group.rank() % 2 == 1) group.send(of_const(own), next);
  EXPECT_TRUE(same_bits(got, values_at<T>(previous, count)));
}

// Each rank gives the next one as many values as it says, at once with the others.
template <typename T>
void expect_shifts(comm::Group& group, uint64_t count) {
  if (group.size() == 1) return;
  const auto count_of = [&](int rank) { return count + static_cast<uint64_t>(rank % 3); };
  const int previous = (group.rank() + group.size() - 1) % group.size();
  const std::vector<T> own = values_at<T>(group.rank(), count_of(group.rank()));
  std::vector<T> got(count_of(previous)), later(got.size());
  group.shift(of_const(own), of(got));
  EXPECT_TRUE(same_bits(got, values_at<T>(previous, got.size())));
  group.start_shift(of_const(own), of(later)).wait();
  EXPECT_TRUE(same_bits(later, got));
}

// All collectives of one element type.
template <typename T>
void expect_collectives(comm::Group& group, uint64_t count) {
  if constexpr (!std::is_same_v<T, std::byte>) expect_reductions<T>(group, count);
  expect_moves<T>(group, count);
  expect_messages<T>(group, count);
  expect_shifts<T>(group, count);
  group.barrier();
}

}  // namespace rl
