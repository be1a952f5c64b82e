"""The files of a task as types. Every file is TOML or JSON with a closed key set; unknown keys are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from refactorbench.audit.docket import Eye
from refactorbench.sandbox.protocol import Limits


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class StateASource(Closed, frozen=True):
    """Where State A comes from. `archive` is the file name the client delivers; `tree_sha256` of the unpacked tree."""

    kind: Literal["debian-source"]
    package: str
    version: str
    suite: str
    archive: str
    sha256: str
    tree_sha256: str
    strip: int = 1


class Recipe(Closed, frozen=True):
    """How a tree is built. `script` (POSIX sh, relative to the task) runs in the tree's root; `outputs` maps product
    paths to files the build leaves in the tree; `env` is added to the build environment."""

    script: str
    outputs: dict[str, str]
    toolchain: tuple[str, ...]  # names understood by build/toolchain.py: "gcc", "make", "rust"
    env: dict[str, str] = {}
    evidence_env: dict[str, str] = {}  # replaces env for the evidence build, e.g. debug information forced on
    wall_s: float = 1800.0
    memory_mb: int = 4096


class Variant(Closed, frozen=True):
    """Another honest build of State A: same recipe, other environment. An `optional` one is left out, and said to be,
    where its toolchain isn't; any other that is missing is an error."""

    id: str
    env: dict[str, str]
    toolchain: tuple[str, ...]
    optional: bool = False


class Runtime(Closed, frozen=True):
    """What the root of the checked program holds beside the product: library names resolved on the host."""

    libraries: tuple[str, ...]
    env: dict[str, str] = {}
    deny_exec_memory: bool = True


class Drivers(Closed, frozen=True):
    """Small C programs of the task, compiled by the harness against each delivered library into /product/drivers/."""

    sources: tuple[str, ...]
    header: str  # product path of the public header, e.g. "include/bzlib.h"
    library: str  # product path, e.g. "lib/libbz2.so.1.0"


class Admission(Closed, frozen=True):
    """Bars that a task sets itself, shares 0..1 of State A under the recorded checks; 0: no bar."""

    coverage_lines: float = 0.0
    coverage_branches: float = 0.0


class OldStack(Closed, frozen=True):
    """What counts as the old stack in a build of the target: compiler names that become tripwires."""

    compilers: tuple[str, ...]
    source_suffixes: tuple[str, ...]
    kept: tuple[str, ...] = ()  # State A files (globs) that the instruction lets a submission keep


class Task(Closed, frozen=True):
    """tasks/<id>/task.toml"""

    schema: Literal["refactorbench.task/1"]
    id: str
    title: str
    debt: Literal["language", "framework", "platform", "build"]
    from_stack: str
    to_stack: str
    budget_hours: float
    status: Literal["admitted", "provisional"]
    state_a: StateASource
    reference: Recipe
    target: Recipe
    runtime: Runtime
    limits: Limits
    old_stack: OldStack
    generator: str  # python file below the task: checks/generate.py
    variants: tuple[Variant, ...] = ()
    drivers: Drivers | None = None
    coverage_env: dict[str, str] = {}  # laid over reference.env for a build with gcc's --coverage; empty: not measured
    admission: Admission = Admission()
    minimum_checks: int = 0
    largest_module_share: float = 1.0
    fresh_checks: int = 200
    exclude: tuple[str, ...] = (".git",)  # left out when a tree is collected; must match no file of State A


class Criterion(Closed, frozen=True):
    """A yes/no question of stage I. `kinds`: the finding kinds that bear on it; a PROOF of one of them fails it.

    `special = "builds"` marks the criterion "the target stack builds and starts it".
    """

    id: str
    title: str
    question: str
    eyes: tuple[Eye, ...]
    kinds: tuple[str, ...]
    required: bool = True
    special: Literal["", "builds"] = ""


class Criteria(Closed, frozen=True):
    """audit_criteria/<id>.toml"""

    schema: Literal["refactorbench.criteria/1"]
    task: str
    criterion: tuple[Criterion, ...]


class Direction(Closed, frozen=True):
    """One verifier's brief. `strategy` names a function of verifiers/<id>.py; "" in a free direction means all."""

    id: str
    title: str
    brief: str
    strategy: str


class Scope(Closed, frozen=True):
    """Allow and deny lists that mirror the instruction. `allow` and `deny` are sentences for people and models;
    `deny_rules` are names of predicates in verifiers/<id>.py that take a Check and say whether it is out of scope."""

    allow: tuple[str, ...]
    deny: tuple[str, ...]
    deny_rules: tuple[str, ...] = ()


class Briefs(Closed, frozen=True):
    """verifiers/<id>.toml: six directions, five with a subject and one free."""

    schema: Literal["refactorbench.verifiers/1"]
    task: str
    module: str  # python file beside it with the strategies
    scope: Scope
    direction: tuple[Direction, ...]


class JudgeSeat(Closed, frozen=True, omit_defaults=True):
    """Who votes in stage I. `models`: one that is asked three times, or three of different families; none: to be named
    when a run is started (`--judges`). `turns` and `max_tokens` bound a sample's replies, `reading` the characters that
    its tools show it, `cap_s` its working time in seconds. `canaries`: each seat also gets questions with known
    answers."""

    kind: Literal["none", "llm"]
    models: tuple[str, ...] = ()
    effort: str = ""
    turns: int = 40
    max_tokens: int = 8192
    reading: int = 400_000
    cap_s: float = 1800.0
    canaries: bool = True


class VerifierSeat(Closed, frozen=True):
    """`budget` is a number of inputs for fuzz verifiers; `cap_s` the wall-clock cap."""

    id: str
    kind: Literal["fuzz"]
    budget: int
    cap_s: float = 3600.0


class Panel(Closed, frozen=True):
    """verifiers/panels/<name>.toml; its fingerprint is part of every score."""

    schema: Literal["refactorbench.panel/1"]
    name: str
    judges: JudgeSeat
    verifier: tuple[VerifierSeat, ...]
    prompt_version: str = "1"


class ModuleEntry(Closed, frozen=True):
    """One module of a recording; `checks_sha256` and `observations_sha256` are over the rows' digests in order."""

    id: str
    file: str
    file_sha256: str
    checks: int
    checks_sha256: str
    observations_sha256: str


class Manifest(Closed, frozen=True):
    """recordings/<id>/manifest.json"""

    schema: Literal["refactorbench.recording/1"]
    task: str
    state_a_tree: str
    executor: str  # version of the executor and its worker
    seed: int
    modules: tuple[ModuleEntry, ...]
    passes: tuple[str, ...]  # the perturbed recordings that agreed, by name
    dropped: dict[str, str]  # check id -> reason
    coverage: dict[str, float]  # State A source file -> line coverage 0..1 under the checks; "total"; {}: not measured
    rules: dict[str, int]  # normalisation name -> number of checks that carry it
    branches: dict[str, float] = {}  # like coverage: share of branches taken at least once


class LoadedTask(msgspec.Struct, frozen=True):
    """A task with everything that belongs to it, validated together."""

    root: Path  # the data root that holds tasks/, recordings/, verifiers/, audit_criteria/
    task: Task
    criteria: Criteria
    briefs: Briefs
    instruction: str

    @property
    def folder(self) -> Path:
        return self.root / "tasks" / self.task.id

    @property
    def recording(self) -> Path:
        return self.root / "recordings" / self.task.id
