// Exactness is measured, not assumed: that a row has the same bits in every batch, and in which
// order oneDNN sums, so that few rows may use librl's own kernel.
#include <array>
#include <cstring>
#include <span>

#include "ops/cpu/matmul_impl.h"
#include "ops/gemm_skinny.h"

namespace rl {
namespace {
float probe_value(int64_t i) {  // a fixed spread of magnitudes and signs
  const uint32_t h = static_cast<uint32_t>(i) * 2654435761u;
  return (static_cast<float>(h >> 8) / (1u << 24) - 0.5f) * static_cast<float>(1 + (h & 7));
}
}  // namespace

void Matmul::Impl::set_element(void* x, int64_t i, float value) const {
  if (compute == Dtype::kF32)
    static_cast<float*>(x)[i] = value;
  else
    static_cast<bf16*>(x)[i] = to_bf16(value);
}

// One K below and one above where the kernels split K.
bool Matmul::Impl::check_exactness() {
  try {
    return check_exactness(200) && check_exactness(1100);
  } catch (const Error& e) {
    if (e.code != Code::kUnsupported) throw;
    return false;  // another layout at some row count
  }
}

// Places one row at several positions of batches of several sizes and compares its outputs bit for
// bit.
bool Matmul::Impl::check_exactness(int64_t k) {
  constexpr int64_t n = 80;
  std::vector<float> weights(n * k);
  for (int64_t i = 0; i < n * k; ++i) weights[i] = probe_value(i);
  const Kernel& reference = kernel({max_tile(), k, n, k, false});
  implementation = reference.implementation;
  Arena packed("matmul self-check", dnnl_memory_desc_get_size(&reference.weights), Touch::kNow,
               ledger);
  PackedMatrix w;
  const PackedShape shape{k, {n, n}, {0}, packed.bytes()};
  const CpuForm& form = bind_cpu(shape, packed.data(), w);
  pack_slice(shape, packed.data(), 0, plain_desc(k, n, 1, k, dnnl_f32), weights.data(), w);

  std::vector<float> x(kMaxRows * k, 0.0f);  // large enough for either dtype
  const auto set_row = [&](int64_t row, int64_t seed) {
    for (int64_t c = 0; c < k; ++c) set_element(x.data(), row * k + c, probe_value(seed * k + c));
  };
  std::vector<float> first;
  for (const int64_t m : {1, 2, 3, 7, 16, 33, 64, 100, 256}) {
    const int64_t rows = std::min(m, max_tile());
    for (const int64_t place : {int64_t{0}, rows / 2, rows - 1}) {
      for (int64_t r = 0; r < rows; ++r) set_row(r, r == place ? 1000 : r);
      Kernel& kernel_m = kernel({bucket(rows), k, n, k, false});
      execute(kernel_m, 0, x.data(), form.slices[0].value, tile(0));
      const float* row = tile(0) + place * n;
      if (first.empty()) first.assign(row, row + n);
      if (std::memcmp(first.data(), row, n * sizeof(float)) != 0) return false;
    }
  }
  return true;
}

// The chunk for every slice of a packed matrix; 0 if oneDNN has to compute few rows too.
int64_t Matmul::Impl::skinny_chunk(const PackedShape& shape) {
  const int64_t last = shape.slices.size(shape.slices.count() - 1);
  const int64_t chunk = skinny_chunk(shape.k, shape.slices.width);
  return last == shape.slices.width || skinny_chunk(shape.k, last) == chunk ? chunk : 0;
}

int64_t Matmul::Impl::skinny_chunk(int64_t k, int64_t n) {
  if (!exact || n % 16 != 0 || (compute == Dtype::kBf16 && (fixed_rows != 0 || k % 2 != 0)))
    return 0;
  if (const auto known = chunks.find({k, n}); known != chunks.end()) return known->second;
  return chunks[{k, n}] = measure_skinny_chunk(k, n);
}

namespace {
// Whether a bf16 slice has the layout that skinny_layout() describes.
bool in_column_blocks(const dnnl_memory_desc_t& desc) {
  const dnnl_blocking_desc_t& b = desc.format_desc.blocking;
  if (desc.data_type != dnnl_bf16 || b.inner_nblks != 3) return false;
  const auto inner = [&](int i, int64_t size, int64_t dim) {
    return b.inner_blks[i] == size && b.inner_idxs[i] == dim;
  };
  const SkinnyLayout form = skinny_layout(Dtype::kBf16, desc.dims[0], desc.dims[1]);
  return inner(0, 16, 0) && inner(1, kSkinnyColumnBlock, 1) && inner(2, 2, 0) &&
         b.strides[0] == 32 * kSkinnyColumnBlock &&
         (desc.dims[1] <= kSkinnyColumnBlock || b.strides[1] * 2 == form.block_bytes);
}
// Whether an fp32 slice has it.
bool in_rows(const dnnl_memory_desc_t& desc) {
  const dnnl_blocking_desc_t& b = desc.format_desc.blocking;
  return desc.data_type == dnnl_f32 && b.inner_nblks == 0 && desc.offset0 == 0 &&
         b.strides[1] == 1 &&
         b.strides[0] * kSkinnyColumnBytes ==
             skinny_layout(Dtype::kF32, desc.dims[0], desc.dims[1]).step_bytes;
}
bool in_form(const dnnl_memory_desc_t& desc, Dtype compute) {
  if (desc.format_kind != dnnl_blocked) return false;
  return compute == Dtype::kF32 ? in_rows(desc) : in_column_blocks(desc);
}

// The chunks that oneDNN's kernels are known to use, and their neighbours.
std::span<const int64_t> known_chunks(Dtype compute) {
  static constexpr std::array<int64_t, 4> kOfPairs = {512, 1024, 2048, 4096};
  static constexpr std::array<int64_t, 5> kOfSingle = {128, 192, 256, 384, 512};
  if (compute == Dtype::kF32) return kOfSingle;
  return kOfPairs;
}
}  // namespace

// Computes rows with oneDNN and with every known chunk; the chunk that gives the same bits is
// oneDNN's.
int64_t Matmul::Impl::measure_skinny_chunk(int64_t k, int64_t n) {
  constexpr int64_t kRows = 2;
  const Kernel& reference = kernel({max_tile(), k, n, k, false});
  if (!in_form(reference.weights, compute)) return 0;
  std::vector<float> weights(n * k), direct(kRows * n);
  for (int64_t i = 0; i < n * k; ++i) weights[i] = probe_value(i);
  std::vector<float> x(padded_rows(kRows) * k);  // large enough for either dtype
  for (int64_t i = 0; i < kRows * k; ++i) set_element(x.data(), i, probe_value(n * k + i));
  Arena packed("matmul order check", dnnl_memory_desc_get_size(&reference.weights), Touch::kNow,
               ledger);
  PackedMatrix w;
  const PackedShape shape{k, {n, n}, {0}, packed.bytes()};
  const CpuForm& form = bind_cpu(shape, packed.data(), w);
  pack_slice(shape, packed.data(), 0, plain_desc(k, n, 1, k, dnnl_f32), weights.data(), w);
  execute(kernel({bucket(kRows), k, n, k, false}), 0, x.data(), form.slices[0].value, tile(0));
  const SkinnyWeights read = {packed.data(), skinny_layout(compute, k, n)};
  for (const int64_t chunk : known_chunks(compute)) {
    gemm_skinny(compute, {x.data(), kRows, k, chunk, read, n, direct.data(), n,
                          reinterpret_cast<float*>(pad(0)), read});
    if (std::memcmp(direct.data(), tile(0), direct.size() * sizeof(float)) == 0) return chunk;
  }
  return 0;
}

}  // namespace rl
