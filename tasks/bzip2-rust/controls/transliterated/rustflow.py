"""Rust for C's statements and functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refactorbench.catalog.python import load_module
from refactorbench.errors import HarnessError

back = load_module(Path(__file__).with_name("rustback.py"))
Node = tuple[Any, ...]
Lines = list[str]
_ENDS = ("break", "return", "goto", "continue")


def block(lines: Lines) -> Lines:
    return ["    " + line for line in lines]


class Function(back.Expressions):  # type: ignore[name-defined]
    """One function of C, structured where C is."""

    def __init__(self, unit: Any, name: str) -> None:
        self.name = name
        self.result, self.arguments, self.body = unit.functions[name]
        self.variables: dict[str, Node]
        super().__init__(unit, {n: t for t, n in self.arguments})
        self.leave: dict[str, str] = {}  # label -> the Rust statement that goes there
        self.targets: list[str | None] = []  # what C's break means here: None is Rust's own
        self.loops = 0

    def text(self, head: str) -> str:
        saved = dict(self.variables)
        try:
            lines = self.block(self.body[1])
        except _Unstructured:
            self.variables = saved
            lines = Machine(self).lines(self.body)
        arguments = ", ".join(f"mut {back.name_of(n)}: {back.rust_type(t)}" for t, n in self.arguments)
        result = "" if self.result == ("void",) else f" -> {back.rust_type(self.result)}"
        return "\n".join([f"{head} {self.name}({arguments}){result} {{", *block(lines), "}"]) + "\n"

    def block(self, body: list[Node]) -> Lines:
        outer = dict(self.variables)
        lines: Lines = []
        at = 0
        while at < len(body):
            s = body[at]
            after = body[at + 1] if at + 1 < len(body) else ("",)
            if s[0] == "label":  # goes back to a statement, or nowhere
                lines += self.labelled(s[1], after, "continue")
                at += 2
            elif after[0] == "label" and s[0] in ("for", "do") and back.has(s, ("goto",)) and gone_to(s, after[1]):
                lines += self.labelled(after[1], s, "break")
                at += 2
            else:
                lines += self.statement(s)
                at += 1
        self.variables = outer
        return lines

    def labelled(self, label: str, s: Node, how: str) -> Lines:
        self.leave[label] = f"{how} '{label};"
        lines = self.statement(s)
        del self.leave[label]
        if how == "break":
            return [f"'{label}: {lines[0]}", *lines[1:]]
        return [f"'{label}: loop {{", *block(lines), "    break;", "}"]

    def statement(self, s: Node) -> Lines:
        made: Lines = getattr(self, f"s_{s[0]}")(s)
        return made

    def braced(self, s: Node) -> Lines:
        return block(self.block(s[1] if s[0] == "block" else [s]))

    def s_block(self, s: Node) -> Lines:
        if not s[1]:
            return []
        return ["{", *self.braced(s), "}"]

    def s_expr(self, s: Node) -> Lines:
        return [f"{line};" for line in self.effects(s[1])]

    def s_declare(self, s: Node) -> Lines:
        lines = []
        for kind, name, value in s[1]:
            given = back.zero(kind) if value is None else self.convert(self.value(value), kind)
            self.variables[name] = kind
            lines.append(f"let mut {back.name_of(name)}: {back.rust_type(kind)} = {given};")
        return lines

    def s_if(self, s: Node) -> Lines:
        _, test, then, other = s
        lines = [f"if {self.test(test)} {{", *self.braced(then)]
        if other is None:
            return [*lines, "}"]
        if other[0] == "if":
            rest = self.s_if(other)
            return [*lines, "} else " + rest[0], *rest[1:]]
        return [*lines, "} else {", *self.braced(other), "}"]

    def s_for(self, s: Node) -> Lines:
        _, start, test, step, body = s
        if step is not None and own(body, "continue"):
            raise HarnessError(f"{self.name} has a continue in a for loop, for which the translator has no shape")
        condition = "true" if test is None else self.test(test)
        self.targets.append(None)
        inside = self.braced(body) + block([f"{e};" for e in self.effects(step)] if step else [])
        self.targets.pop()
        head = "loop {" if condition == "true" else f"while {condition} {{"
        return [*([f"{e};" for e in self.effects(start)] if start else []), head, *inside, "}"]

    def s_do(self, s: Node) -> Lines:
        if own(s[1], "continue"):
            raise HarnessError(f"{self.name} has a continue in a do loop, for which the translator has no shape")
        self.targets.append(None)
        inside = self.braced(s[1])
        self.targets.pop()
        return ["loop {", *inside, f"    if !({self.test(s[2])}) {{", "        break;", "    }", "}"]

    def s_switch(self, s: Node) -> Lines:
        cases: list[tuple[list[int | None], list[Node]]] = []
        for part in s[2][1]:
            if part[0] == "case":
                if not cases or cases[-1][1]:
                    cases.append(([], []))
                cases[-1][0].append(part[1])
            else:
                cases[-1][1].append(part)
        lines = [f"match {self.value(s[1]).text} {{"]
        for values, body in cases:
            if not ends(body) and body is not cases[-1][1]:
                raise _Unstructured
            if body[-1:] == [("break",)]:
                body = body[:-1]
            if any(own(x, "break") for x in body) or back.has(body, ("case",)):
                raise _Unstructured
            pattern = "_" if None in values else " | ".join(map(str, values))
            lines += [f"    {pattern} => {{", *block(block(self.block(body))), "    }"]
        if not any(None in values for values, _ in cases):
            lines.append("    _ => {}")
        return [*lines, "}"]

    def s_return(self, s: Node) -> Lines:
        return ["return;" if s[1] is None else f"return {self.convert(self.value(s[1]), self.result)};"]

    def s_break(self, s: Node) -> Lines:
        return [(self.targets[-1] if self.targets else None) or "break;"]

    def s_continue(self, s: Node) -> Lines:
        return ["continue;"]

    def s_goto(self, s: Node) -> Lines:
        if s[1] not in self.leave:
            raise _Unstructured
        return [self.leave[s[1]]]

    def s_label(self, s: Node) -> Lines:
        raise _Unstructured

    s_case = s_label


class _Unstructured(Exception):
    """C jumps where Rust has no statement for it."""


class Machine:
    """A function as numbered pieces of which each names the next."""

    def __init__(self, function: Function) -> None:
        self.f = function
        self.pieces: list[Lines] = [[]]
        self.here = 0
        self.hoisted: Lines = []
        self.places: dict[str, int] = {}
        self.cases: list[dict[int | None, int]] = []
        self.loops: list[tuple[int, int | None]] = []  # where break and continue lead

    def lines(self, body: Node) -> Lines:
        self.f.loops = 0
        self.labels(body)
        self.lower(body)
        if self.f.result == ("void",):
            self.say("return;")
        arms: Lines = []
        for i, piece in enumerate(self.pieces):
            arms += [f"{i} => {{", *block(piece), "}"]
        return [*self.hoisted, "let mut next = 0;", "'machine: loop {", "    match next {",
                *block(block([*arms, "_ => std::process::abort(),"])), "    }", "}"]  # fmt: skip

    def labels(self, s: Any) -> None:
        if isinstance(s, tuple) and s and s[0] == "label":
            self.places[s[1]] = self.new()
            self.f.leave[s[1]] = jump(self.places[s[1]])
        elif isinstance(s, (tuple, list)):
            for x in s:
                self.labels(x)

    def new(self) -> int:
        self.pieces.append([])
        return len(self.pieces) - 1

    def say(self, *lines: str) -> None:
        self.pieces[self.here] += lines

    def go(self, to: int) -> None:
        """End this piece with a jump and go on with the next one."""
        self.say(jump(to))
        self.here = to

    def lower(self, s: Node) -> None:
        kind = s[0]
        if kind == "declare":
            for made, name, value in s[1]:
                if name in self.f.variables:
                    raise HarnessError(f"{self.f.name} declares {name} twice across jumps: adapt the translator")
                self.f.variables[name] = made
                self.hoisted.append(f"let mut {back.name_of(name)}: {back.rust_type(made)} = {back.zero(made)};")
                if value is not None:
                    self.say(*self.f.statement(("expr", ("assign", "", ("var", name), value))))
        elif kind == "label":
            self.go(self.places[s[1]])
        elif kind == "case":
            self.go(self.cases[-1][s[1]])
        elif kind in ("break", "continue"):
            self.say(jump(self.loops[-1][kind == "continue"] or 0))
            self.here = self.new()
        elif not back.has(s, ("label", "case")) and not self.escapes(s):
            self.say(*self.f.statement(s))
        else:
            getattr(self, f"_{kind}")(s)

    def escapes(self, s: Node) -> bool:
        """True when a break or continue in `s` belongs to a loop that is in pieces."""
        return bool(self.loops) and s[0] not in ("expr", "return", "goto") and (own(s, "break") or own(s, "continue"))

    def _block(self, s: Node) -> None:
        for x in s[1]:
            self.lower(x)

    def _if(self, s: Node) -> None:
        then, other, after = self.new(), self.new(), self.new()
        self.say(f"if {self.f.test(s[1])} {{", *block([jump(then)]), "}", jump(other))
        self.here = then
        self.lower(s[2])
        self.say(jump(after))
        self.here = other
        if s[3] is not None:
            self.lower(s[3])
        self.go(after)

    def _for(self, s: Node) -> None:
        _, start, test, step, body = s
        if start:
            self.lower(("expr", start))
        head, inside, then, after = self.new(), self.new(), self.new(), self.new()
        self.go(head)
        condition = "true" if test is None else self.f.test(test)
        if condition != "true":
            self.say(f"if !({condition}) {{", *block([jump(after)]), "}")
        self.go(inside)
        self.loops.append((after, then))
        self.lower(body)
        self.loops.pop()
        self.go(then)
        if step:
            self.lower(("expr", step))
        self.say(jump(head))
        self.here = after

    def _do(self, s: Node) -> None:
        head, then, after = self.new(), self.new(), self.new()
        self.go(head)
        self.loops.append((after, then))
        self.lower(s[1])
        self.loops.pop()
        self.go(then)
        self.say(f"if {self.f.test(s[2])} {{", *block([jump(head)]), "}")
        self.go(after)

    def _switch(self, s: Node) -> None:
        after = self.new()
        cases = {value: self.new() for value in case_values(s[2])}
        arms = [f"{value} => {{ {jump(at)} }}" for value, at in cases.items() if value is not None]
        self.say(
            f"match {self.f.value(s[1]).text} {{", *block([*arms, f"_ => {{ {jump(cases.get(None, after))} }}"]), "}"
        )
        self.here = self.new()
        self.cases.append(cases)
        self.loops.append((after, self.loops[-1][1] if self.loops else None))
        self.lower(s[2])
        self.loops.pop()
        self.cases.pop()
        self.go(after)


def jump(to: int) -> str:
    return f"next = {to}; continue 'machine;"


def own(s: Any, kind: str) -> bool:
    """True when `s` holds a break or continue that belongs to what surrounds `s`."""
    if isinstance(s, list):
        return any(own(x, kind) for x in s)
    if not isinstance(s, tuple) or not s:
        return False
    if s[0] == kind:
        return True
    if s[0] in ("for", "do") or (s[0] == "switch" and kind == "break"):
        return False
    return s[0] in ("block", "if", "switch") and any(own(x, kind) for x in s[1:])


def gone_to(s: Any, label: str) -> bool:
    if isinstance(s, tuple) and s[:2] == ("goto", label):
        return True
    return isinstance(s, (tuple, list)) and any(gone_to(x, label) for x in s)


def ends(body: list[Node]) -> bool:
    """True when nothing runs past the end of `body`."""
    last = body[-1] if body else ("",)
    if last[0] == "block":
        return ends(last[1])
    if last[0] == "if":
        return last[3] is not None and ends([last[2]]) and ends([last[3]])
    return last[0] in _ENDS


def case_values(s: Any) -> list[int | None]:
    if isinstance(s, tuple) and s and s[0] == "case":
        return [s[1]]
    if isinstance(s, (tuple, list)):
        return [v for x in s for v in case_values(x)]
    return []
