"""Scripted agents that carry the toy task over, with the detours that a model takes."""

from __future__ import annotations

import json
from typing import Any

from e2e.toy import HERE

SOLUTION = HERE / "solution"
MAIN = (SOLUTION / "src" / "main.rs").read_text()
MANIFEST, LOCK = (SOLUTION / "Cargo.toml").read_text(), (SOLUTION / "Cargo.lock").read_text()
BUILD = "cargo build --release --offline"
CASES = ({"args": ["turn"], "stdin": "abc xyz\n"}, {"args": ["count", "f"], "files": {"f": "x y z"}}, {"args": ["sum"]})
TREE = "/build/tree"


def line(say: str, *calls: tuple[str, dict[str, Any]]) -> str:
    usage = {"input": 100, "output": 20}
    return json.dumps({"say": say, "calls": [{"name": n, "input": i} for n, i in calls], "usage": usage}) + "\n"


def bash(command: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command, **more}


def edit(command: str, path: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "edit", {"command": command, "path": f"{TREE}/{path}", **more}


def thin() -> str:
    """A first port with a wrong byte, found by selfcheck; an edit that fails; a turn that ends in the middle of a thought."""
    wrong = MAIN.replace("byte + 13", "byte + 12")
    return "".join(
        (
            line("I look around.", bash("ls; id -u"), edit("view", "tally.c")),
            line("", bash("printf 'a b\\nc' | /build/reference/bin/tally count; export NOTE=kept")),
            line("Now I would write it in Rust."),
            line("", edit("create", "Cargo.toml", file_text=MANIFEST), edit("create", "Cargo.lock", file_text=LOCK)),
            line("", edit("create", "src/main.rs", file_text=wrong), ("selfcheck", {"cases": CASES})),
            line("", bash(f"rm tally.c tally.h Makefile; {BUILD}", timeout_s=300)),
            line("", ("selfcheck", {"cases": CASES})),
            line("", edit("str_replace", "src/main.rs", old_str="byte + 11,", new_str="byte + 13,")),
            line("", edit("str_replace", "src/main.rs", old_str="byte + 12,", new_str="byte + 13,")),
            line("", bash(f"{BUILD}; echo $NOTE", timeout_s=300), ("selfcheck", {"cases": CASES})),
            line("", ("time_left", {}), ("submit", {"summary": "moved"})),
        )
    )


def block(command: str, say: str = "I go on.") -> str:
    return line(f"{say}\n```\n{command}\n```")


def aci() -> str:
    """The same in a window: a malformed reply, an edit that the guard rolls back, a search."""
    cases = "".join(json.dumps(c) + "\n" for c in CASES)
    return "".join(
        (
            block("open tally.c"),
            line("I forgot the command."),
            block("search_dir usage"),
            block("create Cargo.toml"),
            block(f"edit 1:1\n{MANIFEST}end_of_edit"),
            block("create Cargo.lock"),
            block(f"edit 1:1\n{LOCK}end_of_edit"),
            block("create src/main.rs"),
            block("edit 1:1\nfn main() {\n    usage(;\n}\nend_of_edit"),
            block(f"edit 1:1\n{MAIN}end_of_edit"),
            block(f"run rm tally.c tally.h Makefile\n{BUILD}"),
            block(f"cat > /tmp/cases <<'END'\n{cases}END"),
            block("selfcheck /tmp/cases"),
            block("submit"),
        )
    )
