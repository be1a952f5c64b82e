"""Every error that a user can meet.

RefactorBenchError
├── UsageError          exit 2   the command or a file of the user's is wrong
│   └── TaskError       exit 2   a task, recording, panel or criterion file is wrong
├── HarnessError        exit 3   this machine or this program prevented a verdict
│   └── ToolMissing     exit 3   a program or package that the task needs isn't installed
└── BelowBar            exit 1   done, and the score is under --min-score

A message names the key, the value, the consequence and the remedy. None of these is ever evidence about a submission.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RefactorBenchError(Exception):
    """Base of all expected errors; `exit_status` is what the command line ends with."""

    exit_status = 3


class UsageError(RefactorBenchError):
    exit_status = 2


class TaskError(UsageError):
    """`problems` are the sentences of the message when several things are wrong at once."""

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems or (message,)


class HarnessError(RefactorBenchError):
    exit_status = 3


class ToolMissing(HarnessError):
    pass


class BelowBar(RefactorBenchError):
    exit_status = 1


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)`, or an empty string when nothing known is close to `word`."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""
