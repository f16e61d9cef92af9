// What a template can call by name: functions, filters, tests, and methods of texts, mappings,
// lists and loops. A name that is not offered is Error(kUnsupported), or an undefined value as it
// would be in Python; nothing but data is reachable. Errors carry no place: the evaluator knows it.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace rl::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments of one call by parameter; lives no longer than they. Too many, doubled and unknown
// ones are errors.
class Bound {
 public:
  using Names = std::initializer_list<const char*>;
  // what: "filter trim"; the first `required` parameters must be there.
  Bound(std::string what, const Arguments& arguments, Names names, size_t required = 0);

  // nullptr when it was not given.
  const Value* operator[](size_t i) const { return values_[i]; }
  bool flag(size_t i, bool otherwise) const;
  int64_t integer(size_t i, int64_t otherwise) const;
  const MarkedText& text(size_t i) const;  // of a required one
  // nullptr when it was not given or is none.
  const Value* given(size_t i) const;
  [[noreturn]] void fail(size_t i, const std::string& what) const;

 private:
  std::string what_;
  std::vector<const char*> names_;
  std::vector<const Value*> values_;
};

// now is what strftime_now() tells the date of; the function is not to be called without it.
Value call_function(Function function, const Arguments& arguments,
                    const std::optional<std::string>& now, JinjaBudget& budget);
// Sets a member of a namespace. A name with an underscore in front and what data cannot hold are
// Error(kUnsupported).
void set_attribute(Namespace& space, const std::string& name, const Value& value,
                   JinjaBudget& budget);
Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments,
                   JinjaBudget& budget);
bool apply_test(const std::string& name, const Value& input, const Arguments& arguments,
                JinjaBudget& budget);
Value call_method(const Method& method, const Arguments& arguments, JinjaBudget& budget);
// Whether Python's str, dict or list has a method of this name, offered here or not.
bool is_method(const Value& self, std::string_view name);

// len(value); a type without a length is an error.
int64_t length_of(const Value& value);

}  // namespace rl::jinja
