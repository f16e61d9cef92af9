// Block by block conversion with loops of constant length, so that a compiler vectorises them, and
// chunked row reads.
#include "model/gguf_dequant.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "core/dtype.h"
#include "core/error.h"

namespace rl {
namespace {

constexpr int kBlock = 32;
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

static_assert(std::endian::native == std::endian::little, "tensor files are little endian");

// Exact for every input. A subnormal is rebuilt as a difference of two normals, which avoids slow
// subnormal operands.
inline float half_to_float(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffu;
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t rebias = magnitude >= 0x7c00u ? uint32_t{224} << 23 : uint32_t{112} << 23;
  const uint32_t normal = (magnitude << 13) + rebias;
  const float small = std::bit_cast<float>(0x3f000000u | magnitude) - 0.5f;
  const uint32_t bits = magnitude < 0x400u ? std::bit_cast<uint32_t>(small) : normal;
  return std::bit_cast<float>(bits | sign);
}

template <typename T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

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
  const float d = half_to_float(load<uint16_t>(in));
  int8_t q[kBlock];
  std::memcpy(q, in + 2, sizeof q);
  for (int i = 0; i < kBlock; ++i) out[i] = static_cast<float>(q[i]) * d;
}

// Low nibbles are the first half of the block, high nibbles the second.
void q4_0_block(const std::byte* in, float* out) {
  const float d = half_to_float(load<uint16_t>(in));
  uint8_t q[kBlock / 2];
  std::memcpy(q, in + 2, sizeof q);
  for (int i = 0; i < kBlock / 2; ++i) out[i] = d * static_cast<float>(int{q[i] & 15} - 8);
  for (int i = 0; i < kBlock / 2; ++i)
    out[i + kBlock / 2] = d * static_cast<float>((q[i] >> 4) - 8);
}

void q4_1_block(const std::byte* in, float* out) {
  const float d = half_to_float(load<uint16_t>(in));
  const float m = half_to_float(load<uint16_t>(in + 2));
  uint8_t q[kBlock / 2];
  std::memcpy(q, in + 4, sizeof q);
  for (int i = 0; i < kBlock / 2; ++i) out[i] = d * static_cast<float>(q[i] & 15) + m;
  for (int i = 0; i < kBlock / 2; ++i) out[i + kBlock / 2] = d * static_cast<float>(q[i] >> 4) + m;
}

using BlockFunction = void (*)(const std::byte*, float*);

// Whole blocks of 32 elements, then single elements where the format allows a remainder.
template <BlockFunction whole, BlockFunction single>
void run(const std::byte* in, std::span<float> out, size_t block_bytes) {
  const size_t blocks = out.size() / kBlock;
  for (size_t b = 0; b < blocks; ++b) whole(in + b * block_bytes, out.data() + b * kBlock);
  if constexpr (single != nullptr) {
    for (size_t i = blocks * kBlock; i < out.size(); ++i)
      single(in + i * block_bytes / kBlock, &out[i]);
  }
}

}  // namespace

const char* stored_type_name(StoredType type) {
  switch (type) {
    case StoredType::kF32:
      return "F32";
    case StoredType::kF16:
      return "F16";
    case StoredType::kBf16:
      return "BF16";
    case StoredType::kQ8_0:
      return "Q8_0";
    case StoredType::kQ4_0:
      return "Q4_0";
    case StoredType::kQ4_1:
      return "Q4_1";
  }
  return "?";
}

void dequantize(StoredType type, std::span<const std::byte> blocks, std::span<float> out) {
  const BlockLayout layout = block_layout(type);
  const size_t count = out.size() / static_cast<size_t>(layout.elements);
  RL_CHECK(count * static_cast<size_t>(layout.elements) == out.size());
  RL_CHECK(count * static_cast<size_t>(layout.bytes) == blocks.size());
  if (out.empty()) return;
  switch (type) {
    case StoredType::kF32:
      std::memcpy(out.data(), blocks.data(), blocks.size());
      return;
    case StoredType::kF16:
      return run<half_block<kBlock>, half_block<1>>(blocks.data(), out, 64);
    case StoredType::kBf16:
      return run<bf16_block<kBlock>, bf16_block<1>>(blocks.data(), out, 64);
    case StoredType::kQ8_0:
      return run<q8_0_block, nullptr>(blocks.data(), out, 34);
    case StoredType::kQ4_0:
      return run<q4_0_block, nullptr>(blocks.data(), out, 18);
    case StoredType::kQ4_1:
      return run<q4_1_block, nullptr>(blocks.data(), out, 20);
  }
}

void StoredRows::read(int64_t first_row, std::span<float> out) const {
  uint64_t at = offset + static_cast<uint64_t>(first_row) * row_bytes();
  if (type == StoredType::kF32) return file->read_at(at, std::as_writable_bytes(out));
  const BlockLayout layout = block_layout(type);
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
