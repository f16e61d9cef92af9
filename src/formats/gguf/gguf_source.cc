// Metadata keys that change the arithmetic in an unsupported way are refused by name; keys that
// only describe (name, licence, quantisation version) are not read.
#include "formats/gguf/gguf_source.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "formats/gguf/gguf.h"
#include "formats/tensor_table.h"

namespace rl {
namespace {

constexpr uint64_t kMaxMerges = 8'000'000;

class Metadata {
 public:
  explicit Metadata(const GgufFile& file) : file_(file) {
    const auto name = file.text("general.architecture");
    if (!name) missing("general.architecture");
    arch_ = *name;
    if (arch_ != "llama" && arch_ != "qwen2") {
      unsupported("general.architecture", str("\"", arch_.substr(0, 64), "\""), "llama or qwen2");
    }
  }
  const GgufFile& file() const { return file_; }
  const std::string& arch() const { return arch_; }
  std::string key(std::string_view suffix) const { return str(arch_, ".", suffix); }

  int64_t integer(std::string_view suffix) const {
    const auto v = file_.integer(key(suffix));
    if (!v) missing(key(suffix));
    return *v;
  }
  double number(std::string_view suffix) const {
    const auto v = file_.number(key(suffix));
    if (!v) missing(key(suffix));
    return *v;
  }
  int32_t token_id(const char* name) const {
    const auto v = file_.integer(name);
    if (!v) return -1;
    if (*v >= 0 && std::in_range<int32_t>(*v)) return static_cast<int32_t>(*v);
    throw Error(Code::kOutOfRange, str(file_.path(), ": ", name, " is ", *v))
        .with_key(name)
        .with_location(str(file_.path(), " key ", name));
  }
  [[noreturn]] void missing(const std::string& key) const {
    throw Error(Code::kDataLoss, str(file_.path(), ": key ", key, " is missing"))
        .with_key(key)
        .with_location(str(file_.path(), " key ", key));
  }
  [[noreturn]] void unsupported(const std::string& key, const std::string& seen,
                                const char* expected) const {
    throw Error(Code::kUnsupported,
                str(file_.path(), ": ", key, " is ", seen, "; supported: ", expected))
        .with_key(key)
        .with_expected(expected)
        .with_location(str(file_.path(), " key ", key));
  }

 private:
  const GgufFile& file_;
  std::string arch_;
};

// An integer key that must be absent or equal to value.
void require_integer(const Metadata& m, std::string_view suffix, int64_t value) {
  const auto v = m.file().integer(m.key(suffix));
  if (v && *v != value) m.unsupported(m.key(suffix), str(*v), str(value).c_str());
}

void refuse_unsupported_keys(const Metadata& m) {
  const auto scaling = m.file().text(m.key("rope.scaling.type"));
  if (scaling && *scaling != "none") {
    m.unsupported(m.key("rope.scaling.type"), str("\"", scaling->substr(0, 64), "\""), "none");
  }
  for (const char* suffix : {"rope.scaling.factor", "rope.scale_linear"}) {
    const auto factor = m.file().number(m.key(suffix));
    if (factor && *factor != 1.0) m.unsupported(m.key(suffix), str(*factor), "1");
  }
  for (const char* suffix : {"attention.sliding_window", "expert_count", "expert_used_count"}) {
    require_integer(m, suffix, 0);
  }
}

void add_eos_ids(const Metadata& m, ModelConfig& c) {
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const int32_t id = m.token_id(key);
    if (id >= 0 && (c.eos_ids.empty() || c.eos_ids.front() != id)) c.eos_ids.push_back(id);
  }
}

int64_t embedding_rows(const GgufFile& file) {
  const int64_t i = file.find_tensor("token_embd.weight");
  if (i >= 0) return file.tensors()[static_cast<size_t>(i)].shape.front();
  throw Error(Code::kDataLoss, str(file.path(), ": tensor token_embd.weight is missing"))
      .with_key("token_embd.weight")
      .with_location(str(file.path(), " tensor list"));
}

void read_head_sizes(const Metadata& m, ModelConfig& c) {
  c.heads = m.integer("attention.head_count");
  c.kv_heads = m.file().has(m.key("attention.head_count_kv")) ? m.integer("attention.head_count_kv")
                                                              : c.heads;
  if (m.file().has(m.key("attention.key_length"))) {
    c.head_dim = m.integer("attention.key_length");
  } else {
    if (c.heads < 1 || c.hidden % c.heads != 0) {
      m.unsupported(m.key("attention.head_count"), str(c.heads),
                    str("a divisor of ", c.hidden).c_str());
    }
    c.head_dim = c.hidden / c.heads;
  }
  require_integer(m, "attention.value_length", c.head_dim);
  require_integer(m, "rope.dimension_count", c.head_dim);
}

ModelConfig read_config(const Metadata& m) {
  ModelConfig c;
  c.model_type = m.arch();
  c.family = m.arch() == "llama" ? Family::kLlama : Family::kQwen2;
  c.qkv_bias = c.family == Family::kQwen2;
  c.vocab = embedding_rows(m.file());
  require_integer(m, "vocab_size", c.vocab);
  c.hidden = m.integer("embedding_length");
  c.layers = m.integer("block_count");
  c.ffn = m.integer("feed_forward_length");
  c.max_position = m.integer("context_length");
  read_head_sizes(m, c);
  c.rms_eps = static_cast<float>(m.number("attention.layer_norm_rms_epsilon"));
  // 10000 is the format's default base.
  c.rope.theta = m.file().number(m.key("rope.freq_base")).value_or(10000.0);
  c.tied_head = m.file().find_tensor("output.weight") < 0;
  add_eos_ids(m, c);
  c.bos_id = m.token_id("tokenizer.ggml.bos_token_id");
  c.pad_id = m.token_id("tokenizer.ggml.padding_token_id");
  refuse_unsupported_keys(m);
  validate(c, m.file().path());
  return c;
}

constexpr std::pair<std::string_view, std::string_view> kLayerNames[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

// The GGUF name of a Hugging Face tensor.
std::string gguf_name(const std::string& name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  const size_t layer_end = name.find('.', kLayers.size());
  const size_t kind = name.rfind('.');
  const std::string_view stem = std::string_view(name).substr(layer_end + 1, kind - layer_end - 1);
  for (const auto& [gguf, hf] : kLayerNames) {
    if (stem != hf) continue;
    const std::string_view layer =
        std::string_view(name).substr(kLayers.size(), layer_end - kLayers.size());
    return str("blk.", layer, ".", gguf, name.substr(kind));
  }
  throw Error(Code::kInternal, str("tensor ", name, " has no name in GGUF")).with_key(name);
}

class Listing final : public TensorListing {
 public:
  explicit Listing(const GgufFile& file) : file_(file) {}
  size_t size() const override { return file_.tensors().size(); }
  int64_t find(const std::string& hf_name) const override {
    return file_.find_tensor(gguf_name(hf_name));
  }
  std::string_view name(size_t i) const override { return file_.tensors()[i].name; }
  const std::vector<int64_t>& shape(size_t i) const override { return file_.tensors()[i].shape; }
  bool may_be_extra(size_t) const override { return false; }

 private:
  const GgufFile& file_;
};

class GgufSource final : public WeightSource {
 public:
  GgufSource(FileSystem& fs, const std::string& path)
      : file_(fs, path), config_(read_config(Metadata(file_))) {
    const std::vector<size_t> match = match_tensors(config_, Listing(file_), path);
    const std::vector<TensorInfo> expected = expected_tensors(config_);
    for (size_t i = 0; i < expected.size(); ++i) {
      TensorInfo info = expected[i];
      info.stored_type = file_.tensors()[match[i]].type_name;
      const bool q_or_k =
          info.name.ends_with("q_proj.weight") || info.name.ends_with("k_proj.weight");
      const bool interleaved = q_or_k && config_.family == Family::kLlama;
      table_.add(std::move(info), file_.rows(static_cast<int64_t>(match[i])),
                 interleaved ? config_.head_dim : 0);
    }
    config_.file_dtype = table_.exact_dtype();
    check_tokenizer_counts();
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
  std::optional<TokenizerParts> tokenizer_parts() const override;
  std::string tokenizer_json_path() const override { return {}; }
  std::vector<ChatTemplateText> chat_templates() const override;
  const std::string& path() const override { return file_.path(); }

 private:
  void check_tokenizer_counts() const;

  GgufFile file_;
  ModelConfig config_;
  TensorTable table_;
};

// The default template has its own key; the others are listed, each under a suffix of that key.
std::vector<ChatTemplateText> GgufSource::chat_templates() const {
  static const std::string kKey = "tokenizer.chat_template";
  std::vector<ChatTemplateText> out;
  if (const auto text = file_.text(kKey)) out.push_back({"default", *text});
  for (const std::string& name : file_.texts(kKey + "s").value_or(std::vector<std::string>())) {
    const auto known = [&](const ChatTemplateText& other) { return other.name == name; };
    if (std::any_of(out.begin(), out.end(), known)) continue;
    if (const auto text = file_.text(str(kKey, ".", name))) out.push_back({name, *text});
  }
  return out;
}

void GgufSource::check_tokenizer_counts() const {
  const auto check = [&](const GgufValue& v, uint64_t limit) {
    if (v.count <= limit) return;
    throw Error(Code::kResourceExhausted, str(path(), ": key ", v.key, " has ", v.count,
                                              " entries, above the limit of ", limit))
        .with_key(v.key)
        .with_location(str(path(), " offset ", v.offset));
  };
  for (const GgufValue& v : file_.values()) {
    if (v.key == "tokenizer.ggml.tokens") check(v, static_cast<uint64_t>(config_.vocab));
    if (v.key == "tokenizer.ggml.token_type") check(v, static_cast<uint64_t>(config_.vocab));
    if (v.key == "tokenizer.ggml.merges") check(v, kMaxMerges);
  }
}

std::optional<TokenizerParts> GgufSource::tokenizer_parts() const {
  const auto model = file_.text("tokenizer.ggml.model");
  if (!model) return std::nullopt;
  TokenizerParts p;
  p.source = path();
  p.model = *model;
  p.pre = file_.text("tokenizer.ggml.pre").value_or(p.pre);
  p.tokens = file_.texts("tokenizer.ggml.tokens").value_or(std::vector<std::string>{});
  p.token_types = file_.integers("tokenizer.ggml.token_type").value_or(std::vector<int32_t>{});
  p.merges = file_.texts("tokenizer.ggml.merges").value_or(std::vector<std::string>{});
  p.bos_id = file_.integer("tokenizer.ggml.bos_token_id");
  p.eos_id = file_.integer("tokenizer.ggml.eos_token_id");
  p.pad_id = file_.integer("tokenizer.ggml.padding_token_id");
  p.add_bos = file_.boolean("tokenizer.ggml.add_bos_token");
  return p;
}

}  // namespace

std::unique_ptr<WeightSource> open_gguf_source(FileSystem& fs, const std::string& path) {
  return std::make_unique<GgufSource>(fs, path);
}

}  // namespace rl
