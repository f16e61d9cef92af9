// 64-bit numbers are JSON integers, digests are 16 hexadecimal digits.
#include "train/checkpoint/checkpoint_manifest.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/encoding/strict_json.h"
#include "core/error.h"
#include "core/hash.h"

namespace rl {
namespace {

constexpr int64_t kFormatVersion = 1;
constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20;
constexpr uint64_t kDigestChars = 16;

constexpr const char* kCritic = "critic";

void write_counters(const TrainerCounters& c, nlohmann::json& object) {
  object["optimizer_steps"] = c.optimizer_steps;
  object["skipped_steps"] = c.skipped_steps;
  object["weight_version"] = c.weight_version;
}

// Absent if everything is trained, as in checkpoints of 0.1.
void write_frozen(const FrozenMark& frozen, nlohmann::json& object) {
  if (frozen.names.empty()) return;
  object["frozen"] = {{"parameters", frozen.names}, {"xxh64", hex64(frozen.digest)}};
  for (const uint64_t digest : frozen.digests) object["frozen"]["each"].push_back(hex64(digest));
}

// Absent if they are the default, as in checkpoints of 0.2.
void write_contents(const CheckpointContents& contents, nlohmann::json& object) {
  if (contents == CheckpointContents{}) return;
  object["contents"] = nlohmann::json::array();
  for (const auto& [name, held] : kContentNames) {
    if (contents.*held) object["contents"].push_back(name);
  }
}

std::string render(const CheckpointManifest& m) {
  const CheckpointMeta& meta = m.state.meta;
  nlohmann::json json = {{"format_version", kFormatVersion},
                         {"step", meta.step},
                         {"config_digest", meta.config_digest},
                         {"pipeline", meta.pipeline}};
  if (meta.score) json["score"] = {{"metric", meta.score->metric}, {"value", meta.score->value}};
  write_contents(meta.contents, json);
  for (size_t model = 0; model < m.state.counters.size(); ++model) {
    nlohmann::json& object = model == 0 ? json : json[kCritic];
    write_counters(m.state.counters[model], object);
    write_frozen(m.frozen[model], object);
  }
  for (const auto& [name, mark] : m.files)
    json["files"][name] = {{"bytes", mark.bytes}, {"xxh64", hex64(mark.digest)}};
  try {
    return json.dump(1) + "\n";
  } catch (const nlohmann::json::exception& e) {
    throw Error(Code::kInvalidArgument,
                str("the pipeline's state or the configuration digest is not UTF-8: ", e.what()));
  }
}

// A JSON object of the manifest, with checked access by key.
class Fields {
 public:
  Fields(const nlohmann::json& json, const std::string& path) : json_(json), path_(path) {
    if (!json.is_object()) fail("", "an object");
  }
  bool has(const char* key) const { return json_.contains(key); }
  const nlohmann::json& at(const char* key) const {
    const auto it = json_.find(key);
    if (it == json_.end()) fail(key, "a value");
    return *it;
  }
  uint64_t u64(const char* key) const {
    const nlohmann::json& v = at(key);
    if (!v.is_number_unsigned()) fail(key, "an integer of at least 0");
    return v.get<uint64_t>();
  }
  int64_t i64(const char* key) const {
    const uint64_t v = u64(key);
    if (v > static_cast<uint64_t>(INT64_MAX)) fail(key, "an integer below 2^63");
    return static_cast<int64_t>(v);
  }
  std::string text(const char* key) const {
    const nlohmann::json& v = at(key);
    if (!v.is_string()) fail(key, "a string");
    return v.get<std::string>();
  }
  uint64_t digest(const char* key) const { return digest_of(key, text(key)); }
  std::vector<std::string> texts(const char* key) const {
    const nlohmann::json& list = at(key);
    if (!list.is_array()) fail(key, "a list");
    std::vector<std::string> out;
    for (const nlohmann::json& each : list) {
      if (!each.is_string()) fail(key, "a list of strings");
      out.push_back(each.get<std::string>());
    }
    return out;
  }
  uint64_t digest_of(const char* key, const std::string& hex) const {
    uint64_t value = 0;
    std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    if (hex64(value) != hex) fail(key, "16 hexadecimal digits");
    return value;
  }
  [[noreturn]] void fail(const char* key, const char* expected) const {
    throw Error(Code::kDataLoss, str(path_, ": key '", key, "' is not ", expected))
        .with_key(key)
        .with_expected(expected)
        .with_location(path_);
  }

 private:
  const nlohmann::json& json_;
  const std::string& path_;
};

// Absent without a metric to keep the best by.
std::optional<CheckpointScore> score_of(const Fields& fields, const std::string& path) {
  if (!fields.has("score")) return std::nullopt;
  const Fields score(fields.at("score"), path);
  const nlohmann::json& value = score.at("value");
  if (!value.is_number()) score.fail("value", "a number");
  return CheckpointScore{score.text("metric"), value.get<double>()};
}

CheckpointContents contents_of(const Fields& fields) {
  if (!fields.has("contents")) return {};
  const nlohmann::json& names = fields.at("contents");
  if (!names.is_array()) fields.fail("contents", "a list");
  CheckpointContents contents{false, false, false, false};
  for (const nlohmann::json& name : names) {
    const auto known =
        std::ranges::find_if(kContentNames, [&](const ContentName& n) { return name == n.name; });
    if (known == std::end(kContentNames)) fields.fail("contents", "a list of known names");
    contents.*known->held = true;
  }
  return contents;
}

TrainerCounters counters_of(const Fields& fields) {
  return {fields.i64("optimizer_steps"), fields.i64("skipped_steps"), fields.u64("weight_version")};
}

FrozenMark frozen_of(const Fields& fields, const std::string& path) {
  FrozenMark mark;
  if (!fields.has("frozen")) return mark;
  const Fields frozen(fields.at("frozen"), path);
  mark.digest = frozen.digest("xxh64");
  mark.names = frozen.texts("parameters");
  if (!frozen.has("each")) return mark;
  for (const std::string& hex : frozen.texts("each")) {
    mark.digests.push_back(frozen.digest_of("each", hex));
  }
  if (mark.digests.size() != mark.names.size()) frozen.fail("each", "a digest of each parameter");
  return mark;
}

CheckpointManifest parse(const std::string& text, const std::string& path) {
  const nlohmann::json json = parse_strict_json(text, path, kMaxManifestBytes);
  const Fields fields(json, path);
  if (fields.i64("format_version") != kFormatVersion) {
    throw Error(Code::kIncompatible, str(path, " has format version ", fields.i64("format_version"),
                                         "; this library reads ", kFormatVersion))
        .with_location(path);
  }
  CheckpointManifest m;
  m.state.meta = {fields.i64("step"), fields.text("config_digest"), fields.text("pipeline"),
                  score_of(fields, path), contents_of(fields)};
  const auto add_model = [&](const Fields& model) {
    m.state.counters.push_back(counters_of(model));
    m.frozen.push_back(frozen_of(model, path));
  };
  add_model(fields);
  if (fields.has(kCritic)) add_model({fields.at(kCritic), path});
  const Fields files(fields.at("files"), path);
  for (size_t model = 0; model < m.state.counters.size(); ++model) {
    const auto add_file = [&](const std::string& name) {
      const Fields file(files.at(name.c_str()), path);
      m.files[name] = {file.u64("bytes"), file.digest("xxh64")};
    };
    const CheckpointContents& contents = m.state.meta.contents;
    for (const char* array : kArrays) {
      if (holds_array(contents, array)) add_file(array_file_name(model, array));
    }
    for (const char* array : kOptionalArrays) {
      const std::string name = array_file_name(model, array);
      if (files.has(name.c_str())) add_file(name);
    }
  }
  return m;
}

constexpr const char* kManifestName = "manifest.json";
constexpr const char* kDigestName = "manifest.xxh64";
std::string manifest_path(const std::string& dir) { return str(dir, "/", kManifestName); }
std::string digest_path(const std::string& dir) { return str(dir, "/", kDigestName); }

// Whole or damaged.
bool is_checkpoint(FileSystem& fs, const std::string& dir) {
  return fs.is_directory(dir) && (fs.exists(manifest_path(dir)) || fs.exists(digest_path(dir)));
}

}  // namespace

bool holds_array(const CheckpointContents& contents, std::string_view array) {
  return array == kMasters ? contents.model : contents.optimizer;
}

std::string array_file_name(size_t model, std::string_view array) {
  return str(model == 0 ? "" : "critic_", array, ".safetensors");
}

void read_part(const std::string& dir, const std::string& name, FunctionRef<void()> read) {
  try {
    read();
  } catch (const Error& e) {
    if (e.code != Code::kNotFound) throw;
    throw Error(Code::kDataLoss,
                str("the checkpoint ", dir, " is damaged: its file ", name, " is missing"))
        .with_location(str(dir, "/", name))
        .with_cause(e);
  }
}

void write_manifest(FileSystem& fs, const std::string& dir, const CheckpointManifest& manifest) {
  const FileMark mark = write_marked_text(fs, manifest_path(dir), render(manifest));
  write_marked_text(fs, digest_path(dir), hex64(mark.digest));
}

CheckpointManifest read_manifest(FileSystem& fs, const std::string& dir) {
  if (!is_checkpoint(fs, dir)) {
    throw Error(Code::kNotFound, str(dir, " is not a checkpoint directory")).with_location(dir);
  }
  const std::string path = manifest_path(dir);
  std::string text;
  read_part(dir, kManifestName, [&] { text = read_text_file(fs, path, kMaxManifestBytes); });
  std::string expected;
  read_part(dir, kDigestName,
            [&] { expected = read_text_file(fs, digest_path(dir), kDigestChars); });
  const std::string seen = hex64(digest64(text));
  if (seen != expected) {
    throw Error(Code::kDataLoss, str(path, " has digest ", seen, ", but ", digest_path(dir),
                                     " says '", expected, "'"))
        .with_location(path);
  }
  return parse(text, path);
}

}  // namespace rl
