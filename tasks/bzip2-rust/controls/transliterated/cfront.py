"""A reader of the C that State A is written in, after the preprocessor: declarations, statements and expressions as
tuples whose first item says what they are.

Types: ("int", "i32"), ("float", "f64"), ("ptr", T), ("arr", T, n), ("struct", name), ("func", result, arguments),
("void",). What this subset doesn't know is a HarnessError that quotes the place.
"""

from __future__ import annotations

import re
from typing import Any

from refactorbench.errors import HarnessError

Node = tuple[Any, ...]

_TOKEN = re.compile(
    r"""\s+|(?P<str>"(?:[^"\\]|\\.)*")|(?P<chr>'(?:[^'\\]|\\.)')|(?P<num>0[xX][0-9a-fA-F]+[uUlL]*|\d+\.\d+|\d+[uUlL]*)
    |(?P<id>[A-Za-z_]\w*)|(?P<op>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|[-+*/%&|^!=<>]=|&&|\|\||[-+*/%&|^!~=<>?:;,.(){}\[\]])""",
    re.VERBOSE,
)
_BASE = {
    "char": "i8", "unsigned char": "u8", "short": "i16", "unsigned short": "u16", "int": "i32", "unsigned int": "u32",
    "unsigned": "u32", "long": "i64", "unsigned long": "usize",
}  # fmt: skip
_QUIET = {"static", "extern", "__inline__", "register", "const", "__extension__", "inline"}
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_ASSIGN = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")


class Unit:
    """What a translation unit declares. `functions`: name -> (result, [(type, name)], body or None)."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            m = _TOKEN.match(text, at)
            if not m:
                raise HarnessError(f"C that the translator can't read: {text[at : at + 40]!r}")
            if m.lastgroup:
                self.tokens.append((m.lastgroup, m[0]))
            at = m.end()
        self.tokens.append(("end", ""))
        self.at = 0
        self.types: dict[str, Node] = {"float": ("float", "f32"), "double": ("float", "f64"), "void": ("void",)}
        self.structs: dict[str, list[tuple[Node, str]]] = {}
        self.functions: dict[str, tuple[Node, list[tuple[Node, str]], Node | None]] = {}
        self.statics: dict[str, tuple[Node, Node | None]] = {}
        self.globals: dict[str, Node] = {}
        while self.tokens[self.at][0] != "end":
            self._outer()

    def peek(self, n: int = 0) -> str:
        return self.tokens[min(self.at + n, len(self.tokens) - 1)][1]

    def take(self, wanted: str = "") -> str:
        text = self.peek()
        if wanted and text != wanted:
            around = " ".join(t for _, t in self.tokens[max(0, self.at - 8) : self.at + 8])
            raise HarnessError(f"the translator needs {wanted!r} in: {around}")
        self.at += 1
        return text

    def got(self, text: str) -> bool:
        if self.tokens[self.at][1] == text and self.tokens[self.at][0] != "str":
            self.at += 1
            return True
        return False

    # --- declarations

    def is_type(self) -> bool:
        word = self.peek()
        return word in self.types or word in _QUIET or word in ("struct", "unsigned", "char", "short", "int", "long")

    def base(self) -> Node:
        words: list[str] = []
        while self.peek() in _QUIET:
            self.take()
        if self.got("struct"):
            name = self.take() if self.peek() != "{" else f"anonymous{self.at}"
            if self.got("{"):
                fields: list[tuple[Node, str]] = []
                while not self.got("}"):
                    kind = self.base()
                    fields.append(self.declarator(kind))
                    while self.got(","):
                        fields.append(self.declarator(kind))
                    self.take(";")
                self.structs[name] = fields
            return ("struct", name)
        while self.peek() in ("unsigned", "signed", "char", "short", "int", "long") or self.peek() in _QUIET:
            if (word := self.take()) not in _QUIET:
                words.append(word)
        if words:
            key = " ".join(w for i, w in enumerate(words) if w != "int" or i == 0 or words[i - 1] == "unsigned")
            return ("int", _BASE[key])
        return self.types[self.take()]

    def declarator(self, kind: Node) -> tuple[Node, str]:
        while self.got("*"):
            kind = ("ptr", kind)
        if self.peek() == "(" and self.peek(1) == "*":  # a pointer to a function
            self.at += 2
            name = self.take()
            self.take(")")
            return ("ptr", ("func", kind, self.parameters())), name
        name = self.take() if self.tokens[self.at][0] == "id" else ""
        sizes = []
        while self.got("["):
            sizes.append(0 if self.peek() == "]" else self.constant(self.expression()))
            self.take("]")
        for size in reversed(sizes):
            kind = ("arr", kind, size)
        return kind, name

    def parameters(self) -> list[tuple[Node, str]]:
        self.take("(")
        found: list[tuple[Node, str]] = []
        if self.peek() == "void" and self.peek(1) == ")":
            self.take()
        while not self.got(")"):
            if self.got("..."):
                found.append((("more",), ""))
            else:
                kind, name = self.declarator(self.base())
                found.append((("ptr", kind[1]) if kind[0] == "arr" else kind, name))
            self.got(",")
        return found

    def _outer(self) -> None:
        if self.got(";"):
            return
        if self.got("typedef"):
            kind, name = self.declarator(self.base())
            self.types[name] = kind
            if kind[0] == "struct" and kind[1].startswith("anonymous"):
                self.structs[name] = self.structs.pop(kind[1])
                self.types[name] = ("struct", name)
            self.take(";")
            return
        kind, name = self.declarator(self.base())
        while self.peek() == ")" or (self.peek() == "(" and not name):  # int (name) (arguments)
            if self.take() == "(":
                name = self.take()
        if self.peek() == "(":
            arguments = self.parameters()
            body = None if self.got(";") else self.statement()
            if body is not None or name not in self.functions:
                self.functions.pop(name, None)  # the order is that of the definitions
                self.functions[name] = (kind, arguments, body)
            return
        value = self.initialiser() if self.got("=") else None
        self.take(";")
        self.globals[name] = kind
        if value is not None:
            self.statics[name] = (kind, value)

    def initialiser(self) -> Node:
        if not self.got("{"):
            return self.assignment()
        items = []
        while not self.got("}"):
            items.append(self.initialiser())
            self.got(",")
        return ("list", items)

    # --- statements

    def statement(self) -> Node:
        word = self.peek()
        if self.got("{"):
            body = []
            while not self.got("}"):
                body.append(self.statement())
            return ("block", body)
        if self.tokens[self.at][0] == "id" and self.peek(1) == ":" and word != "default":
            self.at += 2
            return ("label", word)
        handler = getattr(self, f"_{word}", None) if word in _STATEMENTS else None
        if handler is not None:
            self.take()
            found: Node = handler()
            return found
        if self.got(";"):
            return ("block", [])
        if self.is_type():
            kind = self.base()
            declared = []
            while True:
                made, name = self.declarator(kind)
                declared.append((made, name, self.assignment() if self.got("=") else None))
                if not self.got(","):
                    break
            self.take(";")
            return ("declare", declared)
        value = self.expression()
        self.take(";")
        return ("expr", value)

    def _if(self) -> Node:
        self.take("(")
        test = self.expression()
        self.take(")")
        then = self.statement()
        return ("if", test, then, self.statement() if self.got("else") else None)

    def _while(self) -> Node:
        self.take("(")
        test = self.expression()
        self.take(")")
        return ("for", None, test, None, self.statement())

    def _do(self) -> Node:
        body = self.statement()
        self.take("while")
        self.take("(")
        test = self.expression()
        self.take(")")
        self.take(";")
        return ("do", body, test)

    def _for(self) -> Node:
        self.take("(")
        parts: list[Node | None] = []
        for end in (";", ";", ")"):
            parts.append(None if self.peek() == end else self.expression())
            self.take(end)
        return ("for", *parts, self.statement())

    def _switch(self) -> Node:
        self.take("(")
        test = self.expression()
        self.take(")")
        return ("switch", test, self.statement())

    def _case(self) -> Node:
        value = self.constant(self.expression())
        self.take(":")
        return ("case", value)

    def _default(self) -> Node:
        self.take(":")
        return ("case", None)

    def _return(self) -> Node:
        value = None if self.peek() == ";" else self.expression()
        self.take(";")
        return ("return", value)

    def _goto(self) -> Node:
        name = self.take()
        self.take(";")
        return ("goto", name)

    def _break(self) -> Node:
        self.take(";")
        return ("break",)

    def _continue(self) -> Node:
        self.take(";")
        return ("continue",)

    # --- expressions

    def expression(self) -> Node:
        left = self.assignment()
        while self.got(","):
            left = ("comma", left, self.assignment())
        return left

    def assignment(self) -> Node:
        left = self.conditional()
        if self.peek() in _ASSIGN:
            op = self.take()
            return ("assign", op[:-1], left, self.assignment())
        return left

    def conditional(self) -> Node:
        test = self.binary(0)
        if not self.got("?"):
            return test
        yes = self.expression()
        self.take(":")
        return ("cond", test, yes, self.conditional())

    def binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            op = self.take()
            left = ("bin", op, left, self.binary(level + 1))
        return left

    def unary(self) -> Node:
        word = self.peek()
        if word in ("!", "~", "-", "+", "*", "&"):
            self.take()
            return ("un", word, self.unary())
        if word in ("++", "--"):
            self.take()
            return ("step", word[0], self.unary(), True)
        if word == "sizeof":
            self.take()
            self.take("(")
            kind, _ = self.declarator(self.base())
            self.take(")")
            return ("sizeof", kind)
        if word == "(":
            self.at += 1
            if self.is_type():
                kind, _ = self.declarator(self.base())
                self.take(")")
                return ("cast", kind, self.unary())
            self.at -= 1
        return self.postfix()

    def postfix(self) -> Node:
        kind, text = self.tokens[self.at]
        self.at += 1
        left: Node
        if kind == "num":
            left = ("num", text)
        elif kind == "chr":
            left = ("num", str(ord(text[1:-1].encode().decode("unicode_escape"))))
        elif kind == "str":
            while self.tokens[self.at][0] == "str":
                text = text[:-1] + self.take()[1:]
            left = ("str", text)
        elif kind == "id":
            left = ("var", text)
        elif text == "(":
            left = self.expression()
            self.take(")")
        else:
            self.at -= 1
            left = ("?", self.take("an expression"))
        while True:
            if self.got("["):
                left = ("index", left, self.expression())
                self.take("]")
            elif self.got("("):
                arguments = []
                while not self.got(")"):
                    arguments.append(self.assignment())
                    self.got(",")
                left = ("call", left, arguments)
            elif self.peek() in (".", "->"):
                left = ("member", left, self.take() == "->", self.take())
            elif self.peek() in ("++", "--"):
                left = ("step", self.take()[0], left, False)
            else:
                return left

    def constant(self, e: Node) -> int:
        """The value of an expression that the compiler must know."""
        value = fold(e)
        if value is None:
            raise HarnessError(f"the translator can't compute {e!r}, which must be a constant")
        return value


_STATEMENTS = {"if", "while", "do", "for", "switch", "case", "default", "return", "goto", "break", "continue"}
_FOLD = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__, "<<": int.__lshift__,
    ">>": int.__rshift__, "|": int.__or__, "&": int.__and__,
}  # fmt: skip


def fold(e: Node) -> int | None:
    """The value of an integer expression of constants, else None."""
    if e[0] == "num" and "." not in e[1]:
        return int(e[1].rstrip("uUlL"), 0)
    if e[0] == "cast":
        return fold(e[2])
    if e[0] == "un" and e[1] in "-~" and (value := fold(e[2])) is not None:
        return -value if e[1] == "-" else ~value
    if e[0] == "bin" and e[1] in _FOLD:
        left, right = fold(e[2]), fold(e[3])
        if left is not None and right is not None:
            return _FOLD[e[1]](left, right)
    return None
