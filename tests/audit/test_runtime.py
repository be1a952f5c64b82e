"""Traces written by hand, line by line as strace writes them, and the sandbox's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import audit_trees as trees
import pytest

from refactorbench.audit.docket import EyeReport, StatAnchor, Strength, TraceAnchor
from refactorbench.audit.ground import Evidence, why_refused
from refactorbench.audit.witnesses import runtime
from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check
from refactorbench.observe.spec import find_library
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import Limits, WorkerSpec

WORKER, PROGRAM, CHILD = 10, 21, 22
NO = "= -1 ENOENT (No such file or directory)"
REFUSED = "= -1 EPERM (Operation not permitted)"
LIBC = "3</usr/lib/libc.so.6>"
AT = "openat(AT_FDCWD</work>, "
START = [
    (PROGRAM, 'execve("/product/bin/pack", ["pack", "-d"], 0x7ffe0 /* 4 vars */) = 0'),
    (PROGRAM, f'{AT}"/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) {NO}'),
    (PROGRAM, f'{AT}"/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY|O_CLOEXEC) = {LIBC}'),
    (PROGRAM, f"mmap(0x7f00, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_DENYWRITE, {LIBC}, 0) = 0x7f00"),
    (PROGRAM, "mprotect(0x7f00, 4096, PROT_READ) = 0"),
    (PROGRAM, "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f10"),
]  # fmt: skip
LIBRARY = [  # the loader maps a product library's code once
    (PROGRAM, "mmap(0x7f40, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE, 3</product/lib/libx.so>, 0x1000) = 0x7f40"),
]
RUST = [
    (PROGRAM, 'openat(AT_FDCWD</work>, "/proc/self/maps", O_RDONLY|O_CLOEXEC) = 3</proc/21/maps>'),
    (PROGRAM, 'openat(AT_FDCWD</work>, "/proc/self/exe", O_RDONLY) = 3</product/bin/pack>'),
    (PROGRAM, f'{AT}"/sys/fs/cgroup/cgroup.controllers", O_RDONLY) {NO}'),
    (PROGRAM, f'{AT}"/usr/lib/debug/.build-id/ab/cd.debug", O_RDONLY) {NO}'),
    (PROGRAM, 'openat(AT_FDCWD</work>, "in.txt", O_RDONLY|O_CLOEXEC) = 3</work/in.txt>'),
    (PROGRAM, 'openat(AT_FDCWD</work>, "out.so", O_WRONLY|O_CREAT, 0644) = 4</work/out.so>'),
    (PROGRAM, "clone3({flags=CLONE_VM|CLONE_THREAD, exit_signal=0}, 88) = 22"),
    (CHILD, "mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_STACK, -1, 0) = 0x7f20"),
]  # fmt: skip
ACTS = {
    "a shell": ("runtime-exec", f'execve("/bin/sh", ["sh", "-c", "bzip2"], 0x7ffe0 /* 4 vars */) {NO}'),
    "a program beside it": ("runtime-exec", 'execve("/product/lib/real", ["real"], 0x7ffe0 /* 4 vars */) = 0'),
    "a relative program": ("runtime-exec", f'execve("helper", ["helper"], 0x7ffe0 /* 4 vars */) {NO}'),
    "by descriptor": ("runtime-exec", f'execveat(5</memfd:x>(deleted), "", ["x"], 0x7f, AT_EMPTY_PATH) {NO}'),
    "memfd": ("runtime-exec-memory", 'memfd_create("x", MFD_CLOEXEC) = -1 EPERM (Operation not permitted)'),
    "anonymous code": (
        "runtime-exec-memory", "mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = -1 EPERM (x)",
    ),
    "writable code": (
        "runtime-exec-memory", f"mmap(NULL, 4096, PROT_WRITE|PROT_EXEC, MAP_PRIVATE, 3</product/x>, 0) {REFUSED}",
    ),
    "its own data as code": (
        "runtime-exec-memory",
        "mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE, 3</product/bin/pack>, 0x2000) = 0x7f30",
    ),
    "late code": ("runtime-exec-memory", "mprotect(0x7f10, 4096, PROT_READ|PROT_EXEC) = -1 EPERM (x)"),
    "code from scratch": (
        "runtime-exec-memory", "mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE, 3</work/a>, 0) = -1 EPERM (x)",
    ),
    "another library": (
        "runtime-foreign-library", f'{AT}"/lib/x86_64-linux-gnu/libbz2.so.1.0", O_RDONLY|O_CLOEXEC) {NO}',
    ),
    "an interpreter, to read": ("runtime-foreign-library", f'open("/usr/bin/python3", O_RDONLY) {NO}'),
    "up and out": ("runtime-foreign-library", f'openat(AT_FDCWD</work>, "../usr/bin/bzip2", O_RDONLY) {NO}'),
}  # fmt: skip
LEADS = {
    "another file": ("runtime-open", f'openat(AT_FDCWD</work>, "/etc/passwd", O_RDONLY) {NO}'),
    "another process": ("runtime-open", f'openat(AT_FDCWD</work>, "/proc/1/mem", O_RDWR) {NO}'),
    "who traces it": ("runtime-probe", f'{AT}"/proc/self/status", O_RDONLY|O_CLOEXEC) = 3</proc/21/status>'),
    "ptrace": ("runtime-probe", "ptrace(PTRACE_ATTACH, 1) = -1 EPERM (Operation not permitted)"),
    "network": (
        "runtime-network",
        f'connect(3<socket:[1]>, {{sa_family=AF_INET, sin_addr=inet_addr("1.1.1.1")}}, 16) {REFUSED}',
    ),
    "the C library's own parts": ("runtime-open", f'openat(AT_FDCWD</work>, "/lib/libnss_files.so.2", O_RDONLY) {NO}'),
}  # fmt: skip


def write(path: Path, *checks: list[tuple[int, str]]) -> Path:
    lines = []
    for n, calls in enumerate(checks):
        lines.append(f'{WORKER} chdir("/.check/m/c{n}") = -1 ENOENT (No such file or directory)')
        lines += [f"{pid} {call}" for pid, call in calls]
    path.write_text("\n".join(lines) + "\n")
    return path


def look(product: Path, reference: Path, counts: tuple[int, int, int, int] | None = None, **task: object) -> EyeReport:
    """The witness's report; every PROOF in it must re-open."""
    loaded = trees.loaded(**task)
    report = runtime.witness([product], [reference], counts, loaded)
    evidence = Evidence(
        loaded, product.parent, product.parent, traces=(product,), state_a_traces=(reference,), memorisation=counts
    )
    for finding in report.findings:
        if finding.strength is Strength.PROOF:
            assert why_refused(finding, report.eye, evidence) == ""
    return report


def test_what_rust_programs_do_is_no_finding(tmp_path: Path) -> None:
    report = look(write(tmp_path / "s", START + RUST, START), write(tmp_path / "a", START, START))
    assert report.status == "looked" and report.findings == ()
    assert report.covered["checks"] == "2" and report.covered["lines"] == str(2 + 2 * len(START) + len(RUST))


@pytest.mark.parametrize("name", ACTS)
def test_acts_that_prove(name: str, tmp_path: Path) -> None:
    kind, call = ACTS[name]
    product = write(tmp_path / "s", START, [*START, *RUST, (CHILD, call)])
    report = look(product, write(tmp_path / "a", START, START))
    assert [(f.kind, f.strength) for f in report.findings] == [(kind, Strength.PROOF)]
    anchor = report.findings[0].anchor
    assert isinstance(anchor, TraceAnchor) and product.read_text().split("\n")[anchor.line - 1] == anchor.quote
    # State A's same program does it too: nothing to hold against the submission
    assert look(product, write(tmp_path / "a", [*START, (PROGRAM, call)], START)).findings == ()


def test_a_product_library_that_is_mapped_as_code_twice_proves(tmp_path: Path) -> None:
    state_a = write(tmp_path / "a", START, START)
    assert look(write(tmp_path / "s", [*START, *LIBRARY], [*START, *LIBRARY]), state_a).findings == ()
    twice = look(write(tmp_path / "t", [*START, *LIBRARY, *LIBRARY], START), state_a)
    assert [f.kind for f in twice.findings] == ["runtime-exec-memory"]


@pytest.mark.parametrize("name", LEADS)
def test_acts_that_are_leads(name: str, tmp_path: Path) -> None:
    kind, call = LEADS[name]
    report = look(write(tmp_path / "s", [*START, (PROGRAM, call)]), write(tmp_path / "a", START))
    assert [(f.kind, f.strength) for f in report.findings] == [(kind, Strength.LEAD)]


def test_another_program_of_state_a_is_no_excuse(tmp_path: Path) -> None:
    call = (PROGRAM, ACTS["another library"][1])
    driver = [(PROGRAM, START[0][1].replace("bin/pack", "drivers/drive")), *START[1:], call]
    report = look(write(tmp_path / "s", driver, [*START, call]), write(tmp_path / "a", driver, START))
    assert len(report.findings) == 1 and "/product/bin/pack" in report.findings[0].why


def test_a_task_may_declare_what_is_otherwise_proof(tmp_path: Path) -> None:
    product = write(tmp_path / "s", [*START, *((PROGRAM, ACTS[x][1]) for x in ("late code", "another library"))])
    reference = write(tmp_path / "a", START)
    assert len(look(product, reference).findings) == 2
    libraries = ("libc.so.6", "/usr/lib/x86_64-linux-gnu/libbz2.so.1.0")
    runtime_of = trees.make_task().runtime.__class__(libraries, deny_exec_memory=False)
    assert look(product, reference, runtime=runtime_of).findings == ()


def test_the_workers_own_lines_are_not_the_products(tmp_path: Path) -> None:
    product = write(tmp_path / "s", START)
    product.write_text(product.read_text() + f'{WORKER} chdir("/.check/m/c1") {NO}\n{WORKER} open("/bin/sh", 0) {NO}\n')
    assert look(product, write(tmp_path / "a", START, START)).findings == ()


def test_a_product_cannot_end_its_check_by_pretending_to_be_the_worker(tmp_path: Path) -> None:
    fake = [(PROGRAM, f'chdir("/.check/m/zz") {NO}'), (PROGRAM, ACTS["a shell"][1])]
    report = look(write(tmp_path / "s", START + fake), write(tmp_path / "a", START))
    assert [f.kind for f in report.findings] == ["runtime-exec"] and report.covered["checks"] == "1"


def test_without_comparable_traces_the_witness_is_lost(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    full, longer = write(tmp_path / "a", START), write(tmp_path / "s", START, START)
    assert look(empty, full).status == "lost"
    assert look(longer, full).status == "lost" and look(full, longer).status == "looked"
    with pytest.raises(HarnessError, match="missing"):
        runtime.witness([tmp_path / "none"], [full], None, trees.loaded())
    with pytest.raises(HarnessError, match="named alike"):
        runtime.witness([full, full], [full], None, trees.loaded())


def test_lines_that_are_not_understood_are_told(tmp_path: Path) -> None:
    product = write(tmp_path / "s", START)
    product.write_text(product.read_text() + "21 openat(AT_FDCWD</work>, nonsense\n")
    assert [f.kind for f in look(product, write(tmp_path / "a", START)).findings] == ["runtime-unread"]


def test_a_trace_that_was_cut_is_told_and_what_is_in_it_counts(tmp_path: Path) -> None:
    product = write(tmp_path / "s", [*START, (PROGRAM, ACTS["a shell"][1])])
    product.write_text(product.read_text() + "the trace was cut here: it had more than 32 MiB\n")
    report = look(product, write(tmp_path / "a", START))
    assert {f.kind: f.why for f in report.findings if f.strength is Strength.LEAD} == {
        "runtime-unread": "s: the trace was cut here: it had more than 32 MiB"
    }
    assert [f.kind for f in report.findings if f.strength is Strength.PROOF] == ["runtime-exec"]
    # a product that says so itself is no tracer: its line begins with its number
    said = write(tmp_path / "t", [*START, (PROGRAM, "the trace was cut here: no")])
    assert [f.why for f in look(said, write(tmp_path / "a", START)).findings] == ["1 lines of t were not understood"]


def test_memorised_answers(tmp_path: Path) -> None:
    product, reference = write(tmp_path / "s", START), write(tmp_path / "a", START)
    report = look(product, reference, (2, 3000, 190, 200))
    assert [(f.kind, f.anchor) for f in report.findings] == [
        ("answers-memorised", StatAnchor("memorisation", (2, 3000, 190, 200)))
    ]
    assert look(product, reference, (2850, 3000, 190, 200)).findings == ()
    assert look(product, reference, (0, 3000, 0, 200)).findings == ()


def test_debug_files_beside_libraries_are_no_libraries(tmp_path: Path) -> None:
    calls = [(PROGRAM, f'{AT}"/lib/x86_64-linux-gnu/libc.so.6.dwp", O_RDONLY) {NO}'),
             (PROGRAM, f'{AT}"/usr/lib/libgcc_s.so.1.debug", O_RDONLY) {NO}')]  # fmt: skip
    assert look(write(tmp_path / "s", START + calls), write(tmp_path / "a", START)).findings == ()


def test_an_act_that_is_repeated_is_told_once(tmp_path: Path) -> None:
    calls = [(PROGRAM, ACTS["a shell"][1])] * 50
    assert len(look(write(tmp_path / "s", START + calls), write(tmp_path / "a", START)).findings) == 1


HONEST = "int main(void) { return 0; }\n"
DELEGATES = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int n, char **v)
{
   if (n < 2) return 0;
   system("bzip2 -d");
   dlopen("libbz2.so.1.0", RTLD_NOW);
   memfd_create("x", 0);
   mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   return 0;
}
"""


@pytest.mark.skipif(
    not all(map(shutil.which, ("bwrap", "strace", "gcc"))), reason="bwrap, strace and gcc make the trace"
)
def test_the_sandboxs_own_traces_show_what_was_refused(tmp_path: Path) -> None:
    sandbox = BubblewrapSandbox()
    libraries = tuple(find_library(name) for name in ("ld-linux-x86-64.so.2", "libc.so.6"))
    for side, text in (("s", DELEGATES), ("a", HONEST)):
        trees.lay(tmp_path, {f"{side}/bin/none": "", f"{side}.c": text})
        argv = ["gcc", "-O1", str(tmp_path / f"{side}.c"), "-o", str(tmp_path / side / "bin/pack"), "-ldl"]
        subprocess.run(argv, check=True)
        spec = WorkerSpec(tmp_path / side, libraries, Limits(), trace=tmp_path / f"{side}.trace")
        with sandbox.open_worker(spec) as worker:
            for n, args in enumerate(((), (b"x",))):
                assert worker.observe(Check(f"m/c{n}", "m", "process", "bin/pack", (b"pack", *args))).ended == "exit"
    report = look(tmp_path / "s.trace", tmp_path / "a.trace")
    assert {f.kind for f in report.findings} == {"runtime-exec", "runtime-foreign-library", "runtime-exec-memory"}
    assert sum(f.kind == "runtime-exec-memory" for f in report.findings) == 2
    assert look(tmp_path / "a.trace", tmp_path / "a.trace").findings == ()
