"""The lint guard's eye: what is wrong with a file's form, by language. It is looked at in a closed sandbox."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from refactorbench.build.toolchain import Toolchain
from refactorbench.sandbox.protocol import Command, Limits, Mount, Sandbox

FLAKE8 = "F821,F822,F831,E111,E112,E113,E999,E902"
SHOWN = 10  # errors that are named
INSIDE = "/lint"
LIMITS = Limits(wall_s=20, cpu_s=20, memory_mb=1024, processes=64, file_mb=16, disk_mb=64)
# Where flake8 isn't installed, only what it calls E999 is seen: text that is no Python.
PYTHON = f"""
import sys
name = sys.argv[1]
try:
    import flake8.main.cli as cli
except ImportError:
    try:
        compile(open(name, "rb").read(), name, "exec", dont_inherit=True)
    except SyntaxError as e:
        print(f"{{name}}:{{e.lineno or 1}}:{{e.offset or 0}}: E999 {{type(e).__name__}}: {{e.msg}}")
    except ValueError as e:
        print(f"{{name}}:1:0: E902 {{e}}")
else:
    sys.exit(cli.main(["--isolated", "--select={FLAKE8}", name]))
"""
# rustc gives faults of form no code; names that it can't find have none either, and may be defined elsewhere.
RUST_FORM = re.compile(r"^error: (?!cannot find|aborting|could not|unresolved|no rules|unused|linking|crate)(.*)$")
RUST_PLACE = re.compile(r"^\s*--> [^:]*:(\d+):(\d+)")


class Linter:
    """`folder` is scratch on the host. One that can't be run finds nothing: it never stands in the way of an edit."""

    def __init__(self, sandbox: Sandbox, toolchain: Toolchain, folder: Path) -> None:
        self._sandbox, self._toolchain, self._folder = sandbox, toolchain, folder

    def errors(self, path: str, data: bytes) -> tuple[str, ...]:
        """Each fault as "LINE: what", in the file's order; () for a language that isn't known."""
        look = _LOOKS.get(PurePosixPath(path).suffix)
        return look(self, data) if look else ()

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

    def _run(self, data: bytes, name: str, *argv: str) -> str:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        (self._folder / name).write_bytes(data)
        log = self._folder.with_name("lint.log")
        mounts = (*self._toolchain.mounts, Mount(self._folder, INSIDE))
        env = {"PATH": self._toolchain.path, "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
        self._sandbox.run(Command(argv, mounts, INSIDE, env, LIMITS, log, symlinks=self._toolchain.symlinks))
        return log.read_text(errors="replace")

    def _python(self, data: bytes) -> tuple[str, ...]:
        said = self._run(data, "file.py", "/usr/bin/env", "python3", "-c", PYTHON, "file.py")
        found = re.findall(r"^file\.py:(\d+):\d+: ((?:F8|E1|E9)\d+ .*)$", said, re.M)
        return tuple(f"{line}: {what}" for line, what in found)

    def _shell(self, data: bytes) -> tuple[str, ...]:
        said = self._run(data, "file.sh", "/bin/bash", "-n", "file.sh")
        return tuple(
            f"{n}: {what}" for n, what in re.findall(r"^file\.sh: line (\d+): (.*error.*|.*EOF.*)$", said, re.M)
        )

    def _rust(self, data: bytes) -> tuple[str, ...]:
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

    def _json(self, data: bytes) -> tuple[str, ...]:
        try:
            json.loads(data)
        except json.JSONDecodeError as e:
            return (f"{e.lineno}: {e.msg}",)
        except (ValueError, RecursionError) as e:
            return (f"1: {e}",)
        return ()

    def _toml(self, data: bytes) -> tuple[str, ...]:
        try:
            tomllib.loads(data.decode())
        except (ValueError, RecursionError) as e:
            place = re.search(r"line (\d+)", str(e))
            return (f"{place[1] if place else 1}: {e}",)
        return ()


_LOOKS: dict[str, Callable[[Linter, bytes], tuple[str, ...]]] = {
    ".py": Linter._python,
    ".rs": Linter._rust,
    ".sh": Linter._shell,
    ".json": Linter._json,
    ".toml": Linter._toml,
}


def _what(error: str) -> str:
    return error.partition(": ")[2]
