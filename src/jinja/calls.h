// What a template can call by name: functions, filters, tests, and methods of texts, mappings,
// lists and loops. An unsupported name is Error(kUnsupported), or an undefined value where Python
// has no such name; nothing but data is reachable. Errors carry no location: the evaluator adds it.
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

// The arguments of one call, by parameter; must not outlive them. Surplus, repeated and unknown
// arguments are errors.
class Bound {
 public:
  using Names = std::initializer_list<const char*>;
  // what: "filter trim"; the first `required` parameters are mandatory.
  Bound(std::string what, const Arguments& arguments, Names names, size_t required = 0);

  // nullptr if it was not given.
  const Value* operator[](size_t i) const { return values_[i]; }
  bool flag(size_t i, bool otherwise) const;
  int64_t integer(size_t i, int64_t otherwise) const;
  const MarkedText& text(size_t i) const;  // the parameter must be required
  // nullptr if it was not given or is none.
  const Value* given(size_t i) const;
  [[noreturn]] void fail(size_t i, const std::string& what) const;

 private:
  std::string what_;
  std::vector<const char*> names_;
  std::vector<const Value*> values_;
};

// now is the current time for strftime_now(), which must not be called without it.
Value call_function(Function function, const Arguments& arguments,
                    const std::optional<std::string>& now, JinjaBudget& budget);
// Sets a member of a namespace. A name with a leading underscore, and a value that data cannot
// hold, are Error(kUnsupported).
void set_attribute(Namespace& space, const std::string& name, const Value& value,
                   JinjaBudget& budget);
Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments,
                   JinjaBudget& budget);
bool apply_test(const std::string& name, const Value& input, const Arguments& arguments,
                JinjaBudget& budget);
Value call_method(const Method& method, const Arguments& arguments, JinjaBudget& budget);
// Whether Python's str, dict or list has a method of this name, supported here or not.
bool is_method(const Value& self, std::string_view name);

// len(value); a type without a length is an error.
int64_t length_of(const Value& value);

}  // namespace rl::jinja
