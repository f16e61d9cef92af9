// The device itself, and the ops on plain memory: packing and copies.
#include "reference_device.h"

#include <algorithm>
#include <cstring>

#include "reference_elements.h"

namespace rl::testing {
namespace {

class ReferenceCompute final : public Compute {
 public:
  ReferenceCompute(Dtype dtype, ArenaLedger* ledger)
      : Compute(reference_ops(), {reference_device(), dtype, 1, ledger}) {}
  bool exact() const override { return true; }
  const std::string& implementation() const override { return name_; }

 private:
  const std::string name_ = "reference";
};

class ReferenceDevice final : public Device {
 public:
  const char* name() const override { return "reference"; }
  bool has_bf16() const override { return true; }
  PackedShape plan_packed(const SliceRule& rule, Dtype compute) const override {
    return shape_of_rows(rule, compute);
  }
  // The vocabularies of the fixtures are several parts, the last one shorter.
  int64_t vocabulary_part() const override { return 128; }
  uint64_t workspace_bytes(int) const override { return 0; }
  std::unique_ptr<Compute> make_compute(Executor&, Dtype dtype,
                                        ArenaLedger* ledger) const override {
    return std::make_unique<ReferenceCompute>(dtype, ledger);
  }
};

}  // namespace

const Device& reference_device() {
  static const ReferenceDevice device;
  return device;
}

const OpTable& reference_ops() {
  static constexpr OpTable table = {
#define RL_OP_ENTRY(name, Args) .name = reference::name,
      RL_OPS(RL_OP_ENTRY)
#undef RL_OP_ENTRY
  };
  return table;
}

namespace reference {

void pack_rows(Compute& compute, const PackRowsArgs& a) {
  const int64_t k = a.shape.k;
  a.out.bind(a.shape, a.bytes);
  for (int64_t row = 0; row < a.shape.slices.n; ++row) {
    const float* from = a.rows ? a.rows + row * k : a.staging.data();
    if (!a.rows) (*a.read)(a.from + row * k, a.staging.first(static_cast<size_t>(k)));
    for (int64_t i = 0; i < k; ++i) put(compute.dtype(), a.bytes, row * k + i, from[i]);
  }
}

void pack_columns(Compute& compute, const PackColumnsArgs& a) {
  const int64_t k = a.shape.k, n = a.shape.slices.n;
  a.out.bind(a.shape, a.bytes);
  for (int64_t column = 0; column < n; ++column)
    for (int64_t i = 0; i < k; ++i)
      put(compute.dtype(), a.bytes, column * k + i, a.w[i * n + column]);
}

void unpack_rows(Compute& compute, const UnpackRowsArgs& a) {
  const int64_t count = a.from.shape().slices.n * a.from.shape().k;
  for (int64_t i = 0; i < count; ++i) {
    const double value = get(compute.dtype(), a.from.data(), i);
    a.rows[i] = static_cast<float>(value);
  }
}

void read_floats(Compute&, const ReadFloatsArgs& a) {
  for (const FloatRun& run : a.runs) {
    if (a.read == nullptr)
      std::copy_n(a.from + run.from, run.count, run.to);
    else
      (*a.read)(run.from, {run.to, static_cast<size_t>(run.count)});
  }
}

// There is no kernel to prepare.
void prepare_gradient(Compute&, const PrepareGradientArgs&) {}

void zero_floats(Compute&, const ZeroFloatsArgs& a) { std::fill_n(a.to, a.count, 0.0f); }

void copy_bytes(Compute&, const CopyBytesArgs& a) { std::memcpy(a.to, a.from, a.bytes); }

void copy_columns(Compute&, const CopyColumnsArgs& a) {
  for (uint64_t row = 0; row < static_cast<uint64_t>(a.rows); ++row)
    for (uint64_t i = 0; i < a.bytes; ++i)
      a.to[row * a.to_row_bytes + i] = a.from[row * a.from_row_bytes + i];
}

}  // namespace reference
}  // namespace rl::testing
