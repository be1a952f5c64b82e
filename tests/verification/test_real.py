"""One hunt on two small real products in the real sandbox, up to a reproducer that tells them apart."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from refactorbench.outcome import Status
from refactorbench.verification.bench import BenchSpec
from refactorbench.verification.broken import broken_product
from refactorbench.verification.model import VerifierResult
from refactorbench.verification.reproducer import write
from refactorbench.verification.stage import run_verifier
from verification.products import LIMITS, plan

SOURCE = r"""
#include <ctype.h>
#include <stdio.h>
int main(void) {
  int c, seen = 0;
  FILE *out = fopen("out.txt", "w");
  if (!out) return 4;
  while ((c = getchar()) != EOF) {
    seen |= c == 'a';
    if (WRONG && c == 'z' && seen) c = '?';
    fputc(toupper(c), out);
  }
  return 0;
}
"""
STRATEGIES = """
from hypothesis import strategies as st
from refactorbench.observe.model import Check
letters = st.lists(st.sampled_from("abyz"), max_size=6).map("".join)
STRATEGIES = {"text": letters.map(lambda s: Check("x", "m", "process", "bin/upper", (b"upper",), s.encode()))}
DENY = {}
"""

pytestmark = pytest.mark.skipif(
    not (shutil.which("bwrap") and shutil.which("gcc")), reason="needs bubblewrap and gcc (`refactorbench doctor` says)"
)


def built(top: Path, wrong: bool) -> Path:
    (top / "bin").mkdir(parents=True)
    argv = ["gcc", "-x", "c", "-static", f"-DWRONG={int(wrong)}", "-o", str(top / "bin/upper"), "-"]
    subprocess.run(argv, input=SOURCE.encode(), check=True)
    return top


def hunt(tmp_path: Path, reference: Path, submission: Path) -> VerifierResult:
    (tmp_path / "t.py").write_text(STRATEGIES)
    with broken_product(reference, tmp_path / "cache") as broken:
        spec = BenchSpec("bubblewrap", str(reference), str(submission), str(broken), LIMITS)
        return run_verifier(plan(module=str(tmp_path / "t.py")), spec, {}, lambda _: None)


def test_the_same_program_survives_and_a_wrong_one_is_found(tmp_path: Path) -> None:
    good, bad = built(tmp_path / "good", False), built(tmp_path / "bad", True)
    assert hunt(tmp_path, good, good).outcome.passed
    result = hunt(tmp_path, good, bad)
    found = result.counterexample
    assert result.outcome.status is Status.FAIL
    assert found is not None
    assert (found.check.stdin, found.signature) == (b"az", "file.data:.txt:changed")
    script = write(found, tmp_path / "reproducer")
    said = [subprocess.run(["sh", script, tree], capture_output=True, check=False).returncode for tree in (good, bad)]
    assert said == [0, 1]
