// Recursive descent, one function per precedence level, lowest first.
#include "jinja/expressions.h"

#include <charconv>

namespace rl::jinja {

const Node* ExpressionParser::expression(bool with_condition) {
  const TokenStream::Level level(in_);
  return with_condition ? condition() : either();
}

bool ExpressionParser::at_tuple_end() const {
  return in_.is(TokenKind::kVariableEnd) || in_.is(TokenKind::kBlockEnd) || in_.is_operator(")");
}

const Node* ExpressionParser::tuple(bool with_condition) {
  const uint32_t at = in_.now().at;
  if (at_tuple_end()) in_.fail_expected("an expression");
  const Node* first = expression(with_condition);
  if (!in_.is_operator(",")) return first;
  Node* node = in_.make(NodeKind::kTuple, at);
  in_.adopt(node, first);
  while (in_.take_operator(",") && !at_tuple_end()) in_.adopt(node, expression(with_condition));
  return node;
}

const Node* ExpressionParser::join(NodeKind kind, uint32_t at, const Node* left,
                                   const Node* right) {
  Node* node = in_.make(kind, at);
  in_.adopt(node, left);
  if (right != nullptr) in_.adopt(node, right);
  return node;
}

const Node* ExpressionParser::binary(const Node* left, const Node* right, const Token& op) {
  Node* node = in_.make(NodeKind::kBinary, op.at);
  node->name = op.text;
  in_.adopt(node, left);
  in_.adopt(node, right);
  return node;
}

const Node* ExpressionParser::constant(uint32_t at, Value value) {
  Node* node = in_.make(NodeKind::kConstant, at);
  node->value = std::move(value);
  return node;
}

const Node* ExpressionParser::condition() {
  const Node* then = either();
  while (in_.is_word("if")) {
    Node* node = in_.make(NodeKind::kCondition, in_.now().at);
    in_.skip();
    in_.adopt(node, either());
    in_.adopt(node, then);
    in_.adopt(node, in_.take_word("else") ? expression() : nullptr);
    then = node;
  }
  return then;
}

const Node* ExpressionParser::either() {
  const Node* left = both();
  while (in_.is_word("or")) {
    const uint32_t at = in_.now().at;
    in_.skip();
    left = join(NodeKind::kOr, at, left, both());
  }
  return left;
}

const Node* ExpressionParser::both() {
  const Node* left = negation();
  while (in_.is_word("and")) {
    const uint32_t at = in_.now().at;
    in_.skip();
    left = join(NodeKind::kAnd, at, left, negation());
  }
  return left;
}

const Node* ExpressionParser::negation() {
  const TokenStream::Level level(in_);
  if (!in_.is_word("not")) return comparison();
  const uint32_t at = in_.now().at;
  in_.skip();
  return join(NodeKind::kNot, at, negation(), nullptr);
}

const Node* ExpressionParser::comparison() {
  const uint32_t at = in_.now().at;
  const Node* first = sum();
  Node* node = nullptr;
  while (true) {
    std::string op;
    for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="}) {
      if (in_.is_operator(known)) op = known;
    }
    if (in_.is_word("in")) op = "in";
    const bool negated =
        in_.is_word("not") && in_.ahead().kind == TokenKind::kName && in_.ahead().text == "in";
    if (negated) {
      in_.skip();
      op = "not in";
    }
    if (op.empty()) break;
    in_.skip();
    if (node == nullptr) {
      node = in_.make(NodeKind::kCompare, at);
      in_.adopt(node, first);
    }
    node->names.push_back(op);
    in_.adopt(node, sum());
  }
  return node == nullptr ? first : node;
}

const Node* ExpressionParser::sum() {
  const Node* left = concatenation();
  while (in_.is_operator("+") || in_.is_operator("-")) {
    const Token op = in_.now();
    in_.skip();
    left = binary(left, concatenation(), op);
  }
  return left;
}

const Node* ExpressionParser::concatenation() {
  const uint32_t at = in_.now().at;
  const Node* first = product();
  if (!in_.is_operator("~")) return first;
  Node* node = in_.make(NodeKind::kConcat, at);
  in_.adopt(node, first);
  while (in_.take_operator("~")) in_.adopt(node, product());
  return node;
}

const Node* ExpressionParser::product() {
  const Node* left = power();
  while (in_.is_operator("*") || in_.is_operator("/") || in_.is_operator("//") ||
         in_.is_operator("%")) {
    const Token op = in_.now();
    in_.skip();
    left = binary(left, power(), op);
  }
  return left;
}

const Node* ExpressionParser::power() {
  const Node* left = unary(true);
  while (in_.is_operator("**")) {
    const Token op = in_.now();
    in_.skip();
    left = binary(left, unary(true), op);
  }
  return left;
}

const Node* ExpressionParser::unary(bool with_filters) {
  const TokenStream::Level level(in_);
  const uint32_t at = in_.now().at;
  const Node* node = nullptr;
  if (in_.take_operator("-")) {
    node = join(NodeKind::kNegative, at, unary(false), nullptr);
  } else if (in_.take_operator("+")) {
    node = join(NodeKind::kPositive, at, unary(false), nullptr);
  } else {
    node = primary();
  }
  node = postfix(node);
  return with_filters ? filters_and_tests(node) : node;
}

const Node* ExpressionParser::primary() {
  const Token& token = in_.now();
  switch (token.kind) {
    case TokenKind::kName:
      return word();
    case TokenKind::kString:
      return strings();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return number();
    default:
      break;
  }
  if (in_.is_operator("[")) return list();
  if (in_.is_operator("{")) return dict();
  if (!in_.is_operator("(")) in_.fail_expected("an expression");
  const uint32_t at = token.at;
  in_.skip();
  const Node* inner = in_.is_operator(")") ? in_.make(NodeKind::kTuple, at) : tuple();
  in_.expect_operator(")");
  return inner;
}

const Node* ExpressionParser::word() {
  const Token token = in_.now();
  in_.skip();
  if (token.text == "true" || token.text == "True") return constant(token.at, Value::boolean(true));
  if (token.text == "false" || token.text == "False") {
    return constant(token.at, Value::boolean(false));
  }
  if (token.text == "none" || token.text == "None") return constant(token.at, Value());
  Node* node = in_.make(NodeKind::kName, token.at);
  node->name = token.text;
  return node;
}

const Node* ExpressionParser::number() {
  const Token token = in_.now();
  in_.skip();
  const char* end = token.text.data() + token.text.size();
  if (token.kind == TokenKind::kFloat) {
    double value = 0;
    const auto result = std::from_chars(token.text.data(), end, value);
    if (result.ec != std::errc()) in_.fail(Code::kOutOfRange, token.at, "a float is out of range");
    return constant(token.at, Value::real(value));
  }
  int64_t value = 0;
  const auto result = std::from_chars(token.text.data(), end, value);
  if (result.ec != std::errc()) {
    in_.fail(Code::kOutOfRange, token.at, "an integer has more than 64 bits");
  }
  return constant(token.at, Value::integer(value));
}

const Node* ExpressionParser::strings() {
  const uint32_t at = in_.now().at;
  std::string all;
  for (; in_.is(TokenKind::kString); in_.skip()) all += in_.now().text;
  return constant(at, Value::text(all));
}

const Node* ExpressionParser::list() {
  Node* node = in_.make(NodeKind::kList, in_.now().at);
  in_.skip();
  while (!in_.is_operator("]")) {
    in_.adopt(node, expression());
    if (!in_.take_operator(",")) break;
  }
  in_.expect_operator("]");
  return node;
}

const Node* ExpressionParser::dict() {
  Node* node = in_.make(NodeKind::kDict, in_.now().at);
  in_.skip();
  while (!in_.is_operator("}")) {
    in_.adopt(node, expression());
    in_.expect_operator(":");
    in_.adopt(node, expression());
    if (!in_.take_operator(",")) break;
  }
  in_.expect_operator("}");
  return node;
}

const Node* ExpressionParser::postfix(const Node* node) {
  while (true) {
    if (in_.is_operator(".")) {
      node = attribute(node);
    } else if (in_.is_operator("[")) {
      node = subscript(node);
    } else if (in_.is_operator("(")) {
      node = call(node);
    } else {
      return node;
    }
  }
}

const Node* ExpressionParser::attribute(const Node* object) {
  in_.skip();
  const Token name = in_.now();
  if (name.kind == TokenKind::kInteger) {
    const Node* index = number();
    return join(NodeKind::kSubscript, name.at, object, index);
  }
  Node* node = in_.make(NodeKind::kAttribute, name.at);
  node->name = in_.expect_name();
  in_.adopt(node, object);
  return node;
}

const Node* ExpressionParser::subscript(const Node* object) {
  const uint32_t at = in_.now().at;
  in_.skip();
  const Node* parts[3] = {};
  int num_colons = 0;
  while (!in_.is_operator("]") && !in_.is_operator(",")) {
    if (in_.is_operator(":") && num_colons < 2) {
      in_.skip();
      ++num_colons;
    } else if (parts[num_colons] == nullptr) {
      parts[num_colons] = expression();
    } else {
      break;
    }
  }
  if (in_.is_operator(",")) in_.fail_unsupported("a subscript of several parts");
  if (num_colons == 0 && parts[0] == nullptr) in_.fail_expected("an expression");
  in_.expect_operator("]");
  if (num_colons == 0) return join(NodeKind::kSubscript, at, object, parts[0]);
  Node* node = in_.make(NodeKind::kSlice, at);
  in_.adopt(node, object);
  for (const Node* part : parts) in_.adopt(node, part);
  return node;
}

void ExpressionParser::arguments(Node* node) {
  in_.expect_operator("(");
  while (!in_.is_operator(")")) {
    if (in_.is_operator("*") || in_.is_operator("**")) {
      in_.fail_unsupported("unpacking of arguments with * or **");
    }
    const bool is_keyword = in_.is(TokenKind::kName) && in_.ahead().kind == TokenKind::kOperator &&
                            in_.ahead().text == "=";
    if (is_keyword) {
      std::string name = in_.expect_name();
      in_.skip();
      const Node* value = in_.note_height(node, expression());
      node->keywords.emplace_back(std::move(name), value);
    } else {
      if (!node->keywords.empty()) in_.fail_expected("a named argument");
      in_.adopt(node, expression());
    }
    if (!in_.take_operator(",")) break;
  }
  in_.expect_operator(")");
}

const Node* ExpressionParser::call(const Node* callee) {
  Node* node = in_.make(NodeKind::kCall, in_.now().at);
  in_.adopt(node, callee);
  arguments(node);
  return node;
}

const Node* ExpressionParser::filters_and_tests(const Node* node) {
  while (true) {
    if (in_.is_operator("|")) {
      node = filters(node);
    } else if (in_.is_word("is")) {
      node = test(node);
    } else if (in_.is_operator("(")) {
      node = call(node);
    } else {
      return node;
    }
  }
}

const Node* ExpressionParser::filters(const Node* input, bool first_without_bar) {
  bool is_first = first_without_bar;
  while (is_first || in_.take_operator("|")) {
    is_first = false;
    Node* node = in_.make(NodeKind::kFilter, in_.now().at);
    node->name = in_.expect_name();
    while (in_.take_operator(".")) node->name += "." + in_.expect_name();
    in_.adopt(node, input);
    if (in_.is_operator("(")) arguments(node);
    input = node;
  }
  return input;
}

const Node* ExpressionParser::test(const Node* subject) {
  in_.skip();
  const uint32_t at = in_.now().at;
  const bool negated = in_.take_word("not");
  Node* node = in_.make(NodeKind::kTest, in_.now().at);
  node->name = in_.expect_name();
  while (in_.take_operator(".")) node->name += "." + in_.expect_name();
  in_.adopt(node, subject);
  const bool ends = in_.is_word("else") || in_.is_word("or") || in_.is_word("and");
  const bool is_value = in_.is(TokenKind::kName) || in_.is(TokenKind::kString) ||
                        in_.is(TokenKind::kInteger) || in_.is(TokenKind::kFloat) ||
                        in_.is_operator("[") || in_.is_operator("{");
  if (in_.is_operator("(")) {
    arguments(node);
  } else if (is_value && !ends) {
    if (in_.is_word("is")) in_.fail_expected("an operator (a test cannot follow a test)");
    in_.adopt(node, postfix(primary()));
  }
  return negated ? join(NodeKind::kNot, at, node, nullptr) : node;
}

}  // namespace rl::jinja
