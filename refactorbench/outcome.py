"""Outcomes: status is not verdict. Who owns a failure decides whether it counts against the submission."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Owner(StrEnum):
    SUBMISSION = "submission"
    HARNESS = "harness"
    PROVIDER = "provider"


class Status(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    NONDETERMINISTIC = "nondeterministic"
    NOT_RUN = "not_run"
    MOOT = "moot"
    UNDECIDED = "undecided"
    ERROR = "error"


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One result with its attribution: `cause` is a sentence; `owner` is set for errors only."""

    status: Status
    cause: str = ""
    owner: Owner | None = None

    @property
    def passed(self) -> bool:
        return self.status is Status.PASS

    @property
    def counts_against_submission(self) -> bool:
        """True for evidence about the submission only: never for harness, provider or unknown errors."""
        if self.status in (Status.FAIL, Status.NONDETERMINISTIC):
            return True
        return self.status is Status.ERROR and self.owner is Owner.SUBMISSION

    @property
    def prevents_verdict(self) -> bool:
        """True where no statement about the submission can be made."""
        if self.status is Status.ERROR:
            return self.owner is not Owner.SUBMISSION
        return self.status in (Status.NOT_RUN, Status.UNDECIDED)


PASS = Outcome(Status.PASS)


def harness_error(cause: str) -> Outcome:
    return Outcome(Status.ERROR, cause, Owner.HARNESS)
