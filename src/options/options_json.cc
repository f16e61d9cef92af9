// Reading has two passes: the parser's events become entries that keep each number's text from the
// document, so that no integer passes through a double; then each entry goes to the setter of its
// JSON type.
#include "options/options_json.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "options/option_import.h"

namespace rl {
namespace {

using Json = nlohmann::json;

enum class Kind { kNone, kBool, kNumber, kText, kList, kOther };

struct Value {
  Kind kind = Kind::kNone;
  std::string text;         // for a number, as written
  std::vector<Value> list;  // one level
};

struct Entry {
  std::string key;
  Value value;
};

// Events of a document. Depth 1 is the root object, depth 2 its "options", depth 3 a list; any
// other nesting is kept as kOther, without its content.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(OptionImport& import) : import_(import) {}
  std::vector<Entry> take() {
    if (!found_options_) refuse("", "has no object \"options\"");
    return std::move(entries_);
  }

  bool null() override { return add({Kind::kOther, "null", {}}); }
  bool boolean(bool v) override { return add({Kind::kBool, v ? "true" : "false", {}}); }
  bool number_integer(number_integer_t v) override { return add({Kind::kNumber, str(v), {}}); }
  bool number_unsigned(number_unsigned_t v) override { return add({Kind::kNumber, str(v), {}}); }
  bool number_float(number_float_t, const string_t& raw) override {
    return add({Kind::kNumber, raw, {}});
  }
  bool string(string_t& v) override { return add({Kind::kText, std::move(v), {}}); }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override {
    const bool root = depth_ == 0;
    const bool options = depth_ == 1 && member_ == "options";
    if (!root && !options) add({Kind::kOther, "an object", {}});
    if (root || options) known_ = depth_ + 1;
    if (options && std::exchange(found_options_, true)) refuse("/options", "occurs twice");
    return open();
  }
  bool start_array(size_t) override {
    const bool list = depth_ == 2 && known_ == 2;
    add({list ? Kind::kList : Kind::kOther, "a list", {}});
    if (list) known_ = 3;
    return open();
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (depth_ == 1) {
      member_ = name;
    } else if (depth_ == 2 && known_ == 2) {
      if (entries_.size() == kMaxOptionEntries) {
        throw Error(
            Code::kResourceExhausted,
            str("the JSON document has too many options; the limit is ", kMaxOptionEntries));
      }
      entries_.push_back({name, {}});
    }
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    constexpr int kNumberOverflow = 406;
    const std::string where = str("byte ", position == 0 ? 0 : position - 1);  // counted from 1
    throw Error(Code::kDataLoss, str("the options are not valid JSON at ", where,
                                     e.id == kNumberOverflow ? ": a number is out of range" : ""))
        .with_location(where);
  }

 private:
  void refuse(const std::string& pointer, const char* what) {
    const std::string name = pointer.empty() ? "the JSON document of options" : pointer;
    import_.refuse(Error(Code::kInvalidArgument, str(name, " ", what)).with_location(pointer));
  }

  bool open() {
    constexpr int kMaxDepth = 64;
    if (++depth_ <= kMaxDepth) return true;
    throw Error(Code::kResourceExhausted,
                str("the JSON document of options is nested deeper than ", kMaxDepth));
  }
  bool close() {
    known_ = std::min(known_, --depth_);
    return true;
  }

  bool add(Value value) {
    if (depth_ == 2 && known_ == 2) {
      entries_.back().value = std::move(value);
    } else if (depth_ == 3 && known_ == 3) {
      entries_.back().value.list.push_back(std::move(value));
    } else if (depth_ == 0) {
      refuse("", "is not an object");
    } else if (depth_ == 1) {
      add_member(value);
    }
    return true;
  }
  void add_member(const Value& value) {
    if (member_ != "library_version") {
      refuse(str("/", shown(member_)),
             member_ == "options" ? "is not an object" : "is not a known member");
    } else if (value.kind != Kind::kText) {
      refuse("/library_version", "is not a string");
    } else if (std::exchange(found_version_, true)) {
      refuse("/library_version", "occurs twice");
    }
  }
  static std::string shown(const std::string& name) { return name.size() <= 100 ? name : "..."; }

  OptionImport& import_;
  int depth_ = 0;
  int known_ = 0;  // enclosing containers, from the outermost, that belong to the format
  bool found_options_ = false, found_version_ = false;
  std::string member_;  // current member of the root
  std::vector<Entry> entries_;
};

[[noreturn]] void refuse_type(const OptionInfo& info, const std::string& given) {
  throw Error(Code::kWrongType,
              str(info.key, " has type ", option_type_name(info.type), "; ", given, " was given"))
      .with_key(info.key)
      .with_expected(option_expectation(info));
}

bool all_are(const Value& value, Kind kind) {
  for (const Value& item : value.list) {
    if (item.kind != kind) return false;
  }
  return true;
}

void set_list(OptionSet& set, const OptionInfo& info, const Value& value) {
  if (info.type == OptionType::kStringList && all_are(value, Kind::kText)) {
    std::vector<std::string> texts;
    for (const Value& item : value.list) texts.push_back(item.text);
    return set.set_string_list(info.key, std::move(texts));
  }
  if (info.type != OptionType::kI64List || !all_are(value, Kind::kNumber)) {
    refuse_type(info, "a list with elements of another type");
  }
  // The text form of such a list is its comma-separated numbers.
  std::string text;
  for (const Value& item : value.list) text += str(text.empty() ? "" : ",", item.text);
  set.set_text(info.key, text);
}

void set_from(OptionSet& set, const Entry& entry) {
  const OptionInfo& info = require_option(entry.key);
  const Value& value = entry.value;
  const OptionType type = info.type;
  const bool text = type == OptionType::kString || type == OptionType::kEnum;
  const bool list = type == OptionType::kStringList || type == OptionType::kI64List;
  switch (value.kind) {
    case Kind::kBool:
      return set.set_bool(info.key, value.text == "true");
    case Kind::kNumber:
      if (text || list || type == OptionType::kBool)
        refuse_type(info, str("the number ", value.text));
      return set.set_text(info.key, value.text);
    case Kind::kText:
      return set.set_string(info.key, value.text);
    case Kind::kList:
      if (!list) refuse_type(info, "a list");
      return set_list(set, info, value);
    default:
      refuse_type(info, value.text);
  }
}

std::string pointer_of(const std::string& key) {
  std::string out = "/options/";
  for (const char c : key.substr(0, 200)) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

struct JsonText {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return Json(v).dump(); }
  template <typename T>
  std::string operator()(const std::vector<T>& v) const {
    return Json(v).dump();
  }
  template <typename T>
  std::string operator()(const T& v) const {
    return str(v);
  }
};

}  // namespace

std::string options_to_json(const OptionSet& set, bool only_changed,
                            std::string_view library_version) {
  std::string rows;
  for (size_t i = 0; i < option_count(); ++i) {
    const char* const key = option_at(i).key;
    if (only_changed && set.is_default(key)) continue;
    rows += str(rows.empty() ? "\n" : ",\n", "    \"", key,
                "\": ", std::visit(JsonText{}, set.get_value(key)));
  }
  if (!rows.empty()) rows += "\n  ";
  return str("{\n  \"library_version\": ", Json(library_version).dump(), ",\n  \"options\": {",
             rows, "}\n}\n");
}

OptionSet options_from_json(std::string_view document, const OptionSet& base) {
  constexpr size_t kMinBytes = 2;
  check_option_document_size(document.size(), kMinBytes, "JSON");
  // The parser treats a zero byte as the end of its input and skips a byte order mark.
  const size_t bad = document.starts_with("\xef\xbb\xbf") ? 0 : document.find('\0');
  if (bad != std::string_view::npos) {
    const std::string where = str("byte ", bad);
    throw Error(Code::kDataLoss, str("the options are not valid JSON at ", where))
        .with_location(where);
  }
  OptionImport import(base);
  Reader reader(import);
  RL_CHECK(Json::sax_parse(document.begin(), document.end(), &reader));
  for (const Entry& entry : reader.take()) {
    import.take(entry.key, pointer_of(entry.key),
                [&](OptionSet& set) { set_from(set, entry);
  });
}
return import.finish();
}  // namespace rl

}  // namespace rl
