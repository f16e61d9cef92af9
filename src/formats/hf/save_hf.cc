// The weight file is written front to back in chunks of about 1 MiB; its header follows from the
// configuration alone.
#include "formats/hf/save_hf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/encoding/unicode.h"
#include "core/error.h"
#include "formats/hf/hf_config.h"
#include "formats/hf/save_tokenizer.h"

namespace rl {
namespace {

constexpr int64_t kChunkElements = int64_t{1} << 18;
constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20;

std::string join(const std::string& dir, std::string_view name) { return str(dir, "/", name); }

// Sorted by name, like the format's own writer sorts tensors of one type.
std::vector<TensorInfo> sorted_tensors(const ModelConfig& config) {
  std::vector<TensorInfo> tensors = expected_tensors(config);
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return tensors;
}

// Length field and JSON, padded with spaces so that the data starts at a multiple of 8.
std::string header_bytes(const std::vector<TensorInfo>& tensors, Dtype dtype) {
  std::string json = "{\"__metadata__\":{\"format\":\"pt\"}";
  uint64_t at = 0;
  for (const TensorInfo& t : tensors) {
    std::string shape;
    for (int64_t n : t.shape) shape += str(shape.empty() ? "" : ",", n);
    const uint64_t end = at + static_cast<uint64_t>(t.rows() * t.cols()) * dtype_bytes(dtype);
    json += str(",\"", t.name, "\":{\"dtype\":\"", dtype == Dtype::kF32 ? "F32" : "BF16",
                "\",\"shape\":[", shape, "],\"data_offsets\":[", at, ",", end, "]}");
    at = end;
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  const uint64_t length = json.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + json;
}

// Rounds values to the target type and finds the first value that is not finite in it.
class ChunkEncoder {
 public:
  explicit ChunkEncoder(Dtype dtype) : dtype_(dtype) {}
  std::span<const std::byte> encode(const TensorInfo& t, int64_t first_row,
                                    std::span<const float> values) {
    check_finite(t, first_row, values);
    if (dtype_ == Dtype::kF32) return std::as_bytes(values);
    rounded_.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) rounded_[i] = to_bf16(values[i]);
    return std::as_bytes(std::span(rounded_));
  }

 private:
  void check_finite(const TensorInfo& t, int64_t first_row, std::span<const float> values) const {
    // The smallest magnitude that becomes infinite: for bf16, what rounds up beyond its largest
    // value, otherwise infinity itself.
    const uint32_t limit = dtype_ == Dtype::kF32 ? 0x7f800000u : 0x7f7f8000u;
    uint32_t largest = 0;
    for (float v : values) largest = std::max(largest, std::bit_cast<uint32_t>(v) & 0x7fffffffu);
    if (largest < limit) return;
    const auto bad = std::find_if(values.begin(), values.end(), [&](float v) {
      return (std::bit_cast<uint32_t>(v) & 0x7fffffffu) >= limit;
    });
    const int64_t row = first_row + (bad - values.begin()) / t.cols();
    throw Error(Code::kNonFinite,
                str("tensor ", t.name, " row ", row, " holds ", double{*bad}, ", which ",
                    dtype_name(dtype_), " cannot hold as a finite value"))
        .with_key(t.name)
        .with_location(str(t.name, " row ", row));
  }
  Dtype dtype_;
  std::vector<bf16> rounded_;
};

void write_weights(FileSystem& fs, const std::string& path, const ModelConfig& config,
                   TensorReader reader, Dtype dtype) {
  const std::vector<TensorInfo> tensors = sorted_tensors(config);
  const auto file = fs.create(path);
  file->append(std::as_bytes(std::span<const char>(header_bytes(tensors, dtype))));
  ChunkEncoder encoder(dtype);
  std::vector<float> chunk;
  for (const TensorInfo& t : tensors) {
    const int64_t per_chunk = std::max<int64_t>(1, kChunkElements / t.cols());
    for (int64_t row = 0; row < t.rows(); row += per_chunk) {
      const int64_t rows = std::min(per_chunk, t.rows() - row);
      chunk.resize(static_cast<size_t>(rows * t.cols()));
      reader(t, row, chunk);
      file->append(encoder.encode(t, row, chunk));
    }
  }
  file->sync();
  file->close();
}

bool is_file_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), fits);
}

void write_text(FileSystem& fs, const std::string& path, std::string_view text) {
  const auto file = fs.create(path);
  file->append(std::as_bytes(std::span(text)));
  file->sync();
  file->close();
}

void write_tokenizer(FileSystem& fs, const std::string& dir, const ModelConfig& config,
                     const SaveOptions& options) {
  const TokenizerParts* parts = options.tokenizer_parts ? &*options.tokenizer_parts : nullptr;
  const bool copied = !options.tokenizer_json_bytes.empty();
  if (!copied && parts == nullptr) return;
  write_text(fs, join(dir, "tokenizer.json"),
             copied ? options.tokenizer_json_bytes : render_tokenizer_json(*parts));
  write_text(fs, join(dir, "tokenizer_config.json"),
             options.tokenizer_config_bytes.empty() ? render_tokenizer_config(config, parts)
                                                    : options.tokenizer_config_bytes);
}

// Writes the templates where transformers looks for them.
void write_chat_templates(FileSystem& fs, const std::string& dir,
                          const std::vector<ChatTemplateText>& templates) {
  const std::string others = join(dir, "additional_chat_templates");
  for (const ChatTemplateText& t : templates) {
    if (t.name == "default") {
      write_text(fs, join(dir, "chat_template.jinja"), t.text);
      continue;
    }
    if (!is_file_name(t.name)) {
      throw Error(Code::kUnsupported, str("a chat template is named ", quote_text(t.name),
                                          ", which is not a valid file name"));
    }
    fs.make_directories(others);
    write_text(fs, join(others, t.name + ".jinja"), t.text);
  }
  if (fs.exists(others)) fs.sync_directory(others);
}

void write_directory(FileSystem& fs, const std::string& dir, const ModelConfig& config,
                     TensorReader reader, const SaveOptions& options) {
  fs.make_directories(dir);
  write_text(fs, join(dir, "config.json"), render_hf_config(config, options.dtype));
  write_text(fs, join(dir, "generation_config.json"),
             options.generation_config_bytes.empty() ? render_generation_config(config)
                                                     : options.generation_config_bytes);
  write_tokenizer(fs, dir, config, options);
  write_chat_templates(fs, dir, options.chat_templates);
  write_weights(fs, join(dir, "model.safetensors"), config, reader, options.dtype);
  fs.sync_directory(dir);
}

// Between the two renames of a replacement, the old directory is at "<dir>.old".
void publish(FileSystem& fs, const std::string& partial, const std::string& dir) {
  const std::string old = dir + ".old";
  const bool replaces = fs.exists(dir);
  if (replaces) {
    fs.remove_all(old);
    fs.rename(dir, old);
  }
  try {
    fs.rename(partial, dir);
  } catch (const Error&) {
    if (replaces) fs.rename(old, dir);
    throw;
  }
  fs.sync_directory(parent_directory(dir));
  if (replaces) fs.remove_all(old);
}

}  // namespace

SaveOptions save_options_for(FileSystem& fs, const WeightSource& source, Dtype dtype) {
  SaveOptions o;
  o.dtype = dtype;
  o.tokenizer_parts = source.tokenizer_parts();
  o.chat_templates = source.chat_templates();
  if (!fs.is_directory(source.path())) return o;
  const auto read_if_there = [&](const char* name, uint64_t max_bytes) {
    const std::string path = join(source.path(), name);
    return fs.exists(path) ? read_text_file(fs, path, max_bytes) : std::string();
  };
  o.generation_config_bytes = read_if_there("generation_config.json", kMaxConfigBytes);
  if (source.tokenizer_json_path().empty()) return o;
  o.tokenizer_json_bytes = read_if_there("tokenizer.json", kMaxTokenizerBytes);
  o.tokenizer_config_bytes = read_if_there("tokenizer_config.json", kMaxTokenizerBytes);
  return o;
}

void save_hf_directory(FileSystem& fs, const std::string& dir_argument, const ModelConfig& config,
                       TensorReader reader, const SaveOptions& options) {
  std::string dir = dir_argument;
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  validate(config, dir);
  if (fs.exists(dir) && !options.replace_existing) {
    throw Error(Code::kAlreadyExists, str(dir, " already exists")).with_location(dir);
  }
  const std::string partial = dir + ".partial";
  fs.remove_all(partial);
  try {
    write_directory(fs, partial, config, reader, options);
    publish(fs, partial, dir);
  } catch (...) {
    try {
      fs.remove_all(partial);
    } catch (const Error&) {
      // Report the first failure; the next save removes a leftover.
    }
    throw;
  }
}

}  // namespace rl
