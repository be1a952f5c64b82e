"""Coverage of State A: which lines checks reach and which branches they take, through the real build, sandbox and gcov."""

import io
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from refactorbench.admission import coverage, recording
from refactorbench.admission.coverage import Survey, bar, instrument, survey
from refactorbench.admission.coverage_runner import branches_of, lines_of, merged
from refactorbench.admission.recording import RecordSummary, record_coverage, unlike, variants
from refactorbench.catalog.models import (
    Admission,
    Briefs,
    Criteria,
    Drivers,
    LoadedTask,
    Manifest,
    OldStack,
    Recipe,
    Runtime,
    Scope,
    StateASource,
    Task,
    Variant,
)
from refactorbench.catalog.recordings import load_recording, write_recording
from refactorbench.errors import HarnessError, TaskError, ToolMissing, UsageError
from refactorbench.observe.model import Check, InputFile, Observation
from refactorbench.progress import Progress
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import Limits

TOOL = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "part.h"
int main(int argc, char **argv) {
  struct stat s, l;
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "abort"))
    abort(); /* abort */
  if (!strcmp(what, "hang"))
    pause(); /* hang */
  if (!strcmp(argv[0], "other"))
    return 3; /* argv0 */
  if (getenv("SEEN") && !strcmp(getenv("HOME"), "/work"))
    return 4; /* environment */
  if (!stat("/work/d/in", &s) && s.st_mode == (S_IFREG | 0640) && s.st_mtime == 1000000000 && s.st_nlink == 2)
    errno = 0; /* file */
  if (!lstat("link", &l) && S_ISLNK(l.st_mode) && !stat("link", &s) && S_ISFIFO(s.st_mode))
    errno = 0; /* link */
  if (!stat("d", &s) && open("d/new", O_CREAT | O_WRONLY, 0644) < 0 && errno == EACCES)
    errno = 0; /* folder */
  if (fcntl(1, F_GETFD) < 0)
    return 5; /* stdout closed */
  if (puts("text") < 0 || fflush(stdout))
    return 6; /* stdout full */
  if (lseek(0, 0, SEEK_CUR) == 0)
    return 7; /* stdin file */
  if (fcntl(0, F_GETFD) < 0)
    return 8; /* stdin closed */
  if (!access("left", F_OK))
    return 9; /* left over */
  close(open("left", O_CREAT | O_WRONLY, 0));
  mkdir("kept", 0);
  return part(getchar());
}
"""
PART = r"""
#include "part.h"
int part(int c) {
  if (c == 'p')
    return twice(5); /* program */
  if (c == 'd')
    return twice(6); /* driver */
  if (c == 'b')
    return 13; /* build */
  return 0;
}
"""
HEADER = "int part(int c);\nstatic inline int twice(int n) {\n  return 2 * n; /* inline */\n}\n"
DRIVER = '#include <stdio.h>\n#include "part.h"\nint main(void) { return part(getchar()); }\n'
GEN = "int main(void) { return 0; }\n"
RECIPE = """set -e
gcc $CFLAGS -o gen gen.c && ./gen
gcc $CFLAGS $SHARED -fPIC -c part.c && gcc $CFLAGS -shared -o libpart.so part.o && rm part.o
gcc $CFLAGS -c part.c && gcc $CFLAGS -c tool.c && gcc $CFLAGS -o tool tool.o part.o
echo b | ./tool && exit 1 || test $? = 13
rmdir kept
"""
ENV = {"CFLAGS": "-O0 --coverage", "SHARED": "-dumpdir shared-"}
OUTPUTS = {"bin/tool": "tool", "lib/libpart.so": "libpart.so", "include/part.h": "part.h"}
INPUTS = (
    InputFile(b"d", mode=0o555, kind="dir"),
    InputFile(b"not/named/in"),
    InputFile(b"d/in", b"\xff", 0o640),
    InputFile(b"same", target=b"d/in"),
    InputFile(b"fifo", kind="fifo"),
    InputFile(b"link", kind="link", target=b"fifo"),
)

real = pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "bwrap", "/usr/bin/gcov", "/usr/bin/python3"))),
    reason="builds with gcc, runs in bubblewrap, counts with gcov",
)


def check(id: str, *argv: bytes, program: str = "bin/tool", **more: object) -> Check:
    return Check(id, "m", "process", program, argv or (b"tool",), **more)  # type: ignore[arg-type]


CHECKS = {
    "program": check("program", stdin=b"p"),
    "driver": check("driver", program="drivers/use", stdin=b"d"),
    "abort": check("abort", b"tool", b"abort"),
    "hang": check("hang", b"tool", b"hang"),
    "argv0": check("argv0", b"other"),
    "environment": check("environment", env=((b"SEEN", b"1"),)),
    "inputs": check("inputs", files=INPUTS),
    "stdout closed": check("stdout closed", stdout="closed"),
    "stdout full": check("stdout full", stdout="full"),
    "stdin file": check("stdin file", stdin=b"p", stdin_kind="file"),
    "stdin closed": check("stdin closed", stdin_kind="closed"),
    "again": check("again"),
    "tree": Check("tree", "m", "tree", "", (b"entry", b"bin/tool")),
}


MANIFEST = Manifest("refactorbench.recording/1", "t", "a" * 64, "1", 7, (), ("a", "b", "c"), {}, {}, {})


def observed(ended: str, code: int) -> Observation:
    return Observation(ended, code, b"", b"", ())  # type: ignore[arg-type]


class Bench:
    def __init__(self, root: Path) -> None:
        self.root, self.state_a, self.sandbox = root, root / "a", BubblewrapSandbox()
        source = StateASource("debian-source", "p", "1", "bookworm", "p.tar.gz", "0" * 64, "a" * 64)
        recipe = Recipe("build.sh", OUTPUTS, ("gcc",), wall_s=120)
        task = Task(
            "refactorbench.task/1", "t", "T", "language", "C", "Rust", 1.0, "admitted", source, recipe, recipe,
            Runtime(()), Limits(wall_s=1.5), OldStack(("gcc",), (".c",)), "checks/generate.py",
            drivers=Drivers(("use.c",), "include/part.h", "lib/libpart.so"), coverage_env=ENV,
        )  # fmt: skip
        criteria = Criteria("refactorbench.criteria/1", "t", ())
        briefs = Briefs("refactorbench.verifiers/1", "t", "t.py", Scope((), ()), ())
        self.loaded = LoadedTask(root, task, criteria, briefs, "")
        self.state_a.mkdir()
        self.loaded.folder.mkdir(parents=True)
        for name, text in (("tool.c", TOOL), ("part.c", PART), ("part.h", HEADER), ("gen.c", GEN)):
            (self.state_a / name).write_text(text)
        (self.loaded.folder / "build.sh").write_text(RECIPE)
        (self.loaded.folder / "use.c").write_text(DRIVER)

    def with_env(self, env: dict[str, str]) -> LoadedTask:
        return msgspec.structs.replace(self.loaded, task=msgspec.structs.replace(self.loaded.task, coverage_env=env))

    def survey(self, *names: str, env: dict[str, str] = ENV) -> Survey:
        loaded = self.with_env(env)
        built = instrument(loaded, self.state_a, self.sandbox, self.root / "cache", self.root / "work")
        return survey(built, loaded, self.sandbox, [CHECKS[name] for name in names])


def marks(found: Survey) -> dict[str, bool]:
    """Comment behind a line -> whether that line was hit."""
    texts = {"tool.c": TOOL, "part.c": PART, "part.h": HEADER}
    hit = {(name, line): bool(h) for name, lines in found.files.items() for line, _, h in lines}
    return {
        text.split("/*")[1].strip(" */"): hit[name, number]
        for name, source in texts.items()
        for number, text in enumerate(source.split("\n"), 1)
        if "/*" in text
    }


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("coverage"))


@pytest.fixture(scope="module")
def everything(bench: Bench) -> Survey:
    return bench.survey(*CHECKS)


@real
def test_each_check_reaches_its_own_line_and_no_other_line_is_counted(everything: Survey) -> None:
    expected = dict.fromkeys(("program", "driver", "inline", "argv0", "environment", "file", "link", "folder"), True)
    expected |= dict.fromkeys(("stdout closed", "stdout full", "stdin file", "stdin closed"), True)
    expected |= {"abort": False, "hang": False, "left over": False, "build": False}
    assert marks(everything) == expected


@real
def test_a_line_is_missed_when_its_check_is_not_run(bench: Bench) -> None:
    found = marks(bench.survey("program", "again"))
    assert found["program"] and found["inline"]
    assert not any(hit for name, hit in found.items() if name not in ("program", "inline"))


@real
def test_files_of_the_product_count_and_the_builds_own_tools_do_not(everything: Survey) -> None:
    assert sorted(everything.files) == ["part.c", "part.h", "tool.c"]
    shares = everything.shares()
    assert shares["part.h"] == 1.0 and 0.5 < shares["part.c"] < 1.0 and 0.5 < shares["total"] < 1.0


@real
def test_how_each_check_ended_is_told(everything: Survey) -> None:
    ends = {"program": 10, "driver": 12, "abort": -6, "hang": None, "argv0": 3, "environment": 4, "inputs": 0}
    ends |= {"stdout closed": 5, "stdout full": 6, "stdin file": 7, "stdin closed": 8, "again": 0}
    assert everything.ends == ends


@real
def test_two_objects_that_share_a_data_file_are_refused(bench: Bench) -> None:
    with pytest.raises(HarnessError, match=r"check driver: two objects count into /build/tree/part\.gcda"):
        bench.survey("driver", "program", env={**ENV, "SHARED": ""})
    assert marks(bench.survey("driver", "program"))["driver"]


@real
def test_counts_that_cannot_be_written_are_no_measurement(bench: Bench) -> None:
    built = instrument(bench.loaded, bench.state_a, bench.sandbox, bench.root / "cache", bench.root / "work")
    (built.room.tree / "tool.gcda").mkdir()
    with pytest.raises(HarnessError, match=r"check program: profiling:/build/tree/tool\.gcda"):
        survey(built, bench.loaded, bench.sandbox, [CHECKS["program"]])


@real
def test_a_build_without_coverage_is_the_tasks_fault_and_a_failing_one_is_said(bench: Bench) -> None:
    with pytest.raises(TaskError, match="compiled with --coverage"):
        bench.survey("program", env={"CFLAGS": "-O0", "SHARED": ""})
    with pytest.raises(HarnessError, match=r"doesn't build by build.sh with coverage_env .*-fno-such-option"):
        bench.survey("program", env={"CFLAGS": "-fno-such-option", "SHARED": ""})


@real
def test_no_count_at_all_is_no_measurement(bench: Bench) -> None:
    with pytest.raises(HarnessError, match="none left a count"):
        bench.survey("tree")


@real
def test_a_missing_gcov_is_named_with_its_package(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "TOOLS", {Path("/usr/bin/no-gcov"): "gcc"})
    with pytest.raises(ToolMissing, match=r"/usr/bin/no-gcov isn't there.*apt-get install gcc"):
        bench.survey("program")


@real
def test_a_branch_is_taken_by_the_check_that_goes_that_way(bench: Bench, everything: Survey) -> None:
    def of(found: Survey, file: str, text: str, mark: str) -> tuple[int, int]:
        number = next(n for n, line in enumerate(text.split("\n"), 1) if mark in line)
        return next((total, taken) for n, _, total, taken in found.branches[file] if n == number)

    alone = bench.survey("program")
    assert of(alone, "part.c", PART, "'p'") == (2, 1) and of(everything, "part.c", PART, "'p'") == (2, 2)
    assert of(everything, "part.c", PART, "'b'") == (2, 1)
    assert "part.h" not in everything.branches
    assert everything.branch_shares()["total"] > alone.branch_shares()["total"] > 0
    assert [m for m in everything.untaken() if m.startswith("part.c")] == [
        "part.c part: 1 of 6 branches never taken, in 8"
    ]


@real
def test_measuring_again_rewrites_the_coverage_and_nothing_else(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    head = msgspec.structs.replace(MANIFEST, coverage={"x.c": 1.0})
    rows = [(CHECKS["program"], observed("exit", 10)), (CHECKS["argv0"], observed("exit", 0))]
    before = write_recording(bench.loaded.recording, head, rows)
    monkeypatch.setattr(recording, "fetch_state_a", lambda *_: bench.state_a)

    def measure(env: dict[str, str]) -> RecordSummary:
        monkeypatch.setattr(recording, "load_task", lambda *_: bench.with_env(env))
        return record_coverage(bench.root, "t", bench.root / "cache", Progress(io.StringIO()))

    with pytest.raises(UsageError, match=r"--coverage-only: .*task\.toml has no coverage_env"):
        measure({})
    assert load_recording(bench.loaded).manifest == before
    summary = measure(ENV)
    after = load_recording(bench.loaded).manifest
    assert after == summary.manifest and after.coverage["total"] > 0.3 and 0 < after.branches["total"] < 1
    assert msgspec.structs.replace(after, coverage=before.coverage, branches={}) == before
    assert summary.unlike == ("argv0",)
    said = Path(summary.holes).read_text()
    assert "tool.c main: " in said and "branches never taken" in said


def document(file: str, *lines: tuple[int, str, int], branches: Mapping[int, list[int]] | None = None) -> Any:
    of = branches or {}
    listed = [
        {"line_number": n, "function_name": f, "count": c, "branches": [{"count": k} for k in of.get(n, [])]}
        for n, f, c in lines
    ]
    return {"current_working_directory": "/t/sub", "files": [{"file": file, "lines": listed}]}


def test_a_line_counts_once_and_as_hit_if_any_object_hit_it() -> None:
    found = [
        document("a.c", (1, "f<int>", 0), (1, "f<long>", 4), (2, "f", 0)),
        document("../sub/a.c", (2, "f", 0), (3, "g", 1)),
    ]
    assert lines_of(merged(found, "/t")) == {"sub/a.c": [(1, "f<int>", 1), (2, "f", 0), (3, "g", 1)]}


def test_a_branch_counts_once_and_as_taken_if_any_object_took_it() -> None:
    found = [
        document("a.c", (1, "f", 1), (2, "f", 1), branches={1: [3, 0, 0], 2: [0, 0]}),
        document("a.c", (1, "f", 1), (3, "g", 0), branches={1: [0, 0, 1, 1]}),
        document("b.c", (1, "h", 1)),
    ]
    assert branches_of(merged(found, "/t")) == {"sub/a.c": [(1, "f", 4, 3), (2, "f", 2, 0)]}


def test_sources_outside_the_tree_and_files_without_lines_are_left_out() -> None:
    found = [document("/usr/include/x.h", (1, "f", 1)), document("/tree/x.c", (1, "f", 1)), document("b.c")]
    assert merged(found, "/t") == {}


def test_branch_shares_weigh_files_by_branches_and_what_is_missed_most_stands_first() -> None:
    branches = {"a.c": ((1, "f", 2, 2), (4, "f", 4, 1), (9, "g", 2, 2)), "b.c": ((3, "h", 2, 0), (5, "h", 4, 2))}
    found = Survey({"a.c": ((1, "f", 1),), "b.c": ((3, "h", 1),)}, {}, branches)
    assert found.branch_shares() == {"a.c": 0.625, "b.c": 0.3333, "total": 0.5}
    assert list(found.untaken()) == [
        "b.c h: 4 of 6 branches never taken, in 3, 5",
        "a.c f: 3 of 6 branches never taken, in 4",
    ]
    assert Survey(found.files, {}).branch_shares() == {} == dict.fromkeys(Survey(found.files, {}).untaken())


@pytest.mark.parametrize(
    ("lines", "branches", "ok", "said"),
    [
        ({"total": 0.9}, {"total": 0.8}, True, "lines 90.0% (at least 90% is asked for); branches 80.0%"),
        ({"total": 0.8999}, {"total": 0.8}, False, "lines 90.0% (at least 90%"),
        ({"total": 0.95}, {"total": 0.7999}, False, "add checks"),
        ({"total": 0.95}, {}, False, "branches not measured"),
        ({}, {}, False, "lines not measured"),
    ],
)
def test_the_bars_are_held(lines: dict[str, float], branches: dict[str, float], ok: bool, said: str) -> None:
    manifest = msgspec.structs.replace(MANIFEST, coverage=lines, branches=branches)
    held, text = bar(Admission(0.9, 0.8), manifest)
    assert held is ok and said in text
    free, text = bar(Admission(), manifest)  # a task without bars
    assert free and "asked for" not in text


def test_a_manifest_written_before_branches_were_counted_loads() -> None:
    old = msgspec.to_builtins(MANIFEST)
    del old["branches"]
    assert msgspec.convert(old, Manifest).branches == {}


def test_an_optional_variant_without_its_toolchain_is_told_and_any_other_is_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(names: tuple[str, ...]) -> None:
        raise ToolMissing(f"{names[0]} isn't here")

    monkeypatch.setattr(recording, "find", find)
    said = io.StringIO()

    def build(optional: bool) -> dict[str, object]:
        task = msgspec.structs.replace(bench.loaded.task, variants=(Variant("other", {}, ("clang",), optional),))
        loaded = msgspec.structs.replace(bench.loaded, task=task)
        return variants(loaded, bench.state_a, bench.sandbox, bench.root, bench.root, Progress(said))  # type: ignore[return-value]

    assert build(True) == {}
    assert said.getvalue() == "variant other is left out, and what moves under it with it: clang isn't here\n"
    with pytest.raises(ToolMissing, match="variant other of t can't be built: clang isn't here"):
        build(False)


def test_holes_are_ranges_over_what_is_not_executable() -> None:
    lines = ((1, "f", 1), (3, "f", 0), (7, "f", 0), (8, "f", 1), (9, "f", 0), (12, "g", 0), (20, "g", 0), (30, "h", 1))
    assert list(Survey({"a.c": lines}, {}).holes()) == ["a.c f: 3-7, 9", "a.c g: 12-20"]


def test_shares_are_of_lines_and_the_total_weighs_files_by_them() -> None:
    one, two = tuple((n, "f", 1) for n in range(3)), ((1, "g", 0),)
    assert Survey({"a.c": one, "b.c": two}, {}).shares() == {"a.c": 1.0, "b.c": 0.0, "total": 0.75}


def test_a_check_that_ended_otherwise_than_recorded_is_told() -> None:
    rows = [(check("a"), observed("exit", 3)), (check("b"), observed("signal", 6)), (check("c"), observed("exit", 0))]
    rows += [(check("d"), observed("exit", 0)), (CHECKS["tree"], observed("exit", 0))]
    assert unlike(rows, Survey({}, {"a": 3, "b": -6, "c": 0, "d": 0})) == ()
    assert unlike(rows, Survey({}, {"a": -3, "b": 6, "c": None, "d": 0})) == ("a", "b", "c")


def test_the_summary_says_what_was_measured_or_that_nothing_was() -> None:
    assert "not measured, since task.toml has no coverage_env" in RecordSummary(MANIFEST).text()
    measured = msgspec.structs.replace(
        MANIFEST, coverage={"a.c": 0.5, "b.h": 1.0, "total": 0.5}, branches={"a.c": 0.25, "total": 0.25}
    )
    text = RecordSummary(measured, "holes.txt", ("m/7",)).text()
    assert "50.0% of lines, 25.0% branches; not reached: holes.txt" in text
    assert " 50.0%  25.0% a.c" in text and "100.0%     no b.h" in text
    assert "1 checks ended otherwise" in text and "m/7" in text and "not measured" not in text
