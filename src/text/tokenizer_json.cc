// Reads a Hugging Face tokenizer.json. An unsupported feature that affects ids is a named error
// with its JSON pointer; members that only affect offsets, padding or truncation are ignored.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/encoding/strict_json.h"
#include "core/encoding/unicode.h"
#include "core/error.h"
#include "text/regex_splitter.h"
#include "text/tokenizer_spec.h"

namespace rl {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxJsonBytes = uint64_t{256} << 20;
// Ids may have gaps, but a small file must not cause a large table.
constexpr size_t kMaxHoles = 65'536;

[[noreturn]] void fail(Code code, const std::string& where, const std::string& what) {
  throw Error(code, str(where, ": ", what)).with_location(where);
}

// A JSON value with its file and pointer, for errors.
class Node {
 public:
  Node(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}
  const std::string& where() const { return where_; }
  const Json& json() const { return json_; }

  bool is_null(const char* key) const {
    const auto at = object().find(key);
    return at == json_.end() || at->is_null();
  }
  Node at(const std::string& key) const {
    const auto found = object().find(key);
    if (found == json_.end()) fail(Code::kDataLoss, where_, str("member \"", key, "\" is missing"));
    return Node(*found, str(where_, "/", key));
  }
  Node item(size_t i) const { return Node(array()[i], str(where_, "/", i)); }
  const Json& object() const { return require(json_.is_object(), "an object"); }
  const Json& array() const { return require(json_.is_array(), "an array"); }
  const std::string& text() const {
    return require(json_.is_string(), "a string").get_ref<const std::string&>();
  }
  std::string type() const { return at("type").text(); }
  bool flag(const char* key, bool absent) const {
    if (is_null(key)) return absent;
    const Node member = at(key);
    return member.require(member.json_.is_boolean(), "true or false").get<bool>();
  }
  size_t token_id() const {
    require(json_.is_number_unsigned(), "a token id");
    const auto id = json_.get<uint64_t>();
    if (id >= kMaxVocabulary) {
      fail(Code::kResourceExhausted, where_, str("id ", id, " is not below ", kMaxVocabulary));
    }
    return static_cast<size_t>(id);
  }

 private:
  const Json& require(bool holds, const char* expected) const {
    if (!holds) {
      fail(Code::kDataLoss, where_, str("expected ", expected, ", found ", json_.type_name()));
    }
    return json_;
  }

  const Json& json_;
  std::string where_;
};

[[noreturn]] void unsupported(const Node& node, const char* what, const std::string& type) {
  fail(Code::kUnsupported, node.where(), str(what, " ", quote_text(type), " is not supported"));
}

// Stores token text at id; the id must be free or hold the same text.
void place(TokenizerSpec& spec, size_t id, const std::string& text, TokenKind kind,
           const Node& node) {
  if (id >= spec.tokens.size()) spec.tokens.resize(id + 1);
  TokenSpec& slot = spec.tokens[id];
  if (slot.kind != TokenKind::kHole && slot.text != text) {
    fail(Code::kDataLoss, node.where(),
         str("id ", id, " belongs to both ", quote_text(slot.text), " and ", quote_text(text)));
  }
  slot = {text, kind};
}

void check_id_range(size_t max_id, size_t count, const Node& node) {
  if (max_id > count + kMaxHoles) {
    fail(Code::kDataLoss, node.where(),
         str("the largest id is ", max_id, " but there are only ", count, " tokens"));
  }
}

void read_vocabulary(const Node& vocab, TokenizerSpec& spec) {
  size_t max_id = 0;
  const auto& members = vocab.object().get_ref<const Json::object_t&>();
  for (const auto& [text, id] : members) {
    if (!id.is_number_unsigned()) {
      fail(Code::kDataLoss, vocab.where(), str("the id of ", quote_text(text), " is not a number"));
    }
    max_id = std::max(max_id, Node(id, str(vocab.where(), "/", quote_text(text))).token_id());
  }
  check_id_range(max_id, members.size(), vocab);
  for (const auto& [text, id] : members) {
    place(spec, id.get<size_t>(), text, TokenKind::kModel, vocab);
  }
}

void read_merges(const Node& merges, TokenizerSpec& spec) {
  const Json& items = merges.array();
  if (items.size() > kMaxMerges) {
    fail(Code::kResourceExhausted, merges.where(),
         str(items.size(), " merges exceed the limit of ", kMaxMerges));
  }
  spec.merges.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const Json& item = items[i];
    if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
      spec.merges.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
      continue;
    }
    const Node node = merges.item(i);
    const std::string& text = node.text();
    const size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) {
      fail(Code::kDataLoss, node.where(), str(quote_text(text), " is not \"left right\""));
    }
    spec.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
}

// A member that changes ids unless it is null, empty, zero or false.
void require_unset(const Node& model, const char* key) {
  if (model.is_null(key)) return;
  const Node member = model.at(key);
  if (member.json().is_string() && member.text().empty()) return;
  if (member.json().is_number() && member.json().get<double>() == 0) return;
  if (member.json().is_boolean() && !member.json().get<bool>()) return;
  fail(Code::kUnsupported, member.where(), str(key, " is not supported"));
}

void read_model(const Node& model, TokenizerSpec& spec) {
  if (!model.is_null("type") && model.type() != "BPE") unsupported(model, "model", model.type());
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                          "byte_fallback", "fuse_unk"}) {
    require_unset(model, key);
  }
  spec.ignore_merges = model.flag("ignore_merges", false);
  read_vocabulary(model.at("vocab"), spec);
  read_merges(model.at("merges"), spec);
  if (model.is_null("unk_token") || model.at("unk_token").text().empty()) return;
  const Node unknown = model.at("unk_token");
  const auto& vocab = model.at("vocab").json();
  const auto at = vocab.find(unknown.text());
  if (at == vocab.end()) {
    fail(Code::kDataLoss, unknown.where(),
         str(quote_text(unknown.text()), " is not in the vocabulary"));
  }
  spec.unknown_id = at->get<int32_t>();
}

AddedToken read_added_token(const Node& node, const Json& vocab) {
  AddedToken token;
  token.text = node.at("content").text();
  token.id = static_cast<int32_t>(node.at("id").token_id());
  token.special = node.flag("special", false);
  token.lstrip = node.flag("lstrip", false);
  token.rstrip = node.flag("rstrip", false);
  token.single_word = node.flag("single_word", false);
  token.normalized = node.flag("normalized", !token.special);
  if (token.text.size() > kMaxAddedTokenBytes) {
    fail(Code::kResourceExhausted, node.where(),
         str("an added token of ", token.text.size(), " bytes exceeds the limit of ",
             kMaxAddedTokenBytes));
  }
  const auto known = vocab.find(token.text);
  if (known != vocab.end() && known->get<int64_t>() != token.id) {
    fail(Code::kDataLoss, node.where(),
         str(quote_text(token.text), " has id ", token.id, ", in the vocabulary ",
             known->get<int64_t>()));
  }
  return token;
}

void read_added_tokens(const Node& list, const Json& vocab, TokenizerSpec& spec) {
  const size_t count = list.array().size();
  size_t max_id = 0;
  for (size_t i = 0; i < count; ++i) {
    spec.added.push_back(read_added_token(list.item(i), vocab));
    max_id = std::max(max_id, static_cast<size_t>(spec.added.back().id));
  }
  check_id_range(max_id, spec.tokens.size() + count, list);
  for (size_t i = 0; i < count; ++i) {
    const AddedToken& token = spec.added[i];
    place(spec, static_cast<size_t>(token.id), token.text, TokenKind::kAdded, list.item(i));
  }
}

void read_normalizer(const Node& node, TokenizerSpec& spec) {
  const std::string type = node.type();
  if (type == "NFC") {
    spec.nfc = true;
  } else if (type == "Sequence") {
    const Node list = node.at("normalizers");
    for (size_t i = 0; i < list.array().size(); ++i) read_normalizer(list.item(i), spec);
  } else {
    unsupported(node, "normalizer", type);
  }
}

// Accepts behaviours in which every match and every gap is a piece. "Removed" with invert keeps
// matches only, which is equivalent if the pattern leaves no gap, as with the known patterns.
void read_split(const Node& node, TokenizerSpec& spec) {
  const std::string& behavior = node.at("behavior").text();
  const bool inverted = node.flag("invert", false);
  const Node pattern = node.at("pattern");
  const bool literal = !pattern.is_null("String");
  const Node text = literal ? pattern.at("String") : pattern.at("Regex");
  const auto known = literal ? std::nullopt : find_known_pattern(text.text());
  const bool same_as_isolated = behavior == "Removed" && inverted && known;
  if (behavior != "Isolated" && !same_as_isolated) {
    unsupported(node, "split behavior", behavior);
  }
  if (known)
    spec.pre_tokenizer.append(known_pattern_splitter(*known));
  else if (literal)
    spec.pre_tokenizer.append(literal_splitter(text.text(), text.where()));
  else
    spec.pre_tokenizer.append(regex_splitter(text.text(), text.where()));
}

// State of a walk over the pre-tokenizer: steps so far and whether bytes are spelled out.
struct PreTokenizerWalk {
  TokenizerSpec& spec;
  size_t num_steps = 0;
  bool byte_level = false;

  void read(const Node& node) {
    const std::string type = node.type();
    if (type == "Sequence") {
      const Node list = node.at("pretokenizers");
      for (size_t i = 0; i < list.array().size(); ++i) read(list.item(i));
      return;
    }
    if (byte_level) unsupported(node, "a step after ByteLevel,", type);
    if (type == "Split")
      read_split(node, spec);
    else if (type == "Digits") {
      spec.pre_tokenizer.append(digits_splitter(node.flag("individual_digits", false)));
    } else if (type == "ByteLevel") {
      read_byte_level(node);
    } else {
      unsupported(node, "pre-tokenizer", type);
    }
    ++num_steps;
  }

  void read_byte_level(const Node& node) {
    byte_level = true;
    spec.add_prefix_space = node.flag("add_prefix_space", true);
    if (spec.add_prefix_space && num_steps > 0) {
      fail(Code::kUnsupported, node.where(),
           "add_prefix_space after another step is not supported");
    }
    if (node.flag("use_regex", true)) {
      spec.pre_tokenizer.append(known_pattern_splitter(KnownPattern::kGpt2));
    }
  }
};

void append_template_token(const Node& entry, const Node& table, std::vector<int32_t>& ids) {
  const Node ref = entry.at("SpecialToken").at("id");
  const Node listed = table.at(ref.text()).at("ids");
  for (size_t i = 0; i < listed.array().size(); ++i) {
    ids.push_back(static_cast<int32_t>(listed.item(i).token_id()));
  }
}

void read_template(const Node& node, TokenizerSpec& spec) {
  const Node single = node.at("single");
  bool seen_text = false;
  for (size_t i = 0; i < single.array().size(); ++i) {
    const Node entry = single.item(i);
    if (!entry.is_null("Sequence")) {
      if (seen_text) unsupported(entry, "template with two sequences", "Sequence");
      seen_text = true;
      continue;
    }
    append_template_token(entry, node.at("special_tokens"),
                          seen_text ? spec.suffix_ids : spec.prefix_ids);
  }
  if (!seen_text) fail(Code::kDataLoss, single.where(), "the template has no slot for the text");
}

void read_post_processor(const Node& node, TokenizerSpec& spec) {
  const std::string type = node.type();
  if (type == "ByteLevel") return;  // affects offsets only
  if (type == "TemplateProcessing") {
    if (!spec.prefix_ids.empty() || !spec.suffix_ids.empty()) {
      unsupported(node, "a second", type);
    }
    read_template(node, spec);
  } else if (type == "Sequence") {
    const Node list = node.at("processors");
    for (size_t i = 0; i < list.array().size(); ++i) read_post_processor(list.item(i), spec);
  } else {
    unsupported(node, "post-processor", type);
  }
}

void check_decoder(const Node& root) {
  if (root.is_null("decoder")) return;
  const Node decoder = root.at("decoder");
  if (decoder.type() != "ByteLevel") unsupported(decoder, "decoder", decoder.type());
}

// The id of the token that config[key] names, as text or as an object with "content".
std::optional<int32_t> read_token_name(const Node& config, const char* key,
                                       const TokenizerSpec& spec) {
  if (config.is_null(key)) return std::nullopt;
  const Node member = config.at(key);
  const std::string& name = member.json().is_object() ? member.at("content").text() : member.text();
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id].kind != TokenKind::kHole && spec.tokens[id].text == name) {
      return static_cast<int32_t>(id);
    }
  }
  fail(Code::kDataLoss, member.where(), str(quote_text(name), " is not in the vocabulary"));
}

}  // namespace

void read_token_names(const std::string& text, const std::string& source, TokenizerSpec& spec) {
  const Json json = parse_strict_json(text, source, kMaxJsonBytes);
  const Node config(json, source + ": ");
  if (const auto id = read_token_name(config, "bos_token", spec)) spec.bos_id = id;
  if (const auto id = read_token_name(config, "eos_token", spec)) spec.eos_id = id;
  if (const auto id = read_token_name(config, "pad_token", spec)) spec.pad_id = id;
}

TokenizerSpec read_tokenizer_json(const std::string& text, const std::string& source) {
  const Json json = parse_strict_json(text, source, kMaxJsonBytes);
  const Node root(json, source + ": ");
  TokenizerSpec spec;
  spec.source = source;
  const Node model = root.at("model");
  read_model(model, spec);
  if (!root.is_null("added_tokens")) {
    read_added_tokens(root.at("added_tokens"), model.at("vocab").json(), spec);
  }
  if (!root.is_null("normalizer")) read_normalizer(root.at("normalizer"), spec);
  PreTokenizerWalk walk{spec};
  if (!root.is_null("pre_tokenizer")) walk.read(root.at("pre_tokenizer"));
  if (!walk.byte_level) {
    fail(Code::kUnsupported, root.where() + "/pre_tokenizer",
         "only byte-level BPE is supported, and there is no ByteLevel step");
  }
  if (!root.is_null("post_processor")) read_post_processor(root.at("post_processor"), spec);
  check_decoder(root);
  if (!spec.prefix_ids.empty()) spec.bos_id = spec.prefix_ids.front();
  return spec;
}

}  // namespace rl
