// The expression half of the parser, with Jinja's precedence and syntax.
#pragma once
#include "jinja/token_stream.h"

namespace rl::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& in) : in_(in) {}

  // An expression; with_condition allows "x if y else z".
  const Node* expression(bool with_condition = true);
  // An expression, or a tuple of comma-separated ones.
  const Node* tuple(bool with_condition = true);
  // Zero or more "| name(...)" applied to input, which may be nullptr for a filter block.
  const Node* filters(const Node* input, bool first_without_bar = false);
  const Node* call(const Node* callee);
  bool at_tuple_end() const;

 private:
  const Node* condition();
  const Node* either();
  const Node* both();
  const Node* negation();
  const Node* comparison();
  const Node* sum();
  const Node* concatenation();
  const Node* product();
  const Node* power();
  const Node* unary(bool with_filters);
  const Node* primary();
  const Node* word();
  const Node* number();
  const Node* strings();
  const Node* list();
  const Node* dict();
  const Node* postfix(const Node* node);
  const Node* filters_and_tests(const Node* node);
  const Node* attribute(const Node* object);
  const Node* subscript(const Node* object);
  const Node* test(const Node* subject);
  void arguments(Node* node);
  const Node* constant(uint32_t at, Value value);
  const Node* join(NodeKind kind, uint32_t at, const Node* left, const Node* right);
  const Node* binary(const Node* left, const Node* right, const Token& op);

  TokenStream& in_;
};

}  // namespace rl::jinja
