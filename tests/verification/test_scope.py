from __future__ import annotations

from pathlib import Path

import pytest

from refactorbench.errors import TaskError
from refactorbench.observe.model import Check, InputFile
from refactorbench.verification.scope import Rules, identifies_tree, load, load_module
from verification.products import check, plan

TELLING = {
    "absolute": check(b"", b"/product/bin/upper"),
    "double slash": check(b"", b"//product//bin/upper"),
    "from the root of another": check(b"", b"/tmp/../product"),
    "relative": check(b"", b"../product/lib/libx.so"),
    "deep relative": check(b"", b"a/b/../../../product/bin"),
    "own image": check(b"", b"/proc/self/exe"),
    "glued to an option": check(b"", b"-f/proc/self/maps"),
    "behind an equals sign": check(b"", b"--input=/proc/1/environ"),
    "glued and relative": check(b"", b"-I../product"),
    "descriptor": check(b"", b"/dev/fd/3"),
    "in a variable": check(b"", env=((b"BZIP", b"/proc/self/exe"),)),
    "loader": check(b"", env=((b"LD_DEBUG", b"all"),)),
    "allocator": check(b"", env=((b"MALLOC_CHECK_", b"3"),)),
    "target run-time": check(b"", env=((b"RUST_BACKTRACE", b"1"),)),
    "through a link": check(b"", b"l", files=(InputFile(b"l", kind="link", target=b"../product/bin/upper"),)),
    "through a link in a folder": check(b"", files=(InputFile(b"d/l", kind="link", target=b"../../proc/self/exe"),)),
    "long option glued": check(b"", b"--/proc/self/exe"),
    "response file": check(b"", b"@/proc/self/cmdline"),
    "the root, to be walked": check(b"", b"-r", b"/"),
    "the root, by dots": check(b"", b".."),
    "a link to the root": check(b"", b"l/product/bin", files=(InputFile(b"l", kind="link", target=b".."),)),
    "by a list on stdin": check(b"a.txt\n/product/bin/upper\n"),
    "by a list in a file": check(b"", files=(InputFile(b"list", b"/proc/self/exe"),)),
}
HONEST = {
    "plain": check(b"text", b"-k", b"a.txt"),
    "a name like it": check(b"", b"product", b"./product/x", b"/work/product", b"/products", b"/process"),
    "climbs and comes back": check(b"", b"../work/a", b"../../etc", b"a..b", b"..."),
    "standard input": check(b"", b"/dev/stdin", b"/dev/null"),
    "a link inside": check(b"", files=(InputFile(b"d/l", kind="link", target=b"../proc/x"),)),
    "binary": check(bytes(range(256)) * 4),
    "prose": check(b"either/or; the /product line, http://x/product"),
    "variable": check(b"", env=((b"BZIP2", b"-v"), (b"GOOD", b"1"))),
}


@pytest.mark.parametrize("name", TELLING)
def test_inputs_that_could_tell_the_tree_are_named(name: str) -> None:
    assert identifies_tree(TELLING[name])


@pytest.mark.parametrize("name", HONEST)
def test_other_inputs_are_not(name: str) -> None:
    assert identifies_tree(HONEST[name]) == ""


def test_the_first_rule_that_denies_is_named() -> None:
    rules = Rules({"long": lambda c: len(c.stdin) > 3, "z": lambda c: b"z" in c.stdin})
    assert [rules.denied(check(s)) for s in (b"abc", b"z", b"abcz")] == ["", "z", "long"]


def test_a_rule_that_fails_is_the_tasks_fault() -> None:
    def bad(c: Check) -> bool:
        return bool(c.files[0])

    with pytest.raises(TaskError, match="deny rule 'first'"):
        Rules({"first": bad}).denied(check())


GOOD = "STRATEGIES = {'text': 1, 'flags': 2}\nDENY = {'huge': lambda c: len(c.stdin) > 9}\n"


def test_load_gives_the_named_strategy_or_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(GOOD)
    p = plan(module=str(tmp_path / "t.py"), deny=("huge",))
    rules, named = load(p)
    assert named == [("text", 1)]
    assert rules.denied(check(bytes(10))) == "huge"
    assert [n for n, _ in load(plan(module=p.module, strategy=""))[1]] == ["flags", "text"]
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        (GOOD, {"strategy": "texts"}, "did you mean 'text'"),
        (GOOD, {"deny": ("hug",)}, "did you mean 'huge'"),
        ("STRATEGIES = {'text': 1}", {}, "no dict DENY"),
        ("STRATEGIES = {}\nDENY = {}", {"strategy": ""}, "no strategies"),
        ("1/0", {}, "ZeroDivisionError"),
        ("def", {}, "can't be read"),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, text: str, more: dict[str, object], words: str) -> None:
    (tmp_path / "t.py").write_text(text)
    with pytest.raises(TaskError, match=words):
        load(plan(module=str(tmp_path / "t.py"), **more))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="gone"):
        load_module(tmp_path / "gone.py")
