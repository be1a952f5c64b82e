"""Reproducers run with nothing but a shell and coreutils, on small products that behave and that don't."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from refactorbench.observe.model import INPUT_MTIME, NOW, Check, InputFile, Observation, OutputFile
from refactorbench.verification.model import Counterexample
from refactorbench.verification.reproducer import listing, quote, write
from verification.products import seen

COREUTILS = (
    *("cat", "chmod", "cp", "date", "dirname", "env", "head", "ln", "mkdir", "mkfifo", "mktemp", "readlink", "rm"),
    *("sha256sum", "sort", "stat", "touch"),
)

# prints its name, arguments and the variable V, upper-cases stdin, writes out.txt, renames a.txt; -s kills it
TOOL = r"""#!/bin/sh
case " $* " in *" -s "*) kill -TERM $$;; esac
printf '%s|' "${0##*/}" "$V" "$@"
tr a-z A-Z
echo 'a note' >&2
echo made > out.txt
[ -e a.txt ] && mv a.txt b.txt
exit @STATUS@
"""


def tree(top: Path, status: int = 3, change: tuple[str, str] = ("-", "-")) -> Path:
    tool = top / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text(TOOL.replace("@STATUS@", str(status)).replace(*change))
    tool.chmod(0o755)
    return top


# the script that stands for a product needs tr, mv and cat itself
PRODUCT_ENV = {b"LC_ALL": b"C", b"PATH": os.environ["PATH"].encode()}
CHECK = Check("c", "m", "process", "bin/tool", (b"tool", b"-k"), b"text\n", (InputFile(b"a.txt", b"\x00data", 0o600),))
MADE = OutputFile(b"out.txt", "file", 0o644, NOW, b"made\n")
MOVED = OutputFile(b"b.txt", "file", 0o600, INPUT_MTIME, b"\x00data")
EXPECTED = seen(b"tool||-k|TEXT\n", 3, b"a note\n")
EXPECTED = msgspec.structs.replace(EXPECTED, files=(MOVED, MADE))


def found(check: Check = CHECK, expected: Observation = EXPECTED) -> Counterexample:
    return Counterexample(
        "v1-abc", "v1", "d1", "stdout:changed", "stdout differs", check, check, 5, 50, expected, seen(b"?"), 7
    )


def run(script: Path, product: Path, tmp_path: Path, shell: str = "sh") -> tuple[int, str]:
    tools = tmp_path / "coreutils"
    if not tools.exists():
        tools.mkdir()
        for name in COREUTILS:
            where = shutil.which(name)
            assert where
            (tools / name).symlink_to(where)
    interpreter = shutil.which(shell)
    assert interpreter
    env = {"PATH": str(tools), "TMPDIR": str(tmp_path)}
    done = subprocess.run([interpreter, script, product], capture_output=True, env=env, cwd=tmp_path, check=False)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


@pytest.fixture(params=["sh", "bash"])
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_reference_behaves_as_recorded_and_the_submission_differs(tmp_path: Path, shell: str) -> None:
    script = write(found(), tmp_path / "r", PRODUCT_ENV)
    status, said = run(script, tree(tmp_path / "good"), tmp_path, shell)
    assert (status, "RESULT: behaves as the reference" in said) == (0, True), said
    changes = [
        (4, ("-", "-"), "exit status"),
        (3, ("tr a-z A-Z", "cat"), "stdout"),
        (3, ("a note", "another"), "stderr"),
        (3, ("echo made > out.txt", "echo made > out.txt; echo > extra"), "files afterwards"),
        (3, ("echo made > out.txt", ":"), "files afterwards"),
        (3, ("echo made > out.txt", "echo made > out.txt; chmod 600 out.txt"), "files afterwards"),
        (3, ("mv a.txt b.txt", "cp a.txt b.txt"), "files afterwards"),
        (3, ("mv a.txt b.txt", "mv a.txt b.txt && touch b.txt"), "files afterwards"),
    ]
    for i, (code, change, what) in enumerate(changes):
        status, said = run(script, tree(tmp_path / f"bad{i}", code, change), tmp_path, shell)
        assert (status, f"--- {what}: this product gives" in said) == (1, True), said
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("tmp.")) == []


def test_every_byte_an_argument_can_hold_arrives(tmp_path: Path, shell: str) -> None:
    odd = bytes(range(1, 256))
    check = msgspec.structs.replace(
        CHECK, argv=(b"tool", odd, b"", b"a b", b"\n\n", b"'\"$`\\", b"-n"), env=((b"V", odd),), files=()
    )
    out = b"tool|" + odd + b"|" + b"|".join([*check.argv[1:], b""]) + b"TEXT\n"
    expected = msgspec.structs.replace(EXPECTED, stdout=out, files=(MADE,))
    status, said = run(
        write(found(check, expected), tmp_path / "r", PRODUCT_ENV), tree(tmp_path / "p"), tmp_path, shell
    )
    assert status == 0, said


def test_files_of_every_kind_are_laid_and_listed(tmp_path: Path, shell: str) -> None:
    files = (
        InputFile(b"d", kind="dir", mode=0o750),
        InputFile(b"d/in side", b"1", 0o640, mtime=5_000_000_001),
        InputFile(b"early", b"2", mtime=-5_500_000_000),
        InputFile(b"late", b"3", mtime=2_100_000_000_000_000_001),
        InputFile(b"d/l", kind="link", target=b"../nowhere"),
        InputFile(b"hard", target=b"d/in side"),
        InputFile(b"p", kind="fifo", mode=0o622),
        InputFile(b".hidden", b"", 0o444),
        InputFile(b"..odd\nname\xff", b"x"),
        InputFile(b"-dash", b"y", 0o200),
    )
    out = [
        OutputFile(b"d", "dir", 0o750, 0),
        OutputFile(b"d/in side", "file", 0o640, 5_000_000_001, b"1"),
        OutputFile(b"early", "file", 0o644, -5_500_000_000, b"2"),
        OutputFile(b"late", "file", 0o644, 2_100_000_000_000_000_001, b"3"),
        OutputFile(b"d/l", "link", 0o777, 0, target=b"../nowhere"),
        OutputFile(b"hard", "file", 0o640, 5_000_000_001, b"1"),
        OutputFile(b"p", "fifo", 0o622, 0),
        OutputFile(b".hidden", "file", 0o444, INPUT_MTIME),
        OutputFile(b"..odd\nname\xff", "file", 0o644, INPUT_MTIME, b"x"),
        OutputFile(b"-dash", "file", 0o200, INPUT_MTIME, b"y"),
        MADE,
    ]
    expected = msgspec.structs.replace(EXPECTED, files=tuple(sorted(out, key=lambda f: f.path)))
    check = msgspec.structs.replace(CHECK, files=files)
    status, said = run(
        write(found(check, expected), tmp_path / "r", PRODUCT_ENV), tree(tmp_path / "p"), tmp_path, shell
    )
    assert status == 0, said
    less = msgspec.structs.replace(expected, files=expected.files[1:])
    status, _ = run(write(found(check, less), tmp_path / "r2", PRODUCT_ENV), tree(tmp_path / "p2"), tmp_path, shell)
    assert status == 1


@pytest.mark.parametrize(
    ("more", "stdout", "stderr", "code"),
    [
        ({"stdin": b""}, b"tool||-k|", b"a note\n", 3),
        ({"stdin_kind": "file"}, b"tool||-k|TEXT\n", b"a note\n", 3),
        ({"argv": (b"tool", b"-s")}, b"", b"", -15),
        ({"argv": (b"folder/other",)}, b"other||TEXT\n", b"a note\n", 3),
        ({"argv": (b"a=b",)}, b"tool||TEXT\n", b"a note\n", 3),
        ({"argv": ()}, b"tool||TEXT\n", b"a note\n", 3),
    ],
)
def test_ways_of_being_called(tmp_path: Path, more: dict[str, object], stdout: bytes, stderr: bytes, code: int) -> None:
    expected = seen(stdout, code, stderr)
    files = (MADE,) if code > 0 else ()
    expected = msgspec.structs.replace(expected, files=files)
    if code < 0:
        expected = msgspec.structs.replace(expected, ended="signal", code=-code)
    check = msgspec.structs.replace(CHECK, files=(), **more)
    status, said = run(write(found(check, expected), tmp_path / "r", PRODUCT_ENV), tree(tmp_path / "p"), tmp_path)
    assert status == 0, said


@pytest.mark.parametrize("kind", ["full", "closed"])
def test_stdout_that_takes_nothing(tmp_path: Path, kind: str) -> None:
    tool = tree(tmp_path / "p") / "bin/tool"
    tool.write_text("#!/bin/sh\necho x 2>/dev/null && exit 0\nexit 9\n")
    for stdout in (kind, "pipe"):
        check = msgspec.structs.replace(CHECK, files=(), stdout=stdout)
        expected = seen(b"", 9)
        script = write(found(check, expected), tmp_path / f"r{stdout}", PRODUCT_ENV)
        status, said = run(script, tmp_path / "p", tmp_path)
        assert status == (1 if stdout == "pipe" else 0), said


def test_what_cannot_run_ends_with_2(tmp_path: Path) -> None:
    script = write(found(), tmp_path / "r", PRODUCT_ENV)
    assert run(script, tmp_path / "nowhere", tmp_path)[0] == 2
    (tmp_path / "empty").mkdir()
    status, said = run(script, tmp_path / "empty", tmp_path)
    assert (status, "has no program bin/tool" in said) == (2, True)
    question = msgspec.structs.replace(CHECK, observer="tree", argv=(b"mode", b"bin/tool"))
    assert run(write(found(question), tmp_path / "t"), tree(tmp_path / "p"), tmp_path)[0] == 2


def test_the_readme_says_what_was_found(tmp_path: Path) -> None:
    check = msgspec.structs.replace(CHECK, rules=("mtime-any",))
    write(found(check), tmp_path / "r")
    text = (tmp_path / "r/README").read_text()
    for words in ("v1-abc", "stdout:changed", "5 bytes of input, from 50", "mtime-any"):
        assert words in text


def test_quoting_is_one_word() -> None:
    assert quote(b"it's") == b"'it'\\''s'"
    assert listing(seen()) == b""
