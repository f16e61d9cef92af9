// The file is read whole: its size is capped, and a real one has about a hundred bytes per tensor.
#include "formats/safetensors/shard_index.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/encoding/strict_json.h"
#include "core/error.h"

namespace rl {
namespace {

using Json = nlohmann::json;

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  [[noreturn]] void fail(Code code, const std::string& pointer, const std::string& key,
                         const std::string& what) const {
    throw Error(code, str(path_, ": ", pointer, " ", what))
        .with_key(key)
        .with_location(str(path_, " ", pointer));
  }
  const Json& weight_map(const Json& root) const {
    if (!root.is_object()) fail(Code::kWrongType, "/", "", "is not an object");
    const auto it = root.find("weight_map");
    if (it == root.end()) fail(Code::kDataLoss, "/weight_map", "weight_map", "is missing");
    if (!it->is_object()) fail(Code::kWrongType, "/weight_map", "weight_map", "is not an object");
    if (it->empty()) fail(Code::kDataLoss, "/weight_map", "weight_map", "names no tensor");
    return *it;
  }
  std::string file_name(const std::string& tensor, const Json& value) const;
  std::optional<uint64_t> total_size(const Json& root) const;

 private:
  const std::string& path_;
};

std::string Reader::file_name(const std::string& tensor, const Json& value) const {
  constexpr std::string_view kSuffix = ".safetensors";
  constexpr size_t kLongest = 255;
  const std::string pointer = str("/weight_map/", tensor.substr(0, 1024));
  if (!value.is_string()) fail(Code::kWrongType, pointer, tensor, "is not a file name");
  const auto& name = value.get_ref<const std::string&>();
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '/' && c != '\\' && c != 0x7f;
  });
  if (plain && name.size() > kSuffix.size() && name.size() <= kLongest && name[0] != '.' &&
      name.ends_with(kSuffix)) {
    return name;
  }
  fail(Code::kDataLoss, pointer, tensor,
       str("is \"", name.substr(0, kLongest),
           "\", expected the name of a .safetensors file in the same directory"));
}

std::optional<uint64_t> Reader::total_size(const Json& root) const {
  const auto metadata = root.find("metadata");
  if (metadata == root.end() || metadata->is_null()) return std::nullopt;
  if (!metadata->is_object()) fail(Code::kWrongType, "/metadata", "metadata", "is not an object");
  const auto size = metadata->find("total_size");
  if (size == metadata->end()) return std::nullopt;
  // Some writers store it as 214272.0.
  const bool whole = size->is_number_float() && size->get<double>() >= 0 &&
                     size->get<double>() < 0x1p53 &&
                     size->get<double>() == static_cast<double>(size->get<uint64_t>());
  if (size->is_number_unsigned() || whole) return size->get<uint64_t>();
  fail(Code::kWrongType, "/metadata/total_size", "total_size", "is not a number of bytes");
}

}  // namespace

ShardIndex read_shard_index(FileSystem& fs, const std::string& path) {
  const Json root = parse_strict_json(read_text_file(fs, path, kShardIndexCaps.bytes), path,
                                      kShardIndexCaps.bytes);
  const Reader reader(path);
  const Json& map = reader.weight_map(root);
  std::set<std::string> files;
  for (const auto& [tensor, file] : map.items()) {
    files.insert(reader.file_name(tensor, file));
    if (files.size() > kShardIndexCaps.files) {
      reader.fail(Code::kResourceExhausted, "/weight_map", "weight_map",
                  str("names more than ", kShardIndexCaps.files, " files"));
    }
  }
  ShardIndex out;
  out.files.assign(files.begin(), files.end());
  for (const auto& [tensor, file] : map.items()) {
    const auto at =
        std::lower_bound(out.files.begin(), out.files.end(), file.get_ref<const std::string&>());
    out.tensor_file.emplace(tensor, static_cast<size_t>(at - out.files.begin()));
  }
  out.total_size = reader.total_size(root);
  return out;
}

}  // namespace rl
