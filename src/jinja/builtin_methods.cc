// Methods of text, mappings, lists and loops. Python's other methods are reported as unsupported.
#include <algorithm>
#include <array>

#include "core/encoding/unicode.h"
#include "jinja/calls.h"
#include "jinja/text_methods.h"

namespace rl::jinja {
namespace {

constexpr size_t kNone = std::string::npos;

struct Call {
  const MarkedText& self;
  const std::string& name;
  const Arguments& arguments;
  JinjaBudget& budget;

  Bound bind(Bound::Names names, size_t required = 0) const {
    return Bound(str("method ", name), arguments, names, required);
  }
};

Value text_list(const std::vector<MarkedText>& parts, JinjaBudget& budget, bool is_tuple = false) {
  std::vector<Value> items;
  for (const MarkedText& part : parts) items.push_back(Value::text(part));
  return make_list(std::move(items), budget, is_tuple);
}

// An affix is a text or a tuple of texts.
Value has_affix(const Call& call) {
  const Bound args = call.bind({"affix"}, 1);
  const std::string& text = call.self.bytes();
  const auto fits = [&](const Value& affix) {
    if (!affix.as_text()) {
      args.fail(0, str("is a value of type ", type_name(affix), ", expected a string"));
    }
    const std::string& bytes = affix.as_text()->bytes();
    return call.name == "startswith" ? text.starts_with(bytes) : text.ends_with(bytes);
  };
  const List* choices = args[0]->as_list();
  if (choices == nullptr || !choices->is_tuple) return Value::boolean(fits(*args[0]));
  return Value::boolean(std::any_of(choices->items.begin(), choices->items.end(), fits));
}

Value strip_method(const Call& call) {
  const Bound args = call.bind({"characters"});
  std::optional<std::string_view> characters;
  if (args.given(0)) characters = args.text(0).bytes();
  const Sides sides = call.name == "strip"    ? Sides::kBoth
                      : call.name == "lstrip" ? Sides::kLeft
                                              : Sides::kRight;
  call.budget.spend(call.self.size() / 4);
  return Value::text(strip(call.self, sides, characters));
}

Value case_method(const Call& call) {
  call.bind({});
  const Case to = call.name == "upper"   ? Case::kUpper
                  : call.name == "lower" ? Case::kLower
                  : call.name == "title" ? Case::kTitle
                                         : Case::kCapitalize;
  return Value::text(change_case(call.self, to, call.budget));
}

// Offsets of the words separated by white space.
std::vector<std::pair<size_t, size_t>> words_of(const Call& call) {
  const std::string& bytes = call.self.bytes();
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t at = 0, begin = kNone; at <= bytes.size();) {
    const size_t length = at < bytes.size() ? utf8_sequence_length(bytes, at) : 1;
    const bool space = at == bytes.size() || is_space(decode_utf8(bytes, at, length));
    if (!space && begin == kNone) begin = at;
    if (space && begin != kNone) {
      call.budget.spend_items(1);
      words.emplace_back(begin, at);
      begin = kNone;
    }
    at += length;
  }
  return words;
}

// After max_splits words the rest stays one part, outer white space included.
std::vector<MarkedText> split_at_space(const Call& call, uint64_t max_splits, bool from_right) {
  std::vector<std::pair<size_t, size_t>> words = words_of(call);
  if (words.size() > max_splits) {
    const auto keep = static_cast<std::ptrdiff_t>(max_splits);
    if (from_right) {
      const size_t end = (words.end() - keep - 1)->second;
      words.erase(words.begin(), words.end() - keep - 1);
      words.front() = {0, end};
    } else {
      words.erase(words.begin() + keep + 1, words.end());
      words.back().second = call.self.size();
    }
  }
  std::vector<MarkedText> parts;
  for (const auto& [begin, end] : words) parts.push_back(call.self.substr(begin, end - begin));
  return parts;
}

std::vector<MarkedText> split_at(const Call& call, const std::string& separator,
                                 uint64_t max_splits, bool from_right) {
  const std::string& bytes = call.self.bytes();
  std::vector<MarkedText> parts;
  size_t begin = 0, end = bytes.size();
  for (uint64_t done = 0; done < max_splits; ++done) {
    call.budget.spend_items(1);
    if (from_right) {
      const size_t at =
          end < separator.size() ? kNone : bytes.rfind(separator, end - separator.size());
      if (at == kNone) break;
      parts.push_back(call.self.substr(at + separator.size(), end - at - separator.size()));
      end = at;
    } else {
      const size_t at = bytes.find(separator, begin);
      if (at == kNone) break;
      parts.push_back(call.self.substr(begin, at - begin));
      begin = at + separator.size();
    }
  }
  parts.push_back(call.self.substr(begin, end - begin));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value split_method(const Call& call) {
  const Bound args = call.bind({"sep", "maxsplit"});
  const int64_t limit = args.integer(1, -1);
  const uint64_t max_splits = limit < 0 ? UINT64_MAX : static_cast<uint64_t>(limit);
  const bool from_right = call.name == "rsplit";
  call.budget.spend(call.self.size() / 4);
  if (!args.given(0)) return text_list(split_at_space(call, max_splits, from_right), call.budget);
  const std::string& separator = args.text(0).bytes();
  if (separator.empty()) args.fail(0, "is empty");
  return text_list(split_at(call, separator, max_splits, from_right), call.budget);
}

Value split_lines(const Call& call) {
  const Bound args = call.bind({"keepends"});
  std::vector<Value> lines;
  for (const MarkedText& line : lines_of(call.self, args.flag(0, false), call.budget)) {
    lines.push_back(Value::text(line));
  }
  return make_list(std::move(lines), call.budget);
}

Value partition(const Call& call) {
  const Bound args = call.bind({"sep"}, 1);
  const MarkedText& separator = args.text(0);
  if (separator.empty()) args.fail(0, "is empty");
  const bool from_right = call.name == "rpartition";
  const std::string& bytes = call.self.bytes();
  const size_t at = from_right ? bytes.rfind(separator.bytes()) : bytes.find(separator.bytes());
  call.budget.spend_text(call.self.size(), call.self.size());
  if (at == kNone) {
    const MarkedText none;
    return from_right ? text_list({none, none, call.self}, call.budget, true)
                      : text_list({call.self, none, none}, call.budget, true);
  }
  const size_t end = at + separator.size();
  return text_list(
      {call.self.substr(0, at), call.self.substr(at, separator.size()), call.self.substr(end)},
      call.budget, true);
}

Value replace_method(const Call& call) {
  const Bound args = call.bind({"old", "new", "count"}, 2);
  return Value::text(
      replace(call.self, args.text(0), args.text(1), args.integer(2, -1), call.budget));
}

Value find_method(const Call& call) {
  const Bound args = call.bind({"sub"}, 1);
  call.budget.spend(call.self.size() / 4);
  const std::string& bytes = call.self.bytes();
  const std::string& sub = args.text(0).bytes();
  const size_t at = call.name[0] == 'r' ? bytes.rfind(sub) : bytes.find(sub);
  if (at != kNone) return Value::integer(num_code_points(std::string_view(bytes).substr(0, at)));
  if (call.name.ends_with("index")) args.fail(0, "is not part of the text");
  return Value::integer(-1);
}

Value count_method(const Call& call) {
  const Bound args = call.bind({"sub"}, 1);
  const std::string& sub = args.text(0).bytes();
  const std::string& bytes = call.self.bytes();
  call.budget.spend(bytes.size() / 4);
  if (sub.empty()) return Value::integer(num_code_points(bytes) + 1);
  int64_t count = 0;
  for (size_t at = bytes.find(sub); at != kNone; at = bytes.find(sub, at + sub.size())) ++count;
  return Value::integer(count);
}

Value join_method(const Call& call) {
  const Bound args = call.bind({"iterable"}, 1);
  MarkedText out;
  bool first = true;
  for (const Value& item : elements(*args[0], call.budget)) {
    if (!item.as_text()) {
      args.fail(0, str("holds a value of type ", type_name(item), ", expected strings"));
    }
    const size_t added = item.as_text()->size() + call.self.size();
    call.budget.spend_text(out.size() + added, added);
    if (!first) out.append(call.self);
    out.append(*item.as_text());
    first = false;
  }
  return Value::text(std::move(out));
}

Value class_method(const Call& call) {
  call.bind({});
  call.budget.spend(call.self.size() / 4);
  const std::string& bytes = call.self.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = utf8_sequence_length(bytes, at);
    const char32_t c = decode_utf8(bytes, at, length);
    const CharClass cls = classify(c);
    const bool is_letter = cls == CharClass::kLetter, is_number = cls == CharClass::kNumber;
    if (c >= 0x80 && is_number && call.name != "isalpha") {
      throw Error(Code::kUnsupported,
                  str("method ", call.name, " with digits outside ASCII is not supported"));
    }
    const bool fits = call.name == "isspace"   ? is_space(c)
                      : call.name == "isalpha" ? is_letter
                      : call.name == "isalnum" ? is_letter || is_number
                                               : is_number;
    if (!fits) return Value::boolean(false);
    at += length;
  }
  return Value::boolean(!bytes.empty());
}

Value remove_affix(const Call& call) {
  const Bound args = call.bind({"affix"}, 1);
  const std::string& affix = args.text(0).bytes();
  const std::string& bytes = call.self.bytes();
  call.budget.spend_text(bytes.size(), bytes.size());
  if (call.name == "removeprefix") {
    return Value::text(call.self.substr(bytes.starts_with(affix) ? affix.size() : 0));
  }
  return Value::text(
      call.self.substr(0, bytes.size() - (bytes.ends_with(affix) ? affix.size() : 0)));
}

struct TextMethod {
  std::string_view name;
  Value (*call)(const Call&);
};
constexpr TextMethod kTextMethods[] = {
    {"startswith", has_affix}, {"endswith", has_affix},        {"strip", strip_method},
    {"lstrip", strip_method},  {"rstrip", strip_method},       {"upper", case_method},
    {"lower", case_method},    {"title", case_method},         {"capitalize", case_method},
    {"split", split_method},   {"rsplit", split_method},       {"splitlines", split_lines},
    {"partition", partition},  {"rpartition", partition},      {"replace", replace_method},
    {"find", find_method},     {"rfind", find_method},         {"index", find_method},
    {"rindex", find_method},   {"count", count_method},        {"join", join_method},
    {"isspace", class_method}, {"isalpha", class_method},      {"isalnum", class_method},
    {"isdigit", class_method}, {"removeprefix", remove_affix}, {"removesuffix", remove_affix}};

// Unsupported methods that Python has, to distinguish them from data.
constexpr std::string_view kOtherTextMethods[] = {
    "casefold",  "center",       "encode",  "expandtabs", "format",      "format_map", "isascii",
    "isdecimal", "isidentifier", "islower", "isnumeric",  "isprintable", "istitle",    "isupper",
    "ljust",     "maketrans",    "rjust",   "swapcase",   "translate",   "zfill"};
constexpr std::string_view kDictMethods[] = {"get", "items", "keys", "values"};
constexpr std::string_view kOtherDictMethods[] = {"clear",   "copy",       "fromkeys", "pop",
                                                  "popitem", "setdefault", "update"};
constexpr std::string_view kListMethods[] = {"index", "count"};
constexpr std::string_view kOtherListMethods[] = {"append", "clear",  "copy",    "extend", "insert",
                                                  "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kLoopMethods[] = {"cycle", "changed"};

template <typename Names>
bool among(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

const TextMethod* find_text_method(std::string_view name) {
  for (const TextMethod& method : kTextMethods) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

Value call_dict(const Method& method, const Arguments& arguments, JinjaBudget& budget) {
  const Dict& dict = *method.self.as_dict();
  const std::string what = str("method ", method.name);
  if (method.name == "get") {
    const Bound args(what, arguments, {"key", "default"}, 1);
    const Value* found = args[0]->as_text() ? dict.find(args[0]->as_text()->bytes()) : nullptr;
    return found ? *found : args[1] ? *args[1] : Value();
  }
  const Bound none(what, arguments, {});
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    if (method.name == "keys") {
      items.push_back(key);
    } else if (method.name == "values") {
      items.push_back(value);
    } else {
      items.push_back(make_list({key, value}, budget, true));
    }
  }
  return make_list(std::move(items), budget);
}

Value call_list(const Method& method, const Arguments& arguments, JinjaBudget& budget) {
  const Bound args(str("method ", method.name), arguments, {"value"}, 1);
  const std::vector<Value>& items = method.self.as_list()->items;
  int64_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!equal(items[i], *args[0], budget)) continue;
    if (method.name == "index") return Value::integer(static_cast<int64_t>(i));
    ++count;
  }
  if (method.name == "index") args.fail(0, "is not part of the list");
  return Value::integer(count);
}

Value call_loop(const Method& method, const Arguments& arguments, JinjaBudget& budget) {
  Loop& loop = *method.self.as_loop();
  if (!arguments.named.empty())
    throw Error(Code::kUnsupported, "named arguments of a loop method are not supported");
  if (method.name == "cycle") {
    if (arguments.positional.empty())
      throw Error(Code::kInvalidArgument, "loop.cycle() needs at least one argument");
    return arguments.positional[loop.index0 % arguments.positional.size()];
  }
  const Value now = make_list(arguments.positional, budget);  // data only, so no cycle can form
  const Value before = make_list(loop.last_changed, budget);
  const bool changed = !loop.changed_called || !equal(now, before, budget);
  loop.changed_called = true;
  loop.last_changed = arguments.positional;
  return Value::boolean(changed);
}

}  // namespace

bool is_method(const Value& self, std::string_view name) {
  if (self.as_text()) return find_text_method(name) || among(kOtherTextMethods, name);
  if (self.as_dict()) return among(kDictMethods, name) || among(kOtherDictMethods, name);
  if (self.as_list()) {
    const bool changes = !self.as_list()->is_tuple && among(kOtherListMethods, name);
    return changes || among(kListMethods, name);
  }
  return self.as_loop() && among(kLoopMethods, name);
}

Value call_method(const Method& method, const Arguments& arguments, JinjaBudget& budget) {
  budget.spend(1);
  if (const MarkedText* text = method.self.as_text()) {
    const TextMethod* found = find_text_method(method.name);
    if (found) return found->call(Call{*text, method.name, arguments, budget});
  }
  if (method.self.as_dict() && among(kDictMethods, method.name)) {
    return call_dict(method, arguments, budget);
  }
  if (method.self.as_list() && among(kListMethods, method.name)) {
    return call_list(method, arguments, budget);
  }
  if (method.self.as_loop()) return call_loop(method, arguments, budget);
  throw Error(Code::kUnsupported, str("the method ", method.name, " of a ", type_name(method.self),
                                      " is not supported"));
}

}  // namespace rl::jinja
