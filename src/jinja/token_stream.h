// The tokens of a template as the parsers read them, and the nodes of the tree they build. Enforces
// the limits on node count, height and nesting.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/encoding/unicode.h"
#include "jinja/ast.h"

namespace rl::jinja {

class TokenStream {
 public:
  TokenStream(Program& program, const JinjaLimits& limits)
      : program_(program), limits_(limits), tokens_(tokenize(program.source)) {}

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void skip() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool is(TokenKind kind) const { return now().kind == kind; }
  bool is_operator(std::string_view text) const {
    return is(TokenKind::kOperator) && now().text == text;
  }
  bool is_word(std::string_view text) const { return is(TokenKind::kName) && now().text == text; }
  bool take_operator(std::string_view text) {
    const bool found = is_operator(text);
    if (found) skip();
    return found;
  }
  bool take_word(std::string_view text) {
    const bool found = is_word(text);
    if (found) skip();
    return found;
  }
  void expect_operator(std::string_view text) {
    if (!take_operator(text)) fail_expected(str("\"", text, "\""));
  }
  void expect_word(std::string_view text) {
    if (!take_word(text)) fail_expected(str("\"", text, "\""));
  }
  void expect(TokenKind kind, const char* what) {
    if (!is(kind)) fail_expected(what);
    skip();
  }
  std::string expect_name() {
    if (!is(TokenKind::kName)) fail_expected("a name");
    std::string name = now().text;
    skip();
    return name;
  }

  [[noreturn]] void fail(Code code, uint32_t at, const std::string& what) const {
    program_.source.fail(code, at, what);
  }
  [[noreturn]] void fail_expected(const std::string& what) const {
    fail(Code::kDataLoss, now().at, str("expected ", what, ", found ", describe()));
  }
  [[noreturn]] void fail_unsupported(const std::string& what) const {
    fail(Code::kUnsupported, now().at, what + " is not supported");
  }

  Node* make(NodeKind kind, uint32_t at) {
    if (program_.nodes.size() >= limits_.max_nodes) {
      fail(Code::kResourceExhausted, at,
           str("the template has more than ", limits_.max_nodes, " nodes"));
    }
    Node& node = program_.nodes.emplace_back();
    node.kind = kind;
    node.at = at;
    return &node;
  }
  // Adds a child, which may be null, to a node.
  void adopt(Node* node, const Node* child) { node->items.push_back(note_height(node, child)); }
  const Node* note_height(Node* node, const Node* child) {
    if (child == nullptr) return nullptr;
    node->height = std::max(node->height, child->height + 1);
    if (node->height > limits_.max_call_depth) {
      fail(Code::kResourceExhausted, node->at,
           str("an expression has more than ", limits_.max_call_depth, " parts"));
    }
    return child;
  }

  // Held while a nested construct is parsed.
  class Level {
   public:
    explicit Level(TokenStream& stream) : stream_(stream) {
      if (stream.depth_ >= stream.limits_.max_parse_depth) {
        stream.fail(
            Code::kResourceExhausted, stream.now().at,
            str("the template nests constructs deeper than ", stream.limits_.max_parse_depth));
      }
      ++stream.depth_;
    }
    ~Level() { --stream_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TokenStream& stream_;
  };

 private:
  std::string describe() const {
    switch (now().kind) {
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kData:
        return "text";
      case TokenKind::kVariableBegin:
        return "\"{{\"";
      case TokenKind::kVariableEnd:
        return "\"}}\"";
      case TokenKind::kBlockBegin:
        return "\"{%\"";
      case TokenKind::kBlockEnd:
        return "\"%}\"";
      default:
        return quote_text(now().text);
    }
  }

  Program& program_;
  const JinjaLimits limits_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint64_t depth_ = 0;
};

}  // namespace rl::jinja
