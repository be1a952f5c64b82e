"""What shows through a translation line by line, and doesn't through an honest port."""

from __future__ import annotations

from pathlib import Path

import audit_trees as trees
import pytest

from refactorbench.audit.docket import Strength
from refactorbench.audit.kinds import KINDS
from refactorbench.audit.witnesses import languages, resemblance, source
from refactorbench.audit.witnesses.resemblance import Resemblance

# State A's pack.c line by line, renamed: pointers, casts and all.
LINE_BY_LINE = """
pub unsafe fn a(mut b: *const u8, mut c: usize, mut d: *mut u8, mut e: usize) -> i32 {
    let mut f: usize = 0;
    let mut g: usize = 0;
    while f < c {
        let mut h: usize = 1;
        while f + h < c && *b.offset((f + h) as isize) == *b.offset(f as isize) && h < 255 {
            h += 1;
        }
        if h > 3 || *b.offset(f as isize) == MARK {
            if g + 3 > e {
                return -1;
            }
            *d.offset({ let i = g; g += 1; i } as isize) = MARK;
            *d.offset({ let i = g; g += 1; i } as isize) = h as u8;
            *d.offset({ let i = g; g += 1; i } as isize) = *b.offset(f as isize);
        } else {
            let mut k: usize;
            k = 0;
            while k < h {
                if g >= e {
                    return -1;
                }
                *d.offset({ let i = g; g += 1; i } as isize) = *b.offset(f as isize);
                k += 1;
            }
        }
        f += h;
    }
    return g as i32;
}
"""
C = b"""
static int walk(struct list *at, int n)
{
   int i, sum; unsigned char *p;
   sum = 0;
   for (i = 0; i < n; i++) {
      p = at->rows[i].start;
      while (*p != 0 && sum < LIMIT) { sum += (*p++ << 3) ^ i; if (sum & 1) sum--; }
      if (sum == LIMIT) return -1;
   }
   return sum;
}
"""
RUST = b"""
unsafe fn other(mut list: *mut List, mut count: i32) -> i32 {
    let mut k: i32;
    let mut total: i32;
    total = 0;
    k = 0;
    while k < count {
        q = (*list).lines[k as usize].first;
        while *q != 0 && total < 900 {
            total += ((*q as i32) << 3) ^ k;
            if total & 1 != 0 {
                total -= 1;
            }
        }
        if total == 900 {
            return -1;
        }
        k += 1;
    }
    return total;
}
"""
HONEST = b"""
fn other(list: &List) -> Option<i32> {
    list.lines.iter().enumerate().try_fold(0, |total, (k, line)| {
        let sum = line.bytes().take_while(|&b| b != 0).fold(total, |t, b| step(t, b, k));
        (sum < LIMIT).then(|| sum)
    })
}
"""


@pytest.fixture
def likeness(monkeypatch: pytest.MonkeyPatch) -> Resemblance:
    monkeypatch.setattr(resemblance, "FEWEST_GRAMS", 20)
    monkeypatch.setattr(resemblance, "FEWEST_FUNCTIONS", 1)
    return Resemblance([("walk.c", f) for f in languages.c_functions(C)])


def test_names_layout_types_and_casts_hide_no_translation(likeness: Resemblance) -> None:
    found = likeness.find([("src/lib.rs", HONEST), ("src/walk.rs", RUST)])
    assert found is not None
    assert (found.functions, found.path) == (("walk of walk.c",), "src/walk.rs")


def test_another_shape_of_the_same_is_no_translation(likeness: Resemblance) -> None:
    assert likeness.find([("src/lib.rs", HONEST)]) is None


def test_few_alike_among_many_are_chance(likeness: Resemblance, monkeypatch: pytest.MonkeyPatch) -> None:
    likeness.known += [(f"f{i}", frozenset(range(100 * i, 100 * i + 99))) for i in range(40)]
    assert likeness.find([("src/walk.rs", RUST)]) is None
    monkeypatch.setattr(resemblance, "LEAST", 0)
    assert likeness.find([("src/walk.rs", RUST)]) is not None


def test_long_lists_of_numbers_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def note(text: bytes) -> list[languages.Token]:
        read.append(text)
        return []

    monkeypatch.setattr(resemblance, "tokens", note)
    Resemblance([]).find([("t.rs", b"static T: [u32; 9] = [" + b"0x12345678, " * 9999 + b"];\nfn f(a: [u8; 2]) {}\n")])
    assert read == [b"static T: [u32; 9] = [0,];\nfn f(a: [u8; 2]) {}\n"]


def test_it_is_a_lead_on_the_file_that_holds_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resemblance, "FEWEST_FUNCTIONS", 1)
    state_a, tree = trees.state_a(tmp_path / "state-a"), trees.honest(tmp_path / "submission")

    def seen() -> list[str]:
        report = source.witness(tree, state_a, trees.loaded(), None, None)
        return [f.anchor.path for f in report.findings if f.kind == "resembles-state-a"]  # type: ignore[union-attr]

    assert seen() == []
    (tree / "src" / "carried.rs").write_text(LINE_BY_LINE)
    assert seen() == ["src/carried.rs"]
    assert KINDS["resembles-state-a"].strength is Strength.LEAD
