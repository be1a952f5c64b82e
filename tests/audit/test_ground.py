"""Grounding: a forged docket in which each witness lies once, and every other way an anchor can be untrue."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import audit_trees as trees
import msgspec
import pytest

from refactorbench.audit.docket import (
    BytesAnchor,
    Docket,
    Eye,
    EyeReport,
    Finding,
    StatAnchor,
    Strength,
    TextAnchor,
    TraceAnchor,
)
from refactorbench.audit.ground import (
    Evidence,
    Refused,
    ground,
    open_bytes,
    open_text,
    read_inside,
    reopen,
    why_refused,
)
from refactorbench.audit.verdict import decide
from refactorbench.audit.witnesses import runtime, source
from refactorbench.catalog.models import Criterion
from refactorbench.outcome import Status

EXEC = '21 execve("/bin/bzip2", ["bzip2"], 0x7f /* 4 vars */) = -1 ENOENT (No such file or directory)'
LAUNCH = '21 execve("/product/bin/pack", ["pack"], 0x7f /* 4 vars */) = 0'
TRACE = f'10 chdir("/.check/m/c0") = -1 ENOENT (x)\n{LAUNCH}\n{EXEC}\n'
BUILD_KIND = "old-compiler-run"
COUNTS = (0, 3000, 150, 200)


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    """A submission that keeps State A's source, executes another program and knows recorded answers only."""
    state_a = trees.state_a(tmp_path / "state-a")
    tree = trees.lay(
        trees.honest(tmp_path / "submission"), {"old.txt": trees.PACK_C + " ", "lib.c": trees.PACK_C + "\n"}
    )
    (tmp_path / "s.trace").write_text(TRACE)
    (tmp_path / "a.trace").write_text(TRACE.removesuffix(EXEC + "\n"))
    return Evidence(
        trees.loaded(), tree, state_a, {"lib.c"}, None, (tmp_path / "s.trace",), (tmp_path / "a.trace",), COUNTS,
        reopen_build=lambda finding: finding.why == "true",
    )  # fmt: skip


def reports(e: Evidence) -> list[EyeReport]:
    """Both witnesses' honest reports and a build witness with one true finding."""
    built = Finding("build-001", Eye.BUILD, BUILD_KIND, Strength.PROOF, TraceAnchor("build", 1, "x"), "true")
    return [
        source.witness(e.submission, e.state_a, e.loaded_task, None, e.reads),
        EyeReport(Eye.BUILD, "looked", (built,), {}),
        runtime.witness(e.traces, e.state_a_traces, e.memorisation, e.loaded_task),
    ]


def proofs(report: EyeReport) -> list[Finding]:
    return [f for f in report.findings if f.strength is Strength.PROOF]


def test_true_findings_stand(evidence: Evidence) -> None:
    found = reports(evidence)
    assert [f.kind for r in found for f in proofs(r)] == [
        "source-remains", "source-remains", BUILD_KIND, "runtime-exec", "answers-memorised",
    ]  # fmt: skip
    assert ground(Docket(tuple(found)), evidence).refused == {}


def test_a_docket_in_which_each_witness_lies_once_is_refused(evidence: Evidence) -> None:
    code = (evidence.submission / "src/main.rs").read_bytes()
    anchor = BytesAnchor("src/main.rs", 0, len(code), hashlib.sha256(code).hexdigest())
    lies = {
        Eye.SOURCE: Finding("lie-1", Eye.SOURCE, "source-remains", Strength.PROOF, anchor, "the port is C"),
        Eye.BUILD: Finding("lie-2", Eye.BUILD, BUILD_KIND, Strength.PROOF, TraceAnchor("build", 1, "x"), "a lie"),
        Eye.RUNTIME: Finding(
            "lie-3", Eye.RUNTIME, "runtime-exec", Strength.PROOF,
            TraceAnchor("s.trace", 2, LAUNCH), "the launch is an exec",
        ),
    }  # fmt: skip
    forged = tuple(msgspec.structs.replace(r, findings=(lies[r.eye],)) for r in reports(evidence))
    opened = ground(Docket(forged), evidence)
    assert set(opened.refused) == {"lie-1", "lie-2", "lie-3"}
    criteria = evidence.loaded_task.criteria
    kinds = ("source-remains", BUILD_KIND, "runtime-exec")
    gone = Criterion("gone", "", "", (Eye.SOURCE, Eye.BUILD, Eye.RUNTIME), kinds)
    verdict = decide(msgspec.structs.replace(criteria, criterion=(gone, *criteria.criterion)), opened, None, "offline")
    assert verdict.criteria[0].outcome.passed and verdict.criteria[0].queue
    # the same docket, not re-opened, would have failed the submission
    unopened = msgspec.structs.replace(opened, refused={})
    verdict = decide(
        msgspec.structs.replace(criteria, criterion=(gone, *criteria.criterion)), unopened, None, "offline"
    )
    assert verdict.criteria[0].outcome.status is Status.FAIL


Change = Callable[[Finding], Finding]


def moved(**changes: object) -> Change:
    return lambda f: msgspec.structs.replace(f, anchor=msgspec.structs.replace(f.anchor, **changes))


SOURCE_LIES: dict[str, Change] = {
    "another digest": moved(sha256="0" * 64),
    "another place": moved(offset=1),
    "before the start": moved(offset=-1),
    "nothing at all": moved(size=0),
    "beyond the end": moved(size=10**6),
    "another file": moved(path="src/main.rs"),
    "no such file": moved(path="src/none.rs"),
    "out of the tree": moved(path="../state-a/pack.c"),
    "an absolute path": moved(path="/etc/passwd"),
    "a folder": moved(path="src"),
    "a decode step that fails": moved(decode=("gzip",)),
    "no such decode step": moved(decode=("rot13",)),
    "a kind that the bytes don't bear out": lambda f: msgspec.structs.replace(f, kind="binary-code"),
    "another eye's kind": lambda f: msgspec.structs.replace(f, kind="runtime-exec"),
    "a LEAD called PROOF": lambda f: msgspec.structs.replace(f, kind="opaque-data"),
    "an unknown kind": lambda f: msgspec.structs.replace(f, kind="source-remained"),
    "another eye's name": lambda f: msgspec.structs.replace(f, eye=Eye.BUILD),
    "words instead of bytes": lambda f: msgspec.structs.replace(f, anchor=TextAnchor("lib.c", 1, "#include <stdio.h>")),
    "made-up figures": lambda f: msgspec.structs.replace(
        f, kind="not-migrated", anchor=StatAnchor("not-migrated", (0, 1, 1))
    ),
    "true figures that say nothing": lambda f: msgspec.structs.replace(
        f, kind="not-migrated", anchor=StatAnchor("not-migrated", (1, 0, 1))
    ),
}  # fmt: skip
RUNTIME_LIES: dict[str, Change] = {
    "another line": moved(line=2),
    "no such line": moved(line=99),
    "another quote": moved(quote=EXEC + " "),
    "an empty quote": moved(quote=""),
    "another trace": moved(log="a.trace"),
    "no such trace": moved(log="../s.trace"),
    "another kind": lambda f: msgspec.structs.replace(f, kind="runtime-exec-memory"),
    "made-up counts": lambda f: msgspec.structs.replace(
        f, kind="answers-memorised", anchor=StatAnchor("memorisation", (0, 3000, 200, 200))
    ),
    "another figure": lambda f: msgspec.structs.replace(f, kind="answers-memorised", anchor=StatAnchor("size", COUNTS)),
}  # fmt: skip


@pytest.mark.parametrize("lie", SOURCE_LIES)
def test_source_lies_are_refused(lie: str, evidence: Evidence) -> None:
    finding = next(f for f in proofs(reports(evidence)[0]) if f.anchor.path == "lib.c")  # type: ignore[union-attr]
    assert reopen(finding, evidence)
    assert why_refused(SOURCE_LIES[lie](finding), Eye.SOURCE, evidence)


@pytest.mark.parametrize("lie", RUNTIME_LIES)
def test_runtime_lies_are_refused(lie: str, evidence: Evidence) -> None:
    finding = next(f for f in proofs(reports(evidence)[2]) if f.kind == "runtime-exec")
    assert reopen(finding, evidence)
    assert why_refused(RUNTIME_LIES[lie](finding), Eye.RUNTIME, evidence)


def test_counts_that_prove_nothing_are_refused(evidence: Evidence) -> None:
    finding = next(f for f in proofs(reports(evidence)[2]) if f.kind == "answers-memorised")
    assert reopen(finding, evidence)
    evidence.memorisation = (0, 3000, 10, 200)
    weak = msgspec.structs.replace(finding, anchor=StatAnchor("memorisation", (0, 3000, 10, 200)))
    assert "no evidence" in why_refused(weak, Eye.RUNTIME, evidence)


def test_a_submission_that_changed_since_is_refused(evidence: Evidence) -> None:
    finding = proofs(reports(evidence)[0])[0]
    path = evidence.submission / finding.anchor.path  # type: ignore[union-attr]
    path.write_bytes(path.read_bytes().replace(b"MARK", b"NOTE"))
    assert not reopen(finding, evidence)


def test_code_counts_only_where_the_build_took_it_in(evidence: Evidence) -> None:
    wasm = b"\0asm\1\0\0\0\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x0a\x04\x01\x02\x00\x0b"
    trees.lay(evidence.submission, {"a.gz": gzip.compress(wasm)})
    anchor = BytesAnchor("a.gz", 0, len(wasm), hashlib.sha256(wasm).hexdigest(), ("gzip",))
    finding = Finding("s", Eye.SOURCE, "binary-code", Strength.PROOF, anchor, "")
    assert not reopen(finding, evidence)
    evidence.reads = {"a.gz"}
    assert reopen(finding, evidence)


def test_links_are_never_followed(tmp_path: Path) -> None:
    root = trees.lay(tmp_path / "tree", {"a/b.txt": "inside\n"})
    trees.lay(tmp_path, {"secret.txt": "outside\n"})
    (root / "file").symlink_to("../secret.txt")
    (root / "near").symlink_to("a/b.txt")
    (root / "folder").symlink_to("a")
    os.mkfifo(root / "pipe")
    assert read_inside(root, "a/b.txt") == b"inside\n"
    for path in ("file", "near", "folder/b.txt", "pipe", "a/../a/b.txt", "", "."):
        with pytest.raises(Refused):
            read_inside(root, path)


QUOTE = "    let x = 1;\n    let y = 2;"


@pytest.mark.parametrize(
    ("line", "quote", "stands"),
    [
        (10, "let  x=1;", True),
        (7, "let x = 1;", True),
        (13, "let x = 1;", True),
        (10, QUOTE, True),
        (6, "let x = 1;", False),
        (14, "let x = 1;", False),
        (10, "let x = 2;", False),
        (10, "", False),
        (10, " \n", False),
        (0, "let x = 1;", False),
        (999, "let x = 1;", False),
    ],
)
def test_a_quote_stands_within_three_lines_white_space_aside(
    line: int, quote: str, stands: bool, tmp_path: Path
) -> None:
    trees.lay(tmp_path, {"a.rs": "//\n" * 9 + QUOTE + "\n" + "//\n" * 9})
    if stands:
        open_text(tmp_path, TextAnchor("a.rs", line, quote))
    else:
        with pytest.raises(Refused):
            open_text(tmp_path, TextAnchor("a.rs", line, quote))


def test_decode_steps_are_done_again(tmp_path: Path) -> None:
    trees.lay(tmp_path, {"a": b"xx" + gzip.compress(b"hello hello hello")})
    digest = hashlib.sha256(b"hello").hexdigest()
    assert open_bytes(tmp_path, BytesAnchor("a", 6, 5, digest, ("at:2", "gzip"))) == b"hello hello hello"
    with pytest.raises(Refused, match="decode"):
        open_bytes(tmp_path, BytesAnchor("a", 6, 5, digest, ("gzip",)))
    with pytest.raises(Refused, match="others"):
        open_bytes(tmp_path, BytesAnchor("a", 5, 5, digest, ("at:2", "gzip")))
