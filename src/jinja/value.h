// Values of a chat template: plain data, and a few callables named by an enumeration. Data is
// immutable and shared; only a Namespace can change, and it is never part of other data, so no
// cycle can form. Semantics are Python's, as far as templates can observe them. Functions that walk
// over data spend from the budget.
#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/budget.h"
#include "jinja/marked_text.h"

namespace rl::jinja {

class Value;
struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Method;
struct Node;
struct Scope;

// The result of a failed lookup; any use other than printing is an error with this text.
struct Undefined {
  std::shared_ptr<const std::string> reason;
};
struct None {};
// A macro, or the body of a call block. scope is where it was defined; the evaluator owns both.
struct Macro {
  const Node* node = nullptr;
  Scope* scope = nullptr;
};
enum class Function : uint8_t { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };

class Value {
 public:
  using Text = std::shared_ptr<const MarkedText>;
  using Data =
      std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<const List>,
                   std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, Macro, Function,
                   std::shared_ptr<Loop>, std::shared_ptr<const Method>>;

  Value() : data_(None{}) {}
  explicit Value(Data data) : data_(std::move(data)) {}
  static Value undefined(std::string reason);
  static Value boolean(bool v) { return Value(Data(v)); }
  static Value integer(int64_t v) { return Value(Data(v)); }
  static Value real(double v) { return Value(Data(v)); }
  static Value text(MarkedText v) {
    return Value(Data(std::make_shared<const MarkedText>(std::move(v))));
  }
  static Value text(std::string_view v, MarkedText::Origin origin = MarkedText::Origin::kTemplate) {
    return text(MarkedText(std::string(v), origin));
  }

  // The content, or nullptr if the value has another type.
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  const MarkedText* as_text() const { return pointee<Text>(); }
  const List* as_list() const { return pointee<std::shared_ptr<const List>>(); }
  const Dict* as_dict() const { return pointee<std::shared_ptr<const Dict>>(); }
  Namespace* as_namespace() const { return pointee<std::shared_ptr<Namespace>>(); }
  Loop* as_loop() const { return pointee<std::shared_ptr<Loop>>(); }
  const Method* as_method() const { return pointee<std::shared_ptr<const Method>>(); }
  template <typename Visitor>
  auto visit(Visitor&& visitor) const {
    return std::visit(visitor, data_);
  }
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  bool is_none() const { return as<None>() != nullptr; }
  // Booleans count as integers, as in Python.
  bool is_integer() const { return as<int64_t>() != nullptr || as<bool>() != nullptr; }
  bool is_number() const { return is_integer() || as<double>() != nullptr; }
  int64_t to_integer() const { return as<bool>() ? int64_t{*as<bool>()} : *as<int64_t>(); }
  double to_real() const {
    return as<double>() ? *as<double>() : static_cast<double>(to_integer());
  }

 private:
  template <typename Pointer>
  auto pointee() const -> decltype(std::declval<Pointer>().get()) {
    const Pointer* p = std::get_if<Pointer>(&data_);
    return p ? p->get() : nullptr;
  }
  Data data_;
};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  uint64_t depth = 1;  // nesting depth of containers
};

// Keys are text; entries keep insertion order.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string_view, size_t> index;  // into entries, by the bytes of the key
  uint64_t depth = 1;

  const Value* find(std::string_view key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  Value* find(std::string_view name);
};

// The `loop` variable inside a for statement.
struct Loop {
  std::vector<Value> items;
  size_t index0 = 0;
  int64_t depth0 = 0;
  std::vector<Value> last_changed;  // the arguments of the last call of loop.changed()
  bool changed_called = false;
};

// A method that was looked up but not yet called.
struct Method {
  Value self;
  std::string name;
};

// These refuse namespaces and callables as members, and nesting beyond the limit.
Value make_list(std::vector<Value> items, JinjaBudget& budget, bool is_tuple = false);
// A repeated key keeps its place and takes the later value.
Value make_dict(std::vector<std::pair<Value, Value>> entries, JinjaBudget& budget);

// The name of the type in errors: "string", "list".
const char* type_name(const Value& value);
// Throws the error for any use of a missing value.
[[noreturn]] void fail_undefined(const Value& value);
// Error(kWrongType): `what`, then the value's type.
[[noreturn]] void fail_type(std::string_view what, const Value& value);

bool truth(const Value& value);
bool equal(const Value& a, const Value& b, JinjaBudget& budget);
// Negative, zero or positive; unordered types are an error.
int compare(const Value& a, const Value& b, JinjaBudget& budget);
// The elements that a loop visits: items, keys, characters. Empty for undefined.
std::vector<Value> elements(const Value& value, JinjaBudget& budget);

// External data: every text in it is marked as input. The JSON reader refuses integers beyond 64
// bits.
Value from_json(const nlohmann::ordered_json& json, JinjaBudget& budget);

}  // namespace rl::jinja
