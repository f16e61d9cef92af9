// A tree-walking evaluator. Scopes are on the stack of the statement that opens them. A macro can
// only be named while its scope lives, because data cannot hold a macro and variables never leave
// their scope.
#include "jinja/eval.h"

#include <algorithm>
#include <unordered_map>

#include "core/encoding/unicode.h"
#include "jinja/calls.h"
#include "jinja/operators.h"
#include "jinja/text_methods.h"

namespace rl::jinja {

struct Scope {
  Scope* parent = nullptr;
  std::unordered_map<std::string, Value> variables;
};

namespace {

enum class Flow : uint8_t { kNext, kBreak, kContinue };

class Evaluator {
 public:
  Evaluator(const Program& program, const Variables& variables, JinjaBudget& budget)
      : program_(program), now_(variables.now), budget_(budget) {
    globals_.variables = {{"range", Value(Function::kRange)},
                          {"namespace", Value(Function::kNamespace)},
                          {"dict", Value(Function::kDict)},
                          {"raise_exception", Value(Function::kRaiseException)}};
    if (now_) globals_.variables.emplace("strftime_now", Value(Function::kStrftimeNow));
    for (const auto& [name, value] : variables.values) globals_.variables[name] = value;
  }

  MarkedText run() {
    Scope top{&globals_, {}};
    MarkedText out;
    run(program_.body, top, out);
    return out;
  }

 private:
  // Runs one node; an error without a location gets the node's.
  template <typename Body>
  auto at(const Node& node, Body&& body) {
    try {
      budget_.spend(1);
      const JinjaBudget::Level level(budget_);
      return body();
    } catch (Error& e) {
      if (e.location.empty()) {
        e.location = program_.source.location(node.at);
        e.message = str(e.location, ": ", e.message);
      }
      throw;
    }
  }

  Flow run(const NodeList& body, Scope& scope, MarkedText& out) {
    for (const Node* node : body) {
      const Flow flow = at(*node, [&] { return statement(*node, scope, out); });
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }
  Flow statement(const Node& node, Scope& scope, MarkedText& out);
  Flow branches(const Node& node, Scope& scope, MarkedText& out);
  Flow for_loop(const Node& node, Scope& scope, MarkedText& out);
  void assign(const std::vector<std::string>& names, const Value& value, Scope& scope);
  void set_member(const Node& node, Scope& scope);
  void call_block(const Node& node, Scope& scope, MarkedText& out);
  void print(const MarkedText& text, MarkedText& out) {
    budget_.spend_text(out.size() + text.size(), text.size());
    out.append(text);
  }
  // The output of a body, which has its own variables.
  Value captured(const Node& node, Scope& scope) {
    Scope inner{&scope, {}};
    MarkedText text;
    run(node.bodies[0], inner, text);
    return Value::text(std::move(text));
  }

  Value eval(const Node& node, Scope& scope) {
    return at(node, [&] { return expression(node, scope); });
  }
  Value expression(const Node& node, Scope& scope);
  Value name(const Node& node, Scope& scope);
  Value dict(const Node& node, Scope& scope);
  Value slice(const Node& node, Scope& scope);
  Value concat(const Node& node, Scope& scope);
  Value comparison(const Node& node, Scope& scope);
  bool compares(const std::string& op, const Value& a, const Value& b);
  std::vector<Value> all(const NodeList& nodes, size_t from, Scope& scope);
  Arguments arguments(const Node& node, Scope& scope);
  Value filtered(const Node& node, const Value* block_input, Scope& scope);
  Value call(const Node& node, Scope& scope, const Value* caller);
  Value call_macro(const Macro& macro, const Arguments& arguments, const Value* caller);

  const Program& program_;
  const std::optional<std::string>& now_;
  JinjaBudget& budget_;
  Scope globals_;
};

Flow Evaluator::statement(const Node& node, Scope& scope, MarkedText& out) {
  switch (node.kind) {
    case NodeKind::kData:
      print(*node.value.as_text(), out);
      break;
    case NodeKind::kOutput:
      print(to_text(eval(*node.items[0], scope), budget_), out);
      break;
    case NodeKind::kFor:
      return for_loop(node, scope, out);
    case NodeKind::kIf:
      return branches(node, scope, out);
    case NodeKind::kSet:
      assign(node.names, eval(*node.items[0], scope), scope);
      break;
    case NodeKind::kSetMember:
      set_member(node, scope);
      break;
    case NodeKind::kSetBlock: {
      Value text = captured(node, scope);
      if (node.items[0]) text = filtered(*node.items[0], &text, scope);
      scope.variables[node.names[0]] = std::move(text);
      break;
    }
    case NodeKind::kMacro:
      scope.variables[node.name] = Value(Macro{&node, &scope});
      break;
    case NodeKind::kCallBlock:
      call_block(node, scope, out);
      break;
    case NodeKind::kFilterBlock: {
      const Value text = captured(node, scope);
      print(to_text(filtered(*node.items[0], &text, scope), budget_), out);
      break;
    }
    case NodeKind::kScope:
      print(*captured(node, scope).as_text(), out);
      break;
    case NodeKind::kBreak:
      return Flow::kBreak;
    case NodeKind::kContinue:
      return Flow::kContinue;
    default:
      RL_CHECK(false);
  }
  return Flow::kNext;
}

Flow Evaluator::branches(const Node& node, Scope& scope, MarkedText& out) {
  for (size_t i = 0; i < node.items.size(); ++i) {
    if (truth(eval(*node.items[i], scope))) return run(node.bodies[i], scope, out);
  }
  return run(node.else_body, scope, out);
}

Flow Evaluator::for_loop(const Node& node, Scope& scope, MarkedText& out) {
  auto loop = std::make_shared<Loop>();
  loop->items = elements(eval(*node.items[0], scope), budget_);
  if (const Node* condition = node.items[1]) {
    std::vector<Value> kept;
    for (const Value& item : loop->items) {
      Scope inner{&scope, {}};
      assign(node.names, item, inner);
      if (truth(eval(*condition, inner))) kept.push_back(item);
    }
    loop->items = std::move(kept);
  }
  if (loop->items.empty()) {
    Scope inner{&scope, {}};
    return run(node.else_body, inner, out);
  }
  for (; loop->index0 < loop->items.size(); ++loop->index0) {
    budget_.spend(1);
    Scope inner{&scope, {}};
    assign(node.names, loop->items[loop->index0], inner);
    inner.variables["loop"] = Value(Value::Data(loop));
    if (run(node.bodies[0], inner, out) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

void Evaluator::assign(const std::vector<std::string>& names, const Value& value, Scope& scope) {
  if (names.size() == 1) {
    scope.variables[names[0]] = value;
    return;
  }
  std::vector<Value> parts = elements(value, budget_);
  if (parts.size() != names.size()) {
    throw Error(Code::kInvalidArgument,
                str(parts.size(), " values for ", names.size(), " variables"));
  }
  for (size_t i = 0; i < names.size(); ++i) scope.variables[names[i]] = std::move(parts[i]);
}

void Evaluator::set_member(const Node& node, Scope& scope) {
  const Value value = eval(*node.items[0], scope);
  const Value* target = nullptr;
  for (Scope* s = &scope; s && !target; s = s->parent) {
    const auto found = s->variables.find(node.names[0]);
    if (found != s->variables.end()) target = &found->second;
  }
  Namespace* space = target ? target->as_namespace() : nullptr;
  if (!space) {
    throw Error(Code::kInvalidArgument,
                str(quote_text(node.names[0]), " is not a namespace, so its member ",
                    quote_text(node.names[1]), " cannot be set"));
  }
  set_attribute(*space, node.names[1], value, budget_);
}

void Evaluator::call_block(const Node& node, Scope& scope, MarkedText& out) {
  const Value caller(Macro{node.items[1], &scope});
  const Node& callee = *node.items[0];
  print(to_text(at(callee, [&] { return call(callee, scope, &caller); }), budget_), out);
}

Value Evaluator::expression(const Node& node, Scope& scope) {
  const auto item = [&](size_t i) { return eval(*node.items[i], scope); };
  switch (node.kind) {
    case NodeKind::kConstant:
      return node.value;
    case NodeKind::kName:
      return name(node, scope);
    case NodeKind::kList:
      return make_list(all(node.items, 0, scope), budget_);
    case NodeKind::kTuple:
      return make_list(all(node.items, 0, scope), budget_, true);
    case NodeKind::kDict:
      return dict(node, scope);
    case NodeKind::kAttribute:
      return get_attribute(item(0), node.name);
    case NodeKind::kSubscript: {
      const Value object = item(0);
      return get_item(object, item(1), budget_);
    }
    case NodeKind::kSlice:
      return slice(node, scope);
    case NodeKind::kCall:
      return call(node, scope, nullptr);
    case NodeKind::kFilter:
      return filtered(node, nullptr, scope);
    case NodeKind::kTest: {
      const Value subject = item(0);
      return Value::boolean(apply_test(node.name, subject, arguments(node, scope), budget_));
    }
    case NodeKind::kNot:
      return Value::boolean(!truth(item(0)));
    case NodeKind::kNegative:
      return negative(item(0));
    case NodeKind::kPositive: {
      const Value value = item(0);
      if (!value.is_number()) fail_type("unary \"+\" needs a number, not", value);
      return value.is_integer() ? Value::integer(value.to_integer()) : value;
    }
    case NodeKind::kAnd: {
      const Value left = item(0);
      return truth(left) ? item(1) : left;
    }
    case NodeKind::kOr: {
      const Value left = item(0);
      return truth(left) ? left : item(1);
    }
    case NodeKind::kBinary: {
      const Value left = item(0);
      return binary(node.name, left, item(1), budget_);
    }
    case NodeKind::kConcat:
      return concat(node, scope);
    case NodeKind::kCompare:
      return comparison(node, scope);
    case NodeKind::kCondition:
      if (truth(item(0))) return item(1);
      return node.items[2] ? item(2)
                           : Value::undefined("the condition was false and there is no else");
    default:
      RL_CHECK(false);
  }
  return {};
}

Value Evaluator::name(const Node& node, Scope& scope) {
  for (Scope* s = &scope; s; s = s->parent) {
    const auto found = s->variables.find(node.name);
    if (found != s->variables.end()) return found->second;
  }
  if (node.name == "strftime_now") {
    return Value::undefined(
        "strftime_now would make the prompt depend on the day: give a date as "
        "\"strftime_now\" among the variables of the template");
  }
  return Value::undefined(str(quote_text(node.name), " is undefined"));
}

std::vector<Value> Evaluator::all(const NodeList& nodes, size_t from, Scope& scope) {
  std::vector<Value> out;
  for (size_t i = from; i < nodes.size(); ++i) out.push_back(eval(*nodes[i], scope));
  return out;
}

Value Evaluator::dict(const Node& node, Scope& scope) {
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    Value key = eval(*node.items[i], scope);
    entries.emplace_back(std::move(key), eval(*node.items[i + 1], scope));
  }
  return make_dict(std::move(entries), budget_);
}

Value Evaluator::slice(const Node& node, Scope& scope) {
  const Value object = eval(*node.items[0], scope);
  SliceBounds bounds;
  std::optional<int64_t>* const places[] = {&bounds.begin, &bounds.end, &bounds.step};
  for (size_t i = 0; i < 3; ++i) {
    if (!node.items[i + 1]) continue;
    const Value bound = eval(*node.items[i + 1], scope);
    if (bound.is_none()) continue;
    if (!bound.is_integer()) fail_type("a slice needs integers, not", bound);
    *places[i] = bound.to_integer();
  }
  if (object.is_undefined()) fail_undefined(object);
  return get_slice(object, bounds, budget_);
}

Value Evaluator::concat(const Node& node, Scope& scope) {
  MarkedText out;
  for (const Node* part : node.items) print(to_text(eval(*part, scope), budget_), out);
  return Value::text(std::move(out));
}

bool Evaluator::compares(const std::string& op, const Value& a, const Value& b) {
  if (op == "==") return equal(a, b, budget_);
  if (op == "!=") return !equal(a, b, budget_);
  if (op == "in") return contains(b, a, budget_);
  if (op == "not in") return !contains(b, a, budget_);
  const int sign = compare(a, b, budget_);
  if (op == "<") return sign < 0;
  if (op == "<=") return sign <= 0;
  return op == ">" ? sign > 0 : sign >= 0;
}

// A comparison chain holds if each adjacent pair does; nothing after a failing pair is evaluated.
Value Evaluator::comparison(const Node& node, Scope& scope) {
  Value left = eval(*node.items[0], scope);
  for (size_t i = 0; i < node.names.size(); ++i) {
    Value right = eval(*node.items[i + 1], scope);
    if (!compares(node.names[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Arguments Evaluator::arguments(const Node& node, Scope& scope) {
  Arguments out;
  out.positional = all(node.items, 1, scope);
  for (const auto& [name, value] : node.keywords) out.named.emplace_back(name, eval(*value, scope));
  return out;
}

// The innermost filter of a filter block has no input of its own.
Value Evaluator::filtered(const Node& node, const Value* block_input, Scope& scope) {
  Value input;
  if (!node.items[0]) {
    RL_CHECK(block_input != nullptr);
    input = *block_input;
  } else if (block_input && node.items[0]->kind == NodeKind::kFilter) {
    input = at(*node.items[0], [&] { return filtered(*node.items[0], block_input, scope); });
  } else {
    input = eval(*node.items[0], scope);
  }
  return at(node, [&] { return apply_filter(node.name, input, arguments(node, scope), budget_); });
}

Value Evaluator::call(const Node& node, Scope& scope, const Value* caller) {
  const Value callee = eval(*node.items[0], scope);
  const Arguments args = arguments(node, scope);
  if (const Macro* macro = callee.as<Macro>()) return call_macro(*macro, args, caller);
  if (caller) fail_type("{% call %} needs a macro, not", callee);
  if (const Function* function = callee.as<Function>())
    return call_function(*function, args, now_, budget_);
  if (const Method* method = callee.as_method()) return call_method(*method, args, budget_);
  if (callee.as_loop()) throw Error(Code::kUnsupported, "a recursive loop is not supported");
  fail_type("cannot call", callee);
}

Value Evaluator::call_macro(const Macro& macro, const Arguments& args, const Value* caller) {
  const Node& node = *macro.node;
  Scope scope{macro.scope, {}};
  if (args.positional.size() > node.names.size()) {
    throw Error(Code::kInvalidArgument, str("macro ", node.name, " takes ", node.names.size(),
                                            " arguments, but got ", args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) {
    scope.variables[node.names[i]] = args.positional[i];
  }
  for (const auto& [name, value] : args.named) {
    const bool known = std::find(node.names.begin(), node.names.end(), name) != node.names.end();
    if (!known || !scope.variables.emplace(name, value).second) {
      throw Error(Code::kInvalidArgument,
                  str("macro ", node.name, known ? ": argument " : " has no argument ",
                      quote_text(name), known ? " is given twice" : ""));
    }
  }
  const size_t required = node.names.size() - node.items.size();
  for (size_t i = 0; i < node.names.size(); ++i) {
    if (scope.variables.count(node.names[i])) continue;
    Value value = i < required ? Value::undefined(str("argument ", quote_text(node.names[i]),
                                                      " of macro ", node.name, " was not given"))
                               : eval(*node.items[i - required], scope);
    scope.variables.emplace(node.names[i], std::move(value));
  }
  if (caller) scope.variables.emplace("caller", *caller);
  MarkedText out;
  run(node.bodies[0], scope, out);
  return Value::text(std::move(out));
}

}  // namespace

MarkedText render(const Program& program, const Variables& variables, JinjaBudget& budget) {
  return Evaluator(program, variables, budget).run();
}

}  // namespace rl::jinja
