// The syntax tree of a chat template. Nodes live in a Program and point to each other; a tree never
// changes after parsing, so many threads may run it. height is the height of the node's subtree:
// evaluation recurses no deeper.
#pragma once
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "jinja/lexer.h"
#include "jinja/value.h"

namespace rl::jinja {

enum class NodeKind : uint8_t {
  // Expressions.
  kConstant,   // value
  kName,       // name
  kList,       // items
  kTuple,      // items
  kDict,       // items: key, value, key, value ...
  kAttribute,  // items[0] . name
  kSubscript,  // items[0] [ items[1] ]
  kSlice,      // items[0] [ items[1] : items[2] : items[3] ], nullptr for omitted ones
  kCall,       // items[0] ( the rest of items, keywords )
  kFilter,     // items[0] | name ( the rest of items, keywords ); items[0] is nullptr in a block
  kTest,       // items[0] is name ( the rest of items, keywords )
  kNot,        // items[0]
  kNegative,   // items[0]
  kPositive,   // items[0]
  kAnd,        // items[0], items[1]
  kOr,         // items[0], items[1]
  kBinary,     // items[0] name items[1]
  kConcat,     // items
  kCompare,    // items[0] names[0] items[1] names[1] items[2] ...
  kCondition,  // items[1] if items[0] else items[2], which may be nullptr
  // Statements.
  kData,         // value
  kOutput,       // items[0]
  kFor,          // names in items[0] if items[1], which may be nullptr: body, else_body
  kIf,           // items are conditions of bodies, then else_body
  kSet,          // names = items[0]
  kSetMember,    // names[0] . names[1] = items[0]
  kSetBlock,     // names[0] = body, through the filters items[0], which may be nullptr
  kMacro,        // name(names): body; the last items.size() of names have these defaults
  kCallBlock,    // items[0] is the call, items[1] a macro with the body as its caller
  kFilterBlock,  // body through the filters items[0]
  kScope,        // body, with its own variables
  kBreak,
  kContinue,
};

struct Node;
using NodeList = std::vector<const Node*>;

struct Node {
  NodeKind kind;
  uint32_t at;  // byte offset in the source
  uint64_t height = 1;
  std::string name;
  Value value;
  std::vector<std::string> names;
  NodeList items;
  std::vector<std::pair<std::string, const Node*>> keywords;
  std::vector<NodeList> bodies;  // one, except kIf: one per condition
  NodeList else_body;
};

struct Program {
  Source source;
  std::deque<Node> nodes;
  NodeList body;
};

}  // namespace rl::jinja
