// Converts block by block, in loops of constant length so that the compiler vectorises them, and
// reads rows in chunks.
#include "formats/stored/gguf_dequant.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "formats/stored/gguf_block.h"
#include "formats/stored/gguf_k_quants.h"

namespace rl {
namespace {

constexpr int kBlock = 32;
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

template <int N>
void half_block(const std::byte* in, float* out) {
  uint16_t h[N];
  std::memcpy(h, in, sizeof h);
  for (int i = 0; i < N; ++i) out[i] = half_to_float(h[i]);
}

template <int N>
void bf16_block(const std::byte* in, float* out) {
  uint16_t h[N];
  std::memcpy(h, in, sizeof h);
  for (int i = 0; i < N; ++i) out[i] = to_float(bf16{h[i]});
}

void q8_0_block(const std::byte* in, float* out) {
  const float d = load_half(in);
  int8_t q[kBlock];
  std::memcpy(q, in + 2, sizeof q);
  for (int i = 0; i < kBlock; ++i) out[i] = static_cast<float>(q[i]) * d;
}

// Low nibbles are the first half of the block, high nibbles the second.
void q4_0_block(const std::byte* in, float* out) {
  const float d = load_half(in);
  uint8_t q[kBlock / 2];
  std::memcpy(q, in + 2, sizeof q);
  for (int i = 0; i < kBlock / 2; ++i) out[i] = d * static_cast<float>(int{q[i] & 15} - 8);
  for (int i = 0; i < kBlock / 2; ++i)
    out[i + kBlock / 2] = d * static_cast<float>((q[i] >> 4) - 8);
}

void q4_1_block(const std::byte* in, float* out) {
  const float d = load_half(in);
  const float m = load_half(in + 2);
  uint8_t q[kBlock / 2];
  std::memcpy(q, in + 4, sizeof q);
  for (int i = 0; i < kBlock / 2; ++i) out[i] = d * static_cast<float>(q[i] & 15) + m;
  for (int i = 0; i < kBlock / 2; ++i) out[i + kBlock / 2] = d * static_cast<float>(q[i] >> 4) + m;
}

// The fifth bits of a block, element i at bit i.
void add_fifth_bits(const std::byte* in, const uint8_t* nibbles, int8_t offset, int8_t* out) {
  const auto fifth = load<uint32_t>(in);
  for (int i = 0; i < kBlock; ++i) {
    const int low = nibbles[i % (kBlock / 2)] >> (i / (kBlock / 2) * 4) & 15;
    out[i] = static_cast<int8_t>((low | static_cast<int>(fifth >> i & 1) << 4) - offset);
  }
}

void q5_0_block(const std::byte* in, float* out) {
  const float d = load_half(in);
  uint8_t nibbles[kBlock / 2];
  int8_t q[kBlock];
  std::memcpy(nibbles, in + 6, sizeof nibbles);
  add_fifth_bits(in + 2, nibbles, 16, q);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(q[i]);
}

void q5_1_block(const std::byte* in, float* out) {
  const float d = load_half(in);
  const float m = load_half(in + 2);
  uint8_t nibbles[kBlock / 2];
  int8_t q[kBlock];
  std::memcpy(nibbles, in + 8, sizeof nibbles);
  add_fifth_bits(in + 4, nibbles, 0, q);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(q[i]) + m;
}

using BlockFunction = void (*)(const std::byte*, float*);

// Converts whole blocks of `elements` in block_bytes, then single elements if the format allows a
// remainder.
template <int elements, BlockFunction whole, BlockFunction single = nullptr>
void run(const std::byte* in, std::span<float> out, size_t block_bytes) {
  const size_t blocks = out.size() / elements;
  for (size_t b = 0; b < blocks; ++b) whole(in + b * block_bytes, out.data() + b * elements);
  if constexpr (single != nullptr) {
    for (size_t i = blocks * elements; i < out.size(); ++i)
      single(in + i * block_bytes / elements, &out[i]);
  }
}

}  // namespace

void dequantize(StoredType type, std::span<const std::byte> blocks, std::span<float> out) {
  const BlockLayout& layout = block_layout(type);
  const size_t count = out.size() / static_cast<size_t>(layout.elements);
  const auto bytes = static_cast<size_t>(layout.bytes);
  RL_CHECK(count * static_cast<size_t>(layout.elements) == out.size());
  RL_CHECK(count * bytes == blocks.size());
  if (out.empty()) return;
  const std::byte* const in = blocks.data();
  switch (type) {
    case StoredType::kF32:
      std::memcpy(out.data(), in, blocks.size());
      return;
    case StoredType::kF16:
      return run<kBlock, half_block<kBlock>, half_block<1>>(in, out, bytes * kBlock);
    case StoredType::kBf16:
      return run<kBlock, bf16_block<kBlock>, bf16_block<1>>(in, out, bytes * kBlock);
    case StoredType::kQ8_0:
      return run<kBlock, q8_0_block>(in, out, bytes);
    case StoredType::kQ4_0:
      return run<kBlock, q4_0_block>(in, out, bytes);
    case StoredType::kQ4_1:
      return run<kBlock, q4_1_block>(in, out, bytes);
    case StoredType::kQ5_0:
      return run<kBlock, q5_0_block>(in, out, bytes);
    case StoredType::kQ5_1:
      return run<kBlock, q5_1_block>(in, out, bytes);
    case StoredType::kQ2K:
      return run<kKBlock, q2_k_block>(in, out, bytes);
    case StoredType::kQ3K:
      return run<kKBlock, q3_k_block>(in, out, bytes);
    case StoredType::kQ4K:
      return run<kKBlock, q4_k_block>(in, out, bytes);
    case StoredType::kQ5K:
      return run<kKBlock, q5_k_block>(in, out, bytes);
    case StoredType::kQ6K:
      return run<kKBlock, q6_k_block>(in, out, bytes);
  }
}

void StoredRows::read(int64_t first_row, std::span<float> out) const {
  uint64_t at = offset + static_cast<uint64_t>(first_row) * row_bytes();
  if (type == StoredType::kF32) return file->read_at(at, std::as_writable_bytes(out));
  const BlockLayout& layout = block_layout(type);
  const uint64_t total = out.size() / static_cast<uint64_t>(layout.elements);
  const uint64_t per_chunk = std::min(total, kChunkBytes / static_cast<uint64_t>(layout.bytes));
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(per_chunk * layout.bytes);
  for (uint64_t done = 0; done < total;) {
    const uint64_t blocks = std::min(per_chunk, total - done);
    const std::span<std::byte> raw(buffer.get(), blocks * layout.bytes);
    file->read_at(at, raw);
    dequantize(type, raw, out.subspan(done * layout.elements, blocks * layout.elements));
    done += blocks;
    at += raw.size();
  }
}

bool StoredRows::can_read_columns(int64_t first, int64_t count) const {
  const int64_t block = block_layout(type).elements;
  return first % block == 0 && count % block == 0;
}

void StoredRows::read_columns(int64_t first_row, int64_t first, int64_t count,
                              std::span<float> out) const {
  const BlockLayout& layout = block_layout(type);
  const auto bytes_of = [&](int64_t elements) {
    return static_cast<uint64_t>(elements / layout.elements) * static_cast<uint64_t>(layout.bytes);
  };
  std::vector<std::byte> raw(bytes_of(count));
  uint64_t at = offset + static_cast<uint64_t>(first_row) * row_bytes() + bytes_of(first);
  for (; !out.empty(); out = out.subspan(static_cast<size_t>(count)), at += row_bytes()) {
    file->read_at(at, raw);
    dequantize(type, raw, out.first(static_cast<size_t>(count)));
  }
}

void StoredRows::read_interleaved(int64_t first_row, int64_t head_rows,
                                  std::span<float> out) const {
  const int64_t half = head_rows / 2;
  const int64_t end_row = first_row + static_cast<int64_t>(out.size()) / cols;
  const uint64_t bytes = row_bytes();
  const int64_t per_chunk =
      std::clamp<int64_t>(static_cast<int64_t>(kChunkBytes / bytes), 1, head_rows);
  const auto buffer =
      std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(per_chunk) * bytes);
  for (int64_t head = first_row / head_rows * head_rows; head < end_row; head += head_rows) {
    for (int64_t stored = 0; stored < head_rows; stored += per_chunk) {
      const int64_t rows = std::min(per_chunk, head_rows - stored);
      const std::span<std::byte> raw(buffer.get(), static_cast<size_t>(rows) * bytes);
      file->read_at(offset + static_cast<uint64_t>(head + stored) * bytes, raw);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t row = head + (stored + i) % 2 * half + (stored + i) / 2;
        if (row < first_row || row >= end_row) continue;
        dequantize(
            type, raw.subspan(static_cast<size_t>(i) * bytes, bytes),
            out.subspan(static_cast<size_t>((row - first_row) * cols), static_cast<size_t>(cols)));
      }
    }
  }
}

}  // namespace rl
