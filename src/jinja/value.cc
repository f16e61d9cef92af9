// Walks over data recurse at most max_value_depth deep, because nothing deeper can be built.
#include "jinja/value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/checked.h"

namespace rl::jinja {
namespace {

uint64_t depth_of(const Value& value) {
  if (const List* list = value.as_list()) return list->depth;
  if (const Dict* dict = value.as_dict()) return dict->depth;
  return 0;
}

uint64_t depth_with(uint64_t depth, const Value& member, const JinjaBudget& budget) {
  const bool data = !member.as_namespace() && !member.as<Macro>() && !member.as<Function>() &&
                    !member.as_loop() && !member.as_method();
  if (!data) {
    throw Error(Code::kUnsupported,
                str("a ", type_name(member), " inside a list or mapping is not supported"))
        .with_expected("data only");
  }
  depth = std::max(depth, depth_of(member) + 1);
  budget.check_value_depth(depth);
  return depth;
}

template <typename T>
int three_way(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

bool equal_lists(const List& a, const List& b, JinjaBudget& budget) {
  if (a.is_tuple != b.is_tuple || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(a.items[i], b.items[i], budget)) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, JinjaBudget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    budget.spend(1);
    const Value* other = b.find(key.as_text()->bytes());
    if (other == nullptr || !equal(value, *other, budget)) return false;
  }
  return true;
}

// Exact even between integers and reals: 64 bits fit into the significand of a long double.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return three_way(a.to_integer(), b.to_integer());
  const auto wide = [](const Value& v) {
    return v.is_integer() ? static_cast<long double>(v.to_integer())
                          : static_cast<long double>(v.to_real());
  };
  return three_way(wide(a), wide(b));
}

}  // namespace

Value Value::undefined(std::string reason) {
  return Value(Data(Undefined{std::make_shared<const std::string>(std::move(reason))}));
}

const Value* Dict::find(std::string_view key) const {
  const auto at = index.find(key);
  return at == index.end() ? nullptr : &entries[at->second].second;
}

Value* Namespace::find(std::string_view name) {
  for (auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

Value make_list(std::vector<Value> items, JinjaBudget& budget, bool is_tuple) {
  budget.spend_items(items.size());
  auto list = std::make_shared<List>();
  for (const Value& item : items) list->depth = depth_with(list->depth, item, budget);
  list->items = std::move(items);
  list->is_tuple = is_tuple;
  return Value(Value::Data(std::shared_ptr<const List>(std::move(list))));
}

Value make_dict(std::vector<std::pair<Value, Value>> entries, JinjaBudget& budget) {
  budget.spend_items(entries.size());
  auto dict = std::make_shared<Dict>();
  for (auto& [key, value] : entries) {
    if (!key.as_text()) fail_type("a mapping key must be a string, not", key);
    dict->depth = depth_with(dict->depth, value, budget);
    const auto [at, added] = dict->index.emplace(key.as_text()->bytes(), dict->entries.size());
    if (added) {
      dict->entries.emplace_back(std::move(key), std::move(value));
    } else {
      dict->entries[at->second].second = std::move(value);
    }
  }
  return Value(Value::Data(std::shared_ptr<const Dict>(std::move(dict))));
}

const char* type_name(const Value& value) {
  struct Names {
    const char* operator()(const Undefined&) { return "undefined value"; }
    const char* operator()(const None&) { return "none"; }
    const char* operator()(bool) { return "boolean"; }
    const char* operator()(int64_t) { return "integer"; }
    const char* operator()(double) { return "float"; }
    const char* operator()(const Value::Text&) { return "string"; }
    const char* operator()(const std::shared_ptr<const List>& l) {
      return l->is_tuple ? "tuple" : "list";
    }
    const char* operator()(const std::shared_ptr<const Dict>&) { return "mapping"; }
    const char* operator()(const std::shared_ptr<Namespace>&) { return "namespace"; }
    const char* operator()(const Macro&) { return "macro"; }
    const char* operator()(Function) { return "function"; }
    const char* operator()(const std::shared_ptr<Loop>&) { return "loop"; }
    const char* operator()(const std::shared_ptr<const Method>&) { return "method"; }
  };
  return value.visit(Names{});
}

void fail_undefined(const Value& value) {
  throw Error(Code::kInvalidArgument, *value.as<Undefined>()->reason);
}

void fail_type(std::string_view what, const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  throw Error(Code::kWrongType, str(what, " a value of type ", type_name(value)));
}

bool truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_integer()) return value.to_integer() != 0;
  if (value.as<double>()) return value.to_real() != 0;
  if (const MarkedText* text = value.as_text()) return !text->empty();
  if (const List* list = value.as_list()) return !list->items.empty();
  if (const Dict* dict = value.as_dict()) return !dict->entries.empty();
  return true;
}

bool equal(const Value& a, const Value& b, JinjaBudget& budget) {
  budget.spend(1);
  if (a.is_number() && b.is_number()) {
    if (a.to_real() != a.to_real() || b.to_real() != b.to_real()) return false;
    return compare_numbers(a, b) == 0;
  }
  if (a.as_text() && b.as_text()) return a.as_text()->bytes() == b.as_text()->bytes();
  if (a.as_list() && b.as_list()) return equal_lists(*a.as_list(), *b.as_list(), budget);
  if (a.as_dict() && b.as_dict()) return equal_dicts(*a.as_dict(), *b.as_dict(), budget);
  if (a.as_namespace()) return a.as_namespace() == b.as_namespace();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(const Value& a, const Value& b, JinjaBudget& budget) {
  budget.spend(1);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  // UTF-8 byte order is code point order.
  if (a.as_text() && b.as_text()) {
    budget.spend(std::min(a.as_text()->size(), b.as_text()->size()) / 16);
    return three_way(a.as_text()->bytes(), b.as_text()->bytes());
  }
  const List *x = a.as_list(), *y = b.as_list();
  if (x && y && x->is_tuple == y->is_tuple) {
    for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
      if (!equal(x->items[i], y->items[i], budget)) {
        return compare(x->items[i], y->items[i], budget);
      }
    }
    return three_way(x->items.size(), y->items.size());
  }
  if (a.is_undefined()) fail_undefined(a);
  fail_type(str("a value of type ", type_name(a), " cannot be compared with"), b);
}

std::vector<Value> elements(const Value& value, JinjaBudget& budget) {
  std::vector<Value> out;
  if (value.is_undefined()) return out;
  if (const List* list = value.as_list()) {
    budget.spend_items(list->items.size());
    out = list->items;
  } else if (const Dict* dict = value.as_dict()) {
    budget.spend_items(dict->entries.size());
    for (const auto& entry : dict->entries) out.push_back(entry.first);
  } else if (const MarkedText* text = value.as_text()) {
    budget.spend_items(2 * text->size());
    const std::string& bytes = text->bytes();
    for (size_t at = 0, end = 0; at < bytes.size(); at = end) {
      end = at + 1;
      while (end < bytes.size() && (bytes[end] & 0xc0) == 0x80) ++end;
      out.push_back(Value::text(text->substr(at, end - at)));
    }
  } else {
    fail_type("cannot loop over", value);
  }
  return out;
}

Value from_json(const nlohmann::ordered_json& json, JinjaBudget& budget) {
  using Kind = nlohmann::ordered_json::value_t;
  budget.spend(1);
  switch (json.type()) {
    case Kind::boolean:
      return Value::boolean(json.get<bool>());
    case Kind::number_float:
      return Value::real(json.get<double>());
    case Kind::number_integer:
      return Value::integer(json.get<int64_t>());
    case Kind::number_unsigned:
      return Value::integer(Checked(json.get<uint64_t>()).to<int64_t>());
    case Kind::string:
      return Value::text(json.get_ref<const std::string&>(), MarkedText::Origin::kInput);
    case Kind::array: {
      std::vector<Value> items;
      for (const auto& item : json) items.push_back(from_json(item, budget));
      return make_list(std::move(items), budget);
    }
    case Kind::object: {
      std::vector<std::pair<Value, Value>> entries;
      for (const auto& [key, item] : json.items()) {
        entries.emplace_back(Value::text(key, MarkedText::Origin::kInput), from_json(item, budget));
      }
      return make_dict(std::move(entries), budget);
    }
    default:
      return Value();
  }
}

}  // namespace rl::jinja
