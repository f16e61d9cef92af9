// A GGUF file (versions 2 and 3, little endian) opened for reading; it need not contain a model.
// Invariant: a GgufFile exists only if every key, array and tensor passed the checks against the
// caps below and the real file size: no duplicate names, tensors aligned, in range, without overlap
// or gap. Values and data are read on demand.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fs.h"
#include "formats/stored/gguf_dequant.h"

namespace rl {

struct GgufCaps {
  uint64_t header_bytes = 100'000'000;
  uint64_t keys = 65'536;
  uint64_t tensors = 1'000'000;
  uint64_t string_bytes = uint64_t{16} << 20;
  uint64_t name_bytes = 1024;
  uint32_t rank = 8;
  uint64_t alignment = uint64_t{1} << 20;
};
inline constexpr GgufCaps kGgufCaps;

// Type numbers of the format.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

struct GgufValue {
  std::string key;
  GgufType type = GgufType::kU32;
  GgufType element = GgufType::kU32;  // of an array
  uint64_t count = 0;                 // of an array
  uint64_t offset =
      0;  // in the file: of the scalar, the string's length field, or the first element
};

struct GgufTensor {
  std::string name;
  std::string_view type_name;      // "Q4_1", "Q6_K", ...
  std::optional<StoredType> type;  // empty: known to the format, but not readable here
  std::vector<int64_t> shape;      // rows first: the file's dimensions reversed
  uint64_t offset = 0;             // from the start of the file
  uint64_t bytes = 0;
};

class GgufFile {
 public:
  GgufFile(FileSystem& fs, const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::vector<GgufValue>& values() const { return values_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // by offset
  int64_t find_tensor(std::string_view name) const;                    // -1 if absent

  // Typed getters. An absent key returns nullopt; a value of another type is Error(kWrongType) with
  // key and offset, an out-of-range value Error(kOutOfRange). An integer may be stored in any of
  // the format's integer types.
  bool has(std::string_view key) const { return find_value(key) != nullptr; }
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;  // F32 or F64
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  std::optional<std::vector<int32_t>> integers(std::string_view key) const;

  // The tensor as rows to dequantise; Error(kUnsupported) if its format is not readable or its rank
  // is above 2.
  StoredRows rows(int64_t index) const;

 private:
  const GgufValue* find_value(std::string_view key) const;
  const GgufValue* typed(std::string_view key, GgufType type) const;
  const GgufValue* typed_array(std::string_view key, GgufType element) const;

  std::unique_ptr<InputFile> file_;
  std::vector<GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> value_by_key_;  // indices of values_ sorted by key
  std::vector<uint32_t> tensor_by_name_;
};

}  // namespace rl
