// Every field of a producer is checked before it is used, in an order in which each check makes the
// next field readable.
#include "core/encoding/tensor_exchange.h"

#include "core/encoding/dlpack.h"
#include "core/error.h"

namespace rl {
namespace {

[[noreturn]] void fail(Code code, const std::string& what) {
  throw Error(code, str("parameter managed: ", what)).with_key("managed");
}

struct TypeRow {
  ElementType type;
  dlpack::DataType row;
};
constexpr TypeRow kTypes[] = {{ElementType::kF32, {dlpack::kFloat, 32, 1}},
                              {ElementType::kBf16, {dlpack::kBfloat, 16, 1}},
                              {ElementType::kI32, {dlpack::kInt, 32, 1}}};

ElementType type_from(dlpack::DataType given) {
  for (const auto& [type, row] : kTypes) {
    if (given.code == row.code && given.bits == row.bits && given.lanes == row.lanes) return type;
  }
  fail(Code::kUnsupported,
       str("elements have type code ", int{given.code}, ", ", int{given.bits}, " bits and ",
           given.lanes,
           " lanes; librl takes fp32 (2, 32, 1), bf16 (4, 16, 1) and int32 (0, 32, 1)"));
}

dlpack::DataType type_of(ElementType wanted) {
  for (const auto& [type, row] : kTypes) {
    if (type == wanted) return row;
  }
  RL_CHECK(false);
  return {};
}

DeviceId device_of(const dlpack::View& view) {
  return {view.device.device_type, view.device.device_id};
}

void check_version(const DLManagedTensorVersioned& m) {
  if (m.version.major == dlpack::kMajor) return;
  fail(Code::kIncompatible, str("the version is DLPack ", m.version.major, ".", m.version.minor,
                                "; librl reads ", dlpack::kMajor, ".x"));
}

void check_kind(const DLManagedTensorVersioned& m, DeviceId reader) {
  const uint64_t known = dlpack::kReadOnly | dlpack::kIsCopied;
  if ((m.flags & ~known) != 0) {
    fail(Code::kUnsupported, str("flags have bits that librl does not know: ", m.flags & ~known));
  }
  const DeviceId given = device_of(m.dl_tensor);
  if (given == DeviceId() || given == reader) return;
  const std::string also =
      reader == DeviceId() ? "" : str(" and that of (", reader.kind, ", ", reader.index, ")");
  fail(Code::kUnsupported, str("the tensor is on device type ", given.kind, " number ", given.index,
                               "; librl reads the CPU's memory (1, 0)", also));
}

std::vector<int64_t> numbers(const int64_t* from, int32_t count) {
  return from != nullptr ? std::vector<int64_t>(from, from + count) : std::vector<int64_t>();
}

Tensor::Description describe(const dlpack::View& view) {
  if (view.ndim < 0 || static_cast<size_t>(view.ndim) > kMaxDimensions) {
    fail(Code::kOutOfRange,
         str("the tensor has ", view.ndim, " dimensions, expected 0..", kMaxDimensions));
  }
  if (view.ndim > 0 && view.shape == nullptr) {
    fail(Code::kInvalidArgument, str("shape is NULL for ", view.ndim, " dimensions"));
  }
  const auto data = reinterpret_cast<uintptr_t>(view.data);
  uintptr_t first = data;
  if (data != 0 && __builtin_add_overflow(data, view.byte_offset, &first)) {
    fail(Code::kOutOfRange, str("byte_offset ", view.byte_offset, " leaves the address space"));
  }
  return {.data = reinterpret_cast<const void*>(first),
          .type = type_from(view.dtype),
          .shape = numbers(view.shape, view.ndim),
          .strides = numbers(view.strides, view.ndim)};
}

// What an exported tensor needs until its deleter runs.
struct Exported {
  DLManagedTensorVersioned managed{};
  TensorPtr tensor;
  std::vector<int64_t> shape, strides;  // own copies: a consumer may write to them
  bool (*abandoned)() noexcept;
};

void end_exported(DLManagedTensorVersioned* managed) {
  auto* const exported = static_cast<Exported*>(managed->manager_ctx);
  if (!exported->abandoned()) delete exported;
}

}  // namespace

ForeignTensor::~ForeignTensor() {
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
}

TensorPtr import_tensor(ForeignTensor foreign, ImportPlace place) {
  const DLManagedTensorVersioned& m = *foreign.get();
  check_version(m);
  check_kind(m, place.device);
  Tensor::Description description = describe(m.dl_tensor);
  description.read_only = (m.flags & dlpack::kReadOnly) != 0;
  description.device = device_of(m.dl_tensor);
  if (description.device != DeviceId()) description.order = std::move(place.order);
  // Members are destroyed in reverse order: the producer's memory first, then what it depended on.
  using Owner = std::pair<std::shared_ptr<const void>, ForeignTensor>;
  description.owner = std::make_shared<Owner>(std::move(place.keeps), std::move(foreign));
  try {
    return std::make_shared<const Tensor>(std::move(description));
  } catch (const Error& error) {
    fail(error.code, error.message);
  }
}

DLManagedTensorVersioned* export_tensor(TensorPtr tensor, bool (*abandoned)() noexcept) {
  auto exported = std::make_unique<Exported>();
  exported->tensor = std::move(tensor);
  const Tensor& t = *exported->tensor;
  exported->shape = t.shape();
  exported->strides = t.strides();
  exported->abandoned = abandoned;
  DLManagedTensorVersioned& m = exported->managed;
  m.version = {dlpack::kMajor, dlpack::kMinor};
  m.manager_ctx = exported.get();
  m.deleter = end_exported;
  m.flags = t.read_only() ? dlpack::kReadOnly : 0;
  m.dl_tensor = {.data = const_cast<void*>(t.data()),
                 .device = {t.device().kind, t.device().index},
                 .ndim = static_cast<int32_t>(t.shape().size()),
                 .dtype = type_of(t.type()),
                 .shape = exported->shape.data(),
                 .strides = exported->strides.data(),
                 .byte_offset = 0};
  return &exported.release()->managed;
}

}  // namespace rl
