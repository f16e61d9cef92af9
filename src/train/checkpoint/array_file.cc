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
    const uint64_t end = at + t.whole_bytes();
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

using Visitor = FunctionRef<void(std::span<const std::byte> part)>;

// The bytes of the file, front to back.
void visit_array(const TensorList& tensors, ReadTensor read, Visitor visitor) {
  const std::string header = header_of(tensors);
  visitor(std::as_bytes(std::span(header)));
  for (const StateTensor& t : tensors) read(t, visitor);
}

constexpr auto kReadWhole = [](const StateTensor& t, Visitor visitor) {
  RL_CHECK(!t.first);
  t.bytes.visit(visitor);
};

// What the tensor has of the file's bytes from `at` on.
void keep_part(const StateTensor& t, uint64_t begin, uint64_t at,
               std::span<const std::byte> bytes) {
  const uint64_t end = begin + t.bytes.size();
  const uint64_t first = std::max(begin, at), last = std::min(end, at + bytes.size());
  if (first >= last) return;
  std::span<const std::byte> from = bytes.subspan(first - at, last - first);
  t.bytes.part(first - begin, from.size()).fill([&](std::span<std::byte> room) {
    std::ranges::copy(from.first(room.size()), room.begin());
    from = from.subspan(room.size());
  });
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

uint64_t element_bytes(std::string_view dtype) {
  if (dtype == "F32") return 4;
  if (dtype == "BF16") return 2;
  RL_CHECK(dtype == "I8" || dtype == "U8");
  return 1;
}

}  // namespace

uint64_t StateTensor::whole_bytes() const {
  uint64_t size = element_bytes(dtype);
  for (const int64_t n : shape) size *= static_cast<uint64_t>(n);
  return size;
}

TensorList trained_tensors(const WeightLayout& layout, const FlatArray& array) {
  TensorList tensors;
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    tensors.push_back({p.name, "F32", p.shape, array.floats.part(p.*array.offset, p.size).bytes()});
  }
  return tensors;
}

FileMark write_array_file(FileSystem& fs, const std::string& path, const TensorList& tensors) {
  return write_array_file(fs, path, tensors, kReadWhole);
}

FileMark write_array_file(FileSystem& fs, const std::string& path, const TensorList& tensors,
                          ReadTensor read) {
  MarkedOutput out(fs, path);
  visit_array(tensors, read, [&](std::span<const std::byte> part) { out.append(part); });
  return out.finish();
}

FileMark array_mark(const TensorList& tensors) {
  Digest64 digest;
  uint64_t bytes = 0;
  visit_array(tensors, kReadWhole, [&](std::span<const std::byte> part) {
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

uint64_t read_array_parts(FileSystem& fs, const std::string& path, const TensorList& tensors) {
  const SafetensorsFile file(fs, path);
  std::vector<uint64_t> places;
  for (const StateTensor& t : tensors) {
    require_tensor(file, t);
    const auto entry = static_cast<size_t>(file.find(t.name));
    places.push_back(file.entries()[entry].offset + t.first.value_or(0));
  }
  Digest64 digest;
  const uint64_t size = file.file().size();
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(size, kReadBytes)));
  for (uint64_t at = 0; at < size; at += buffer.size()) {
    const auto bytes =
        std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), size - at)));
    file.file().read_at(at, bytes);
    digest.update(bytes);
    for (size_t i = 0; i < tensors.size(); ++i) keep_part(tensors[i], places[i], at, bytes);
  }
  return digest.value();
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
