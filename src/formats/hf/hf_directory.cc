// Opens the files of the directory one by one and checks them against each other before anything is
// read.
#include "formats/hf/hf_directory.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/encoding/strict_json.h"
#include "core/error.h"
#include "formats/hf/hf_config.h"
#include "formats/safetensors/safetensors_set.h"
#include "formats/tensor_table.h"

namespace rl {
namespace {

constexpr uint64_t kMaxTemplateBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxTokenizerConfigBytes = uint64_t{4} << 20;
constexpr std::string_view kTemplateSuffix = ".jinja";
constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr const char* kScoreBias = "score.bias";

std::string join(const std::string& dir, std::string_view name) {
  return dir.ends_with('/') ? str(dir, name) : str(dir, "/", name);
}

ModelConfig read_config(FileSystem& fs, const std::string& dir) {
  const std::string path = join(dir, "config.json");
  ModelConfig c = parse_hf_config(read_text_file(fs, path, kMaxConfigBytes), path);
  const std::string generation = join(dir, "generation_config.json");
  if (fs.exists(generation)) {
    merge_generation_config(read_text_file(fs, generation, kMaxConfigBytes), generation, c);
  }
  return c;
}

// The templates inside tokenizer_config.json: a string, or a list of named ones.
std::vector<ChatTemplateText> templates_of_tokenizer_config(FileSystem& fs,
                                                            const std::string& path) {
  const auto root = parse_strict_json(read_text_file(fs, path, kMaxTokenizerConfigBytes), path,
                                      kMaxTokenizerConfigBytes);
  const auto fail = [&](const std::string& what) {
    throw Error(Code::kWrongType, str(path, ": /chat_template ", what))
        .with_key("chat_template")
        .with_location(str(path, " /chat_template"));
  };
  if (!root.is_object()) fail("cannot be read: the file is not an object");
  const auto it = root.find("chat_template");
  if (it == root.end() || it->is_null()) return {};
  if (it->is_string()) return {{"default", it->get<std::string>()}};
  if (!it->is_array()) fail("is neither a string nor a list");
  std::vector<ChatTemplateText> out;
  for (const auto& item : *it) {
    const bool is_entry = item.is_object() && item.contains("name") && item["name"].is_string() &&
                          item.contains("template") && item["template"].is_string();
    if (!is_entry) fail("has a malformed entry");
    const auto name = item["name"].get<std::string>();
    const auto known = [&](const ChatTemplateText& other) { return other.name == name; };
    if (std::any_of(out.begin(), out.end(), known)) fail(str("names ", name, " twice"));
    out.push_back({name, item["template"].get<std::string>()});
  }
  return out;
}

// chat_template.jinja and the files of additional_chat_templates, else tokenizer_config.json.
std::vector<ChatTemplateText> read_chat_templates(FileSystem& fs, const std::string& dir) {
  std::vector<ChatTemplateText> out;
  const std::string own = join(dir, "chat_template.jinja");
  if (fs.exists(own)) out.push_back({"default", read_text_file(fs, own, kMaxTemplateBytes)});
  const std::string others = join(dir, "additional_chat_templates");
  if (fs.is_directory(others)) {
    for (const std::string& file : fs.list(others)) {
      if (!file.ends_with(kTemplateSuffix)) continue;
      const std::string name = file.substr(0, file.size() - kTemplateSuffix.size());
      if (name == "default" && !out.empty()) continue;
      out.push_back({name, read_text_file(fs, join(others, file), kMaxTemplateBytes)});
    }
  }
  if (!out.empty()) return out;
  const std::string config = join(dir, "tokenizer_config.json");
  return fs.exists(config) ? templates_of_tokenizer_config(fs, config) : out;
}

class HfDirectory final : public WeightSource {
 public:
  HfDirectory(FileSystem& fs, const std::string& dir)
      : path_(dir), config_(read_config(fs, dir)), files_(fs, dir) {
    if (config_.scalar_head) refuse_score_bias();
    for (size_t i : match_tensors(config_, Listing(*this), files_.path())) {
      const SafetensorsEntry& e = files_.entry(i);
      table_.add(TensorInfo{e.name, e.shape, std::string(e.dtype)}, files_.rows(i), 0);
    }
    if (config_.tied_head) check_stored_head();
    config_.file_dtype = table_.exact_dtype();
    const std::string tokenizer = join(dir, "tokenizer.json");
    if (fs.exists(tokenizer)) tokenizer_json_path_ = tokenizer;
    chat_templates_ = read_chat_templates(fs, dir);
  }

  const ModelConfig& config() const override { return config_; }
  const std::vector<TensorInfo>& tensors() const override { return table_.tensors(); }
  int64_t find(std::string_view name) const override { return table_.find(name); }
  void read(int64_t index, int64_t first_row, std::span<float> out) const override {
    table_.read(index, first_row, out);
  }
  void read_block(int64_t index, const TensorBlock& block, std::span<float> out) const override {
    table_.read_block(index, block, out);
  }
  std::optional<TokenizerParts> tokenizer_parts() const override { return std::nullopt; }
  std::string tokenizer_json_path() const override { return tokenizer_json_path_; }
  std::vector<ChatTemplateText> chat_templates() const override { return chat_templates_; }
  const std::string& path() const override { return path_; }

 private:
  // RoPE frequencies are computed, never read; a stored tied head is compared afterwards.
  class Listing final : public TensorListing {
   public:
    explicit Listing(const HfDirectory& self) : self_(self) {}
    size_t size() const override { return self_.files_.size(); }
    int64_t find(const std::string& hf_name) const override { return self_.files_.find(hf_name); }
    std::string_view name(size_t i) const override { return self_.files_.entry(i).name; }
    const std::vector<int64_t>& shape(size_t i) const override {
      return self_.files_.entry(i).shape;
    }
    bool may_be_extra(size_t i) const override {
      return name(i).ends_with("rotary_emb.inv_freq") ||
             (self_.config_.tied_head && name(i) == kHead);
    }

   private:
    const HfDirectory& self_;
  };
  void check_stored_head() const;
  void refuse_score_bias() const;

  std::string path_;
  ModelConfig config_;
  SafetensorsSet files_;
  TensorTable table_;
  std::string tokenizer_json_path_;
  std::vector<ChatTemplateText> chat_templates_;
};

void HfDirectory::refuse_score_bias() const {
  const int64_t index = files_.find(kScoreBias);
  if (index < 0) return;
  const std::string& file = files_.file_of(static_cast<size_t>(index)).file().path();
  throw Error(Code::kUnsupported,
              str(file, ": tensor ", kScoreBias, ": a scalar head with a bias is not supported"))
      .with_key(kScoreBias)
      .with_expected(str(kScalarHeadName, " alone"))
      .with_location(file);
}

void HfDirectory::check_stored_head() const {
  const int64_t index = files_.find(kHead);
  if (index < 0) return;
  const auto head_index = static_cast<size_t>(index);
  const auto embedding_index = static_cast<size_t>(files_.find(kEmbedding));
  const SafetensorsEntry& head = files_.entry(head_index);
  const SafetensorsEntry& embedding = files_.entry(embedding_index);
  const InputFile& head_file = files_.file_of(head_index).file();
  const InputFile& embedding_file = files_.file_of(embedding_index).file();
  bool equal = head.dtype == embedding.dtype && head.shape == embedding.shape;
  constexpr uint64_t kChunk = uint64_t{1} << 20;
  std::vector<std::byte> a(std::min(kChunk, head.bytes)), b(a.size());
  for (uint64_t at = 0; equal && at < head.bytes; at += kChunk) {
    const size_t n = std::min(kChunk, head.bytes - at);
    head_file.read_at(head.offset + at, std::span(a).first(n));
    embedding_file.read_at(embedding.offset + at, std::span(b).first(n));
    equal = std::memcmp(a.data(), b.data(), n) == 0;
  }
  if (equal) return;
  throw Error(Code::kConflict, str(head_file.path(), ": tie_word_embeddings is true, but tensor ",
                                   kHead, " differs from ", kEmbedding))
      .with_key(std::string(kHead))
      .with_expected(str("no such tensor, or one equal to ", kEmbedding))
      .with_location(str(head_file.path(), " offset ", head.offset));
}

}  // namespace

std::unique_ptr<WeightSource> open_hf_directory(FileSystem& fs, const std::string& dir) {
  return std::make_unique<HfDirectory>(fs, dir);
}

}  // namespace rl
