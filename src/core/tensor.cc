// Sizes are computed once, at construction; readers of the elements rely on them.
#include "core/tensor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "core/arena.h"
#include "core/error.h"

namespace rl {
namespace {

constexpr std::align_val_t kAlignment{64};

[[noreturn]] void fail(Code code, const char* field, const std::string& what) {
  throw Error(code, str(field, " ", what)).with_key(field);
}

// An extent of 0 counts as 1 here, so that strides of an empty tensor cannot overflow either.
int64_t count_elements(ElementType type, const std::vector<int64_t>& shape) {
  if (shape.size() > kMaxDimensions) {
    fail(Code::kOutOfRange, "shape",
         str("has ", shape.size(), " dimensions, expected at most ", kMaxDimensions));
  }
  auto bytes = static_cast<int64_t>(element_bytes(type));
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) {
      fail(Code::kOutOfRange, "shape", str("has extent ", shape[i], " in dimension ", i));
    }
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(shape[i], 1), &bytes)) {
      fail(Code::kOutOfRange, "shape",
           str("has more than 2^63-1 bytes with extent ", shape[i], " in dimension ", i));
    }
    count *= shape[i];
  }
  return count;
}

// An extent of 0 counts as 1 here too.
std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

// The stride of a dimension of extent 1 is irrelevant.
bool same_places(const std::vector<int64_t>& shape, const std::vector<int64_t>& a,
                 const std::vector<int64_t>& b) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && a[i] != b[i]) return false;
  }
  return true;
}

}  // namespace

Tensor::Tensor(Description description)
    : d_(std::move(description)), num_elements_(count_elements(d_.type, d_.shape)) {
  const std::vector<int64_t> packed = row_major_strides(d_.shape);
  if (d_.strides.empty()) d_.strides = packed;
  RL_CHECK(d_.strides.size() == d_.shape.size());
  row_major_ = num_elements_ == 0 || same_places(d_.shape, d_.strides, packed);
  set_range();
}

// Computes the lowest and highest byte offset from the first element, dimension by dimension.
void Tensor::set_range() {
  const auto base = reinterpret_cast<uintptr_t>(d_.data);
  lowest_ = end_ = base;
  if (num_elements_ == 0) return;
  if (base == 0) {
    fail(Code::kInvalidArgument, "data", str("is NULL for ", num_elements_, " elements"));
  }
  const auto size = static_cast<int64_t>(element_bytes(d_.type));
  int64_t low = 0, high = size;
  for (size_t i = 0; i < d_.shape.size(); ++i) {
    int64_t reach = 0;
    bool over = __builtin_mul_overflow(d_.strides[i], d_.shape[i] - 1, &reach) ||
                __builtin_mul_overflow(reach, size, &reach);
    int64_t& side = reach < 0 ? low : high;
    over = over || __builtin_add_overflow(side, reach, &side) ||
           __builtin_add_overflow(base, low, &lowest_) || __builtin_add_overflow(base, high, &end_);
    if (!over) continue;
    fail(Code::kOutOfRange, "strides",
         str("leave the address space with stride ", d_.strides[i], " in dimension ", i));
  }
  if (d_.shape.empty() && __builtin_add_overflow(base, high, &end_)) {
    fail(Code::kOutOfRange, "data", "ends beyond the address space");
  }
}

namespace {

std::shared_ptr<void> from_heap(size_t bytes) {
  const auto release = [](void* data) { ::operator delete(data, kAlignment); };
  return {::operator new(bytes, kAlignment), release};
}

std::shared_ptr<void> from_source(size_t bytes, std::shared_ptr<MemorySource> memory) {
  const uint64_t size = CheckedU64(bytes).align_up(MemorySource::kPage).get();
  void* const data = memory->reserve(size);
  if (data == nullptr) {
    const int code = errno;
    throw Error(Code::kOutOfMemory, str("cannot reserve ", bytes, " bytes for a tensor"))
        .with_key("tensor")
        .with_system_code(code);
  }
  return {data, [size, memory = std::move(memory)](void* p) { memory->release(p, size); }};
}

}  // namespace

OwnedTensor make_tensor(ElementType type, std::vector<int64_t> shape,
                        std::shared_ptr<MemorySource> memory) {
  const size_t bytes = static_cast<size_t>(count_elements(type, shape)) * element_bytes(type);
  // An empty tensor has memory too: some consumers reject a null pointer.
  std::shared_ptr<void> owner = memory != nullptr
                                    ? from_source(std::max<size_t>(bytes, 1), std::move(memory))
                                    : from_heap(std::max<size_t>(bytes, 1));
  auto* const data = static_cast<std::byte*>(owner.get());
  return {std::make_shared<const Tensor>(Tensor::Description{
              .data = data, .type = type, .shape = std::move(shape), .owner = std::move(owner)}),
          data};
}

void for_each_run(const Tensor& tensor, FunctionRef<void(const ElementRun& run)> visit) {
  const auto size = static_cast<int64_t>(element_bytes(tensor.type()));
  const auto* const data = static_cast<const std::byte*>(tensor.data());
  if (tensor.num_elements() == 0) return;
  if (tensor.is_row_major()) return visit({data, tensor.num_elements(), size});
  const std::vector<int64_t>&shape = tensor.shape(), &strides = tensor.strides();
  const size_t last = shape.size() - 1;
  // The stride of a single element is not used: it may be any number.
  const int64_t step = shape[last] > 1 ? strides[last] * size : size;
  std::array<int64_t, kMaxDimensions> index{};
  for (;;) {
    int64_t offset = 0;
    for (size_t i = 0; i < last; ++i) offset += index[i] * strides[i];
    visit({data + offset * size, shape[last], step});
    size_t i = last;
    while (i > 0 && ++index[i - 1] == shape[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

TensorPtr copy_of(const Tensor& tensor, std::shared_ptr<MemorySource> memory) {
  const size_t size = element_bytes(tensor.type());
  OwnedTensor copy = make_tensor(tensor.type(), tensor.shape(), std::move(memory));
  std::byte* to = copy.data;
  for_each_run(tensor, [&](const ElementRun& run) {
    const auto bytes = static_cast<size_t>(run.count) * size;
    if (run.stride == static_cast<int64_t>(size)) {
      std::memcpy(to, run.data, bytes);
    } else {
      for (int64_t i = 0; i < run.count; ++i) {
        std::memcpy(to + static_cast<size_t>(i) * size, run.data + i * run.stride, size);
      }
    }
    to += bytes;
  });
  return copy.tensor;
}

}  // namespace rl
