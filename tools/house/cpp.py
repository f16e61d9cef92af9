"""Reads C++ well enough for the house rules: what each brace opens, and where it closes.

No compiler is needed. Comments, literals and preprocessor lines are blanked first, so that every
brace left is one of the language; the text before it says what it opens.
"""
import dataclasses
import re

# Numbers are matched so that the ' in 1'000 opens no literal.
NO_CODE = re.compile(
    r"""(?P<number>\b\d(?:'?[\w.])*)"""
    r"""|\bR"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)\""""
    r"""|//[^\n]*|/\*.*?\*/"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
    r"""|^[ \t]*\#(?:\\\n|[^\n])*""", re.DOTALL | re.MULTILINE)
LABELS = re.compile(r"^(?:\s*(?:public|protected|private)\s*:)+")
SCOPE = re.compile(r"^(?:inline\s+)?namespace\b|^extern$")
TYPE = re.compile(r"^(?:typedef\s+)?(?:class|struct|union)\b")
LAMBDA = re.compile(r"\[[^\]]*\]\s*@[^@=]*$")
COLON = r"(?<!:):(?!:)"
CONSTRUCTOR = re.compile(rf"@[^@:]*{COLON}")
NO_MEMBER = re.compile(
    r"^(?:using|typedef|friend|static_assert|enum)\b|^(?:class|struct|union)\s+\w+$"
    r"|\b(?:static|operator)\b")


@dataclasses.dataclass
class Block:
    """A pair of braces. kind: scope, type, function, value, or inner for all within these two."""
    kind: str
    head: str  # what stands before the brace
    start: int  # offset of the head
    open: int  # offset of the brace
    close: int = -1
    statements: list = dataclasses.field(default_factory=list)  # of a type, without nested bodies


def blanked(text):
    """The text with blanks for all that is no code. Offsets and lines stay."""
    def blank(match):
        return match.group() if match["number"] else re.sub(r"[^\n]", " ", match.group())
    return NO_CODE.sub(blank, text)


def without(text, pattern, mark):
    """The text with a mark for each match, from the innermost outwards."""
    while (shorter := re.sub(pattern, mark, text)) != text:
        text = shorter
    return text


def plain(head):
    """A head without labels, attributes and template arguments; @ is for (...), $ for {...}."""
    head = re.sub(r"\balignas\s*\([^()]*\)|\[\[[^\]]*\]\]", " ", LABELS.sub("", head))
    head = re.sub(r"\boperator\s*(?:\(\s*\)|[^\w\s(]+)", "operator ", head)
    head = without(head, r"\([^(){}]*\)|\{[^(){}]*\}", lambda m: "@" if m[0][0] == "(" else "$")
    return re.sub(r"^\s*template\b", "", without(head, r"<[^<>]*>", "")).strip()


def kind_of(head):
    """What a brace opens outside of functions."""
    text = plain(head)
    if SCOPE.search(text):
        return "scope"
    if TYPE.search(text) and "@" not in text:
        return "type"
    if "@" not in text or CONSTRUCTOR.search(text) and text[-1] not in "@$":
        return "value"
    if "=" in text and not LAMBDA.search(text):
        return "value"
    return "function"


def type_name(head):
    """The name of a type without its base classes."""
    return re.sub(r"\s*\bfinal$", "", re.split(COLON, plain(head))[0].strip()).split()[-1]


class Reader:
    """Goes from mark to mark; closed has the blocks in the order in which they close."""

    def __init__(self, text):
        self.text, self.closed, self.opened = text, [], []
        self.start, self.parens = 0, [0]  # of the current head; open parentheses by block

    def innermost(self):
        return self.opened[-1].kind if self.opened else "scope"

    def open(self, at):
        head = self.text[self.start:at]
        inner = self.parens[-1] or self.innermost() in ("function", "value", "inner")
        self.opened.append(Block("inner" if inner else kind_of(head), head, self.start, at))
        self.parens.append(0)
        self.start = at + 1

    def close(self, at):
        if not self.opened or self.parens.pop():
            raise ValueError("braces or parentheses do not match")
        block = self.opened.pop()
        block.close = at
        self.closed.append(block)
        self.start = block.start if block.kind in ("value", "inner") else at + 1

    def end_statement(self, at):
        if not self.parens[-1]:
            if self.innermost() == "type":
                self.opened[-1].statements.append(self.text[self.start:at])
            self.start = at + 1


def blocks(text):
    """All blocks of a text that was blanked."""
    reader = Reader(text)
    at_mark = {"{": reader.open, "}": reader.close, ";": reader.end_statement}
    for match in re.finditer(r"[(){};]", text):
        if match[0] in "()":
            reader.parens[-1] += 1 if match[0] == "(" else -1
        else:
            at_mark[match[0]](match.start())
    if reader.opened or reader.parens != [0]:
        raise ValueError("braces or parentheses do not match")
    return reader.closed


def members(statement):
    """How many data members a statement of a type declares."""
    text = plain(statement)
    if not text or NO_MEMBER.search(text) or "@" in text.split("=")[0]:
        return 0
    return text.count(",") + 1
