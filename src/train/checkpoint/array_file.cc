// Files are written and hashed front to back; padding of the flat array is not stored.
#include "train/checkpoint/array_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "core/error.h"
#include "core/function_ref.h"
#include "core/hash.h"
#include "formats/model_config.h"
#include "formats/safetensors/safetensors.h"

namespace rl {
namespace {

constexpr uint64_t kReadBytes = uint64_t{4} << 20;

// Length field and JSON, padded with spaces so that the data starts at a multiple of 8.
std::string header_of(const WeightLayout& layout) {
  std::string json = "{";
  uint64_t at = 0;
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    std::string shape;
    for (const int64_t n : p.shape) shape += str(shape.empty() ? "" : ",", n);
    const uint64_t end = at + static_cast<uint64_t>(p.size) * sizeof(float);
    json += str(at == 0 ? "" : ",", "\"", p.name, "\":{\"dtype\":\"F32\",\"shape\":[", shape,
                "],\"data_offsets\":[", at, ",", end, "]}");
    at = end;
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  const uint64_t length = json.size();
  const auto bytes = std::bit_cast<std::array<char, sizeof length>>(length);
  return std::string(bytes.data(), bytes.size()) + json;
}

class MarkedOutput {
 public:
  MarkedOutput(FileSystem& fs, const std::string& path) : file_(fs.create(path)) {}
  void append(std::span<const std::byte> data) {
    file_->append(data);
    digest_.update(data);
    bytes_ += data.size();
  }
  FileMark finish() {
    file_->sync();
    file_->close();
    return {bytes_, digest_.value()};
  }

 private:
  std::unique_ptr<OutputFile> file_;
  Digest64 digest_;
  uint64_t bytes_ = 0;
};

// The bytes of the file, front to back.
void visit_array(const WeightLayout& layout, const FlatArray& array,
                 FunctionRef<void(std::span<const std::byte> part)> visitor) {
  const std::string header = header_of(layout);
  visitor(std::as_bytes(std::span(header)));
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    array.floats.part(p.*array.offset, p.size).visit([&](std::span<const float> part) {
      visitor(std::as_bytes(part));
    });
  }
}

void require_tensor(const SafetensorsFile& file, const Parameter& p) {
  const int64_t index = file.find(p.name);
  const SafetensorsEntry* entry = index < 0 ? nullptr : &file.entries()[index];
  if (entry != nullptr && entry->dtype == "F32" && entry->shape == p.shape) return;
  const std::string seen =
      entry == nullptr ? "is missing" : str("is ", entry->dtype, shape_text(entry->shape));
  throw Error(Code::kIncompatible,
              str(file.path(), ": tensor ", p.name, " ", seen, ", expected F32",
                  shape_text(p.shape), ", as the model has it"))
      .with_key(p.name)
      .with_location(file.path());
}

}  // namespace

FileMark write_array_file(FileSystem& fs, const std::string& path, const WeightLayout& layout,
                          const FlatArray& array) {
  MarkedOutput out(fs, path);
  visit_array(layout, array, [&](std::span<const std::byte> part) { out.append(part); });
  return out.finish();
}

FileMark array_mark(const WeightLayout& layout, const FlatArray& array) {
  Digest64 digest;
  uint64_t bytes = 0;
  visit_array(layout, array, [&](std::span<const std::byte> part) {
    digest.update(part);
    bytes += part.size();
  });
  return {bytes, digest.value()};
}

FileMark write_marked_text(FileSystem& fs, const std::string& path, std::string_view text) {
  MarkedOutput out(fs, path);
  out.append(std::as_bytes(std::span(text)));
  return out.finish();
}

void verify_file(FileSystem& fs, const std::string& path, const FileMark& expected) {
  const auto file = fs.open(path);
  if (file->size() != expected.bytes) {
    throw Error(Code::kDataLoss, str(path, " has ", file->size(), " bytes, expected ",
                                     expected.bytes, " according to the manifest"))
        .with_location(path);
  }
  Digest64 digest;
  std::vector<std::byte> buffer(std::min(expected.bytes, kReadBytes));
  for (uint64_t at = 0; at < expected.bytes; at += buffer.size()) {
    const auto part =
        std::span(buffer).first(std::min<uint64_t>(buffer.size(), expected.bytes - at));
    file->read_at(at, part);
    digest.update(part);
  }
  if (digest.value() == expected.digest) return;
  throw Error(Code::kDataLoss, str(path, " has digest ", hex64(digest.value()), ", expected ",
                                   hex64(expected.digest), ": its content changed"))
      .with_location(path);
}

void check_array_file(FileSystem& fs, const std::string& path, const WeightLayout& layout) {
  const SafetensorsFile file(fs, path);
  size_t expected = 0;
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    require_tensor(file, p);
    ++expected;
  }
  if (file.entries().size() == expected) return;
  throw Error(Code::kIncompatible, str(path, " holds ", file.entries().size(),
                                       " tensors, expected the ", expected, " of the model"))
      .with_location(path);
}

void read_array_file(FileSystem& fs, const std::string& path, const WeightLayout& layout,
                     const DeviceFloats& flat) {
  const SafetensorsFile file(fs, path);
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    require_tensor(file, p);
    uint64_t at = file.entries()[static_cast<size_t>(file.find(p.name))].offset;
    flat.part(p.gradient, p.size).fill([&](std::span<float> part) {
      file.file().read_at(at, std::as_writable_bytes(part));
      at += part.size_bytes();
    });
  }
}

}  // namespace rl
