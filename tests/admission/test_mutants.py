"""Mutants: how they are laid into State A, and what a batch comes to on a toy task."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from e2e.toy import TASK, Toy
from e2e.toy import toy as toy

from refactorbench.admission import mutants
from refactorbench.admission.mutants import Request, claim, identity, load_batch
from refactorbench.admission.mutants_model import Batch, Edit, Mutant, apply
from refactorbench.admission.mutants_result import Contact, row, summarise
from refactorbench.admission.mutants_stream import ANY, Item, RecordingBench, Stream, digest, draw, reached, store
from refactorbench.admission.recording import build_state_a
from refactorbench.catalog.load import load_panel, load_task
from refactorbench.errors import HarnessError, TaskError, UsageError
from refactorbench.observe.model import Check, Observation, OutputFile
from refactorbench.observe.spec import worker_spec
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.verification.bench import BenchSpec, Pair, ScriptedBench
from refactorbench.verification.fuzz import DIGEST
from refactorbench.verification.model import ChunkResult, Side
from refactorbench.verification.stage import plans, run_verifier

real = pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "make", "bwrap", "strace"))), reason="builds with gcc, runs in bubblewrap"
)
SLOW_S = 600  # most that a whole batch may take where other work fills the machine

SOURCE = """#include <stdlib.h>
#include <stdio.h>
static int twice(int n) { return n + n; }
int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 0;
    if (n > 5) n = 5; else n = n + 1;
    printf("%d\\n", twice(n) + 1);
    return 0;
}
"""


def mutant(id: str, line: int, old: str, new: str, kind: Any = "expr", **more: Any) -> Mutant:
    return Mutant(id, f"Title of {id}", "a.c", line, old, new, kind, **more)


def laid(top: Path, *mutants: Mutant) -> str:
    """The text of a.c behind the prelude, with all of them in it."""
    (top / "a").mkdir(exist_ok=True)
    (top / "a" / "a.c").write_text(SOURCE)
    shutil.rmtree(top / "b", ignore_errors=True)
    apply(Batch("first", "0", mutants), top / "a", top / "b")
    return (top / "b" / "a.c").read_text().split("#line 1\n")[1]


def runs(top: Path, *args: str) -> str:
    """What the program that `laid` left says, per value of RB_MUTANT from none to 4."""
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", top / "a.out", top / "b" / "a.c"], check=True)
    said = []
    for number in ("", "1", "2", "3", "4"):
        env = (
            {**os.environ, "RB_MUTANT": number} if number else {k: v for k, v in os.environ.items() if k != "RB_MUTANT"}
        )
        said.append(subprocess.run([top / "a.out", *args], env=env, capture_output=True, check=True, text=True).stdout)
    return " ".join(text.strip() for text in said)


@pytest.mark.skipif(not shutil.which("gcc"), reason="compiles the program")
def test_each_kind_changes_the_program_when_it_is_in_force_and_only_then(tmp_path: Path) -> None:
    text = laid(
        tmp_path,
        mutant("expr", 3, "n + n", "n * 3"),
        mutant("stmt", 7, "n = 5", "n = 50;", "stmt"),
        mutant("text", 8, "+ 1", "+ (@ ? 2 : 1)", "text"),
        mutant("both", 3, "n + n", "n", more=(Edit("a.c", 7, "n > 5", "1"),)),
    )
    assert "return (rb_is(4)?(n):((rb_is(1)?(n * 3):(n + n))));" in text
    assert "if ((rb_is(4)?(1):(n > 5))) if(rb_is(2)){n = 50;}else n = 5; else n = n + 1;" in text
    assert "twice(n) + (rb_is(3) ? 2 : 1));" in text
    assert text.count("\n") == SOURCE.count("\n")
    assert runs(tmp_path, "9") == "11 16 101 12 6"
    assert runs(tmp_path, "1") == "5 7 5 6 6"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (mutant("m", 3, "n - n", "n"), r"mutant 'm', a\.c, line 3: old 'n - n' .* it is nowhere in the file"),
        (mutant("m", 4, "n + n", "n"), r"mutant 'm', a\.c, line 4: .*'int main.* it begins on line 3"),
        (mutant("m", 7, "n", "m"), r"mutant 'm', a\.c, line 7: old 'n' stands \d+ times"),
        (mutant("m", 99, "n", "m"), r"mutant 'm', a\.c, line 99: the file has 10 lines"),
        (mutant("m", 3, "", "m"), r"mutant 'm', a\.c, line 3: old is empty"),
        (mutant("m", 3, "n + n", "n", "text"), r"mutant 'm', a\.c, line 3: new has no '@'"),
        (
            msgspec.structs.replace(mutant("m", 3, "n + n", "n"), file="../x.c"),
            r"mutant 'm': file '\.\./x\.c' is no file",
        ),
        (msgspec.structs.replace(mutant("m", 3, "n + n", "n"), file="b.c"), r"mutant 'm': file 'b\.c' is no file"),
    ],
)
def test_an_edit_that_does_not_fit_is_told_by_mutant_file_and_line(tmp_path: Path, wrong: Mutant, told: str) -> None:
    with pytest.raises(TaskError, match=told):
        laid(tmp_path, wrong)
    assert laid(tmp_path, mutant("m", 3, "n + n", "n"))


def test_edits_may_hold_one_another_but_not_overlap(tmp_path: Path) -> None:
    inner, outer = mutant("in", 8, "twice(n)", "n"), mutant("out", 8, "twice(n) + 1", "0")
    assert "(rb_is(2)?(0):((rb_is(1)?(n):(twice(n))) + 1))" in laid(tmp_path, inner, outer)
    assert "(rb_is(1)?(0):((rb_is(2)?(n):(twice(n))) + 1))" in laid(tmp_path, outer, inner)
    with pytest.raises(
        TaskError, match=r"a\.c: mutants 'in' \(line 8\) and 'cut' \(line 8\) change texts that overlap"
    ):
        laid(tmp_path, inner, mutant("cut", 8, "(n) + 1", "0"))
    keeps, loses = (mutant("text", 8, "twice(n) + 1", new, "text") for new in ("@ ? 3 : twice(n) + 1", "7 + @"))
    assert "rb_is(2) ? 3 : (rb_is(1)?(n):(twice(n))) + 1" in laid(tmp_path, inner, keeps)
    with pytest.raises(TaskError, match="another mutant changes what mutant 'text'"):
        laid(tmp_path, inner, loses)


def observed(*files: OutputFile, stdout: bytes = b"") -> Observation:
    return Observation("exit", 0, stdout, b"", files)


def test_reach_is_known_only_where_the_run_was_state_as_own() -> None:
    check = Check("m/1", "m", "process", "bin/a", (b"a",))
    kept = OutputFile(b"kept", "file", 0o644, 0, b"x")
    expected = digest(observed(kept), check)

    def of(data: bytes, *files: OutputFile, stdout: bytes = b"") -> tuple[int, ...]:
        return reached(
            check, observed(OutputFile(b".rb-mutants", "file", 0o600, -1, data), *files, stdout=stdout), expected
        )

    assert of(b"\0\0\2\0\0\0\1\0\2\0", kept) == (1, 2)
    assert of(b"\0\0", kept) == ()
    assert of(b"", kept) == of(b"\1\0", kept) == of(b"\0\0\1", kept) == of(b"\0\0") == ANY
    assert of(b"\0\0", kept, stdout=b"other") == ANY
    assert reached(check, observed(kept), expected) == ANY
    assert reached(msgspec.structs.replace(check, observer="tree"), observed(kept), expected) == ()
    assert Item(b"", ANY).reaches(7) and Item(b"", (7,)).reaches(7) and not Item(b"", (6,)).reaches(7)


def test_a_stored_stream_gives_back_what_was_put_in_and_no_check_may_choose_the_mutant(tmp_path: Path) -> None:
    checks = [Check(f"m/{i}", "m", "process", "bin/a", (b"a", b"x" * i)) for i in range(3)]
    items = [Item(bytes([i]) * 32, (i,)) for i in range(3)]
    found = store(tmp_path / "s", zip(items, checks, strict=True))
    assert (found.items, list(found.checks((2, 0, 1)))) == (items, [checks[2], checks[0], checks[1]])
    assert Stream(tmp_path / "s").items == items
    chooses = msgspec.structs.replace(checks[0], env=((b"RB_MUTANT", b""),))
    with pytest.raises(TaskError, match="check m/0 sets RB_MUTANT"):
        store(tmp_path / "t", [(items[0], chooses)])
    assert not (tmp_path / "t").exists()


def test_what_both_sides_are_said_to_have_run_is_stored_once_and_unanswered_inputs_are_not(tmp_path: Path) -> None:
    faults = ["once"]

    def product(check: Check) -> Observation:
        if check.stdin == b"fault" and faults:
            raise HarnessError(faults.pop())
        return msgspec.structs.replace(
            observed(stdout=check.stdin), ended="limit" if check.stdin == b"hang" else "exit"
        )

    bench = RecordingBench(ScriptedBench({Side.REFERENCE: product}), tmp_path / "s")
    checks = [
        Check(f"v1/{t.decode()}", "m", "process", "bin/a", (b"a",), t) for t in (b"one", b"fault", b"hang", b"two")
    ]
    with Pair(bench, Side.SUBMISSION) as pair:
        answers = [pair.observe(checks[0])]
        with pytest.raises(HarnessError, match="once"):
            pair.observe(checks[1])
        pair.reopen()
        answers += [pair.observe(c) for c in checks[1:]]
    assert all(a == b for a, b in answers) and answers[2][0].ended == "limit"
    stream = Stream(tmp_path / "s")
    kept = [c for c in checks if c.stdin != b"hang"]
    assert list(stream.checks(range(3))) == kept
    assert stream.items == [Item(digest(observed(stdout=c.stdin), c)) for c in kept]


def test_rates_count_what_was_run_and_nothing_else() -> None:
    ms = [mutant(id, 1, "x", "y") for id in "abc"]
    hit, miss = Contact(True, 3, 9, 4, "m/1", "m", "differs"), Contact(False, 9, 9, 4)
    rows = (
        row(ms[0], hit, {"v1": hit, "v2": miss}),
        row(ms[1], miss, {"v1": miss, "v2": miss}),
        row(ms[2], hit, {"v1": hit}),
    )
    found = summarise("t", "first", 1, "offline", rows, ["v1", "v2"])
    counts = {name: (rate.found, rate.total) for name, rate in found.rates.items()}
    assert counts == {"stage II": (2, 3), "v1": (2, 3), "v2": (0, 2), "together": (1, 2)}
    assert found.survivors == {"stage II": ("b",), "all verifiers": ("b",)}
    assert (rows[0].verifiers["v1"].found_at, rows[0].verifiers["v2"].found_at) == (3, None)
    assert "stage II" in found.text() and "b: Title of b (4 checks reach it; not shown to differ)" in found.text()
    assert summarise("t", "first", 1, "offline", (row(ms[0], None, {}),), ["v1"]).rates == {}


BATCH = """schema = "refactorbench.mutants/1"
[[mutant]]
id = "turn-by-twelve"
title = "Small letters turn by twelve places"
file = "tally.c"
line = 26
old = "13"
new = "12"
shown = true

[[mutant]]
id = "high-bytes"
title = "Bytes beyond ASCII count twice"
file = "tally.c"
line = 12
old = "sum->bytes++;"
new = "sum->bytes += letter >= 128 ? 2 : 1;"
kind = "stmt"

[[mutant]]
id = "other-mark"
title = "Being in a word is marked by another number"
file = "tally.c"
line = 18
old = "1"
new = "2"
"""


def with_batch(toy: Toy, where: Path, text: str = BATCH) -> Toy:
    own = toy.copy(where)
    folder = own.root / "tasks" / TASK / "mutants"
    folder.mkdir()
    (folder / "first.toml").write_text(text)
    return own


def units(out: Path) -> list[str]:
    path = out / "journal.jsonl"
    return [json.loads(line)["unit"] for line in path.read_text().splitlines()] if path.exists() else []


class Whole(msgspec.Struct, frozen=True):
    task: Toy
    out: Path
    found: Any


@pytest.fixture(scope="module")
def whole(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The batch measured without a stop."""
    base = tmp_path_factory.mktemp("mutants")
    task = with_batch(toy, base / "root")
    done = task.call("task", "mutants", TASK, "--out", base / "out", "--jobs", "1", "--json", timeout=SLOW_S)
    assert done.status == 0, done.err
    return Whole(task, base / "out", done.json)


@real
def test_one_is_found_by_the_recording_one_by_fuzzing_alone_and_one_by_nothing(whole: Whole) -> None:
    rows = {r["mutant"]: r for r in whole.found["rows"]}
    assert {id: r["stage2"]["found"] for id, r in rows.items()} == {
        "turn-by-twelve": True, "high-bytes": False, "other-mark": False,
    }  # fmt: skip
    turn, high, same = (rows[id] for id in ("turn-by-twelve", "high-bytes", "other-mark"))
    assert turn["stage2"]["module"] in ("turn", "files") and turn["stage2"]["check"].startswith(
        turn["stage2"]["module"]
    )
    assert 1 <= turn["stage2"]["ran"] < high["stage2"]["ran"] == 76
    at = {id: {v: h["found_at"] for v, h in r["verifiers"].items()} for id, r in rows.items()}
    assert at["high-bytes"]["v1"] and at["high-bytes"]["v6"] and at["turn-by-twelve"]["v2"]
    assert [at["high-bytes"][v] for v in ("v2", "v3", "v4", "v5")] == [None] * 4
    assert set(at["other-mark"].values()) == {None} and same["verifiers"]["v1"]["reached"] > 50
    assert {h["inputs"] for r in rows.values() for h in r["verifiers"].values()} == {60}
    assert whole.found["survivors"] == {"stage II": ["high-bytes", "other-mark"], "all verifiers": ["other-mark"]}
    assert whole.found["rates"]["together"]["found"] == 2 and whole.found["rates"]["stage II"]["total"] == 3


@real
def test_what_is_said_not_to_reach_a_mutant_is_not_changed_by_it(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole stream is run on every mutant: first contact is where it is when only what reaches it is run."""
    loaded = load_task(whole.task.root, TASK)
    batch = load_batch(loaded)
    target = mutants.build_mutants(
        loaded, batch, whole.task.state_a, BubblewrapSandbox(), whole.task.cache, whole.out / "again"
    )
    stream = Stream(whole.out / "streams" / "v6.stream")
    order = list(range(len(stream)))
    less = [mutants.first_contact(k, stream, order, target) for k, _ in batch.numbered()]
    assert any(len(i.reached) < 3 and i.reached != ANY for i in stream.items)
    monkeypatch.setattr(stream, "items", [Item(i.digest) for i in stream.items])
    more = [mutants.first_contact(k, stream, order, target) for k, _ in batch.numbered()]
    assert [(c.found, c.ran) for c in less] == [(c.found, c.ran) for c in more]
    assert all(a.reached < b.reached == 60 for a, b in zip(less, more, strict=True))


@real
def test_a_stored_stream_is_what_the_verifiers_hunt_executes_on_an_equal_submission(whole: Whole) -> None:
    loaded = load_task(whole.task.root, TASK)
    panel = load_panel(whole.task.root, "offline")
    module = whole.task.root / "verifiers" / f"{TASK}.py"
    v5 = plans(loaded.briefs, panel, module, loaded.task.limits, 1)[4]
    reference = build_state_a(
        loaded, loaded.task.reference, whole.task.state_a, BubblewrapSandbox(), whole.task.cache, whole.out / "c"
    )
    product = reference.product
    spec = worker_spec(loaded.task, Path(product))
    chunks: list[ChunkResult] = []
    libraries = tuple(map(str, spec.libraries))
    run_verifier(v5, BenchSpec("bubblewrap", product, product, "", spec.limits, libraries, spec.env), {}, chunks.append)
    stream = Stream(whole.out / "streams" / "v5.stream")
    with pytest.raises(HarnessError, match="inputs of verifier v5 can't be drawn"):
        draw(whole.out / "none", v5, BenchSpec("none", product, "", "", spec.limits), lambda _: None)
    assert not (whole.out / "none").exists()
    drawn = [bytes.fromhex(c.input_digest())[:DIGEST] for c in stream.checks(range(len(stream)))]
    assert b"".join(c.digests for c in chunks) == b"".join(drawn) and len(drawn) == 60


@real
def test_a_difference_that_the_build_shows_by_itself_or_that_does_not_come_again_is_no_contact(whole: Whole) -> None:
    loaded = load_task(whole.task.root, TASK)
    target = mutants.build_mutants(
        loaded, load_batch(loaded), whole.task.state_a, BubblewrapSandbox(), whole.task.cache, whole.out / "b"
    )
    check = Check("m/1", "m", "process", "bin/tally", (b"tally", b"turn"), b"abc")
    with target.open(b"") as worker:
        right = digest(worker.observe(check), check)
    assert "nop" in mutants.confirmed(1, check, right, target)
    assert mutants.confirmed(1, check, bytes(32), target) == ""
    assert mutants.confirmed(2, check, right, target) == ""


@real
def test_a_killed_search_goes_on_where_it_was_and_ends_alike(whole: Whole, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = ("task", "mutants", TASK, "--out", out, "--jobs", "1", "--stage", "2", "--json")
    process = whole.task.start(*args)
    while not units(out) and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"
    before = units(out)
    done = whole.task.call(*args, timeout=SLOW_S)
    assert done.status == 0, done.err
    after = units(out)
    assert 1 <= len(before) < len(after) == len(set(after)) == 3 and after[: len(before)] == before
    assert [r["stage2"] for r in done.json["rows"]] == [r["stage2"] for r in whole.found["rows"]]
    assert done.json["rates"].keys() == {"stage II"}


@real
def test_verifiers_go_on_with_the_streams_that_are_whole(whole: Whole, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    lines = (out / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (out / "journal.jsonl").write_bytes(b"".join(lines[:11]) + lines[11][:40])  # cut while it was appended to
    kept = (out / "streams" / "v6.stream").read_bytes()
    (out / "streams" / "v6.stream").unlink()
    (out / "streams" / "v6.tmp").write_bytes(kept[:500])  # cut while it was drawn
    done = whole.task.call("task", "mutants", TASK, "--out", out, "--jobs", "1", "--json", timeout=SLOW_S)
    assert done.status == 0, done.err
    assert units(out) == units(whole.out) and done.json == whole.found
    assert (out / "streams" / "v6.stream").read_bytes() == kept


@real
def test_what_is_finished_is_not_done_again_and_only_some_can_be_asked_for(whole: Whole) -> None:
    before = units(whole.out)
    done = whole.task.here("task", "mutants", TASK, "--out", whole.out, "--only", "high-bytes", "--stage", "2")
    assert (done.status, units(whole.out)) == (0, before)
    assert "stage II               0 of   1" in done.out and "turn-by-twelve" not in done.out
    wrong = whole.task.here("task", "mutants", TASK, "--out", whole.out, "--only", "high-byte")
    assert wrong.status == 2 and "no such mutant (did you mean 'high-bytes'?)" in wrong.err


@real
def test_results_of_another_batch_or_seed_are_not_mixed(whole: Whole, tmp_path: Path) -> None:
    done = whole.task.here("task", "mutants", TASK, "--out", whole.out, "--seed", "2")
    assert done.status == 2 and "holds results for another seed (1, now 2)" in done.err
    loaded = load_task(whole.task.root, TASK)
    mine = identity(loaded, load_batch(loaded), Request(TASK))
    claim(whole.out, mine)
    other = msgspec.structs.replace(load_batch(loaded), sha256="f" * 64)
    with pytest.raises(UsageError, match="holds results for another mutants"):
        claim(whole.out, identity(loaded, other, Request(TASK)))


@real
def test_a_batch_that_does_not_compile_or_that_changes_state_a_by_its_text_is_refused(toy: Toy, tmp_path: Path) -> None:
    broken = with_batch(toy, tmp_path / "broken", BATCH.replace('new = "12"', 'new = "twelve"'))
    done = broken.here("task", "mutants", TASK, "--out", tmp_path / "out", "--stage", "2")
    assert done.status == 2 and re.search(
        r"batch 'first' doesn't build.*tally\.c:26:\d+: error: .*twelve", done.err, re.S
    )
    always = BATCH.replace('new = "12"', 'new = "(12 + 0 * @)"\nkind = "text"')
    done = with_batch(toy, tmp_path / "always", always).here(
        "task", "mutants", TASK, "--out", tmp_path / "out2", "--stage", "2"
    )
    assert done.status == 2 and re.search(r"with no mutant in force \d+ of 76 checks fail \((turn|files)/", done.err)
    assert units(tmp_path / "out2") == []


def test_a_batch_file_is_read_strictly(toy: Toy, tmp_path: Path) -> None:
    task = with_batch(
        toy, tmp_path / "root", BATCH.replace("title =", "titel =", 1).replace("line = 12", 'line = "12"')
    )
    loaded = load_task(task.root, TASK)
    with pytest.raises(TaskError) as e:
        load_batch(loaded)
    assert "unknown key 'mutant[1].titel' (did you mean 'title'?)" in str(e.value) and "mutant[2].line" in str(e.value)
    (loaded.folder / "mutants" / "first.toml").write_text(BATCH.replace("other-mark", "high-bytes"))
    with pytest.raises(TaskError, match="mutant id 'high-bytes' occurs 2 times"):
        load_batch(loaded)
    (loaded.folder / "mutants" / "second.toml").write_text(BATCH)
    with pytest.raises(UsageError, match=r"holds 2 batches \(first, second\): name one by --batch"):
        load_batch(loaded)
    with pytest.raises(UsageError, match=r"no secnd\.toml \(did you mean 'second'\?\)"):
        load_batch(loaded, "secnd")
    assert [m.id for m in load_batch(loaded, "second").mutants] == ["turn-by-twelve", "high-bytes", "other-mark"]
