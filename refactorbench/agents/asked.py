"""selfcheck for agents that run by themselves in the sandbox: a command there, answered by the host.

The command lays its cases into a folder that both sides see and waits for the answer beside them. The host reads and
writes there as it does in the agent's tree: through descriptors that no link leads away from.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from refactorbench.agents.confined import Box, Refused
from refactorbench.agents.selfcheck import EXAMPLE, MOST_CASES, SelfCheck
from refactorbench.errors import HarnessError

BIN, ASK = "/build/bin", "/build/ask"
PAUSE_S = 0.2  # between two looks
LONGEST_S = 3600.0  # of one answer
QUESTION = re.compile(r"([A-Za-z0-9]+)\.cases")
COMMAND = f"""#!/bin/sh
# Runs State A's program and the work tree's on the cases in a file and shows where they differ.
if [ $# -ne 1 ] || [ ! -r "$1" ]; then
  echo 'usage: selfcheck FILE
One case a line, at most {MOST_CASES}, for example {EXAMPLE}; files are given as name -> text.
Build first: the results are taken from where the build leaves them in /build/tree.
Status 0: no difference; 1: differences; 2: nothing was compared.' >&2
  exit 2
fi
me=$(mktemp {ASK}/XXXXXXXX) || exit 2
trap 'rm -f "$me" "$me".*' EXIT
trap 'exit 130' INT TERM HUP
cat -- "$1" > "$me.part" && mv -- "$me.part" "$me.cases" || exit 2
until [ -e "$me.answer" ]; do sleep {PAUSE_S}; done
cat -- "$me.answer"
exit "$(cat -- "$me.status")"
"""


def lay_out(folder: Path) -> None:
    """Write the command to folder/bin and make folder/ask, which it asks by."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "ask").mkdir(exist_ok=True)
    place = folder / "bin" / "selfcheck"
    place.write_text(COMMAND)
    place.chmod(0o755)


class Answering:
    """While it is open, questions in the host's folder `ask`, which `box` holds at ASK, are answered one by one."""

    def __init__(self, selfcheck: SelfCheck, box: Box, ask: Path, say: Callable[[str], None]) -> None:
        self._selfcheck, self._box, self._ask, self._say = selfcheck, box, ask, say
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="selfcheck", daemon=True)

    def __enter__(self) -> Answering:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(PAUSE_S):
            for name in sorted(os.listdir(self._ask)):  # noqa: PTH208 - names only
                asked = QUESTION.fullmatch(name)
                if asked and not self._over.is_set():
                    self._answer(asked[1])

    def _now(self) -> float:
        return float("inf") if self._over.is_set() else time.monotonic()

    def _answer(self, name: str) -> None:
        text, status = self._found(f"{ASK}/{name}.cases")
        try:
            self._box.remove(f"{ASK}/{name}.cases")
            self._box.write(f"{ASK}/{name}.status", f"{status}\n".encode())
            self._box.write(f"{ASK}/{name}.answer", text.encode(errors="replace") + b"\n")
        except (Refused, OSError):
            return  # who asked is gone, or took the files away

    def _found(self, path: str) -> tuple[str, int]:
        try:
            text, different = self._selfcheck.compare(self._selfcheck.load(path), LONGEST_S, self._now)
        except Refused as e:
            return str(e).replace(path, "the file"), 2
        except HarnessError as e:
            self._say(f"selfcheck was not answered: {e}")
            return "This can't be answered now: try again.", 2
        return text, int(different > 0)
