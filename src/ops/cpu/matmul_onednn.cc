// Packing and GEMMs: oneDNN makes kernels on first use, cached by shape (ops/cpu/onednn_handles.h
// lists the pitfalls).
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "core/checked.h"
#include "ops/cpu/matmul_impl.h"
#include "ops/cpu/pack_bf16.h"

namespace rl {
namespace {

constexpr int64_t kFallbackRows = 48;

// Row counts that primitives are made for: few enough to cache, close enough to waste little.
int64_t row_bucket(int64_t m) {
  if (m <= 4) return m;
  if (m <= 16) return (m + 3) / 4 * 4;
  if (m <= 64) return (m + 7) / 8 * 8;
  return (m + 15) / 16 * 16;
}

// The primitive descriptor of a product and the descriptors of its arguments.
struct Described {
  OwnedDesc desc;
  dnnl_memory_desc_t src, weights, dst, pad;
};

Described describe(const KernelKey& key, Dtype compute, dnnl_engine_t engine) {
  const OneOmpThread
      one;  // the blocking depends on the thread count, so it must be the one used at run time
  Described d;
  const dnnl_data_type_t type = to_dnnl(compute);
  const dnnl_dims_t wdims = {key.k, key.n};
  if (key.gradient) {
    d.src = plain_desc(key.m, key.k, 1, key.lda, type);
    d.weights = plain_desc(key.k, key.n, key.ldb, 1, type);
  } else {
    d.src = plain_desc(key.m, key.k, key.k, 1, type);
    RL_DNNL(dnnl_memory_desc_init_by_tag(&d.weights, 2, wdims, type, dnnl_format_tag_any));
  }
  d.dst = plain_desc(key.m, key.n, key.gradient ? key.ldc : key.n, 1, dnnl_f32);
  OwnedAttr attr;
  RL_DNNL(dnnl_primitive_attr_create(&attr.value));
  RL_DNNL(dnnl_primitive_attr_set_scratchpad_mode(attr.value, dnnl_scratchpad_mode_user));
  if (key.gradient) {
    OwnedPostOps ops;
    RL_DNNL(dnnl_post_ops_create(&ops.value));
    RL_DNNL(dnnl_post_ops_append_sum(ops.value, 1.0f));
    RL_DNNL(dnnl_primitive_attr_set_post_ops(attr.value, ops.value));
  }
  dnnl_matmul_desc_t op;
  RL_DNNL(dnnl_matmul_desc_init(&op, &d.src, &d.weights, nullptr, &d.dst));
  RL_DNNL(dnnl_primitive_desc_create(&d.desc.value, &op, attr.value, engine, nullptr));
  d.weights = *dnnl_primitive_desc_query_md(d.desc.value, dnnl_query_weights_md, 0);
  d.pad = *dnnl_primitive_desc_query_md(d.desc.value, dnnl_query_scratchpad_md, 0);
  return d;
}

void require_scratchpad(const KernelKey& key, const Described& d) {
  const uint64_t bytes = dnnl_memory_desc_get_size(&d.pad);
  if (bytes <= kScratchpadBytes) return;
  throw Error(Code::kResourceExhausted,
              str("oneDNN asks for ", bytes, " bytes of scratchpad for a [", key.m, ", ", key.k,
                  "] x [", key.k, ", ", key.n, "] product; the limit is ", kScratchpadBytes));
}

int64_t largest_tile() {
  return dnnl_get_effective_cpu_isa() < dnnl_cpu_isa_avx512_core ? kFallbackRows : Matmul::kMaxRows;
}

// True if a packed form is the one that pack_bf16 writes: oneDNN's BA16a64b2a.
bool is_bf16_blocks(const dnnl_memory_desc_t& d) {
  if (d.format_kind != dnnl_blocked || d.data_type != dnnl_bf16 || d.offset0 != 0) return false;
  const dnnl_blocking_desc_t& b = d.format_desc.blocking;
  const auto is = [&](int i, dnnl_dim_t size, dnnl_dim_t dim) {
    return b.inner_blks[i] == size && b.inner_idxs[i] == dim;
  };
  return b.inner_nblks == 3 && is(0, kBf16BlockRows / 2, 0) && is(1, kBf16BlockColumns, 1) &&
         is(2, 2, 0) && b.strides[0] == kBf16BlockRows * kBf16BlockColumns &&
         b.strides[1] == pack_bf16_elements(d.dims[0], kBf16BlockColumns);
}

}  // namespace

CpuForm& cpu_form(const PackedMatrix& w) {
  RL_CHECK(w.device_form() != nullptr);
  return static_cast<CpuForm&>(*w.device_form());
}

CpuForm& bind_cpu(const PackedShape& shape, std::byte* bytes, PackedMatrix& out) {
  out.bind(shape, bytes);
  if (out.device_form() == nullptr) {
    auto form = std::make_unique<CpuForm>();
    form->slices.resize(static_cast<size_t>(shape.slices.count()));
    out.keep(std::move(form));
  }
  return cpu_form(out);
}

int64_t Matmul::skinny_chunk(const PackedMatrix& w) { return cpu_form(w).skinny_chunk; }

PackedShape plan_packed(const SliceRule& rule, Dtype compute) {
  OwnedEngine engine;
  RL_DNNL(dnnl_engine_create(&engine.value, dnnl_cpu, 0));
  PackedShape shape;
  shape.k = rule.k;
  shape.slices = cut_slices(rule);
  ArenaPlan plan;
  uint64_t full_bytes = 0;
  for (int64_t s = 0; s < shape.slices.count(); ++s) {
    const int64_t cols = shape.slices.size(s);
    if (s == 0 || cols != shape.slices.width) {
      const KernelKey key{largest_tile(), rule.k, cols, rule.k, false};
      const Described d = describe(key, compute, engine.value);
      require_scratchpad(key, d);
      full_bytes = dnnl_memory_desc_get_size(&d.weights);
    }
    shape.slice_offset.push_back(plan.add_region("slice", full_bytes));
  }
  shape.bytes = plan.total_bytes();
  shape.cut = rule.cut;
  return shape;
}

// In ops/compute.h.
bool cpu_has_bf16_dot() { return dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core_bf16; }

int64_t Matmul::Impl::bucket(int64_t m) const { return fixed_rows ? fixed_rows : row_bucket(m); }

Matmul::Impl::Impl(Executor& executor, Dtype compute, ArenaLedger* ledger)
    : executor(executor),
      compute(compute),
      ledger(ledger),
      scratch("matmul workspace", Matmul::workspace_bytes(executor.num_threads()), Touch::kNow,
              ledger) {
  RL_DNNL(dnnl_engine_create(&engine.value, dnnl_cpu, 0));
  streams.resize(executor.num_threads());
  for (auto& s : streams)
    RL_DNNL(dnnl_stream_create(&s.value, engine.value, dnnl_stream_default_flags));
  if (largest_tile() == kFallbackRows) fixed_rows = kFallbackRows;
}

// Weights are packed for full tiles. Another implementation or layout at this row count would
// change bits.
void Matmul::Impl::require_packed_form(const KernelKey& key, const Kernel& made) {
  const Kernel& full = kernel({max_tile(), key.k, key.n, key.lda, false});
  if (made.implementation == full.implementation &&
      dnnl_memory_desc_equal(&made.weights, &full.weights))
    return;
  throw Error(Code::kUnsupported,
              str("oneDNN chooses ", made.implementation, " for ", key.m, " rows but ",
                  full.implementation, " for ", max_tile(), " of a [", key.k, ", ", key.n,
                  "] product; rows would not be exact"));
}

std::unique_ptr<Kernel> Matmul::Impl::make_kernel(const KernelKey& key) {
  Described d = describe(key, compute, engine.value);
  require_scratchpad(key, d);
  auto kernel = std::make_unique<Kernel>();
  kernel->weights = d.weights;
  const char* name = nullptr;
  RL_DNNL(dnnl_primitive_desc_query(d.desc.value, dnnl_query_impl_info_str, 0, &name));
  kernel->implementation = name;
  if (!key.gradient && key.m != max_tile()) require_packed_form(key, *kernel);
  RL_DNNL(dnnl_primitive_create(&kernel->primitive.value, d.desc.value));
  kernel->workers.resize(executor.num_threads());
  for (auto& a : kernel->workers) {
    RL_DNNL(dnnl_memory_create(&a.src.value, &d.src, engine.value, DNNL_MEMORY_NONE));
    RL_DNNL(dnnl_memory_create(&a.dst.value, &d.dst, engine.value, DNNL_MEMORY_NONE));
    RL_DNNL(dnnl_memory_create(&a.pad.value, &d.pad, engine.value, DNNL_MEMORY_NONE));
    if (key.gradient)
      RL_DNNL(dnnl_memory_create(&a.weights.value, &d.weights, engine.value, DNNL_MEMORY_NONE));
  }
  return kernel;
}

Kernel& Matmul::Impl::kernel(const KernelKey& key) {
  {
    std::shared_lock lock(mutex);
    if (auto it = kernels.find(key); it != kernels.end()) return *it->second;
  }
  OneOmpThread one;
  auto made = make_kernel(key);
  std::unique_lock lock(mutex);
  return *kernels.try_emplace(key, std::move(made)).first->second;
}

void Matmul::Impl::execute(Kernel& kernel, int worker, const void* src, dnnl_memory_t weights,
                           void* dst) {
  auto& args = kernel.workers[worker];
  RL_DNNL(dnnl_memory_set_data_handle(args.src.value, const_cast<void*>(src)));
  RL_DNNL(dnnl_memory_set_data_handle(args.dst.value, dst));
  RL_DNNL(dnnl_memory_set_data_handle(args.pad.value, pad(worker)));
  const std::array<dnnl_exec_arg_t, 4> list = {{{DNNL_ARG_SRC, args.src.value},
                                                {DNNL_ARG_WEIGHTS, weights},
                                                {DNNL_ARG_DST, args.dst.value},
                                                {DNNL_ARG_SCRATCHPAD, args.pad.value}}};
  OneOmpThread one;
  RL_DNNL(dnnl_primitive_execute(kernel.primitive.value, streams[worker].value, 4, list.data()));
}

Matmul::Matmul(Executor& executor, Dtype compute, ArenaLedger* ledger)
    : impl_(std::make_unique<Impl>(executor, compute, ledger)) {
  impl_->exact = impl_->check_exactness();
  if (!impl_->exact && impl_->fixed_rows == 0) {
    impl_->fixed_rows = kFallbackRows;
    impl_->exact = impl_->check_exactness();
  }
}
Matmul::~Matmul() = default;

Dtype Matmul::compute_dtype() const { return impl_->compute; }
bool Matmul::exact() const { return impl_->exact; }
const std::string& Matmul::implementation() const { return impl_->implementation; }
Executor& Matmul::executor() const { return impl_->executor; }
ArenaLedger* Matmul::ledger() const { return impl_->ledger; }
uint64_t Matmul::workspace_bytes(int num_threads) { return Impl::per_worker() * num_threads; }

// The last tile extends past m by less than the coarsest bucket or fixed tile.
int64_t padded_rows(int64_t m) { return m + kFallbackRows; }

void Matmul::Impl::pack_slice(const PackedShape& shape, std::byte* bytes, int64_t slice,
                              const dnnl_memory_desc_t& from, const float* data,
                              PackedMatrix& out) {
  OneOmpThread one;
  OwnedMemory source;
  RL_DNNL(dnnl_memory_create(&source.value, &from, engine.value, const_cast<float*>(data)));
  OwnedMemory& target = cpu_form(out).slices[slice];
  if (!target.value) {
    const Kernel& k = kernel({max_tile(), shape.k, shape.slices.size(slice), shape.k, false});
    const bool last = slice + 1 == shape.slices.count();
    const uint64_t end = last ? shape.bytes : shape.slice_offset[slice + 1];
    RL_CHECK(dnnl_memory_desc_get_size(&k.weights) <= end - shape.slice_offset[slice]);
    RL_DNNL(dnnl_memory_create(&target.value, &k.weights, engine.value,
                               bytes + shape.slice_offset[slice]));
  }
  const dnnl_memory_desc_t* to = nullptr;
  RL_DNNL(dnnl_memory_get_memory_desc(target.value, &to));
  if (is_bf16_blocks(*to) && cpu_has_bf16_dot()) {
    const dnnl_dims_t& strides = from.format_desc.blocking.strides;
    pack_bf16({data, from.dims[0], from.dims[1], strides[0], strides[1],
               reinterpret_cast<bf16*>(bytes + shape.slice_offset[slice])});
    return;
  }
  reorder(source, target);
}

void Matmul::Impl::reorder(const OwnedMemory& source, const OwnedMemory& target) {
  const dnnl_memory_desc_t *from = nullptr, *to = nullptr;
  RL_DNNL(dnnl_memory_get_memory_desc(source.value, &from));
  RL_DNNL(dnnl_memory_get_memory_desc(target.value, &to));
  OwnedDesc desc;
  RL_DNNL(dnnl_reorder_primitive_desc_create(&desc.value, from, engine.value, to, engine.value,
                                             nullptr));
  OwnedPrimitive primitive;
  RL_DNNL(dnnl_primitive_create(&primitive.value, desc.value));
  const std::array<dnnl_exec_arg_t, 2> list = {
      {{DNNL_ARG_FROM, source.value}, {DNNL_ARG_TO, target.value}}};
  RL_DNNL(dnnl_primitive_execute(primitive.value, streams[0].value, 2, list.data()));
}

void Matmul::unpack_rows(const PackedMatrix& w,
                         FunctionRef<std::vector<RowTarget>(int64_t slice)> targets) {
  const PackedShape& shape = w.shape();
  impl_->executor.parallel_for(shape.slices.count(), [&](int64_t slice, int worker) {
    const std::vector<RowTarget> parts = targets(slice);
    const int64_t width = shape.slices.size(slice);
    const bool joined = parts.size() > 1;
    RL_CHECK(!joined || width * shape.k <= kMaxJoinedFloats);
    float* const rows = joined ? reinterpret_cast<float*>(impl_->pad(worker)) : parts[0].w;
    const OneOmpThread one;
    OwnedMemory target;
    const dnnl_memory_desc_t plain = plain_desc(shape.k, width, 1, shape.k, dnnl_f32);
    RL_DNNL(dnnl_memory_create(&target.value, &plain, impl_->engine.value, rows));
    impl_->reorder(cpu_form(w).slices[static_cast<size_t>(slice)], target);
    const float* next = rows;
    for (const RowTarget& part : parts) {
      if (joined) std::copy_n(next, part.count * shape.k, part.w);
      next += part.count * shape.k;
    }
  });
}

void Matmul::pack_rows(const PackedShape& shape, std::byte* bytes,
                       FunctionRef<std::vector<RowRange>(int64_t slice, int worker)> ranges,
                       PackedMatrix& out) {
  CpuForm& form = bind_cpu(shape, bytes, out);
  impl_->executor.parallel_for(shape.slices.count(), [&](int64_t slice, int worker) {
    const std::vector<RowRange> parts = ranges(slice, worker);
    const int64_t width = shape.slices.size(slice);
    const float* data = parts[0].w;
    if (parts.size() > 1) {
      RL_CHECK(width * shape.k <= kMaxJoinedFloats);
      float* stage = reinterpret_cast<float*>(impl_->pad(worker));
      float* next = stage;
      for (const RowRange& p : parts) {
        std::memcpy(next, p.w, sizeof(float) * p.count * shape.k);
        next += p.count * shape.k;
      }
      data = stage;
    }
    impl_->pack_slice(shape, bytes, slice, plain_desc(shape.k, width, 1, shape.k, dnnl_f32), data,
                      out);
  });
  form.skinny_chunk = impl_->skinny_chunk(shape);
}

void Matmul::pack_columns(const PackedShape& shape, std::byte* bytes, const float* w,
                          PackedMatrix& out) {
  bind_cpu(shape, bytes, out);
  impl_->executor.parallel_for(shape.slices.count(), [&](int64_t slice, int) {
    const int64_t width = shape.slices.size(slice);
    impl_->pack_slice(shape, bytes, slice, plain_desc(shape.k, width, shape.slices.n, 1, dnnl_f32),
                      w + shape.slices.first(slice), out);
  });
}

void Matmul::run(const PackedMatrix& w, const void* x, int64_t m, MatmulEpilogue epilogue,
                 const PackedMatrix* next) {
  impl_->run({w, x, m, next, {nullptr, 0}}, epilogue);
}
void Matmul::run_into(const MatmulOutput& out, const PackedMatrix& w, const void* x, int64_t m,
                      const PackedMatrix* next) {
  impl_->run({w, x, m, next, out, true}, [](const MatmulTile&) {});
}
void Matmul::run_into(const MatmulOutput& out, const PackedMatrix& w, const void* x, int64_t m,
                      MatmulEpilogue epilogue, const PackedMatrix* next) {
  impl_->run({w, x, m, next, out}, epilogue);
}

void Matmul::Impl::run(const Product& p, MatmulEpilogue epilogue) {
  if (p.m <= kMaxSkinnyRows && cpu_form(p.w).skinny_chunk != 0)
    return run_column_tiles(p, epilogue);
  const PackedShape& shape = p.w.shape();
  const int64_t row_tile = max_tile(), tiles = (p.m + row_tile - 1) / row_tile;
  const int64_t slices = shape.slices.count();
  const size_t row_bytes = dtype_bytes(compute) * shape.k;
  RL_CHECK(shape.slices.width * kMaxRows <= kTileFloats);
  executor.parallel_for(tiles * slices, [&](int64_t task, int worker) {
    // Neighbouring tasks share the row tile, so that x stays in L2.
    const int64_t row0 = task / slices * row_tile, rows = std::min(row_tile, p.m - row0);
    const int64_t slice = task % slices, col0 = shape.slices.first(slice),
                  cols = shape.slices.size(slice);
    MatmulOutput out{tile(worker), cols};
    if (p.out.y) out = {p.out.y + row0 * p.out.stride + col0, p.out.stride};
    run_slice(p.w, slice, static_cast<const std::byte*>(p.x) + row0 * row_bytes, rows, out, worker);
    epilogue({row0, rows, col0, cols, slice, out.y, out.stride, worker});
  });
}

void Matmul::Impl::run_slice(const PackedMatrix& w, int64_t slice, const std::byte* x, int64_t rows,
                             const MatmulOutput& out, int worker) {
  const int64_t k = w.shape().k, cols = w.shape().slices.size(slice);
  // oneDNN writes whole tiles, padding rows included.
  const float* dense = tile(worker);
  execute(kernel({bucket(rows), k, cols, k, false}), worker, x, cpu_form(w).slices[slice].value,
          tile(worker));
  if (out.y == dense) return;
  for (int64_t r = 0; r < rows; ++r) std::copy_n(dense + r * cols, cols, out.y + r * out.stride);
}

}  // namespace rl
