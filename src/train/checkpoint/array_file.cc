// Files are written and hashed front to back; padding of flat arrays is not stored.
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
std::string header_of(const TensorList& tensors) {
  std::string json = "{";
  uint64_t at = 0;
  for (const StateTensor& t : tensors) {
    std::string shape;
    for (const int64_t n : t.shape) shape += str(shape.empty() ? "" : ",", n);
    const uint64_t end = at + t.bytes.size();
    json += str(json.size() == 1 ? "" : ",", "\"", t.name, "\":{\"dtype\":\"", t.dtype,
                "\",\"shape\":[", shape, "],\"data_offsets\":[", at, ",", end, "]}");
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
void visit_array(const TensorList& tensors,
                 FunctionRef<void(std::span<const std::byte> part)> visitor) {
  const std::string header = header_of(tensors);
  visitor(std::as_bytes(std::span(header)));
  for (const StateTensor& t : tensors) t.bytes.visit(visitor);
}

void require_tensor(const SafetensorsFile& file, const StateTensor& t) {
  const int64_t index = file.find(t.name);
  const SafetensorsEntry* entry = index < 0 ? nullptr : &file.entries()[index];
  if (entry != nullptr && entry->dtype == t.dtype && entry->shape == t.shape) return;
  const std::string seen =
      entry == nullptr ? "is missing" : str("is ", entry->dtype, shape_text(entry->shape));
  throw Error(Code::kIncompatible, str(file.path(), ": tensor ", t.name, " ", seen, ", expected ",
                                       t.dtype, shape_text(t.shape), ", as the model has it"))
      .with_key(t.name)
      .with_location(file.path());
}

}  // namespace

TensorList trained_tensors(const WeightLayout& layout, const FlatArray& array) {
  TensorList tensors;
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    tensors.push_back({p.name, "F32", p.shape, array.floats.part(p.*array.offset, p.size).bytes()});
  }
  return tensors;
}

FileMark write_array_file(FileSystem& fs, const std::string& path, const TensorList& tensors) {
  MarkedOutput out(fs, path);
  visit_array(tensors, [&](std::span<const std::byte> part) { out.append(part); });
  return out.finish();
}

FileMark array_mark(const TensorList& tensors) {
  Digest64 digest;
  uint64_t bytes = 0;
  visit_array(tensors, [&](std::span<const std::byte> part) {
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

void check_array_file(FileSystem& fs, const std::string& path, const TensorList& tensors,
                      size_t count) {
  const SafetensorsFile file(fs, path);
  for (const StateTensor& t : tensors) require_tensor(file, t);
  if (file.entries().size() == count) return;
  throw Error(Code::kIncompatible, str(path, " holds ", file.entries().size(),
                                       " tensors, expected the ", count, " of the model"))
      .with_location(path);
}

void check_array_file(FileSystem& fs, const std::string& path, const WeightLayout& layout) {
  TensorList tensors;
  for (const Parameter& p : layout.parameters()) {
    if (p.trainable()) tensors.push_back({p.name, "F32", p.shape, {}});
  }
  check_array_file(fs, path, tensors);
}

void read_array_file(FileSystem& fs, const std::string& path, const TensorList& tensors) {
  const SafetensorsFile file(fs, path);
  for (const StateTensor& t : tensors) {
    require_tensor(file, t);
    uint64_t at = file.entries()[static_cast<size_t>(file.find(t.name))].offset;
    t.bytes.fill([&](std::span<std::byte> part) {
      file.file().read_at(at, part);
      at += part.size();
    });
  }
}

}  // namespace rl
