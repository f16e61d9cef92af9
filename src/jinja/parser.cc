// Statements. Each reads its own tag, its bodies and its end tag.
#include "jinja/parser.h"

#include "jinja/expressions.h"

namespace rl::jinja {
namespace {

using Ends = std::initializer_list<std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(TokenStream& in) : in_(in), expressions_(in) {}

  NodeList program() {
    NodeList body = statements({});
    if (!in_.is(TokenKind::kEnd)) in_.fail_expected("a statement");
    return body;
  }

 private:
  // Up to a block whose first word is in ends; the stream is then at that word.
  NodeList statements(Ends ends) {
    const TokenStream::Level level(in_);
    NodeList out;
    while (!in_.is(TokenKind::kEnd)) {
      if (in_.is(TokenKind::kData)) {
        out.push_back(data());
      } else if (in_.is(TokenKind::kVariableBegin)) {
        out.push_back(output());
      } else {
        in_.expect(TokenKind::kBlockBegin, "a tag");
        for (const std::string_view end : ends) {
          if (in_.is_word(end)) return out;
        }
        if (const Node* node = statement()) out.push_back(node);
      }
    }
    if (ends.size() > 0) in_.fail_expected(str("{% ", *(ends.end() - 1), " %}"));
    return out;
  }
  const Node* data() {
    Node* node = in_.make(NodeKind::kData, in_.now().at);
    node->value = Value::text(in_.now().text);
    in_.skip();
    return node;
  }
  const Node* output() {
    Node* node = in_.make(NodeKind::kOutput, in_.now().at);
    in_.skip();
    in_.adopt(node, expressions_.tuple());
    in_.expect(TokenKind::kVariableEnd, "\"}}\"");
    return node;
  }
  // A body of `node` up to and including {% end %}.
  NodeList body_until(Node* node, std::string_view end) {
    in_.expect(TokenKind::kBlockEnd, "\"%}\"");
    NodeList out = body(node, {end});
    close(end);
    return out;
  }
  NodeList body(Node* node, Ends ends) {
    NodeList out = statements(ends);
    for (const Node* child : out) in_.note_height(node, child);
    return out;
  }
  void close(std::string_view end) {
    in_.expect_word(end);
    in_.expect(TokenKind::kBlockEnd, "\"%}\"");
  }

  const Node* statement();
  const Node* for_loop(uint32_t at);
  const Node* branches(uint32_t at);
  const Node* assignment(uint32_t at);
  const Node* macro(uint32_t at);
  const Node* call_block(uint32_t at);
  const Node* filter_block(uint32_t at);
  const Node* scope(uint32_t at);
  const Node* jump(NodeKind kind, uint32_t at);
  std::vector<std::string> targets();
  void parameters(Node* node);
  std::string target_name();

  TokenStream& in_;
  ExpressionParser expressions_;
  int loops_ = 0;  // enclosing loops inside the same macro
};

const Node* StatementParser::statement() {
  const Token word = in_.now();
  if (word.kind != TokenKind::kName) in_.fail_expected("a tag name");
  in_.skip();
  if (word.text == "for") return for_loop(word.at);
  if (word.text == "if") return branches(word.at);
  if (word.text == "set") return assignment(word.at);
  if (word.text == "macro") return macro(word.at);
  if (word.text == "call") return call_block(word.at);
  if (word.text == "filter") return filter_block(word.at);
  if (word.text == "generation") return scope(word.at);
  if (word.text == "break") return jump(NodeKind::kBreak, word.at);
  if (word.text == "continue") return jump(NodeKind::kContinue, word.at);
  in_.fail(Code::kUnsupported, word.at, str("the tag {% ", word.text, " %} is not supported"));
}

std::string StatementParser::target_name() {
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (in_.is_word(constant)) in_.fail_expected("a variable");
  }
  return in_.expect_name();
}

std::vector<std::string> StatementParser::targets() {
  const bool in_brackets = in_.take_operator("(");
  std::vector<std::string> names{target_name()};
  while (in_.take_operator(",")) {
    if (in_.is_word("in") || in_.is_operator("=") || in_.is_operator(")")) {
      in_.fail_unsupported("a comma after the last variable");
    }
    if (in_.is_operator("(")) in_.fail_unsupported("a nested list of variables");
    names.push_back(target_name());
  }
  if (in_brackets) in_.expect_operator(")");
  return names;
}

const Node* StatementParser::for_loop(uint32_t at) {
  Node* node = in_.make(NodeKind::kFor, at);
  node->names = targets();
  in_.expect_word("in");
  in_.adopt(node, expressions_.tuple(false));
  in_.adopt(node, in_.take_word("if") ? expressions_.expression() : nullptr);
  if (in_.is_word("recursive")) in_.fail_unsupported("a recursive loop");
  in_.expect(TokenKind::kBlockEnd, "\"%}\"");
  ++loops_;
  node->bodies.push_back(body(node, {"else", "endfor"}));
  --loops_;
  if (in_.take_word("else")) {
    in_.expect(TokenKind::kBlockEnd, "\"%}\"");
    node->else_body = body(node, {"endfor"});
  }
  close("endfor");
  return node;
}

const Node* StatementParser::branches(uint32_t at) {
  Node* node = in_.make(NodeKind::kIf, at);
  do {
    in_.adopt(node, expressions_.tuple(false));
    in_.expect(TokenKind::kBlockEnd, "\"%}\"");
    node->bodies.push_back(body(node, {"elif", "else", "endif"}));
  } while (in_.take_word("elif"));
  if (in_.take_word("else")) {
    in_.expect(TokenKind::kBlockEnd, "\"%}\"");
    node->else_body = body(node, {"endif"});
  }
  close("endif");
  return node;
}

const Node* StatementParser::assignment(uint32_t at) {
  const bool is_member = in_.ahead().kind == TokenKind::kOperator && in_.ahead().text == ".";
  Node* node = in_.make(is_member ? NodeKind::kSetMember : NodeKind::kSet, at);
  if (is_member) {
    node->names.push_back(in_.expect_name());
    in_.skip();
    node->names.push_back(in_.expect_name());
  } else {
    node->names = targets();
  }
  if (in_.take_operator("=")) {
    in_.adopt(node, expressions_.tuple());
    in_.expect(TokenKind::kBlockEnd, "\"%}\"");
    return node;
  }
  if (is_member || node->names.size() != 1) in_.fail_expected("\"=\"");
  node->kind = NodeKind::kSetBlock;
  in_.adopt(node, expressions_.filters(nullptr));
  const int loops = std::exchange(loops_, 0);
  node->bodies.push_back(body_until(node, "endset"));
  loops_ = loops;
  return node;
}

void StatementParser::parameters(Node* node) {
  in_.expect_operator("(");
  while (!in_.is_operator(")")) {
    node->names.push_back(target_name());
    if (in_.take_operator("=")) {
      in_.adopt(node, expressions_.expression());
    } else if (!node->items.empty()) {
      in_.fail_expected("a default");
    }
    if (!in_.take_operator(",")) break;
  }
  in_.expect_operator(")");
}

const Node* StatementParser::macro(uint32_t at) {
  Node* node = in_.make(NodeKind::kMacro, at);
  node->name = target_name();
  parameters(node);
  const int loops = std::exchange(loops_, 0);
  node->bodies.push_back(body_until(node, "endmacro"));
  loops_ = loops;
  return node;
}

const Node* StatementParser::call_block(uint32_t at) {
  Node* node = in_.make(NodeKind::kCallBlock, at);
  Node* caller = in_.make(NodeKind::kMacro, at);
  caller->name = "caller";
  if (in_.is_operator("(")) parameters(caller);
  const Node* call = expressions_.expression();
  if (call->kind != NodeKind::kCall) {
    in_.fail(Code::kDataLoss, at, "{% call %} must be followed by a macro call");
  }
  in_.adopt(node, call);
  const int loops = std::exchange(loops_, 0);
  caller->bodies.push_back(body_until(caller, "endcall"));
  loops_ = loops;
  in_.adopt(node, caller);
  return node;
}

const Node* StatementParser::filter_block(uint32_t at) {
  Node* node = in_.make(NodeKind::kFilterBlock, at);
  in_.adopt(node, expressions_.filters(nullptr, true));
  const int loops = std::exchange(loops_, 0);
  node->bodies.push_back(body_until(node, "endfilter"));
  loops_ = loops;
  return node;
}

// {% generation %} marks the assistant's text for training; its body is printed unchanged.
const Node* StatementParser::scope(uint32_t at) {
  Node* node = in_.make(NodeKind::kScope, at);
  const int loops = std::exchange(loops_, 0);
  node->bodies.push_back(body_until(node, "endgeneration"));
  loops_ = loops;
  return node;
}

const Node* StatementParser::jump(NodeKind kind, uint32_t at) {
  if (loops_ == 0) in_.fail(Code::kDataLoss, at, "break or continue outside of a loop");
  in_.expect(TokenKind::kBlockEnd, "\"%}\"");
  return in_.make(kind, at);
}

}  // namespace

std::shared_ptr<const Program> parse(std::string_view text, const std::string& name,
                                     const JinjaLimits& limits) {
  auto program = std::make_shared<Program>(Program{Source(text, name, limits), {}, {}});
  TokenStream stream(*program, limits);
  program->body = StatementParser(stream).program();
  return program;
}

}  // namespace rl::jinja
