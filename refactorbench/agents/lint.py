"""The lint guard's eye: what is wrong with a file's form, by language. It is looked at in a closed sandbox."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from refactorbench.build.toolchain import Toolchain
from refactorbench.errors import ToolMissing
from refactorbench.sandbox.protocol import Command, Limits, Mount, Sandbox

FLAKE8 = "F821,F822,F831,E111,E112,E113,E999,E902"  # the published list
PACKAGES = ("flake8", "mccabe", "pycodestyle", "pyflakes")
SHOWN = 10  # errors that are named
MOST_SAID = 1 << 20  # characters of a linter's output that are read
INSIDE, TOOLS = "/lint", "/lint-tools"
LIMITS = Limits(wall_s=60, cpu_s=20, memory_mb=1024, processes=64, file_mb=16, disk_mb=64)
# rustc gives faults of form no code; names that it can't find have none either, and may be defined elsewhere.
RUST_FORM = re.compile(r"^error: (?!cannot find|aborting|could not|unresolved|no rules|unused|linking|crate)(.*)$")
RUST_PLACE = re.compile(r"^\s*--> [^:]*:(\d+):(\d+)")
# A header or a type may be made by a build that hasn't run: only what is wrong whatever they hold is a fault of form.
C_ERROR = re.compile(r"^file\.\w+:(\d+):(?:\d+:)? error: (.*)$", re.M)
C_FORM = re.compile(
    r"expected |stray |missing terminating|unterminated |empty character|#\w+ without|extraneous |unmatched "
)
C_UNKNOWN = re.compile(r"unknown type name|undeclared|not declared|does not name a type|has not been declared")
C_KINDS = {".c": "c", ".h": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".hh": "c++", ".hpp": "c++"}


class Linter:
    """`folder` is scratch on the host; `around` is seen read-only beside the file, for what it includes. A linter that
    can't be run, or isn't there, finds nothing: it never stands in the way of an edit."""

    def __init__(
        self, sandbox: Sandbox, toolchain: Toolchain, folder: Path, around: tuple[Mount, ...] = ()
    ) -> None:
        self._sandbox, self._toolchain, self._folder, self._around = sandbox, toolchain, folder, around

    def errors(self, path: str, data: bytes) -> tuple[str, ...]:
        """Each fault as "LINE: what", in the file's order; () for a language that isn't known."""
        look = _LOOKS.get(PurePosixPath(path).suffix)
        return look(self, path, data) if look else ()

    def new_errors(self, path: str, before: bytes, after: bytes) -> tuple[str, ...]:
        """Faults that `before` doesn't have, line numbers aside."""
        had = Counter(_what(e) for e in self.errors(path, before)) if before else Counter()
        found = []
        for error in self.errors(path, after):
            if had[_what(error)] > 0:
                had[_what(error)] -= 1
            else:
                found.append(error)
        return tuple(found)

    def _run(self, data: bytes, name: str, *argv: str, mounts: tuple[Mount, ...] = ()) -> str:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        (self._folder / name).write_bytes(data)
        log = self._folder.with_name("lint.log")
        seen = (*self._toolchain.mounts, Mount(self._folder, INSIDE), *mounts)
        env = {"PATH": self._toolchain.path, "HOME": "/tmp", "LC_ALL": "C.UTF-8", "PYTHONPATH": TOOLS}
        self._sandbox.run(Command(argv, seen, INSIDE, env, LIMITS, log, symlinks=self._toolchain.symlinks))
        with log.open(errors="replace") as f:
            return f.read(MOST_SAID)

    def _python(self, path: str, data: bytes) -> tuple[str, ...]:
        if b"\0" in data:  # some versions of Python end flake8 itself
            return (f"{data[: data.index(0)].count(10) + 1}: E902 source code can't hold NUL bytes",)
        said = self._run(
            data, "file.py", "/usr/bin/env", "python3", "-m", "flake8", "--isolated", f"--select={FLAKE8}", "--jobs=1",
            "file.py", mounts=_packages(),
        )  # fmt: skip
        found = re.findall(r"^file\.py:(\d+):\d+: ((?:F8|E1|E9)\d+ .*)$", said, re.M)
        return tuple(f"{line}: {what}" for line, what in found)

    def _c(self, path: str, data: bytes) -> tuple[str, ...]:
        pure = PurePosixPath(path)
        kind, name = C_KINDS[pure.suffix], f"file{pure.suffix}"
        said = self._run(
            data, name, "/usr/bin/env", "gcc" if kind == "c" else "g++", "-fsyntax-only", "-w", "-fmax-errors=200",
            "-fno-diagnostics-show-caret", "-x", kind, *(f"-I{place}" for place in _above(pure)), name,
            mounts=self._around,
        )  # fmt: skip
        errors = C_ERROR.findall(said)
        unknown = {line for line, what in errors if C_UNKNOWN.search(what)}  # may be what the others there follow from
        return tuple(f"{line}: {what}" for line, what in errors if C_FORM.match(what) and line not in unknown)

    def _shell(self, path: str, data: bytes) -> tuple[str, ...]:
        said = self._run(data, "file.sh", "/bin/bash", "-n", "file.sh")
        return tuple(
            f"{n}: {what}" for n, what in re.findall(r"^file\.sh: line (\d+): (.*error.*|.*EOF.*)$", said, re.M)
        )

    def _rust(self, path: str, data: bytes) -> tuple[str, ...]:
        said = self._run(
            data, "file.rs", "/usr/bin/env", "rustc", "--edition", "2021", "--crate-type", "lib", "--emit", "metadata",
            "-o", "/tmp/out", "file.rs",
        ).splitlines()  # fmt: skip
        found = []
        for n, text in enumerate(said):
            what = RUST_FORM.match(text)
            place = RUST_PLACE.match(said[n + 1]) if what and n + 1 < len(said) else None
            if what and place:
                found.append(f"{place[1]}: {what[1]}")
        return tuple(found)

    def _json(self, path: str, data: bytes) -> tuple[str, ...]:
        try:
            json.loads(data)
        except json.JSONDecodeError as e:
            return (f"{e.lineno}: {e.msg}",)
        except (ValueError, RecursionError) as e:
            return (f"1: {e}",)
        return ()

    def _toml(self, path: str, data: bytes) -> tuple[str, ...]:
        try:
            tomllib.loads(data.decode())
        except (ValueError, RecursionError) as e:
            place = re.search(r"line (\d+)", str(e))
            return (f"{place[1] if place else 1}: {e}",)
        return ()


_LOOKS: dict[str, Callable[[Linter, str, bytes], tuple[str, ...]]] = {
    **dict.fromkeys(C_KINDS, Linter._c),
    ".py": Linter._python,
    ".rs": Linter._rust,
    ".sh": Linter._shell,
    ".json": Linter._json,
    ".toml": Linter._toml,
}


def _above(path: PurePosixPath) -> list[str]:
    """The file's folder and those above it, each with what it keeps headers in."""
    return [str(place) for folder in path.parents if str(folder) != "/" for place in (folder, folder / "include")]


@functools.cache
def _packages() -> tuple[Mount, ...]:
    """flake8 as this program has it, its plugins' names included; the sandbox's own Python runs it."""
    found = {}
    for name in PACKAGES:
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise ToolMissing(
                f"the lint guard needs the Python package '{name}', and it is not there: install refactorbench's own, "
                "or leave the guard out with --set lint=off"
            ) from None
        for top in {f.parts[0] for f in package.files or ()} - {"..", "__pycache__"}:
            found[top] = Mount(Path(str(package.locate_file(top))), f"{TOOLS}/{top}")
    return tuple(found[top] for top in sorted(found))


def _what(error: str) -> str:
    return error.partition(": ")[2]
