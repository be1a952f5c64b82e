"""Rust for what cfront.py has read: one statement of C becomes one of Rust, with raw pointers and C's own names.

Where control jumps into or out of the middle of statements, the function becomes a loop over numbered pieces.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from refactorbench.catalog.python import load_module
from refactorbench.errors import HarnessError

Node = tuple[Any, ...]
fold = load_module(Path(__file__).with_name("cfront.py")).fold  # by its place: a control is no package
I32: Node = ("int", "i32")
BOOL: Node = ("bool",)
VOID_POINTER: Node = ("ptr", ("void",))
_KEYWORDS = {"in", "ref", "type", "move", "loop", "match", "fn", "let", "mod", "use", "impl", "self", "mut", "where"}
_RANK = {"i8": 0, "u8": 0, "i16": 0, "u16": 0, "i32": 1, "u32": 2, "i64": 3, "usize": 4}


class Value:
    """Rust text of a C value. `loose`: an operator around it needs parentheses; `number`: a constant's value."""

    def __init__(self, text: str, kind: Node, loose: bool = False, number: int | None = None) -> None:
        self.text, self.kind, self.loose, self.number = text, kind, loose, number

    @property
    def tight(self) -> str:
        return f"({self.text})" if self.loose else self.text


def rust_type(kind: Node) -> str:
    head = kind[0]
    if head in ("int", "float"):
        return str(kind[1])
    if head == "ptr" and kind[1][0] == "func":
        arguments = ", ".join(rust_type(t) for t, _ in kind[1][2])
        result = "" if kind[1][1] == ("void",) else f" -> {rust_type(kind[1][1])}"
        return f'Option<unsafe extern "C" fn({arguments}){result}>'
    if head == "ptr":
        return f"*mut {rust_type(kind[1])}"
    if head == "arr":
        return f"[{rust_type(kind[1])}; {kind[2]}]"
    if head == "struct":
        return str(kind[1])
    if head == "void":
        return "c_void"
    raise HarnessError(f"the translator has no Rust type for {kind!r}")


def zero(kind: Node) -> str:
    """What a variable holds before C gives it a value."""
    head = kind[0]
    if head == "arr":
        return f"[{zero(kind[1])}; {kind[2]}]"
    if head == "struct":
        return "std::mem::zeroed()"
    return {"int": "0", "float": "0.0"}.get(head, "null_mut()")


def name_of(name: str) -> str:
    return name + "_" if name in _KEYWORDS else name


def has(s: Any, kinds: tuple[str, ...]) -> bool:
    """True when a statement of one of these kinds stands in `s`."""
    if isinstance(s, tuple):
        return (bool(s) and s[0] in kinds) or any(has(x, kinds) for x in s)
    return isinstance(s, list) and any(has(x, kinds) for x in s)


class Expressions:
    """C's expressions, with its promotions and conversions."""

    def __init__(self, unit: Any, variables: dict[str, Node]) -> None:
        self.unit, self.variables = unit, variables

    def convert(self, v: Value, to: Node) -> str:
        """`v` as a value of the type `to`, as C's assignment makes it."""
        if v.number is not None and to[0] == "int":
            return literal(v.number, to)
        if to[0] == "float" and v.number is not None:
            return f"{v.number}.0"
        if to[0] == "ptr":
            if v.number == 0:
                return "None" if to[1][0] == "func" else "null_mut()"
            if to[1][0] == "func":
                return f"Some({v.text})"
            if v.kind[0] == "arr":
                v = decayed(v)
        if v.kind == to:
            return v.text
        if v.kind == BOOL and to[0] == "float":
            v = Value(f"{v.tight} as i32", I32, True)
        return f"{v.tight} as {rust_type(to)}"

    def test(self, e: Node) -> str:
        """`e` as a condition."""
        v = self.value(e)
        if v.kind == BOOL:
            return v.text
        if v.number is not None:
            return "true" if v.number else "false"
        return f"!{v.tight}.is_null()" if v.kind[0] == "ptr" else f"{v.tight} != 0"

    def value(self, e: Node) -> Value:
        number = fold(e)
        if number is not None:
            kind = self.constant_kind(e, number)
            return Value(literal(number, kind), kind, number < 0, number)
        made: Value = getattr(self, f"_{e[0]}")(e)
        return made

    def constant_kind(self, e: Node, number: int) -> Node:
        if e[0] == "cast":
            return VOID_POINTER if e[1] == VOID_POINTER else e[1]
        if e[0] == "num" and "L" in e[1].upper():
            return ("int", "i64")
        if e[0] == "bin":
            sides = [self.value(e[2]).kind, self.value(e[3]).kind]
            return common(*sides) if e[1] not in ("<<", ">>") else promoted(sides[0])
        return I32 if -(2**31) <= number < 2**31 else ("int", "u32") if number < 2**32 else ("int", "i64")

    def _num(self, e: Node) -> Value:
        return Value(e[1], ("float", "f64"))

    def _str(self, e: Node) -> Value:
        return Value(f'b{e[1][:-1]}\\0".as_ptr() as *mut i8', ("ptr", ("int", "i8")), True)

    def _var(self, e: Node) -> Value:
        name = e[1]
        if name in self.variables:
            return Value(name_of(name), self.variables[name])
        if name in self.unit.globals:
            return Value(name, self.unit.globals[name])
        if name in self.unit.functions:
            result, arguments, _ = self.unit.functions[name]
            return Value(name, ("func", result, arguments))
        raise HarnessError(f"the translator doesn't know the name {name!r}")

    def _cast(self, e: Node) -> Value:
        v = self.value(e[2])
        text = self.convert(v, e[1])
        return Value(text, e[1], " as " in text or v.loose)

    def _sizeof(self, e: Node) -> Value:
        return Value(f"std::mem::size_of::<{rust_type(e[1])}>()", ("int", "usize"))

    def _index(self, e: Node) -> Value:
        base, at = self.value(e[1]), self.value(e[2])
        if base.kind[0] == "arr":
            return Value(f"{base.tight}[{self.convert(at, ('int', 'usize'))}]", base.kind[1])
        return Value(f"*{base.tight}.offset({self.convert(at, ('int', 'isize'))})", base.kind[1], True)

    def _member(self, e: Node) -> Value:
        base = self.value(e[1])
        if e[2]:
            base = Value(f"(*{base.tight})", base.kind[1])
        for kind, name in self.unit.structs[base.kind[1]]:
            if name == e[3]:
                return Value(f"{base.tight}.{name_of(name)}", kind)
        raise HarnessError(f"the translator finds no member {e[3]!r} in {base.kind!r}")

    def _un(self, e: Node) -> Value:
        op = e[1]
        if op == "!":
            test = self.test(e[2])
            return Value(f"!{test}" if re.fullmatch(r"[\w.]+(\(\))?", test) else f"!({test})", BOOL, True)
        v = self.value(e[2])
        if op == "*":
            return Value(f"*{v.tight}", v.kind[1], True)
        if op == "&":
            return Value(f"addr_of_mut!({v.text})", ("ptr", v.kind))
        kind = v.kind if v.kind[0] == "float" else promoted(v.kind)
        inner = Value(self.convert(v, kind), kind, True)
        return Value(("!" if op == "~" else op) + inner.tight, kind, True)

    def _bin(self, e: Node) -> Value:
        op = e[1]
        if op in ("&&", "||"):
            sides = [self.test(x) for x in e[2:]]
            return Value(f" {op} ".join(f"({s})" if " " in s else s for s in sides), BOOL, True)
        a, b = self.value(e[2]), self.value(e[3])
        if op in ("==", "!="):
            for one, other in ((a, b), (b, a)):
                if one.kind[0] == "ptr" and other.number == 0:
                    none = "is_none" if one.kind[1][0] == "func" else "is_null"
                    return Value(("!" if op == "!=" else "") + f"{one.tight}.{none}()", BOOL, True)
        if a.kind[0] == "ptr" and op in "+-" and b.kind[0] != "ptr":
            step = self.convert(b, ("int", "isize"))
            return Value(f"{a.tight}.offset({'-' if op == '-' else ''}({step}))", a.kind)
        if a.kind[0] == "ptr" and op == "-":
            return Value(f"{a.tight}.offset_from({b.text}) as i64", ("int", "i64"), True)
        compared = op in ("==", "!=", "<", ">", "<=", ">=")
        if op in ("<<", ">>"):
            kind = promoted(a.kind)
            right = b.text if b.number is not None else b.tight
            return Value(f"{self.operand(a, kind)} {op} {right}", kind, True)
        kind = a.kind if a.kind[0] == "ptr" else common(a.kind, b.kind)
        text = f"{self.operand(a, kind)} {op} {self.operand(b, kind)}"
        return Value(text, BOOL if compared else kind, True)

    def operand(self, v: Value, kind: Node) -> str:
        text = self.convert(v, kind)
        return text if v.number is not None or (v.kind == kind and not v.loose) else f"({text})"

    def _cond(self, e: Node) -> Value:
        a, b = self.value(e[2]), self.value(e[3])
        kind = common(a.kind, b.kind) if "ptr" not in (a.kind[0], b.kind[0]) else a.kind
        text = f"if {self.test(e[1])} {{ {self.convert(a, kind)} }} else {{ {self.convert(b, kind)} }}"
        return Value(text, kind, True)

    def _call(self, e: Node) -> Value:
        v = self.value(e[1])
        kind = v.kind[1] if v.kind[0] == "ptr" else v.kind
        called = f"({v.text}).unwrap()" if v.kind[0] == "ptr" else v.text
        given = []
        for i, argument in enumerate(e[2]):
            a = self.value(argument)
            wanted = kind[2][i][0] if i < len(kind[2]) else ("more",)
            if wanted[0] == "more":
                wanted = (
                    ("float", "f64") if a.kind[0] == "float" else promoted(a.kind) if a.kind[0] != "ptr" else a.kind
                )
            given.append(self.convert(a, wanted))
            if len(kind[2]) > i and kind[2][i][0][0] == "more":
                kind = (kind[0], kind[1], [*kind[2], kind[2][i]])
        return Value(f"{called}({', '.join(given)})", kind[1])

    def _assign(self, e: Node) -> Value:
        place = self.value(e[2])
        return Value(f"{{ {'; '.join(self.assignments(e))}; {place.text} }}", place.kind, True)

    def assignments(self, e: Node) -> list[str]:
        """One assignment, or those of a chain, the last of them first."""
        _, op, left, right = e
        place = self.value(left)
        if right[0] == "assign":
            return [*self.assignments(right), f"{place.text} = {self.convert(self.value(right[2]), place.kind)}"]
        if not op:
            return [f"{place.text} = {self.convert(self.value(right), place.kind)}"]
        whole = self.value(("bin", op, left, right))
        if whole.kind == place.kind:
            v = self.value(right)
            text = v.text if op in ("<<", ">>") else self.convert(v, place.kind)
            return [f"{place.text} {op}= {text}"]
        return [f"{place.text} = {self.convert(whole, place.kind)}"]

    def step(self, e: Node) -> str:
        place = self.value(e[2])
        if place.kind[0] == "ptr":
            return f"{place.text} = {place.tight}.offset({'-1' if e[1] == '-' else '1'})"
        return f"{place.text} {e[1]}= 1"

    def _step(self, e: Node) -> Value:
        place = self.value(e[2])
        if e[3]:
            return Value(f"{{ {self.step(e)}; {place.text} }}", place.kind, True)
        return Value(f"{{ let old = {place.text}; {self.step(e)}; old }}", place.kind, True)

    def effects(self, e: Node) -> list[str]:
        """`e` as statements."""
        if e[0] == "comma":
            return [*self.effects(e[1]), *self.effects(e[2])]
        if e[0] == "assign":
            return self.assignments(e)
        if e[0] == "step":
            return [self.step(e)]
        return [self.value(e).text]


def literal(number: int, kind: Node) -> str:
    """A number as Rust writes it for a type, cut to the type's size as C does."""
    if kind[0] == "ptr":
        return "null_mut()"
    bits = {"8": 8, "16": 16, "32": 32, "64": 64}.get(str(kind[1])[1:], 64)
    number &= (1 << bits) - 1
    if str(kind[1])[0] == "i" and number >> (bits - 1):
        number -= 1 << bits
    return hex(number) if number > 0xFFFF and bin(number).count("1") > 7 and number % 10 else str(number)


def promoted(kind: Node) -> Node:
    return I32 if kind == BOOL or (kind[0] == "int" and _RANK.get(kind[1], 9) == 0) else kind


def common(a: Node, b: Node) -> Node:
    """The type in which C computes with both."""
    if "float" in (a[0], b[0]):
        return ("float", "f64" if "f64" in (a[1:] + b[1:]) else "f32")
    a, b = promoted(a), promoted(b)
    return a if _RANK[a[1]] >= _RANK[b[1]] else b


def decayed(v: Value) -> Value:
    return Value(f"{v.tight}.as_mut_ptr()", ("ptr", v.kind[1]))
