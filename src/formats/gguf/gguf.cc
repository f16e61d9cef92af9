// Header first: keys, then tensor records, then the layout check. Typed getters read a value again
// from its offset, with the same checks, because the file may have changed in between.
#include "formats/gguf/gguf.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

#include "core/checked.h"
#include "core/error.h"
#include "formats/gguf/gguf_reader.h"
#include "formats/stored/gguf_formats.h"

namespace rl {
namespace {

constexpr const char* kTypeNames[] = {"U8",   "I8",     "U16",   "I16", "U32", "I32", "F32",
                                      "BOOL", "STRING", "ARRAY", "U64", "I64", "F64"};
const char* type_name(GgufType t) { return kTypeNames[static_cast<uint32_t>(t)]; }

// 0 for strings and arrays.
uint64_t scalar_bytes(GgufType t) {
  switch (t) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

GgufType read_type(HeaderReader& in, const std::string& key) {
  const uint64_t start = in.offset();
  const auto id = in.scalar<uint32_t>("value type");
  if (id < std::size(kTypeNames)) return static_cast<GgufType>(id);
  in.fail_at(start, Code::kDataLoss, str("key ", key, " has unknown value type ", id));
}

struct Counts {
  uint64_t tensors;
  uint64_t keys;
};

Counts read_preamble(HeaderReader& in) {
  if (in.scalar<uint32_t>("magic") != 0x46554747u)
    in.fail_at(0, Code::kDataLoss, "this is not a GGUF file: wrong magic");
  const auto version = in.scalar<uint32_t>("version");
  if (version != 2 && version != 3) {
    in.fail_at(4, Code::kUnsupported,
               str("GGUF version ", version, " is not supported; supported: 2 and 3"));
  }
  Counts c{};
  c.tensors = in.scalar<uint64_t>("tensor count");
  c.keys = in.scalar<uint64_t>("key count");
  if (c.tensors > kGgufCaps.tensors) {
    in.fail_at(8, Code::kResourceExhausted,
               str(c.tensors, " tensors exceed the limit of ", kGgufCaps.tensors));
  }
  if (c.keys > kGgufCaps.keys) {
    in.fail_at(16, Code::kResourceExhausted,
               str(c.keys, " keys exceed the limit of ", kGgufCaps.keys));
  }
  return c;
}

void skip_array(HeaderReader& in, GgufValue& v) {
  v.element = read_type(in, v.key);
  v.count = in.scalar<uint64_t>("array length");
  v.offset = in.offset();
  if (v.element == GgufType::kArray)
    in.fail(Code::kUnsupported, str("key ", v.key, " is an array of arrays"));
  const uint64_t least = v.element == GgufType::kString ? 8 : scalar_bytes(v.element);
  if (v.count > in.remaining() / least) {
    in.fail(Code::kDataLoss,
            str("key ", v.key, " claims ", v.count, " elements in ", in.remaining(), " bytes"));
  }
  if (v.element != GgufType::kString) return in.skip(v.count * least, "array");
  for (uint64_t i = 0; i < v.count; ++i) in.skip_text(kGgufCaps.string_bytes, "array string");
}

GgufValue read_value(HeaderReader& in) {
  GgufValue v;
  v.key = in.text(kGgufCaps.name_bytes, "key");
  v.type = read_type(in, v.key);
  v.offset = in.offset();
  if (v.type == GgufType::kArray)
    skip_array(in, v);
  else if (v.type == GgufType::kString)
    in.skip_text(kGgufCaps.string_bytes, "string");
  else
    in.skip(scalar_bytes(v.type), "value");
  return v;
}

const GgufFormat& read_format(HeaderReader& in, const std::string& name) {
  const uint64_t start = in.offset();
  const auto number = in.scalar<uint32_t>("tensor type");
  if (const GgufFormat* format = find_gguf_format(number)) return *format;
  in.fail_at(start, Code::kUnsupported,
             str("tensor ", name, " has the unknown element format ", number));
}

void read_shape(HeaderReader& in, GgufTensor& t) {
  const auto rank = in.scalar<uint32_t>("tensor rank");
  if (rank < 1 || rank > kGgufCaps.rank) {
    in.fail(Code::kResourceExhausted,
            str("tensor ", t.name, " has ", rank, " dimensions, expected 1..", kGgufCaps.rank));
  }
  t.shape.resize(rank);
  for (uint32_t i = rank; i-- > 0;) {
    const auto n = in.scalar<uint64_t>("tensor dimension");
    if (n < 1 || n > uint64_t{1} << 40) {
      in.fail(Code::kOutOfRange,
              str("tensor ", t.name, " has a dimension of ", n, ", expected 1..2^40"));
    }
    t.shape[i] = static_cast<int64_t>(n);
  }
}

// Smallest tensor record: name length, rank, one dimension, format, offset.
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

// offset is still relative to the data section here.
GgufTensor read_tensor(HeaderReader& in, uint64_t file_bytes) {
  GgufTensor t;
  t.name = in.text(kGgufCaps.name_bytes, "tensor name");
  read_shape(in, t);
  const GgufFormat& format = read_format(in, t.name);
  t.type = format.type;
  t.type_name = format.layout.name;
  t.offset = in.scalar<uint64_t>("tensor offset");
  if (t.shape.back() % format.layout.elements != 0) {
    in.fail(Code::kDataLoss,
            str("tensor ", t.name, " has rows of ", t.shape.back(), " elements, but ", t.type_name,
                " comes in blocks of ", format.layout.elements));
  }
  CheckedU64 bytes(t.shape.back() / format.layout.elements);
  bytes = bytes * CheckedU64(format.layout.bytes);
  for (size_t i = 0; i + 1 < t.shape.size() && bytes.get() <= file_bytes; ++i)
    bytes = bytes * CheckedU64(t.shape[i]);
  if (bytes.get() > file_bytes || t.offset > file_bytes - bytes.get()) {
    in.fail(Code::kDataLoss,
            str("tensor ", t.name, " needs at least ", bytes.get(), " bytes from data offset ",
                t.offset, ", but the file has ", file_bytes));
  }
  t.bytes = bytes.get();
  return t;
}

// Tensors are consecutive, each padded to the alignment; the last one may lack its padding.
void check_layout(HeaderReader& in, uint64_t alignment, uint64_t file_bytes,
                  std::vector<GgufTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset, a.name) < std::tie(b.offset, b.name);
  });
  const CheckedU64 data_start = CheckedU64(in.offset()).align_up(alignment);
  CheckedU64 end = data_start;
  for (GgufTensor& t : tensors) {
    const CheckedU64 at = data_start + CheckedU64(t.offset);
    const CheckedU64 want = end.align_up(alignment);
    if (at != want) {
      in.fail_at(
          at.get(), Code::kDataLoss,
          str("tensor ", t.name, at < want ? " starts before offset " : " starts after offset ",
              want.get(), at < want ? ": overlap" : ": hole"));
    }
    end = at + CheckedU64(t.bytes);
    if (end.get() > file_bytes) {
      in.fail_at(
          at.get(), Code::kDataLoss,
          str("tensor ", t.name, " ends at ", end.get(), ", but the file ends at ", file_bytes));
    }
    t.offset = at.get();
  }
  if (!tensors.empty() && file_bytes > end.align_up(alignment).get()) {
    in.fail_at(end.get(), Code::kDataLoss,
               str(file_bytes - end.get(), " bytes after the last tensor"));
  }
}

// Indices of items sorted by name; equal names are an error.
template <typename T>
std::vector<uint32_t> sorted_by(const std::vector<T>& items, std::string T::*name,
                                const HeaderReader& in, const char* what) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto less = [&](uint32_t a, uint32_t b) { return items[a].*name < items[b].*name; };
  std::sort(order.begin(), order.end(), less);
  for (size_t i = 1; i < order.size(); ++i) {
    if (less(order[i - 1], order[i])) continue;
    const T& item = items[order[i]];
    in.fail_at(item.offset, Code::kDataLoss, str("duplicate ", what, " ", item.*name));
  }
  return order;
}

template <typename T>
int64_t find_sorted(const std::vector<T>& items, const std::vector<uint32_t>& order,
                    std::string T::*name, std::string_view wanted) {
  const auto it =
      std::lower_bound(order.begin(), order.end(), wanted,
                       [&](uint32_t i, std::string_view w) { return items[i].*name < w; });
  return it == order.end() || items[*it].*name != wanted ? -1 : int64_t{*it};
}

}  // namespace

GgufFile::GgufFile(FileSystem& fs, const std::string& path) : file_(fs.open(path)) {
  HeaderReader in(*file_, 0, kGgufCaps.header_bytes);
  try {
    const Counts counts = read_preamble(in);
    values_.reserve(counts.keys);
    for (uint64_t i = 0; i < counts.keys; ++i) values_.push_back(read_value(in));
    value_by_key_ = sorted_by(values_, &GgufValue::key, in, "key");
    const auto alignment = static_cast<uint64_t>(integer("general.alignment").value_or(32));
    if (alignment > kGgufCaps.alignment || !std::has_single_bit(alignment)) {
      in.fail_at(find_value("general.alignment")->offset, Code::kOutOfRange,
                 str("general.alignment is ", alignment, ", expected a power of two up to ",
                     kGgufCaps.alignment));
    }
    if (counts.tensors > in.remaining() / kMinTensorBytes) {
      in.fail(Code::kDataLoss, str(counts.tensors, " tensors in ", in.remaining(), " bytes"));
    }
    tensors_.reserve(counts.tensors);
    for (uint64_t i = 0; i < counts.tensors; ++i) {
      tensors_.push_back(read_tensor(in, file_->size()));
    }
    check_layout(in, alignment, file_->size(), tensors_);
    tensor_by_name_ = sorted_by(tensors_, &GgufTensor::name, in, "tensor");
  } catch (Error& e) {
    if (e.location.empty()) e.location = str(path, " offset ", in.offset());
    throw;
  }
}

int64_t GgufFile::find_tensor(std::string_view name) const {
  return find_sorted(tensors_, tensor_by_name_, &GgufTensor::name, name);
}

const GgufValue* GgufFile::find_value(std::string_view key) const {
  const int64_t i = find_sorted(values_, value_by_key_, &GgufValue::key, key);
  return i < 0 ? nullptr : &values_[static_cast<size_t>(i)];
}

namespace {
[[noreturn]] void wrong_type(const InputFile& file, const GgufValue& v, const char* expected) {
  const std::string seen =
      v.type == GgufType::kArray ? str("ARRAY of ", type_name(v.element)) : type_name(v.type);
  throw Error(Code::kWrongType,
              str(file.path(), ": key ", v.key, " is ", seen, ", expected ", expected))
      .with_key(v.key)
      .with_expected(expected)
      .with_location(str(file.path(), " offset ", v.offset));
}

HeaderReader reader_at(const InputFile& file, const GgufValue& v) {
  return HeaderReader(file, v.offset, file.size());
}
}  // namespace

const GgufValue* GgufFile::typed(std::string_view key, GgufType type) const {
  const GgufValue* v = find_value(key);
  if (v != nullptr && v->type != type) wrong_type(*file_, *v, type_name(type));
  return v;
}

const GgufValue* GgufFile::typed_array(std::string_view key, GgufType element) const {
  const GgufValue* v = typed(key, GgufType::kArray);
  if (v != nullptr && v->element != element)
    wrong_type(*file_, *v, str("ARRAY of ", type_name(element)).c_str());
  return v;
}

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* v = find_value(key);
  if (v == nullptr) return std::nullopt;
  HeaderReader in = reader_at(*file_, *v);
  switch (v->type) {
    case GgufType::kU8:
      return in.scalar<uint8_t>("value");
    case GgufType::kI8:
      return in.scalar<int8_t>("value");
    case GgufType::kU16:
      return in.scalar<uint16_t>("value");
    case GgufType::kI16:
      return in.scalar<int16_t>("value");
    case GgufType::kU32:
      return in.scalar<uint32_t>("value");
    case GgufType::kI32:
      return in.scalar<int32_t>("value");
    case GgufType::kI64:
      return in.scalar<int64_t>("value");
    case GgufType::kU64:
      break;
    default:
      wrong_type(*file_, *v, "an integer");
  }
  const auto n = in.scalar<uint64_t>("value");
  if (!std::in_range<int64_t>(n))
    in.fail_at(v->offset, Code::kOutOfRange, str("key ", key, " is ", n, ", above 2^63-1"));
  return static_cast<int64_t>(n);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* v = find_value(key);
  if (v == nullptr) return std::nullopt;
  HeaderReader in = reader_at(*file_, *v);
  if (v->type == GgufType::kF32) return in.scalar<float>("value");
  if (v->type == GgufType::kF64) return in.scalar<double>("value");
  wrong_type(*file_, *v, "F32 or F64");
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* v = typed(key, GgufType::kBool);
  if (v == nullptr) return std::nullopt;
  HeaderReader in = reader_at(*file_, *v);
  const auto b = in.scalar<uint8_t>("value");
  if (b > 1)
    in.fail_at(v->offset, Code::kDataLoss, str("key ", key, " is a boolean of value ", int{b}));
  return b == 1;
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const GgufValue* v = typed(key, GgufType::kString);
  if (v == nullptr) return std::nullopt;
  return reader_at(*file_, *v).text(kGgufCaps.string_bytes, "string");
}

std::optional<std::vector<std::string>> GgufFile::texts(std::string_view key) const {
  const GgufValue* v = typed_array(key, GgufType::kString);
  if (v == nullptr) return std::nullopt;
  HeaderReader in = reader_at(*file_, *v);
  std::vector<std::string> out;
  out.reserve(v->count);
  for (uint64_t i = 0; i < v->count; ++i)
    out.push_back(in.text(kGgufCaps.string_bytes, "array string"));
  return out;
}

std::optional<std::vector<int32_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* v = typed_array(key, GgufType::kI32);
  if (v == nullptr) return std::nullopt;
  std::vector<int32_t> out(v->count);
  file_->read_at(v->offset, std::as_writable_bytes(std::span(out)));
  return out;
}

StoredRows GgufFile::rows(int64_t index) const {
  const GgufTensor& t = tensors_.at(static_cast<size_t>(index));
  if (t.type && t.shape.size() <= 2)
    return StoredRows{file_.get(), *t.type, t.offset, t.shape.back()};
  throw Error(Code::kUnsupported, str(path(), ": tensor ", t.name, " of format ", t.type_name,
                                      " and rank ", t.shape.size(), " cannot be read"))
      .with_key(t.name)
      .with_expected(str(readable_gguf_formats(), "; rank 1 or 2"))
      .with_location(str(path(), " offset ", t.offset));
}

}  // namespace rl
