"""What an agent can ask about its own work: State A and the work tree as last built, on inputs of its own making.

Both sides run as the recorded checks do, in the same executor and under the same limits; nothing of the recording is
looked at. The work tree isn't built here: what its recipe would deliver is taken from where the agent's build left it.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from refactorbench.agents.act import Act
from refactorbench.agents.confined import Box, Refused
from refactorbench.build.artefact import EXECUTABLE_FOLDERS
from refactorbench.catalog.models import Task
from refactorbench.errors import HarnessError
from refactorbench.observe.compare import differences
from refactorbench.observe.executor import Executor
from refactorbench.observe.explain import explain_all
from refactorbench.observe.model import Check, InputFile
from refactorbench.observe.spec import worker_spec
from refactorbench.sandbox.protocol import Sandbox

MOST_CASES = 500
EXAMPLE = '{"args": ["-c"], "stdin": "abc\\n"}'
LARGEST_OUTPUT = 1 << 30  # bytes of one file that the build delivers
LONGEST_NAME, LONGEST_PATH = 255, 2000  # bytes
LONGEST_ARGUMENT, LONGEST_ARGUMENTS = 128 << 10, 1 << 20  # bytes of one, and of all with what the system adds
EXPLAINED = 10  # differing cases that are explained; the others are named


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input for both programs."""

    args: Annotated[tuple[str, ...], msgspec.Meta(description="arguments after the program's name")] = ()
    stdin: Annotated[str, msgspec.Meta(description="text for standard input")] = ""
    stdin_base64: Annotated[str, msgspec.Meta(description="standard input as base64, instead of stdin")] = ""
    files: Annotated[dict[str, str], msgspec.Meta(description="files in the working directory: name -> text")] = {}
    files_base64: Annotated[dict[str, str], msgspec.Meta(description="the same with base64 contents")] = {}
    program: Annotated[str, msgspec.Meta(description="product path; default: the task's first program")] = ""


def _said(name: bytes) -> str:
    return repr(name.decode(errors="replace")[:100])


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


class SelfCheck:
    """`tree` is the work tree's path in `box`; `reference` State A's product on the host; `folder` for scratch."""

    def __init__(self, task: Task, sandbox: Sandbox, box: Box, tree: str, reference: Path, folder: Path) -> None:
        self._task, self._sandbox, self._box, self._tree = task, sandbox, box, tree
        self._reference, self._folder = reference, folder

    @property
    def programs(self) -> tuple[str, ...]:
        """Product paths of what can be run."""
        found = [p for p in self._task.target.outputs if (self._reference / p).is_file()]
        return tuple(p for p in found if (self._reference / p).stat().st_mode & 0o100)

    def load(self, path: str) -> tuple[Case, ...]:
        """Cases of a file with one JSON object a line."""
        cases = []
        for number, line in enumerate(self._box.read(path).splitlines(), 1):
            if line.strip():
                try:
                    cases.append(msgspec.json.decode(line, type=Case))
                except msgspec.MsgspecError as e:
                    raise Refused(f"{path}:{number} is no case: {e}. One JSON object a line, e.g. {EXAMPLE}") from None
        return tuple(cases)

    def run(self, cases: Sequence[Case], limit_s: float, now: Callable[[], float]) -> Act:
        return Act(self.compare(cases, limit_s, now)[0])

    def compare(self, cases: Sequence[Case], limit_s: float, now: Callable[[], float]) -> tuple[str, int]:
        """Put every case to both sides, until `limit_s` has passed; return (where they differ, in how many cases).
        Refused when a case can't be run or the work tree isn't built."""
        if not cases:
            raise Refused(f"no case was given. Give cases, or cases_file; one is, for example, {EXAMPLE}")
        if len(cases) > MOST_CASES:
            raise Refused(f"{len(cases)} cases are more than {MOST_CASES} at once: give them in several calls.")
        checks = [self._check(n, case) for n, case in enumerate(cases, 1)]
        product = self._collect()
        deadline, told, differing, done = now() + limit_s, [], [], 0
        try:
            with self._side(self._reference) as theirs, self._side(product) as ours:
                for n, check in enumerate(checks, 1):
                    if now() > deadline:
                        break
                    try:
                        found = differences(theirs.observe(check), ours.observe(check), check.rules)
                    except HarnessError as e:
                        raise Refused(f"case {n} can't be put to both sides now ({e}). Leave it out.") from None
                    done += 1
                    if found:
                        differing.append(str(n))
                        if len(differing) <= EXPLAINED:
                            told.append(f"case {n} {list(cases[n - 1].args)}: {explain_all(found)}")
        finally:
            shutil.rmtree(product, ignore_errors=True)
        head = f"{done} cases: {done - len(differing)} equal, {len(differing)} different"
        if done < len(cases):
            head += f"; time was up before the other {len(cases) - done}, give fewer"
        if len(differing) > EXPLAINED:
            told.append(f"also different: cases {', '.join(differing[EXPLAINED:])}")
        return "\n".join([head + " (expected: State A; got: the work tree).", *told]), len(differing)

    def _side(self, product: Path) -> Executor:
        return Executor(self._sandbox, worker_spec(self._task, product))

    def _check(self, number: int, case: Case) -> Check:
        programs = self.programs
        program = case.program or (programs[0] if programs else "")
        if program not in programs:
            known = ", ".join(programs) or "none: this task delivers nothing that is run"
            raise Refused(f"case {number}: '{program}' is no program of this task. Programs are {known}.")
        try:
            stdin = base64.b64decode(case.stdin_base64, validate=True) or _bytes(case.stdin)
            contents = {n: _bytes(t) for n, t in case.files.items()}
            contents |= {n: base64.b64decode(t, validate=True) for n, t in case.files_base64.items()}
            files = tuple(InputFile(_bytes(name), data) for name, data in sorted(contents.items()))
            argv = (_bytes(program.rsplit("/", 1)[-1]), *map(_bytes, case.args))
        except ValueError as e:
            raise Refused(f"case {number} holds something that is no base64 or no text: {e}.") from None
        names = {f.path for f in files}
        for name in names:
            parts = name.split(b"/")
            if b"\0" in name or not {b"", b".", b".."}.isdisjoint(parts):
                raise Refused(f"case {number}: file name {_said(name)} must be relative, without . and .. parts.")
            if len(name) > LONGEST_PATH or max(map(len, parts)) > LONGEST_NAME:
                raise Refused(f"case {number}: file name {_said(name)} is longer than a file's name may be.")
            if any(b"/".join(parts[:n]) in names for n in range(1, len(parts))):
                raise Refused(f"case {number}: {_said(name)} lies below another file of the case.")
        if any(b"\0" in word for word in argv):
            raise Refused(f"case {number}: an argument can't hold a NUL character.")
        if sum(len(word) + 9 for word in argv) > LONGEST_ARGUMENTS or max(map(len, argv)) >= LONGEST_ARGUMENT:
            raise Refused(f"case {number}: its arguments are longer than a program can be given.")
        return Check(f"case/{number}", "case", "process", program, argv, stdin, files)

    def _collect(self) -> Path:
        """The work tree's outputs as a product. Refused names what isn't built."""
        product = self._folder / "product"
        shutil.rmtree(product, ignore_errors=True)
        recipe = self._task.target
        missing = []
        for target, source in recipe.outputs.items():
            place = product / target
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._box.copy(f"{self._tree}/{source}", place, LARGEST_OUTPUT)
            except Refused:
                missing.append(source)
                continue
            place.chmod(0o755 if target.split("/")[0] in EXECUTABLE_FOLDERS else 0o644)
        if missing:
            shutil.rmtree(product, ignore_errors=True)
            raise Refused(
                f"{self._tree} holds no {', '.join(missing)}: build first, as the instruction says, and leave the "
                "results where they fall; then call this again."
            )
        return product
