// The global functions. None of them reads the machine; the current time is passed in.
#include "core/encoding/unicode.h"
#include "jinja/calls.h"
#include "jinja/date.h"
#include "jinja/text_methods.h"

namespace rl::jinja {
namespace {

constexpr size_t kMaxRange = 100'000;

Value range(const Arguments& arguments, JinjaBudget& budget) {
  const Bound args("range", arguments, {"start", "stop", "step"}, 1);
  int64_t begin = args.integer(0, 0), end = 0;
  if (args[1]) {
    end = args.integer(1, 0);
  } else {
    std::swap(begin, end);
  }
  const int64_t step = args.integer(2, 1);
  if (step == 0) args.fail(2, "is 0");
  std::vector<Value> out;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (out.size() >= kMaxRange) {
      throw Error(Code::kResourceExhausted, str("range() of more than ", kMaxRange, " integers"));
    }
    out.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(std::move(out), budget);
}

// The members that namespace() and dict() take: those of a mapping, then named arguments.
std::vector<std::pair<Value, Value>> members(const char* what, const Arguments& arguments) {
  const Arguments positional{arguments.positional, {}};
  const Bound args(what, positional, {"mapping"});
  std::vector<std::pair<Value, Value>> out;
  if (args[0] && !args[0]->as_dict()) {
    args.fail(0, str("is a value of type ", type_name(*args[0]), ", expected a mapping"));
  }
  if (args[0]) out = args[0]->as_dict()->entries;
  for (const auto& [name, value] : arguments.named) out.emplace_back(Value::text(name), value);
  return out;
}

Value make_namespace(const Arguments& arguments, JinjaBudget& budget) {
  auto space = std::make_shared<Namespace>();
  for (const auto& [key, value] : members("namespace", arguments)) {
    set_attribute(*space, key.as_text()->bytes(), value, budget);
  }
  return Value(Value::Data(std::move(space)));
}

}  // namespace

void set_attribute(Namespace& space, const std::string& name, const Value& value,
                   JinjaBudget& budget) {
  if (name.starts_with('_')) {
    throw Error(Code::kUnsupported,
                str("the member ", quote_text(name), " of a namespace is not supported"))
        .with_expected("a name without a leading underscore");
  }
  make_list({value}, budget);  // refuses what data cannot hold
  budget.spend(space.attributes.size());
  if (Value* member = space.find(name)) {
    *member = value;
  } else {
    budget.spend_items(1);
    space.attributes.emplace_back(name, value);
  }
}

Value call_function(Function function, const Arguments& arguments,
                    const std::optional<std::string>& now, JinjaBudget& budget) {
  switch (function) {
    case Function::kRange:
      return range(arguments, budget);
    case Function::kNamespace:
      return make_namespace(arguments, budget);
    case Function::kDict:
      return make_dict(members("dict", arguments), budget);
    case Function::kRaiseException: {
      const Bound args("raise_exception", arguments, {"message"}, 1);
      throw Error(Code::kInvalidArgument, to_text(*args[0], budget).bytes());
    }
    case Function::kStrftimeNow: {
      const Bound args("strftime_now", arguments, {"format"}, 1);
      RL_CHECK(now.has_value());
      return Value::text(format_date(*now, args.text(0).bytes()));
    }
  }
  RL_CHECK(false);
  return {};
}

}  // namespace rl::jinja
