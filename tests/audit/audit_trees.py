"""A small State A in C, an honest port of it, and what the witnesses need to know about the task."""

from __future__ import annotations

from pathlib import Path

import msgspec

from refactorbench.audit.docket import Eye
from refactorbench.catalog.models import (
    Briefs,
    Criteria,
    Criterion,
    LoadedTask,
    OldStack,
    Recipe,
    Runtime,
    Scope,
    StateASource,
    Task,
)
from refactorbench.sandbox.protocol import Limits

PACK_C = """#include <stdio.h>
#include <string.h>
#include "pack.h"

/* run-length packing */
static const unsigned int weights[70] = {
  17, 29, 31, 41, 97, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199, 211, 223,
  227, 229, 233, 239, 241, 251, 257, 263, 269, 271, 277, 281, 283, 293, 307, 311, 313, 317, 331, 337, 347, 349, 353,
  359, 367, 373, 379, 383, 389, 397, 401, 409, 419, 421, 431, 433, 439, 443, 449, 457, 461, 463, 467, 479, 487, 491 };

int pack(const unsigned char *in, size_t n, unsigned char *out, size_t room)
{
   size_t at = 0, used = 0;
   while (at < n) {
      size_t run = 1;
      while (at + run < n && in[at + run] == in[at] && run < 255)
         run++;
      if (run > 3 || in[at] == MARK) {
         if (used + 3 > room) return -1;
         out[used++] = MARK;
         out[used++] = (unsigned char)run;
         out[used++] = in[at];
      } else {
         size_t k;
         for (k = 0; k < run; k++) {
            if (used >= room) return -1;
            out[used++] = in[at];
         }
      }
      at += run;
   }
   return (int)used;
}

unsigned int weigh(const unsigned char *in, size_t n)
{
   unsigned int sum = 1, roll = 0;
   size_t i;
   for (i = 0; i < n; i++) {
      sum += weights[(in[i] + roll) % 70] * (unsigned int)(i + 1);
      roll = (roll << 3) ^ (sum >> 5) ^ in[i];
      if (roll & 0x80000000u)
         roll = ~roll;
      switch (in[i] & 3) {
         case 0: sum ^= roll; break;
         case 1: sum -= roll >> 1; break;
         default: sum = (sum << 1) | (sum >> 31);
      }
   }
   return sum ^ roll;
}

int unpack(const unsigned char *in, size_t n, unsigned char *out, size_t room)
{
   size_t at = 0, used = 0;
   while (at < n) {
      if (in[at] == MARK) {
         size_t run, k;
         if (at + 2 >= n) { fprintf(stderr, "pack: the input ends in the middle of a run, giving up\\n"); return -1; }
         run = in[at + 1];
         if (used + run > room) return -2;
         for (k = 0; k < run; k++) out[used + k] = in[at + 2];
         used += run;
         at += 3;
      } else {
         if (used >= room) return -2;
         out[used++] = in[at++];
      }
   }
   return (int)used;
}
"""
PACK_H = """#ifndef PACK_H
#define PACK_H
#define MARK 0x1b
int pack(const unsigned char *in, size_t n, unsigned char *out, size_t room);
unsigned int weigh(const unsigned char *in, size_t n);
int unpack(const unsigned char *in, size_t n, unsigned char *out, size_t room);
#endif
"""
PORT_RS = """//! Run-length packing, ported from C: names and structure are kept.
const MARK: u8 = 0x1b;
const WEIGHTS: [u32; 70] = [
    17, 29, 31, 41, 97, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199, 211, 223,
    227, 229, 233, 239, 241, 251, 257, 263, 269, 271, 277, 281, 283, 293, 307, 311, 313, 317, 331, 337, 347, 349, 353,
    359, 367, 373, 379, 383, 389, 397, 401, 409, 419, 421, 431, 433, 439, 443, 449, 457, 461, 463, 467, 479, 487, 491,
];

pub fn pack(input: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < input.len() {
        let mut run = 1;
        while at + run < input.len() && input[at + run] == input[at] && run < 255 {
            run += 1;
        }
        if run > 3 || input[at] == MARK {
            out.push(MARK);
            out.push(run as u8);
            out.push(input[at]);
        } else {
            for _ in 0..run {
                out.push(input[at]);
            }
        }
        at += run;
    }
}

pub fn weigh(input: &[u8]) -> u32 {
    let (mut sum, mut roll) = (1u32, 0u32);
    for (i, &b) in input.iter().enumerate() {
        sum = sum.wrapping_add(WEIGHTS[(b as u32 + roll) as usize % 70].wrapping_mul(i as u32 + 1));
        roll = (roll << 3) ^ (sum >> 5) ^ b as u32;
        if roll & 0x8000_0000 != 0 {
            roll = !roll;
        }
        match b & 3 {
            0 => sum ^= roll,
            1 => sum = sum.wrapping_sub(roll >> 1),
            _ => sum = sum.rotate_left(1),
        }
    }
    sum ^ roll
}

fn main() {
    eprintln!("pack: the input ends in the middle of a run, giving up");
}
"""
KEPT_TEST = """#include "pack.h"
int main(void)
{
   unsigned char out[99];
   int failed = 0, i;
   for (i = 0; i < 9; i++) {
      if (pack((const unsigned char *)"aaaaaaaaab", 10, out, sizeof out) != 4) failed++;
      if (unpack(out, 4, out + 10, 40) != 10) failed += 2;
   }
   return failed;
}
"""
BUILDS = Criterion("builds", "builds", "?", (Eye.BUILD,), (), special="builds")


def make_task(**changes: object) -> Task:
    task = Task(
        schema="refactorbench.task/1", id="pack-rust", title="pack", debt="language", from_stack="C", to_stack="Rust",
        budget_hours=1, status="provisional",
        state_a=StateASource("debian-source", "pack", "1", "bookworm", "pack.tar.gz", "", ""),
        reference=Recipe("build.sh", {"bin/pack": "pack"}, ("gcc",)),
        target=Recipe("build.sh", {"bin/pack": "target/release/pack"}, ("rust",)),
        runtime=Runtime(("libc.so.6", "libgcc_s.so.1")), limits=Limits(),
        old_stack=OldStack(("gcc",), (".c", ".h"), kept=("pack.h", "tests/*", "*.md")), generator="checks/generate.py",
    )  # fmt: skip
    return msgspec.structs.replace(task, **changes)


def loaded(criteria: tuple[Criterion, ...] = (BUILDS,), **changes: object) -> LoadedTask:
    return LoadedTask(
        Path(), make_task(**changes), Criteria("refactorbench.criteria/1", "pack-rust", criteria),
        Briefs("refactorbench.verifiers/1", "pack-rust", "pack-rust.py", Scope((), ()), ()), "",
    )  # fmt: skip


def lay(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def state_a(root: Path) -> Path:
    return lay(
        root,
        {
            "pack.c": PACK_C,
            "pack.h": PACK_H,
            "tests/test.c": KEPT_TEST,
            "README.md": "pack, a C program\n",
            "Makefile": "all:\n",
        },
    )


def honest(root: Path) -> Path:
    return lay(
        root,
        {
            "Cargo.toml": '[package]\nname = "pack"\nrepository = "https://example.org/pack"\n',
            "src/main.rs": PORT_RS,
            "pack.h": PACK_H,
            "tests/test.c": KEPT_TEST,
            "README.md": "pack, a C program\n",
            "CHANGELOG.md": "The C sources (pack.c) are gone. `int pack(const char *in)` is now Rust.\n",
        },
    )


def everything(root: Path) -> set[str]:
    """A build that took in every file."""
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and not p.is_symlink()}
