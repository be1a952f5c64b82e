"""Stage II through the real executor: three builds of one small program, recorded, replayed, ruled on."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted import LIMITS, make_task

from refactorbench.behaviour.recording import Pass, halved, record, store
from refactorbench.behaviour.replay import replay
from refactorbench.catalog.recordings import Recording, load_recording
from refactorbench.observe.executor import EXECUTOR_VERSION, Executor
from refactorbench.observe.model import Check, InputFile
from refactorbench.observe.spec import find_library
from refactorbench.outcome import Status
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import WorkerSpec

SOURCE = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int c, n = 0;
  FILE *in = fopen("in", "r"), *out = fopen("out", "w");
  if (!in) { fprintf(stderr, "tool: can't open 'in'\n"); return 3; }
  while ((c = getc(in)) != EOF) putc(c ^ 1, out), n++;
#ifdef BUG
  if (n == 7) n = 8;
#endif
#ifdef FLAKY
  FILE *u = fopen("/dev/urandom", "r");
  if (n == 7 && getc(u) < 128) n = 8;
#endif
  if (argc > 1 && !strcmp(argv[1], "pid")) printf("%p ", (void *)&n);
  printf("%d\n", n);
  return n % 3;
}
"""
FLAGS = {"state-a": ["-O0"], "other": ["-O2"], "bug": ["-DBUG"], "flaky": ["-DFLAKY"]}

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("bwrap")), reason="builds with gcc, runs in bubblewrap"
)


def checks() -> Iterator[Check]:
    for i in range(12):
        yield Check(f"m/{i}", "m", "process", "bin/tool", (b"tool",), files=(InputFile(b"in", b"x" * i),))
        yield Check(f"n/{i}", "n", "process", "bin/tool", (b"other", b"x" * i), files=(InputFile(b"in", b"y" * i),))
    yield Check("n/address", "n", "process", "bin/tool", (b"tool", b"pid"), files=(InputFile(b"in", b"z"),))
    yield Check("n/missing", "n", "process", "bin/tool", (b"tool",))
    yield Check("tree/entry", "tree", "tree", "", (b"entry", b"bin/tool"))
    yield Check("tree/elf", "tree", "tree", "", (b"elf", b"bin/tool", b"machine", b"stack"))


class Bench:
    def __init__(self, root: Path) -> None:
        self.root, self.sandbox = root, BubblewrapSandbox()
        (root / "tool.c").write_text(SOURCE)
        for name, flags in FLAGS.items():
            (root / name / "bin").mkdir(parents=True)
            subprocess.run(["gcc", *flags, "-o", root / name / "bin/tool", root / "tool.c"], check=True)
        self.libraries = tuple(find_library(n) for n in ("libc.so.6", "ld-linux-x86-64.so.2"))

    def open(self, name: str, limits: object = LIMITS) -> Executor:
        return Executor(self.sandbox, WorkerSpec(self.root / name, self.libraries, limits))  # type: ignore[arg-type]

    def record(self) -> Recording:
        passes = {
            "state-a": Pass(lambda: self.open("state-a"), jobs=2),
            "other-build": Pass(lambda: self.open("other"), "reversed", 2),
            "half-limits": Pass(lambda: self.open("state-a", halved(LIMITS)), "shuffled", 2),
        }
        loaded = make_task(self.root)
        recorded = record(checks(), passes, limits=LIMITS, seed=1, allowed_rules=("printed-addresses",))
        store(loaded, recorded, executor=EXECUTOR_VERSION, seed=1, coverage={})
        return load_recording(loaded, EXECUTOR_VERSION)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def recording(bench: Bench) -> Recording:
    return bench.record()


def test_recording_under_perturbation_needs_one_rule_and_drops_nothing(recording: Recording) -> None:
    assert recording.total == 28 and recording.manifest.dropped == {} and recording.warnings == ()
    assert recording.manifest.rules == {"printed-addresses": 1}
    answers = {r.check.id: r.observation for m in recording.manifest.modules for r in recording.rows(m.id)}
    assert answers["m/7"].stdout == b"7\n" and answers["m/7"].code == 1
    assert answers["n/missing"].code == 3 and answers["tree/entry"].stdout == b"kind file\nmode 0755\n"


@pytest.mark.parametrize("name", ["state-a", "other"])
def test_state_a_and_its_other_build_replay_at_a_hundred_percent(bench: Bench, recording: Recording, name: str) -> None:
    result = replay(recording, lambda: bench.open(name), lambda: bench.open("state-a"), jobs=2)
    assert result.verdict() == (True, "all 28 recorded checks passed") and result.results == ()


def test_a_bug_fails_exactly_its_checks_and_reads_well(bench: Bench, recording: Recording) -> None:
    result = replay(recording, lambda: bench.open("bug"), lambda: bench.open("state-a"), jobs=2)
    assert {r.id: r.outcome.status for r in result.results} == {"m/7": Status.FAIL, "n/7": Status.FAIL}
    assert result.results[0].difference == "code: expected 1, got 2\nalso differs: stdout"
    assert result.verdict() == (False, "2 of 28 recorded checks failed")


def test_a_coin_flip_is_nondeterministic_or_was_never_seen(bench: Bench, recording: Recording) -> None:
    result = replay(recording, lambda: bench.open("flaky"), lambda: bench.open("state-a"), jobs=2)
    assert {r.id for r in result.results} <= {"m/7", "n/7"}
    assert {r.outcome.status for r in result.results} <= {Status.NONDETERMINISTIC}
